-- What fopo.check measures: one function a check, each of which adds rows to a report. They see the
-- program from outside, through the same calls that a script makes, and compare with numbers
-- computed another way: differences in double, frequencies, exact search.
--
-- A check c holds: pi, x (all contexts), rows (those that are looked at), picked (their contexts),
-- reward, gradients, seed, samples, repetitions, recall, index or nil, oracle (an exact index),
-- many (contexts for searches), and two functions: add(name, measured, bound, ok) and skip(name, why).
local native = require "fopo.native"
local array = require "fopo.array"
local proposal = require "fopo.proposal"
local reward = require "fopo.reward"
local text = require "fopo.base.text"

local checks = {}

local difference_bound = 1e-3 -- of float32 sums over a catalogue; they are mostly below 1e-4
local errors_bound = 5        -- standard errors: once in a million by chance

-- ---- small tools

-- A label that fits a table: what kind of gradient it is.
local function label(g)
  local fault = g.fault and (" (FAULT %s)"):format(g.fault) or ""
  if g.kind == "reinforce" then return "reinforce, baseline " .. g.baseline end
  if g.kind == "head_tail" then return ("head and tail, K %d"):format(g.k) end
  if g.kind ~= "snis" then return g.kind .. fault end
  local q = g.proposal
  if q.kind == "uniform" then return "snis, uniform" .. fault end
  return ("snis, %s, K %d, eps %g%s"):format(q.draws or q.kind, q.k, q.epsilon, fault)
end

local function list_of_rows(n)
  local rows = {}
  for i = 1, n do rows[i] = i end
  return rows
end

-- Puts something back when the block that holds it is left, by an error or Ctrl-C too.
local function afterwards(restore) return setmetatable({}, {__close = restore}) end

-- Running mean and standard error of each of several numbers.
local function series() return {n = 0, sum = {}, squares = {}} end

local function put(s, values)
  s.n = s.n + 1
  for k, v in ipairs(values) do
    s.sum[k] = (s.sum[k] or 0) + v
    s.squares[k] = (s.squares[k] or 0) + v * v
  end
end

local function mean_and_error(s, k)
  local mean = s.sum[k] / s.n
  return mean, math.sqrt(math.max(0, s.squares[k] / s.n - mean * mean) / (s.n - 1))
end

-- ---- the exact gradient

-- A reward that nobody would choose: the gradients of such rewards are random directions in the
-- space in which gradients lie, whatever the policy is.
local function random_reward(seed)
  return reward.custom(function(ids) return array.randn(ids.rows, ids.cols, seed) end)
end

-- The step of central differences: scores move by about 1e-5.
local function difference_step(c)
  local items = c.pi:items()
  local size = c.picked:norm() / math.sqrt(c.picked.rows) * items:norm() / math.sqrt(items.rows)
  local h = 1e-5 / math.max(size / c.pi.temperature, 1e-12)
  return c.pi.kind == "mlp" and math.min(h, 1e-3) or h -- a linear policy may go far
end

-- The policy over other items, everything else as it is.
local function with_items(pi, items)
  local make = pi.kind == "mlp" and native.policy_mlp or native.policy_linear
  local twin = make{items = items, theta = "random", context_dim = pi.context_dim, seed = 1,
                    temperature = pi.temperature, hidden = pi.hidden, activation = pi.activation}
  twin:set_theta(pi:theta())
  return twin
end

-- Draws that read rounded rows estimate the truth of the rounded items: {exact, value}.
local function truth_of_rows(c)
  if c.pi.rows == "float32" then return {exact = c.exact, value = c.value} end
  local twin = with_items(c.pi, native.check_rows(c.pi))
  local G, stats = native.gradient_exact():compute(twin, c.x, c.rows, c.reward, {})
  return {exact = native.check_project(G, c.directions), value = stats.reward}
end

