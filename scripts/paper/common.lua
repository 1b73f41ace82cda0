-- What the paper's experiments share: options, the CSV of each world, runs that resume, progress,
-- tables and figures.
--
-- Options of every experiment, as name=value (docs/paper and the heads of the scripts have more):
--   scale=small      full: the paper's sizes and settings; small: a twin of 1 %, minutes; tiny: a
--                    second, for tests
--   data=DIR         holds full_a.csv (Twitch) or goodreads_interactions.csv; without it the worlds
--                    are synthetic twins of `fraction` of their size
--   worlds=twitch,goodreads    or files of interactions by path; FILE ... adds to them
--   seeds=1,2,3      of theta, the order of contexts and the draws; the split is the same
--   lr=0             0: the world's own (twitch and files 1e-4, goodreads 5e-5)
--   out=runs/paper   the folder of CSV and figures
--   threads=0        0: all
--
-- The CSV: <out>/<experiment>-<world>.csv. Lines that begin with # say the machine and the settings
-- that hold for all rows. Then a head and one row a record of a run; an empty field does not apply.
--   experiment, world, items (P), contexts (N, training), test (sessions)      the world
--   method, dim (L), embedding (none, sqrt, sigma), temperature, lr, k, samples, epsilon, index,
--   learnt (yes: the items too), seed                                          the configuration
--   epoch, step, seconds (of training), ms_step                                how far
--   reward, low, high      the paper's R_test by true argmax, with its 95 % interval over sessions
--   expected, effective    expected reward, and items that the softmax chooses from in effect; of
--                          the last record of a run only
-- A run is one configuration. Its rows are added when it has ended, by writing the file anew and
-- renaming it; a run of more than a minute is kept as <out>/<experiment>-<world>.part.npz and
-- .part.csv meanwhile. An experiment that was stopped goes on from there; with other settings it
-- refuses, so one file never mixes them. Rewards depend on data, settings and seed alone.
local fopo = require "fopo"
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
package.path = here .. "?.lua;" .. here .. "../tools/?.lua;" .. package.path
local script = require "script"
local methods = require "methods"
local worlds = require "worlds"

local paper = {methods = methods, worlds = worlds, interval = script.interval,
               read = script.read_csv}

local configuration = {"method", "dim", "embedding", "temperature", "lr", "k", "samples", "epsilon",
                       "index", "learnt", "seed"}
