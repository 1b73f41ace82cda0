-- The distributions ("laws") that draws should have, written from the paper's formulas and the
-- index's candidates, independently of the C code that draws.
--
-- A law is {order, special, other}: the ids of the special items, their probabilities by id, and
-- the probability of each of the remaining items. If those differ, `strips` has their sums over 16
-- equal strips of the catalogue, counted from 0, instead of `other`.
local native = require "fopo.native"
local array = require "fopo.array"

local laws = {}

local n_strips = 16
laws.n_strips = n_strips

-- The first and the last item of strip i of P items.
local function strip_of(i, P) return (P * i + n_strips - 1) // n_strips + 1,
                                     (P * (i + 1) + n_strips - 1) // n_strips end

-- The number of contexts whose draws are counted.
function laws.contexts_of(c) return math.min(2, #c.rows) end

function laws.uniform(c) return {special = {}, order = {}, other = 1 / c.pi.n_items} end

-- f, the scores of these items in context b, with -infinity for the items that are masked.
local function masked(c, order, f, b)
  local out = c.masked(b)
  for j, id in ipairs(order) do
    if out[id] then f[j] = -math.huge end
  end
  return f
end

-- The ids of the k best items of context b, best first, and their scores; of masked items
-- -infinity.
local function candidates(c, ix, k, b)
  local ids, scores = ix:search(c.pi:queries(c.picked:rows_of{b}), k)
  local order, f = {}, {}
  for j = 1, k do
    local id = ids:get(1, j)
    if id then order[#order + 1], f[#f + 1] = id, scores:get(1, j) end
  end
  return order, masked(c, order, f, b)
end

-- q = eps / P + (1 - eps) kappa. Stratified draws round eps S to whole draws.
function laws.mixture(c, q, S, b)
  local order, f = candidates(c, q.index, q.k, b)
  if #order == 0 or q.epsilon == 1 then return laws.uniform(c) end
  local eps, P, Z = q.epsilon, c.pi.n_items, 0
  if q.draws == "stratified" then eps = math.floor(eps * S + 0.5) / S end
  local top = -math.huge
  for j = 1, #f do top = math.max(top, f[j]) end
  if top == -math.huge then return laws.uniform(c) end
  for j = 1, #f do Z = Z + math.exp(f[j] - top) end
  local law = {special = {}, order = order, other = eps / P}
  for j, id in ipairs(order) do
    law.special[id] = eps / P + (1 - eps) * math.exp(f[j] - top) / Z
  end
  return law
end

-- The H items of largest norm: an index of norms with that budget finds no others.
function laws.largest_norms(c, H)
  local ix <close> = native.index_norm(c.pi:items(), {budget = H})
  return (candidates(c, ix, H, 1))
end

-- Each item of the head once; the other draws are uniform over the other items.
function laws.head_tail(c, g, b)
  local order = g.head and laws.largest_norms(c, g.head) or candidates(c, g.proposal.index, g.k, b)
  local S, law = (g.head or g.k) + g.tail, {special = {}, order = order}
  for _, id in ipairs(order) do law.special[id] = 1 / S end
  law.other = (S - #order) / S / math.max(1, c.pi.n_items - #order)
  return law
end

-- The policy's mass in each strip of the catalogue, for the contexts that are counted, in double.
local function policy_strips(c)
  local P, none = c.pi.n_items, array.zeros(0, c.pi.n_params)
  local inside, mass = array.zeros(1, P), {}
  for b = 1, laws.contexts_of(c) do mass[b] = {} end
  for i = 0, n_strips - 1 do
    local first, last = strip_of(i, P)
    for id = first, last do inside:set(1, id, 1) end
    for b = 1, laws.contexts_of(c) do
      local _, value = native.check_slopes(c.pi, c.picked:rows_of{b}, inside, none, 1,
                                             c.seen(b))
      mass[b][i] = value
    end
    for id = first, last do inside:set(1, id, 0) end
  end
  return mass
end

-- pi = exp(f) / Z of the 200 largest by exact search; of the others the mass of each strip.
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

-- The law of the draws of estimator g in context b; nil if it is not written down here.
function laws.of(c, g, b)
  local kind = native.gradient_common(g, "kind")
  if kind == "reinforce" then return laws.policy(c, b) end
  if kind == "head_tail" then return laws.head_tail(c, g, b) end
  local q = (kind == "snis" or kind == "custom") and g.proposal
  if q and (q.kind == "uniform" or q.kind == "mixture") then
    return laws[q.kind](c, q, g.samples, b)
  end
end

-- The scores of these items in context b.
local function scores_of(c, order, b)
  local row = c.pi:queries(c.picked:rows_of{b}):matmul(c.pi:items():rows_of(order), false, true)
  return masked(c, order, row:totable()[1], b)
end

-- sum_a pi_a^2 over the items of a head_tail's head in context b.
local function head_concentration(c, g, b)
  local order, f
  if g.head then
    order = laws.largest_norms(c, g.head)
    f = scores_of(c, order, b)
  else
    order, f = candidates(c, g.proposal.index, g.k, b)
  end
  local sum = 0
  for j = 1, #order do sum = sum + math.exp(2 * (f[j] - c.log_z[b])) end
  return sum
end

-- The number of draws of the tail at which the estimate of Z has a standard error of Z: the largest
-- over the contexts of (P - H) sum_a pi_a^2, a in the tail.
function laws.tail_price(c, g)
  local worst, others = 0, c.pi.n_items - (g.head or g.k)
  for b = 1, #c.rows do
    worst = math.max(worst, others * (c.concentration[b] - head_concentration(c, g, b)))
  end
  return worst
end

-- The number of draws of q that are worth one draw of the policy: the largest over the contexts of
-- E_q w^2 / (E_q w)^2 = sum_a pi_a^2 / q_a. Computed from the law, not from weights that were
-- drawn, because the heaviest items may not have been drawn. nil if the law is not known.
function laws.price(c, g)
  local worst = 0
  for b = 1, #c.rows do
    local law = laws.of(c, g, b)
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

-- The mass of each strip without the special items.
function laws.strips_of(law, P)
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

return laws
