-- Is the policy any good? The learnt policies beside what a recommender engineer would try first,
-- on the same split and by the same measures:
--
--   popular, item-kNN, EASE, ALS     fopo.baseline; EASE where its P x P weights fit
--   start                            the untrained policy: theta is the identity, scale "sqrt"
--   REINFORCE, uniform, mixture      the paper's, from its random theta and raw singular vectors
--   defaults                         what fopo does if nothing is said: head and tail, scale
--                                    "sqrt", theta from the identity, the best parameters by
--                                    validation
--   exact best                       the defaults with the exact gradient, best by validation
--   exact converged                  the same until its training reward stands still: what the
--                                    estimators approximate, and no early stopping
--
--   ./fopo scripts/paper/baselines.lua [FILE ...] [scale=small|full|tiny] [data=DIR]
--          [name=value ...]
--
-- Cost: a minute at scale=small on two cores; at full the exact gradient is left out.
--
-- Measured are R_test, the paper's reward (all items may be recommended, also those of X, which
-- earn nothing), recall@20 and NDCG@20; "unseen" are the same with the items of X left out, as a
-- recommender in service would. Intervals: over the test sessions for what has no seed (95 %), else
-- over the seeds.
--
-- Options (scripts/paper/common.lua has those of all experiments):
--   methods=...              the list above
--   dim=100 epochs=50        of the trained policies
--   exact_epochs=0 exact_seeds=1    of the exact gradient: 0 leaves it out; the first seeds only,
--                            as the order of the contexts is all that a seed changes
--   ease_items=12000         above so many items EASE is left out: 4 P^2 bytes, P^3 multiply-adds
--   l2=300                   of EASE
local paper = dofile((arg[0]:match("^(.*/)") or "./") .. "common.lua")
local fopo = require "fopo"
local methods = require "methods"

local order = {"popular", "item-kNN", "EASE", "ALS", "start", "REINFORCE", "uniform", "mixture",
               "defaults", "exact best", "exact converged"}

-- ---- what is measured

local function put(row, name, value, interval)
  row[name], row[name .. "_low"], row[name .. "_high"] = value, interval[1], interval[2]
end

-- A row of the table for a baseline or a policy.
local function measured(world, who, t)
  local k = math.min(20, world.test.n_items)
  local all = fopo.evaluate(who, world.test, {k = {1, k}, exclude = "none"})
  local unseen = fopo.evaluate(who, world.test, {k = {1, k}, exclude = "seen"})
  local row = {reward = all.reward, low = all.low, high = all.high, expected = all.expected,
               effective = all.effective, seconds = t and t.seconds,
               step = t and t.step, epoch = t and t.step / t.steps_per_epoch,
               ms_step = t and t.step > 0 and 1e3 * t.seconds / t.step or nil}
  put(row, "recall20", all.recall[k], all.interval.recall[k])
  put(row, "ndcg20", all.ndcg[k], all.interval.ndcg[k])
  put(row, "unseen_reward", unseen.reward, {unseen.low, unseen.high})
  put(row, "unseen_recall20", unseen.recall[k], unseen.interval.recall[k])
  put(row, "unseen_ndcg20", unseen.ndcg[k], unseen.interval.ndcg[k])
  return row
end

-- ---- what is compared

local untrained = {
  popular = function(world) return fopo.baseline.popular{data = world.train} end,
  ["item-kNN"] = function(world) return fopo.baseline.item_knn{data = world.train} end,
  EASE = function(world, _, o) return fopo.baseline.ease{data = world.train, l2 = o.l2} end,
  ALS = function(world, c)
    return fopo.baseline.als{data = world.train, dim = c.dim, seed = c.seed}
  end,
  start = function(world, c)
    return fopo.baseline.identity{items = world:items(c.dim, c.embedding), seen = "keep"}
  end,
}

local function default_trainer(world, c, o, gradient, valid)
  local pi = fopo.policy.linear{items = world:items(c.dim, c.embedding), data = world.train,
                                seen = "keep"} -- items of X in, and the split as it is
  return fopo.trainer{policy = pi, data = world.train, gradient = gradient, seed = c.seed,
                      preset = "paper",
                      batch = o.batch, valid = valid,
                      optim = fopo.optim.adam{lr = c.lr}}
end

local CHECK = 5     -- epochs between two looks at the training reward
local STILL = 0.005 -- growth, as a share of it, below which it stands still

