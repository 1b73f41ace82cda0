-- fopo.array: dense float32 matrices and lists of item or context ids.
local native = require "fopo.native"
local define = require "fopo.base.define"
local origin = require "fopo.base.origin"
local saves = require "fopo.base.saves"
local fn, doc = define.fn, define.doc
local array, methods = {}, native.types.array

-- A copy is made of the same sessions.
local copy = methods.copy
function methods.copy(a)
  local made = copy(a)
  if next(origin.of(a)) then origin.set(made, origin.of(a)) end
  return made
end

methods.save = saves("array", methods.save, function(a, path)
  native.array_load(path, a.kind == "ids")
end)

array.zeros = fn{
  name = "fopo.array.zeros", returns = "array",
  args = {{"rows", "integer", nil, "number of rows", min = 0},
          {"cols", "integer", nil, "number of columns", min = 0}},
  text = "A matrix [rows, cols] of zeros, float32, row-major.",
  example = "a = fopo.array.zeros(2, 3)\nassert(a:get(2, 3) == 0)",
  call = native.array_zeros,
}

array.randn = fn{
  name = "fopo.array.randn", returns = "array",
  args = {{"rows", "integer", nil, "number of rows", min = 0},
          {"cols", "integer", nil, "number of columns", min = 0},
          {"seed", "integer", nil, "any integer; 0 if left out", optional = true},
          {"scale", "number", nil, "standard deviation; 1 if left out", optional = true},
          {"step", "integer", nil, "of a loop, for other numbers of the seed; 0 if left out",
           optional = true, min = 0}},
  text = [[A matrix of independent normal numbers. Element i is a function of (seed, step, i)
alone.]],
  example = [[a = fopo.array.randn(3, 3, 7)
assert(a:get(1, 1) == fopo.array.randn(3, 3, 7):get(1, 1))]],
  call = native.array_randn,
}

array.uniform = fn{
  name = "fopo.array.uniform", returns = "array",
  args = {{"rows", "integer", nil, "number of rows", min = 0},
          {"cols", "integer", nil, "number of columns", min = 0},
          {"seed", "integer", nil, "any integer; 0 if left out", optional = true},
          {"step", "integer", nil, "of a loop, for other numbers of the seed; 0 if left out",
           optional = true, min = 0}},
  text = [[A matrix of independent uniform numbers, more than 0 and less than 1. Element i is a
function of (seed, step, i) alone.]],
  example = [[u = fopo.array.uniform(50, 4, 7, 1)
assert(u:min() > 0 and u:max() < 1 and not u:near(fopo.array.uniform(50, 4, 7, 2), 0.1))]],
  call = native.array_uniform,
}

array.eye = fn{
  name = "fopo.array.eye", returns = "array",
  args = {{"n", "integer", nil, "number of rows and columns", min = 0}},
  text = [[The identity matrix [n, n]. As the items of a policy whose actions have no features it
gives each action a vector of theta [D, n] of its own, as policy.linear{items = lg} does.]],
  example = "a = fopo.array.randn(3, 3, 1)\nassert(a:matmul(fopo.array.eye(3)):near(a))",
  call = function(n)
    local a = native.array_zeros(n, n)
    for i = 1, n do a:set(i, i, 1) end
    return a
  end,
}

array.linspace = fn{
  name = "fopo.array.linspace", returns = "array",
  args = {{"first", "number", nil, "the first number"}, {"last", "number", nil, "the last one"},
          {"n", "integer", nil, "how many", min = 2}},
  text = "A row of n numbers at equal distances.",
  example = "a = fopo.array.linspace(0, 1, 5)\nassert(a[1][2] == 0.25 and a[1][5] == 1)",
  call = function(first, last, n)
    local row = {}
    for j = 1, n do
      local t = (j - 1) / (n - 1)
      row[j] = first * (1 - t) + last * t
    end
    return native.array_from(row)
  end,
}

