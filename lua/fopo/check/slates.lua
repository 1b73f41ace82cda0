-- The gradient of slates, and the derivative by log sigma where they have one, against central
-- differences of their expected reward. Both sides of a difference draw by the same random numbers,
-- so most slates are the same on both; two steps, h and h / 2, take off the error of order h^2.
local native = require "fopo.native"
local array = require "fopo.array"
local tools = require "fopo.check.tools"

local STEP = 0.5 -- h moves queries by this share of what moves slates

local function compute(c, g, step)
  return g:compute(c.pi, c.x, c.rows, c.reward, c.with{seed = c.seed, step = step})
end

-- The mean reward of the slates of draw `step`, at theta + h D; D nil: at e^h sigma.
local function reward_at(c, g, theta, D, h, step)
  local sigma = g.sigma
  c.pi:set_theta(D and theta:copy():add(D, h) or theta)
  if not D then g.sigma = sigma * math.exp(h) end
  local _, stats = compute(c, g, step)
  if not D then g.sigma = sigma end
  return stats.reward
end

-- h for a direction: queries, h(x) / T, are perturbed by sigma / T; or scores change by 1.
local function step_along(c, g, theta, D)
  local before, items = c.pi:queries(c.picked), c.pi:items()
  c.pi:set_theta(theta:copy():add(D, 1e-3))
  local moved = c.pi:queries(c.picked):add(before, -1):norm() / 1e-3
  local size = g.sigma and g.sigma / c.pi.temperature or math.sqrt(items.rows) / items:norm()
  return STEP * size * math.sqrt(#c.rows) / moved
end

local function check_slates(c, g)
  local theta, s, h, moved = c.pi:theta(), tools.series(), {}, 0
  local _ <close> = tools.afterwards(function() c.pi:set_theta(theta) end)
  local G = compute(c, g, 0)
  local D = {G:norm() > 0 and G or array.randn(theta.rows, theta.cols, c.seed + 1),
             array.randn(theta.rows, theta.cols, c.seed)}
  for k = 1, 2 do
    D[k]:scale(1 / D[k]:norm())
    h[k] = step_along(c, g, theta, D[k])
  end
  h[3] = g.sigma and STEP / math.sqrt(c.pi:items().cols)
  for step = 1, c.repetitions do
    c.pi:set_theta(theta)
    local off, estimate, stats = {}, compute(c, g, step)
    for k = 1, #h do
      local slope = {}
      for i = 1, 2 do
        local by = h[k] / i
        slope[i] = (reward_at(c, g, theta, D[k], by, step)
                    - reward_at(c, g, theta, D[k], -by, step)) / (2 * by)
      end
      moved = math.max(moved, math.abs(slope[1]), math.abs(slope[2]))
      local found = stats.by_log_sigma
      if D[k] then found = native.check_project(estimate, native.check_stack(D[k]))[1] end
      off[k] = found - (4 * slope[2] - slope[1]) / 3
    end
    tools.put(s, off)
  end
  local worst, name = 0, "mean of " .. tools.label(g)
  if moved == 0 then
    return c.skip(name, "all slates that were drawn earn the same: there is nothing to compare")
  end
  for k = 1, #h do
    local mean, se = tools.mean_and_error(s, k)
    if mean ~= 0 then worst = math.max(worst, math.abs(mean) / se) end
  end
  c.add(name,
        ("off central differences by %.1f s.e. at most, %d times S = %d"):format(worst,
        c.repetitions, g.samples), ("%d s.e."):format(tools.errors_bound),
        worst < tools.errors_bound)
end

return function(c)
  for _, g in ipairs(c.gradients) do
    if native.gradient_common(g, "slates") then check_slates(c, g) end
  end
end
