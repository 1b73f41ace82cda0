-- The native module through Lua's eyes: good calls, wrong types, closed objects, finalisers that
-- close what a call is using, ids from 1, sentences. Garbage is collected around every call.
local lu = require "luaunit"
local native = require "fopo.native"
require "fopo.base.remedy" -- which words the sentences of fields that are not there

-- Every function and method with a full collection between it and the next, while the collector
-- itself works as hard as it can during the call.
collectgarbage("incremental", 20, 1000)
local function collected(f)
  return function(...)
    local results = table.pack(f(...))
    collectgarbage()
    return table.unpack(results, 1, results.n)
  end
end
local n = setmetatable({}, {__index = native})
for name, f in pairs(native) do
  if type(f) == "function" then n[name] = collected(f) end
end
for _, methods in pairs(native.types) do
  for name, f in pairs(methods) do
    if name ~= "get" and name ~= "set" and name ~= "describe" then methods[name] = collected(f) end
  end
end

local folder = os.tmpname()
os.remove(folder)
local function path(name) return folder .. "_" .. name end
local function fails(text, f, ...) lu.assertErrorMsgContains(text, f, ...) end
local function field(o, name) return o[name] end
local function assign(o, name, v) o[name] = v end

-- One small world for all tests; too small for threads, which would wait for each other.
native.threads(1)
local world_options = {users = 300, items = 400, clusters = 8, tastes = 3, mean_items = 25,
                       zipf = 1.0, noise = 0.05, seed = 3}
local split_options = {min_items = 8, valid = 0.1, test = 0.1, seed = 1}
local d, w = n.data_synthetic(world_options)
local train, valid, test, kept, dropped = n.data_split(d, split_options)
local svd_options = {dim = 6, scale = "sqrt", seed = 1, power_iterations = 3, oversample = 6}
local items, singular = n.embed_svd(train, svd_options)
local x = n.contexts(train, items, "mean")
local function policy(theta)
  return n.policy_linear{items = items, theta = theta or "random", temperature = 1.0, seed = 1}
end
local function adam(lr)
  return n.optim_adam{lr = lr or 1e-2, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0}
end
local function mixture(ix, epsilon, draws)
  return n.proposal_mixture{index = ix, k = 20, epsilon = epsilon or 0.5, draws = draws or "iid"}
end
local at = {seed = 1, step = 0}

-- ------------------------------------------------------------------------------------------------
TestArray = {}

function TestArray:test_zeros_and_elements()
  local a = n.array_zeros(2, 3)
  lu.assertEquals({a.rows, a.cols, a.kind, a.bytes}, {2, 3, "float", 24})
  a:set(2, 3, 7.5)
  lu.assertEquals(a:get(2, 3), 7.5)
  lu.assertEquals(a:totable(), {{0.0, 0.0, 0.0}, {0.0, 0.0, 7.5}})
  lu.assertEquals(n.array_zeros(0, 3).rows, 0)
  lu.assertEquals(n.array_zeros(2.0, 3).rows, 2)
end

function TestArray:test_places()
  local a = n.array_zeros(2, 3)
  fails("row 0 does not exist; use 1 to 2", a.get, a, 0, 1)
  fails("row 3 does not exist; use 1 to 2", a.get, a, 3, 1)
  fails("column 4 does not exist; use 1 to 3", a.get, a, 1, 4)
  fails("column -1 does not exist", a.set, a, 1, -1, 5)
  fails("row must be a whole number, not 1.5", a.get, a, 1.5, 1)
  fails("row must be a whole number, not a string", a.get, a, "1", 1)
  fails("column must be a whole number, not nil", a.get, a, 1)
  fails("row must be a whole number", a.get, a, 2 ^ 70, 1)
  fails("the value must be a number, not a string", a.set, a, 1, 1, "2")
  fails("no float32 holds", a.set, a, 1, 1, 1e300)
  fails("row 1 does not exist: there are none", function() n.array_zeros(0, 0):get(1, 1) end)
end

function TestArray:test_sizes()
  fails("rows is -1; use 0 or more", n.array_zeros, -1, 2)
  fails("rows must be a whole number, not nil", n.array_zeros)
  fails("cols must be a whole number, not a table", n.array_zeros, 1, {})
  local big = math.maxinteger
  fails("", n.array_zeros, big, big)
  lu.assertStrContains(select(2, pcall(n.array_zeros, 1 << 40, 1 << 10)), "GB")
end

function TestArray:test_randn()
  local a, b = n.array_randn(50, 20, 7, 2.0), n.array_randn(50, 20, 7, 2.0)
  lu.assertEquals(a:totable(), b:totable())
  lu.assertNotEquals(a:get(1, 1), n.array_randn(50, 20, 8, 2.0):get(1, 1))
  lu.assertAlmostEquals(a:norm() / math.sqrt(1000), 2.0, 0.15)
  lu.assertEquals(n.array_randn(2, 2):totable(), n.array_randn(2, 2, 0, 1):totable())
end

function TestArray:test_from()
  lu.assertEquals(n.array_from{{1, 2}, {3, 4}}:totable(), {{1.0, 2.0}, {3.0, 4.0}})
  local row = n.array_from{1, 2, 3}
  lu.assertEquals({row.rows, row.cols}, {1, 3})
  fails("row 2 has 1 numbers but row 1 has 2", n.array_from, {{1, 2}, {3}})
  fails("row 2 is 5; rows are tables", n.array_from, {{1, 2}, 5})
  fails("element 2 of row 1 must be a number, not a string", n.array_from, {{1, "2"}})
  fails("element 2 of row 1 must be a number, not true", n.array_from, {1, true})
  fails("must be a table, not nil", n.array_from)
  fails("the table is empty", n.array_from, {})
end

function TestArray:test_ids()
  local a = n.array_ids{3, 1, 2}
  lu.assertEquals({a.kind, a.rows, a.cols, a:get(1, 1)}, {"ids", 1, 3, 3})
  lu.assertEquals(a:totable(), {{3, 1, 2}})
  lu.assertEquals(math.type(a:get(1, 2)), "integer")
  a:set(1, 2, nil)
  lu.assertNil(a:get(1, 2))
  lu.assertEquals(a:totable(), {{3, 0, 2}})
  lu.assertEquals(n.array_ids{}.cols, 0)
  lu.assertEquals(n.array_ids{4294967295}:get(1, 1), 4294967295)
  fails("id 0 does not exist", n.array_ids, {0})
  fails("id 4294967296 does not exist", n.array_ids, {4294967296})
  fails("id must be a whole number, not 1.5", n.array_ids, {1.5})
  fails("array of ids; an array of numbers is needed", a.sum, a)
  fails("array of ids", a.matmul, a, a)