-- The truth that estimators are judged by: c.exact (the gradient along c.directions), c.value (the
-- expected reward), and of each context c.log_z and c.concentration, sum_a pi_a^2.
local function reference(c)
  local exact = native.gradient_exact()
  local G, stats = exact:compute(c.pi, c.x, c.rows, c.reward, {})
  local others = {}
  for k = 1, 2 do others[k] = exact:compute(c.pi, c.x, c.rows, random_reward(c.seed + k), {}) end
  local noise = array.randn(G.rows, G.cols, c.seed)
  c.directions = native.check_stack(G, others[1], others[2], noise)
  c.exact, c.norm, c.exact_reward = native.check_project(G, c.directions), G:norm(), stats.reward

  local all = array.ids(list_of_rows(c.pi.n_items))
  local slopes, value, h = {}, 0, difference_step(c)
  c.log_z, c.concentration = {}, {}
  for i, row in ipairs(c.rows) do
    local _, alone = exact:compute(c.pi, c.x, {row}, c.reward, {})
    c.concentration[i] = 1 / alone.ess
    local r = c.reward:value(all, {row})
    local slope, mean, log_z = native.check_slopes(c.pi, c.picked:rows_of{i}, r, c.directions, h)
    for k, s in ipairs(slope) do slopes[k] = (slopes[k] or 0) + s / #c.rows end
    value, c.log_z[i] = value + mean / #c.rows, log_z
    c.largest_reward = math.max(c.largest_reward or 0, math.abs(r:max()), math.abs(r:min()))
  end
  c.slopes, c.value = slopes, value
  c.read = truth_of_rows(c)
end

