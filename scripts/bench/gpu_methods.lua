-- The methods whose steps gpu.lua measures on a GPU and gpu_profile.lua takes apart.
local fopo = require "fopo"
local script = require "script"
local methods = {K = 256, TAIL = 64, SHARED = {}} -- heads that all contexts share
local BUDGET = 8192 -- items of the largest norms that an approximate search scores

for _, products in ipairs{"float32", "bfloat16"} do
  for _, H in ipairs{512, 2048, 8192} do
    table.insert(methods.SHARED, {("shared head %d + %d, %s"):format(H, methods.TAIL, products),
                                  H = H, products = products})
  end
end

-- {name, gradient, rows =, kept = true: candidates are searched once}, of so many draws a context.
function methods.of(items, samples)
  local exact = fopo.index.norm(items)
  local function mixture(index, refresh)
    return script.mixture(index, {samples = samples, refresh = refresh})
  end
  local uniform = fopo.gradient.snis{samples = samples}
  local list = { -- REINFORCE first: others are compared with it
    {"REINFORCE", fopo.gradient.reinforce{samples = samples, baseline = "mean"}},
    {"uniform", uniform},
    {"uniform, float16", uniform, rows = "float16"},
    {"uniform, bfloat16", uniform, rows = "bfloat16"},
    {"mixture", mixture(exact)},
    {"mixture, bfloat16", mixture(exact), rows = "bfloat16"}, -- which the search uses, too
    {"mixture, norms", mixture(fopo.index.norm(items, {budget = BUDGET}))},
    {"mixture, kept", mixture(exact, 1000000), kept = true},
    {"head and tail, kept", fopo.gradient.head_tail{
      index = exact, k = methods.K, tail = methods.K, refresh = 1000000}, kept = true},
  }
  for _, shared in ipairs(methods.SHARED) do
    list[#list + 1] = {shared[1], fopo.gradient.head_tail{head = shared.H, tail = methods.TAIL,
                                                          products = shared.products}}
  end
  return list
end

return methods
