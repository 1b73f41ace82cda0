-- Self-normalised importance sampling (Algorithm 1 of the paper) as a method in Lua:
-- c_s = wbar_s (r_s - rbar). In C: src/learn/estimators/snis.c.
local fopo = require "fopo"

local function snis(ids, F, log_q, rewards)
  local c = fopo.array.zeros(ids.rows, ids.cols)
  for b = 1, ids.rows do
    local w, W, mean = {}, 0, 0
    for s = 1, ids.cols do
      w[s] = math.exp(F:get(b, s) - log_q:get(b, s))
      W, mean = W + w[s], mean + w[s] * rewards:get(b, s)
    end
    for s = 1, ids.cols do c:set(b, s, w[s] / W * (rewards:get(b, s) - mean / W)) end
  end
  return c
end

return function(draw, samples)
  return fopo.gradient.custom{draw = draw, samples = samples, coefficients = snis}
end
