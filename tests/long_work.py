"""What takes long at the prompt, for tests that interrupt it: the world that it works on, the
pieces of work in Lua and in C, and the results that whole objects give."""

WORLD = """
d = data.synthetic{users = 3000, items = 3000, clusters = 8, seed = 3}
s = d:sessions{min_items = 10}
items = embed.svd(s.train, {dim = 16, seed = 1})
ix = index.norm(items)
x = s.test:contexts(items)
pi = policy.linear{items = items, seed = 1}
function new(g)
  return fopo.trainer{policy = policy.linear{items = items, seed = 1}, data = s.train, batch = 16,
    seed = 7, valid = s.valid, gradient = g or gradient.snis{samples = 40, proposal =
    proposal.mixture{index = ix, k = 20, refresh = 3}}}
end
lg, world = data.synthetic_logs{n = 20000, actions = 200, dim = 6, seed = 4}
target = policy.linear{items = lg:items(), theta = 'identity'}
big = array.randn(200000, 64, 1)
slow = index.exact(big)
wide = policy.linear{items = big, seed = 2}
many = array.randn(20000, 64, 2)
"""

# Lines whose output holds only where every object is whole.
FACTS = (
    "io.write(items:sum(), ' ', items:norm(), ' ', x:sum())",
    "local ids, scores = ix:search(pi:queries(x), 5) "
    "io.write(scores:sum(), ' ', ids:get(9, 1))",
    "io.write(fopo.evaluate(pi, s.test, {index = ix}).reward)",
    "io.write(embed.svd(s.train, {dim = 16, seed = 1}):add(items, -1):norm())",
    "local t = new() t:run{steps = 50, view = false} io.write(t.policy:theta():norm())",
    "io.write(lg.n, ' ', lg:contexts():sum())",
    "io.write(slow.n_items, ' ', big:get(77, 7), ' ', many:get(20000, 64))")

# (name, code), none of which ends soon.
IN_LUA = (
    ("a loop", "while true do end"),
    ("a loop of pcall", "while true do pcall(function() while true do end end) end"),
    ("a coroutine", "coroutine.wrap(function() while true do end end)()"),
    ("pcall in coroutines", "local function f() while true do pcall(error) end end "
     "while true do pcall(coroutine.wrap(f)) end"),
    ("tables", "local t = {} for i = 1, math.huge do t[i % 1000] = {i} end"),
    ("strings", "local s = '' while true do s = (s .. 'x'):rep(2):sub(1, 99) end"),
    ("sorting", "local t = {} for i = 1, 4000000 do t[i] = -i end "
     "while true do table.sort(t, function(a, b) return a < b end) end"),
    ("a finaliser", "setmetatable({}, {__gc = function() while true do end end}) collectgarbage()"))
IN_C = (
    ("reading a file", "while true do data.read('big.csv', {format = 'pairs'}) end"),
    ("a synthetic world", "while true do data.synthetic{users = 300000, items = 300000} end"),
    ("an SVD", "while true do embed.svd(s.train, {dim = 200, seed = 2}) end"),
    ("a graph", "index.hnsw(big, {ef_construction = 400})"),
    ("a hybrid", "index.hybrid(big)"),
    ("the choice of an index", "while true do index.auto(big, {k = 100, queries = many}) end"),
    ("exact search", "while true do slow:search(many, 100) end"),
    ("recall", "while true do ix:recall(pi:queries(x), 50) end"),
    ("the best of a policy", "while true do wide:best(many, {index = slow, k = 10}) end"),
    ("evaluation", "while true do fopo.evaluate(pi, s.test, {index = ix}) end"),
    ("evaluation without seen items", "while true do fopo.evaluate(pi, s.test, "
     "{index = ix, exclude = 'seen'}) end"),
    ("neighbours", "while true do fopo.baseline.item_knn{data = s.train} end"),
    ("EASE", "while true do fopo.baseline.ease{data = s.train} end"),
    ("ALS", "fopo.baseline.als{data = s.train, iterations = 100000}"),
    ("a baseline's lists", "b = b or fopo.baseline.popular{data = s.train} while true do "
     "b:best(s.train, {k = 50}) end"),
    ("training", "t1 = new() t1:run{steps = 100000000, view = false}"),
    ("exact gradients", "t2 = new(gradient.exact{}) t2:run{steps = 100000000, view = false}"),
    ("REINFORCE", "t3 = new(gradient.reinforce{samples = 50}) "
     "t3:run{steps = 100000000, view = 'lines', every = 1000}"),
    ("a custom reward", "t4 = fopo.trainer{policy = policy.linear{items = items, seed = 1}, "
     "data = s.train, gradient = gradient.snis{samples = 50}, reward = "
     "reward.custom(function(ids, rows) return array.zeros(ids.rows, ids.cols) end)} "
     "t4:run{steps = 100000000, view = false}"),
    ("an endless reward", "t4 = fopo.trainer{policy = policy.linear{items = items, seed = 1}, "
     "data = s.train, gradient = gradient.snis{samples = 50}, reward = "
     "reward.custom(function() while true do end end)} t4:run{steps = 10, view = false}"),
    ("one gradient", "local rows = {} for i = 1, 2000 do rows[i] = i end while true do "
     "gradient.exact{}:compute(pi, s.train:contexts(items), rows, reward.hits(s.train), {}) "
     "end"),
    ("off-policy evaluation",
     "while true do fopo.ope(target, lg, {estimators = {'ips', 'snips'}}) end"),
    ("a doubly robust model", "while true do reward.doubly_robust{logs = lg} end"),
    ("arrays", "while true do local w = big:softmax('columns') * big - big:cumsum('rows'):exp() "
     "w:sort('rows') w:draw(50) w:sum('columns') end"),
    ("a product", "while true do many:matmul(array.randn(64, 3000, 1)) end"),
    ("an array's text", "while true do tostring(big) end"),
    ("check", "while true do fopo.check() end"))


def write_file():
    """big.csv, which "reading a file" reads."""
    with open("big.csv", "w") as f:
        f.write("user,item,value\n")
        line = "".join("%d,%d,%d\n" % (i % 5003, i * 7 % 9001, i % 5) for i in range(200000))
        for _ in range(25):
            f.write(line)
