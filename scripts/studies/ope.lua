-- Estimators of fopo.ope against the truth, and learning from a log that hardly explores, in made
-- worlds of decisions.
--
--   ./fopo scripts/studies/ope.lua [quick] [name=value ...]
--
-- Cost: some minutes. A million actions: twelve seconds of CPU time a log of 1,000 events.
--
-- judge: `logs` worlds of `actions` actions, each with a log of n events, of which a share eps is
-- uniform and the rest shows the k best by the logging policy's own taste. The policy is sharper
-- and knows the world. A cell is the root mean square error, and the bias behind it, over the
-- worlds; "bound" rows say how often the lower bound holds and how far below the truth it lies in
-- the mean. mips and offcem have `groups` clusters of the items, and what the log's policy gives
-- each; clipped_ips and clipped_dr have tau = `clip`.
--
-- learn: a policy with a vector for each action (identity items) is learnt from half of a log by
-- IPS, clipped IPS, self-normalised IPS (of batches of 250), doubly robust, and by logarithmic
-- smoothing, whose lambda is that of `lambdas` with the largest lower bound on the other half, at a
-- level that allows for choosing; by smoothing also over the features of the items. What each earns
-- more than the logging policy is the truth, on new contexts, in the mean over `seeds` worlds, with
-- 95 % intervals.
--
-- obp: the estimators that the Open Bandit Pipeline has too, of the same logs, probabilities and
-- model (what each action earned in the log, shrunk to the mean), in one run: a cell is the error
-- and bias by obp and by fopo, and the largest difference of two values. PYTHON= names an
-- interpreter with obp; without it the part is skipped.
--
-- Options (defaults):
--   parts=judge,learn,obp threads=2
--   logs=50 actions=500 groups=20 sizes=1000,10000 shares=1,0.1,0.01 clip=0.005
--   seeds=20 events=2000 epochs=60 lambdas=0.03,0.1,0.3,1,3 small=50 (actions of learn)
local fopo = require "fopo"
local native = require "fopo.native"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local o = study.options(
  {parts = {"judge", "learn", "obp"}, threads = 2, logs = 50, actions = 500, groups = 20,
   sizes = {1000, 10000}, shares = {1, 0.1, 0.01}, clip = 0.005, seeds = 20, events = 2000,
   epochs = 60, lambdas = {0.03, 0.1, 0.3, 1, 3}, small = 50},
  {logs = 4, actions = 60, sizes = {300}, shares = {0.1}, seeds = 4, events = 600, epochs = 20})
fopo.threads(o.threads)

local function mean_and_rmse(list)
  local sum, squares = 0, 0
  for _, v in ipairs(list) do sum, squares = sum + v, squares + v * v end
  return sum / #list, math.sqrt(squares / #list)
end

-- ---- judge

