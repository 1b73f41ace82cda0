-- The exact gradient and the expected reward against central differences in double.
local native = require "fopo.native"
local array = require "fopo.array"
local define = require "fopo.base.define"
local reward = require "fopo.reward"
local laws = require "fopo.check.laws"
local tools = require "fopo.check.tools"
local list_of_rows = tools.list_of_rows

local bound = 1e-3 -- of float32 sums over a catalogue; most differences are below 1e-4

-- A random reward. Gradients of random rewards are random directions in the space of the gradients,
-- for any policy.
local function random_reward(seed)
  return reward.custom(function(ids) return array.randn(ids.rows, ids.cols, seed) end)
end

-- How far a step of length 1 in theta moves the queries of a policy of the user's functions, along
-- the way that moves them most, or further: by a step in a random direction.
local function slope_of_queries(c)
  local theta, Q = c.pi:theta(), c.pi:queries(c.picked)
  local way = array.randn(theta.rows, theta.cols, c.seed)
  local step = 1e-3 * math.max(theta:norm(), 1) / way:norm()
  local _ <close> = tools.afterwards(function() c.pi:set_theta(theta) end)
  c.pi:set_theta(theta + way * step)
  return (c.pi:queries(c.picked) - Q):norm() / step
end

-- How far a step of length 1 in theta moves a score, about: |x| |beta| / temperature, or tau.
local function slope_of_scores(c)
  if c.pi.scores_lists then return math.exp(c.pi:parameters().log_tau:get(1, 1)) end
  local items = c.pi:items()
  local moved = c.pi.in_double and c.picked:norm() / c.pi.temperature or slope_of_queries(c)
  return moved / math.sqrt(c.picked.rows) * items:norm() / math.sqrt(items.rows)
end

-- The step of central differences, so that scores move by about 1e-5; by 0.03 where queries are
-- float32.
local function difference_step(c)
  local moves = c.pi.in_double and 1e-5 or 0.03
  local h = moves / math.max(slope_of_scores(c), 1e-12)
  local most = c.pi.difference_step
  return most > 0 and math.min(h, most) or h
end

-- The gradient without noise of the policy's kind.
local function exact_of(c, objective)
  local make = c.pi.scores_lists and native.gradient_sparse or native.gradient_exact
  return make{objective = objective, tail = c.pi.n_items}
end

-- {exact, value} of the policy over these items.
local function truth_of(c, items)
  local over = native.policy_over(c.pi, items)
  local G, stats = exact_of(c, c.objective):compute(over, c.x, c.rows, c.reward, c.with{})
  return {exact = native.check_project(G, c.directions), value = stats.reward}
end

-- The same of the items as training steps read them: rounded, unless rows = "float32".
local function truth_of_rows(c)
  if c.pi.rows == "float32" then return {exact = c.exact, value = c.value} end
  return truth_of(c, native.check_rows(c.pi))
end

-- Whether the head of gradient g is rounded: it is multiplied as a whole, in bfloat16.
local function rounds_head(c, g)
  local sparse = c.reward.kind == "hits" or c.reward.kind == "ips"
  return g.head and g.products == "bfloat16" and sparse and not c.pi.train_items
end

-- The same of the items as a step of gradient g reads them.
local function truth_for(c, g)
  if native.gradient_common(g, "reads_all_items") then return c end
  if not rounds_head(c, g) then return c.read end
  local items = native.check_rows(c.pi)
  local rounded = native.check_rows(native.policy_over(c.pi, items, "bfloat16"))
  for _, id in ipairs(laws.largest_norms(c, g.head)) do
    for i = 1, items.cols do items:set(id, i, rounded:get(id, i)) end
  end
  return truth_of(c, items)
end

-- The slopes along c.directions, the value and log Z of the i-th context, with the rewards r [1, P]
-- of all items, in double: differences of what the objective calls its value.
local function slopes_by_value(c, i, r, h, objective)
  return native.check_slopes(c.pi, c.picked:rows_of{i}, r, c.directions, h, c.seen(i), objective,
                             c.rows[i])
