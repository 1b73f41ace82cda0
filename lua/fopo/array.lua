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
          {"scale", "number", nil, "standard deviation; 1 if left out", optional = true}},
  text = "A matrix of independent normal numbers. Element i is a function of (seed, i) alone.",
  example = [[a = fopo.array.randn(3, 3, 7)
assert(a:get(1, 1) == fopo.array.randn(3, 3, 7):get(1, 1))]],
  call = function(rows, cols, seed, scale)
    return native.array_randn(rows, cols, seed or 0, scale or 1.0)
  end,
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
for _, one in ipairs{{"norm", "Square root of the sum of squares"}, {"sum", "Sum"},
                    {"mean", "Mean"}, {"min", "Smallest value"}, {"max", "Largest value"}} do
  doc{name = "array:" .. one[1], signature = ("a:%s()"):format(one[1]), returns = "number",
      text = one[2] .. " of all elements."}
end
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
