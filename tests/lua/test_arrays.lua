-- What arrays compute, against loops in double over tables: drawn shapes, broadcasting, NaN and
-- infinities, empty arrays, aliasing, the sentences of errors, and any number of threads.
local lu = require "luaunit"
local fopo = require "fopo"
local array, inf, nan = fopo.array, math.huge, 0 / 0
math.randomseed(7)

-- A table of the shape, of small multiples of 1/8, some of them special.
local function drawn(rows, cols, special)
  local t = {}
  for i = 1, rows do
    t[i] = {}
    for j = 1, cols do
      local v = math.random(-40, 40) / 8
      if special and math.random(6) == 1 then v = ({nan, inf, -inf, 0.0, -0.0})[math.random(5)] end
      t[i][j] = v
    end
  end
  return t
end

-- The float32 nearest to x.
local function rounded(x) return (string.unpack("f", string.pack("f", x))) end

local function same(x, y) return x == y or x ~= x and y ~= y end

-- Element (i, j) of a table or a number that stands for rows and columns that it has not.
local function at(t, i, j)
  if type(t) == "number" then return t end
  local row = #t == 1 and t[1] or t[i]
  return #row == 1 and row[1] or row[j]
end

-- The array has the elements that of(i, j) says, within a relative error.
local function holds(what, a, rows, cols, of, tolerance)
  lu.assertEquals({a.rows, a.cols, a.kind}, {rows, cols, "float"}, what)
  for i = 1, rows do
    for j = 1, cols do
      local want, found = of(i, j), a:get(i, j)
      local near = math.abs(found - want) <= (tolerance or 0) * math.max(1, math.abs(want))
      if not near and not same(rounded(want), found) then
        lu.fail(("%s: element (%d, %d) is %.9g, not %.9g"):format(what, i, j, found, want))
      end
    end
  end
end

local function indicator(f) return function(a, b) return f(a, b) and 1 or 0 end end
local operators = {
  add = {function(a, b) return a + b end, function(a, b) return a + b end},
  sub = {function(a, b) return a - b end, function(a, b) return a - b end},
  mul = {function(a, b) return a * b end, function(a, b) return a * b end},
  div = {function(a, b) return a / b end, function(a, b) return a / b end},
}
local binary = {
  maximum = function(a, b) return (a ~= a or a >= b) and a or b end,
  minimum = function(a, b) return (a ~= a or a <= b) and a or b end,
  lt = indicator(function(a, b) return a < b end), le = indicator(function(a, b) return a <= b end),
  gt = indicator(function(a, b) return a > b end), ge = indicator(function(a, b) return a >= b end),
  eq = indicator(function(a, b) return a == b end),
  ne = indicator(function(a, b) return a ~= b end),
}
for name, f in pairs(binary) do operators[name] = {function(a, b) return a[name](a, b) end, f} end

-- Shapes: of one element, narrow, wide, beyond a block of 2,048 numbers.
local shapes = {{1, 1}, {1, 7}, {7, 1}, {3, 5}, {40, 3}, {2, 2049}, {700, 3}, {1, 5000}, {5000, 1}}

local function sub_shape(rows, cols)
  return math.random(3) == 1 and 1 or rows, math.random(3) == 1 and 1 or cols
end

TestElements = {}

