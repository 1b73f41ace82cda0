-- REINFORCE with the top-K correction (Chen et al., "Top-K Off-Policy Correction for a REINFORCE
-- Recommender System", WSDM 2019): what is raised is the chance of an item among K draws of the
-- policy, so a reward counts lambda = K (1 - pi)^(K - 1) times. Items that are shown anyway (pi
-- near 1) push no more, and others come up beside them. pi is estimated: Z is the mean of
-- exp(F) / q. The value, the sum of r (1 - (1 - pi)^K) over the items, is a mean over draws of pi
-- of r (1 - (1 - pi)^K) / pi; fopo.check compares the gradient with its differences.
local fopo = require "fopo"
local K = 5

local function top_k(ids, F, log_q, rewards)
  local z = F - log_q
  local log_Z = z:logsumexp("rows") - math.log(ids.cols)
  local chance = (F - log_Z):exp():minimum(1)
  local w, r = z:softmax("rows"), rewards * K * (1 - chance) ^ (K - 1)
  local value = (w * rewards * (1 - (1 - chance) ^ K) / chance:maximum(1e-30)):sum("rows")
  return w * (r - (w * r):sum("rows")), value
end

return function(draw, samples)
  return fopo.gradient.custom{draw = draw, samples = samples, coefficients = top_k,
                              value = "own"}
end
