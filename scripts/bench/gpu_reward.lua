-- Seconds of training on the GPU until 95 % of the reward that the paper's mixture (SNIS, K = 256,
-- eps = 0.8, S = 1000) has there after its last step: ours, and PyTorch's mixture on the same card,
-- from the same theta with the same Adam, on a twin of Twitch. The reward is by true argmax on the
-- test sessions, measured after fixed steps; the seconds are those of the steps alone, and a line
-- with ">" never got there.
--
--   ./fopo scripts/bench/gpu_reward.lua [name=value ...]
--
-- Options (defaults):
--   fraction=0.05   of Twitch: 39,500 items
--   dim=100         L
--   steps=4000      of each training, of 32 contexts
--   limit=40        seconds of a method
--   device=cuda
-- Without PyTorch on a card its line says so. Quick: fraction=0.002 dim=10 steps=20
local fopo = require "fopo"
local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. here .. "../tools/?.lua;" .. package.path
local bench = require "bench"
local script = require "script"
local world = require "world"
local o = script.options({fraction = 0.05, dim = 100, steps = 4000, limit = 40, device = "cuda"},
                         {fraction = 0.002, dim = 10, steps = 20})
local SHARE, LR, S = 0.95, 0.01, 1000

if o.device == "cuda" then script.card() end

local split = fopo.data.synthetic{like = "twitch", fraction = o.fraction, seed = 3}:sessions{
  min_items = 10, valid = 0, test = 0.1, seed = 5}
local items = fopo.embed.svd(split.train, {dim = o.dim})
local index, K = fopo.index.norm(items), math.min(256, items.rows // 8)

local METHODS = { -- the first says which reward is to be reached
  {"mixture", script.mixture(index, {k = K})},
  {"mixture, kept 20 visits", script.mixture(index, {k = K, refresh = 20})},
  {"shared head", fopo.gradient.head_tail{head = math.min(2048, items.rows // 4), tail = 64}},
  {"shared head, float32", fopo.gradient.head_tail{head = math.min(2048, items.rows // 4),
                                                   tail = 64, products = "float32"}},
  {"uniform", fopo.gradient.snis{samples = S}},
}

local function policy_of(rows)
  return fopo.policy.linear{items = items, preset = "paper", seed = 1, rows = rows}
end

local function reward_of(policy) return fopo.evaluate(policy, split.test).reward end

-- run(n) makes n steps and returns their seconds; reward() is that of theta then. Returns seconds
-- and steps until `wanted`, whether it was reached, and the last reward.
local function race(run, reward, wanted)
  local seconds, made, value = 0, 0, reward()
  local stride = math.max(1, o.steps // 50)
  while made < o.steps and seconds < o.limit do
    local n = math.min(stride, o.steps - made)
    seconds, made = seconds + run(n), made + n
    value = reward()
    if wanted and value >= wanted then return seconds, made, true, value end
    stride = math.max(stride, made // 4)
  end
  return seconds, made, not wanted, value
end

local function line(name, seconds, made, reached, value)
  print(("%-28s %s%9.4f s %7d steps  reward %.5f"):format(name, reached and " " or ">", seconds,
                                                         made, value))
  io.stdout:flush()
end

local function ours(method, wanted)
  local policy = policy_of(method[3])
  local t = fopo.trainer{policy = policy, data = split.train, gradient = method[2], valid = false,
                         optim = fopo.optim.adam{lr = LR}, seed = 1, device = o.device}
  return race(function(n)
    local before = t.seconds
    t:run{steps = n, every = n, view = false}
    return t.seconds - before
  end, function() return reward_of(policy) end, wanted)
end

-- PyTorch's mixture on the card; its theta comes and goes by files.
local function torch(wanted)
  local folder, policy = bench.folder .. "/torch-reward", policy_of()
  local theta = folder .. "/theta.npy"
  world.export(folder, items, split.train, split.train.n)
  policy:theta():save(theta)
  local command = ("%s %s %s cuda %d"):format(script.python, bench.path("torch_baseline.py"),
                                                folder, S)
  local worker = bench.worker(command)
  if not worker then return print("torch mixture: skipped, PyTorch sees no card here") end
  worker:ask(("start run %s - %g"):format(theta, LR))
  worker:ask("continue run")
  line("torch mixture", race(function(n)
    local answer = worker:ask(("mixture %d"):format(n))
    if answer[2] == "absent" then error(answer[3], 0) end
    return answer[3] * n
  end, function()
    worker:ask("save run " .. theta)
    policy:set_theta(fopo.array.load(theta))
    return reward_of(policy)
  end, wanted))
  worker:stop()
end

print(("%d items, L = %d, %d contexts"):format(items.rows, o.dim, split.train.n))
local wanted
for _, method in ipairs(METHODS) do
  if not wanted then -- all steps of it, then again until the reward
    local _, _, _, value = ours(method)
    wanted = SHARE * value
    print(("the reward to reach is %.5f, %.0f %% of the mixture's"):format(wanted, 100 * SHARE))
  end
  line(method[1], ours(method, wanted))
  collectgarbage()
  collectgarbage()
end
torch(wanted)