function TestElements:test_operators_with_broadcasting()
  for name, pair in pairs(operators) do
    for _, shape in ipairs(shapes) do
      local m, n = shape[1], shape[2]
      local other_rows, other_cols = sub_shape(m, n)
      local ta, tb = drawn(m, n, true), drawn(other_rows, other_cols, true)
      local a, b = array.from(ta), array.from(tb)
      local what = ("%s of %dx%d and %dx%d"):format(name, m, n, other_rows, other_cols)
      holds(what, pair[1](a, b), m, n, function(i, j)
        return pair[2](at(ta, i, j), at(tb, i, j))
      end)
      holds(what .. ", exchanged", pair[1](b, a), m, n, function(i, j)
        return pair[2](at(tb, i, j), at(ta, i, j))
      end)
      holds(name .. " with a number", pair[1](a, 1.5), m, n, function(i, j)
        return pair[2](at(ta, i, j), 1.5)
      end)
      holds(name .. " with itself", pair[1](a, a), m, n, function(i, j)
        return pair[2](at(ta, i, j), at(ta, i, j))
      end)
    end
    local column, row = drawn(60, 1), drawn(1, 50) -- neither has the shape of the result
    holds(name .. " of a column and a row", pair[1](array.from(column), array.from(row)), 60, 50,
          function(i, j) return pair[2](column[i][1], row[1][j]) end)
  end
  local t = drawn(3, 4, true)
  local a = array.from(t)
  holds("2 - a", 2 - a, 3, 4, function(i, j) return 2 - t[i][j] end)
  holds("1 / a", 1 / a, 3, 4, function(i, j) return 1 / t[i][j] end)
  holds("-a", -a, 3, 4, function(i, j) return -t[i][j] end)
end

function TestElements:test_functions()
  local unary = {exp = {math.exp, 3e-7}, log = {math.log, 2e-7}, sqrt = {math.sqrt, 0},
                 abs = {math.abs, 0}}
  for name, f in pairs(unary) do
    for _, shape in ipairs(shapes) do
      local t = drawn(shape[1], shape[2], true)
      local a = array.from(t)
      holds(name, a[name](a), shape[1], shape[2],
            function(i, j) return f[1](t[i][j]) end, f[2])
    end
  end
  local hard = {{1e-45, 1e-39, 1.2e-38, 3e38, 1, 0.99999994, 1.0000001, 87, 88.7, 90, -86, -88}}
  holds("log", array.from(hard):log(), 1, 12, function(_, j)
    return hard[1][j] < 0 and nan or math.log(rounded(hard[1][j]))
  end, 1e-7)
  holds("exp", array.from(hard):exp(), 1, 12, function(_, j)
    local x = rounded(hard[1][j])
    return x > 89 and inf or x < -87 and 0 or math.exp(x)
  end, 3e-7)
end

function TestElements:test_power()
  local ta, tb = drawn(6, 5), drawn(1, 5)
  local a = array.from(ta)
  holds("a ^ b", a:abs() ^ array.from(tb), 6, 5, function(i, j)
    return math.abs(ta[i][j]) ^ tb[1][j]
  end, 3e-7)
  holds("a ^ 2", a ^ 2, 6, 5, function(i, j) return ta[i][j] ^ 2 end)
  holds("a ^ 3", a ^ 3, 6, 5, function(i, j) return ta[i][j] ^ 3 end, 3e-7)
  holds("2 ^ a", 2 ^ a, 6, 5, function(i, j) return 2 ^ ta[i][j] end, 3e-7)
end

function TestElements:test_where_and_clip()
  for _, shape in ipairs(shapes) do
    local m, n = shape[1], shape[2]
    local t, parts, arrays = {}, {}, {}
    for k = 1, 3 do
      local rows, cols = sub_shape(m, n)
      if k == 1 then rows, cols = m, n end
      t[k] = drawn(rows, cols, true)
      parts[k] = function(i, j) return at(t[k], i, j) end
      arrays[k] = array.from(t[k])
    end
    holds("where", arrays[1]:gt(0):where(arrays[2], arrays[3]), m, n, function(i, j)
      return parts[1](i, j) > 0 and parts[2](i, j) or parts[3](i, j)
    end)
    holds("clip", arrays[1]:clip(-1, 2), m, n, function(i, j)
      local v = parts[1](i, j)
      return v < -1 and -1 or v > 2 and 2 or v
    end)
  end
  local c = array.from{{0, 1}} -- the condition may be the one that lacks rows
  holds("where", c:where(array.from{{1}, {2}}, -1), 2, 2, function(i, j)
    return j == 2 and i or -1
  end)
end

