-- fopo.gradient: estimators of the gradient of the expected reward. Each is a row of C
-- (src/learn/estimators/), from which its function, its options and its help are made here.
local native = require "fopo.native"
local called = require "fopo.base.called"
local cache = require "fopo.base.cache"
local define = require "fopo.base.define"
local rows = require "fopo.base.rows"
local gradient, methods = {}, native.types.gradient
local common, row_of = native.gradient_common, {}

-- A mixture that holds the candidates; nil: none, but a head for all contexts. of: the names of the
-- options that speak of candidates and of such a head.
local function candidates_of(row, o, of)
  local index, head = o[of.index], of.head and o[of.head]
  if math.type(head) then
    if index then
      define.fail("fopo.gradient.%s has both index and head; give index, to find a head for each "
                  .. "context, or head, one for all", row.name)
    end
    return nil
  end
  local by_mass = head == "auto"
  if index and of.head and not by_mass and o.products ~= "auto" then
    define.fail("fopo.gradient.%s has both index and products; products are those of a head "
                .. "for all contexts, which head = \"auto\" or a number asks for", row.name)
  end
  if of.head then o[of.head] = nil end
  return native.proposal_mixture{index = index, by_mass = by_mass, k = o[of.k], epsilon = 0,
                                 draws = "iid", refresh = of.refresh and o[of.refresh]}
end

-- What a gradient can be of: an option of every estimator, from the rows of C.
local names, meanings = {}, {}
for i, row in ipairs(native.objectives()) do
  if row.name ~= "custom" then names[i] = row.name end -- it is made by fopo.objective.custom
  meanings[i] = ("%s: %s"):format(row.name, row.text)
end
local objective = {"objective", "string|objective", names[1], "what the gradient is of. "
                   .. table.concat(meanings, "; "), one_of = names}

-- The options of an estimator, and what all of them have but those with an option of that name.
local function options_of(row)
  local list = rows.specs(row.options)
  for _, spec in ipairs(list) do if spec[1] == objective[1] then return list end end
  list[#list + 1] = objective
  return list
end

-- The proposal that the options speak of: their own, one that holds the candidates, or uniform.
local function proposal_of(row, o)
  local of = {}
  for _, option in ipairs(row.options) do
    if option.type == "proposal" then return o[option.name] or native.proposal_uniform() end
    if option.type == "index" then of.index = option.name end
    if option.type == "integer|string" then of.refresh = option.name end
    if option.head then of.head = option.name end
    if option.candidates and option.type == "integer" then of.k = option.name end
  end
  return of.index and candidates_of(row, o, of)
end

for _, row in ipairs(native.gradients()) do
  local make = native["gradient_" .. row.name]
  row_of[row.name] = row
  gradient[row.name] = define.fn{
    name = "fopo.gradient." .. row.name, returns = "gradient", options = options_of(row),
    text = row.text, example = row.example,
    call = function(o)
      local q = proposal_of(row, o)
      if o.coefficients then
        o.coefficients = called("coefficients of gradient." .. row.name, o.coefficients,
                                {"ids", "F", "log_q", "rewards"})
      end
      return make(o, q)
    end,
  }
end

-- x may be the sessions that contexts are made of.
local native_compute = methods.compute
local function compute(g, pi, x, ids, reward, o)
  local is_made = define.kind(x) == "sessions"
  return native_compute(g, pi, is_made and cache.contexts(x, pi) or x, ids, reward, o,
                        is_made and x or o.sessions)
end

methods.compute = define.fn{
  name = "gradient:compute", returns = "array, table",
  args = {{"g", "gradient", nil, "the estimator"}, {"pi", "policy", nil, "the policy"},
          {"x", "array|sessions", nil, "[N, D] contexts, or the sessions that they are made of"},
          {"rows", "array|table|nil", nil, "which contexts: ids, 1-based integers, or nil: all"},
          {"reward", "reward", nil, "the reward"}},
  options = {{"seed", "integer", 1, "of the draws"},
             {"step", "integer", 0, "of the draws", min = 0},
             {"sessions", "sessions", nil, "if x is an array: those that it was made of, for a "
              .. "policy with seen = \"mask\""}},
  text = [[The gradient [D, L] of the mean expected reward of those contexts with respect to theta,
to be ascended (of a network the flat [1, n_params]), and a table: reward (the estimate of the
expected reward), ess (effective sample size), max_weight, head_mass (share of the policy's mass
inside the candidates), norm, short_rows, seconds by phase. The same samples for any number of
threads. Of a policy with train_items also ids [1, n] and rows [n, L]: the gradient of those items,
all others' being zero.]],
  call = compute,
}
define.entries["gradient:compute"].args[4].optional = true

define.doc{name = "gradient:set",
  signature = "g:set{" .. table.concat(rows.of_gradients(), "=, ") .. "=}",
  text = [[Changes what a run may change between steps, as g.epsilon then shows. The proposal that g
was made with stays as it is: g has a copy.]],
  example = [[items = fopo.array.randn(100, 4, 1)
g = fopo.gradient.snis{proposal = fopo.proposal.mixture{index = fopo.index.norm(items), k = 10}}
g:set{epsilon = 0.5}
assert(g.epsilon == 0.5)]]}

define.doc{name = "gradient:copy", signature = "g:copy(q, objective)", returns = "gradient",
  text = [[A gradient with the same options and the same planted fault, over a copy of the proposal
q; without q if g uses no proposal. Of another objective, if one is named.]],
  example = [[g = fopo.gradient.reinforce{samples = 50}
assert(g:copy().samples == 50)]]}

-- "U 256", "refresh 3": how an option stands in the description of g; nil: it says nothing there.
local shown = {
  integer = function(g, option)
    return g[option.name] and ("%s %s"):format(option.symbol, g[option.name])
  end,
  number = function(g, option) return ("%s %.4g"):format(option.symbol, g[option.name]) end,
  proposal = function(g) return common(g, "proposal"):describe() end,
  index = function(g)
    local q = common(g, "proposal")
    return q and q.index and "index " .. q.index:about().kind
  end,
  ["integer|string"] = function(g)
    local refresh = common(g, "refresh")
    return refresh and refresh ~= 1 and ("refresh %s"):format(refresh) or nil
  end,
  string = function(g, option)
    local fault = option.fault and common(g, "fault")
    if option.fault then return fault and ("FAULT %s PLANTED"):format(fault) end
    local value = g[option.name]
    return value ~= "auto" and ("%s %s"):format(option.symbol, value) or nil
  end,
}

-- "gradient head and tail: K 256, U 256, index norm": counts first.
function methods.describe(g)
  local row, parts = row_of[common(g, "kind")], {}
  for _, counts in ipairs{true, false} do
    for _, option in ipairs(row.options) do
      if option.symbol and (option.type == "integer") == counts then
        parts[#parts + 1] = shown[option.type](g, option) or nil
      end
    end
  end
  local what = "gradient " .. row.title
  if common(g, "objective") ~= names[1] then
    what = what .. " of the " .. common(g, "objective_title")
  end
  return #parts > 0 and what .. ": " .. table.concat(parts, ", ") or what
end

return gradient
