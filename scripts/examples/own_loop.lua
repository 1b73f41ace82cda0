-- A training loop written by hand from its parts gives the same numbers as fopo.trainer.
--
--   ./fopo scripts/examples/own_loop.lua [steps]
--
-- Cost: some seconds. Quick: 12
-- Options (defaults): steps (50).
local fopo = require "fopo"
local steps = tonumber(arg and arg[1]) or 50

local s = fopo.data.synthetic{users = 2000, items = 5000, clusters = 20, seed = 3}:sessions{}
local items = fopo.embed.svd(s.train, {dim = 16})
local index = fopo.index.norm(items)
local reward = fopo.reward.hits(s.train)
local gradient = fopo.gradient.snis{samples = 200,
  proposal = fopo.proposal.mixture{index = index, k = 64, epsilon = 0.5}}
local batch, seed = 32, 7

-- With the trainer.
local with_trainer = fopo.policy.linear{items = items, seed = 1}
local t = fopo.trainer{policy = with_trainer, data = s.train, reward = reward, gradient = gradient,
                       optim = fopo.optim.adam{lr = 1e-2}, batch = batch, seed = seed,
                       valid = false} -- or the best parameters would be put back
t:run{steps = steps, view = false}

-- By hand: a gradient, a step up the reward. The contexts are made of the sessions, whose X is left
-- out of what is recommended; a trainer draws X and Y anew in each pass, so this is the first one.
local by_hand = fopo.policy.linear{items = items, seed = 1}
local optim = fopo.optim.adam{lr = 1e-2}
for step = 0, steps - 1 do
  local rows = s.train:batch{size = batch, seed = seed, step = step}
  local G, stats = gradient:compute(by_hand, s.train, rows, reward, {seed = seed, step = step})
  optim:step(by_hand, G)
  if step % 10 == 0 then
    print(("step %3d  reward %.4f  ess %.1f"):format(step, stats.reward, stats.ess))
  end
end

local difference = by_hand:theta():add(with_trainer:theta(), -1):norm()
print(("difference of the two thetas: %g"):format(difference))
assert(difference == 0, "the hand-written loop must give the trainer's numbers")