local columns = {"experiment", "world", "items", "contexts", "test"}
table.move(configuration, 1, #configuration, #columns + 1, columns)
table.move({"epoch", "step", "seconds", "ms_step", "reward", "low", "high", "expected",
            "effective"}, 1, 9, #columns + 1, columns)
paper.columns = columns

-- ---- options

local common = {
  full = {scale = "full", data = "", fraction = 1, worlds = {"twitch", "goodreads"},
          out = "runs/paper", seeds = {1, 2, 3}, lr = 0, batch = 32, min_items = 20, split_seed = 1,
          embedding = "none", temperature = 1, k = 256, samples = 1000, epsilon = 0.8,
          index = "hnsw", threads = 0},
  small = {scale = "small", fraction = 0.01, worlds = {"twitch"}, lr = 1e-3, index = "norm"},
  tiny = {scale = "tiny", fraction = 0.0008, worlds = {"twitch"}, lr = 1e-2, k = 20, samples = 50,
          index = "norm", seeds = {1, 2, 3}},
}

-- The options of an experiment. full, small and tiny are its own defaults at these scales, on top
-- of those above and each on top of full.
function paper.options(full, small, tiny)
  local scale = "small"
  for _, word in ipairs(arg) do scale = word:match("^scale=(.*)") or scale end
  local own = {full = {}, small = small, tiny = tiny}
  if not own[scale] then script.misuse("scale is full, small or tiny, not %s", scale) end
  local defaults = {}
  for _, part in ipairs{common.full, full, common[scale], own[scale]} do
    for name, value in pairs(part) do defaults[name] = value end
  end
  local o, files = script.options(defaults)
  table.move(files, 1, #files, #o.worlds + 1, o.worlds)
  if not worlds.indexes[o.index] then script.misuse("index is norm or hnsw, not %s", o.index) end
  if o.threads > 0 then fopo.threads(o.threads) end
  return o
end

-- ---- the CSV of a world

local file = {}
file.__index = file

local function key_of(c)
  local parts = {}
  for i, name in ipairs(configuration) do
    local v = c[name]
    parts[i] = type(v) == "number" and ("%.9g"):format(v) or tostring(v or "")
  end
  return table.concat(parts, "|")
end

-- "# settings name=value ...", sorted, of what holds for all rows.
local function settings_line(e, found, o)
  local list = {}
  for _, name in ipairs(e.settings) do
    local v = o[name]
    list[#list + 1] = name .. "=" .. (type(v) == "number" and ("%.9g"):format(v) or tostring(v))
  end
  for _, name in ipairs{"batch", "min_items", "split_seed"} do
    list[#list + 1] = ("%s=%d"):format(name, o[name])
  end
  table.sort(list)
  return ("# settings %s; %s"):format(found.source, table.concat(list, " "))
end

local function machine_line()
  return ("# fopo %s, kernels %s, %d threads"):format(fopo.version, (fopo.isa()), fopo.threads())
end

local function open(e, found, o)
  local f = setmetatable({start = ("%s/%s-%s"):format(o.out, e.name, found.name), rows = {},
                          done = {}}, file)
  local settings = settings_line(e, found, o)
  local rows, comment = script.read_csv(f.start .. ".csv")
  if rows then
    local before = comment:match("# settings [^\n]*")
    if before ~= settings then
      script.misuse("%s.csv was made with other settings:\n  %s\nand these are\n  %s\n"
        .. "Give out=FOLDER for these, or remove the file", f.start, before or "none", settings)
    end
    f.rows, f.comment = rows, comment
    for _, row in ipairs(rows) do f.done[key_of(row)] = true end
  end
  f.comment = f.comment or ("%s\n%s\n"):format(machine_line(), settings)
  return f
end

function file:add(rows)
  for _, row in ipairs(rows) do
    self.rows[#self.rows + 1] = row
    self.done[key_of(row)] = true
  end
  script.csv(self.start .. ".csv", columns, self.rows, self.comment)
end

-- ---- an unfinished run

local keep = {}
keep.__index = keep

local SECONDS = 60 -- between two writes

local function new_keep(f, key) -- of one configuration
  return setmetatable({start = f.start .. ".part", key = key, last = fopo.clock()}, keep)
end

local records = {"epoch", "step", "seconds", "ms_step", "reward", "low", "high", "expected",
                 "effective"}

-- Takes up the run of this configuration where there is one: its rows up to then.
function keep:resume(t)
  local rows, comment = script.read_csv(self.start .. ".csv")
  if not rows or comment ~= "# " .. self.key .. "\n" then return nil end
  if not pcall(t.resume, t, self.start .. ".npz") then return nil end
  while #rows > 0 and rows[#rows].step > t.step do table.remove(rows) end
  return rows
end

function keep:save(t, rows)
  if fopo.clock() - self.last < SECONDS then return end
  script.csv(self.start .. ".csv", records, rows, "# " .. self.key .. "\n")
  t:save(self.start .. ".npz")
  self.last = fopo.clock()
end

function keep:remove()
  os.remove(self.start .. ".csv")
  os.remove(self.start .. ".npz")
end

-- ---- progress

local function duration(s)
  if s < 90 then return ("%.0f s"):format(s) end
  if s < 5400 then return ("%.0f min"):format(s / 60) end
  return ("%.1f h"):format(s / 3600)
end

local progress = {}
progress.__index = progress

local function new_progress(e, todo)
  return setmetatable({name = e.name, todo = todo, spent = {}, start = fopo.clock(), ended = 0},
                      progress)
end

-- The seconds that a configuration took, or will take like others of its method and dim.
local function class_of(c) return ("%s %s"):format(c.method, c.dim) end

function progress:left(from)
  local total, count = 0, 0
  for _, s in pairs(self.spent) do total, count = total + s[1], count + s[2] end
  if count == 0 then return nil end
  local left = 0
  for i = from, #self.todo do
    local s = self.spent[class_of(self.todo[i])]
    left = left + (s and s[1] / s[2] or total / count)
  end
  return left
end

local function about(c)
  local parts = {c.method}
  for _, name in ipairs{"dim", "epsilon", "k", "samples", "lr", "embedding", "temperature"} do
    parts[#parts + 1] = c[name] and ("%s %s"):format(name, c[name])
  end
  return table.concat(parts, ", ") .. ", seed " .. c.seed
end

local on_terminal = os.execute("test -t 2")

-- One line, replaced by the next, while a run goes on.
function progress:within(c, row, last)
  if not on_terminal then return end
  local share = last and last < math.huge and (" %.0f %%"):format(100 * row.step / last) or ""
  io.stderr:write(("\r\27[K%s: %s:%s, reward %.4f"):format(self.name, about(c), share, row.reward))
end

function progress:one(i, c, seconds, row)
  local s = self.spent[class_of(c)] or {0, 0}
  self.spent[class_of(c)] = {s[1] + seconds, s[2] + 1}
  local left = self:left(i + 1)
  io.stderr:write(("%s%s: %d of %d: %s: %s%s, %s left\n"):format(
    on_terminal and "\r\27[K" or "", self.name, i, #self.todo, about(c),
    row.reward and ("reward %.4f, "):format(row.reward) or ("%.3f ms/step, "):format(row.ms_step),
    duration(seconds), duration(left)))
end

-- ---- the experiment

local function complete(rows, e, world, c)
  for _, row in ipairs(rows) do
    row.experiment, row.world = e.name, world.name
    row.items, row.contexts, row.test = world.train.n_items, world.train.n, world.test.n
    for _, name in ipairs(configuration) do row[name] = c[name] end
  end
  return rows
end

-- The configurations of the plan that the file lacks.
local function missing(plan, f)
  local todo = {}
  for _, c in ipairs(plan) do
    if not f.done[key_of(c)] then todo[#todo + 1] = c end
  end
  return todo
end

-- The rows of the plan's configurations, in its order.
local function chosen(plan, f)
  local by_key, rows = {}, {}
  for _, row in ipairs(f.rows) do
    local key = key_of(row)
    by_key[key] = by_key[key] or {}
    table.insert(by_key[key], row)
  end
  for _, c in ipairs(plan) do
    for _, row in ipairs(by_key[key_of(c)] or {}) do rows[#rows + 1] = row end
  end
  return rows
end

local function run_missing(e, found, f, todo, o)
  local world, shown = worlds.open(found, o), new_progress(e, todo)
  for i, c in ipairs(todo) do
    local start, kept = fopo.clock(), new_keep(f, key_of(c))
    local rows = (e.train or methods.train)(world, c, o, kept, function(row, last)
      shown:within(c, row, last)
    end, f)
    f:add(complete(rows, e, world, c))
    kept:remove()
    shown:one(i, c, fopo.clock() - start, rows[#rows])
  end
end

-- Runs an experiment {name=, settings=, plan=, show=, train=} in each world. plan(o, found) lists
-- the configurations; train(world, c, o, keep, said, file) gives the rows of one, by default
-- methods.train; show(rows, o, title) prints the table and returns curves for the figure.
-- settings names the options that are not columns but change the rows.
function paper.run(e, o)
  for _, name in ipairs(o.worlds) do
    local found = worlds.find(name, o)
    local own = setmetatable({lr = o.lr > 0 and o.lr or found.lr}, {__index = o})
    local f, plan = open(e, found, o), e.plan(own, found)
    local todo = missing(plan, f)
    io.stderr:write(("%s on %s (%s): %d runs, %d of them kept in %s.csv\n"):format(e.name,
      found.name, found.source, #plan, #plan - #todo, f.start))
    if #todo > 0 then run_missing(e, found, f, todo, own) end
    paper.show(e, found, chosen(plan, f), own, f.start)
  end
end

-- ---- tables and figures

-- The rows for which all of `where` holds.
function paper.where(rows, where)
  local list = {}
  for _, row in ipairs(rows) do
    local fits = true
    for name, value in pairs(where) do fits = fits and row[name] == value end
    if fits then list[#list + 1] = row end
  end
  return list
end

-- The different values of a column, in the order of the rows.
function paper.values(rows, column)
  local list, known = {}, {}
  for _, row in ipairs(rows) do
    local v = row[column]
    if v ~= nil and not known[v] then list[#list + 1], known[v] = v, true end
  end
  return list
end

-- The last record of each run among the rows.
function paper.last(rows)
  local last, list = {}, {}
  for _, row in ipairs(rows) do
    local key = key_of(row)
    if not last[key] then list[#list + 1] = key end
    if not last[key] or row.step > last[key].step then last[key] = row end
  end
  for i, key in ipairs(list) do list[i] = last[key] end
  return list
end

-- Mean and half width of the 95 % interval over the rows (seeds) of a column.
function paper.over_seeds(rows, column)
  local list = {}
  for i, row in ipairs(rows) do list[i] = row[column] end
  return script.interval(list)
end

-- "0.1234 +- 0.0012", the mean of a column and its 95 % interval; of one row the value alone.
function paper.cell(rows, column, form)
  if #rows == 0 then return "" end
  local mean, half = paper.over_seeds(rows, column)
  return form:format(mean) .. (#rows > 1 and (" +- " .. form):format(half) or "")
end

-- A curve over the values of column x, with the interval over the seeds of column y.
function paper.curve(name, rows, x, y)
  local curve = {name = name, x = {}, y = {}, low = {}, high = {}}
  local at = paper.values(rows, x)
  table.sort(at)
  for i, value in ipairs(at) do
    local mean, half = paper.over_seeds(paper.where(rows, {[x] = value}), y)
    curve.x[i], curve.y[i], curve.low[i], curve.high[i] = value, mean, mean - half, mean + half
  end
  return curve
end

-- Reward against epochs, one curve a label; label(row) names the curve of a row.
function paper.curves(rows, label, x)
  local groups, names = {}, {}
  for _, row in ipairs(rows) do
    local name = label(row)
    if not groups[name] then groups[name], names[#names + 1] = {}, name end
    table.insert(groups[name], row)
  end
  local curves = {xlabel = x or "epoch", ylabel = "reward"}
  for i, name in ipairs(names) do
    curves[i] = paper.curve(name, groups[name], x or "epoch", "reward")
  end
  return curves
end

local function figure(path, curves)
  if not os.execute("command -v gnuplot >/dev/null") then
    return print("no figure " .. path .. ": gnuplot is not installed")
  end
  fopo.plot.save(path, curves)
  print("drawn in " .. path)
end

-- Prints what e.show makes of the rows, and draws its curves.
function paper.show(e, found, rows, o, start)
  local first = rows[1]
  local title = ("%s on %s (%s): %d items, %d contexts, %d test sessions, seeds %s"):format(e.title,
    found.name, found.source, first.items, first.contexts, first.test,
    table.concat(o.seeds, ", "))
  local lines, curves, note = e.show(rows, o)
  print(("\n%s\n%s\n%s"):format(title, fopo.report.table(lines), note or ""))
  if curves and #curves > 0 then
    curves.title = curves.title or ("%s, %s"):format(e.title, found.name)
    figure(start .. ".svg", curves)
  end
  print("kept in " .. start .. ".csv")
  io.stdout:flush()
end

return paper