end

-- The same by objective, where the value alone does not say it. With R = E_pi r, d log R = dR / R,
-- also where the value is limited; and log pi_y is the log of the R of a reward that y alone earns.
local slopes_of = {}

function slopes_of.log_reward(c, i, r, h)
  local slope, mean, log_z = slopes_by_value(c, i, r, h)
  for k = 1, #slope do slope[k] = mean > 0 and slope[k] / mean or 0 end
  return slope, math.log(math.max(mean, 1e-6)), log_z
end

-- An objective of the user's: its slope by R is compared with differences of its value, for moves
-- of R by a hundredth, as the value is float32.
local function slopes_of_own(c, i, r, h)
  local slope, mean, log_z = slopes_by_value(c, i, r, h)
  local step = 0.01 * math.max(math.abs(mean), 1e-12)
  local values = c.objective:values(array.from{{mean - step}, {mean}, {mean + step}})
  local by_R = (values:get(3, 1) - values:get(1, 1)) / (2 * step)
  for k = 1, #slope do slope[k] = slope[k] * by_R end
  return slope, values:get(2, 1), log_z
end

local function slopes_for(c)
  if define.kind(c.objective) == "objective" then return slopes_of_own end
  return slopes_of[c.objective] or slopes_by_value
end

function slopes_of.likelihood(c, i, r, h)
  local sum, value, worth, log_z, masked = {}, 0, 0, nil, c.masked(i)
  for k = 1, c.directions.rows do sum[k] = 0 end
  for a = 1, r.cols do
    local weight = r:get(1, a)
    if weight > 0 and not masked[a] then
      local one = array.zeros(1, r.cols)
      one:set(1, a, 1)
      local slope, log_pi
      slope, log_pi, log_z = slopes_of.log_reward(c, i, one, h)
      for k = 1, #slope do sum[k] = sum[k] + weight * slope[k] end
      value, worth = value + weight * log_pi, worth + weight
    end
  end
  if worth == 0 then worth = 1 end
  for k = 1, #sum do sum[k] = sum[k] / worth end
  if not log_z then log_z = select(3, slopes_by_value(c, i, r, h)) end
  return sum, value / worth, log_z
end

-- Self-normalised IPS is a ratio over all contexts that are measured: with u the rewards that give
-- w = E_pi u, the slope of context i is (r_i - rho) dw_i / mean w. u is the difference of two
-- translations of the reward.
local function ratio_of(c, h)
  local all, translate, ratio = array.ids(list_of_rows(c.pi.n_items)), c.reward.translate, {}
  local _ <close> = tools.afterwards(function() c.reward.translate = translate end)
  local weights, earned = 0, 0
  for i, row in ipairs(c.rows) do
    c.reward.translate = 0
    local one = c.reward:value(all, {row})
    c.reward.translate = 1
    local u, it = one - c.reward:value(all, {row}), {}
    it.r = one:sum() / u:sum()
    it.slope, it.w, it.log_z = slopes_by_value(c, i, u, h)
    weights, earned, ratio[i] = weights + it.w, earned + it.w * it.r, it
  end
  ratio.rho, ratio.mean = earned / weights, weights / #c.rows
  return ratio
end

function slopes_of.snips(c, i, _, h)
  c.ratio = c.ratio or ratio_of(c, h)
  local it, slope = c.ratio[i], {}
  for k, s in ipairs(it.slope) do slope[k] = (it.r - c.ratio.rho) * s / c.ratio.mean end
  return slope, c.ratio.rho, it.log_z
end