end

function TestArray:test_rows_of()
  local a = n.array_from{{1, 2}, {3, 4}, {5, 6}}
  lu.assertEquals(a:rows_of{3, 1, 3}:totable(), {{5.0, 6.0}, {1.0, 2.0}, {5.0, 6.0}})
  lu.assertEquals(a:rows_of(n.array_ids{2}):totable(), {{3.0, 4.0}})
  lu.assertEquals(a:rows_of{}.rows, 0)
  fails("row 4 does not exist; use 1 to 3", a.rows_of, a, {4})
  fails("row 9 (element 2 of the list) does not exist", a.rows_of, a, n.array_ids{1, 9})
  fails("array is needed here, not nil", a.rows_of, a)
  fails("array of numbers; an array of ids is needed", a.rows_of, a, a)
  lu.assertEquals(n.array_ids{5, 6}:rows_of{1}:totable(), {{5, 6}})
end

function TestArray:test_arithmetic()
  local a, b = n.array_from{{1, 2}, {3, 4}}, n.array_from{{0, 1}, {1, 0}}
  lu.assertEquals(a:matmul(b):totable(), {{2.0, 1.0}, {4.0, 3.0}})
  lu.assertEquals(a:matmul(b, true):totable(), {{3.0, 1.0}, {4.0, 2.0}})
  lu.assertEquals(a:matmul(n.array_from{1, 1}, false, true):totable(), {{3.0}, {7.0}})
  fails("2 x 2 times 1 x 2 does not fit", a.matmul, a, n.array_from{1, 1})
  fails("transpose_a must be true or false", a.matmul, a, b, 1)
  local c = a:copy()
  lu.assertIs(c:add(b, 2), c)
  lu.assertEquals(c:totable(), {{1.0, 4.0}, {5.0, 4.0}})
  lu.assertIs(c:scale(0.5), c)
  lu.assertEquals(c:totable(), {{0.5, 2.0}, {2.5, 2.0}})
  lu.assertEquals(a:totable(), {{1.0, 2.0}, {3.0, 4.0}})
  lu.assertEquals(a:copy():add(a):totable(), {{2.0, 4.0}, {6.0, 8.0}})
  fails("2 x 2 and 1 x 2 cannot be added", a.add, a, n.array_from{1, 1})
  lu.assertEquals({a:sum(), a:mean(), a:min(), a:max()}, {10.0, 2.5, 1.0, 4.0})
  lu.assertAlmostEquals(a:norm(), math.sqrt(30), 1e-12)
  fails("the array is empty", function() n.array_zeros(0, 2):mean() end)
  lu.assertEquals(n.array_zeros(0, 2):sum(), 0.0)
end

function TestArray:test_finite()
  local a = n.array_zeros(2, 2)
  lu.assertTrue(a:finite())
  a:set(2, 1, 0 / 0)
  local ok, why = a:finite()
  lu.assertFalse(ok)
  lu.assertStrContains(why, "row 2, column 1")
  lu.assertNotEquals(a:min(), a:min())
  lu.assertNotEquals(a:max(), a:max())
end

function TestArray:test_files()
  local a = n.array_randn(3, 4, 1)
  for _, name in ipairs{"a.npy", "a.npz"} do
    a:save(path(name))
    lu.assertEquals(n.array_load(path(name)):totable(), a:totable())
    os.remove(path(name))
  end
  local ids = n.array_ids{5, 1, 9}
  ids:save(path("i.npy"))
  lu.assertEquals(n.array_load(path("i.npy"), true):totable(), {{5, 1, 9}})
  lu.assertEquals(n.array_load(path("i.npy")):totable(), {{4.0, 0.0, 8.0}})
  os.remove(path("i.npy"))
  n.array_from{1.5}:save(path("f.npy"))
  fails("1.5", n.array_load, path("f.npy"), true)
  os.remove(path("f.npy"))
  fails("no_such.npy", n.array_load, path("no_such.npy"))
  fails("path must be a string, not a table", n.array_load, {})
  fails("the path is empty or has a zero byte", n.array_load, "a\0b")
  fails("the path is empty", a.save, a, "")
  fails("nowhere", a.save, a, "/nowhere/a.npy")
  local f = io.open(path("bad.npy"), "wb")
  f:write("\x93NUMPY\1\0") f:close()
  fails("bad.npy", n.array_load, path("bad.npy"))
  os.remove(path("bad.npy"))
end

function TestArray:test_fields_and_names()
  local a = n.array_zeros(1, 1)
  fails("array has no field 'row'; did you mean 'rows'?", field, a, "row")
  fails("array has no field 'matmull'; did you mean 'matmul'?", field, a, "matmull")
  fails("array has no field 'qqqqqqqqq'; its fields are: bytes, cols, kind, part, rows", field,
        a, "qqqqqqqqq")
  fails("array has no element [true]", field, a, true)
  fails("array.rows cannot be set", assign, a, "rows", 3)
  lu.assertEquals(getmetatable(a), "fopo.array")
end

function TestArray:test_closing()
  local a = n.array_zeros(2, 2)
  a:close()
  a:close()
  lu.assertEquals(tostring(a), "array (closed)")
  fails("this array has been closed", a.get, a, 1, 1)
  fails("this array has been closed", field, a, "rows")
  fails("this array has been closed", a.sum, a)
  fails("an array is needed here, not 5", a.get, 5, 1, 1)
  fails("an array is needed here, not fopo.dataset", a.get, d, 1, 1)
  fails("an array is needed here, not nil", a.close)
  local closed
  do
    local b <close> = n.array_zeros(1, 1)
    closed = b
  end
  fails("this array has been closed", closed.sum, closed)
end

