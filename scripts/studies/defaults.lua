-- What governs how good a policy gets: the defaults, and each setting moved away from them.
--
--   ./fopo scripts/studies/defaults.lua [FILE ...] [quick] [name=value ...]
--
-- Cost: about an hour on one core for the nine worlds of docs/defaults.md.
--
-- Worlds: synthetic ones (narrow, wide and large of scripts/studies/common.lua, at `scale` of their
-- size) and each FILE that fopo.data.read knows. Of each the users with `min_items` items are split
-- 60 : 10 : 30 into train, valid and test; one policy is trained for each setting and seed, with
-- the same number of steps, and judged on the test part as it is after the step that was best on
-- the valid part, the start included, by the reward (greedy) or by the expected reward:
--
--   reward          1[best item in Y]: by the best valid reward
--   unseen          the same without the items of X, which a server leaves out
--   expected        sum over Y of pi(a | x): by the best valid expected reward
--   rises           in how many worlds the mean over the seeds is above that of the start
--
-- "start" is the untrained policy of the defaults, "popular" recommends the most frequent items.
--
-- Options (defaults):
--   steps=1000 records=8 dim=100 k=128 tail=128 budget=8192   of all settings
--   scale=0.15 (of the synthetic worlds) min_items=10 seeds=1,2,3 worlds=narrow,wide,large
--   settings= (names of settings, separated by commas; all of them if empty)
-- All rows are kept in runs/defaults.csv, figures of the learning rate and of the temperature in
-- runs/defaults_lr.svg and runs/defaults_effective.svg (quick: ..._quick.csv and ..._quick.svg).
local fopo = require "fopo"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local o = study.options(
  {steps = 1000, records = 8, dim = 100, k = 128, tail = 128, budget = 8192, scale = 0.15,
   min_items = 10, seeds = {1, 2, 3}, worlds = {"narrow", "wide", "large"}, settings = {}},
  {steps = 30, records = 2, dim = 8, k = 20, tail = 20, scale = 0.02, seeds = {1},
   worlds = {"narrow"}})

local function cosine(lr) return {lr = lr, schedule = fopo.schedule.cosine{steps = o.steps}} end

-- 1 for the items of X as well as for those of Y.
local function reward_of_seen(sessions)
  local taken = {}
  for n = 1, sessions.n do
    taken[n] = {}
    for _, ids in ipairs{sessions:x(n), sessions:y(n)} do
      for j = 1, ids.cols do taken[n][ids:get(1, j)] = true end
    end
  end
  return fopo.reward.custom(function(ids, rows)
    local values = fopo.array.zeros(ids.rows, ids.cols)
    for b = 1, ids.rows do
      local row = taken[rows:get(1, b)]
      for j = 1, ids.cols do
        if row[ids:get(b, j)] then values:set(b, j, 1) end
      end
    end
    return values
  end)
end

