-- A training loop written by hand from its parts gives the same numbers as fopo.trainer; and the
-- estimator, SNIS, written by hand with arrays gives the gradient that fopo.gradient.snis computes.
--
--   ./fopo scripts/examples/own_loop.lua [steps]
--
-- Cost: some seconds. Quick: 12
-- Options (defaults): steps (33, the first pass).
local fopo = require "fopo"
local steps = tonumber(arg and arg[1]) or 33

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

-- The estimator by hand, for a policy that may recommend items of X. The draws are those of the
-- gradient for the same seed, step and rows.
local pi = fopo.policy.linear{items = items, seed = 1, seen = "keep"}
local contexts = s.train:contexts(items)
local function snis(x, key)
  local ids, logq = gradient.proposal:sample(pi, x, 200, key)
  local r, scores = reward:value(ids, key.rows), pi:queries(x):matmul(items, false, true)
  local w = (scores:gather(ids) - logq):softmax("rows") -- exp(f) / q, divided by their sum
  local c, V = w * (r - (w * r):sum("rows")), {}
  for b = 1, #x do V[b] = c:slice(b, b):matmul(items:rows_of(ids:slice(b, b))) end
  return x:matmul(fopo.array.concat(V), true) / (#x * pi.temperature)
end

local spent = {0, 0}
for step = 0, steps - 1 do
  local rows = s.train:batch{size = batch, seed = seed, step = step}
  local start = os.clock()
  local G = gradient:compute(pi, contexts, rows, reward, {seed = seed, step = step})
  local middle = os.clock()
  local by_arrays = snis(contexts:rows_of(rows), {seed = seed, step = step, rows = rows})
  spent = {spent[1] + middle - start, spent[2] + os.clock() - middle}
  assert(by_arrays:near(G, 1e-5 * G:norm()), "the gradient by hand must be the estimator's")
  optim:step(pi, G)
end
print(("SNIS with arrays: the same gradients, %.1f x the time"):format(spent[2] / spent[1]))
