-- What each index finds, costs and loses, on embeddings whose norms differ and on some whose norms
-- do not.
--
--   ./fopo scripts/studies/index.lua [FILE [dim [steps [k]]]]
--
-- Worlds: SVD embeddings of FILE (anything that fopo.data.read knows) where one is given; of a
-- synthetic world; its items scaled to norm 1; random vectors of norm 1 in their place. Queries: the
-- test contexts under theta = identity, the random start, and theta after `steps` of training.
-- Indexes are built once a world and measured for each theta; `auto` chooses for each theta, with at
-- most a minute of builds. The table is printed and kept as runs/index.csv.
--
-- Rewards are of recommending one item, searched with the ef of the row; a recall at k is searched
-- with ef = k at least. (ef = 16 is what FAISS's graph has where nothing is said.)
--
-- Recalls, shares and rewards are reproducible but for graphs built by several threads; times are of
-- this machine at this load, so only "x exact" (times the exact search of the same queries in the
-- same minute) says something.
local fopo = require "fopo"
local file, dim, steps, k = arg[1], tonumber(arg[2]) or 64, tonumber(arg[3]) or 500,
                            tonumber(arg[4]) or 256
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
  local pi = fopo.policy.linear{items = items, theta = "random"}
  fopo.trainer{policy = pi, data = s.train, gradient = fopo.gradient.snis{samples = 500},
               optim = fopo.optim.adam{lr = 1e-2}}:run{steps = steps, view = false}
  return pi
end

-- Every index to look at: {name, index, function that sets it up}.
local function indexes(items)
  local P = items.rows
  local function with(o)
    for name, value in pairs(graph) do o[name] = o[name] or value end
    return o
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

local head = {"world", "P", "dim", "theta", "index", "recall", "recall_at_1", "scored", "ms",
              "exact_ms", "build_s", "reachable", "reward_exact", "reward_index", "reward_lost",
              "lost_low", "lost_high"}
local csv = {table.concat(head, ",")}
local shown = {{"index", "recall", "at 1", "scored", "x exact", "build", "reachable",
                "reward lost (95 %)"}}

local function row(world, items, theta, name, ix, r)
  local a = ix:about()
  csv[#csv + 1] = table.concat({'"' .. world .. '"', items.rows, items.cols, theta, '"' .. name .. '"', r.recall,
    r.recall_at_1, r.scored, r.ms_per_query, r.exact_ms_per_query, a.build_seconds, a.reachable,
    r.reward_exact, r.reward_index, r.reward_lost, r.lost_low, r.lost_high}, ",")
  shown[#shown + 1] = {name, ("%.4f"):format(r.recall), ("%.4f"):format(r.recall_at_1),
    ("%.2f %%"):format(100 * r.scored), ("%.2f"):format(r.ms_per_query / r.exact_ms_per_query),
    ("%.1f s"):format(a.build_seconds), ("%.1f %%"):format(100 * a.reachable / items.rows),
    ("%.4f (%.4f to %.4f)"):format(r.reward_lost, r.lost_low, r.lost_high)}
end

local function study(world, s, items)
  print(("\n== %s: P = %d, dim %d, %d test contexts"):format(world, items.rows, items.cols, s.test.n))
  local list = indexes(items)
  local x, rows = s.test:contexts(items), {}
  for i = 1, math.min(512, s.test.n) do rows[i] = i end
  for _, theta in ipairs{"identity", "random", "trained"} do
    local pi = theta == "trained" and trained(s, items)
               or fopo.policy.linear{items = items, theta = theta}
    local Q = pi:queries(x:rows_of(rows))
    local o = {policy = pi, sessions = s.test}
    shown = {shown[1]}
    for _, one in ipairs(list) do
      local name, ix, set = table.unpack(one)
      if ix.kind == "norm" then ix.budget = set.budget end
      if set and set.ef then ix.ef = set.ef end
      row(world, items, theta, name, ix, ix:recall(Q, k, o))
    end
    local whys = {}
    for _, n in ipairs{k, 10} do
      local ix = fopo.index.auto(items, {k = n, queries = Q, build_limit = 60, M = graph.M,
                                         ef_construction = graph.ef_construction})
      row(world, items, theta, ("auto, k = %d: %s"):format(n, ix.kind), ix, ix:recall(Q, n, o))
      whys[#whys + 1] = ("auto, k = %d: %s"):format(n, ix:about().why)
    end
    print(("\ntheta = %s, reward by true argmax %.4f"):format(theta,
                                                              fopo.evaluate(pi, s.test).reward))
    print(fopo.report.table(shown))
    print(table.concat(whys, "\n"))
  end
end

if file then
  local s = fopo.data.read(file):sessions{min_items = 10, seed = 1}
  study("file", s, (fopo.embed.svd(s.train, {dim = dim})))
end
local s = fopo.data.synthetic{users = 8000, items = 50000, seed = 1}:sessions{seed = 1}
local items = fopo.embed.svd(s.train, {dim = dim})
study("synthetic", s, items)
study("synthetic, norms 1", s, unit_norm(items))
study("random, norms 1", s, unit_norm(fopo.array.randn(items.rows, dim, 5)))

os.execute("mkdir -p runs")
local f = assert(io.open("runs/index.csv", "w"))
f:write(table.concat(csv, "\n"), "\n")
f:close()
print("\nruns/index.csv")
