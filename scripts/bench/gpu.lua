-- A step on this machine's card: against the time that its rows take at the measured rate of a copy,
-- against REINFORCE on the same card and the two products that it needs, and against PyTorch's same
-- three methods there. What is absent is skipped by name.
local fopo = require "fopo"
local bench = require "bench"
local world = require "world"
local gpu = {}
local S, K = 1000, 256
local FLOOR = 15e-6 -- seconds: what the launches of a step may take

-- Compiles the program of the limits with nvcc; its worker, or nil and why.
local function limits()
  local nvcc = bench.line_of("command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null")
  if not nvcc then return nil, "nvcc is absent" end
  local out = bench.folder .. "/bin/gpu_limits"
  bench.run("mkdir -p " .. bench.folder .. "/bin")
  bench.run(("%s -O2 -std=c++17 -arch=native -o %s %s -lcublas"):format(nvcc, out,
                                                                     bench.path("gpu_limits.cu")))
  return bench.worker(out)
end

local function methods(index)
  local function mixture(refresh)
    return fopo.gradient.snis{samples = S, proposal = fopo.proposal.mixture{
      index = index, k = K, epsilon = 0.8, refresh = refresh}}
  end
  return {{"uniform", fopo.gradient.snis{samples = S}},
          {"mixture", mixture(1)},
          {"mixture, kept", mixture(1000000)},
          {"uniform, float16", fopo.gradient.snis{samples = S}, rows = "float16"},
          {"REINFORCE", fopo.gradient.reinforce{samples = S, baseline = "mean"}}}
end

-- PyTorch's cases; a method that does not fit the card is left out.
local function torch(worker, B)
  local cases = {}
  for _, method in ipairs{"reinforce", "uniform", "mixture"} do
    local function ask(n) return worker:ask(("%s %d %d"):format(method, B, n)) end
    local first = ask(1)
    if first[2] == "absent" then
      bench.note("batch %d: PyTorch's %s skipped: %s", B, method, first[3])
    else
      local n = bench.fill(bench.options.sample, ask(1)[3])
      cases[#cases + 1] = {"torch " .. method, function() return ask(n)[3] end}
    end
  end
  return cases
end

local function row(L, B, s, what, against, faster, target)
  if not s[what] or not s[against] then return end
  bench.row{what = ("L = %d, batch %d: %s"):format(L, B, what), unit = "s", mine = s[what],
            against = against, other = s[against], faster = faster, target = target}
end

local function one(P, L, B, sessions, items, index, rate, card, python)
  local cases = {}
  for _, m in ipairs(methods(index)) do
    local trainer = world.trainer(sessions, items, m[2], m.rows, "cuda", B)
    if m[1] == "mixture, kept" then -- every context is searched before it is measured
      trainer:run{steps = trainer.steps_per_epoch, every = trainer.steps_per_epoch, view = false}
    end
    cases[#cases + 1] = {m[1], world.step_of(trainer, 2000)}
  end
  if python then
    for _, case in ipairs(torch(python, B)) do cases[#cases + 1] = case end
  end
  local s = bench.in_turn(cases, bench.options.limit / 4)
  s["limit"] = {math.max(B * S * L * 4 / rate, FLOOR)}
  s["two products"] = {card:ask(("products %d %d %d"):format(B, P, L))[2]}
  row(L, B, s, "uniform", "limit", false, 2)
  row(L, B, s, "mixture, kept", "limit", false, 2)
  row(L, B, s, "uniform, float16", "uniform", false)
  row(L, B, s, "REINFORCE", "two products", false)
  row(L, B, s, "mixture", "REINFORCE", true, L == 100 and 5 or nil)
  row(L, B, s, "mixture, kept", "REINFORCE", true, L == 100 and 20 or nil)
  row(L, B, s, "uniform", "torch uniform", true)
  row(L, B, s, "mixture", "torch mixture", true, 5)
  row(L, B, s, "REINFORCE", "torch reinforce", true)
end

function gpu.gpu()
  local native = require "fopo.native"
  local ok, device = pcall(native.device, "cuda")
  if not ok then return bench.note("skipped: %s", (tostring(device):gsub("^.-:%d+: ", ""))) end
  local card, why = limits()
  if not card then return bench.note("skipped: %s", why) end
  local rate = card:ask("copy")[2]
  bench.note("%s: a copy moves %.0f GB/s, reading and writing counted", card.about, rate / 1e9)
  local P = bench.scaled(790000)
  local sessions = world.sessions(P)
  for _, L in ipairs(bench.options.dims) do
    if L > 100 then break end
    local items = world.items(P, L)
    local index = fopo.index.exact(items)
    local folder = bench.folder .. "/torch"
    local python, absent
    if bench.options.torch then
      world.export(folder, items, sessions, 10000)
      python, absent = bench.worker("python3 " .. bench.path("torch_gpu.py") .. " " .. folder)
      bench.forget(folder .. "/items.npy")
      bench.note("L = %d: PyTorch %s", L, python and python.about or "skipped: " .. absent)
    end
    for _, B in ipairs{32, 1024} do one(P, L, B, sessions, items, index, rate, card, python) end
    if python then python:stop() end
    collectgarbage()
    collectgarbage()
  end
  card:stop()
end

return gpu
