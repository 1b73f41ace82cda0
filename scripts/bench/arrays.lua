-- Section arrays: what arrays compute, against NumPy, from 10 to 10^7 numbers, each on
-- one thread and in seconds of the CPU, which other work on the machine disturbs less.
local fopo = require "fopo"
local bench = require "bench"
local arrays = {}

-- {what, in fopo, in NumPy}; a, b [m, n], row [1, n], column [m, 1], index: n // 10 columns.
local cases = {
  {"a + b", function(x) return x.a + x.b end, "a + b"},
  {"a * row", function(x) return x.a * x.row end, "a * row"},
  {"a / column", function(x) return x.a / x.column end, "a / column"},
  {"a ^ 2", function(x) return x.a ^ 2 end, "a ** 2"},
  {"a ^ b", function(x) return x.a ^ x.b end, "a ** b"},
  {"exp", function(x) return x.a:exp() end, "np.exp(a)"},
  {"log", function(x) return x.a:log() end, "np.log(a)"},
  {"maximum", function(x) return x.a:maximum(x.b) end, "np.maximum(a, b)"},
  {"a < 1", function(x) return x.a:lt(1) end, "(a < 1).astype(np.float32)"},
  {"where", function(x) return x.a:where(x.b, 0) end, "np.where(a, b, np.float32(0))"},
  {"sum", function(x) return x.a:sum() end, "a.sum(dtype=np.float64)"},
  {"sum of rows", function(x) return x.a:sum("rows") end, "a.sum(1, keepdims=True)"},
  {"sum of columns", function(x) return x.a:sum("columns") end, "a.sum(0, keepdims=True)"},
  {"max of rows", function(x) return x.a:max("rows") end, "a.max(1, keepdims=True)"},
  {"argmax of rows", function(x) return x.a:argmax("rows") end, "a.argmax(1)"},
  {"softmax of rows", function(x) return x.a:softmax("rows") end,
   "(lambda w: w / w.sum(1, keepdims=True))(np.exp(a - a.max(1, keepdims=True)))"},
  {"cumsum of rows", function(x) return x.a:cumsum("rows") end, "a.cumsum(1)"},
  {"transpose", function(x) return x.a:transpose() end, "a.T.copy()"},
  {"a:gather(ids)", function(x) return x.a:gather(x.index) end, "a[:, index]"},
  {"sort of rows", function(x) return x.a:sort("rows") end,
   "(lambda i: (i, np.take_along_axis(a, i, 1)))(a.argsort(1))"},
  {"a:matmul(b, false, true)", function(x) return x.small:matmul(x.small, false, true) end,
   "a[:200] @ a[:200].T"},
}
local shapes = {{1, 10}, {10, 100}, {100, 1000}, {10000, 1000}}

local function operands(m, n)
  local x = {a = fopo.array.uniform(m, n, 1) + 0.5, b = fopo.array.uniform(m, n, 2) + 0.5}
  x.row, x.column, x.small = x.b:slice(1, 1), x.b:columns(1, 1), x.a:slice(1, math.min(m, 200))
  x.index = (fopo.array.zeros(1, n) + 1):draw(math.max(1, n // 10))
  return x
end

local function seconds_of(f, x, repeats)
  return bench.cpu(function() for _ = 1, repeats do f(x) end end) / repeats
end

local function all()
  local numpy <const> = bench.python("NumPy", "arrays_baseline.py", "")
  if not numpy then return end
  for _, shape in ipairs(shapes) do
    local m, n = math.max(1, math.floor(shape[1] * bench.options.scale)), shape[2]
    local x = operands(m, n)
    for _, case in ipairs(cases) do
      local repeats = {}
      local function theirs(k)
        return numpy:ask(("%d %d %d %s"):format(m, n, k, case[3]))[1]
      end
      -- As many as fill a fortieth of a sample, a hundredth of a second.
      local function measured(name, f)
        local seconds = bench.options.sample / 40
        return {name, function()
          repeats[name] = repeats[name] or bench.fill(seconds, f(bench.fill(seconds / 10, f(1))),
                                                      20000)
          return f(repeats[name])
        end}
      end
      bench.row_of(("%d x %d: "):format(m, n), bench.in_turn({
        measured(case[1], function(k) return seconds_of(case[2], x, k) end),
        measured("NumPy", theirs)}, bench.options.limit), case[1], "NumPy", false, 3)
    end
  end
  numpy:stop()
end

function arrays.arrays() bench.with_threads(1, all) end

return arrays
