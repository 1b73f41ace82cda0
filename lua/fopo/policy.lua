-- fopo.policy: the softmax policy over the catalogue.
local native = require "fopo.native"
local define = require "fopo.base.define"
local cache = require "fopo.base.cache"
local origin = require "fopo.base.origin"
local table_rows = require "fopo.base.rows"
local file = require "fopo.serve.file"
local text = require "fopo.base.text"
local policy, methods = {}, native.types.policy

-- Options that both kinds share.
local items = {"items", "array", nil, "beta [P, L]", required = true}
local context_dim = {"context_dim", "integer", nil, "D, features of a context; the columns of "
                     .. "items if left out", min = 1}
local contexts = {"contexts", "string", nil, "how contexts are made of sessions: as their mean "
                  .. "embedding, or that at unit length (s:contexts); the default is unit where "
                  .. "the sessions are known, else mean", one_of = (table_rows.names(native.encoders()))}
local temperature = {"temperature", "number|string", nil, "divides every score; auto, the default "
                     .. "where the sessions are known: see below; else 1", above = 0,
                     one_of = {"auto"}}
local effective = {"effective", "number", 0.01, "auto: the number of items that theta = identity "
                   .. "chooses from in effect, as a share of P", above = 0, below = 1}
local data = {"data", "sessions", nil, "the sessions that defaults are chosen for; if left out, "
              .. "those that the items were embedded from"}
local train_items = {"train_items", "boolean", false, "learn the items too, on a copy of them"}
local rows = {"rows", "string", "float32", "precision of the items that training steps read",
              one_of = {"float32", "float16", "bfloat16"}}

-- So many contexts, evenly spread, choose a temperature: their median moves little with more.
local CONTEXTS = 16
local LEAST = 1.5 -- items in effect, of a small catalogue

-- A policy made by `make`, with the defaults that follow from the sessions, where they are known.
local function with_defaults(name, make)
  return function(o)
    local sessions = o.data or origin.sessions(o.items)
    local is_square = (o.context_dim or o.items.cols) == o.items.cols
    local known = sessions ~= nil and is_square
    o.contexts = o.contexts or known and "unit" or "mean"
    o.theta = o.theta or known and "identity" or "random"
    o.temperature = o.temperature or known and "auto" or 1.0
    if o.temperature == "auto" then
      if not known then
        define.fail("%s: temperature = \"auto\" is chosen for contexts made of sessions, %s", name,
                    is_square and "which are not known of these items; give data = s.train, or a "
                    .. "number" or "which have the items' columns; give a number")
      end
      local x = cache.contexts(sessions, o.items, o.contexts, CONTEXTS)
      local in_effect = math.max(LEAST, o.effective * o.items.rows)
      -- at which theta = identity chooses from so many of the items in effect
      o.temperature = cache.number(x, in_effect, native.policy_temperature, o.items, in_effect)
    end
    return make(o)
  end
end

local paper = {theta = "random", contexts = "mean", temperature = 1.0}

policy.linear = define.fn{
  name = "fopo.policy.linear", returns = "policy",
  options = {
    items,
    {"theta", "string|array", nil, "the initial theta [D, L]; identity needs D == L, and is the "
     .. "default where the sessions are known, else random", one_of = {"identity", "random"}},
    {"theta_scale", "number", 1.0, "the initial theta is multiplied by it: a step of lr changes a "
     .. "larger theta by a smaller share", above = 0},
    context_dim, contexts, temperature, effective, data, train_items, rows,
    {"seed", "integer", 1, "of a random theta: 0.005 times standard normal, as the authors start"},
  },
  presets = {paper = paper},
  text = [[pi(a | x) = exp f(a, x) / Z(x) over all P items, f(a, x) = x^T theta beta_a / temperature
(the paper, "Parametrizing the Policy"), x a context of D features, beta_a an item of L. Only theta
[D, L] is learnt (the paper, Assumption 1), or with train_items the items as well: pi:items() is
then the policy's own copy, which is updated in place; the array given stays as it is. That takes 3
more arrays [P, L] with adam (the copy and two moments), and one for the gradient of exact and of
reinforce without a baseline; the other estimators keep only the rows that were drawn. Contexts are
still made of pi:initial_items().
Where the sessions are known the start is theta = identity with contexts of unit length: it
recommends what is most like the items of X, and learning goes on from there. temperature = "auto"
is the one at which this start chooses from `effective` of the items, 1 / sum of pi^2 in the median
context. At a temperature far above it the softmax stays uniform whatever is learnt: the best item
moves, but the expected reward stays that of a random policy. Far below it one item has all the
probability, and the gradient vanishes. preset = "paper" starts as the authors do.
With rows = "float16" or "bfloat16" the steps of snis and head_tail read a copy of the items in half
the bytes, rounded to the nearest (11 significant bits up to 65504, or 8 bits at any size), and add
in float32. Memory is 1.5 times that of the items, a step reads about half the bytes, and the
gradient is that of the rounded items: its relative error is a few times 2^-11 or 2^-8. Search,
evaluation, exact and reinforce read the float32 items. An item outside the range of float16 is an
error that names it. rows cannot be combined with train_items.]],
  example = [[items = fopo.array.randn(100, 4, 1)
pi = fopo.policy.linear{items = items}
ids = pi:best(items, {k = 3})
assert(ids.cols == 3)]],
  call = with_defaults("fopo.policy.linear", function(o)
    local pi = native.policy_linear(o)
    if o.theta_scale ~= 1 then pi:set_theta(pi:theta():scale(o.theta_scale)) end
    return pi
  end),
}

