-- What the studies share: their options, the worlds that they train on, their sweeps, the table and
-- its CSV.
local fopo = require "fopo"
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
package.path = here .. "../tools/?.lua;" .. package.path
local script = require "script"

local report = fopo.report
local study = setmetatable({suffix = ""}, {__index = script}) -- suffix: of the CSV's name

-- The options, and the files that the command line names. In o.worlds, if there is such an option,
-- the files follow the worlds. A quick run writes a CSV of its own.
function study.options(defaults, quick)
  local o, files, is_quick = script.options(defaults, quick)
  if is_quick then study.suffix = "_quick" end
  if o.worlds then table.move(files, 1, #files, #o.worlds + 1, o.worlds) end
  for _, size in ipairs{"users", "items", "clusters"} do
    if o[size] == 0 then o[size] = nil end -- 0: the world's own size
  end
  return o, files
end

-- The synthetic worlds by name. scale multiplies their sizes; users=, items= and clusters= replace
-- them.
local synthetic = {
  narrow = {users = 12000, items = 20000, clusters = 200, tastes = 2, mean_items = 40},
  wide = {users = 12000, items = 60000, clusters = 300, tastes = 4, mean_items = 50, noise = 0.1},
  large = {users = 100000, items = 790000, clusters = 2000, tastes = 4, mean_items = 50},
}

-- {name, dataset}: a world of that name, narrow, wide or large, or the file at that path.
function study.dataset(name, o)
  if not synthetic[name] then
    return {name = name:match("([^/]+)/[^/]+%.gz$") or name:match("[^/]+$"),
            dataset = fopo.data.read(name)}
  end
  local options = {seed = 11}
  for key, value in pairs(synthetic[name]) do
    local size = key == "users" or key == "items" or key == "clusters"
    options[key] = size and (o[key] or math.max(20, math.floor(value * o.scale))) or value
  end
  return {name = name, dataset = (fopo.data.synthetic(options))}
end

-- {name, split, items, index}: a split of the world's sessions, its SVD embeddings and an exact
-- index over them.
function study.world(name, o)
  local world = study.dataset(name, o)
  local split = world.dataset:sessions{min_items = o.min_items or 20, valid = 0, test = 0.3,
                                       seed = 5}
  local items = fopo.embed.svd(split.train, {dim = o.dim, scale = o.singular})
  return {name = world.name, split = split, items = items, index = fopo.index.norm(items)}
end

function study.trainer(world, gradient, o)
  return script.trainer(world.items, world.split.train, gradient, o)
end

-- The mean and its standard error of one column of rows, tables by column name.
function study.mean_of(rows, column)
  local list = {}
  for i, row in ipairs(rows) do list[i] = row[column] end
  return script.mean(list)
end

-- "name=value ...", sorted, of the options that are no list.
local function words_of(o)
  local words = {}
  for name, value in pairs(o) do
    if type(value) ~= "table" then words[#words + 1] = ("%s=%s"):format(name, value) end
  end
  table.sort(words)
  return table.concat(words, " ")
end

-- The sweep of a study in each of o.worlds, in runs/NAME/WORLD; prints what it found. s: over,
-- seeds, measures and against of fopo.experiment.sweep; run(world, c); world(name, o), study.world
-- if left out; title(world), a line above the table.
function study.sweep(name, o, s)
  for _, given in ipairs(#s.over > 0 and s.over or {s.over}) do given.options = words_of(o) end
  for _, place in ipairs(o.worlds) do
    local world = (s.world or study.world)(place, o)
    local found = fopo.experiment.sweep{over = s.over, seeds = s.seeds or o.seeds,
      measures = s.measures, against = s.against,
      out = ("runs/%s%s/%s"):format(name, study.suffix, world.name),
      run = function(c) return s.run(world, c) end}
    print(("\n%s\n%s\n"):format(s.title and s.title(world) or world.name, found))
  end
end

-- ---- the table and its CSV ----

-- Rows are tables by column name. The first lines are comments: the command and the machine.
-- Returns the path.
function study.keep(name, columns, rows)
  local path = ("runs/%s%s.csv"):format(name, study.suffix)
  study.csv(path, columns, rows, ("# %s %s\n# fopo %s, kernels %s, %d threads\n"):format(arg[0],
    table.concat(arg, " "), fopo.version, (fopo.isa()), fopo.threads()))
  return path
end

function study.print(title, rows)
  print("\n" .. title .. "\n" .. report.table(rows) .. "\n")
  io.stdout:flush()
end

return study
