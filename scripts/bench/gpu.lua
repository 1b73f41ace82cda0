-- Section gpu: a step on this machine's GPU against the time that its rows take at the measured
-- rate of a copy, against REINFORCE on the same GPU and the two products that it needs, and against
-- the same three methods in PyTorch; and a shared head against the larger of its rows' time and
-- that of its own two products. A case that lacks its programs, does not fit into the GPU's memory
-- or would begin after `enough` seconds is skipped by name. Each case is printed as soon as it is
-- measured, and the table is kept after each batch size. Beside what gpu_model.lua says stands the
-- measurement, too, with the constants that gpu_limits.cu has measured if there is a file of them.
-- With FOPO_RECORD=0 steps are launched kernel by kernel, not as a CUDA graph. What rows in half
-- the bytes earn is in gpu_curves.lua.
local fopo = require "fopo"
local bench = require "bench"
local methods = require "gpu_methods"
local work = require "gpu_work"
local world = require "world"
local gpu = {}
local K, TAIL, SHARED = methods.K, methods.TAIL, methods.SHARED
local FLOOR = 15e-6 -- seconds that the launches of a step may take

-- The worker of the limits, a program beside the CUDA part; or nil and why.
local function limits()
  local part = os.getenv("FOPO_CUDA") or bench.line_of("readlink -f " .. bench.fopo)
  local program = part:match("^(.*/)") .. "gpu_limits"
  local f <close> = io.open(program)
  if not f then return nil, program .. " is absent; make bench-gpu builds it" end
  return bench.worker(program)
end

-- Seconds that a step with a shared head needs at least: to read its rows once, or to multiply
-- them.
local function limit_of_head(shared, B, L, rate, card)
  local half = shared.products == "bfloat16"
  local bytes = (shared.H * (half and 2 or 4) + B * TAIL * 4) * L
  local products = card:ask(("%s %d %d %d"):format(half and "halves" or "products", B, shared.H, L))
  return math.max(bytes / rate, products[1] == "products" and products[2] or 0, FLOOR)
end

local function row(L, B, s, what, against, faster, target)
  bench.row_of(("L = %d, batch %d: "):format(L, B), s, what, against, faster, target)
end

-- Is the case one of those that are wanted?
local function wanted(name)
  local cases = bench.options.cases
  return cases == "" or ("/" .. cases .. "/"):find("/" .. name .. "/", 1, true) ~= nil
end

-- Measures seconds a step into s[name] and prints them at once, so that a run that is cut keeps
-- what it has. `prepare` returns the measure; where it fails the case is skipped with a note.
local function measure(s, L, B, name, prepare)
  local label = ("L = %d, batch %d"):format(L, B)
  local ok, samples = pcall(function()
    return bench.in_turn({{name, prepare()}}, bench.options.limit / 16)[name]
  end)
  collectgarbage()
  collectgarbage() -- the card has room for one case
  if not ok then
    if tostring(samples):find("interrupted", 1, true) then error(samples, 0) end
    return bench.note("%s: %s skipped: %s", label, name, (tostring(samples):gsub("^.-:%d+: ", "")))
  end
  s[name] = samples
  bench.say("%s: %s %.1f us", label, name, 1e6 * bench.median(samples))
end

-- A method's trainer, warm.
local function warm_step(sessions, items, method, B)
  local trainer = world.trainer(sessions, items, method[2], method.rows, "cuda", B)
  if method.kept then -- every context is searched before it is measured
    trainer:run{steps = trainer.steps_per_epoch, every = trainer.steps_per_epoch, view = false}
  end
  local step = world.step_of(trainer, 2000)
  step(true)
  return step
end