-- Whoever holds an array holds its values of that moment.
function TestArray:test_changed_while_held()
  local a = n.array_randn(30, 4, 1)
  local q = n.array_randn(2, 4, 2)
  local ix = n.index_exact(a)
  local before = ix:search(q, 3):totable()
  a:scale(-1)
  a:set(1, 1, 99)
  lu.assertEquals(a:get(1, 1), 99.0)
  lu.assertEquals(ix:search(q, 3):totable(), before)
  a:close()
  lu.assertEquals(ix:search(q, 3):totable(), before)
end

-- ------------------------------------------------------------------------------------------------
TestData = {}

function TestData:test_synthetic()
  lu.assertEquals({d.n_users, d.n_items, d.format}, {300, 400, "synthetic"})
  lu.assertTrue(d.nnz > 0 and d.rows_read >= d.nnz and d.users_seen <= 300 and d.items_seen <= 400)
  lu.assertEquals({w.users, w.items, w.clusters}, {300, 400, 8})
  for i = 1, 400 do
    local c = w:cluster(i)
    lu.assertTrue(c >= 1 and c <= 8)
  end
  fails("item 401 does not exist", w.cluster, w, 401)
  local expected, achieved = w:best(test)
  lu.assertTrue(expected > 0 and expected <= 1 and achieved >= 0 and achieved <= 1)
  fails("sessions is needed here, not a table", w.best, w, {})
  fails("users must be a whole number, not nil", n.data_synthetic, {})
  fails("the options must be a table, not nil", n.data_synthetic)
  local o = setmetatable({noise = 1.5}, nil)
  for k, v in pairs(world_options) do o[k] = o[k] or v end
  fails("noise", n.data_synthetic, o)
end

