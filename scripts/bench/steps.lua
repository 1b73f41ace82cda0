-- Sections steps, slates and sweep: steps at the paper's scale, fopo's estimators against the
-- gather of their rows, against each other, and against PyTorch with FAISS; slates; and sizes of
-- the catalogue.
local fopo = require "fopo"
local bench = require "bench"
local script = require "script"
local world = require "world"
local steps = {}
local B, S = 32, 1000

-- Faster options of a user: head and tail, with candidates that serve several visits or are
-- searched among the largest norms only, and with rows in half the bytes. scripts/studies/fast.lua
-- measures their reward.
local HEAD = "head and tail 256 + 64"
local FAST = {{tail = 64, budget = 8192}, {tail = 64, budget = 12288}, {tail = 256, refresh = 5},
              {tail = 256, refresh = 20}, {tail = 256, refresh = 20, budget = 2048}}
for _, fast in ipairs(FAST) do
  fast[1] = ("256 + %d%s%s, float16"):format(fast.tail,
    fast.refresh and ", refresh " .. fast.refresh or "",
    fast.budget and ", budget " .. fast.budget or "")
end

-- A head of the largest norms, shared by all contexts, which needs no search; and what a user gets
-- who names neither head nor index.
local MASS, DEFAULT = "mixture, no index named", "head and tail, default"
local BY_HAND, BY_MASS, TAIL = "the same head by hand", "head by mass + 64, bfloat16", 64
local SHARED = {{head = 512, target = 200}, {head = 2048, target = 120},
                {head = 512, rows = "bfloat16", target = 200},
                {head = 2048, rows = "bfloat16", target = 120}}
for _, shared in ipairs(SHARED) do
  shared[1] = ("shared head %d + %d%s"):format(shared.head, TAIL,
                                               shared.rows and ", " .. shared.rows or "")
end

-- The mixture with the fastest index whose candidates hold 0.995 of the mass of the true ones (or
-- 0.99 of these), and what that is.
local AUTO = "mixture, index auto"
local function auto_method(items, sessions)
  local rows = {}
  for i = 1, math.min(256, sessions.n) do rows[i] = (i - 1) * sessions.n // 256 + 1 end
  local policy = fopo.policy.linear{items = items, preset = "paper"}
  local queries = policy:queries(sessions:contexts(items):rows_of(fopo.array.ids(rows)))
  local index = fopo.index.auto(items, {k = 256, queries = queries})
  return {AUTO, script.mixture(index), found_by = index}
end

-- Recall and mass of the candidates of contexts that the index was not chosen by, for the policy as
-- it is now.
local function recall(index, policy, items, sessions)
  local rows = {}
  for i = 1, math.min(200, sessions.n) do rows[i] = i * sessions.n // 200 end
  local x = sessions:contexts(items):rows_of(fopo.array.ids(rows))
  return index:recall(policy:queries(x), 256)
end

local function fast_methods(index, items)
  local function head_tail(tail, refresh, budget)
    local found_by = budget and fopo.index.norm(items, {budget = budget}) or index
    local options = {index = found_by, k = 256, tail = tail, refresh = refresh}
    return fopo.gradient.head_tail(options), found_by
  end
  local list = {{HEAD, (head_tail(64, 1))}}
  if not items then return list end
  list[2] = {"uniform, float16", fopo.gradient.snis{samples = S}, rows = "float16"}
  for _, fast in ipairs(FAST) do
    local gradient, found_by = head_tail(fast.tail, fast.refresh, fast.budget)
    list[#list + 1] = {fast[1], gradient, rows = "float16", refresh = fast.refresh,
                       index = found_by}
  end
  return list
end