-- What each method is compared with: against, whether it shall be faster, and the target.
local function comparisons(name, L)
  local many, some = L == 100 and 20 or nil, L == 100 and 5 or nil
  return ({
    ["uniform"] = {{"limit", false, 2}},
    ["uniform, float16"] = {{"uniform", false}},
    ["uniform, bfloat16"] = {{"uniform", false}},
    ["REINFORCE"] = {{"two products", false}},
    ["mixture"] = {{"REINFORCE", true, some}},
    ["mixture, bfloat16"] = {{"REINFORCE", true}},
    ["mixture, norms"] = {{"REINFORCE", true}},
    ["mixture, kept"] = {{"limit", false, 2}, {"REINFORCE", true, many}},
    ["head and tail, kept"] = {{"limit of 2 K rows", false, 2}},
  })[name] or {{"limit of " .. name, false, 2}, {"REINFORCE", true, many}}
end

-- The limits of a step, where the card has told them.
local function limits_of(L, B, P, rate, card)
  local s = {}
  if not card then return s end
  s["limit"] = {math.max(B * bench.options.samples * L * 4 / rate, FLOOR)}
  s["limit of 2 K rows"] = {math.max(B * 2 * K * L * 4 / rate, FLOOR)}
  for _, shared in ipairs(SHARED) do
    s["limit of " .. shared[1]] = {limit_of_head(shared, B, L, rate, card)}
  end
  local products = card:ask(("products %d %d %d"):format(B, P, L))
  if products[1] == "products" then s["two products"] = {products[2]} end
  return s
end

-- What the model says of a case, for the catalogue and the card at hand; nil: it has no such case.
local function modelled(name, L, B, P, constants)
  local given = {P = P}
  for k, v in pairs(constants or {}) do given[k] = v end
  local as = name == "mixture" and "mixture, fresh" or name
  local step = work.step(as, L, B, work.constants("H100", 2, given))
  return step and step.us * 1e-6
end

local function one(P, L, B, sessions, items, rate, card, python, constants)
  local s = limits_of(L, B, P, rate, card)
  for _, method in ipairs(methods.of(items, bench.options.samples)) do
    local name = method[1]
    if wanted(name) then
      measure(s, L, B, name, function() return warm_step(sessions, items, method, B) end)
      for _, c in ipairs(comparisons(name, L)) do row(L, B, s, name, c[1], c[2], c[3]) end
      s.model = {modelled(name, L, B, P, constants)}
      if s.model[1] then row(L, B, s, name, "model", false) end
    end
  end
  for ours, theirs in pairs(python and {REINFORCE = "reinforce", uniform = "uniform",
                                        mixture = "mixture"} or {}) do
    local name = "torch " .. theirs
    if wanted(ours) then
      measure(s, L, B, name, function() return world.step_of_worker(python, theirs, 3, B) end)
      row(L, B, s, ours, name, true, ours == "mixture" and 10 or nil)
    end
  end
  bench.keep()
end

function gpu.gpu()
  local native = require "fopo.native"
  local ok, device = pcall(native.device, "cuda")
  if not ok then return bench.note("skipped: %s", (tostring(device):gsub("^.-:%d+: ", ""))) end
  local card, why = limits()
  if not card then bench.note("without limits: %s", why) end
  local rate = card and card:ask("copy")[2]
  local start, enough, constants = fopo.clock(), bench.options.enough, nil
  if bench.options.constants ~= "" then
    constants = assert(loadfile(bench.options.constants, "t", {}))()
  end
  if card then
    bench.note("%s: a copy moves %.0f GB/s, reading and writing counted", card.about, rate / 1e9)
  end
  local P = bench.scaled(790000)
  local sessions = world.sessions(P)
  for _, L in ipairs(bench.options.dims) do
    local items = world.items(P, L)
    local python = world.torch(("L = %d: "):format(L), items, sessions, 10000)
    for _, B in ipairs(bench.options.batches) do
      if fopo.clock() - start < enough then
        one(P, L, B, sessions, items, rate, card, python, constants)
      else
        bench.note("L = %d, batch %d: skipped after %d seconds", L, B, enough)
      end
    end
    if python then python:stop() end
    collectgarbage()
    collectgarbage()
  end
  if card then card:stop() end
end

return gpu
