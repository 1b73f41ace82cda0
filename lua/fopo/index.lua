-- fopo.index: maximum inner product search.
local native = require "fopo.native"
local define = require "fopo.base.define"
local saves = require "fopo.base.saves"
local text = require "fopo.base.text"
local cache = require "fopo.base.cache"
local auto = require "fopo.index.auto"
local choice = require "fopo.index.choice"
local fn, doc = define.fn, define.doc
local index, methods = {}, native.types.index

methods.save = saves("index", methods.save, native.index_reads)

local graph_options = {
  {"M", "integer", 16, "links per item and layer", min = 2, max = 128},
  {"ef_construction", "integer", 200, "breadth of the search while building", min = 2},
  {"ef", "integer", 256, "breadth of a search; at least k", min = 1},
  {"seed", "integer", 1, "of the levels"},
  {"deterministic", "boolean", false, "build with one thread: the same graph every time"},
}
local items_argument = {"items", "array", nil, "[P, L] item embeddings; kept alive, not copied"}
local notes = setmetatable({}, {__mode = "k"}) -- index -> notes of index.auto

index.exact = fn{
  name = "fopo.index.exact", returns = "index", args = {items_argument},
  text = [[Scores every item, in blocks for the whole batch of queries. Exact; P rows a query.]],
  example = [[items = fopo.array.randn(1000, 8, 1)
ids, scores = fopo.index.exact(items):search(fopo.array.randn(2, 8, 2), 5)
assert(ids.rows == 2 and ids.cols == 5)]],
  call = native.index_exact,
}

index.norm = fn{
  name = "fopo.index.norm", returns = "index", args = {items_argument},
  options = {{"budget", "integer|string", nil, "score at most so many items, by largest norm; or "
    .. "\"auto\"", min = 1, one_of = {"auto"}}},
  text = [[Scores items by descending norm, in blocks for the whole batch of queries, and stops
when |q| |beta| cannot beat the k-th best score (Cauchy-Schwarz). Exact, and built by a sort. With
a budget the answer is the best among so many items of largest norm: ix:recall measures what that
loses. ix.budget can be set between searches (nil: no budget). With budget = "auto" ix:search is
exact, and a gradient that takes candidates from the index searches as many norms as hold 0.995 of
the mass; see fopo.proposal.mixture.]],
  example = [[items = fopo.array.randn(1000, 8, 1)
ix = fopo.index.norm(items)
assert(ix:search(items, 1):get(1, 1))]],
  call = native.index_norm,
}

index.hnsw = fn{
  name = "fopo.index.hnsw", returns = "index", args = {items_argument},
  options = graph_options,
  text = [[The graph of Malkov and Yashunin (2020) on inner products, built by hnswlib.
Approximate: the inner product is no metric, so items can be unreachable and answers short;
ix:recall and ix:about say how many. ix.ef can be set between searches.]],
  example = [[items = fopo.array.randn(1000, 8, 1)
ix = fopo.index.hnsw(items, {M = 8, ef_construction = 50})
assert(ix:recall(fopo.array.randn(50, 8, 2), 10).recall > 0.5)]],
  call = native.index_hnsw,
}

index.hybrid = fn{
  name = "fopo.index.hybrid", returns = "index", args = {items_argument},
  options = {
    {"head", "number", 0.05, "share of the items, those of largest norm, that is searched exactly",
     above = 0, below = 1},
    {"M", "integer", 16, "links per item and layer of the graph", min = 2, max = 128},
    table.unpack(graph_options, 2),
  },
  text = [[The items of largest norm exactly, as index.norm, the others through a graph, as
index.hnsw; the answers are merged. Embeddings by SVD have heavy-tailed norms, and a graph by inner
product fails among the largest of them, where nearly all answers are. If the k-th best score among
the items searched exactly exceeds |q| |beta| of all others, the answer is exact and the graph is
not used; otherwise it is approximate: see ix:recall. ix.ef can be set between searches.]],
  example = [[items = fopo.array.randn(1000, 8, 1)
ix = fopo.index.hybrid(items, {head = 0.1, M = 8, ef_construction = 50})
assert(ix:about().head == 100 and ix:recall(fopo.array.randn(50, 8, 2), 10).recall > 0.5)]],
  call = native.index_hybrid,
}

