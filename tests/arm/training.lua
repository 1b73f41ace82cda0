-- The same trainings on two architectures: the first run keeps what it drew and learnt in FOLDER,
-- the second compares.
-- usage: fopo training.lua FOLDER keep | compare
local fopo = require "fopo"
local folder, task = arg[1], arg[2]
local TOLERANCE = 1e-4 -- of the largest number: what BLAS and libm may round otherwise, in 15 steps

local function same(name, a, b, tolerance)
  local most, size = 0, 0
  for i = 1, a.rows do
    for j = 1, a.cols do
      most = math.max(most, math.abs(a:get(i, j) - b:get(i, j)))
      size = math.max(size, math.abs(b:get(i, j)))
    end
  end
  assert(a.rows == b.rows and a.cols == b.cols, name .. ": other sizes")
  assert(most <= tolerance * size, ("%s: %g apart, of %g"):format(name, most, size))
end

local function check(name, array, tolerance)
  local path = folder .. "/" .. name .. ".npy"
  if task == "keep" then return array:save(path) end
  same(name, array, fopo.array.load(path), tolerance)
end

-- Ids as numbers: a file of ids would count from 0.
local function numbers(ids)
  local out = fopo.array.zeros(ids.rows, ids.cols)
  for i = 1, ids.rows do
    for j = 1, ids.cols do out:set(i, j, ids:get(i, j)) end
  end
  return out
end

local world = fopo.data.synthetic{users = 300, items = 800, clusters = 10, seed = 3}
local train = world:sessions{seed = 1}.train
local items = fopo.array.randn(world.n_items, 21, 7)
local index = fopo.index.norm(items)
local mixture = fopo.proposal.mixture{index = index, k = 32}
local adaptive = fopo.proposal.adaptive{index = index, k = 32}

local function policy(rows)
  return fopo.policy.linear{items = items, theta = "random", seed = 5, rows = rows}
end

-- Draws are the same numbers; so are the candidates, whose scores are far enough apart.
local x = train:contexts(items)
for name, proposal in pairs{uniform = fopo.proposal.uniform(), mixture = mixture} do
  local ids, logq = proposal:sample(policy(), x, 50, {seed = 11, step = 3})
  check(name .. "_ids", numbers(ids), 0)
  check(name .. "_logq", logq, 1e-6)
end
local found = index:search(x, 16)
check("found", numbers(found), 0)

local gradients = {
  exact = fopo.gradient.exact{},
  reinforce = fopo.gradient.reinforce{samples = 50},
  mixture = fopo.gradient.snis{proposal = mixture, samples = 100},
  adaptive = fopo.gradient.snis{proposal = adaptive, samples = 100},
  head_tail = fopo.gradient.head_tail{index = index, k = 32, tail = 32},
  shared_head = fopo.gradient.head_tail{head = 100, tail = 32}}
for name, gradient in pairs(gradients) do
  for _, rows in ipairs{"float32", "float16", "bfloat16"} do
    local pi = policy(rows)
    local t = fopo.trainer{policy = pi, data = train, gradient = gradient, seed = 4,
      optim = fopo.optim.adam{lr = 0.01}, device = "cpu"}
    t:run{steps = 15, view = false}
    check(name .. "_" .. rows, pi:theta(), TOLERANCE)
  end
end
print(task == "keep" and "kept" or "the same draws, and theta within " .. TOLERANCE)
