-- What the paper's experiments share: options, the table of results, runs that resume, progress,
-- tables and figures.
--
-- Options of every experiment, as name=value (docs/paper and the heads of the scripts have more):
--   scale=small      full: the paper's sizes and settings; small: a twin of 1 %, minutes; tiny: a
--                    second, for tests
--   data=DIR         holds full_a.csv (Twitch) or goodreads_interactions.csv; without it the worlds
--                    are synthetic twins of `fraction` of their size
--   worlds=twitch,goodreads    or files of interactions by path; FILE ... adds to them
--   seeds=1,2,3      of theta, the order of contexts and the draws; the split is the same
--   test=0.1         share of the users; more of a small file, whose test has few sessions
--   lr=0             0: the world's own (twitch and files 1e-4, goodreads 5e-5)
--   out=FOLDER       of results and figures; runs/paper/SCALE if left out
--   threads=0        0: all
--   run=yes          no: runs nothing, and shows what the table has of the plan
--   power_iterations=4    of the singular vectors
--   index=hnsw       of the candidates: the authors' graph with M = 32; norm, the default below
--                    full, searches exactly
--
-- The table of all results, <out>/results.csv, has a line for each run; an empty field does not
-- apply:
--   world, source (of its data), experiment, items (P), contexts (N, training), test (sessions)
--   machine, settings      that hold for all runs of the experiment in the world
--   method, dim (L), embedding (none, sqrt, sigma), temperature, lr, k, samples, epsilon, index,
--   learnt (yes: the items too), seed                                          the configuration
-- and lists of numbers with spaces between them, one for each record of the run; a shorter list is
-- that of the last records:
--   epoch, step, seconds (of training), ms_step                                how far
--   reward, low, high      the paper's R_test by true argmax, with its 95 % interval over sessions
--   expected, effective    expected reward, and items that the softmax chooses from in effect
--   cosine, recall20 ...   what single experiments measure
-- A run is added when it has ended, by writing the table anew and renaming it; meanwhile it is kept
-- once a minute (keep=60) as <out>/<experiment>-<world>.part.npz and .part.csv. An experiment that
-- was stopped goes on from there; with other settings it refuses, so one folder never mixes them.
-- Rewards depend on data, settings and seed alone.
local fopo = require "fopo"
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
package.path = here .. "?.lua;" .. here .. "../tools/?.lua;" .. package.path
local kept = require "kept"
local methods = require "methods"
local native = require "fopo.native"
local progress = require "progress"
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
          split_seed = 1, embedding = "none", power_iterations = 4, temperature = 1, k = 256,
          samples = 1000, epsilon = 0.8, index = "hnsw", threads = 0, keep = 60, run = true},
  small = {scale = "small", fraction = 0.01, worlds = {"twitch"}, lr = 1e-3, index = "norm"},
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

local function complete(rows, e, world, c)
  for _, row in ipairs(rows) do
    row.experiment, row.world = e.name, world.name
    row.items, row.contexts, row.test = world.train.n_items, world.train.n, world.test.n
    for _, name in ipairs(kept.configuration) do row[name] = c[name] end
  end
  return rows
end

-- The configurations of the plan that the file lacks.
local function missing(plan, f)
  local todo = {}
  for _, c in ipairs(plan) do
    if not f.done[kept.key(c)] then todo[#todo + 1] = c end
  end
  return todo
end

-- The rows of the plan's configurations, in its order.
local function chosen(plan, f)
  local by_key, rows = {}, {}
  for _, row in ipairs(f.rows) do
    local key = kept.key(row)
    by_key[key] = by_key[key] or {}
    table.insert(by_key[key], row)
  end
  for _, c in ipairs(plan) do
    for _, row in ipairs(by_key[kept.key(c)] or {}) do rows[#rows + 1] = row end
  end
  return rows
end

local function run_missing(e, found, f, todo, o)
  local world, line = worlds.open(found, o), progress.new(e, todo)
  for i, c in ipairs(todo) do
    local start, keep = fopo.clock(), kept.run(f, kept.key(c), o.keep)
    local rows = (e.train or methods.train)(world, c, o, keep, function(row, last)
      line:within(c, row, last)
    end, f.rows)
    f:add(complete(rows, e, world, c))
    keep:remove()
    line:one(i, c, fopo.clock() - start, rows[#rows])
  end
end

-- Prints the table of the rows of a file, and draws the curves that e.show makes of them.
local function show(e, found, rows, o, f)
  local first = rows[1]
  if not first then script.misuse("%s has none of these runs", f.path) end
  local title = ("%s on %s (%s): %d items, %d contexts, %d test sessions, seeds %s"):format(e.title,
    found.name, found.source, first.items, first.contexts, first.test,
    table.concat(paper.values(rows, "seed"), ", "))
  if e.prepare then e.prepare(rows) end
  local curves, note = e.show(rows, o)
  local lines = tables.of(e, rows)
  print(("\n%s\n%s\n%s"):format(title, fopo.report.table(lines), note or ""))
  local path = f.start .. ".svg"
  if shown.figure(path, e, found.name, curves) then print("drawn in " .. path) end
  print("kept in " .. f.path)
  io.stdout:flush()
end

local function run_worlds(e, o)
  for _, name in ipairs(o.worlds) do
    local found = worlds.find(name, o)
    local own = setmetatable({lr = o.lr > 0 and o.lr or found.lr, whole = e.whole}, {__index = o})
    local f, plan = kept.open(e, found, o), e.plan(own, found)
    local todo = missing(plan, f)
    io.stderr:write(("%s on %s (%s): %d runs, %d of them kept in %s\n"):format(e.name,
      found.name, found.source, #plan, #plan - #todo, f.path))
    if #todo > 0 and o.run then run_missing(e, found, f, todo, own) end
    show(e, found, chosen(plan, f), own, f)
  end
end

-- Runs an experiment in each world, if it is the script of the command line, and returns it:
--   name, title
--   full, small, tiny    its own options and their defaults at these scales
--   settings             names of the options that change the rows and are no columns
--   plan(o, found)       lists the configurations
--   train(world, c, o, keep, said, rows)    the rows of one, given those of the table;
--                        methods.train if left out
--   whole                true: all records have the expected reward, not the last alone
--   prepare(rows)        adds columns to the rows before they are shown
--   keys, values         the columns of its table (tables.lua); values: tables.by_epoch if left out
--   show(rows, o)        the curves of the figure, and lines below the table
function paper.experiment(e)
  if arg[0]:match("([^/]+)%.lua$") ~= e.name then return e end
  local o = options(e)
  local function inner()
    -- after Ctrl-C no Lua function would run before this one of C
    local _ <close> = setmetatable({}, {__close = native.interrupt_clear})
    run_worlds(e, o)
  end
  local done, why = pcall(inner)
  if done then return e end
  if not tostring(why):find("interrupted", 1, true) then error(why, 0) end
  io.stderr:write("\nstopped; the same command goes on from here\n")
  os.exit(130, true)
end

return paper
