-- What the paper's experiments, studies and benchmarks share: the command line, CSV files, training
-- for a time, and means over seeds.
local csv = require "fopo.base.csv"
local fopo = require "fopo"
local means = require "fopo.base.means"
local native = require "fopo.native"

local script = {}

-- The interpreter for everything that calls Python: PYTHON=, else Debian's, which has the packages.
script.python = os.getenv("PYTHON") or "/usr/bin/python3"

-- Ends the program because of its command line.
function script.misuse(...)
  io.stderr:write(arg[0], ": ", string.format(...), "; see the head of the script\n")
  os.exit(2)
end

-- The text after "name=" in the type of the default: a list is a,b,c and a boolean yes or no.
local function value_of(name, text, default)
  if type(default) == "table" then
    local list = {}
    for one in text:gmatch("[^,]+") do list[#list + 1] = tonumber(one) or one end
    return list
  end
  if type(default) == "number" then
    return tonumber(text) or script.misuse("%s=%s is not a number", name, text)
  end
  if type(default) == "boolean" then
    if text ~= "yes" and text ~= "no" then script.misuse("%s is yes or no, not %s", name, text) end
    return text == "yes"
  end
  return text
end

-- Reads the command line into a copy of `defaults`: name=value sets an option. If `quick` is given,
-- the word quick first replaces defaults by smaller ones. Returns the options, the other words, and
-- whether the run is a quick one.
function script.options(defaults, quick)
  local o, words, is_quick = {}, {}, false
  for name, value in pairs(defaults) do o[name] = value end
  for _, word in ipairs(arg) do
    if word == "quick" and quick then
      is_quick = true
      for name, value in pairs(quick) do o[name] = value end
    end
  end
  for _, word in ipairs(arg) do
    local name, text = word:match("^([%a_][%w_]*)=(.*)$")
    if not name then
      if not (word == "quick" and quick) then words[#words + 1] = word end
    elseif defaults[name] == nil then
      script.misuse("there is no option %s", name)
    else
      o[name] = value_of(name, text, defaults[name])
    end
  end
  return o, words, is_quick
end

-- Seconds as people say them: "40 s", "12 min", "1.5 h".
function script.duration(s)
  if s < 90 then return ("%.0f s"):format(s) end
  if s < 5400 then return ("%.0f min"):format(s / 60) end
  return ("%.1f h"):format(s / 3600)
end

-- The GPU; without one it says so and leaves with 77, by which a test is skipped.
function script.card()
  local ok, card = pcall(native.device, "cuda")
  if ok then return card end
  print("skip: " .. tostring(card):gsub("^.-:%d+: ", ""))
  os.exit(77)
end

-- The paper's estimator, SNIS with the mixture. o: k, epsilon, samples and refresh, if not 256,
-- 0.8, 1000 and 1. Without an index it is that of the norms by mass.
function script.mixture(index, o)
  o = o or {}
  return fopo.gradient.snis{samples = o.samples or 1000, proposal = fopo.proposal.mixture{
    index = index, k = o.k or 256, epsilon = o.epsilon or 0.8, refresh = o.refresh}}
end

-- A trainer with the paper's settings, Adam and no validation. o: rows of the policy; lr, seed,
-- batch and device.
function script.trainer(items, sessions, gradient, o)
  local pi = fopo.policy.linear{items = items, preset = "paper", seed = o.seed, rows = o.rows}
  return fopo.trainer{policy = pi, data = sessions, preset = "paper", gradient = gradient,
                      optim = fopo.optim.adam{lr = o.lr}, batch = o.batch or 32, seed = o.seed,
                      device = o.device or "cpu", valid = false}
end

-- ---- CSV

-- Writes rows, tables by column name, as CSV; a nil becomes an empty field. `comment` comes first.
-- The old file stays until the new one is whole.
function script.csv(path, columns, rows, comment)
  local lines = {comment or "", csv.head(columns)}
  for _, row in ipairs(rows) do lines[#lines + 1] = csv.line(columns, row) end
  assert(native.make_folder(path:match("^(.*)/")))
  assert(native.write_file(path, table.concat(lines)))
end

-- The rows for which all of `where` holds.
function script.where(rows, where)
  local list = {}
  for _, row in ipairs(rows) do
    local fits = true
    for name, value in pairs(where) do fits = fits and row[name] == value end
    if fits then list[#list + 1] = row end
  end
  return list
end

-- Draws curves where gnuplot is; whether it did.
function script.figure(path, curves)
  if not os.execute("command -v gnuplot >/dev/null") then
    print("no figure " .. path .. ": gnuplot is not installed")
    return false
  end
  fopo.plot.save(path, curves)
  return true
end

-- ---- training for a time

-- Trains for so many seconds of wall time; or, with o.clock = "cpu", for so many seconds of CPU
-- time by one thread, which other work on the machine hardly changes. Returns the seconds used.
function script.train(t, seconds, o)
  if o.clock ~= "cpu" then
    local before = t.seconds
    t:run{seconds = seconds, view = false}
    return t.seconds - before
  end
  fopo.threads(1)
  local start, n = os.clock(), 1
  local function used() return os.clock() - start end
  while used() < seconds do
    local before = used()
    t:run{steps = n, every = n, view = false}
    local each = (used() - before) / n
    n = math.max(1, math.min(50, math.floor((seconds - used()) / math.max(each, 1e-6))))
  end
  return used()
end

-- ---- medians, and means over seeds

function script.median(list)
  local s = table.move(list, 1, #list, 1, {})
  table.sort(s)
  local middle = #s // 2
  return #s % 2 == 1 and s[middle + 1] or (s[middle] + s[middle + 1]) / 2
end

script.mean, script.interval = means.of, means.interval

-- "+0.0012 (0.0001, 0.0023)": the mean of array a above that of b, of the same contexts in pairs,
-- and its 95 % interval.
function script.difference(a, b)
  local low, high = native.paired_values(a, b)
  return ("%+.4f (%.4f, %.4f)"):format(a:mean() - b:mean(), low, high)
end

return script