index.clusters = fn{
  name = "fopo.index.clusters", returns = "index", args = {items_argument},
  options = {
    {"clusters", "integer", 0, "C, how many; 0: 4 sqrt(P)", min = 0},
    {"ef", "integer", 0, "items that a search scores at least; 0: 4 k", min = 0},
  },
  text = [[Divides the items by k-means, and scores those of the clusters whose centres have the
largest inner products with the query. Approximate; C + ef rows a query. For items of nearly equal
norm, among which the other kinds find little that can be left out: gradients without an index take
it by themselves there (fopo.proposal.mixture). Candidates of a gradient are items of the best
clusters as they are, not the best of ef: C rows a query. ix.ef can be set between searches.]],
  example = [[items = fopo.array.randn(1000, 8, 1)
ix = fopo.index.clusters(items)
assert(ix:recall(fopo.array.randn(50, 8, 2), 10).recall > 0.3)]],
  call = native.index_clusters,
}

index.auto = fn{
  name = "fopo.index.auto", returns = "index", args = {items_argument},
  options = {
    {"queries", "array", nil, "[B, L] queries like those to come, as pi:queries(x) returns them",
     required = true},
    {"k", "integer", nil, "items of an answer; 256 if left out, all if there are fewer", min = 1},
    {"target", "number", nil, "the least recall@k; 0.99 unless mass alone is given", above = 0,
     max = 1},
    {"mass", "number", nil, "or the least share of the mass that the true top k hold; 0.995 if "
     .. "neither is given and k is at least 32", above = 0, max = 1},
    {"seconds", "number", 5, "that the choice may take in all; what does not fit is left out",
     above = 0},
    {"batch", "integer", 32, "queries searched at a time, like the trainer's batch", min = 1},
    {"sample", "integer", 256, "at most so many of the queries are used", min = 1},
    {"build_limit", "number", nil, "estimated seconds that building graphs may take, beyond those "
     .. "of the option seconds; if left out, what is left of these", min = 0},
    {"head", "number", 0.05, "of the hybrid", above = 0, below = 1},
    {"M", "integer", 16, "of the graphs", min = 2, max = 128},
    {"ef_construction", "integer", 200, "of the graphs", min = 2},
    {"seed", "integer", 1, "of the graphs"},
    {"deterministic", "boolean", false, "of the graphs: build with one thread"},
  },
  text = [[Measures exact, norm (without and with budgets), hybrid and hnsw (with several ef) on
your own queries, and returns the fastest that is good enough: by recall, the share of the true top
k that it returns, or by mass, the share of the sum of exp(score) over the true top k that its
answers hold. Mass is what matters of the candidates of a proposal: with many items of nearly equal
score a small budget can hold 0.999 of it at a recall of 0.8. Queries must have the scale of the
policy, as pi:queries(x), which has 1 / temperature in it: at a smaller scale every index seems to
hold the mass, as it does for a policy that is hardly trained; index.norm with budget = "auto"
follows a policy in training instead. Give target alone to be judged by recall alone, as for
recommendations (with k below 32 that is the default), mass alone for the mass, both for either.
ix:about().why says why in a sentence, ix:about().candidates lists what was measured or left out,
and ix:describe() prints both. No graph is built if what norm scores, or a graph over 2,000 of the
items, shows that it cannot be faster, or if its build would not fit. The choice takes at most
about `seconds`, at least the exact search of one batch, and more only by the graphs that
build_limit allows; ix:about().choice_seconds is what it took. Recall and mass are reproducible;
times are not, so a close race can end differently the next time.]],
  example = [[items = fopo.array.randn(2000, 8, 1)
Q = fopo.array.randn(50, 8, 2)
ix = fopo.index.auto(items, {k = 50, queries = Q})
print(ix:about().why)
r = ix:recall(Q, 50)
assert(r.recall >= 0.99 or r.mass >= 0.995)]],
  call = function(items, o)
    local ix, why, candidates, seconds = auto.choose(items, o)
    notes[ix] = {why = why, candidates = candidates, choice_seconds = seconds}
    return ix
  end,
}

index.load = fn{
  name = "fopo.index.load", returns = "index",
  args = {{"path", "string", nil, "an .npz written by ix:save"}, items_argument},
  text = "Loads an index over the items that it was built on; other items are an error.",
  example = [[items = fopo.array.randn(500, 8, 1)
path = os.tmpname() .. ".npz"
fopo.index.norm(items):save(path)
ix = fopo.index.load(path, items)
os.remove(path)]],
  call = native.index_load,
}

local about = methods.about
function methods.about(ix)
  local a, note = about(ix), notes[ix]
  for name, value in pairs(note or {}) do a[name] = value end
  return a
end

