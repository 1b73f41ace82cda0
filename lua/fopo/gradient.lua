-- fopo.gradient: estimators of the gradient of the expected reward.
local native = require "fopo.native"
local define = require "fopo.base.define"
local gradient, methods = {}, native.types.gradient

gradient.exact = define.fn{
  name = "fopo.gradient.exact", returns = "gradient", options = {},
  text = [[v = sum_a pi_a (r_a - E_pi r) beta_a over all P items: no bias, no variance, P rows a
context. The oracle of every check; for small catalogues also a method.]],
  example = "g = fopo.gradient.exact{}",
  call = function() return native.gradient_exact() end,
}

gradient.reinforce = define.fn{
  name = "fopo.gradient.reinforce", returns = "gradient",
  options = {
    {"samples", "integer", 1000, "S, draws of the policy a context", min = 2},
    {"baseline", "string", "none", "none (the paper) or mean", one_of = {"none", "mean"}},
  },
  text = [[S items drawn from the policy itself (Williams 1992), which needs all P scores.
mean: c_s = (r_s - rbar) / (S - 1); none: c_s = r_s / S and rbar E_pi[beta] is taken off. Both are
unbiased; the baseline has the lower variance. Cost: P rows a context.]],
  example = "g = fopo.gradient.reinforce{samples = 100, baseline = \"mean\"}",
  call = native.gradient_reinforce,
}

gradient.snis = define.fn{
  name = "fopo.gradient.snis", returns = "gradient",
  options = {
    {"proposal", "proposal", nil, "what to draw from; uniform where left out"},
    {"samples", "integer", 1000, "S, draws a context", min = 2},
    {"fault", "string", "none", "for teaching: a mistake to plant",
     one_of = {"none", "no_q", "added_q", "off_by_one"}},
  },
  text = [[The covariance gradient by self-normalised importance sampling (the paper, Algorithm 1):
w_s = exp(f_s) / q_s, wbar = w / sum w, c_s = wbar_s (r_s - rbar). Bias of order 1 / S, less the
closer q is to the policy. Cost: S + K rows a context, whatever P is.
fault makes the estimator wrong on purpose, to see what a mistake does to learning and whether
fopo.check finds it: no_q drops q from the weight (w = exp(f)), added_q adds log q instead of
subtracting it (w = exp(f) q), off_by_one takes the item after the one that was drawn. Under the
uniform proposal all three change nothing: a constant q cancels, and a shifted uniform draw is
uniform. The name of the gradient and every line of a run say that a fault is planted.]],
  example = "g = fopo.gradient.snis{proposal = fopo.proposal.uniform(), samples = 200}",
  call = function(o)
    o.proposal = o.proposal or native.proposal_uniform()
    return native.gradient_snis(o)
  end,
}

gradient.head_tail = define.fn{
  name = "fopo.gradient.head_tail", returns = "gradient",
  options = {
    {"index", "index", nil, "finds the head", required = true},
    {"k", "integer", 256, "K, candidates of a context, all of them taken", min = 1},
    {"tail", "integer", 256, "U, draws of the other P - K items", min = 1},
    {"refresh", "integer|string", 1, "visits that a context's candidates serve, or \"once\"; see "
     .. "fopo.proposal.mixture", min = 1, one_of = {"once"}},
  },
  text = [[The covariance gradient with the head in full: the K candidates of the index stand for
themselves and U uniform draws of the other P - K items for (P - K) / U of them each, so
w = exp(f) in the head, w = (P - K) / U exp(f) in the tail, c_s = wbar_s (r_s - rbar) as in snis,
and no draw is spent twice on the head. One draw in each of U equal strips of the other items: all
are drawn equally often, and U = P - K is the exact gradient.
Bias: that of a ratio whose tail is estimated, of order 1 / U, and less the more of the policy's
mass the head holds; none from the head. Variance: of the tail alone. Cost: K + U rows a context and the
search. Where the index finds fewer than K, the tail has more draws. K + U is at most P.
Source: ours.]],
  example = [[items = fopo.array.randn(100, 4, 1)
g = fopo.gradient.head_tail{index = fopo.index.norm(items), k = 10, tail = 20}
assert(g.k == 10 and g.tail == 20)]],
  call = function(o)
    o.proposal = native.proposal_mixture{index = o.index, k = o.k, epsilon = 0, draws = "iid",
                                         refresh = o.refresh}
    return native.gradient_head_tail(o)
  end,
}

local compute = methods.compute
methods.compute = define.fn{
  name = "gradient:compute", returns = "array, table",
  args = {{"g", "gradient", nil, "the estimator"}, {"pi", "policy", nil, "the policy"},
          {"x", "array", nil, "[N, D] contexts"},
          {"rows", "array|table|nil", nil, "which contexts: ids, 1-based integers, or nil: all"},
          {"reward", "reward", nil, "the reward"}},
  options = {{"seed", "integer", 1, "of the draws"}, {"step", "integer", 0, "of the draws", min = 0}},
  text = [[The gradient [D, L] of the mean expected reward of those contexts with respect to theta, to
be ascended (of a network the flat [1, n_params]), and a table: reward (the estimate of the expected
reward), ess (effective sample size), max_weight, head_mass (share of the policy's mass inside the
candidates), norm, short_rows, seconds by phase. The same samples for any number of threads. Of a
policy with train_items also ids [1, n] and rows [n, L]: the gradient of those items, all others'
being zero.]],
  call = compute,
}
define.entries["gradient:compute"].args[4].optional = true

define.doc{name = "gradient:set", signature = "g:set{epsilon=, k=, samples=, tail=}",
  text = [[Changes what a run may change between steps, as g.epsilon then shows. The proposal that g was
made with stays as it is: g has a copy.]],
  example = [[items = fopo.array.randn(100, 4, 1)
g = fopo.gradient.snis{proposal = fopo.proposal.mixture{index = fopo.index.norm(items), k = 10}}
g:set{epsilon = 0.5}
assert(g.epsilon == 0.5)]]}

function methods.describe(g)
  if g.kind == "exact" then return "gradient exact" end
  if g.kind == "reinforce" then
    return ("gradient reinforce: S %d, baseline %s"):format(g.samples, g.baseline)
  end
  if g.kind == "head_tail" then
    return ("gradient head and tail: K %d, U %d, index %s%s"):format(g.k, g.tail,
      g.proposal.index:about().kind, g.refresh ~= 1 and (", refresh %s"):format(g.refresh) or "")
  end
  return ("gradient snis: S %d, %s%s"):format(g.samples, g.proposal:describe(),
    g.fault and (", FAULT %s PLANTED"):format(g.fault) or "")
end

return gradient