-- The head that the default chooses, by a few steps of it.
local function chosen_head(items, sessions)
  local trainer = world.trainer(sessions, items, fopo.gradient.head_tail{})
  trainer:run{steps = 2, view = false}
  local h = trainer.history.head
  return math.tointeger(h[#h])
end

local function shared_methods(items, sessions)
  local by_hand = fopo.gradient.head_tail{head = chosen_head(items, sessions)}
  local list = {{MASS, script.mixture()},
                {DEFAULT, fopo.gradient.head_tail{}}, {BY_HAND, by_hand},
                {BY_MASS, fopo.gradient.head_tail{head = "auto", tail = TAIL}, rows = "bfloat16"}}
  for _, shared in ipairs(SHARED) do
    list[#list + 1] = {shared[1], fopo.gradient.head_tail{head = shared.head, tail = TAIL},
                       rows = shared.rows}
  end
  return list
end

-- The index for the candidates: what was asked for, or norm.
local function index_of(items, queries)
  local kind = bench.options.index
  if kind == "auto" then return fopo.index.auto(items, {k = 256, queries = queries}) end
  return fopo.index[kind](items)
end

-- items: with those that are measured in cycles.
local function methods(index, reinforce, items)
  local list = {{"uniform", fopo.gradient.snis{samples = S}}, {"mixture", script.mixture(index)}}
  for _, method in ipairs(fast_methods(index, items)) do list[#list + 1] = method end
  if reinforce then
    list[#list + 1] = {"REINFORCE", fopo.gradient.reinforce{samples = S, baseline = "mean"}}
  end
  return list
end

-- It reads what the trainers of these sessions draw in their first steps.
local function roofline(P, L, sessions)
  local draws = "-lopenblas -lm"
  for _, name in ipairs{"rng", "threads", "status", "memory", "notice", "plain", "platform"} do
    draws = ("src/core/%s.c %s"):format(name, draws)
  end
  return assert(bench.worker(("%s %d %d %d %d %d %d %d"):format(
    bench.program("roofline.c", draws), P, L, B, S, bench.options.threads, sessions.n, world.seed)))
end

-- Adds PyTorch's cases to the list; its worker, or nil.
local function torch(cases, P, L, items, sessions, names)
  local worker = world.torch(("L = %d: "):format(L), items, sessions, 10000,
                             ("%s-%d-%d"):format(bench.options.data, P, L))
  for _, method in ipairs(worker and names or {}) do
    world.add_cases(cases, worker, {{method, "torch " .. method}})
  end
  return worker
end

-- One dimension: measures, then rows. `others`: with REINFORCE and PyTorch.
local function dimension(P, L, sessions, others)
  local items = world.items(P, L, L <= 200 and sessions or nil)
  local x = sessions:contexts(items):rows_of(fopo.array.ids{1, 2, 3, 4, 5, 6, 7, 8})
  local index = index_of(items, x)
  local gather = roofline(P, L, sessions)
  local cases = {{"roofline", world.step_of_worker(gather, nil, 1)}}
  bench.note("L = %d: roofline %s; %s", L, gather.about, index:describe())
  local trainers, list, searched = {}, methods(index, others, others and items or nil), {}
  list[#list + 1] = auto_method(items, sessions)
  if others then
    local shared = shared_methods(items, sessions)
    table.move(shared, 1, #shared, #list + 1, list)
  end
  for _, method in ipairs(list) do
    local trainer = world.trainer(sessions, items, method[2], method.rows)
    trainers[method[1]] = trainer
    local measure = world.step_of(trainer)
    if method.refresh then
      searched[method[1]] = {}
      measure = world.cycle_of(trainer, method.refresh, method.index, searched[method[1]])
    end
    cases[#cases + 1] = {method[1], measure}
  end
  local blas, python
  if others then
    blas = world.gemm(P, L, B)
    bench.note("L = %d: two products of BLAS, %s", L, blas.about)
    cases[#cases + 1] = {"two GEMMs", world.step_of_worker(blas, nil, 1)}
    python = torch(cases, P, L, items, sessions, {"reinforce", "uniform", "mixture"})
  end
  local s = bench.in_turn(cases, bench.options.limit)
  gather:stop()
  if blas then blas:stop() end
  if python then python:stop() end
  for _, method in ipairs(list) do
    bench.note("L = %d: %s: %s%s", L, method[1], world.phases(trainers[method[1]]),
               world.head(trainers[method[1]]))
    if method.found_by then
      local r = recall(method.found_by, trainers[method[1]].policy, items, sessions)
      bench.note("L = %d: %s: %s; after these steps, of other contexts, recall@256 %.4f, mass %.4f",
                 L, method[1], method.found_by:describe(), r.recall, r.mass)
    end
    if method.refresh then
      bench.note("L = %d: %s: cycles of %d visits of each of %d contexts, %.2f searches a step", L,
                 method[1], method.refresh, sessions.n, bench.median(searched[method[1]]))
    end
  end
  return s
end

local function row(L, s, what, against, faster, target)
  bench.row_of(("L = %d: "):format(L), s, what, against, faster, target)
end

function steps.steps()
  local P = bench.scaled(790000)
  local sessions = world.sessions(P)
  local wide = fopo.isa():find("^avx512") or fopo.isa():find("amx")
  for _, L in ipairs(bench.options.dims) do
    local s = dimension(P, L, sessions, L <= 100)
    row(L, s, "uniform", "roofline", false, 1.5)
    row(L, s, "mixture", "uniform", false, L == 100 and (wide and 3 or 5) or nil)
    for _, by_mass in ipairs{AUTO, MASS} do
      row(L, s, by_mass, "uniform", false, L == 100 and 1.5 or 2)
    end
    row(L, s, "REINFORCE", "two GEMMs", false, 2)
    row(L, s, "uniform", "REINFORCE", true)
    row(L, s, "mixture", "REINFORCE", true)
    row(L, s, "uniform, float16", "uniform", false)
    row(L, s, HEAD, "REINFORCE", true)
    for _, fast in ipairs(FAST) do
      row(L, s, fast[1], "REINFORCE", true, L == 100 and 100 or nil)
      row(L, s, fast[1], "torch mixture", true, 20)
    end
    row(L, s, DEFAULT, "REINFORCE", true)
    row(L, s, DEFAULT, BY_HAND, false, 1.2)
    row(L, s, BY_MASS, "REINFORCE", true)
    for _, shared in ipairs(SHARED) do
      row(L, s, shared[1], "REINFORCE", true, L == 100 and shared.target or nil)
      row(L, s, shared[1], "torch mixture", true, L == 100 and 60 or nil)
    end
    row(L, s, HEAD, "torch mixture", true)
    for _, by_mass in ipairs{DEFAULT, BY_MASS} do
      row(L, s, by_mass, "torch mixture", true, L == 100 and 60 or nil)
    end
    row(L, s, "REINFORCE", "torch reinforce", true)
    row(L, s, "uniform", "torch uniform", true)
    for _, what in ipairs{"mixture", MASS, "uniform"} do
      row(L, s, what, "torch mixture", true)
    end
    collectgarbage()
    collectgarbage()
  end
end

-- A step of slates beside the default's of single items; 100 slates of 10 items.
function steps.slates()
  local P, L = bench.scaled(790000), 100
  local sessions, cases, trainers = world.sessions(P), {}, {}
  local items = world.items(P, L, sessions)
  local function slates(name, options)
    options.k, options.samples = 10, 100
    return fopo.gradient[name](options)
  end
  local list = {{DEFAULT, fopo.gradient.head_tail{}},
                {"slates among 1,024 norms", slates("slate", {sigma = 0.1, head = 1024})},
                {"slates, exact", slates("slate", {sigma = 0.1})},
                {"slates of Plackett and Luce", slates("plackett_luce", {})}}
  for i, method in ipairs(list) do
    trainers[i] = world.trainer(sessions, items, method[2])
    cases[i] = {method[1], world.step_of(trainers[i])}
  end
  local python = torch(cases, P, L, items, sessions, {"plackett_luce"})
  local s = bench.in_turn(cases, bench.options.limit)
  if python then python:stop() end
  for i, method in ipairs(list) do
    local h = trainers[i].history
    bench.note("%s: %s; reward %.4f, head_mass %.3f", method[1], world.phases(trainers[i]),
               h.reward[#h.reward], h.head_mass[#h.head_mass])
  end
  row(L, s, list[2][1], DEFAULT, false, 12)
  row(L, s, list[3][1], DEFAULT, false)
  row(L, s, list[2][1], list[4][1], true)
  row(L, s, list[3][1], list[4][1], true)
  for i = 2, 4 do row(L, s, list[i][1], "torch plackett_luce", true, i == 2 and 30 or nil) end
end

-- All sizes are in memory at once and measured in turn.
function steps.sweep()
  local L, sizes, cases, workers = 16, {}, {}, {}
  for _, P in ipairs{1e4, 1e5, 1e6, 1e7} do
    P = bench.scaled(P)
    if P ~= sizes[#sizes] then sizes[#sizes + 1] = P end
  end
  local function name(method, P) return ("%s, P = %d"):format(method, P) end
  for _, P in ipairs(sizes) do
    bench.say("P = %d", P)
    local sessions, items = world.sessions(P), world.items(P, L)
    workers[P] = roofline(P, L, sessions)
    cases[#cases + 1] = {name("roofline", P), world.step_of_worker(workers[P], nil, 1)}
    local index = index_of(items, sessions:contexts(items):rows_of(fopo.array.ids{1, 2, 3, 4}))
    for _, method in ipairs(methods(index, true)) do
      local trainer = world.trainer(sessions, items, method[2])
      cases[#cases + 1] = {name(method[1], P), world.step_of(trainer)}
    end
  end
  local s = bench.in_turn(cases, bench.options.limit)
  for _, P in ipairs(sizes) do workers[P]:stop() end
  local base, largest = sizes[2] or sizes[1], sizes[#sizes]
  local names = {"roofline", "uniform", "mixture", HEAD, "REINFORCE"}
  for _, method in ipairs(names) do
    for _, P in ipairs(sizes) do
      local what, against = name(method, P), name(method, base)
      if s[what] and P ~= base then
        local target = P == largest and method ~= "REINFORCE" and method ~= "roofline" and 2 or nil
        bench.row{what = what, unit = "s", mine = s[what], against = ("P = %d"):format(base),
                  other = s[against], target = target}
      end
    end
  end
  for _, P in ipairs(sizes) do
    bench.row{what = name("uniform", P), unit = "s", mine = s[name("uniform", P)],
              against = "roofline", other = s[name("roofline", P)]}
  end
end

return steps