-- The gradient of items that are learnt, along a random direction. Items are float32, so the step
-- is a thousandth of them, which leaves about 1e-4 of rounding and as much of curvature.
local function item_differences(c)
  local items = c.pi:items()
  local V = array.randn(items.rows, items.cols, c.seed)
  local h = 1e-3 * items:norm() / math.sqrt(items.rows * items.cols)
  local _, _, ids, G = native.gradient_exact():compute(c.pi, c.x, c.rows, c.reward, {})
  local touched = V:rows_of(ids)
  local along = native.check_project(G, native.check_stack(touched))[1] * touched:norm()
  local forth = with_items(c.pi, items:copy():add(V, h))
  local back = with_items(c.pi, items:copy():add(V, -h))
  local all, none = array.ids(list_of_rows(c.pi.n_items)), array.zeros(0, c.pi.n_params)
  local slope = 0
  for i, row in ipairs(c.rows) do
    local x, r = c.picked:rows_of{i}, c.reward:value(all, {row})
    local _, up = native.check_slopes(forth, x, r, none, 1)
    local _, down = native.check_slopes(back, x, r, none, 1)
    slope = slope + (up - down) / (2 * h * #c.rows)
  end
  local scale = math.abs(slope) + G:norm()
  local off = scale > 0 and math.abs(along - slope) / scale or 0
  c.add("gradient of items", ("off central differences by %.1e, along 1 direction"):format(off),
        "2e-03", off < 2e-3)
end

function checks.differences(c)
  reference(c)
  local worst, typical = 0, c.norm / math.sqrt(c.directions.cols)
  for k, slope in ipairs(c.slopes) do
    local scale = math.abs(slope) + typical
    if scale > 0 then worst = math.max(worst, math.abs(c.exact[k] - slope) / scale) end
  end
  c.add("exact gradient", ("off central differences in double by %.1e, along %d directions")
        :format(worst, #c.slopes), ("%.0e"):format(difference_bound), worst < difference_bound)
  local scale = math.abs(c.value) + 1e-6 * c.largest_reward
  local off = scale > 0 and math.abs(c.exact_reward - c.value) / scale or 0
  c.add("expected reward", ("%.6g, in double %.6g"):format(c.exact_reward, c.value),
        ("%.0e"):format(difference_bound), off < difference_bound)
  if c.pi.train_items then item_differences(c) end
end

-- ---- the draws

-- The law of the draws in context b: `special`, items by id with their probabilities, `order`,
-- their ids, and `other`, the probability of each of the remaining items, or `strips`, their sums
-- by strips of the catalogue, from 0. Written from the paper's formulas, with the index's candidates.
local laws = {}

local n_strips = 16

-- The first and the last item of a strip.
local function strip_of(i, P) return (P * i + n_strips - 1) // n_strips + 1,
                                     (P * (i + 1) + n_strips - 1) // n_strips end

-- How many contexts are drawn in.
local function contexts_of(c) return math.min(2, #c.rows) end

function laws.uniform(c) return {special = {}, order = {}, other = 1 / c.pi.n_items} end

local function candidates(c, ix, k, b)
  local ids, scores = ix:search(c.pi:queries(c.picked:rows_of{b}), k)
  local order, f = {}, {}
  for j = 1, k do
    local id = ids:get(1, j)
    if id then order[#order + 1], f[#f + 1] = id, scores:get(1, j) end
  end
  return order, f
end

-- q = eps / P + (1 - eps) kappa; stratified draws have a share of whole draws.
function laws.mixture(c, q, S, b)
  local order, f = candidates(c, q.index, q.k, b)
  if #order == 0 or q.epsilon == 1 then return laws.uniform(c) end
  local eps, P, Z = q.epsilon, c.pi.n_items, 0
  if q.draws == "stratified" then eps = math.floor(eps * S + 0.5) / S end
  for j = 1, #f do Z = Z + math.exp(f[j] - f[1]) end
  local law = {special = {}, order = order, other = eps / P}
  for j, id in ipairs(order) do
    law.special[id] = eps / P + (1 - eps) * math.exp(f[j] - f[1]) / Z
  end
  return law
end

-- Each candidate once, the rest of the draws uniform among the other items.
function laws.head_tail(c, g, b)
  local order = candidates(c, g.proposal.index, g.k, b)
  local S, law = g.k + g.tail, {special = {}, order = order}
  for _, id in ipairs(order) do law.special[id] = 1 / S end
  law.other = (S - #order) / S / math.max(1, c.pi.n_items - #order)
  return law
end

-- The policy's mass in each strip of the catalogue, of the first contexts, in double.
local function policy_strips(c)
  local P, none = c.pi.n_items, array.zeros(0, c.pi.n_params)
  local inside, mass = array.zeros(1, P), {}
  for b = 1, contexts_of(c) do mass[b] = {} end
  for i = 0, n_strips - 1 do
    local first, last = strip_of(i, P)
    for id = first, last do inside:set(1, id, 1) end
    for b = 1, contexts_of(c) do
      local _, value = native.check_slopes(c.pi, c.picked:rows_of{b}, inside, none, 1)
      mass[b][i] = value
    end
    for id = first, last do inside:set(1, id, 0) end
  end
  return mass
end

-- pi = exp(f) / Z for the largest, by exact search; of the others the mass of each strip.
function laws.policy(c, b)
  c.strips = c.strips or policy_strips(c)
  local order, f = candidates(c, c.oracle, math.min(200, c.pi.n_items), b)
  local strips = table.move(c.strips[b], 0, n_strips - 1, 0, {})
  local law = {special = {}, order = order, strips = strips}
  for j, id in ipairs(order) do
    law.special[id] = math.exp(f[j] - c.log_z[b])
    local i = (id - 1) * n_strips // c.pi.n_items
    strips[i] = math.max(0, strips[i] - law.special[id])
  end
  return law
end

local function law_of(c, g, b)
  if g.kind == "reinforce" then return laws.policy(c, b) end
  if g.kind == "head_tail" then return laws.head_tail(c, g, b) end
  if g.kind == "snis" and (g.proposal.kind == "uniform" or g.proposal.kind == "mixture") then
    return laws[g.proposal.kind](c, g.proposal, g.samples, b)
  end
end

-- How many draws are worth one of the policy's own: the largest over the contexts of
-- E_q w^2 / (E_q w)^2 = sum_a pi_a^2 / q_a. Seen from the truth, and not from weights that were
-- drawn: those that matter most may be the ones that were not. nil where the law is not known.
local function price(c, g)
  local worst = 0
  for b = 1, #c.rows do
    local law = law_of(c, g, b)
    if not law then return nil end
    local sum, rest = 0, c.concentration[b]
    local order, f = law.order, nil
    if #order > 0 then order, f = candidates(c, g.proposal.index, g.k, b) end
    for j, id in ipairs(order) do
      local p2 = math.exp(2 * (f[j] - c.log_z[b]))
      sum, rest = sum + p2 / law.special[id], rest - p2
    end
    if law.other > 0 then sum = sum + math.max(rest, 0) / law.other end
    worst = math.max(worst, sum)
  end
  return worst
end

-- How often each item is drawn in the first contexts, as the reward's function sees it: what a
-- gradient really uses.
local function frequencies(c, g, contexts, draws)
  local counts, n, step = {}, 0, 0
  for b = 1, contexts do counts[b] = {} end
  local watch = reward.custom(function(ids, rows)
    for i = 1, ids.rows do
      local count = counts[rows:get(1, i)]
      for s = 1, ids.cols do
        local id = ids:get(i, s)
        count[id] = (count[id] or 0) + 1
      end
    end
    n = n + ids.cols
    return array.zeros(ids.rows, ids.cols)
  end)
  local picked = c.picked:rows_of(list_of_rows(contexts))
  while n < draws do
    g:compute(c.pi, picked, nil, watch, {seed = c.seed, step = step})
    step = step + 1
  end
  return counts, n
end

-- The mass of each strip beside the special items.
local function strips_of(law, P)
  if law.strips then return law.strips end
  local strips = {}
  for i = 0, n_strips - 1 do
    local first, last = strip_of(i, P)
    strips[i] = last - first + 1
  end
  for _, id in ipairs(law.order) do
    local i = (id - 1) * n_strips // P
    strips[i] = strips[i] - 1
  end
  for i = 0, n_strips - 1 do strips[i] = strips[i] * law.other end
  return strips
end

-- Adds the bins of one context to Pearson's sum: special items, and strips of the others. Bins that
-- expect fewer than 5 are put together.
local function pearson(x, law, counts, n, P)
  local few_seen, few_expected, seen_in = 0, 0, {}
  local function bin(seen, expected)
    if expected >= 5 then
      x.sum, x.bins = x.sum + (seen - expected) ^ 2 / expected, x.bins + 1
    else
      few_seen, few_expected = few_seen + seen, few_expected + expected
    end
  end
  for _, id in ipairs(law.order) do bin(counts[id] or 0, n * law.special[id]) end
  for id, seen in pairs(counts) do
    local i = (id - 1) * n_strips // P
    if not law.special[id] then seen_in[i] = (seen_in[i] or 0) + seen end
  end
  for i, mass in pairs(strips_of(law, P)) do bin(seen_in[i] or 0, n * mass) end
  if few_expected >= 5 then
    bin(few_seen, few_expected)
  elseif few_seen > 50 then
    x.sum = math.huge -- drawn often, though it is next to impossible
  end
  x.bins = x.bins - 1 -- the counts sum to n
end

-- A chi-square of so many degrees as a standard normal number (Wilson and Hilferty 1931).
local function normal_of(chi2, degrees)
  local v = 2 / (9 * degrees)
  return ((chi2 / degrees) ^ (1 / 3) - (1 - v)) / math.sqrt(v)
end

local function check_draws(c, g)
  local name, contexts, samples = "draws of " .. label(g), contexts_of(c), g.samples
  if not law_of(c, g, 1) then
    return c.skip(name, "the law of its draws is not written down here")
  end
  if g.kind == "reinforce" then g:set{samples = 20000} end -- a pass over the items is what costs
  local counts, n = frequencies(c, g, contexts, 20000)
  if samples then g:set{samples = samples} end
  local x = {sum = 0, bins = 0}
  for b = 1, contexts do pearson(x, law_of(c, g, b), counts[b], n, c.pi.n_items) end
  if x.bins < 1 then return c.skip(name, "too few draws for frequencies") end
  c.add(name, ("chi-square %.1f of %d bins, %d draws in each of %d contexts")
        :format(x.sum, x.bins, n, contexts), ("%d s.e."):format(errors_bound),
        normal_of(x.sum, x.bins) < errors_bound)
end

function checks.draws(c)
  for _, g in ipairs(c.gradients) do
    if g.kind ~= "exact" then check_draws(c, g) end
  end
end

-- ---- the means of the estimators

-- Two sizes of the estimator's sample, and the weight of its bias: 1 / S, or for draws without
-- replacement from `most` items 1 / S - 1 / most. S is doubled until it is worth 25 draws of the
-- policy; nil where that would take too many.
local function sizes(c, g)
  if g.kind == "snis" then
    local S, need = c.samples, 25 * (price(c, g) or 0)
    while S < need do S = 2 * S end
    if S > 1 << 15 and S > c.samples then return nil end
    return "samples", S, 4 * S, function(n) return 1 / n end
  end
  local most = c.pi.n_items - g.k
  local few = math.min(math.max(1, most // 4), c.samples)
  return "tail", few, math.min(4 * few, most), function(n) return 1 / n - 1 / most end
end

-- What one estimate strays from the truth: along each direction, and in the expected reward.
local function deviation(c, g, step)
  local G, stats = g:compute(c.pi, c.x, c.rows, c.reward, {seed = c.seed, step = step})
  local d, truth = native.check_project(G, c.directions), g.kind == "reinforce" and c or c.read
  for k = 1, #d do d[k] = d[k] - truth.exact[k] end
  d[#d + 1] = stats.reward - truth.value
  return d
end

-- The largest mean in standard errors. Float32 sums are never better than a millionth.
local function worst_error(c, s, allowance)
  local worst, where = 0, 1
  for k = 1, #s.sum do
    local mean, se = mean_and_error(s, k)
    local scale = k <= #c.exact and c.norm or math.abs(c.value)
    local excess = math.max(0, math.abs(mean) - (allowance and allowance[k] or 0))
    local floor = 1e-5 * scale
    local z = excess / math.sqrt(se * se + floor * floor)
    if scale > 0 and z > worst then worst, where = z, k end
  end
  return worst, where
end

local function add_mean(c, g, s, how, allowance)
  local worst = worst_error(c, s, allowance)
  c.add("mean of " .. label(g), ("off the exact one by %.1f s.e. at most, %s")
        :format(worst, how), ("%d s.e."):format(errors_bound), worst < errors_bound)
end

-- Repetitions that a pass over the whole catalogue for each leaves time for.
local function affordable(c)
  local pass = #c.rows * c.pi.n_items * c.pi.dim
  return math.max(30, math.min(c.repetitions, 2e10 // pass))
end

local function unbiased(c, g)
  local s, n = series(), g.kind == "reinforce" and affordable(c) or c.repetitions
  for step = 1, n do put(s, deviation(c, g, step)) end
  add_mean(c, g, s, ("%d times S = %d"):format(n, g.samples))
end

-- A bias of order 1 / S is taken out by two sizes: with weights w1 and w2 of the bias,
-- (w1 d2 - w2 d1) / (w1 - w2) has none of it. What is left is of the next order, about the bias
-- over the worth of the sample; that is allowed four times.
local function biased(c, g)
  local name, option, few, many, weight = "mean of " .. label(g), sizes(c, g)
  if not option then
    return c.skip(name, ("%.0f draws of q are worth one of the policy: too many to tell")
                  :format(price(c, g)))
  end
  local w1, w2, s, bias = weight(few), weight(many), series(), series()
  if w1 <= w2 then return c.skip(name, "its tail has no room for two sizes") end
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
  -- head and tail: its weights vary in the tail only
  local worth = g.kind == "snis" and few / (price(c, g) or few / 25) or few
  local allowance = {}
  for k = 1, #s.sum do allowance[k] = 4 / worth * math.abs((mean_and_error(bias, k))) end
  add_mean(c, g, s, ("%d times S = %d and %d"):format(c.repetitions, few, many), allowance)
end

function checks.means(c)
  for _, g in ipairs(c.gradients) do
    if g.kind == "snis" or g.kind == "head_tail" then biased(c, g)
    elseif g.kind ~= "exact" then unbiased(c, g) end
  end
end

-- ---- log q

-- The largest difference of the given log q from the law's; `first` draws are looked at. How many
-- of them were candidates, and the densities given, by id.
local function compare_logq(law, ids, logq, b, first, given)
  local worst, hits = 0, 0
  for s = 1, first do
    local id = ids:get(b, s)
    local q = law.special[id]
    local off = math.abs(logq:get(b, s) - math.log(q or law.other))
    if q then hits = hits + 1 end
    if not (off <= worst) then worst = off end -- NaN too
    if given then given[id] = math.exp(logq:get(b, s)) end
  end
  return worst, hits
end

-- Stratified draws begin with the uniform ones, so that those among the candidates can be told.
local function uniform_hits(c, q)
  local P, share = c.pi.n_items, math.max(q.epsilon, 1e-3)
  local S = math.tointeger(math.min(1 << 17, math.max(4096, 50 * P // (q.k * share) | 0)))
  local twin = proposal.mixture{index = q.index, k = q.k, epsilon = q.epsilon,
                                draws = "stratified"}
  local ids, logq = twin:sample(c.pi, c.picked:rows_of{1}, S, {seed = c.seed + 1})
  return compare_logq(laws.mixture(c, twin, S, 1), ids, logq, 1, math.floor(q.epsilon * S + 0.5))
end

local function proposal_label(q)
  if q.kind == "uniform" then return "uniform" end
  return ("%s, K %d, eps %g"):format(q.draws, q.k, q.epsilon)
end

local function check_proposal(c, q)
  local S, worst, sum_off, contexts = 8192, 0, 0, contexts_of(c)
  local picked = c.picked:rows_of(list_of_rows(contexts))
  local ids, logq = q:sample(c.pi, picked, S, {seed = c.seed})
  for b = 1, contexts do
    local given, law = {}, laws[q.kind](c, q, S, b)
    local off, sum, other = compare_logq(law, ids, logq, b, S, given), 0, law.other
    for id, density in pairs(given) do if not law.special[id] then other = density end end
    for _, id in ipairs(law.order) do sum = sum + (given[id] or law.special[id]) end
    sum = sum + other * (c.pi.n_items - #law.order)
    worst, sum_off = math.max(worst, off), math.max(sum_off, math.abs(sum - 1))
  end
  local more = ""
  if q.kind == "mixture" and q.epsilon > 0 and q.epsilon < 1 then
    local off, hits = uniform_hits(c, q)
    worst, more = math.max(worst, off), (", %d of them uniform and candidates"):format(hits)
  end
  c.add("log q of " .. proposal_label(q), ("off the formula by %.1e at most%s"):format(worst, more),
        "1e-03", worst < 1e-3)
  c.add("sum of q of " .. proposal_label(q), ("off 1 by %.1e, all %s items"):format(sum_off,
        text.count(c.pi.n_items)), "1e-03", sum_off < 1e-3)
end

function checks.densities(c)
  local done = {}
  for _, g in ipairs(c.gradients) do
    local q = g.kind == "snis" and g.proposal
    if q and laws[q.kind] and not done[q:describe()] then
      done[q:describe()] = true
      check_proposal(c, q)
    end
  end
end

-- ---- the index

-- What the index answered for row b: its ids, and how far its scores are from the inner products,
-- in units of the largest; infinite where an item stands twice or the order is wrong.
local function answers(Q, items, ids, scores, b)
  local list, seen, worst = {}, {}, 0
  for j = 1, ids.cols do
    local id = ids:get(b, j)
    if not id then break end
    if seen[id] or (j > 1 and scores:get(b, j) > scores:get(b, j - 1)) then worst = math.huge end
    list[j], seen[id] = id, true
  end
  if #list == 0 then return seen, 0, worst end
  local f = items:rows_of(list):matmul(Q:rows_of{b}, false, true)
  local scale = math.max(math.abs(f:max()), math.abs(f:min()), 1e-30)
  for j = 1, #list do
    worst = math.max(worst, math.abs(f:get(j, 1) - scores:get(b, j)) / scale)
  end
  return seen, #list, worst
end

local function check_index(c, ix, k)
  local items, about = c.pi:items(), ix:about()
  local Q = c.pi:queries(c.many)
  local ids, scores, short = ix:search(Q, k)
  local truth, best = c.oracle:search(Q, k)
  local worst, found, wanted = 0, 0, 0
  local exact = about.kind == "exact" or (about.kind == "norm" and (about.budget or 0) == 0)
  for b = 1, Q.rows do
    local seen, n, off = answers(Q, items, ids, scores, b)
    worst = math.max(worst, off)
    -- items of equal scores may stand for each other
    local last, scale = best:get(b, k), math.max(math.abs(best:get(b, 1)), 1e-30)
    for j = 1, k do
      local id = truth:get(b, j)
      found = found + ((seen[id] or (n == k and best:get(b, j) - last < 1e-5 * scale)) and 1 or 0)
      wanted = wanted + 1
    end
  end
  local recall = found / wanted
  local least = exact and 1 or c.recall
  c.add("index " .. about.kind, ("recall@%d %.4f, %d short rows of %d, scores off by %.1e")
        :format(k, recall, short, Q.rows, worst),
        least > 0 and ("recall %g"):format(least) or "scores 1e-04",
        recall >= least and worst < 1e-4 and (not exact or short == 0))
end

function checks.indexes(c)
  local done = {}
  local function once(ix, k)
    if not ix then return end
    local about = ix:about()
    local key = ("%s %g %d %d"):format(about.kind, about.build_seconds, about.n_items, k)
    if done[key] then return end
    done[key] = true
    check_index(c, ix, k)
  end
  for _, g in ipairs(c.gradients) do
    local q = (g.kind == "snis" or g.kind == "head_tail") and g.proposal
    if q and q.kind ~= "uniform" then once(q.index, q.k) end
  end
  once(c.index, math.min(100, c.pi.n_items))
end

-- ---- threads and devices

local function same_bits(a, b) return a:copy():add(b, -1):norm() == 0 and a:finite() end

function checks.threads(c)
  local kept, names = native.threads(), {}
  local _ <close> = afterwards(function() native.threads(kept) end)
  local function results(n)
    native.threads(n)
    local out = {}
    for _, g in ipairs(c.gradients) do
      local G = g:compute(c.pi, c.x, c.rows, c.reward, {seed = c.seed, step = 7})
      out[#out + 1] = {label(g), G}
    end
    out[#out + 1] = {"the search", select(2, c.oracle:search(c.pi:queries(c.many), 1))}
    return out
  end
  local one, two = results(1), results(2)
  for i, r in ipairs(one) do
    if not same_bits(r[2], two[i][2]) then names[#names + 1] = r[1] end
  end
  c.add("1 thread, 2 threads", #names == 0 and ("the same bits in %d results"):format(#one)
        or "other bits in " .. table.concat(names, "; "), "same bits", #names == 0)
end

-- One step of plain ascent on each device: theta moves by the gradient.
local function moved(c, g, device)
  local before = c.pi:theta()
  local _ <close> = afterwards(function() c.pi:set_theta(before) end)
  local t = native.trainer{policy = c.pi, contexts = c.x, reward = c.reward, gradient = g,
                           optim = require("fopo.optim").sgd{lr = 1}, batch = #c.rows,
                           seed = c.seed, device = device}
  t:advance(1)
  return c.pi:theta():add(before, -1)
end

-- The draws are the same ones on every device, so results differ by the order of summation only.
function checks.devices(c)
  if c.pi.train_items then
    return c.skip("CPU and GPU", "a step would move the items of this policy")
  end
  local ok, why = pcall(native.device, "cuda")
  if not ok then
    return c.skip("CPU and GPU", (tostring(why):gsub("^.-:%d+: ", "")))
  end
  for _, g in ipairs(c.gradients) do
    local cpu, gpu = moved(c, g, "cpu"), moved(c, g, "cuda")
    local norm = cpu:norm()
    local off = norm > 0 and gpu:add(cpu, -1):norm() / norm or gpu:norm()
    c.add("CPU and GPU, " .. label(g), ("a step differs by %.1e"):format(off), "1e-03", off < 1e-3)
  end
end

checks.order = {"differences", "draws", "densities", "means", "indexes", "threads", "devices"}
return checks
