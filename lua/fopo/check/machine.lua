-- The same results for 1 and 2 threads, and on CPU and GPU.
local native = require "fopo.native"
local tools = require "fopo.check.tools"
local label, afterwards = tools.label, tools.afterwards

local machine = {}

local function same_bits(a, b) return a:copy():add(b, -1):norm() == 0 and a:finite() end

function machine.threads(c)
  local kept, names = native.threads(), {}
  local _ <close> = afterwards(function() native.threads(kept) end)
  local function results(n)
    native.threads(n)
    local out = {}
    for _, g in ipairs(c.gradients) do
      local G = g:compute(c.pi, c.x, c.rows, c.reward, c.with{seed = c.seed, step = 7})
      out[#out + 1] = {label(g), G}
    end
    out[#out + 1] = {"the search", select(2, c.oracle:search(c.pi:queries(c.many), 1))}
    return out
  end
  local one, two = results(1), results(2)
  for i, r in ipairs(one) do
    if not same_bits(r[2], two[i][2]) then names[#names + 1] = r[1] end
  end
  c.add("1 thread, 2 threads", #names == 0 and ("the same bits in %d results"):format(#one)
        or "other bits in " .. table.concat(names, "; "), "same bits", #names == 0)
end

-- The change of theta by one step of plain ascent (lr = 1), which is the gradient, on a device.
local function moved(c, g, device)
  local before = c.pi:theta()
  local _ <close> = afterwards(function() c.pi:set_theta(before) end)
  local t = native.trainer{policy = c.pi, contexts = c.x, reward = c.reward, gradient = g,
                           sessions = c.with{}.sessions,
                           optim = require("fopo.optim").sgd{lr = 1}, batch = #c.rows,
                           seed = c.seed, device = device}
  t:advance(1)
  return c.pi:theta():add(before, -1)
end

-- With a head for all contexts a GPU may round its rows for itself, so both ways are compared.
local function both_products(g)
  local list = {}
  for _, products in ipairs{"float32", "bfloat16"} do
    list[#list + 1] = native.gradient_head_tail{head = g.head, tail = g.tail, products = products}
  end
  return list
end

-- Draws are the same on every device, so results differ only by the order of summation, and by what
-- is left of bfloat16's rounding: 2^-16 of queries and weights.
function machine.devices(c)
  if c.pi.train_items then
    return c.skip("CPU and GPU", "a step would move the items of this policy")
  end
  local ok, why = pcall(native.device, "cuda")
  if not ok then
    return c.skip("CPU and GPU", (tostring(why):gsub("^.-:%d+: ", "")))
  end
  local gradients = {}
  for _, g in ipairs(c.gradients) do -- a slate may change with the rounding of a score
    if not native.gradient_common(g, "slates") then gradients[#gradients + 1] = g end
  end
  for _, given in ipairs(gradients) do
    local shared = given.products == "auto" and math.type(given.head)
    for _, g in ipairs(shared and both_products(given) or {given}) do
      local cpu, gpu = moved(c, g, "cpu"), moved(c, g, "cuda")
      local norm = cpu:norm()
      local off = norm > 0 and gpu:add(cpu, -1):norm() / norm or gpu:norm()
      c.add("CPU and GPU, " .. label(g), ("a step differs by %.1e"):format(off), "1e-03",
            off < 1e-3)
    end
  end
end

return machine