function TestElements:test_near()
  local a = array.from{{1, 2}, {inf, -3}}
  lu.assertTrue(a:near(a))
  lu.assertTrue(a:near(a + 0.01, 0.011))
  local ok, where = a:near(a + array.from{{0}, {0.5}}, 0.1)
  lu.assertEquals({ok, where}, {false, "a is -3 and b is -2.5 at row 2, column 2"})
  lu.assertFalse(a:near(-a, 1e9))
  lu.assertFalse((a * nan):near(a * nan, inf))
  lu.assertFalse(a:near(array.zeros(1, 2)))
  lu.assertTrue(array.zeros(0, 2):near(array.zeros(0, 2)))
end

function TestElements:test_empty()
  local none = array.zeros(0, 3)
  lu.assertEquals({(none + 1).rows, (none + 1).cols}, {0, 3})
  lu.assertEquals({(none + array.zeros(1, 3)).rows, (none * array.zeros(1, 1)).cols}, {0, 3})
  lu.assertEquals({none:exp().rows, none:sum(), none:norm()}, {0, 0, 0})
  lu.assertEquals(none:sum("columns"):totable(), {{0, 0, 0}})
  lu.assertEquals({none:sum("rows").rows, array.zeros(3, 0):softmax("rows").cols}, {0, 0})
  lu.assertEquals(array.zeros(2, 0):logsumexp("rows"):totable(), {{-inf}, {-inf}})
  lu.assertEquals(array.zeros(2, 0):sum("rows"):totable(), {{0}, {0}})
end

function TestElements:test_operands_stay()
  local a, b = array.from{{1, 2}}, array.from{{3, 4}}
  local c = a + b
  c:set(1, 1, 100)
  lu.assertEquals({a:totable(), b:totable()}, {{{1, 2}}, {{3, 4}}})
end

