-- fopo.proposal: the distributions that self-normalised importance sampling draws from.
local native = require "fopo.native"
local array = require "fopo.array"
local called = require "fopo.base.called"
local define = require "fopo.base.define"
local proposal, methods = {}, native.types.proposal

-- Options that both mixtures share.
local index = {"index", "index", nil, "finds the candidates; automatic if left out"}
local k = {"k", "integer", 256, "K, candidates of a context", min = 1}

proposal.uniform = define.fn{
  name = "fopo.proposal.uniform", returns = "proposal",
  text = "q(a) = 1 / P, without an index: the paper's epsilon = 1.",
  example = "q = fopo.proposal.uniform()",
  call = native.proposal_uniform,
}

proposal.mixture = define.fn{
  name = "fopo.proposal.mixture", returns = "proposal",
  options = {
    index, k,
    {"epsilon", "number", 0.8, "share of uniform draws", min = 0, max = 1},
    {"draws", "string", "iid", "iid: S draws of the mixture (Algorithm 1); stratified: exactly "
     .. "round(epsilon S) uniform ones (the authors' code)", one_of = {"iid", "stratified"}},
    {"refresh", "integer|string", 1, "visits of a context before its candidates are searched "
     .. "again, or \"once\"", min = 1, one_of = {"once"}},
  },
  text = [[q_{K,eps}(a | x) = eps / P + (1 - eps) kappa(a | x): the uniform distribution, mixed with
the softmax kappa of the current scores over the top-K candidates (the paper, "The Proposed
Method"). refresh = n caches the candidates of each context for n visits (epochs), which saves most
searches. kappa is always computed from the current scores, so the weights stay right: old
candidates only raise the variance. Age is counted in visits, not in steps: if a run visits each
context only a few times, the first candidates, those of an untrained policy, serve the whole run,
and that costs reward (scripts/studies/fast.lua). The cache takes 4 N (K + 2) bytes for N contexts,
in memory and in a checkpoint; a size that does not fit into memory is refused before it is
allocated. A resumed run is equal to the bit. Contexts that are drawn anew each epoch need other
candidates each time: refresh serves with resplit = false of fopo.trainer.
Without index the candidates are the K best of the H items of largest norm. H follows from the mass
of the policy (sums of exp(f)): it is the smallest of 256, 512, 768, 1024, 1536, 2048, 3072 ...
whose items hold 0.995 of the mass that each context's own top K holds; all items, if it would be
more than half of them. If H is more than 8,192 and an eighth of the items, a CPU takes items of the
clusters that fit best instead (fopo.index.clusters). A probe of 16 contexts of the batch at hand
measures that, before the first step and then so often that probes compute at most 3 % as many
scores as the steps do. H grows at
once, and shrinks if three probes in a row want less. It depends on data and seed alone, never on a
clock. t.history shows H as head, and the share of the whole mass that these items held
at the last probe as held, which is small where the policy is near uniform. An index of your own
with budget = "auto" (fopo.index.norm) is searched in the same way. q:sample and fopo.ope have no
steps and search all items.]],
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
    index, k,
    {"floor", "number", 0.0001, "the least epsilon", min = 0, max = 1},
    {"smoothing", "number", 0.5, "s, the weight of the earlier measurements in the share", min = 0,
     below = 1},
    {"refresh", "integer|string", 20, "visits of a context before its candidates are searched "
     .. "again, or \"once\"; see fopo.proposal.mixture", min = 1, one_of = {"once"}},
  },
  text = [[The mixture whose epsilon follows the policy: epsilon = 1 while the share of the
policy's mass outside the candidates is above 0.95, and floor from then on. While epsilon is 1 all
draws are uniform and the index is not searched. The share, 1 - m, is measured by draws with
epsilon = 0.5 (or floor, if that is more): every 50 steps on 8 contexts, searched anew, while
epsilon is 1, and every 500, of the first 200 every 50, on the whole batch otherwise; m <- s m +
(1 - s) m_now, where s is the smoothing and m_now the head_mass of the step. There is no value
between the two, because a mixture pays for both its candidates and its uniform draws. But a policy
that earns less than items drawn at random, by hits worth 1 each, looks at the wrong ones, which are
hardly ever among uniform draws and have to fall: a probe of the whole batch that finds it so makes
epsilon 0.5, with a probe every 50 steps, until eight in a row see more. This is not the best rule
for all data: if much of the policy stays outside the candidates, a fixed epsilon in between can
learn more. scripts/studies/adaptive.lua compares them, on your file too.
At the default floor and 1000 samples one context in ten has a uniform draw. The estimate is then
close to that of the reward among the candidates, and its bias close to the share outside them; give
a floor of 0.05 or more if the tail must be seen at every step. head_mass of such steps is too high.
Candidates serve `refresh` visits, 20 by default, and their cache takes 4 N (K + 2) bytes for N
contexts; see fopo.proposal.mixture, also for where they serve one epoch alone. g.epsilon and the
history show the current value. m is part of the checkpoint: a resumed run is equal to the bit.
Bias and variance: those of snis with the epsilon of the step. Source: ours; the paper leaves the
choice of epsilon open.]],
  example = [[items = fopo.array.randn(100, 4, 1)
q = fopo.proposal.adaptive{index = fopo.index.norm(items), k = 10}
assert(q.epsilon == 1 and q.floor == 0.0001)]],
  call = native.proposal_adaptive,
}

