-- Trainings on the GPU beside the same trainings on the CPU: the reward on test sessions, by true
-- argmax, after the same steps. Both draw the same samples but for those that fall within rounding
-- of a border, so the curves stay together, also where the GPU rounds a shared head; beside such a
-- head every context has a tail of its own there, so three times as much may part them. A row whose
-- ends differ by more than `apart` is marked and the script then exits with 1.
--
--   ./fopo scripts/bench/gpu_curves.lua [name=value ...]
--
-- Options (defaults):
--   scale=1       multiplies users, items and clusters of the world (12,000, 20,000 and 200)
--   dim=64        L
--   steps=2000    of each training
--   apart=0.02    of the reward
--   batch=32
-- Cost: about two minutes, most of them on the CPU. Quick: scale=0.1 steps=50
local fopo = require "fopo"
local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "../studies/?.lua;" .. here .. "../tools/?.lua;" .. package.path
local study = require "common"

local o = study.options({scale = 1, dim = 64, steps = 2000, apart = 0.02, batch = 32},
                        {scale = 0.1, steps = 50})
local card = study.card()
local world = study.world("narrow", o)
local S, K = 1000, math.min(256, world.items.rows // 8)
local function mixture(refresh) return study.mixture(world.index, {k = K, refresh = refresh}) end
local METHODS = {
  {"uniform", fopo.gradient.snis{samples = S}},
  {"mixture", mixture(1)},
  {"mixture, kept 20 visits", mixture(20)},
  {"mixture, bfloat16", mixture(1), "bfloat16"},
  {"head and tail", fopo.gradient.head_tail{index = world.index, k = K, tail = K}},
  {"shared head", fopo.gradient.head_tail{head = 2 * K, tail = 64}, own_tail = true}, -- bfloat16
  {"shared head, float32", fopo.gradient.head_tail{head = 2 * K, tail = 64,
                                                   products = "float32"}, own_tail = true},
  {"REINFORCE", fopo.gradient.reinforce{samples = S, baseline = "mean"}},
  {"REINFORCE, no baseline", fopo.gradient.reinforce{samples = S, baseline = "none"}},
  {"slates", fopo.gradient.slate{index = world.index, samples = 8, k = 5, sigma = 0.5}},
}

-- The rewards after 1/8, 1/4, 1/2 and all of the steps, and the seconds of training.
local function curve(method, device)
  local t = study.trainer(world, method[2], {lr = 0.01, seed = 1, rows = method[3],
                                             batch = o.batch, device = device})
  local rewards = {}
  for _, share in ipairs{8, 4, 2, 1} do
    local upto = o.steps // share
    t:run{steps = upto - t.step, every = upto, view = false}
    rewards[#rewards + 1] = fopo.evaluate(t.policy, world.split.test, {exclude = "none"}).reward
  end
  return rewards, t.seconds
end

print(("%d items, L = %d, batches of %d, %s"):format(world.items.rows, o.dim, o.batch, card.name))
print(("%-26s %-5s %8s %8s %8s %8s %9s"):format("method", "on", o.steps // 8, o.steps // 4,
                                               o.steps // 2, o.steps, "seconds"))
local failed = false
for _, method in ipairs(METHODS) do
  local ends = {}
  for _, device in ipairs{"cuda", "cpu"} do
    local rewards, seconds = curve(method, device)
    ends[#ends + 1] = rewards[4]
    print(("%-26s %-5s %8.5f %8.5f %8.5f %8.5f %9.2f"):format(method[1], device, rewards[1],
          rewards[2], rewards[3], rewards[4], seconds))
    io.stdout:flush()
  end
  local most = o.apart * (method.own_tail and 3 or 1)
  if math.abs(ends[1] - ends[2]) > most * math.max(ends[2], 1e-3) then
    failed = true
    print(("%-26s the ends are %.1f %% apart"):format(method[1],
          100 * math.abs(ends[1] - ends[2]) / math.max(ends[2], 1e-3)))
  end
  collectgarbage()
  collectgarbage()
end
if failed then os.exit(1) end
