-- SNIS with truncated weights (Ionides 2008): no weight is more than sqrt(S) times their mean, so
-- that wbar is 1 / sqrt(S) at most. Less variance where few draws have all the weight, and a bias
-- that S does not cure, which fopo.check finds.
local fopo = require "fopo"

local function clipped(ids, F, log_q, rewards)
  local w = (F - log_q):softmax("rows"):minimum(ids.cols ^ -0.5)
  w = w / w:sum("rows")
  return w * (rewards - (w * rewards):sum("rows"))
end

return function(draw, samples)
  return fopo.gradient.custom{draw = draw, samples = samples, coefficients = clipped}
end
