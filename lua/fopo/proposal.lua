-- fopo.proposal: what self-normalised importance sampling draws from.
local native = require "fopo.native"
local define = require "fopo.define"
local proposal, methods = {}, native.types.proposal

proposal.uniform = define.fn{
  name = "fopo.proposal.uniform", returns = "proposal",
  text = "q(a) = 1 / P: no index at all. The paper's epsilon = 1.",
  example = "q = fopo.proposal.uniform()",
  call = native.proposal_uniform,
}

proposal.mixture = define.fn{
  name = "fopo.proposal.mixture", returns = "proposal",
  options = {
    {"index", "index", nil, "finds the candidates", required = true},
    {"k", "integer", 256, "K, candidates of a context", min = 1},
    {"epsilon", "number", 0.8, "share of uniform draws", min = 0, max = 1},
    {"draws", "string", "iid", "iid: S draws of the mixture (Algorithm 1); stratified: exactly "
     .. "round(epsilon S) uniform ones (the authors' code)", one_of = {"iid", "stratified"}},
  },
  text = [[q_{K,eps}(a | x) = eps / P + (1 - eps) kappa(a | x): uniform, mixed with the softmax kappa of
the current scores over the top-K candidates (the paper, "The Proposed Method").]],
  example = [[items = fopo.array.randn(100, 4, 1)
q = fopo.proposal.mixture{index = fopo.index.norm(items), k = 10}
pi = fopo.policy.linear{items = items}
ids, logq = q:sample(pi, items, 20, {seed = 1})
assert(ids.rows == 100 and logq.cols == 20)]],
  call = native.proposal_mixture,
}

local sample = methods.sample
methods.sample = define.fn{
  name = "proposal:sample", returns = "array, array",
  args = {{"q", "proposal", nil, "the proposal"}, {"pi", "policy", nil, "the policy"},
          {"x", "array", nil, "[B, L] contexts"}, {"S", "integer", nil, "draws a context", min = 1}},
  options = {{"seed", "integer", 1, "of the draws"}, {"step", "integer", 0, "of the draws", min = 0}},
  text = [[ids [B, S] and the log of the proposal's density at each. A pure function of (seed, step, row,
sample), row being the context's place in x.]],
  call = sample,
}

function methods.describe(q)
  if q.kind == "uniform" then return "proposal uniform" end
  return ("proposal mixture: K %d, epsilon %g, %s draws, index %s"):format(q.k, q.epsilon, q.draws,
    q.index:about().kind)
end

return proposal