-- Errors by estimator of one cell; "ls bound" holds what the bound lies below the truth.
local function errors_of(n, share)
  local names, errors = {}, {}
  local function add(name, error)
    if not errors[name] then names[#names + 1], errors[name] = name, {} end
    table.insert(errors[name], error)
  end
  for seed = 1, o.logs do
    local lg, world = fopo.data.synthetic_logs{n = n, actions = o.actions, dim = 8, k = 20,
                                               epsilon = share, seed = seed}
    local pi = fopo.policy.linear{items = lg:items(), theta = "identity", temperature = 0.5}
    local groups = fopo.index.clusters(lg:items(), {clusters = o.groups}):groups()
    local truth = world:value(pi)
    local e = fopo.ope(pi, lg, {clip = o.clip, model = "ridge", groups = groups, bootstrap = 0,
                                logging = world:groups(groups, lg)})
    for _, one in ipairs(e.estimators) do add(one, e[one].value - truth) end
    add("SLOPE's choice", e[e.chosen].value - truth)
    for _, one in ipairs{"ix", "ls"} do add(one .. " bound", truth - e[one].bound) end
  end
  return names, errors
end

local function judge()
  local shown, line = {{"estimator"}}, {}
  for _, n in ipairs(o.sizes) do
    for _, share in ipairs(o.shares) do
      table.insert(shown[1], ("n=%d, eps=%g"):format(n, share))
      local names, errors = errors_of(n, share)
      for _, name in ipairs(names) do
        if not line[name] then
          line[name] = {name}
          shown[#shown + 1] = line[name]
        end
        local bias, rmse = mean_and_rmse(errors[name])
        if name:find(" bound") then
          local holds = 0
          for _, gap in ipairs(errors[name]) do holds = holds + (gap >= 0 and 1 or 0) end
          table.insert(line[name], ("%d of %d, %.3f"):format(holds, o.logs, bias))
        else
          table.insert(line[name], ("%.4f (%+.4f)"):format(rmse, bias))
        end
      end
    end
  end
  study.print(("error and (bias) of the value of a policy, %d worlds of %d actions"):format(
    o.logs, o.actions), shown)
end

-- ---- learn

-- A policy learnt from `train` by this objective of this reward, over these items or the identity.
local function learnt(train, objective, reward, items)
  items = items or fopo.array.eye(o.small)
  local pi = fopo.policy.linear{items = items, theta = fopo.array.zeros(train.dim, items.cols),
                                context_dim = train.dim}
  local t = fopo.trainer{policy = pi, data = train, reward = reward,
    batch = math.min(250, train.n), optim = fopo.optim.adam{lr = 0.05},
    gradient = fopo.gradient.exact{objective = objective}}
  t:run{epochs = o.epochs, view = false}
  return pi
end

-- The policy of the largest bound on `held` of those learnt with each lambda, and the bound.
local function pessimistic(train, held, items)
  local best, bound = nil, -math.huge
  for _, lambda in ipairs(o.lambdas) do
    local rw = fopo.reward.ips{logs = train, smoothing = lambda}
    local pi = learnt(train, "smoothed", rw, items)
    local e = fopo.ope(pi, held, {estimators = {"ls"}, bootstrap = 0,
                                  level = 1 - 0.05 / #o.lambdas})
    if e.ls.bound > bound then best, bound = pi, e.ls.bound end
  end
  return best, bound
end

-- The policies of one world by name, and smoothing's bound.
local function policies_of(train, held)
  local list, ips = {}, fopo.reward.ips
  list.ips = learnt(train, "reward", ips{logs = train})
  list["clipped ips"] = learnt(train, "reward", ips{logs = train, clip = 1 / o.small})
  list.snips = learnt(train, "snips", ips{logs = train})
  list["doubly robust"] = learnt(train, "reward", fopo.reward.doubly_robust{logs = train})
  local smoothing, bound = pessimistic(train, held)
  list.smoothing = smoothing
  list["smoothing, item features"] = pessimistic(train, held, train:items())
  return list, bound
end

local function learn()
  local gain, held_bound = {}, {}
  for seed = 1, o.seeds do
    local lg, world = fopo.data.synthetic_logs{n = o.events, actions = o.small, dim = 8, k = 20,
      epsilon = 0.05, skill = 0.8, sharpness = 3, bias = -2, slope = 2, seed = seed}
    local train, held = lg:split{train = 0.5, seed = seed}
    local contexts = world:contexts(2000, 7)
    local logging, list, bound = world:logging(contexts), policies_of(train, held)
    for name, pi in pairs(list) do
      gain[name] = gain[name] or {}
      local value = world:value(pi, {contexts = contexts})
      table.insert(gain[name], value - logging)
      if name == "smoothing" then table.insert(held_bound, value - bound) end
    end
  end
  local shown = {{"learnt by", "more than the logging policy", "95 %", "worlds where more"}}
  for _, name in ipairs{"ips", "clipped ips", "snips", "doubly robust", "smoothing",
                         "smoothing, item features"} do
    local mean, half = study.interval(gain[name])
    local more = 0
    for _, g in ipairs(gain[name]) do more = more + (g > 0 and 1 or 0) end
    table.insert(shown, {name, ("%+.3f"):format(mean),
      ("%+.3f .. %+.3f"):format(mean - half, mean + half),
      ("%d of %d"):format(more, o.seeds)})
  end
  study.print(("learnt from %d events, %d actions, 5 %% of them uniform"):format(
    o.events // 2, o.small), shown)
  local holds = 0
  for _, gap in ipairs(held_bound) do holds = holds + (gap >= 0 and 1 or 0) end
  print(("what smoothing learnt earns at least its bound, of the other half of the log, in %d of "
    .. "%d"):format(holds, o.seeds))
end

-- ---- beside obp

local shared = {"ips", "snips", "dm", "dr", "dros"}
local SHRINKAGE = 30 -- lambda of dros

-- The value of what each action is, as an array [1, actions].
local function means_of(lg)
  local actions, rewards, sum, count = lg:actions(), lg:rewards(), {}, {}
  for i = 1, lg.n do
    local a = actions:get(1, i)
    sum[a], count[a] = (sum[a] or 0) + rewards:get(1, i), (count[a] or 0) + 1
  end
  local row = {}
  for a = 1, o.actions do row[a] = ((sum[a] or 0) + lg.mean_reward) / ((count[a] or 0) + 1) end
  return row
end

-- The values by fopo of one log, whose arrays are left in the folder for obp, less the truth.
local function leave_log(folder, n, share, seed)
  local lg, world = fopo.data.synthetic_logs{n = n, actions = o.actions, dim = 8, k = 20,
                                             epsilon = share, seed = seed}
  local pi = fopo.policy.linear{items = lg:items(), theta = "identity", temperature = 0.5}
  local given = pi:queries(lg:contexts()):matmul(pi:items(), false, true):softmax("rows")
  local row = means_of(lg)
  local function model(ids)
    local values = fopo.array.zeros(ids.rows, ids.cols)
    for i = 1, ids.rows do
      for j = 1, ids.cols do values:set(i, j, row[ids:get(i, j)]) end
    end
    return values
  end
  assert(native.make_folder(folder))
  for name, array in pairs{pi = given, action = lg:actions(), reward = lg:rewards(),
                           pscore = lg:propensities(), more = fopo.array.from{{SHRINKAGE}},
                           model = fopo.array.zeros(n, o.actions) + fopo.array.from{row}} do
    array:save(folder .. "/" .. name .. ".npy")
  end
  local e = fopo.ope(given, lg, {estimators = shared, model = model, shrinkage = SHRINKAGE,
                                 bootstrap = 0})
  local values = {}
  for i, name in ipairs(shared) do values[i] = e[name].value end
  return values, world:value(pi)
end

local function beside_obp()
  local root, n = os.tmpname(), o.sizes[1]
  os.remove(root)
  local folders, logs = {}, {}
  for _, share in ipairs(o.shares) do
    for seed = 1, o.logs do
      local folder = ("%s/%d"):format(root, #folders + 1)
      local values, truth = leave_log(folder, n, share, seed)
      folders[#folders + 1] = folder
      logs[#logs + 1] = {ours = values, truth = truth, share = share}
    end
  end
  local pipe = io.popen(("%s %sope_obp.py %s"):format(study.python,
    arg[0]:match("^(.*/)") or "./", table.concat(folders, " ")))
  local version = pipe:read("l")
  for _, log in ipairs(logs) do
    local line = pipe:read("l")
    log.theirs = {}
    for value in (line or ""):gmatch("%S+") do table.insert(log.theirs, tonumber(value)) end
  end
  local done, _, code = pipe:close()
  os.execute("rm -r " .. root)
  if not done then
    assert(code == 77, version)
    return print("skip: " .. version)
  end
  local shown = {{"estimator"}}
  for i, name in ipairs(shared) do shown[i + 1] = {name} end
  for _, share in ipairs(o.shares) do
    table.insert(shown[1], ("eps=%g: obp; fopo; differ by"):format(share))
    for i in ipairs(shared) do
      local theirs, ours, most = {}, {}, 0
      for _, log in ipairs(study.where(logs, {share = share})) do
        table.insert(theirs, log.theirs[i] - log.truth)
        table.insert(ours, log.ours[i] - log.truth)
        most = math.max(most, math.abs(log.theirs[i] - log.ours[i]))
      end
      local bias, rmse = mean_and_rmse(theirs)
      local own_bias, own_rmse = mean_and_rmse(ours)
      table.insert(shown[i + 1], ("%.4f (%+.4f); %.4f (%+.4f); %.1g"):format(rmse, bias, own_rmse,
                                                                             own_bias, most))
    end
  end
  study.print(("%s beside fopo: error and (bias), %d logs of %d events, %d actions"):format(
    version, o.logs, n, o.actions), shown)
end

local parts = {judge = judge, learn = learn, obp = beside_obp}
for _, part in ipairs(o.parts) do parts[part]() end