-- A custom gradient of a value of its own, over all items in the place of draws: its truth. It is
-- compared with central differences of that value, for moves of the scores of up to 0.1, as the
-- value is a sum of float32.
local function own_truth(c, g)
  local P, theta = c.pi.n_items, c.pi:theta()
  local over = g:copy(native.proposal_custom(function(Q)
    local ids = {}
    for i = 1, Q.rows * P do ids[i] = (i - 1) % P + 1 end
    return array.ids(ids):reshape(Q.rows, P), array.zeros(Q.rows, P) - math.log(P)
  end))
  over:set{samples = P}
  local function measure() return over:compute(c.pi, c.x, c.rows, c.reward, c.with{}) end
  local G, stats = measure()
  local exact, worst, h = native.check_project(G, c.directions), 0, 0.1 / slope_of_scores(c)
  local _ <close> = tools.afterwards(function() c.pi:set_theta(theta) end)
  for k, along in ipairs(exact) do
    local way, value = c.directions:rows_of{k}:reshape(theta.rows, theta.cols), {}
    for side = -1, 1, 2 do
      c.pi:set_theta(theta + way * (side * h))
      value[side] = select(2, measure()).reward
    end
    local slope = (value[1] - value[-1]) / (2 * h)
    worst = math.max(worst, math.abs(slope - along) / (math.abs(slope) + G:norm() + 1e-30))
  end
  c.add("value of custom", ("%.6g, the gradient off its central differences by %.1e")
        :format(stats.reward, worst), "1e-02", worst < 1e-2)
  return {exact = exact, value = stats.reward}
end

-- Adds the reference values to c: c.exact (the gradient along c.directions), c.value (the expected
-- reward), for each context c.log_z and c.concentration, sum_a pi_a^2, and c.rounding: a gradient
-- is a sum of terms as large as rewards times slopes, and where the policy is nearly certain they
-- cancel, so that what is left is as small as their float32 rounding.
local function reference(c)
  local exact, of_reward = exact_of(c, c.objective), exact_of(c, "reward")
  local G, stats = exact:compute(c.pi, c.x, c.rows, c.reward, c.with{})
  local others = {}
  for k = 1, 2 do
    others[k] = c.pi.scores_lists and array.randn(G.rows, G.cols, c.seed + k)
      or of_reward:compute(c.pi, c.x, c.rows, random_reward(c.seed + k), c.with{})
  end
  local noise = array.randn(G.rows, G.cols, c.seed)
  c.directions = native.check_stack(G, others[1], others[2], noise)
  c.exact, c.norm, c.exact_reward = native.check_project(G, c.directions), G:norm(), stats.reward

  local all = array.ids(list_of_rows(c.pi.n_items))
  local slopes, value, h = {}, 0, difference_step(c)
  c.log_z, c.concentration = {}, {}
  for i, row in ipairs(c.rows) do
    local _, alone = exact:compute(c.pi, c.x, {row}, c.reward, c.with{})
    c.concentration[i] = 1 / alone.ess
    local r = c.reward:value(all, {row})
    local slope, mean, log_z = slopes_for(c)(c, i, r, h, c.objective)
    for k, s in ipairs(slope) do slopes[k] = (slopes[k] or 0) + s / #c.rows end
    value, c.log_z[i] = value + mean / #c.rows, log_z
    c.largest_reward = math.max(c.largest_reward or 0, math.abs(r:max()), math.abs(r:min()))
  end
  c.slopes, c.value = slopes, value
  c.rounding = 1e-6 * c.largest_reward * slope_of_scores(c)
  c.read = truth_of_rows(c)
  c.truth = {}
  for _, g in ipairs(c.gradients) do
    c.truth[g] = g.value == "own" and own_truth(c, g) or truth_for(c, g)
  end
end

