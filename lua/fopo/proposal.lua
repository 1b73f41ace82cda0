-- fopo.proposal: what self-normalised importance sampling draws from.
local native = require "fopo.native"
local define = require "fopo.base.define"
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
    {"refresh", "integer|string", 1, "visits of a context that its candidates serve before they "
     .. "are searched again, or \"once\"", min = 1, one_of = {"once"}},
  },
  text = [[q_{K,eps}(a | x) = eps / P + (1 - eps) kappa(a | x): uniform, mixed with the softmax kappa of
the current scores over the top-K candidates (the paper, "The Proposed Method").
refresh = n keeps the candidates of each context for n visits (epochs), which saves most searches;
kappa is of the current scores all the same, so that the weights stay right and only the variance
feels that the candidates are old. They are old by visits, not by steps: where a run visits each
context only a few times, the first candidates, of a policy that knew nothing, serve all of it, and
that costs reward (scripts/studies/fast.lua). It takes 4 N (K + 2) bytes for N contexts, refused before they
are taken where they do not fit, and as much in a checkpoint. A run that is resumed is the same bit
by bit.]],
  example = [[items = fopo.array.randn(100, 4, 1)
q = fopo.proposal.mixture{index = fopo.index.norm(items), k = 10}
pi = fopo.policy.linear{items = items}
ids, logq = q:sample(pi, items, 20, {seed = 1})
assert(ids.rows == 100 and logq.cols == 20)]],
  call = native.proposal_mixture,
}

proposal.adaptive = define.fn{
  name = "fopo.proposal.adaptive", returns = "proposal",
  options = {
    {"index", "index", nil, "finds the candidates", required = true},
    {"k", "integer", 256, "K, candidates of a context", min = 1},
    {"floor", "number", 0.0001, "the least epsilon", min = 0, max = 1},
    {"smoothing", "number", 0.5, "what a measurement of the share leaves of those before it",
     min = 0, below = 1},
    {"refresh", "integer|string", 20, "visits that a context's candidates serve, or \"once\"; see "
     .. "fopo.proposal.mixture", min = 1, one_of = {"once"}},
  },
  text = [[The mixture whose epsilon follows the policy: epsilon = 1 while the share of the policy's mass
outside the candidates is above 0.95, and floor from then on. While epsilon is 1 all draws are
uniform and the index is not asked. The share, 1 - m, is measured by draws with epsilon = 0.5 (or
floor, where that is more): every 50 steps of 8 contexts while epsilon is 1, searched anew, and every
500 steps of the whole batch otherwise; m <- s m + (1 - s) m_now, s being the smoothing and m_now the
head_mass of the step. There is nothing between the two: a mixture pays for its candidates and for
uniform draws too. That is no rule for all data: where much of the policy stays outside the candidates
a fixed epsilon between can learn more. scripts/studies/adaptive.lua compares them, on your file too.
At the default floor and 1000 samples one context in ten has a uniform draw. The estimate is then
close to that of the reward among the candidates, and its bias to the share outside them; give a
floor of 0.05 or more where the tail must be seen at every step. head_mass of such steps is too high.
Candidates serve `refresh` visits, 20 by default, which keeps 4 N (K + 2) bytes for N contexts; see
fopo.proposal.mixture. g.epsilon and the history show the current value. m is a part of the
checkpoint: a run that is resumed is the same bit by bit.
Bias and variance: those of snis with the epsilon of the step. Source: ours; the paper leaves it
open.]],
  example = [[items = fopo.array.randn(100, 4, 1)
q = fopo.proposal.adaptive{index = fopo.index.norm(items), k = 10}
assert(q.epsilon == 1 and q.floor == 0.0001)]],
  call = native.proposal_adaptive,
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

local function refreshed(q)
  return q.refresh ~= 1 and (", refresh %s"):format(q.refresh) or ""
end

function methods.describe(q)
  if q.kind == "uniform" then return "proposal uniform" end
  if q.kind == "adaptive" then
    return ("proposal adaptive: K %d, epsilon %g (at least %g), index %s%s"):format(q.k, q.epsilon,
      q.floor, q.index:about().kind, refreshed(q))
  end
  return ("proposal mixture: K %d, epsilon %g, %s draws, index %s%s"):format(q.k, q.epsilon,
    q.draws, q.index:about().kind, refreshed(q))
end

return proposal
