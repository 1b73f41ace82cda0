-- fopo.index: maximum inner product search.
local native = require "fopo.native"
local define = require "fopo.define"
local text = require "fopo.text"
local fn, doc = define.fn, define.doc
local index, methods = {}, native.types.index
local items_argument = {"items", "array", nil, "[P, L] item embeddings; kept alive, not copied"}

index.exact = fn{
  name = "fopo.index.exact", returns = "index", args = {items_argument},
  text = [[Scores every item, by blocked matrix products: the oracle. Cost of a query: P rows.]],
  example = [[items = fopo.array.randn(1000, 8, 1)
ids, scores = fopo.index.exact(items):search(fopo.array.randn(2, 8, 2), 5)
assert(ids.rows == 2 and ids.cols == 5)]],
  call = native.index_exact,
}

index.norm = fn{
  name = "fopo.index.norm", returns = "index", args = {items_argument},
  options = {{"budget", "integer", nil, "score at most so many items of largest norm", min = 1}},
  text = [[Items in descending norm, scored in blocks for the whole batch of queries, stopped when
|q| |beta| cannot beat the k-th best score (Cauchy-Schwarz). The exact answer, and no time to build.
With a budget the answer is the best among the budget largest norms: see ix:recall.]],
  example = [[items = fopo.array.randn(1000, 8, 1)
ix = fopo.index.norm(items)
assert(ix:search(items, 1):get(1, 1))]],
  call = native.index_norm,
}

index.hnsw = fn{
  name = "fopo.index.hnsw", returns = "index", args = {items_argument},
  options = {
    {"M", "integer", 16, "links per item and layer", min = 2, max = 128},
    {"ef_construction", "integer", 200, "breadth of the search while building", min = 2},
    {"ef", "integer", 256, "breadth of a search; raised to k where it is smaller", min = 1},
    {"seed", "integer", 1, "of the levels"},
    {"deterministic", "boolean", false, "build with one thread: the same graph every time"},
  },
  text = [[The graph of Malkov and Yashunin (2020) on inner products, by hnswlib. Approximate: inner
product is no metric, items may be unreachable and answers short; ix:recall and ix:about say so.]],
  example = [[items = fopo.array.randn(1000, 8, 1)
ix = fopo.index.hnsw(items, {M = 8, ef_construction = 50})
assert(ix:recall(fopo.array.randn(50, 8, 2), 10).recall > 0.5)]],
  call = native.index_hnsw,
}

index.load = fn{
  name = "fopo.index.load", returns = "index",
  args = {{"path", "string", nil, "an .npz written by ix:save"}, items_argument},
  text = "Loads an index over the items it was built on; other items are refused.",
  example = [[items = fopo.array.randn(500, 8, 1)
path = os.tmpname() .. ".npz"
fopo.index.norm(items):save(path)
ix = fopo.index.load(path, items)
os.remove(path)]],
  call = native.index_load,
}

function methods.describe(ix)
  local a = ix:about()
  local parts = {("index %s: %s items of dim %d, built in %s, %s beside the items"):format(a.kind,
    text.count(a.n_items), a.dim, text.seconds(a.build_seconds), text.bytes(a.bytes))}
  if a.M and a.M > 0 then
    parts[#parts + 1] = ("M %d, ef_construction %d, ef %d"):format(a.M, a.ef_construction, a.ef)
  end
  if a.budget and a.budget > 0 then parts[#parts + 1] = "budget " .. text.count(a.budget) end
  if a.reachable < a.n_items then
    parts[#parts + 1] = ("%s items can never be found"):format(text.count(a.n_items - a.reachable))
  end
  return table.concat(parts, "; ")
end

doc{name = "index:search", signature = "ids, scores, short = ix:search(Q, k)",
    returns = "array, array, integer",
    text = [[The k items of largest inner product with each row of Q [B, L], best first, ties to the
smaller id. short counts the rows for which fewer than k were found.]]}
doc{name = "index:recall", signature = "ix:recall(Q, k)", returns = "table",
    text = [[Against exact search on Q: recall, recall_at_1, short_rows, reachable, ms_per_query,
exact_ms_per_query.]]}
doc{name = "index:save", signature = "ix:save(path)", text = "Writes the index as .npz."}
doc{name = "index:about", signature = "ix:about()", returns = "table",
    text = "kind, n_items, dim, bytes, build_seconds, reachable, scored and queries so far."}

return index
