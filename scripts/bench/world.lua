-- The data that sections train on: sessions over P items, and item embeddings for them.
local fopo = require "fopo"
local bench = require "bench"
local native = require "fopo.native"
local script = require "script"
local world = {seed = 1} -- of the trainers

-- Training contexts over P items: about 14,000, or ten times as many where embeddings are learnt
-- from them.
function world.sessions(P)
  local users = bench.scaled(bench.options.data == "svd" and 200000 or 20000)
  local d = fopo.data.synthetic{users = users, items = P, clusters = math.min(200, P // 10),
                                seed = 1}
  return d:sessions{min_items = 20, valid = 0, test = 0, seed = 1}.train
end

-- Embeddings made to look like those of an SVD, or (data=svd) the SVD of the sessions.
function world.items(P, L, sessions)
  if bench.options.data == "svd" and sessions then
    return (fopo.embed.svd(sessions, {dim = L, power_iterations = 2}))
  end
  local path = bench.items_file(P, L)
  local items = fopo.array.load(path)
  bench.forget(path)
  return items
end

-- The items of X or Y, as `which` says, of the first n sessions in two files, for other programs.
function world.export_lists(path, sessions, which, n)
  local ids, counts = {}, {}
  for i = 1, n do
    local row = sessions[which](sessions, i)
    counts[i] = row.cols
    for j = 1, row.cols do ids[#ids + 1] = row:get(1, j) end
  end
  fopo.array.ids(ids):save(path .. "_ids.npy")
  fopo.array.from(counts):save(path .. "_counts.npy")
end

-- Items, contexts and the Y of the first n sessions as .npy in a folder.
function world.export(folder, items, sessions, n)
  n = math.min(n, sessions.n)
  bench.run("mkdir -p " .. folder)
  items:save(folder .. "/items.npy")
  sessions:contexts(items):slice(1, n):save(folder .. "/contexts.npy")
  world.export_lists(folder .. "/y", sessions, "y", n)
end

-- The worker of torch_baseline.py, or nil and a note. graph: in the name of FAISS's file; nil: it
-- works on the card.
function world.torch(title, items, sessions, n, graph)
  local o, folder = bench.options, bench.folder .. "/torch"
  if not o.torch then return nil end
  world.export(folder, items, sessions, n)
  local where = "cuda " .. o.samples
  if graph then
    where = ("%d %s/graph-%s.faiss %g"):format(o.threads, bench.folder, graph, o.graph_limit)
  end
  local worker = bench.python(title .. "PyTorch", "torch_baseline.py", folder .. " " .. where)
  bench.forget(folder .. "/items.npy")
  return worker
end

-- Adds the cases of a worker to a list: {method, name, batch} of each; what it lacks is noted.
function world.add_cases(cases, worker, list)
  for _, case in ipairs(list) do
    local method, name, batch = table.unpack(case)
    local seconds, answer = bench.time(function()
      return worker:ask(("%s 1 %d"):format(method, batch or 32))
    end)
    bench.say("%s: ready in %.0f s", name, seconds)
    if answer[2] == "absent" then
      bench.note("%s skipped: %s", name, answer[3])
    else
      cases[#cases + 1] = {name, world.step_of_worker(worker, method, 3, batch)}
    end
  end
end

-- The worker of the two products of a REINFORCE step over P items.
function world.gemm(P, L, B)
  return assert(bench.worker(("%s %d %d %d %d"):format(bench.program("gemm.c", "-lopenblas"), P, L,
                                                       B, bench.options.threads)))
end

-- A trainer with the paper's settings; rows as in fopo.policy.linear, device and batch as in
-- fopo.trainer (the CPU, 32).
function world.trainer(sessions, items, gradient, rows, device, batch)
  return script.trainer(items, sessions, gradient, {rows = rows, device = device, batch = batch,
                                                    lr = 1e-4, seed = world.seed})
end

-- A measure for bench.in_turn: seconds a step over about half a second of steps, without what the
-- run of a single step takes, whose record costs as much as a thousand of the fast ones. time:
-- bench.time, or bench.cpu.
function world.step_of(trainer, most, time)
  local function run(n)
    return ((time or bench.time)(function() trainer:run{steps = n, every = n, view = false} end))
  end
  local n = 32
  return function(warm)
    if warm then run(1) end
    local one = run(1)
    local seconds = math.max(run(n + 1) - one, 0) / n
    if warm then n = bench.fill(bench.options.sample, seconds, most) end
    return seconds
  end
end

-- The same where candidates serve `refresh` visits: whole cycles, in which every context is visited
-- that often and searched once. The searches a step are added to `searched`.
function world.cycle_of(trainer, refresh, index, searched)
  local n = refresh * trainer.steps_per_epoch
  return function(warm)
    local before, steps = index:about().queries, warm and 3 or n
    local seconds = bench.time(function()
      trainer:run{steps = steps, every = steps, view = false}
    end)
    if not warm then searched[#searched + 1] = (index:about().queries - before) / steps end
    return seconds / steps
  end
end

-- The same for a program that is asked "[method] steps [batch]" and answers with the seconds a step
-- at place `at` of its line.
function world.step_of_worker(worker, method, at, batch)
  local n = 1
  local function ask(steps)
    local answer = worker:ask((method and method .. " " or "") .. steps
                              .. (batch and " " .. batch or ""))
    if answer[2] == "absent" then error("absent: " .. answer[3], 0) end
    return answer[at]
  end
  return function(warm)
    if warm then ask(1) n = bench.fill(bench.options.sample, ask(1)) end
    return ask(n)
  end
end

-- ", 2048 of the largest norms, which hold 0.9981" of a trainer that follows the mass; else "".
function world.head(trainer)
  local h = trainer.history
  local last = #h.step
  if h.head[last] ~= h.head[last] then return "" end
  return (", %d of the largest norms, which hold %.4f"):format(h.head[last], h.held[last])
end

-- Where the time of the last record went, as "search 61 %, gradient 30 %".
function world.phases(trainer)
  local h, parts, sum = trainer.history, {}, 0
  local last = #h.step
  for _, phase in ipairs(native.phases()) do sum = sum + h[phase.column][last] end
  for _, phase in ipairs(native.phases()) do
    local share = h[phase.column][last] / sum
    if share >= 0.005 then
      parts[#parts + 1] = ("%s %.0f %%"):format(phase.name, 100 * share)
    end
  end
  return table.concat(parts, ", ")
end

return world