function TestElements:test_indexing()
  local t = drawn(4, 3)
  local a, ids = array.from(t), array.ids{5, 2}
  for i = 1, 4 do
    lu.assertEquals({a[i].rows, a[i].cols, #a[i]}, {1, 3, 3})
    for j = 1, 3 do lu.assertEquals(a[i][j], t[i][j]) end
  end
  lu.assertEquals({#a, ids[1][1], ids[1][2], a[1].kind, ids[1].kind}, {4, 5, 2, "float", "ids"})
  lu.assertEquals({#array.from{7, 8}[1], array.from{7, 8}[1][2]}, {2, 8}) -- one row, a matrix too
  local n = 0
  for i, row in ipairs(a) do
    n = n + 1
    lu.assertEquals(row:totable()[1], t[i])
  end
  lu.assertEquals(n, 4)
  local row = a[2]
  a:set(2, 1, 99)
  lu.assertEquals({row[1], a[2][1]}, {t[2][1], 99}) -- a copy
end

-- ---- reductions ----

local function loop(start, step, finish)
  return function(list)
    local s = start
    for _, v in ipairs(list) do s = step(s, v) end
    return finish and finish(s, #list) or s
  end
end
local reductions = {
  sum = loop(0, function(s, v) return s + v end),
  mean = loop(0, function(s, v) return s + v end, function(s, n) return s / n end),
  norm = loop(0, function(s, v) return s + v * v end, math.sqrt),
  min = loop(inf, function(s, v) return (s ~= s or s <= v) and s or v end),
  max = loop(-inf, function(s, v) return (s ~= s or s >= v) and s or v end),
}
function reductions.logsumexp(list)
  local most, s = reductions.max(list), 0
  if most ~= most or most == inf or most == -inf then return most end
  for _, v in ipairs(list) do s = s + math.exp(v - most) end
  return most + math.log(s)
end

local function lists_of(t, side)
  if side == "rows" then return t end
  local lists = {}
  for j = 1, #t[1] do
    lists[j] = {}
    for i = 1, #t do lists[j][i] = t[i][j] end
  end
  return lists
end

TestReductions = {}

function TestReductions:test_all_rows_columns()
  for name, f in pairs(reductions) do
    for _, shape in ipairs(shapes) do
      local m, n = shape[1], shape[2]
      for _, special in ipairs{false, true} do
        local t = drawn(m, n, special)
        local a, flat = array.from(t), {}
        for _, side in ipairs{"rows", "columns"} do
          local lists = lists_of(t, side)
          local by_rows = side == "rows"
          local what = ("%s of %s of %dx%d"):format(name, side, m, n)
          holds(what, a[name](a, side), by_rows and m or 1, by_rows and 1 or n, function(i, j)
            return f(lists[by_rows and i or j])
          end, 4e-7)
        end
        for _, row in ipairs(t) do table.move(row, 1, n, #flat + 1, flat) end
        local found, want = a[name](a), f(flat)
        lu.assertTrue(same(found, want)
                      or math.abs(found - want) < 1e-6 * math.max(1, math.abs(want)),
                      ("%s of %dx%d is %.12g, not %.12g"):format(name, m, n, found, want))
      end
    end
  end
end

-- 2^24 + 1 has no float32: sums in double do not stop there.
function TestReductions:test_sums_are_double()
  local a = array.zeros(3, 1000) + 16777215
  lu.assertEquals({a:sum(), a:mean()}, {3000 * 16777215, 16777215})
  lu.assertEquals(a:sum("rows")[2][1], rounded(16777215000))
  lu.assertEquals(a:mean("columns")[1][7], 16777215)
  lu.assertEquals((array.zeros(1, 100000) + 1):cumsum("rows"):get(1, 100000), 100000)
end

function TestReductions:test_argmax()
  for _, shape in ipairs(shapes) do
    local t = drawn(shape[1], shape[2], true)
    local a = array.from(t)
    local function place(list) -- NaN is the largest, and of equal ones the first
      local best = 1
      for j, v in ipairs(list) do
        if list[best] == list[best] and (v ~= v or v > list[best]) then best = j end
      end
      return best
    end
    for _, side in ipairs{"rows", "columns"} do
      local ids, lists = a:argmax(side), lists_of(t, side)
      lu.assertEquals({ids.kind, ids.rows * ids.cols}, {"ids", #lists})
      for k, list in ipairs(lists) do
        lu.assertEquals(ids:get(ids.rows == 1 and 1 or k, ids.rows == 1 and k or 1), place(list))
      end
    end
    local flat = {}
    for _, row in ipairs(t) do table.move(row, 1, #row, #flat + 1, flat) end
    local i, j = a:argmax()
    lu.assertEquals((i - 1) * shape[2] + j, place(flat))
  end
end

function TestReductions:test_softmax_and_cumsum()
  for _, shape in ipairs(shapes) do
    local m, n = shape[1], shape[2]
    for _, side in ipairs{"rows", "columns"} do
      local t = drawn(m, n)
      t[m][n] = 500 -- exp overflows
      local lists, by_rows = lists_of(t, side), side == "rows"
      local sums = {}
      for k, list in ipairs(lists) do sums[k] = reductions.logsumexp(list) end
      holds("softmax of " .. side, array.from(t):softmax(side), m, n, function(i, j)
        local d = t[i][j] - sums[by_rows and i or j]
        return d < -87 and 0 or math.exp(d)
      end, 1e-6)
      local running = {}
      holds("cumsum of " .. side, array.from(t):cumsum(side), m, n, function(i, j)
        local k = by_rows and i or j
        running[k] = (running[k] or 0) + t[i][j]
        return running[k]
      end)
    end
  end
  local odd = array.from{{-inf, 0, -inf}, {nan, 0, 0}, {-inf, -inf, -inf}}
  lu.assertEquals(odd:softmax("rows"):totable()[1], {0, 1, 0})
  for i = 2, 3 do lu.assertNotEquals(odd:softmax("rows")[i][1], odd:softmax("rows")[i][1]) end
end

function TestReductions:test_same_bits_for_any_threads()
  local before, seen = fopo.threads(), {}
  local a = array.randn(1500, 1000, 3)
  for _, threads in ipairs{1, 2, 3} do
    fopo.threads(threads)
    local w = (a * 2 - a:mean("columns")):softmax("rows") + (a:cumsum("columns") / 99):exp()
    local all = {w:sum(), w:norm(), a:logsumexp("columns"):sum(), a:sum("columns"):norm(),
                 a:argmax("columns"):get(1, 77)}
    for _, side in ipairs{"rows", "columns"} do all[#all + 1] = w:max(side):sum() end
    seen[#seen + 1] = all
  end
  fopo.threads(before)
  lu.assertEquals(seen[2], seen[1])
  lu.assertEquals(seen[3], seen[1])
end

-- ---- rows and columns, order and chance ----

TestParts = {}

function TestParts:test_moves()
  for _, shape in ipairs{{1, 1}, {3, 5}, {70, 33}, {1, 9}, {9, 1}} do
    local m, n = shape[1], shape[2]
    local t = drawn(m, n)
    local a = array.from(t)
    holds("transpose", a:transpose(), n, m, function(i, j) return t[j][i] end)
    holds("reshape", a:reshape(1, m * n), 1, m * n, function(_, k)
      return t[(k - 1) // n + 1][(k - 1) % n + 1]
    end)
    local i, j = math.random(m), math.random(n)
    holds("slice", a:slice(i), m - i + 1, n, function(r, c) return t[i + r - 1][c] end)
    holds("slice", a:slice(1, i), i, n, function(r, c) return t[r][c] end)
    holds("columns", a:columns(j), m, n - j + 1, function(r, c) return t[r][j + c - 1] end)
    holds("columns", a:columns(1, j), m, j, function(r, c) return t[r][c] end)
    local other = drawn(1, n)
    holds("concat", array.concat{a, array.from(other), a}, 2 * m + 1, n, function(r, c)
      return r <= m and t[r][c] or r == m + 1 and other[1][c] or t[r - m - 1][c]
    end)
    holds("concat", array.concat({a, a:columns(1, j)}, "columns"), m, n + j, function(r, c)
      return t[r][c <= n and c or c - n]
    end)
    holds("outer", a:outer(a), m * n, m * n, function(p, q)
      return t[(p - 1) // n + 1][(p - 1) % n + 1] * t[(q - 1) // n + 1][(q - 1) % n + 1]
    end)
  end
  local a, ids = array.zeros(2, 3), array.ids{5, 2, 9}
  lu.assertEquals({a:slice(3).rows, a:slice(2, 1).rows, a:columns(4).cols}, {0, 0, 0})
  lu.assertEquals(ids:transpose():totable(), {{5}, {2}, {9}})
  lu.assertEquals(array.concat{ids, ids}:reshape(3, 2):totable(), {{5, 2}, {9, 5}, {2, 9}})
  lu.assertEquals(ids:columns(2):totable(), {{2, 9}})
  lu.assertEquals(array.eye(2):totable(), {{1, 0}, {0, 1}})
  lu.assertEquals(array.linspace(-1, 1, 3):totable(), {{-1, 0, 1}})
end

function TestParts:test_gather_and_scatter()
  local t, b = drawn(6, 9), drawn(40, 9)
  local a, list, columns = array.from(t), {}, {}
  for s = 1, 40 do list[s], columns[s] = math.random(6), math.random(9) end
  holds("gather", a:gather(array.ids(columns)), 6, 40, function(i, k) return t[i][columns[k]] end)
  local own = array.ids(columns):columns(1, 36):reshape(6, 6)
  holds("gather", a:gather(own), 6, 6, function(i, k) return t[i][columns[(i - 1) * 6 + k]] end)
  local kept = a:copy()
  lu.assertEquals(a:scatter_add(array.ids(list), array.from(b)), a) -- in place
  local sums = {}
  for i = 1, 6 do sums[i] = table.move(t[i], 1, 9, 1, {}) end
  for s = 1, 40 do
    for j = 1, 9 do sums[list[s]][j] = sums[list[s]][j] + b[s][j] end
  end
  holds("scatter_add", a, 6, 9, function(i, j) return sums[i][j] end)
  local rows = array.ids{2, 1, 1, 1, 1, 1}
  local alone, aliased = kept:copy():scatter_add(rows, kept), kept:copy()
  lu.assertTrue(aliased:scatter_add(rows, aliased):near(alone)) -- the rows as they were
end

function TestParts:test_top_and_sort()
  for _, shape in ipairs{{1, 1}, {5, 8}, {3, 300}, {200, 4}} do
    local m, n = shape[1], shape[2]
    local t = drawn(m, n, true)
    local a = array.from(t)
    local function before(descending) -- NaN is the largest; of equal ones the first
      return function(p, q)
        local x, y = p[1], q[1]
        local first, second = x == x and x or inf, y == y and y or inf
        if first ~= second then return (first > second) == descending end
        if (x ~= x) ~= (y ~= y) then return (x ~= x) == descending end
        return p[2] < q[2]
      end
    end
    local function ordered(list, descending)
      local pairs_of = {}
      for j, v in ipairs(list) do pairs_of[j] = {v, j} end
      table.sort(pairs_of, before(descending))
      return pairs_of
    end
    local k = math.random(n)
    local values, ids = a:top(k)
    lu.assertEquals({values.rows, values.cols, ids.rows, ids.cols}, {m, k, m, k})
    for i = 1, m do
      local want = ordered(t[i], true)
      for r = 1, k do
        lu.assertTrue(same(values:get(i, r), want[r][1]))
        lu.assertEquals(ids:get(i, r), want[r][2])
      end
    end
    for _, side in ipairs{"rows", "columns"} do
      local sorted, places = a:sort(side)
      for l, list in ipairs(lists_of(t, side)) do
        for r, want in ipairs(ordered(list, false)) do
          local i, j = l, r
          if side == "columns" then i, j = r, l end
          lu.assertTrue(same(sorted:get(i, j), want[1]))
          lu.assertEquals(places:get(i, j), want[2])
        end
      end
    end
  end
  lu.assertEquals(array.zeros(2, 0):sort("rows").cols, 0)
end

function TestParts:test_draws()
  local n, weights = 40000, {{1, 2, 0, 5}, {0, 0, 3, 0}}
  local ids = array.from(weights):draw(n, 11, 3)
  for i, row in ipairs(weights) do
    local counts, sum = {0, 0, 0, 0}, row[1] + row[2] + row[3] + row[4]
    for s = 1, n do counts[ids:get(i, s)] = counts[ids:get(i, s)] + 1 end
    for j, w in ipairs(row) do
      local p = w / sum
      local error = math.sqrt(p * (1 - p) / n)
      lu.assertTrue(math.abs(counts[j] / n - p) <= 5 * error, ("row %d, column %d"):format(i, j))
    end
  end
  local again = array.from(weights):draw(100, 11, 3) -- the first of them
  lu.assertEquals(again:totable(), ids:columns(1, 100):totable())
  lu.assertNotEquals(array.from(weights):draw(100, 11, 4):totable(), again:totable())
  local u, z = array.uniform(500, 400, 5, 2), array.randn(500, 400, 5, 1, 2)
  lu.assertTrue(u:min() > 0 and u:max() < 1)
  for power, want in ipairs{1 / 2, 1 / 3, 1 / 4} do
    lu.assertAlmostEquals((u ^ power):mean(), want, 5 * 0.3 / math.sqrt(200000))
  end
  lu.assertAlmostEquals((z ^ 2):mean(), 1, 5 * math.sqrt(2 / 200000))
  lu.assertTrue(z:slice(1, 1):near(array.randn(1, 400, 5, 1, 2)))
  lu.assertFalse(z:near(array.randn(500, 400, 5), 1))
end

-- ---- errors ----

local function fails(part, f, ...)
  local ok, message = pcall(f, ...)
  lu.assertFalse(ok, "an error was expected: " .. part)
  lu.assertStrContains(message, part)
  lu.assertStrContains(message, "test_arrays.lua:")
  lu.assertNil(message:find("\n", 1, true))
end

TestSentences = {}

function TestSentences:test_shapes_and_kinds()
  local a, ids = array.zeros(3, 4), array.ids{1, 2}
  fails("a is 3 x 4 and b is 4 x 4: rows must be as many, or 1 for all, and so must columns",
        function() return a + array.zeros(4, 4) end)
  fails("a is 3 x 2 and b is 3 x 4", function() return array.zeros(3, 2):maximum(a) end)
  fails("b is 1 x 2 and c is 3 x 4", function()
    return array.zeros(1, 1):where(array.zeros(1, 2), a)
  end)
  fails("b is an array of ids; an array of numbers is needed", function() return a * ids end)
  fails("a is an array of ids", function() return ids + 1 end)
  fails("b must be an array or a number, not a string", function() return a + "1" end)
  fails("a must be an array or a number, not a table", function() return {} / a end)
  fails("compared element by element by a:lt(b)", function() return a < a end)
  fails("compared element by element by a:lt(b)", function() return a >= a end)
  fails("b must be an array or a number, not nil", function() return a:lt() end)
  fails("b is 1e+300, which no float32 holds", function() return a + 1e300 end)
  fails("the array is an array of ids", function() return ids:sum("rows") end)
  fails("the side", function() return a:sum("row") end)
  fails("say along what: \"rows\" or \"columns\"", function() return a:softmax() end)
  fails("the array is empty (0 x 3)", function() return array.zeros(0, 3):mean() end)
  fails("the rows are empty (3 x 0)", function()
    return array.zeros(3, 0):max("rows")
  end)
  fails("the columns are empty (0 x 3)",
        function() return array.zeros(0, 3):argmax("columns") end)
end

function TestSentences:test_parts()
  local a, ids = array.zeros(3, 4), array.ids{1, 5}
  fails("column 5 (row 1, column 2 of the ids) does not exist; use 1 to 4", a.gather, a, ids)
  fails("row 5 (row 1, column 2 of the ids) does not exist; use 1 to 3", a.scatter_add, a, ids, a)
  fails("2 ids of rows of 3 x 4 need 2 x 4 numbers, not 3 x 4", a.scatter_add, a,
        array.ids{1, 2}, a)
  fails("they need 1 row or 3", a.gather, a, array.ids{1, 2}:transpose())
  fails("3 x 4 has 12 elements and cannot become 5 x 2, which has 10", a.reshape, a, 5, 2)
  fails("the first one is 5; use 1 to 4", a.slice, a, 5)
  fails("the last one is 5; use 1 to 4", a.columns, a, 2, 5)
  fails("array 2 is 3 x 2 of numbers and does not go below array 1, of 4 columns of numbers",
        array.concat, {a, array.zeros(3, 2)})
  fails("array 2 is 1 x 2 of ids and does not go beside array 1, of 3 rows of numbers",
        array.concat, {a, ids}, "columns")
  fails("the list of arrays is empty", array.concat, {})
  fails("k is 5; use 1 to 4", a.top, a, 5)
  fails("row 1 has no weight above 0", a.draw, a, 1)
  fails("row 2 has the weight -1 at column 1; weights are at least 0 and finite", function()
    array.from{{1, 0}, {-1, 3}}:draw(5)
  end)
end

function TestSentences:test_indexing()
  local a = array.zeros(3, 4)
  fails("row 0 does not exist; use 1 to 3", function() return a[0] end)
  fails("row 5 does not exist; use 1 to 3", function() return a[5] end)
  fails("row must be a whole number, not 1.5", function() return a[1.5] end)
  fails("element 9 does not exist; use 1 to 4", function() return a[1][9] end)
  fails("array.[] cannot be set; a:set(i, j, value) changes an element", function() a[1] = a end)
  fails("array.[] cannot be set; a:set(i, j, value) changes an element", function() a[1][1] = 2 end)
  lu.assertEquals(a[4], nil)
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