function TestData:test_names_and_rows()
  lu.assertEquals(d:item_name(1), "0")
  lu.assertEquals(d:find_item("0"), 1)
  lu.assertEquals(d:find_item(399), 400)
  lu.assertNil(d:find_item("400"))
  lu.assertNil(d:find_user("nobody"))
  fails("the name must be a string, not nil", d.find_item, d)
  fails("user 301 does not exist; use 1 to 300", d.user_name, d, 301)
  local ids, values = d:row(1)
  lu.assertEquals({ids.kind, ids.rows}, {"ids", 1})
  if d.has_values then lu.assertEquals(#values, ids.cols) else lu.assertNil(values) end
  fails("user 0 does not exist", d.row, d, 0)
  fails("dataset has no field 'n_user'; did you mean 'n_users'?", field, d, "n_user")
end

function TestData:test_read()
  local name = path("pairs.csv")
  local f = io.open(name, "w")
  f:write("user,item,value\n7,apple,2\n7,pear,1\n9,apple,5\n") f:close()
  local r = n.data_read(name, {skip_errors = false, max_errors = 10})
  lu.assertEquals({r.n_users, r.n_items, r.nnz, r.has_values}, {2, 2, 3, true})
  lu.assertEquals(r:item_name(r:find_item("pear")), "pear")
  lu.assertEquals({r:user_name(1), r:user_name(2)}, {"7", "9"})
  lu.assertEquals(r:find_user(9), 2)
  local ids, values = r:row(1)
  lu.assertEquals({ids.cols, values}, {2, {2.0, 1.0}})
  r:save(path("d.npz"))
  local again = n.data_read(path("d.npz"), {})
  lu.assertEquals({again.n_users, again.nnz, again:item_name(1)}, {2, 3, "apple"})
  os.remove(path("d.npz"))
  r = n.data_read(name, {user = "user", item = "item", value = "", separator = ",", header = "yes",
                         format = "pairs", where = "value>=2"})
  lu.assertEquals({r.nnz, r.skipped}, {2, 1})
  fails("format", n.data_read, name, {format = "nonsense"})
  fails("separator is \"ab\"", n.data_read, name, {separator = "ab"})
  fails("header must be one of yes, no, not \"maybe\"", n.data_read, name, {header = "maybe"})
  fails("user must be a string, not true", n.data_read, name, {user = true})
  fails("no_such.csv", n.data_read, path("no_such.csv"), {})
  os.remove(name)
end

function TestData:test_split()
  lu.assertEquals(kept + dropped, 300)
  lu.assertEquals(train.n + valid.n + test.n, kept)
  lu.assertEquals(train.n_items, 400)
  local all, none, nothing = n.data_split(d, {min_items = 8, valid = 0, test = 0, seed = 1,
                                              max_users = 50})
  lu.assertEquals(all.n, 50)
  lu.assertNil(none)
  lu.assertNil(nothing)
  fails("valid must be a number", n.data_split, d, {min_items = 8})
  fails("dataset is needed here, not fopo.world", n.data_split, w, split_options)
  fails("", n.data_split, d, {min_items = 100000, valid = 0, test = 0, seed = 1})
end

function TestData:test_sessions()
  local y = train:y(1)
  lu.assertEquals(y.kind, "ids")
  lu.assertTrue(train:hits(1, y:get(1, 1)))
  lu.assertFalse(train:hits(1, train:x(1):get(1, 1)))
  lu.assertEquals(train:x(1).cols, (train:x(1).cols + y.cols) // 2)
  lu.assertTrue(train:user(1) >= 1 and train:user(1) <= 300)
  local user = d:row(train:user(1)):totable()[1]
  lu.assertEquals(#user, train:x(1).cols + y.cols)
  fails("context 0 does not exist", train.x, train, 0)
  fails("item 401 does not exist", train.hits, train, 1, 401)
  lu.assertEquals({x.rows, x.cols}, {train.n, 6})
  local mean = items:rows_of(train:x(2))
  mean = n.array_from{(function()
    local sums = {}
    for j = 1, mean.cols do
      sums[j] = 0
      for i = 1, mean.rows do sums[j] = sums[j] + mean:get(i, j) / mean.rows end
    end
    return sums
  end)()}
  lu.assertAlmostEquals(mean:add(x:rows_of{2}, -1):norm(), 0, 1e-5)
  fails("", n.contexts, train, n.array_zeros(3, 2), "mean")
end

function TestData:test_svd()
  lu.assertEquals({items.rows, items.cols, #singular}, {400, 6, 6})
  for i = 2, 6 do lu.assertTrue(singular[i] <= singular[i - 1]) end
  fails("dim is 5000 but", n.embed_svd, train,
        {dim = 5000, scale = "none", seed = 1, power_iterations = 1, oversample = 0})
  fails("scale must be one of none, sqrt, sigma, not \"big\"", n.embed_svd, train,
        {dim = 2, scale = "big", seed = 1, power_iterations = 1, oversample = 0})
end

-- ------------------------------------------------------------------------------------------------
TestIndex = {}

function TestIndex:test_kinds_agree()
  local exact, norm = n.index_exact(items), n.index_norm(items, {})
  local queries = x:rows_of{1, 2, 3, 4, 5}
  local ids, scores, short = exact:search(queries, 7)
  lu.assertEquals({ids.rows, ids.cols, scores.cols, short}, {5, 7, 7, 0})
  local ids2, scores2 = norm:search(queries, 7)
  lu.assertEquals(ids:totable(), ids2:totable())
  lu.assertEquals(scores:totable(), scores2:totable())
  local item = items:rows_of{ids:get(1, 1)}
  lu.assertAlmostEquals(item:matmul(queries:rows_of{1}, false, true):get(1, 1), scores:get(1, 1),
                        1e-4)
  lu.assertEquals(norm:recall(queries, 7).recall, 1.0)
  local about = norm:about()
  lu.assertEquals({about.kind, about.n_items, about.dim, about.reachable}, {"norm", 400, 6, 400})
  lu.assertEquals({norm.kind, norm.n_items, norm.dim}, {"norm", 400, 6})
  lu.assertNil(about.M)
end

function TestIndex:test_hnsw_and_files()
  local o = {M = 8, ef_construction = 60, ef = 60, seed = 1, deterministic = true}
  local graph = n.index_hnsw(items, o)
  lu.assertEquals(graph:about().M, 8)
  local r = graph:recall(x, 5)
  lu.assertTrue(r.recall > 0.5 and r.recall <= 1 and r.short_rows >= 0)
  lu.assertEquals(n.index_hnsw(items, o):search(x, 5):totable(), graph:search(x, 5):totable())
  local hybrid = n.index_hybrid(items, {head = 0.1, M = 8, ef_construction = 60, ef = 60, seed = 1,
                                        deterministic = true})
  for _, ix in ipairs{graph, hybrid, n.index_norm(items, {budget = 100})} do
    ix:save(path("ix.npz"))
    local again = n.index_load(path("ix.npz"), items)
    lu.assertEquals(again:search(x, 5):totable(), ix:search(x, 5):totable())
    fails("ix.npz", n.index_load, path("ix.npz"), n.array_randn(400, 6, 9))
    os.remove(path("ix.npz"))
  end
  fails("ix.npz", n.index_load, path("ix.npz"), items)
end

function TestIndex:test_short_rows()
  local twice = n.index_norm(items, {budget = 3})
  local ids, scores, short = twice:search(x:rows_of{1, 2}, 5)
  if short > 0 then
    lu.assertNil(ids:get(1, 5))
    lu.assertEquals(scores:get(1, 5), -math.huge)
  end
  lu.assertTrue(short >= 0 and short <= 2)
end

function TestIndex:test_wrong()
  local ix = n.index_exact(items)
  fails("k is 401 but the index holds 400 items; use k <= 400", ix.search, ix, x, 401)
  fails("k is 0; use 1 or more", ix.search, ix, x, 0)
  fails("k must be a whole number", ix.search, ix, x)
  fails("array is needed here, not a table", ix.search, ix, {}, 1)
  fails("", ix.search, ix, n.array_zeros(1, 5), 1)
  local bad = n.array_zeros(1, 6)
  bad:set(1, 2, 0 / 0)
  fails("nan", ix.search, ix, bad, 1)
  fails("", n.index_exact, n.array_zeros(0, 4))
  fails("array of ids", n.index_exact, n.array_ids{1})
  fails("M is 1", n.index_hnsw, items,
        {M = 1, ef_construction = 10, ef = 10, seed = 1, deterministic = true})
  ix:close()
  fails("this index has been closed", ix.search, ix, x, 1)
end

-- ------------------------------------------------------------------------------------------------
TestPolicy = {}

function TestPolicy:test_theta()
  local pi = policy("identity")
  lu.assertEquals({pi.n_items, pi.dim, pi.temperature}, {400, 6, 1.0})
  lu.assertEquals(pi:theta():totable()[2], {0.0, 1.0, 0.0, 0.0, 0.0, 0.0})
  lu.assertAlmostEquals(pi:queries(x):copy():add(x, -1):norm(), 0, 1e-5)
  local theta = n.array_randn(6, 6, 1)
  pi:set_theta(theta)
  lu.assertEquals(pi:theta():totable(), theta:totable())
  lu.assertEquals(policy(theta):theta():totable(), theta:totable())
  fails("theta is 2 x 2 but contexts have 6 features and the items have 6 columns", pi.set_theta,
        pi, n.array_zeros(2, 2))
  theta:set(3, 3, 0 / 0)
  fails("theta", pi.set_theta, pi, theta)
  fails("theta must be one of identity, random, not \"half\"", policy, "half")
  fails("theta must be a string, not 5", policy, 5)
  for _, t in ipairs{-1, 0} do
    fails("temperature", n.policy_linear, {items = items, theta = "random", temperature = t,
                                           seed = 1})
  end
  fails("array is needed here, not nil", n.policy_linear, {theta = "random", temperature = 1,
                                                           seed = 1})
end

function TestPolicy:test_items_keep_their_identity()
  local a = n.array_randn(10, 3, 1)
  local pi = n.policy_linear{items = a, theta = "identity", temperature = 1, seed = 1}
  lu.assertIs(pi:items(), a)
  local before = a:totable()
  a:set(1, 1, 5)
  lu.assertNotIs(pi:items(), a)
  lu.assertEquals(pi:items():totable(), before)
  lu.assertIs(pi:items(), pi:items())
  pi:items():close()
  lu.assertEquals(pi:items():totable(), before)
end

function TestPolicy:test_best()
  local pi, ix = policy("identity"), n.index_exact(items)
  local ids, scores, short = pi:best(x, ix, 4)
  lu.assertEquals({ids.rows, ids.cols, scores.cols, short}, {train.n, 4, 4, 0})
  lu.assertEquals(ids:totable(), ix:search(pi:queries(x), 4):totable())
  fails("k is 401", pi.best, pi, x, ix, 401)
  fails("index is needed here, not nil", pi.best, pi, x, nil, 1)
  fails("contexts are 1 x 2", pi.best, pi, n.array_zeros(1, 2), ix, 1)
end

-- ------------------------------------------------------------------------------------------------
TestProposal = {}

function TestProposal:test_uniform()
  local q = n.proposal_uniform()
  lu.assertEquals({q.kind, q.epsilon}, {"uniform", 1.0})
  lu.assertNil(q.index)
  local ids, logq = q:sample(policy(), x:rows_of{1, 2}, 9, at)
  lu.assertEquals({ids.rows, ids.cols, logq.rows}, {2, 9, 2})
  lu.assertAlmostEquals(logq:max(), -math.log(400), 1e-4)
  for _, row in ipairs(ids:totable()) do
    for _, id in ipairs(row) do lu.assertTrue(id >= 1 and id <= 400) end
  end
end

function TestProposal:test_mixture()
  local ix = n.index_exact(items)
  local q = mixture(ix)
  lu.assertEquals({q.kind, q.k, q.epsilon, q.draws, q.index.kind},
                  {"mixture", 20, 0.5, "iid", "exact"})
  lu.assertEquals(mixture(ix, 0.5, "stratified").draws, "stratified")
  local pi, two = policy(), x:rows_of{1, 2}
  local ids = q:sample(pi, two, 30, at)
  lu.assertEquals(q:sample(pi, two, 30, at):totable(), ids:totable())
  lu.assertNotEquals(q:sample(pi, two, 30, {seed = 2, step = 0}):totable(), ids:totable())
  -- rows are coordinates: the second context drawn alone under its own number is the same.
  local second = q:sample(pi, x:rows_of{2}, 30, {seed = 1, step = 0, rows = {2}})
  lu.assertEquals(second:totable()[1], ids:totable()[2])
  fails("rows has 1 entries but x has 2 rows", q.sample, q, pi, two, 30,
        {seed = 1, step = 0, rows = {2}})
  fails("S is 0", q.sample, q, pi, two, 0, at)
  fails("step is 4294967296", q.sample, q, pi, two, 3, {seed = 1, step = 1 << 32})
  fails("epsilon is 1.5", mixture, ix, 1.5)
  fails("draws must be one of iid, stratified", mixture, ix, 0.5, "other")
  fails("k is 401", n.proposal_mixture, {index = ix, k = 401, epsilon = 0.5, draws = "iid"})
  local automatic = n.proposal_mixture{k = 4, epsilon = 0.5, draws = "iid"}
  lu.assertNil(automatic.index)
  ix:close()
  lu.assertEquals(q:sample(pi, two, 30, at):totable(), ids:totable())
  lu.assertEquals(q.index.kind, "exact")
end

-- ------------------------------------------------------------------------------------------------
TestReward = {}

function TestReward:test_hits()
  local rw = n.reward_hits(train)
  lu.assertEquals({rw.kind, rw.n}, {"hits", train.n})
  local y, other = train:y(3), train:x(3)
  lu.assertEquals(rw:value(y, {3}):totable(), {(function()
    local ones = {}
    for i = 1, y.cols do ones[i] = 1.0 end
    return ones
  end)()})
  lu.assertEquals(rw:value(other, n.array_ids{3}):sum(), 0.0)
  fails("ids has 1 rows but 2 contexts are given", rw.value, rw, y, {3, 4})
  fails("does not exist", rw.value, rw, y, {train.n + 1})
  fails("array of numbers; an array of ids", rw.value, rw, x, {1})
  fails("sessions is needed here", n.reward_hits, d)
end

function TestReward:test_custom()
  local ids = n.array_ids{4, 5, 6}
  local function value(f) return n.reward_custom(f):value(ids, {7}):totable() end
  lu.assertEquals(n.reward_custom(print).kind, "custom")
  lu.assertNil(n.reward_custom(print).n)
  lu.assertEquals(n.reward_custom(print, 7).n, 7)
  lu.assertEquals(value(function(a, rows)
    lu.assertEquals({a:totable(), rows:totable()}, {{{4, 5, 6}}, {{7}}})
    return {{1, 2, 3}}
  end), {{1.0, 2.0, 3.0}})
  lu.assertEquals(value(function() return {1, 2, 3} end), {{1.0, 2.0, 3.0}})
  lu.assertEquals(value(function() return n.array_from{1, 2, 3} end), {{1.0, 2.0, 3.0}})
  fails("gave nil; an array [1, 3]", value, function() end)
  fails("gave an array [1, 2]", value, function() return n.array_from{1, 2} end)
  fails("gave a table of 2 numbers", value, function() return {1, 2} end)
  fails("gave a row 1 of 2 numbers", value, function() return {{1, 2}} end)
  fails("the reward of draw 2 of context 1 must be a number", value,
        function() return {{1, "2", 3}} end)
  fails("my own error", value, function() error("my own error", 0) end)
  local thrown = {}
  lu.assertIs(select(2, pcall(value, function() error(thrown) end)), thrown)
  fails("a custom reward needs a function, not 5", n.reward_custom, 5)
  -- the function closes everything it can reach
  local rw
  rw = n.reward_custom(function(a, rows) rw:close() a:close() rows:close() return {1, 2, 3} end)
  lu.assertEquals(rw:value(ids, {7}):totable(), {{1.0, 2.0, 3.0}})
end

-- ------------------------------------------------------------------------------------------------
TestGradient = {}

function TestGradient:test_kinds()
  local pi, rw = policy(), n.reward_hits(train)
  local g = n.gradient_exact()
  lu.assertEquals(g.kind, "exact")
  lu.assertNil(g.samples)
  local exact, s = g:compute(pi, x, nil, rw, at)
  lu.assertEquals({exact.rows, exact.cols}, {6, 6})
  for _, name in ipairs{"reward", "ess", "max_weight", "head_mass", "norm", "short_rows"} do
    lu.assertEquals(type(s[name]), "number", name)
  end
  for _, name in ipairs{"search", "propose", "reward", "gradient", "update"} do
    lu.assertEquals(type(s.seconds[name]), "number", name)
  end
  lu.assertAlmostEquals(s.norm, exact:norm(), 1e-6 + 1e-3 * s.norm)
  for _, baseline in ipairs{"none", "mean"} do
    g = n.gradient_reinforce{samples = 400, baseline = baseline}
    lu.assertEquals({g.kind, g.samples, g.baseline}, {"reinforce", 400, baseline})
    lu.assertTrue(g:compute(pi, x, nil, rw, at):add(exact, -1):norm() < exact:norm())
  end
  g = n.gradient_snis{proposal = n.proposal_uniform(), samples = 2000}
  lu.assertEquals({g.kind, g.samples, g.epsilon, g.proposal.kind}, {"snis", 2000, 1.0, "uniform"})
  lu.assertTrue(g:compute(pi, x, nil, rw, at):add(exact, -1):norm() < exact:norm())
  fails("samples is 1; use 2", n.gradient_snis, {proposal = n.proposal_uniform(), samples = 1})
  fails("proposal is needed here, not nil", n.gradient_snis, {samples = 10})
  fails("baseline must be one of none, mean", n.gradient_reinforce,
        {samples = 10, baseline = "median"})
end

function TestGradient:test_rows_and_custom()
  local pi, rw = policy(), n.reward_hits(train)
  local g = n.gradient_snis{proposal = mixture(n.index_exact(items)), samples = 40}
  local some = g:compute(pi, x, {1, 5, 9}, rw, at):totable()
  lu.assertEquals(g:compute(pi, x, n.array_ids{1, 5, 9}, rw, at):totable(), some)
  local seen = 0
  local custom = n.reward_custom(function(ids, rows)
    seen = seen + rows.cols
    return rw:value(ids, rows)
  end)
  lu.assertEquals(g:compute(pi, x, {1, 5, 9}, custom, at):totable(), some)
  lu.assertEquals(seen, 3)
  fails("row 0 does not exist", g.compute, g, pi, x, {0}, rw, at)
  fails("does not exist", g.compute, g, pi, x, {train.n + 1}, rw, at)
  fails("the batch is empty", g.compute, g, pi, x, {}, rw, at)
  fails("contexts are 2 x 3", g.compute, g, pi, n.array_zeros(2, 3), nil, rw, at)
  fails("the reward covers", g.compute, g, pi, x:rows_of{1, 2}, nil, rw, at)
  fails("step must be a whole number, not nil", g.compute, g, pi, x, nil, rw, {seed = 1})
  fails("reward is needed here", g.compute, g, pi, x, nil, nil, at)
  lu.assertEquals(g:compute(pi, x, {1, 5, 9}, rw, at):totable(), some)
end

function TestGradient:test_custom_failures_leave_it_usable()
  local pi, rw = policy(), n.reward_hits(train)
  local g = n.gradient_snis{proposal = n.proposal_uniform(), samples = 40}
  local before = g:compute(pi, x, {1, 2}, rw, at):totable()
  local function with(f) return g:compute(pi, x, {1, 2}, n.reward_custom(f), at) end
  fails("oops", with, function() error("oops") end)
  fails("gave nil", with, function() end)
  fails("rewards must be finite", with, function(ids)
    local r = n.array_zeros(ids.rows, ids.cols)
    r:set(1, 1, 0 / 0)
    return r
  end)
  fails("in the middle of a batch", with, function() g:set{samples = 80} end)
  fails("in the middle of a batch", with, function() g:compute(pi, x, {1}, rw, at) end)
  lu.assertEquals(g:compute(pi, x, {1, 2}, rw, at):totable(), before)
  -- everything is closed under its feet
  local mine, theirs = policy(), x:copy()
  local h = n.gradient_snis{proposal = n.proposal_uniform(), samples = 40}
  local r
  r = n.reward_custom(function(ids, rows)
    h:close() mine:close() theirs:close() r:close()
    return rw:value(ids, rows)
  end)
  lu.assertEquals(h:compute(mine, theirs, {1, 2}, r, at):totable(), before)
  fails("this gradient has been closed", h.compute, h, pi, x, nil, rw, at)
end

function TestGradient:test_set()
  local ix = n.index_exact(items)
  local q = mixture(ix)
  local g = n.gradient_snis{proposal = q, samples = 40}
  g:set{epsilon = 0.25, k = 10, samples = 60}
  lu.assertEquals({g.epsilon, g.k, g.samples, g.proposal.epsilon, g.proposal.k},
                  {0.25, 10, 60, 0.25, 10})
  lu.assertEquals({q.epsilon, q.k}, {0.5, 20})
  fails("epsilon is 2", g.set, g, {epsilon = 2})
  fails("k is 1000", g.set, g, {k = 1000})
  fails("samples is 0", g.set, g, {samples = 0})
  lu.assertEquals({g.epsilon, g.k, g.samples}, {0.25, 10, 60})
  fails("a gradient exact has no samples to set",
        function() n.gradient_exact():set{samples = 5} end)
  fails("only a gradient with a mixture", function()
    n.gradient_snis{proposal = n.proposal_uniform(), samples = 5}:set{epsilon = 0.5}
  end)
end

-- ------------------------------------------------------------------------------------------------
TestOptim = {}

function TestOptim:test_step()
  local pi = policy("identity")
  local o = n.optim_sgd{lr = 0.5, momentum = 0, weight_decay = 0}
  local G = n.array_randn(6, 6, 4)
  local wanted = pi:theta():add(G, 0.5)
  o:step(pi, G)
  lu.assertAlmostEquals(pi:theta():add(wanted, -1):norm(), 0, 1e-5)
  lu.assertEquals({o.t, o.kind, o.lr, o.momentum}, {1, "sgd", 0.5, 0.0})
  fails("G is 2 x 2 but theta is 6 x 6", o.step, o, pi, n.array_zeros(2, 2))
  G:set(1, 1, 1 / 0)
  fails("G", o.step, o, pi, G)
  lu.assertEquals(o.t, 1)
end

function TestOptim:test_options()
  local o = adam()
  o.lr = 0.25
  lu.assertEquals({o.lr, o.beta1, o.t, o.kind}, {0.25, 0.9, 0, "adam"})
  fails("learning rate is -1", assign, o, "lr", -1)
  fails("lr must be a number, not a string", assign, o, "lr", "1")
  fails("no field 'momentum' that can be set", assign, o, "momentum", 0.5)
  fails("no field 'lrr'; did you mean 'lr'?", assign, o, "lrr", 0.5)
  lu.assertEquals(o.lr, 0.25)
  fails("beta1 must be a number, not a string", n.optim_adam, {lr = 1, beta1 = "x"})
  fails("eps is 0; use more than 0", n.optim_adagrad, {lr = 1, eps = 0, weight_decay = 0})
  fails("learning rate", adam, -1)
  fails("momentum is 1", n.optim_sgd, {lr = 1, momentum = 1, weight_decay = 0})
end

function TestOptim:test_devices()
  local cpu = n.device("cpu")
  lu.assertEquals(cpu.kind, "cpu")
  lu.assertStrContains(cpu.name, "CPU")
  lu.assertEquals(type(n.device("auto").note), "string")
  fails("not known", n.device, "abacus")
  cpu:close()
  lu.assertEquals(n.device("cpu").kind, "cpu")
end

-- ------------------------------------------------------------------------------------------------
TestTrainer = {}

local function trainer(o)
  o = o or {}
  return n.trainer{policy = o.policy or policy(), contexts = o.contexts or x,
                   reward = o.reward or n.reward_hits(train),
                   gradient = o.gradient or n.gradient_snis{
                     proposal = mixture(n.index_exact(items)), samples = 30},
                   optim = o.optim or adam(), batch = o.batch or 32, seed = 1,
                   device = o.device or "auto"}
end

function TestTrainer:test_learns()
  local pi = policy()
  local t = trainer{policy = pi}
  lu.assertEquals({t.step, t.steps_per_epoch}, {0, math.ceil(train.n / 32)})
  lu.assertStrContains(t.device_name, "CPU")
  lu.assertEquals(type(t.device_note), "string")
  local function judged()
    local ix = n.index_exact(items)
    return n.evaluate_lost(pi, n.contexts(valid, items, "mean"), valid, ix, ix).exact
  end
  local before = judged()
  local slice = t:advance(60)
  lu.assertEquals({slice.steps, slice.step, t.step}, {60, 60, 60})
  lu.assertNil(slice.interrupted)
  for _, name in ipairs{"seconds", "reward", "ess", "max_weight", "head_mass", "norm",
                        "short_rows"} do
    lu.assertEquals(type(slice[name]), "number", name)
  end
  lu.assertEquals(type(slice.time.search), "number")
  for _ = 1, 4 do t:advance(60) end
  local after = judged()
  lu.assertTrue(after.reward >= before.reward and after.low <= after.reward
                and after.reward <= after.high)
  lu.assertEquals({after.contexts, after.unanswered}, {valid.n, 0})
  lu.assertEquals(after.hits, math.floor(after.reward * valid.n + 0.5))
  lu.assertTrue(after.distinct >= 1)
end

function TestTrainer:test_a_failing_reward_leaves_the_last_whole_step()
  local rw, calls = n.reward_hits(train), 0
  local pi, twin = policy(), policy()
  local custom = n.reward_custom(function(ids, rows)
    calls = calls + 1
    if calls == 3 then error("the third one") end
    return rw:value(ids, rows)
  end)
  local t = trainer{policy = pi, reward = custom}
  fails("the third one", t.advance, t, 10)
  lu.assertEquals(t.step, 2)
  t:advance(2)
  trainer{policy = twin}:advance(4)
  lu.assertEquals(pi:theta():totable(), twin:theta():totable())
  local looping
  looping = trainer{reward = n.reward_custom(function() looping:advance(1) end)}
  fails("in the middle of a step", looping.advance, looping, 1)
  local nan = trainer{reward = n.reward_custom(function(ids)
    return n.array_zeros(ids.rows, ids.cols):add(n.array_zeros(ids.rows, ids.cols), 0 / 0)
  end)}
  fails("", nan.advance, nan, 1)
  lu.assertEquals(nan.step, 0)
end

function TestTrainer:test_closed_inside_the_reward()
  local rw, pi, twin = n.reward_hits(train), policy(), policy()
  local g = n.gradient_snis{proposal = mixture(n.index_exact(items)), samples = 30}
  local o, t, custom = adam()
  custom = n.reward_custom(function(ids, rows)
    t:close() g:close() o:close() custom:close()
    collectgarbage() collectgarbage()
    return rw:value(ids, rows)
  end)
  t = trainer{policy = pi, reward = custom, gradient = g, optim = o}
  lu.assertEquals(t:advance(3).steps, 3)
  fails("this trainer has been closed", t.advance, t, 1)
  trainer{policy = twin}:advance(3)
  lu.assertEquals(pi:theta():totable(), twin:theta():totable())
end

function TestTrainer:test_files()
  local pi, twin = policy(), policy()
  local t = trainer{policy = pi}
  t:advance(7)
  local name = path("t.npz")
  t:save(name, {step = {3, 7}, reward = {0.5, 1}, valid = {0 / 0, 2}, empty = {}},
         {note = "hello", seed = 5})
  t:advance(5)
  local u = trainer{policy = twin}
  local history, meta = u:resume(name)
  lu.assertEquals({history.step, history.reward, history.empty}, {{3, 7}, {0.5, 1.0}, {}})
  lu.assertEquals({math.type(history.step[1]), math.type(history.reward[2])}, {"integer", "float"})
  lu.assertNotEquals(history.valid[1], history.valid[1])
  lu.assertEquals({meta.note, meta.seed, u.step}, {"hello", "5", 7})
  u:advance(5)
  lu.assertEquals(twin:theta():totable(), pi:theta():totable())
  t:save(name, nil, 12.5)
  local h, m = u:resume(name)
  lu.assertEquals({h, m}, {{}, {seconds = "12.5"}})
  t:save(name)
  fails("is no list of numbers", t.save, t, name, {a = 5})
  fails("element 2 of the history's \"a\" is no number", t.save, t, name, {a = {1, "x"}})
  fails("the history has the key 1", t.save, t, name, {{1}})
  fails("cannot name an array", t.save, t, name, {["a/b"] = {1}})
  fails("is no string or number", t.save, t, name, {}, {a = {}})
  fails("nowhere", t.save, t, "/nowhere/t.npz", {})
  fails("batch", function() trainer{batch = 16}:resume(name) end)
  os.remove(name)
  fails("t.npz", u.resume, u, name)
  lu.assertEquals(u.step, 12)
end

function TestTrainer:test_wrong()
  fails("the batch is 5000", trainer, {batch = 5000})
  fails("device \"abacus\" is not known", trainer, {device = "abacus"})
  fails("contexts are", trainer, {contexts = n.array_zeros(3, 2), batch = 1})
  fails("policy is needed here", n.trainer, {batch = 1, seed = 1, device = "cpu"})
  local t = trainer()
  fails("the number of steps is 0", t.advance, t, 0)
  fails("the number of steps must be a whole number", t.advance, t)
end

-- One optimiser and one gradient may serve calls and trainers in turn.
function TestTrainer:test_shared()
  local pi, o = policy(), adam()
  local g = n.gradient_snis{proposal = n.proposal_uniform(), samples = 30}
  local a = trainer{policy = pi, gradient = g, optim = o, device = "cpu"}
  a:advance(2)
  o:step(pi, (g:compute(pi, x:copy(), {1, 2, 3}, n.reward_hits(train), at)))
  a:advance(2)
  local b = trainer{policy = policy(), contexts = x:copy(), gradient = g}
  b:advance(2)
  a:advance(2)
  lu.assertEquals({a.step, b.step, o.t}, {6, 2, 7})
  fails("reward covers", trainer, {contexts = x:rows_of{1, 2}, gradient = g, batch = 1})
  lu.assertEquals(a:advance(1).step, 7)
end

-- ------------------------------------------------------------------------------------------------
TestRest = {}

function TestRest:test_evaluate()
  local ix = n.index_exact(items)
  fails("sessions is needed here", n.evaluate_lost, policy(), x, d, ix, ix)
  fails("", n.evaluate_lost, policy(), n.array_zeros(2, 6), valid, ix, ix)
end

function TestRest:test_machine()
  lu.assertTrue(n.clock() <= n.clock())
  local m = n.memory()
  lu.assertTrue(m.bytes > 0 and m.peak >= m.bytes and m.blocks > 0 and m.available > 0)
  local threads = n.threads()
  lu.assertEquals(n.threads(1), 1)
  local one = n.index_exact(items):search(x, 3):totable()
  lu.assertEquals(n.threads(3), 3)
  lu.assertEquals(n.index_exact(items):search(x, 3):totable(), one)
  lu.assertEquals(n.threads(threads), threads)
  fails("0 threads were requested; use 1 to", n.threads, 0)
  local isa, note = n.isa()
  lu.assertEquals(type(note), "string")
  lu.assertEquals(n.isa("portable"), "portable")
  lu.assertEquals(n.isa(isa), isa)
  fails("abacus", n.isa, "abacus")
  lu.assertEquals(type(n.version), "string")
  n.interrupt_clear()
end

function TestRest:test_text_only()
  local code = string.dump(function() return 1 end)
  lu.assertNil((load(code)))
  lu.assertStrContains(select(2, load(code, "x", "b")), "binary chunk")
  lu.assertNil((load("return 1", "x", "b")))
  lu.assertEquals(load("return 1")(), 1)
  lu.assertEquals(load("return y", "x", "t", {y = 5})(), 5)
  lu.assertErrorMsgContains("nil", function() return load("return y.z", "x", "t", nil)() end)
  local name = path("code.lua")
  local f = io.open(name, "wb")
  f:write(code) f:close()
  lu.assertNil((loadfile(name)))
  lu.assertNil((loadfile(name, "bt")))
  lu.assertFalse((pcall(dofile, name)))
  package.path = folder .. "_?.lua;" .. package.path
  fails("code", require, "code")
  f = io.open(name, "w")
  f:write("return ..., z") f:close()
  lu.assertEquals({loadfile(name, "t", {z = 3})(7)}, {7, 3})
  lu.assertEquals(select("#", dofile(name)), 2)
  lu.assertEquals(require "code", "code")
  os.remove(name)
  fails("inside the program", require, "fopo.no_such_file")
end

-- Finalisers that close objects while calls use them: an answer or a sentence, never a crash.
function TestRest:test_finalisers_that_close()
  local rw = native.reward_hits(train)
  local answered, refused = 0, 0
  for round = 1, 60 do
    local pi = native.policy_linear{items = items, theta = "random", temperature = 1, seed = round}
    local a, b = native.array_randn(20, 6, round), x:copy()
    local g = native.gradient_snis{proposal = native.proposal_uniform(), samples = 5}
    local ix = native.index_exact(a)
    local s = {a, b, pi, g, ix}
    local function trap(o) setmetatable({}, {__gc = function() o:close() end}) end
    for i = 1, #s do
      if (round >> (i - 1)) % 2 == 1 then trap(s[i]) end
    end
    local function try(f, ...)
      local ok, why = pcall(f, ...)
      if ok then
        answered = answered + 1
      else
        lu.assertStrContains(why, "has been closed")
        refused = refused + 1
      end
    end
    collectgarbage("step")
    try(a.copy, a)
    try(a.totable, a)
    try(a.matmul, a, a, false, true)
    try(ix.search, ix, b, 3)
    try(pi.best, pi, b, ix, 2)
    try(pi.items, pi)
    try(g.compute, g, pi, b, {1, 2}, rw, at)
    try(function() return g.proposal end)
  end
  lu.assertTrue(answered > 0 and refused > 0)
end

-- What calls leave behind is freed.
function TestRest:test_nothing_is_left()
  local function scenario()
    local a = native.array_randn(50, 4, 1)
    local ix = native.index_norm(a, {})
    local pi = native.policy_linear{items = a, theta = "identity", temperature = 1, seed = 1}
    pi:best(a, ix, 3)
    native.policy_linear{items = a, theta = "identity", temperature = 1, seed = 1,
                         rows = "float16"}
    pcall(ix.search, ix, a, 1000)
    local t = trainer()
    t:advance(2)
    pcall(trainer, {batch = 100000})
    pcall(native.array_load, "/no/such/file.npy")
  end
  scenario()
  collectgarbage() collectgarbage()
  local before = native.memory().blocks
  for _ = 1, 5 do scenario() end
  collectgarbage() collectgarbage() collectgarbage()
  lu.assertEquals(native.memory().blocks, before)
end

os.exit(lu.LuaUnit.run(), true)