-- What differs from the defaults: of fopo.embed.svd, fopo.policy.linear, fopo.optim.adam,
-- fopo.trainer, and the reward.
local settings = {
  {"defaults"},
  {"scale none", embed = {scale = "none"}},
  {"scale sigma", embed = {scale = "sigma"}},
  {"dim 32", embed = {dim = 32}},
  {"mean contexts", policy = {contexts = "mean"}},
  {"random theta", policy = {theta = "random"}},
  {"temperature 1", policy = {temperature = 1.0}},
  {"effective 0.001", policy = {effective = 0.001}},
  {"effective 0.1", policy = {effective = 0.1}},
  {"effective 0.5", policy = {effective = 0.5}},
  {"lr 1e-4", optim = {lr = 1e-4}},
  {"lr 3e-4", optim = {lr = 3e-4}},
  {"lr 3e-3", optim = {lr = 3e-3}},
  {"lr 1e-2", optim = {lr = 1e-2}},
  {"lr 3e-3, cosine", optim = cosine(3e-3)},
  {"lr 1e-2, cosine", optim = cosine(1e-2)},
  {"warm-up", optim = {schedule = fopo.schedule.constant{warmup = o.steps // 10}}},
  {"decay 0.1", optim = {weight_decay = 0.1, decoupled = true}},
  {"clip 0.01", optim = {clip = 0.01}},
  {"batch 8", trainer = {batch = 8}},
  {"batch 128", trainer = {batch = 128}},
  {"seen rewarded", reward = reward_of_seen},
  {"the paper's", embed = {preset = "paper"}, policy = {preset = "paper"},
   optim = {preset = "paper"}},
}

local function with(defaults, changed)
  local merged = {}
  for key, value in pairs(defaults) do merged[key] = value end
  for key, value in pairs(changed or {}) do merged[key] = value end
  return merged
end

-- ---- one run ----

-- The reward, that without seen items, and the expected reward on the test part.
local function judge(who, split)
  local e = fopo.evaluate(who, split.test, {k = 1, expected_contexts = 1000, exclude = "none"})
  local unseen = fopo.evaluate(who, split.test, {k = 1, exclude = "seen", expected = false})
  return {reward = e.reward, unseen = unseen.reward, expected = e.expected, distinct = e.distinct,
          effective = e.effective}
end

-- Trains and notes the parameters of the best validations, of the start to begin with.
local function train(t)
  local best = {valid = {-1}, valid_expected = {-1}}
  local function note(column, value)
    if value > best[column][1] then best[column] = {value, t.policy:theta(), t.step} end
  end
  local start = fopo.evaluate(t.policy, t.valid, {k = 1, expected_contexts = 1000})
  note("valid", start.reward)
  note("valid_expected", start.expected)
  t:run{steps = o.steps, every = o.steps // o.records, keep_best = false, view = false,
        on_record = function(_, n)
          note("valid", t.history.valid[n])
          note("valid_expected", t.history.valid_expected[n])
        end}
  return best
end

-- Embeddings of a seed's split and an index over them; those of the defaults are made once.
local function embedded(world, seed, changed)
  local known = world.embedded[seed]
  if known and not changed then return known[1], known[2] end
  local items = fopo.embed.svd(world.splits[seed].train, with({dim = o.dim}, changed))
  local index = fopo.index.norm(items, {budget = math.min(o.budget, items.rows)})
  if not changed then world.embedded[seed] = {items, index} end
  return items, index
end

local function run(world, seed, setting)
  local split = world.splits[seed]
  local items, index = embedded(world, seed, setting.embed)
  local k = math.min(o.k, items.rows // 4)
  local pi = fopo.policy.linear(with({items = items, seed = seed}, setting.policy))
  local t = fopo.trainer(with({policy = pi, data = split.train, valid = split.valid, seed = seed,
    reward = setting.reward and setting.reward(split.train),
    gradient = fopo.gradient.head_tail{index = index, k = k, tail = o.tail},
    optim = fopo.optim.adam(with({}, setting.optim))}, setting.trainer))
  local best = train(t)
  pi:set_theta(best.valid_expected[2])
  local by_expected = judge(pi, split)
  pi:set_theta(best.valid[2])
  local row = judge(pi, split)
  row.step, row.step_expected = best.valid[3], best.valid_expected[3]
  row.expected, row.effective = by_expected.expected, by_expected.effective
  row.reward_by_expected = by_expected.reward
  return row
end

-- ---- all of them ----

local columns = {"world", "setting", "seed", "reward", "unseen", "expected", "distinct",
                 "effective", "step", "step_expected", "reward_by_expected"}
local results = {}

local function add(world, setting, seed, row)
  row.world, row.setting, row.seed = world.name, setting, seed
  results[#results + 1] = row
end

local function chosen()
  local wanted, list = {}, {}
  for _, name in ipairs(o.settings) do wanted[name] = true end
  for _, setting in ipairs(settings) do
    if #o.settings == 0 or wanted[setting[1]] then list[#list + 1] = setting end
  end
  return list
end

local function study_world(name)
  local world = study.dataset(name, o)
  world.splits, world.embedded = {}, {}
  for _, seed in ipairs(o.seeds) do
    local split = world.dataset:sessions{min_items = o.min_items, valid = 0.1, test = 0.3,
                                         seed = seed}
    world.splits[seed] = split
    add(world, "popular", seed, judge(fopo.baseline.popular{data = split.train}, split))
    add(world, "start", seed, judge(fopo.policy.linear{items = (embedded(world, seed))}, split))
  end
  for _, setting in ipairs(chosen()) do
    for _, seed in ipairs(o.seeds) do add(world, setting[1], seed, run(world, seed, setting)) end
    study.keep("defaults", columns, results)
  end
  return world.name
end

-- ---- the table and the figure ----

-- The mean of a column over the seeds, of one world and setting.
local function mean(world, setting, column)
  return (study.mean_of(study.where(results, {world = world, setting = setting}), column))
end

-- The mean over the worlds, and in how many of them it is above that of the start.
local function over_worlds(worlds, setting, column)
  local list, above = {}, 0
  for i, world in ipairs(worlds) do
    list[i] = mean(world, setting, column)
    if list[i] > mean(world, "start", column) then above = above + 1 end
  end
  return (study.mean(list)), above
end

local worlds, names = {}, {"popular", "start"}
for _, setting in ipairs(chosen()) do names[#names + 1] = setting[1] end
for i, name in ipairs(o.worlds) do worlds[i] = study_world(name) end

local shown = {{"setting", "reward", "rises", "unseen", "rises", "expected", "rises"}}
for _, name in ipairs(names) do
  local row = {name}
  for _, column in ipairs{"reward", "unseen", "expected"} do
    local value, above = over_worlds(worlds, name, column)
    local learns = name ~= "start" and name ~= "popular"
    row[#row + 1] = ("%.4f"):format(value)
    row[#row + 1] = learns and ("%d of %d"):format(above, #worlds) or ""
  end
  shown[#shown + 1] = row
end
study.print(("means over %d worlds, seeds %s, %d steps"):format(#worlds,
  table.concat(o.seeds, ", "), o.steps), shown)

for _, column in ipairs{"reward", "unseen", "expected"} do
  local by_world = {{column, table.unpack(worlds)}}
  for _, name in ipairs(names) do
    local row = {name}
    for i, world in ipairs(worlds) do row[i + 1] = ("%.4f"):format(mean(world, name, column)) end
    by_world[#by_world + 1] = row
  end
  study.print(column .. " by world, means over the seeds", by_world)
end

-- A figure of the settings that differ in one number: {number, name of the setting}.
local function figure(name, label, points)
  local curves = {title = "Test reward, mean over the worlds", logx = true, xlabel = label,
                  ylabel = "reward"}
  for _, column in ipairs{"reward", "unseen", "expected"} do
    local curve = {name = column, x = {}, y = {}}
    for _, point in ipairs(points) do
      local value = over_worlds(worlds, point[2], column)
      if value == value then
        curve.x[#curve.x + 1], curve.y[#curve.y + 1] = point[1], value
      end
    end
    if #curve.x < 2 then return end
    curves[#curves + 1] = curve
  end
  study.draw(name, curves)
end

figure("defaults_lr", "learning rate",
       {{1e-4, "lr 1e-4"}, {3e-4, "lr 3e-4"}, {1e-3, "defaults"}, {3e-3, "lr 3e-3"},
        {1e-2, "lr 1e-2"}})
figure("defaults_effective", "items in effect at the start, share of the catalogue",
       {{0.001, "effective 0.001"}, {0.01, "defaults"}, {0.1, "effective 0.1"},
        {0.5, "effective 0.5"}})
print("kept in " .. study.keep("defaults", columns, results))
