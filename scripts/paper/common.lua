-- What the paper's experiments share: options, the sweep of each world, tables and figures.
--
-- Options of every experiment, as name=value (docs/paper and the heads of the scripts have more):
--   scale=small      full: the paper's sizes and settings; small: a twin of 1 %, minutes; tiny: a
--                    second, for tests
--   data=DIR         holds full_a.csv (Twitch) or goodreads_interactions.csv; without it the worlds
--                    are synthetic twins of `fraction` of their size
--   worlds=twitch,goodreads    or files of interactions by path; FILE ... adds to them
--   seeds=1,2,3      of theta, the order of contexts, the draws, and the split of the users
--   split_seed=0     0: each seed has the split of its own number; else one split for all
--   test=0.1         share of the users, for the test and as much for validation; more of a small
--                    file, whose test has few sessions
--   lr=0             0: the world's own (twitch and files 1e-4, goodreads 5e-5); at small 2.5e-2,
--                    with which 20 epochs go as far as the paper's 50: steps x lr, which bounds how
--                    far Adam moves a parameter, is 62.5 on Twitch (50 epochs of 400,000 contexts,
--                    32 a step), and 18.75 on GoodReads (240,000 contexts)
--   out=FOLDER       of results and figures; runs/paper/SCALE if left out
--   threads=0        0: all
--   run=yes          no: runs nothing, and shows what the table has of the plan
--   power_iterations=4    of the singular vectors
--   index=hnsw       of the candidates: the authors' graph with M = 32; norm, the default below
--                    full, searches exactly
--
--   jobs=1           runs at once, in processes of their own (small: 2); not where times are
--                    compared
--
-- Each experiment in a world is a sweep (fopo.experiment.sweep) in <out>/<experiment>-<world>/,
-- with its figure. Its results.csv has a line for each run; an empty field does not apply:
--   world, source (of its data), experiment
--   settings               that hold for all runs of the experiment in the world
--   method, dim (L), embedding (none, sqrt, sigma), temperature, lr, k, samples, epsilon, index,
--   learnt (yes: the items too), seed                                          the configuration
--   items (P), contexts (N, training), test (sessions), machine
-- and lists of numbers with spaces between them, one for each record of the run; a shorter list is
-- that of the last records:
--   epoch, step, seconds (of training), ms_step                                how far
--   reward, low, high      the paper's R_test by true argmax, with its 95 % interval over sessions
--   expected, effective    expected reward, and items that the softmax chooses from in effect, in
--                          the median context
--   valid, valid_expected  both rewards on the validation sessions, by which settings are chosen
--   cosine, recall20 ...   what single experiments measure
-- An unfinished run is kept once a minute (keep=60). An experiment that was stopped goes on from
-- there; with other settings it refuses, so one folder never mixes them. Rewards depend on data,
-- settings and seed alone.
local fopo = require "fopo"
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
package.path = here .. "?.lua;" .. here .. "../tools/?.lua;" .. package.path
local csv = require "fopo.base.csv"
local kept = require "kept"
local methods = require "methods"
local script = require "script"
local shown = require "shown"
local tables = require "tables"
local worlds = require "worlds"

local paper = {methods = methods, configuration = methods.configuration, grid = methods.grid,
               mixtures = methods.mixtures, tables = tables}
for name, f in pairs(shown) do paper[name] = f end

-- ---- options

local common = {
  full = {scale = "full", data = "", fraction = 1, worlds = {"twitch", "goodreads"},
          out = "", seeds = {1, 2, 3}, lr = 0, batch = 32, min_items = 20, test = 0.1,
          split_seed = 0, embedding = "none", power_iterations = 4, temperature = 1, k = 256,
          samples = 1000, epsilon = 0.8, index = "hnsw", threads = 0, keep = 60, run = true,
          jobs = 1},
  small = {scale = "small", fraction = 0.01, worlds = {"twitch"}, lr = 2.5e-2, index = "norm",
           seeds = {1, 2, 3, 4, 5}, jobs = 2},
  tiny = {scale = "tiny", fraction = 0.0008, worlds = {"twitch"}, lr = 1e-2, k = 20, samples = 50,
          index = "norm", seeds = {1, 2, 3}},
}

