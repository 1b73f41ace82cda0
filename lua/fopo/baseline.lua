-- fopo.baseline: recommenders to compare a policy with. Each is a row of C (src/judge/baselines/),
-- from which its function, its options and its help are made here; identity is a policy.
local native = require "fopo.native"
local called = require "fopo.base.called"
local define = require "fopo.base.define"
local lists = require "fopo.base.lists"
local origin = require "fopo.base.origin"
local rows = require "fopo.base.rows"
local seen = require "fopo.base.seen"
local text = require "fopo.base.text"
local values = require "fopo.base.values"
local baseline, methods = {}, native.types.baseline
local row_of = {}

-- One whose scores a function of the user gives learns nothing.
local function add_custom(row)
  row_of.custom = row
  baseline.custom = define.fn{
    name = "fopo.baseline.custom", returns = "baseline", options = rows.specs(row.options),
    text = row.text, example = row.example,
    call = function(o)
      return native.baseline_custom(called("scores of baseline.custom", o.scores, {"block"}))
    end,
  }
end

local function add(row)
  local options = {{"data", "sessions", nil, "to learn from: s.train, X + Y of each user",
                    required = true}, table.unpack(rows.specs(row.options))}
  options[#options + 1] = {"value", "array|table|reward", nil, "what each of the P items is "
                           .. "worth, as of fopo.reward.hits, or such a reward: scores are "
                           .. "multiplied by it"}
  if row.has_seed then options[#options + 1] = {"seed", "integer", 1, "of what is random"} end
  row_of[row.name] = row
  baseline[row.name] = define.fn{
    name = "fopo.baseline." .. row.name, returns = "baseline", options = options,
    text = row.text, example = row.example,
    call = function(o)
      local data = o.data
      o.data, o.value = nil, values.of("fopo.baseline." .. row.name, o.value)
      local b = native.baseline(row.name, data, o)
      origin.set(b, {sessions = data})
      return b
    end,
  }
end

for _, row in ipairs(native.baselines()) do
  if row.name == "custom" then add_custom(row) else add(row) end
end

baseline.identity = define.fn{
  name = "fopo.baseline.identity", returns = "policy",
  options = {
    {"items", "array", nil, "beta [P, L]", required = true},
    {"contexts", "string", nil, "how contexts are made of sessions; as fopo.policy.linear if left "
     .. "out", one_of = (rows.names(native.encoders()))},
    {"item_weights", "array", nil, "[1, P], of weighted contexts"},
    {"temperature", "number|string", nil, "divides every score, which changes the expected reward "
     .. "alone; as fopo.policy.linear if left out", above = 0, one_of = {"auto"}},
    {"seen", "string", nil, "the items of X; the same", one_of = {"keep", "mask"}},
  },
  text = [[The untrained policy: theta is the identity, so that the items of largest inner product
with the mean of X are recommended. What training adds is what a policy earns above it.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
start = fopo.baseline.identity{items = fopo.embed.svd(s.train, {dim = 8})}
assert(fopo.evaluate(start, s.test).reward > 0.05)]],
  call = function(o)
    return require("fopo.policy").linear{items = o.items, theta = "identity",
                                         contexts = o.contexts, item_weights = o.item_weights,
                                         temperature = o.temperature, seen = o.seen}
  end,
}

methods.best = define.fn{
  name = "baseline:best", returns = "array, array",
  args = {{"b", "baseline", nil, "the baseline"}, {"sessions", "sessions", nil, "as s.test"}},
  options = {
    {"k", "integer", 1, "how many items", min = 1},
    seen.option("seen, the default: items of X are left out; none: they are not"),
    {"left_out", "boolean", false, "each session as if it had not been learnt from; of sessions "
     .. "that were"},
  },
  text = [[ids and scores [N, k] of the best items of each session, best first, ties to the smaller
id. A list that ends early has no id and -inf behind its last item.
A baseline knows what its own training sessions took next, so it looks better on them than it is.
With left_out = true the scores are exactly those of a baseline that was learnt from all other
sessions: of ease with top = 0 alone, where a list then costs two to four times as much (Sherman and
Morrison 1950).]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
ids, scores = fopo.baseline.popular{data = s.train}:best(s.test, {k = 3})
assert(ids.cols == 3 and scores:get(1, 1) >= scores:get(1, 2))]],
  call = function(b, sessions, o) return lists.of(b, sessions, o) end,
}

-- " by NDCG@20 of 120 users (10: 0.2214, 31.6: 0.2301, ..)" of an option that was "auto".
local function how(tried)
  if tried.held == 0 then return " (too few users to choose it by)" end
  local parts = {}
  for i, one in ipairs(tried) do
    parts[i] = ("%.3g: %s"):format(one.value, one.ndcg < 0 and "no solution"
                                              or ("%.4f"):format(one.ndcg))
  end
  return (" by NDCG@20 of %s users (%s)"):format(text.count(tried.held), table.concat(parts, ", "))
end

methods.items = define.fn{
  name = "baseline:items", returns = "array",
  args = {{"b", "baseline", nil, "a baseline that has factors: als"}},
  text = [[A copy of the item factors [P, dim], for a policy to start from. They come from the
sessions of the baseline, so the policy's defaults are chosen for these.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
als = fopo.baseline.als{data = s.train, dim = 8, iterations = 5}
pi = fopo.policy.linear{items = als:items(), theta = als:theta(), seen = "mask"}
assert(fopo.evaluate(pi, s.test).reward > 0.05)]],
  call = function(b)
    local items = native.baseline_items(b)
    origin.set(items, {sessions = origin.sessions(b)})
    return items
  end,
}

methods.theta = define.fn{
  name = "baseline:theta", returns = "array",
  args = {{"b", "baseline", nil, "a baseline that has factors: als"}},
  text = [[theta [dim, dim] = c (Y^T Y + l2 I)^-1, Y = b:items(), at which a linear policy with
contexts of unit or mean length ranks nearly as als does: als solves (Y^T Y + l2 n^nu I + alpha sum
of y_b y_b^T) x = (1 + alpha) sum of y_b for a session of n items b, and theta leaves out the term
with alpha. With alpha = 0 and nu = 0 both rankings are the same. theta = "identity" leaves out
Y^T Y too; on some data it serves worse, on others better. c gives scores the size that they have
with the identity, so that one temperature fits both.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
als = fopo.baseline.als{data = s.train, dim = 8, alpha = 0, iterations = 5}
pi = fopo.policy.linear{items = als:items(), theta = als:theta(), seen = "mask"}
best, same = pi:best(s.test, {k = 1}), als:best(s.test, {k = 1, exclude = "seen"})
assert(best:get(1, 1) == same:get(1, 1))]],
  call = native.baseline_theta,
}

function methods.describe(b)
  if b.kind == "custom" then return "baseline custom: scores by a Lua function" end
  local parts = {}
  for _, option in ipairs(row_of[b.kind].options) do
    local value, chosen = b[option.name], b.tried and b.tried.option == option.name
    parts[#parts + 1] = ("%s %s%s"):format(option.name,
      type(value) == "number" and ("%.4g"):format(value) or value, chosen and how(b.tried) or "")
  end
  return ("baseline %s%s: %s items%s%s, learnt in %s"):format(b.kind,
    b.valued and " by value" or "", text.count(b.n_items), #parts > 0 and ", " or "",
    table.concat(parts, ", "), text.seconds(b.seconds))
end

return baseline
