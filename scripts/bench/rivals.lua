-- Sections rivals, threads and start: the default's step against the same algorithm as others would
-- write it, by batches and heads; what threads cost and what other work on the machine costs them;
-- and what is paid before the first step and for validation.
local fopo = require "fopo"
local bench = require "bench"
local world = require "world"
local rivals = {}
local HEAD, WIDE, L = 256, 4096, 100

local function name(head, batch) return ("head %d, B = %d"):format(head, batch) end

-- The cases of by_hand.py.
local BY_HAND = {
  numpy = {{"head_tail", "NumPy by hand, B = 32", 32},
           {"head_tail", "NumPy by hand, B = 512", 512}},
  torch = {{"head_tail", "torch by hand, B = 32", 32},
           {"head_tail", "torch by hand, B = 512", 512},
           {"autograd", "torch with autograd, B = 32", 32},
           {"compiled", "torch.compile, B = 32", 32},
           {"reinforce", "torch's REINFORCE without autograd, B = 32", 32}},
}

local function all_rivals()
  local P, cases, folder = bench.scaled(790000), {}, bench.folder .. "/rivals"
  local sessions = world.sessions(P)
  local items = world.items(P, L, sessions)
  for _, case in ipairs{{HEAD, 32}, {HEAD, 512}, {WIDE, 32}} do
    local g = fopo.gradient.head_tail{head = case[1], tail = 64}
    local trainer = world.trainer(sessions, items, g, nil, nil, case[2])
    cases[#cases + 1] = {name(table.unpack(case)), world.step_of(trainer, nil, bench.cpu)}
  end
  local reinforce = world.trainer(sessions, items,
                                  fopo.gradient.reinforce{samples = 1000, baseline = "mean"})
  cases[#cases + 1] = {"REINFORCE", world.step_of(reinforce, nil, bench.cpu)}
  world.export(folder, items, sessions, sessions.n)
  local workers = {}
  for _, program in ipairs{"numpy", bench.options.torch and "torch" or nil} do
    local worker = bench.python(program, "by_hand.py", folder .. " " .. program)
    if worker then world.add_cases(cases, worker, BY_HAND[program]) end
    workers[#workers + 1] = worker
  end
  bench.run("rm -r " .. folder)
  for _, batch in ipairs{32, 512} do
    local worker = world.gemm(2 * HEAD, L, batch)
    workers[#workers + 1] = worker
    cases[#cases + 1] = {"its two products by BLAS, B = " .. batch,
                         world.step_of_worker(worker, nil, 1)}
  end
  local s = bench.in_turn(cases, bench.options.limit)
  for _, worker in ipairs(workers) do worker:stop() end
  local mine, wide = name(HEAD, 32), name(HEAD, 512)
  for _, rival in ipairs{"NumPy by hand", "torch by hand", "torch.compile",
                         "torch with autograd"} do
    bench.row_of("", s, mine, rival .. ", B = 32", true, rival == "NumPy by hand" and 8 or nil)
    bench.row_of("", s, wide, rival .. ", B = 512", true, rival == "NumPy by hand" and 8 or nil)
  end
  bench.row_of("", s, wide, mine, false)
  for _, batch in ipairs{32, 512} do
    bench.row_of("", s, name(HEAD, batch), "its two products by BLAS, B = " .. batch, false)
  end
  bench.row_of("", s, name(WIDE, 32), mine, false)
  bench.row_of("", s, mine, "REINFORCE", true)
  bench.row_of("", s, "REINFORCE", "torch's REINFORCE without autograd, B = 32", true)
end

function rivals.rivals() bench.with_threads(1, all_rivals) end

-- ---- threads ----

local function busy()
  return bench.line_of("sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $!")
end

-- A measure whose steps are made by so many threads, beside another process or not.
local function by(trainer, threads, time, beside)
  local measure = world.step_of(trainer, nil, time)
  return function(warm)
    fopo.threads(threads)
    local pid = beside and busy()
    local ok, seconds = pcall(measure, warm)
    if pid then os.execute("kill " .. pid) end
    return ok and seconds or error(seconds, 0)
  end
end

function rivals.threads()
  local n = bench.options.threads
  for _, P in ipairs{800, bench.scaled(100000), bench.scaled(790000)} do
    local sessions = world.sessions(P)
    local items = world.items(P, L, sessions)
    local trainer = world.trainer(sessions, items, fopo.gradient.head_tail{})
    local one, some, alone = "one thread", ("%d threads"):format(n), "alone"
    local beside = "beside a process that computes"
    local s = bench.in_turn({{one, by(trainer, 1, bench.cpu)}, {some, by(trainer, n, bench.cpu)},
                             {alone, by(trainer, n)}, {beside, by(trainer, n, nil, true)}},
                            bench.options.limit / 2)
    fopo.threads(n)
    bench.row_of(("P = %d, CPU time: "):format(P), s, some, one, false, 1.3)
    bench.row_of(("P = %d, wall time: "):format(P), s, beside, alone, false, 1.5)
  end
end

-- ---- start ----

-- Seconds of n steps of a trainer.
local function run(trainer, n)
  return (bench.cpu(function() trainer:run{steps = n, view = false} end))
end

local function all_start()
  local rounds = bench.options.rounds
  for _, size in ipairs{{790000, L}, {1e7, 16}} do
    local P = bench.scaled(size[1])
    local data = fopo.data.synthetic{users = 20000, items = P, clusters = 200, seed = 1}:sessions{
      min_items = 20}.train
    local items = world.items(P, size[2])
    local first, later, made, runs = {}, {}, {}, {{}, {}}
    for round = 1, rounds do
      for i = 1, 2 do
        local policy
        local own <close> = items * 1 -- no other policy has made its index
        made[round] = bench.cpu(function()
          policy = fopo.policy.linear{items = own, data = data}
        end)
        local o = {policy = policy, data = data}
        if i == 1 then o.valid = false end
        local t = fopo.trainer(o)
        local five = run(t, 5)
        if i == 1 then first[round] = five end
        runs[i][round] = five + run(t, 600)
        if i == 1 then later[round] = run(t, 5000) / 5000 end
      end
    end
    local function row(what, mine, target, against, other)
      bench.row{what = ("P = %d: %s"):format(P, what), unit = "s", mine = mine,
                against = against or "a later step", other = other or later, target = target}
    end
    row("a policy whose temperature is looked for", made)
    row("the first five steps", first)
    row("605 steps, validated", runs[2], 1.2, "without validation", runs[1])
  end
end

function rivals.start() bench.with_threads(1, all_start) end

return rivals
