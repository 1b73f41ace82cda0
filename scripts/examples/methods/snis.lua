-- Self-normalised importance sampling (Algorithm 1 of the paper) as a method in Lua:
-- c_s = wbar_s (r_s - rbar). In C: src/learn/estimators/snis.c.
local fopo = require "fopo"

local function snis(_, F, log_q, rewards)
  local w = (F - log_q):softmax("rows")
  return w * (rewards - (w * rewards):sum("rows"))
end

return function(draw, samples)
  return fopo.gradient.custom{draw = draw, samples = samples, coefficients = snis}
end