local recall = methods.recall
methods.recall = fn{
  name = "index:recall", returns = "table",
  args = {{"ix", "index", nil, "the index"}, {"Q", "array", nil, "[B, L] queries"},
          {"k", "integer", nil, "items of an answer"}},
  options = {
    {"policy", "policy", nil, "also the reward lost to the index by this policy ..."},
    {"sessions", "sessions", nil, "... on these sessions, as s.test"},
  },
  text = [[Compares the index with exact search on Q: recall, mass (the sum of exp(score) over what
was returned, divided by that over the true top k, at most 1, a mean over the queries),
recall_at_1, short_rows, reachable, scored (the mean share of the items scored for a query),
ms_per_query, exact_ms_per_query. With policy and sessions also what it costs to recommend through
the index: reward_exact by true argmax, reward_index through it, and their difference reward_lost
with its 95 % interval lost_low, lost_high (paired: Agresti and Min 2005); exact and index hold the
two evaluations, with their own intervals low, high. The index must be over the policy's items.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items = fopo.embed.svd(s.train, {dim = 8})
pi = fopo.policy.linear{items = items, theta = "identity"}
ix = fopo.index.norm(items, {budget = 100})
r = ix:recall(pi:queries(s.test:contexts(items)), 10, {policy = pi, sessions = s.test})
assert(r.reward_lost == r.reward_exact - r.reward_index)]],
  call = function(ix, Q, k, o)
    if (o.policy == nil) ~= (o.sessions == nil) then
      define.fail("index:recall needs policy and sessions together to tell the reward lost")
    end
    local r = recall(ix, Q, k)
    if not o.policy then return r end
    local x = cache.contexts(o.sessions, o.policy)
    local e = native.evaluate_lost(o.policy, x, o.sessions, cache.exact_of(o.policy), ix)
    r.exact, r.index, r.reward_exact, r.reward_index = e.exact, e.index, e.exact.reward,
                                                       e.index.reward
    r.reward_lost, r.lost_low, r.lost_high = e.lost, e.low, e.high
    return r
  end,
}

function methods.describe(ix)
  local a = ix:about()
  local parts = {("index %s: %s items of dim %d, built in %s, %s beside the items"):format(a.kind,
    text.count(a.n_items), a.dim, text.seconds(a.build_seconds), text.bytes(a.bytes))}
  if a.M and a.M > 0 then
    parts[#parts + 1] = ("M %d, ef_construction %d, ef %d"):format(a.M, a.ef_construction, a.ef)
  end
  if a.clusters then
    parts[#parts + 1] = ("%s clusters, ef %s"):format(text.count(a.clusters), a.ef or "4 k")
  end
  if a.head then parts[#parts + 1] = ("the %s largest norms exactly"):format(text.count(a.head)) end
  if a.budget then
    parts[#parts + 1] = "budget " .. (a.budget == "auto" and "auto" or text.count(a.budget))
  end
  if a.reachable < a.n_items then
    parts[#parts + 1] = ("%s items can never be found"):format(text.count(a.n_items - a.reachable))
  end
  local line = table.concat(parts, "; ")
  if not a.why then return line end
  return ("%s\nchosen because %s\n%s"):format(line, a.why, choice.table(a.candidates))
end

doc{name = "index:search", signature = "ids, scores, short = ix:search(Q, k)",
    returns = "array, array, integer",
    text = [[The k items of largest inner product with each row of Q [B, L], best first, ties to the
smaller id. short counts the rows for which fewer than k were found.]]}
doc{name = "index:update", signature = "ix:update()",
    text = [[Brings the index up to date after its items were changed in place, as a policy with
train_items does: the structure is built anew with the same options (a sort for norm, all insertions
for hnsw and hybrid). Until then searches use the old structure; draws for SNIS stay valid, because
their density takes the scores of now.]]}
doc{name = "index:save", signature = "ix:save(path)", text = "Writes the index as .npz."}
doc{name = "index:groups", signature = "ix:groups()", returns = "array",
    text = "Of an index of clusters: ids [1, P], the cluster of each item, as fopo.ope takes them."}
doc{name = "index:about", signature = "ix:about()", returns = "table",
    text = [[kind, n_items, dim, bytes, build_seconds, reachable, scored and queries so far,
exact (true if every answer is), and the kind's options. Of an index chosen by fopo.index.auto
also why, a sentence, choice_seconds, and candidates: a list of {name, kind, options, recall, mass,
recall_at_1, ms, scored, build_seconds, reachable, chosen} or {name, kind, skipped = reason}.]]}

return index
