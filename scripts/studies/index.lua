-- What each index finds, costs and loses, on embeddings with different norms and with equal norms.
--
--   ./fopo scripts/studies/index.lua [FILE ...] [quick] [name=value ...]
--
-- Cost: some minutes for each world, most of it the building of graphs.
--
-- Worlds: SVD embeddings of each FILE that fopo.data.read knows, and of synthetic sessions; the
-- same items scaled to norm 1; random vectors of norm 1 instead. Queries: the test contexts under
-- theta = identity, the random start, and theta after `steps` of training. Indexes are built once
-- for each world and measured for each theta; `auto` chooses for each theta, within `build_limit`
-- seconds.
--
-- Rewards are of recommending one item, searched with the ef of the row; a recall at k is searched
-- with ef = k at least. (ef = 16 is the default of FAISS's graph.)
--
-- Recalls, shares and rewards are reproducible except for graphs built by several threads. Times
-- depend on the machine and its load: only "x exact", the ratio to the exact search of the same
-- queries in the same minute, is meaningful.
--
-- Options (defaults):
--   dim=64 steps=500 k=256 build_limit=60
--   users=8000 items=50000 min_items=20 (of a user)    of the synthetic sessions
-- All rows are kept in runs/index.csv (quick: runs/index_quick.csv).
local fopo = require "fopo"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local o, files = study.options(
  {dim = 64, steps = 500, k = 256, build_limit = 60, users = 8000, items = 50000,
   min_items = 20},
  {dim = 8, steps = 20, k = 32, build_limit = 1, users = 400, items = 1500, min_items = 5})
local dim, steps, k = o.dim, o.steps, o.k
local graph = {M = 16, ef_construction = 100}

-- A copy with rows of norm 1; zero rows stay.
local function unit_norm(items)
  local m = items:copy()
  for i = 1, m.rows do
    local sum = 0
    for j = 1, m.cols do sum = sum + m:get(i, j) ^ 2 end
    local scale = sum > 0 and 1 / math.sqrt(sum) or 0
    for j = 1, m.cols do m:set(i, j, m:get(i, j) * scale) end
  end
  return m
end

local function trained(s, items)
  local pi = fopo.policy.linear{items = items, preset = "paper"}
  fopo.trainer{policy = pi, data = s.train, gradient = fopo.gradient.snis{samples = 500},
               optim = fopo.optim.adam{lr = 1e-2}, valid = false}:run{steps = steps, view = false}
  return pi
end

-- Every index that is measured: {name, index, {budget or ef to set}}.
local function indexes(items)
  local P = items.rows
  local function with(options)
    for name, value in pairs(graph) do options[name] = options[name] or value end
    return options
  end
  local norm, hnsw = fopo.index.norm(items), fopo.index.hnsw(items, with{})
  local hybrid1, hybrid5 = fopo.index.hybrid(items, with{head = 0.01}),
                           fopo.index.hybrid(items, with{head = 0.05})
  local list = {{"exact", fopo.index.exact(items)}, {"norm", norm, {}}}
  for _, share in ipairs{2, 4, 8, 16} do
    list[#list + 1] = {("norm, P/%d"):format(share), norm, {budget = math.max(k, P // share)}}
  end
  for _, ef in ipairs{16, 256, 1024} do
    list[#list + 1] = {"hnsw, ef " .. ef, hnsw, {ef = ef}}
    list[#list + 1] = {"hybrid 1 %, ef " .. ef, hybrid1, {ef = ef}}
    list[#list + 1] = {"hybrid 5 %, ef " .. ef, hybrid5, {ef = ef}}
  end
  return list
end

local columns = {"world", "P", "dim", "theta", "index", "recall", "recall_at_1", "scored", "ms",
                 "exact_ms", "build_s", "reachable", "reward_exact", "reward_index", "reward_lost",
                 "lost_low", "lost_high"}
local results = {}
local shown = {{"index", "recall", "at 1", "scored", "x exact", "build", "reachable",
                "reward lost (95 %)"}}

local function row(world, items, theta, name, ix, r)
  local a = ix:about()
  results[#results + 1] = {world = world, P = items.rows, dim = items.cols, theta = theta,
    index = name, recall = r.recall, recall_at_1 = r.recall_at_1, scored = r.scored,
    ms = r.ms_per_query, exact_ms = r.exact_ms_per_query, build_s = a.build_seconds,
    reachable = a.reachable, reward_exact = r.reward_exact, reward_index = r.reward_index,
    reward_lost = r.reward_lost, lost_low = r.lost_low, lost_high = r.lost_high}
  shown[#shown + 1] = {name, ("%.4f"):format(r.recall), ("%.4f"):format(r.recall_at_1),
    ("%.2f %%"):format(100 * r.scored), ("%.2f"):format(r.ms_per_query / r.exact_ms_per_query),
    ("%.1f s"):format(a.build_seconds), ("%.1f %%"):format(100 * a.reachable / items.rows),
    ("%.4f (%.4f to %.4f)"):format(r.reward_lost, r.lost_low, r.lost_high)}
end

local function measure(world, s, items)
  print(("\n== %s: P = %d, dim %d, %d test contexts"):format(world, items.rows, items.cols,
                                                             s.test.n))
  local list = indexes(items)
  local x, rows = s.test:contexts(items), {}
  for i = 1, math.min(512, s.test.n) do rows[i] = i end
  for _, theta in ipairs{"identity", "random", "trained"} do
    local pi = theta == "trained" and trained(s, items)
               or fopo.policy.linear{items = items, theta = theta, preset = "paper"}
    local Q = pi:queries(x:rows_of(rows))
    local on = {policy = pi, sessions = s.test}
    shown = {shown[1]}
    for _, one in ipairs(list) do
      local name, ix, set = table.unpack(one)
      if ix.kind == "norm" then ix.budget = set.budget end
      if set and set.ef then ix.ef = set.ef end
      row(world, items, theta, name, ix, ix:recall(Q, k, on))
    end
    local whys = {}
    for _, n in ipairs{k, 10} do
      local ix = fopo.index.auto(items, {k = n, queries = Q, build_limit = o.build_limit,
                                         M = graph.M, ef_construction = graph.ef_construction})
      row(world, items, theta, ("auto, k = %d: %s"):format(n, ix.kind), ix, ix:recall(Q, n, on))
      whys[#whys + 1] = ("auto, k = %d: %s"):format(n, ix:about().why)
    end
    print(("\ntheta = %s, reward by true argmax %.4f"):format(theta,
                                                              fopo.evaluate(pi, s.test).reward))
    print(fopo.report.table(shown))
    print(table.concat(whys, "\n"))
  end
end

for _, file in ipairs(files) do
  local s = fopo.data.read(file):sessions{min_items = 10, seed = 1}
  measure(file:match("[^/]+$"), s, (fopo.embed.svd(s.train, {dim = dim})))
end
local s = fopo.data.synthetic{users = o.users, items = o.items, seed = 1}:sessions{
  min_items = o.min_items, seed = 1}
local items = fopo.embed.svd(s.train, {dim = dim})
measure("synthetic", s, items)
measure("synthetic, norms 1", s, unit_norm(items))
measure("random, norms 1", s, unit_norm(fopo.array.randn(items.rows, dim, 5)))
print("kept in " .. study.csv("index", columns, results))
