-- The data that sections train on: sessions over P items, and item embeddings for them.
local fopo = require "fopo"
local bench = require "bench"
local native = require "fopo.native"
local world = {seed = 1} -- of the trainers

-- Training contexts over P items: about 14,000, or ten times as many where embeddings are learnt
-- from them.
function world.sessions(P)
  local users = bench.options.data == "svd" and bench.scaled(200000) or 20000
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

-- Items, contexts and the Y of the first n sessions as .npy in a folder, for other programs.
function world.export(folder, items, sessions, n)
  n = math.min(n, sessions.n)
  bench.run("mkdir -p " .. folder)
  items:save(folder .. "/items.npy")
  local rows, ids, counts = {}, {}, {}
  for i = 1, n do
    local y = sessions:y(i)
    rows[i], counts[i] = i, y.cols
    for j = 1, y.cols do ids[#ids + 1] = y:get(1, j) end
  end
  sessions:contexts(items):rows_of(rows):save(folder .. "/contexts.npy")
  fopo.array.ids(ids):save(folder .. "/y_ids.npy")
  fopo.array.from(counts):save(folder .. "/y_counts.npy")
end

function world.policy(items, rows)
  return fopo.policy.linear{items = items, preset = "paper", rows = rows}
end

-- A trainer with the paper's settings; rows as in fopo.policy.linear, device and batch as in
-- fopo.trainer (the CPU, 32).
function world.trainer(sessions, items, gradient, rows, device, batch)
  return fopo.trainer{policy = world.policy(items, rows), data = sessions,
                      preset = "paper", gradient = gradient, optim = fopo.optim.adam{lr = 1e-4},
                      valid = false,
                      batch = batch or 32, device = device or "cpu", seed = world.seed}
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
