-- The draws of the estimators against the laws they should have: frequencies by chi-square, and the
-- log-densities that proposals return.
local native = require "fopo.native"
local array = require "fopo.array"
local laws = require "fopo.check.laws"
local proposal = require "fopo.proposal"
local reward = require "fopo.reward"
local text = require "fopo.base.text"
local tools = require "fopo.check.tools"
local n_strips, common = laws.n_strips, native.gradient_common

local draws = {}

-- ---- frequencies

-- counts[b][id], how often each item is drawn in the first contexts, and the number of draws, at
-- least `least`. A custom reward counts, so these are the draws that the gradient really uses.
local function frequencies(c, g, contexts, least)
  local counts, n, step = {}, 0, 0
  for b = 1, contexts do counts[b] = {} end
  local drawn = g:copy(g.proposal, "reward") -- the same draws; others need hits
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
  local picked = c.picked:rows_of(tools.list_of_rows(contexts))
  local seen = c.seen(1, contexts)
  while n < least do
    drawn:compute(c.pi, picked, nil, watch, {seed = c.seed, step = step, sessions = seen})
    step = step + 1
  end
  return counts, n
end

-- Adds the bins of one context to Pearson's sum x: one bin for each special item and for each strip
-- of the others. Bins with an expectation below 5 are merged.
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
  for i, mass in pairs(laws.strips_of(law, P)) do bin(seen_in[i] or 0, n * mass) end
  if few_expected >= 5 then
    bin(few_seen, few_expected)
  elseif few_seen > 50 then
    x.sum = math.huge -- drawn often, although nearly impossible
  end
  x.bins = x.bins - 1 -- the counts sum to n
end

-- A chi-square value as a standard normal one (Wilson and Hilferty 1931).
local function normal_of(chi2, degrees)
  local v = 2 / (9 * degrees)
  return ((chi2 / degrees) ^ (1 / 3) - (1 - v)) / math.sqrt(v)
end

local function check_draws(c, g)
  local name, contexts = "draws of " .. tools.label(g), laws.contexts_of(c)
  local samples = common(g, "samples")
  if not laws.of(c, g, 1) then
    return c.skip(name, "the law of its draws is not known")
  end
  if common(g, "reads_all_items") then g:set{samples = 20000} end
  local counts, n = frequencies(c, g, contexts, 20000)
  if samples then g:set{samples = samples} end
  local x = {sum = 0, bins = 0}
  for b = 1, contexts do pearson(x, laws.of(c, g, b), counts[b], n, c.pi.n_items) end
  if x.bins < 1 then return c.skip(name, "too few draws for frequencies") end
  c.add(name, ("chi-square %.1f of %d bins, %d draws in each of %d contexts")
        :format(x.sum, x.bins, n, contexts), ("%d s.e."):format(tools.errors_bound),
        normal_of(x.sum, x.bins) < tools.errors_bound)
end

function draws.frequencies(c)
  for _, g in ipairs(c.gradients) do
    local drawn = common(g, "kind") ~= "exact" and not common(g, "slates")
    if not c.pi.scores_lists and drawn then check_draws(c, g) end
  end
end

-- ---- log q

-- The largest difference of log q from the law over the first draws of context b, and how many of
-- them are candidates. Puts the densities into `given` by id.
local function compare_logq(law, ids, logq, b, first, given)
  local worst, hits = 0, 0
  for s = 1, first do
    local id = ids:get(b, s)
    local q = law.special[id]
    local off = math.abs(logq:get(b, s) - math.log(q or law.other))
    if q then hits = hits + 1 end
    if off > worst or off ~= off then worst = off end -- NaN fails the check
    if given then given[id] = math.exp(logq:get(b, s)) end
  end
  return worst, hits
end

-- Uniform draws that hit candidates. Stratified draws begin with the uniform ones, which tells them
-- from draws of kappa.
local function uniform_hits(c, q)
  local P, share = c.pi.n_items, math.max(q.epsilon, 1e-3)
  local S = math.tointeger(math.min(1 << 17, math.max(4096, 50 * P // (q.k * share) | 0)))
  local twin = proposal.mixture{index = q.index, k = q.k, epsilon = q.epsilon,
                                draws = "stratified"}
  local ids, logq = twin:sample(c.pi, c.picked:rows_of{1}, S,
                                {seed = c.seed + 1, sessions = c.seen(1)})
  return compare_logq(laws.mixture(c, twin, S, 1), ids, logq, 1, math.floor(q.epsilon * S + 0.5))
end

local function proposal_label(q)
  if q.kind == "uniform" then return "uniform" end
  return ("%s, K %d, eps %g"):format(q.draws, q.k, q.epsilon)
end

local function check_proposal(c, q)
  local S, worst, sum_off, contexts = 8192, 0, 0, laws.contexts_of(c)
  local picked = c.picked:rows_of(tools.list_of_rows(contexts))
  local ids, logq = q:sample(c.pi, picked, S, {seed = c.seed, sessions = c.seen(1, contexts)})
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

function draws.densities(c)
  local done = {}
  for _, g in ipairs(c.gradients) do
    local q = common(g, "epsilon") and common(g, "proposal")
    if q and laws[q.kind] and not done[q:describe()] then
      done[q:describe()] = true
      check_proposal(c, q)
    end
  end
end

return draws
