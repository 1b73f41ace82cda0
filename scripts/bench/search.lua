-- Sections evaluate, norm, hnsw and graph: the true argmax of many contexts, the cost of building,
-- and searches in a graph.
local fopo = require "fopo"
local native = require "fopo.native"
local bench = require "bench"
local world = require "world"
local search = {}

-- The number of equal rows of two arrays of ids [N, 1].
local function agreeing(a, b)
  local same = 0
  for n = 1, a.rows do same = same + (a:get(n, 1) == b:get(n, 1) and 1 or 0) end
  return same
end

-- Calls f with kernels that score every item in float32, as a matrix product does.
local function in_full(f)
  local isa = fopo.isa()
  native.isa_without_prefilter()
  local seconds = f()
  fopo.isa(isa)
  return seconds
end

-- 10,000 contexts: what norm-sorted search finds is what scoring every item finds.
function search.evaluate()
  local P, n = bench.scaled(790000), 10000
  local sessions = world.sessions(P)
  local rows = {}
  for i = 1, math.min(n, sessions.n) do rows[i] = i end
  for _, L in ipairs{10, 100} do
    local items = world.items(P, L, sessions)
    local pi = fopo.policy.linear{items = items, theta = "identity"}
    local x = sessions:contexts(items):rows_of(rows)
    local norm, exact, found = fopo.index.norm(items), fopo.index.exact(items), {}
    local function argmax(name, index, how)
      return {name, function(warm)
        local some = warm and x:rows_of{1, 2, 3, 4} or x
        return how(function()
          local seconds, ids = bench.time(function() return (pi:best(some, {index = index})) end)
          found[name] = ids
          return seconds
        end)
      end}
    end
    local s = bench.in_turn({argmax("norm", norm, function(f) return f() end),
                             argmax("exact", exact, in_full)}, bench.options.limit / 2)
    bench.row{what = ("L = %d: argmax of %d contexts"):format(L, #rows), unit = "s", mine = s.norm,
              against = "blocked exact search", other = s.exact, faster = true, target = 30}
    bench.note("L = %d: %d of %d answers agree", L, agreeing(found.norm, found.exact), #rows)
  end
end

function search.norm()
  local P = bench.scaled(790000)
  for _, L in ipairs{10, 100} do
    local items = world.items(P, L)
    local function once(name, f)
      return {name, function()
        local seconds = bench.time(f)
        collectgarbage()
        collectgarbage()
        return seconds
      end}
    end
    local s = bench.in_turn({once("build", function() return fopo.index.norm(items) end),
                             once("copy", function() return items:copy() end)},
                            bench.options.limit / 2)
    bench.row{what = ("L = %d: index.norm"):format(L), unit = "s", mine = s.build,
              against = "copying the items", other = s.copy, target = 5}
  end
end

-- The same graph parameters over the same items, both with all threads.
function search.hnsw()
  local P, L, M, breadth = bench.scaled(bench.options.graph_items), 64, 16, 200
  local path = bench.items_file(P, L)
  local items = fopo.array.load(path)
  local program = bench.program("hnswlib.cc")
  local function peer(warm)
    if warm then return 0 end
    return bench.values_of(("%s %s %d %d %d"):format(program, path, M, breadth,
                                                     bench.options.threads))[1]
  end
  local function mine(warm)
    if warm then return 0 end
    return (bench.time(function()
      return fopo.index.hnsw(items, {M = M, ef_construction = breadth})
    end))
  end
  local s = bench.in_turn({{"mine", mine}, {"peer", peer}}, bench.options.limit)
  bench.forget(path)
  bench.row{what = ("index.hnsw of %d x %d, M %d, %d"):format(P, L, M, breadth), unit = "s",
            mine = s.mine, against = "hnswlib, -march=native", other = s.peer, target = 1.2}
end

-- Searches in a graph by one thread: src/mips/graph.c against hnswlib's own search, which holds
-- copies of the vectors or, like the graph that fopo builds, pointers to their rows. The graphs
-- have the same parameters, so the recall at one ef is the same but for the order of insertion.
function search.graph()
  local P, L, M, breadth, most = bench.scaled(200000), 100, 16, 200, 256
  local path, queries_path = bench.items_file(P, L), bench.folder .. "/queries.npy"
  local items, rows = fopo.array.load(path), {}
  for i = 1, 1000 do rows[i] = i end
  local queries = world.sessions(P):contexts(items):rows_of(rows)
  queries:save(queries_path)
  local exact = fopo.index.exact(items)
  local ix = fopo.index.hnsw(items, {M = M, ef_construction = breadth})
  local program, k, ef, truth, recall = bench.program("hnswlib.cc"), nil, nil, nil, {}
  local cases = {{"mine", function()
    ix.ef = ef
    local r = native.index_measure(ix, queries, truth, queries.rows)
    recall.mine = r.recall
    return 1e-3 * r.ms_per_query
  end}}
  for _, how in ipairs{"copies", "rows"} do
    local worker = assert(bench.worker(("%s %s %d %d %d %s %d %s"):format(program, path, M, breadth,
      bench.options.threads, queries_path, most, how)))
    cases[#cases + 1] = {how, function()
      local answer = worker:ask(("%d %d"):format(k, ef))
      recall[how] = answer[2]
      return answer[1] / queries.rows
    end}
  end
  bench.forget(path)
  bench.forget(queries_path)
  for _, case in ipairs{{10, 64}, {10, 256}, {most, most}, {most, 2 * most}, {most, 4 * most}} do
    k, ef = case[1], case[2]
    fopo.threads(bench.options.threads)
    truth = select(2, exact:search(queries, k))
    fopo.threads(1)
    local s = bench.in_turn(cases, bench.options.limit)
    for _, how in ipairs{"copies", "rows"} do
      bench.row{what = ("index.hnsw of %d x %d: k %d, ef %d, recall %.4f"):format(P, L, k, ef,
        recall.mine), unit = "s", mine = s.mine, faster = true, other = s[how], target = 1.3,
        against = ("hnswlib over %s, recall %.4f"):format(how, recall[how])}
    end
  end
  fopo.threads(bench.options.threads)
end

return search