array.concat = fn{
  name = "fopo.array.concat", returns = "array",
  args = {{"arrays", "table", nil, "a list of arrays, all of numbers or all of ids"},
          {"side", "string", nil, "rows, one below another, if left out; or columns, side by side",
           one_of = {"rows", "columns"}, optional = true}},
  text = "One array of several. Those that do not fit are an error that names the shapes.",
  example = [[a = fopo.array.concat({fopo.array.zeros(2, 3), fopo.array.eye(3)})
assert(#a == 5 and fopo.array.concat({a, a}, "columns").cols == 6)]],
  call = native.array_concat,
}

array.from = fn{
  name = "fopo.array.from", returns = "array",
  args = {{"rows", "table", nil, "{{...}, {...}}, or {...} for one row"}},
  text = "A matrix from a table of rows. Rows of different lengths are an error that names both.",
  example = "a = fopo.array.from{{1, 2}, {3, 4}}\nassert(a:get(2, 1) == 3)",
  call = native.array_from,
}

array.ids = fn{
  name = "fopo.array.ids", returns = "array",
  args = {{"ids", "table", nil, "1-based integers"}},
  text = "A row of ids (items, contexts), for a:rows_of, g:compute and the like.",
  example = "ids = fopo.array.ids{3, 1, 2}\nassert(ids:get(1, 1) == 3)",
  call = native.array_ids,
}

array.load = fn{
  name = "fopo.array.load", returns = "array",
  args = {{"path", "string", nil, "a .npy, or an .npz with one member"}},
  options = {{"ids", "boolean", false, "read 0-based integers as ids"}},
  text = [[Reads a matrix that NumPy or a:save wrote: float32, float64 or integers, one or two
dimensions, little- or big-endian, C or Fortran order. Object arrays (pickles) are refused.]],
  example = [[a = fopo.array.randn(4, 2, 1)
path = os.tmpname() .. ".npy"
a:save(path)
assert(fopo.array.load(path):get(4, 2) == a:get(4, 2))
os.remove(path)]],
  call = function(path, o) return native.array_load(path, o.ids) end,
}

function methods.describe(a)
  local part = a.part
  return ("array [%d, %d] of %s%s"):format(a.rows, a.cols, a.kind == "ids" and "ids" or "float32",
    part and (", %d rows on rank %d of %d"):format(part.rows, part.rank, part.size) or "")
end

doc{name = "array:get", signature = "a:get(i, j)", returns = "number",
    text = "Element (i, j), counted from 1. Of an array of ids: a 1-based id, or nil for none."}
doc{name = "array:set", signature = "a:set(i, j, value)", text = "Sets element (i, j)."}
doc{name = "array:save", signature = "a:save(path)",
    text = "Writes a .npy file (through a temporary name, then renamed). Ids are saved 0-based."}
doc{name = "array:rows_of", signature = "a:rows_of(ids)", returns = "array",
    text = "The rows of the given ids (an array of ids or a table of 1-based integers)."}
doc{name = "array:copy", signature = "a:copy()", returns = "array", text = "A copy."}
doc{name = "array:totable", signature = "a:totable()", returns = "table", text = "{{...}, ...}"}
doc{name = "array:matmul", signature = "a:matmul(b, transpose_a, transpose_b)", returns = "array",
    text = "The product op(a) op(b). Shapes that do not fit are an error that names both."}
doc{name = "array:add", signature = "a:add(b, alpha)", returns = "array",
    text = "a + alpha b (alpha = 1 if left out), in place; returns a."}
doc{name = "array:scale", signature = "a:scale(alpha)", returns = "array",
    text = "alpha a, in place; returns a."}

-- ---- what arrays compute ----

local function method(name, signature, returns, text, example)
  doc{name = "array:" .. name, signature = signature, returns = returns, text = text,
      example = example}
end

local A = "a = fopo.array.from{{1, 4, 9}, {2, 3, 6}}\n"

doc{name = "array:operators", signature = "a + b, a - b, a * b, a / b, a ^ b, -a, #a, a[i]",
    returns = "array", text = [[Element by element, as a:maximum(b) and others are; a:matmul(b) is
the product of matrices. Sizes must be equal, or 1: a row [1, n] stands for each row, a column
[m, 1] for each column, and a number for an array of it. The result is a new float32 array. Two that
do not fit are an error that names both shapes, an array of ids is an error, too.
#a is the number of rows. a[i] is row i, a copy, and a[i][j] is element (i, j); a[#a + 1] is nil, so
ipairs(a) goes through the rows.]],
    example = A .. [[
shares = a / a:sum("rows")
assert(math.abs(shares[2][3] - 6 / 11) < 1e-6 and #a == 2)]]}

for _, one in ipairs{{"exp", "e^a; 0 below -87", "(fopo.array.zeros(2, 2):exp() - 1):norm() == 0"},
                    {"log", "The natural logarithm of each element; NaN of those below 0",
                     "a:exp():log():near(a, 1e-5)"},
                    {"sqrt", "The square root of each element; NaN of those below 0",
                     "a:sqrt()[1][3] == 3"},
                    {"abs", "The absolute value of each element", "(-a):abs():eq(a):min() == 1"}} do
  method(one[1], ("a:%s()"):format(one[1]), "array", one[2] .. ".", A .. "assert(" .. one[3] .. ")")
end
for _, one in ipairs{{"maximum", "The larger one of two elements; NaN if one is NaN",
                     "a:maximum(5)[1][1] == 5"},
                    {"minimum", "The smaller one of two elements; NaN if one is NaN",
                     "a:minimum(5)[1][3] == 5"},
                    {"lt", "1 where a < b, else 0", "a:lt(4):sum() == 3"},
                    {"le", "1 where a <= b, else 0", "a:le(4):sum() == 4"},
                    {"gt", "1 where a > b, else 0", "a:gt(4):sum() == 2"},
                    {"ge", "1 where a >= b, else 0", "a:ge(4):sum() == 3"},
                    {"eq", "1 where a and b are equal, else 0", "a:eq(4):sum() == 1"},
                    {"ne", "1 where a and b differ, else 0", "a:ne(4):sum() == 5"}} do
  method(one[1], ("a:%s(b)"):format(one[1]), "array",
         one[2] .. [[. b is an array or a number; shapes as in help"array:operators".]],
         A .. "assert(" .. one[3] .. ")")
end
method("clip", "a:clip(least, most)", "array", [[Elements below `least` become it, and those above
`most` that; numbers or arrays.]], A .. "assert(a:clip(2, 5)[1][3] == 5)")
method("where", "a:where(b, c)", "array", [[b where a is not 0, else c; arrays or numbers. a is
often a comparison.]], A .. "assert(a:lt(4):where(0, a):sum() == 4 + 9 + 6)")

for _, one in ipairs{{"sum", "The sum, added in double", "a:sum() == 25", "== 14"},
                    {"mean", "The mean", "a:mean() == 25 / 6", "> 4.6"},
                    {"norm", "The square root of the sum of squares",
                     "fopo.array.from{3, 4}:norm() == 5", "^ 2 > 97"},
                    {"min", "The smallest one, NaN if one is NaN", "a:min() == 1", "== 1"},
                    {"max", "The largest one, NaN if one is NaN", "a:max() == 9", "== 9"},
                    {"logsumexp", "log sum exp, without overflow",
                     "math.abs(fopo.array.zeros(1, 8):logsumexp() - math.log(8)) < 1e-6",
                     "> 9"}} do
  method(one[1], ("a:%s(side)"):format(one[1]), "number|array", one[2] .. [[ of all elements, a
number. With side = "rows" of each row, an array [rows, 1]; with "columns" of each column,
[1, cols].]], ("%sassert(%s)\nassert(a:%s(\"rows\")[1][1] %s)"):format(A, one[3], one[1], one[4]))
end
method("near", "a:near(b, tolerance)", "boolean", [[True if the shapes are equal and no two elements
differ by more than the tolerance, 0 if left out; else false and where they do. NaN is near
nothing.]],
       A .. "assert(a:near(a + 0.01, 0.02) and not a:near(-a))")
method("argmax", "a:argmax(side)", "array", [[The place of the largest element, the first of equal
ones: its row and its column, two integers. With side = "rows" the column of the largest one of each
row, an array of ids [rows, 1]; with "columns" the row of that of each column, ids [1, cols]. NaN is
larger than all others.]], A .. [[
i, j = a:argmax()
assert(i == 1 and j == 3 and a:argmax("columns"):get(1, 1) == 2)]])
method("softmax", "a:softmax(side)", "array", [[exp(a) / sum exp(a) of each row (side = "rows") or
of each column ("columns"), without overflow.]], [[
w = fopo.array.from{{0, 0}, {1000, 0}}:softmax("rows")
assert(w[1][2] == 0.5 and w[2][1] == 1)]])
method("cumsum", "a:cumsum(side)", "array", [[The sums of each row up to each of its elements (side
= "rows"), or of each column ("columns"), added in double.]],
       A .. [[assert(a:cumsum("rows")[1][3] == 14)]])
method("transpose", "a:transpose()", "array", "The transpose, of numbers or ids.",
       A .. "assert(a:transpose():get(3, 1) == 9)")
method("reshape", "a:reshape(rows, cols)", "array",
       "The same elements, row after row, in another shape.",
       A .. "assert(a:reshape(3, 2):get(2, 1) == 9)")
method("slice", "a:slice(i, j)", "array", [[Rows i to j, a copy; to the last one if j is left out.
a:rows_of(ids) takes any rows.]], A .. "assert(#a:slice(2, 2) == 1 and a:slice(2):get(1, 1) == 2)")
method("columns", "a:columns(i, j)", "array", [[Columns i to j, a copy; to the last one if j is left
out. a:gather(ids) takes any columns.]], A .. "assert(a:columns(2, 3):get(2, 2) == 6)")
method("gather", "a:gather(ids)", "array", [[Element (i, k) is a:get(i, ids:get(i, k)), for ids
[rows, n], as a:top and a:draw give them. One row of ids is for all rows: those columns.]],
       A .. [[
values, ids = a:top(2)
assert(a:gather(ids):near(values) and a:gather(fopo.array.ids{3, 1}):get(2, 1) == 6)]])
method("scatter_add", "a:scatter_add(ids, b)", "array", [[Adds row s of b to the row ids[s] of a, in
place, for n ids and b [n, cols]; an id may be there several times. Returns a.]], [[
b = fopo.array.from{{1, 2}, {3, 4}, {5, 6}}
a = fopo.array.zeros(3, 2):scatter_add(fopo.array.ids{3, 1, 3}, b)
assert(a:get(3, 2) == 8 and a:get(2, 1) == 0)]])
function methods.outer(a, b)
  if define.kind(a) ~= "array" or define.kind(b) ~= "array" then
    define.fail("array:outer needs two arrays: a:outer(b)")
  end
  return a:reshape(a.rows * a.cols, 1) * b:reshape(1, b.rows * b.cols)
end
method("outer", "a:outer(b)", "array", [[The products of each element of a with each of b, row after
row: an array [elements of a, elements of b].]],
       "a = fopo.array.from{1, 2}\nassert(a:outer(fopo.array.from{3, 4, 5}):get(2, 3) == 10)")
method("top", "a:top(k)", "array, array", [[The k largest elements of each row, the largest first,
and the ids of their columns; of equal ones the first. NaN is larger than all others.]],
       A .. "values, ids = a:top(1)\nassert(values:get(2, 1) == 6 and ids:get(2, 1) == 3)")
method("sort", "a:sort(side)", "array, array", [[Each row (side = "rows") or column ("columns") in
ascending order, and the ids of the places that its elements had; equal ones stay in order, and NaN
is last.]], A .. [[
values, ids = (-a):sort("rows")
assert(values:get(1, 1) == -9 and ids:get(1, 1) == 3)]])
method("draw", "a:draw(n, seed, step)", "array", [[n columns of each row, ids [rows, n], drawn with
replacement: column j of a row with the probability a[i][j] / the sum of the row. Of scores,
a:softmax("rows"):draw(n). Draw s of row i is a function of (seed, step, i, s) and of the weights;
seed and step are 0 if left out. Weights below 0, or none above it, are an error that names the
row.]], [[
ids = fopo.array.from{{0, 1, 3}}:draw(4000, 7)
threes = 0
for s = 1, 4000 do threes = threes + ids:get(1, s) - 2 end
assert(threes > 2900 and threes < 3100)]])

doc{name = "array:histogram", signature = "counts, about = a:histogram(bins)",
    returns = "table, table",
    text = [[The counts of the values in `bins` intervals (16 if left out) of equal width from the
smallest to the largest value, and {min, max, mean, seen}. Of an array of more than a million
elements an evenly spaced sample is read; seen is its size.]],
    example = [[counts, about = fopo.array.randn(100, 100, 1):histogram(8)
assert(#counts == 8 and about.seen == 10000)]]}
doc{name = "array:finite", signature = "a:finite()", returns = "boolean",
    text = "True if no element is NaN or infinite."}

return array
