-- fopo.policy: the softmax policy over the catalogue.
local native = require "fopo.native"
local define = require "fopo.define"
local text = require "fopo.text"
local policy, methods = {}, native.types.policy

policy.linear = define.fn{
  name = "fopo.policy.linear", returns = "policy",
  options = {
    {"items", "array", nil, "beta [P, L], fixed", required = true},
    {"theta", "string|array", "random", "where theta [D, L] starts; identity needs D == L",
     one_of = {"identity", "random"}},
    {"context_dim", "integer", nil, "D, features of a context; the columns of items where left out",
     min = 1},
    {"temperature", "number", 1.0, "divides every score", above = 0},
    {"seed", "integer", 1, "of a random theta: 0.005 times standard normal, as the authors start"},
  },
  text = [[pi(a | x) = exp f(a, x) / Z(x) over all P items, f(a, x) = x^T theta beta_a / temperature
(the paper, "Parametrizing the Policy"), x a context of D features, beta_a an item of L. Only theta
[D, L] is learnt.]],
  example = [[items = fopo.array.randn(100, 4, 1)
pi = fopo.policy.linear{items = items}
ids = pi:best(items, {k = 3})
assert(ids.cols == 3)]],
  call = native.policy_linear,
}

local best = methods.best
methods.best = define.fn{
  name = "policy:best", returns = "array, array",
  args = {{"pi", "policy", nil, "the policy"}, {"x", "array", nil, "[N, D] contexts"}},
  options = {
    {"index", "index", nil, "search through it; left out: exactly"},
    {"k", "integer", 1, "how many items", min = 1},
  },
  text = "ids and scores [N, k] of the best items of each context, best first.",
  call = function(pi, x, o)
    return best(pi, x, o.index or require("fopo.cache").exact(pi:items()), o.k)
  end,
}

function methods.describe(pi)
  return ("policy linear: %s items, theta [%d, %d], temperature %g"):format(text.count(pi.n_items),
    pi.context_dim, pi.dim, pi.temperature)
end

define.doc{name = "policy:queries", signature = "pi:queries(x)", returns = "array",
  text = "Q [N, L] = x theta / temperature, so that the score of item a is Q_n . beta_a."}
define.doc{name = "policy:theta", signature = "pi:theta()", returns = "array",
  text = "A copy of theta [D, L]."}
define.doc{name = "policy:set_theta", signature = "pi:set_theta(array)",
  text = "Puts a copy of the array [D, L] in theta's place."}
define.doc{name = "policy:items", signature = "pi:items()", returns = "array",
  text = "The item embeddings [P, L] that the policy was made with."}

return policy
