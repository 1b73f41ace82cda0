-- What the studies share: their words on the command line, the worlds that they look at, figures
-- over seeds, the table and its CSV.
local fopo = require "fopo"
local report = fopo.report
local study = {suffix = ""} -- of the CSV's name: a quick run leaves the others' files alone

-- Reads "quick", "name=value" and paths of files into a copy of `defaults`. quick = {...} replaces
-- defaults by smaller ones. A list is written "a,b,c". Returns the options and the files.
function study.options(defaults, quick)
  local o, files = {}, {}
  for name, value in pairs(defaults) do o[name] = value end
  local function misuse(...)
    io.stderr:write(arg[0], ": ", string.format(...), "\n")
    os.exit(2)
  end
  local function read(word, like)
    if type(like) == "table" then
      local list = {}
      for one in word:gmatch("[^,]+") do list[#list + 1] = tonumber(one) or one end
      return list
    end
    if type(like) == "number" then return tonumber(word) or misuse("%s is no number", word) end
    return word
  end
  for _, word in ipairs(arg) do
    if word == "quick" then
      study.suffix = "_quick"
      for name, value in pairs(quick) do o[name] = value end
    end
  end
  for _, word in ipairs(arg) do
    local name, value = word:match("^([%w_]+)=(.*)$")
    if name and defaults[name] ~= nil then
      o[name] = read(value, defaults[name])
    elseif word ~= "quick" then
      if name then misuse("there is no option %s; see the head of the script", name) end
      files[#files + 1] = word
    end
  end
  return o, files
end

-- Worlds by name: the made ones, and files. scale multiplies their sizes; users=, items= and
-- clusters= take their places.
local made = {
  narrow = {users = 12000, items = 20000, clusters = 200, tastes = 2, mean_items = 40},
  wide = {users = 12000, items = 60000, clusters = 300, tastes = 4, mean_items = 50, noise = 0.1},
  large = {users = 100000, items = 790000, clusters = 2000, tastes = 4, mean_items = 50},
}

-- {name, split, items, index}: a split of the world's sessions, its SVD embeddings and the exact
-- index over them. name: narrow, wide, large or the path of a file.
function study.world(name, o)
  local d
  if made[name] then
    local options = {seed = 11}
    for key, value in pairs(made[name]) do
      local size = key == "users" or key == "items" or key == "clusters"
      options[key] = size and (o[key] or math.max(20, math.floor(value * o.scale))) or value
    end
    d = fopo.data.synthetic(options)
  else
    d = fopo.data.read(name)
  end
  local split = d:sessions{min_items = o.min_items or 20, valid = 0, test = 0.3, seed = 5}
  local items = fopo.embed.svd(split.train, {dim = o.dim})
  return {name = name:match("([^/]+)/[^/]+%.gz$") or name:match("[^/]+$"), split = split,
          items = items, index = fopo.index.norm(items)}
end

function study.trainer(world, gradient, o)
  local pi = fopo.policy.linear{items = world.items, theta = "random", seed = o.seed,
                                rows = o.rows}
  return fopo.trainer{policy = pi, data = world.split.train, gradient = gradient, batch = 32,
                      optim = fopo.optim.adam{lr = o.lr}, seed = o.seed}
end

-- Trains for so many seconds by the wall, or, with o.clock = "cpu", for so many of the processor's
-- by one thread, which other work on the machine hardly changes. Returns what was used.
function study.train(t, seconds, o)
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

-- Mean and its standard error; 0 where there is one value.
function study.mean(list)
  local n, sum, squares = #list, 0, 0
  for _, x in ipairs(list) do sum = sum + x end
  for _, x in ipairs(list) do squares = squares + (x - sum / n) ^ 2 end
  return sum / n, n > 1 and math.sqrt(squares / (n - 1) / n) or 0
end

-- ---- the table and its CSV ----

local function quoted(value)
  local s = math.type(value) == "float" and ("%.9g"):format(value) or tostring(value)
  return s:find('[,"\n]') and '"' .. s:gsub('"', '""') .. '"' or s
end

-- Rows are tables by column name. The first lines are comments: the command and the machine.
function study.csv(name, columns, rows)
  assert(os.execute("mkdir -p runs"))
  local path = ("runs/%s%s.csv"):format(name, study.suffix)
  local f <close> = assert(io.open(path, "w"))
  f:write(("# %s %s\n# fopo %s, kernels %s, %d threads\n"):format(arg[0], table.concat(arg, " "),
    fopo.version, (fopo.isa()), fopo.threads()))
  f:write(table.concat(columns, ","), "\n")
  for _, row in ipairs(rows) do
    local line = {}
    for i, column in ipairs(columns) do line[i] = quoted(row[column]) end
    f:write(table.concat(line, ","), "\n")
  end
  print("kept in " .. path)
end

function study.print(title, rows)
  print("\n" .. title .. "\n" .. report.table(rows) .. "\n")
  io.stdout:flush()
end

return study