-- f, whose ids may also be a table of rows.
local function with_arrays(f)
  return function(...)
    local ids, log_q = f(...)
    if type(ids) == "table" then
      local all = {}
      for _, row in ipairs(ids) do table.move(row, 1, #row, #all + 1, all) end
      ids = array.ids(all):reshape(#ids, #all // math.max(1, #ids))
    end
    return ids, log_q
  end
end

proposal.custom = define.fn{
  name = "fopo.proposal.custom", returns = "proposal",
  options = {{"draws", "function", nil, "draws(Q, rows, S, seed, step) -> ids, log_q: S items for "
              .. "each of B contexts and the log of the density that each was drawn with, arrays "
              .. "[B, S] or tables of B rows. Q [B, L] are the queries, so that Q times an item is "
              .. "its score; rows [1, B] the ids of the contexts", required = true}},
  text = [[Your own proposal, for gradient.snis and gradient.custom: a Lua function makes the draws
of a batch, C does all else. Any distribution serves that gives every item a density above 0 and
says it rightly; fopo.check compares the mean of the estimate with the exact gradient. Make the
draws a function of seed and step, as a:draw(S, seed, step) is, and a run that is resumed has the
same bits. Called once a batch on the main thread, so not by jobs, on a GPU or over several
processes. A checkpoint holds no function: to resume, give it again. q:sample draws by it too;
fopo.ope does not. scripts/examples/methods/two_stage.lua is one.]],
  example = [[items = fopo.array.randn(100, 4, 1)
q = fopo.proposal.custom{draws = function(Q, rows, S, seed, step)
  local p = (Q:matmul(items, false, true) / 2):softmax("rows")
  local ids = p:draw(S, seed, step)
  return ids, p:gather(ids):log()
end}
g = fopo.gradient.snis{proposal = q, samples = 50}]],
  call = function(o)
    return native.proposal_custom(called("draws of proposal.custom", with_arrays(o.draws),
                                         {"Q", "rows", "S", "seed", "step"}))
  end,
}

local sample = methods.sample
methods.sample = define.fn{
  name = "proposal:sample", returns = "array, array",
  args = {{"q", "proposal", nil, "the proposal"}, {"pi", "policy", nil, "the policy"},
          {"x", "array", nil, "[B, D] contexts"},
          {"S", "integer", nil, "draws a context", min = 1}},
  options = {{"seed", "integer", 1, "of the draws"},
             {"step", "integer", 0, "of the draws", min = 0},
             {"rows", "array|table", nil, "the contexts that the rows of x are, for the draws that "
              .. "g:compute makes in these; 1 .. B if left out"},
             {"sessions", "sessions", nil, "those that x was made of, for a policy with seen = "
              .. "\"mask\": candidates in X have no share of the softmax part"}},
  text = [[ids [B, S] and the log of the proposal's density at each. A pure function of (seed, step,
row, sample), where row is the context's row of x, or what rows says it is.]],
  call = sample,
}

local function kind_of_index(q) return q.index and q.index:about().kind or "automatic" end

local function refreshed(q)
  return q.refresh ~= 1 and (", refresh %s"):format(q.refresh) or ""
end

function methods.describe(q)
  if q.kind == "uniform" then return "proposal uniform" end
  if q.kind == "custom" then return "proposal custom: draws by a Lua function" end
  if q.kind == "adaptive" then
    return ("proposal adaptive: K %d, epsilon %g (at least %g), index %s%s"):format(q.k, q.epsilon,
      q.floor, kind_of_index(q), refreshed(q))
  end
  return ("proposal mixture: K %d, epsilon %g, %s draws, index %s%s"):format(q.k, q.epsilon,
    q.draws, kind_of_index(q), refreshed(q))
end

return proposal
