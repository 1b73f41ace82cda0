-- The mean of each estimator over many draws against the exact gradient, in standard errors.
local native = require "fopo.native"
local laws = require "fopo.check.laws"
local tools = require "fopo.check.tools"
local common, label, put, series = native.gradient_common, tools.label, tools.put, tools.series

-- The option that sets the sample size, two sizes, the price (the draws whose weights vary as much
-- as one draw of the policy), and the weight of the bias at a size: 1 / S, or 1 / S - 1 / most for
-- draws without replacement from `most` items. S is doubled until it is worth 25 draws of the
-- policy; nil instead of the option if that needs more than 2^15 draws or a quarter of the tail.
local function sizes(c, g)
  if common(g, "samples") then
    local price = laws.price(c, g)
    local S, need = c.samples, 25 * (price or 0)
    while S < need do S = 2 * S end
    if S > 1 << 15 and S > c.samples then return nil, price end
    return "samples", price, S, 4 * S, function(n) return 1 / n end
  end
  local lists = c.pi.scores_lists -- their tail is drawn among all items
  local most = lists and c.pi.n_items or c.pi.n_items - (g.head or g.k)
  local price = lists and 0 or laws.tail_price(c, g)
  local few = math.min(math.max(1, most // 4), math.max(c.samples, math.ceil(25 * price)))
  if few < 25 * price then return nil, price end
  return "tail", price, few, math.min(4 * few, most), function(n) return 1 / n - 1 / most end
end

-- The error of one estimate: along each direction, and of the expected reward.
local function deviation(c, g, step)
  local G, stats = g:compute(c.pi, c.x, c.rows, c.reward, c.with{seed = c.seed, step = step})
  local d, truth = native.check_project(G, c.directions), c.truth[g]
  for k = 1, #d do d[k] = d[k] - truth.exact[k] end
  d[#d + 1] = stats.reward - truth.value
  return d
end

-- The largest mean error in standard errors. Differences below 1e-5 of the scale are float32
-- rounding, and those of terms that cancel.
local function worst_error(c, s, allowance)
  local worst = 0
  for k = 1, #s.sum do
    local mean, se = tools.mean_and_error(s, k)
    local scale = k <= #c.exact and c.norm or math.abs(c.value)
    local excess = math.max(0, math.abs(mean) - (allowance and allowance[k] or 0))
    local floor = 1e-5 * scale + (k <= #c.exact and c.rounding or 0)
    local z = excess / math.sqrt(se * se + floor * floor)
    if scale > 0 and z > worst then worst = z end
  end
  return worst
end

local function add_mean(c, g, s, how, allowance)
  local worst = worst_error(c, s, allowance)
  c.add("mean of " .. label(g), ("off the exact one by %.1f s.e. at most, %s")
        :format(worst, how), ("%d s.e."):format(tools.errors_bound), worst < tools.errors_bound)
end

-- The number of repetitions if each is a pass over the whole catalogue: at least 30.
local function affordable(c)
  local pass = #c.rows * c.pi.n_items * c.pi.dim
  return math.max(30, math.min(c.repetitions, 2e10 // pass))
end

-- Whether n draws of the policy in a context show its rarer items often enough for a standard
-- error. Where it is certain but for c.rounding, they do not matter.
local function varied(c, n)
  for _, concentration in ipairs(c.concentration) do
    local rest = 1 - concentration
    if rest > 1e-6 and n * rest < 100 then return false end
  end
  return true
end

local function unbiased(c, g)
  local s, n = series(), common(g, "reads_all_items") and affordable(c) or c.repetitions
  if not varied(c, n * g.samples) then
    return c.skip("mean of " .. label(g), "the policy hardly ever draws but its best item")
  end
  for step = 1, n do put(s, deviation(c, g, step)) end
  add_mean(c, g, s, ("%d times S = %d"):format(n, g.samples))
end

-- Removes a bias of order 1 / S by two sizes: if w1 and w2 are the weights of the bias in d1 and
-- d2, (w1 d2 - w2 d1) / (w1 - w2) has none of it. The rest is of the next order, about the bias
-- divided by the worth of the sample; four times that is allowed.
local function biased(c, g)
  local name, option, price, few, many, weight = "mean of " .. label(g), sizes(c, g)
  if not option then
    return c.skip(name, ("%.0f draws of %s are worth one of the policy: too many draws are needed")
                  :format(price, common(g, "samples") and "q" or "the tail"))
  end
  local w1, w2, s, bias = weight(few), weight(many), series(), series()
  if w1 <= w2 then return c.skip(name, "its tail is too small for two sizes") end
  for step = 1, c.repetitions do
    g:set{[option] = few}
    local d1 = deviation(c, g, step)
    g:set{[option] = many}
    local d2 = deviation(c, g, step)
    local e, b = {}, {}
    for k = 1, #d1 do
      e[k], b[k] = (w1 * d2[k] - w2 * d1[k]) / (w1 - w2), (d1[k] - d2[k]) * w1 / (w1 - w2)
    end
    put(s, e)
    put(bias, b)
  end
  local worth, allowance = price and few / math.max(1, price) or 25, {}
  for k = 1, #s.sum do allowance[k] = 4 / worth * math.abs((tools.mean_and_error(bias, k))) end
  add_mean(c, g, s, ("%d times S = %d and %d"):format(c.repetitions, few, many), allowance)
end

return function(c)
  for _, g in ipairs(c.gradients) do
    local draws_tail = common(g, "biased") or c.pi.scored == "all"
    local mean = draws_tail and biased or common(g, "samples") and unbiased
    if common(g, "slates") then mean = nil end -- fopo/check/slates.lua
    if mean and c.certain then
      c.skip("mean of " .. label(g), c.certain)
    elseif mean then
      mean(c, g)
    end
  end
end