-- Runs until the training reward stands still twice in a row, at most `epochs`.
local function converge(t, epochs)
  local before, still = -1, 0
  for _ = 1, math.ceil(epochs / CHECK) do
    t:run{epochs = CHECK, every = CHECK * t.steps_per_epoch, view = false}
    local reward = t.history.reward[#t.history.reward]
    still = reward < before * (1 + STILL) and still + 1 or 0
    before = math.max(before, reward)
    if still == 2 then return end
  end
end

local trained = {
  defaults = function(world, c, o)
    local t = default_trainer(world, c, o, nil, world.split.valid)
    t:run{epochs = o.epochs, every = t.steps_per_epoch, view = false}
    return t
  end,
  ["exact best"] = function(world, c, o)
    local t = default_trainer(world, c, o, fopo.gradient.exact{}, world.split.valid)
    t:run{epochs = o.exact_epochs, every = t.steps_per_epoch, patience = 10, view = false}
    return t
  end,
  ["exact converged"] = function(world, c, o)
    local t = default_trainer(world, c, o, fopo.gradient.exact{}, false)
    converge(t, o.exact_epochs)
    return t
  end,
}

local function papers(world, c, o)
  local t = methods.trainer(world, c, o)
  t:run{epochs = o.epochs, every = o.epochs * t.steps_per_epoch, view = false}
  return t
end

local function train(world, c, o)
  local make = untrained[c.method]
  if make then
    if c.method == "EASE" and world.train.n_items > o.ease_items then return {} end
    local start = fopo.clock()
    local who = make(world, c, o)
    local seconds, row = fopo.clock() - start, measured(world, who)
    row.seconds = seconds
    return {row}
  end
  if not trained[c.method] and not methods.gradient[c.method] then
    require("script").misuse("there is no method %s", c.method)
  end
  local t = (trained[c.method] or papers)(world, c, o)
  return {measured(world, t.policy, t)}
end

-- ---- the plan and the table

-- Of the methods without draws, and of ALS, one run is shown.
local alone = {popular = true, ["item-kNN"] = true, EASE = true, ALS = true, start = true}

local function configuration(own, method, seed)
  if methods.gradient[method] then return paper.configuration(own, method, {seed = seed}) end
  local c = {method = method, seed = seed}
  if method == "ALS" then c.dim = math.min(64, own.dim) end
  if method == "start" or trained[method] then c.dim, c.embedding = own.dim, "sqrt" end
  if trained[method] then c.lr = method == "defaults" and 1e-3 or 1e-2 end
  return c
end

local function plan(own)
  local list = {}
  for _, method in ipairs(own.methods) do
    local most = alone[method] and 1 or #own.seeds
    if method:find("^exact") then most = own.exact_epochs > 0 and own.exact_seeds or 0 end
    for i = 1, math.min(most, #own.seeds) do
      list[#list + 1] = configuration(own, method, own.seeds[i])
    end
  end
  return list
end

-- The figure has eight colours.
local drawn = {popular = true, ["item-kNN"] = true, EASE = true, ALS = true, start = true,
               mixture = true, defaults = true, ["exact best"] = true}

local function points(name, rows)
  local curve = {name = name, x = {}, y = {}}
  for i, row in ipairs(rows) do
    curve.x[i], curve.y[i] = row.unseen_reward, row.unseen_recall20
  end
  return curve
end

local function show(rows)
  local figure = {xlabel = "reward, items of X left out",
                  ylabel = "recall@20, items of X left out", style = "points"}
  for _, method in ipairs(order) do
    local those = paper.where(rows, {method = method})
    if #those > 0 and drawn[method] then figure[#figure + 1] = points(method, those) end
  end
  return figure
end

local columns = paper.tables
return paper.experiment{
  name = "baselines", title = "Beside baselines",
  full = {dim = 100, epochs = 50, exact_epochs = 0, exact_seeds = 1, ease_items = 12000, l2 = 300,
          methods = order},
  small = {dim = 50, epochs = 6, exact_epochs = 30},
  tiny = {dim = 8, epochs = 2, exact_epochs = 3},
  settings = {"epochs", "exact_epochs", "ease_items", "l2"},
  keys = {columns.method, columns.L},
  values = {columns.reward, columns.value("recall@20", "recall20", "%.4f"),
            columns.value("NDCG@20", "ndcg20", "%.4f"),
            columns.value("R, unseen", "unseen_reward", "%.4f"),
            columns.value("unseen recall@20", "unseen_recall20", "%.4f"),
            columns.mean("seconds", "seconds", "%.1f")},
  plan = plan, show = show, train = train,
}
