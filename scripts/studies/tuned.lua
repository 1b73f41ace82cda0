-- What fopo.tune ends with beside the defaults, on test users, where data are few and messy.
--
--   ./fopo scripts/studies/tuned.lua [FILE ...] [quick] [name=value ...]
--
-- Cost: some minutes for a small file.
--
-- Each FILE that fopo.data.read knows is split once for each seed. fopo.tune{data = s.train}
-- chooses on the valid part, and its policy is compared with that of the defaults, trained for as
-- many steps, on the test part with seen items left out: the difference over the contexts of all
-- splits, with its 95 % interval.
-- Without a FILE a messy one is made of datasets/sample.csv, runs/messy.csv: 150 of its users,
-- three rows in ten twice, times of three kinds, spaces, and lines of another shape.
--
-- Options (defaults): by=greedy,expected,ndcg@10 seeds=1,2,3,4,5 tries=1 (seeds of a trial)
--   dim=64 trials=18 steps=300 min_items=5
local fopo = require "fopo"
local validation = require "fopo.run.validation"
package.path = (arg[0]:match("^(.*/)") or "./") .. "../tools/?.lua;" .. package.path
local script = require "script"

local o, files = script.options(
  {by = {"greedy", "expected", "ndcg@10"}, seeds = {1, 2, 3, 4, 5}, tries = 1, dim = 64,
   trials = 18, steps = 300, min_items = 5},
  {by = {"greedy"}, seeds = {1}, dim = 8, trials = 3, steps = 9})

local function messy(path)
  local rows, n = {"user, item, timestamp"}, 0
  local times = {"%d", "%d.5", ""}
  for user, item in io.open("datasets/sample.csv"):read("a"):gmatch("(user%d+),(%w+)") do
    if tonumber(user:match("%d+")) <= 150 then
      n = n + 1
      local row = ("%s%s,%s,%s"):format(n % 7 == 0 and " " or "", user, item,
                                        times[n % 3 + 1]:format(1600000000 + n * 7919 % 99991))
      for _ = 1, n % 10 < 3 and 2 or 1 do rows[#rows + 1] = row end
      if n % 101 == 0 then rows[#rows + 1] = user end
    end
  end
  local f = io.open(path, "w")
  f:write(table.concat(rows, "\n"), "\n")
  f:close()
  return path
end

-- Arrays of one row, one behind another.
local function joined(arrays)
  local all = {}
  for _, a in ipairs(arrays) do table.move(a:totable()[1], 1, a.cols, #all + 1, all) end
  return fopo.array.from{all}
end

if #files == 0 then files[1] = messy("runs/messy.csv") end
for _, path in ipairs(files) do
  local d = fopo.data.read(path, {skip_errors = true})
  print(d)
  for _, by in ipairs(o.by) do
    local tuned, defaults, kept = {}, {}, 0
    for _, seed in ipairs(o.seeds) do
      local s = d:sessions{min_items = o.min_items, seed = seed}
      local found = fopo.tune{data = s.train, by = by, seed = seed, seeds = o.tries, dim = o.dim,
                              trials = o.trials, steps = o.steps, view = false}
      local items = fopo.embed.svd(s.train, {dim = math.min(o.dim, s.train.n, d.n_items)})
      local pi = fopo.policy.linear{items = items, seed = seed}
      local t = fopo.trainer{policy = pi, data = s.train, seed = seed,
                             batch = math.min(32, s.train.n)}
      t:run{steps = o.steps, view = false, best_by = by}
      t.valid = s.test
      tuned[#tuned + 1] = validation.each(t, found.best.policy, by)
      defaults[#defaults + 1] = validation.each(t, pi, by)
      kept = kept + (found.best.options.default and 1 or 0)
    end
    local a, b = joined(tuned), joined(defaults)
    print(("%s: tuned %.4f, defaults %.4f, difference %s; kept %d of %d"):format(by, a:mean(),
      b:mean(), script.difference(a, b), kept, #o.seeds))
  end
end