-- The gradient of items that are learnt, along a random direction. Items are float32, so the step
-- is a thousandth of their size: rounding and curvature are then both about 1e-4.
local function item_differences(c)
  local items = c.pi:items()
  local V = array.randn(items.rows, items.cols, c.seed)
  local h = 1e-3 * items:norm() / math.sqrt(items.rows * items.cols)
  local _, _, ids, G = native.gradient_exact():compute(c.pi, c.x, c.rows, c.reward, c.with{})
  local touched = V:rows_of(ids)
  local along = native.check_project(G, native.check_stack(touched))[1] * touched:norm()
  local forth = native.policy_over(c.pi, items:copy():add(V, h))
  local back = native.policy_over(c.pi, items:copy():add(V, -h))
  local all, none = array.ids(list_of_rows(c.pi.n_items)), array.zeros(0, c.pi.n_params)
  local slope = 0
  for i, row in ipairs(c.rows) do
    local x, r = c.picked:rows_of{i}, c.reward:value(all, {row})
    local _, up = native.check_slopes(forth, x, r, none, 1, c.seen(i))
    local _, down = native.check_slopes(back, x, r, none, 1, c.seen(i))
    slope = slope + (up - down) / (2 * h * #c.rows)
  end
  local scale = math.abs(slope) + G:norm()
  local off = scale > 0 and math.abs(along - slope) / scale or 0
  c.add("gradient of items", ("off central differences by %.1e, along 1 direction"):format(off),
        "2e-03", off < 2e-3)
end

-- The gradient of weights between items that are learnt, along itself and a random direction.
local function weight_differences(c)
  local items, exact = c.pi:items(), exact_of(c, c.objective)
  local _, _, ids, G = exact:compute(c.pi, c.x, c.rows, c.reward, c.with{})
  local all, none = array.ids(list_of_rows(c.pi.n_items)), array.zeros(0, c.pi.n_params)
  local worst = 0
  local along_itself = G:copy():scale(1 / math.max(G:norm(), 1e-30))
  for _, V in ipairs{along_itself, array.randn(G.rows, 1, c.seed)} do
    local h = 1e-2 / slope_of_scores(c) / math.max(V:max(), -V:min())
    local along = native.check_project(G, native.check_stack(V))[1] * V:norm()
    local slope = 0
    for i, row in ipairs(c.rows) do
      local r = c.reward:value(all, {row})
      local value = {}
      for side = -1, 1, 2 do
        local moved = native.policy_moved(c.pi, items, ids, V, side * h)
        local with = setmetatable({pi = moved, directions = none}, {__index = c})
        value[side] = select(2, slopes_for(c)(with, i, r, 1, c.objective))
      end
      slope = slope + (value[1] - value[-1]) / (2 * h * #c.rows)
    end
    local scale = math.abs(slope) + G:norm() * V:norm() / math.sqrt(V.rows)
    if scale > 0 then worst = math.max(worst, math.abs(along - slope) / scale) end
  end
  c.add("gradient of weights",
        ("off central differences by %.1e, along 2 directions"):format(worst),
        "2e-03", worst < 2e-3)
end

return function(c)
  reference(c)
  local worst, largest, typical = 0, c.norm, c.norm / math.sqrt(c.directions.cols)
  for k, slope in ipairs(c.slopes) do
    local scale = math.abs(slope) + typical + c.rounding / bound
    if scale > 0 then worst = math.max(worst, math.abs(c.exact[k] - slope) / scale) end
    largest = math.max(largest, math.abs(slope))
  end
  c.certain = largest < c.rounding and "the policy is nearly certain: its gradient is "
    .. "smaller than the rounding of float32"
  if c.certain and worst < bound then
    c.skip("exact gradient", c.certain)
  else
    c.add("exact gradient", ("off central differences in double by %.1e, along %d directions")
          :format(worst, #c.slopes), ("%.0e"):format(bound), worst < bound)
  end
  local scale = math.abs(c.value) + 1e-6 * c.largest_reward
  local off = scale > 0 and math.abs(c.exact_reward - c.value) / scale or 0
  c.add(c.title, ("%.6g, in double %.6g"):format(c.exact_reward, c.value),
        ("%.0e"):format(bound), off < bound)
  if c.pi.train_items then item_differences(c) end
  for _, name in ipairs(c.pi.learn) do
    if name == "weights" then weight_differences(c) end
  end
end