policy.mlp = define.fn{
  name = "fopo.policy.mlp", returns = "policy",
  options = {
    items,
    {"hidden", "table", {64}, "units of one or two hidden layers: {64} or {64, 32}"},
    {"activation", "string", "tanh", "of the hidden layers", one_of = {"tanh", "relu"}},
    context_dim, contexts, temperature, effective, data, train_items, rows,
    {"seed", "integer", 1, "of the initial weights"},
  },
  presets = {paper = {contexts = paper.contexts, temperature = paper.temperature}},
  text = [[f(a, x) = h(x) . beta_a / temperature with h(x) = W2^T act(W1^T x + b1) + b2, or one more
layer. Everything that works on a linear policy works on this one. G of gradient:compute is
[1, n_params] in the order W1, b1, W2, b2, .., each matrix row by row; pi:parameters() gives them by
name. A context costs the products of the layers besides the rows of items. Source: back-propagation
(Rumelhart, Hinton and Williams 1986); hidden weights start as Glorot and Bengio (2010) for tanh, He
et al. (2015) for relu, the last ones as 0.005 times standard normal.]],
  example = [[items = fopo.array.randn(100, 4, 1)
pi = fopo.policy.mlp{items = items, hidden = {16, 8}, activation = "relu"}
assert(pi.n_params == 4 * 16 + 16 + 16 * 8 + 8 + 8 * 4 + 4)
assert(pi:parameters().W1.rows == 4)]],
  call = with_defaults("fopo.policy.mlp", native.policy_mlp),
}

local best = methods.best
methods.best = define.fn{
  name = "policy:best", returns = "array, array",
  args = {{"pi", "policy", nil, "the policy"}, {"x", "array", nil, "[N, D] contexts"}},
  options = {
    {"index", "index", nil, "the index to search; exact search if left out"},
    {"k", "integer", 1, "how many items", min = 1},
  },
  text = "ids and scores [N, k] of the best items of each context, best first.",
  call = function(pi, x, o)
    return best(pi, x, o.index or require("fopo.base.cache").exact_of(pi), o.k)
  end,
}

methods.recommend = require "fopo.serve.recommend"
methods.explain = require "fopo.serve.explain"
methods.recommend_file = require "fopo.serve.table"
methods.save, policy.load = file.save, file.load

-- " (learnt)" or " (read as float16)" if either holds of the items.
local function about_items(pi)
  if pi.train_items then return " (learnt)" end
  return pi.rows == "float32" and "" or (" (read as %s)"):format(pi.rows)
end

function methods.describe(pi)
  local start = ("policy %s: %s items%s"):format(pi.kind, text.count(pi.n_items), about_items(pi))
  local shape = ("theta [%d, %d]"):format(pi.context_dim, pi.dim)
  if pi.kind == "mlp" then
    shape = ("%d -> %s -> %d, %s, %s parameters"):format(pi.context_dim,
      table.concat(pi.hidden, " -> "), pi.dim, pi.activation, text.count(pi.n_params))
  end
  return ("%s, %s, temperature %.4g, %s contexts"):format(start, shape, pi.temperature, pi.contexts)
end

define.doc{name = "policy:queries", signature = "pi:queries(x)", returns = "array",
  text = "Q [N, L] = x theta / temperature, so that the score of item a is Q_n . beta_a."}
define.doc{name = "policy:theta", signature = "pi:theta()", returns = "array",
  text = "A copy of theta [D, L]; of a network all parameters [1, n_params]."}
define.doc{name = "policy:set_theta", signature = "pi:set_theta(array)",
  text = "Replaces theta by a copy of the array [D, L]."}
define.doc{name = "policy:parameters", signature = "pi:parameters()", returns = "table",
  text = "Copies of the parameters by name: theta, or W1, b1, W2, b2, .. of a network."}
define.doc{name = "policy:set_parameters", signature = "pi:set_parameters(t)",
  text = "Replaces the parameters by copies of the arrays in t, which must have all their names."}
define.doc{name = "policy:items", signature = "pi:items()", returns = "array",
  text = [[The item embeddings [P, L] that the policy was made with. With train_items they are the
policy's own copy as it is learnt, always the same array: ix:update() brings an index built on it up
to date. pi.version grows with every change.]]}
define.doc{name = "policy:initial_items", signature = "pi:initial_items()", returns = "array",
  text = "The item embeddings that the policy was made with: contexts are made of them."}
define.doc{name = "policy:set_items", signature = "pi:set_items(array)",
  text = "Replaces items that are learnt by a copy of the array [P, L]."}

return policy