-- The options of an experiment. Its full, small and tiny are its own defaults at these scales, on
-- top of those above and each on top of full.
local function options(e)
  local scale = "small"
  for _, word in ipairs(arg) do scale = word:match("^scale=(.*)") or scale end
  if not common[scale] then script.misuse("scale is full, small or tiny, not %s", scale) end
  local defaults = {}
  local above = scale == "full" and {} or common[scale]
  for _, part in ipairs{common.full, e.full, above, e[scale]} do
    for name, value in pairs(part) do defaults[name] = value end
  end
  local o, files = script.options(defaults)
  table.move(files, 1, #files, #o.worlds + 1, o.worlds)
  if o.out == "" then o.out = "runs/paper/" .. scale end
  if not worlds.indexes[o.index] then script.misuse("index is norm or hnsw, not %s", o.index) end
  if o.threads > 0 then fopo.threads(o.threads) end
  return o
end

-- ---- the experiment

-- "name=value ...", sorted, of what holds for all rows.
local function settings_of(e, o)
  local list = {}
  for _, name in ipairs(e.settings) do
    local v = o[name]
    list[#list + 1] = name .. "=" .. (type(v) == "number" and ("%.9g"):format(v) or tostring(v))
  end
  for _, name in ipairs{"batch", "min_items", "power_iterations", "split_seed", "test"} do
    list[#list + 1] = ("%s=%g"):format(name, o[name])
  end
  table.sort(list)
  return table.concat(list, " ")
end

-- The configurations of a plan with what holds for all of them; with run=no those that the folder
-- has. Ends the program if the folder has rows of other settings.
local function complete(e, found, plan, o, folder)
  local all = {world = found.name, source = found.source, experiment = e.name,
               settings = settings_of(e, o)}
  local path, known, list = folder .. "/results.csv", {}, {}
  for _, row in ipairs((csv.read(path)) or {}) do
    if row.source ~= all.source or row.settings ~= all.settings then
      script.misuse("%s in %s was made with other settings:\n  %s; %s\nand these are\n  %s; %s\n"
        .. "Give out=FOLDER for these, or remove its rows", e.name, path, row.source, row.settings,
        all.source, all.settings)
    end
    known[kept.key(row)] = true
  end
  for _, c in ipairs(plan) do
    for name, value in pairs(all) do c[name] = value end
    if o.run or known[kept.key(c)] then list[#list + 1] = c end
  end
  if #list == 0 then script.misuse("%s has none of these runs", path) end
  return list
end

local function records_of(rows)
  local list = {}
  for _, row in ipairs(rows) do
    local some = kept.records(row)
    table.move(some, 1, #some, #list + 1, list)
  end
  return list
end

-- A function of a seed: the world by its split, of which the last one is kept.
local function opener(found, o)
  local world, last
  return function(seed)
    local split = o.split_seed > 0 and o.split_seed or seed
    if split ~= last then
      world = nil
      collectgarbage()
      world, last = worlds.open(found, o, split), split
    end
    return world
  end
end

-- The sweep of an experiment in a world.
local function sweep(e, found, o, folder)
  local world_of = opener(found, o)
  if o.jobs > 1 and o.run then world_of(o.seeds[1]) end -- once for the processes of that seed
  return fopo.experiment.sweep{
    over = complete(e, found, e.plan(o, found), o, folder), out = folder, report = false,
    measures = {e.measure or "reward"}, jobs = o.jobs,
    run = function(c, my)
      local world = world_of(c.seed)
      local function said(record, last)
        local share = last < math.huge and ("%.0f %%, "):format(100 * record.step / last) or ""
        my.say(("%sreward %.4f"):format(share, record.reward))
      end
      local row = kept.row((e.train or methods.train)(world, c, o, methods.keep(my, o.keep), said,
                                                      records_of(my.rows)))
      row.items, row.contexts, row.test = world.train.n_items, world.train.n, world.test.n
      return row
    end}
end

-- Prints the table of the rows of an experiment, and draws the curves that e.show makes of them.
local function show(e, found, rows, o, folder)
  local first = rows[1]
  local title = ("%s on %s (%s): %d items, %d contexts, %d test sessions, seeds %s"):format(e.title,
    found.name, found.source, first.items, first.contexts, first.test,
    table.concat(paper.values(rows, "seed"), ", "))
  if e.prepare then e.prepare(rows) end
  local curves, note = e.show(rows, o)
  local lines = tables.of(e, rows)
  print(("\n%s\n%s\n%s"):format(title, fopo.report.table(lines), note or ""))
  local path = folder .. "/figure.svg"
  if shown.figure(path, e, found.name, curves) then print("drawn in " .. path) end
  print("kept in " .. folder)
  io.stdout:flush()
end

local function run_worlds(e, o)
  for _, name in ipairs(o.worlds) do
    local found = worlds.find(name, o)
    local own = setmetatable({lr = o.lr > 0 and o.lr or found.lr, whole = e.whole}, {__index = o})
    local folder = ("%s/%s-%s"):format(o.out, e.name, found.name)
    local swept = sweep(e, found, own, folder)
    if swept.interrupted then
      io.stderr:write("\nstopped; the same command goes on from here\n")
      os.exit(130, true)
    end
    for _, row in ipairs(swept.failed) do
      io.stderr:write(("%s, seed %d failed: %s\n"):format(row.method, row.seed, row.error))
    end
    if #swept.failed > 0 then os.exit(1, true) end
    show(e, found, records_of(swept.rows), own, folder)
  end
end

-- Runs an experiment in each world, if it is the script of the command line, and returns it:
--   name, title
--   full, small, tiny    its own options and their defaults at these scales
--   settings             names of the options that change the rows and are no columns
--   plan(o, found)       lists the configurations
--   train(world, c, o, keep, said, rows)    the rows of one, given those of the table;
--                        methods.train if left out
--   measure              what is said of a run that has ended; reward if left out
--   whole                true: all records have the expected reward, not the last alone
--   prepare(rows)        adds columns to the rows before they are shown
--   keys, values         the columns of its table (tables.lua); values: tables.by_epoch if left out
--   show(rows, o)        the curves of the figure, and lines below the table
function paper.experiment(e)
  if arg[0]:match("([^/]+)%.lua$") ~= e.name then return e end
  run_worlds(e, options(e))
  return e
end

return paper
