-- What a step costs over many machines: measured on a few, played for many.
--
--   FOPO_THREADS=1 mpirun -n 2 --bind-to none ./fopo scripts/studies/ranks_schedule.lua measure
--   ./fopo scripts/studies/ranks_schedule.lua [quick] [name=value ...]
--
-- Cost: measure some 40 s; playing some seconds.
--
-- `measure` times steps over items that are dealt out, for several batches, heads and tails, fits
-- the costs of the model (below) to the processor's time outside the collective operations, which
-- other work on the machine moves little (FOPO_THREADS=1: no thread then waits for another), and
-- those of the network to fopo.network. It prints them as options of this script, and the model's
-- error on other shapes than the fitted ones.
-- Without it, the schedule of a step is played message by message for `ranks` machines: every rank
-- has its clock, computing takes the model's time and a random share more (jitter), a message costs
-- its sender and its receiver `overhead`, waits for the card, and arrives `latency` later, or a
-- latency drawn from the measured ones (latencies=FILE, a number of microseconds a line, as measure
-- writes to runs/ranks_latencies.txt, taken relative to their median). The table has the played
-- step, its parts on the critical path, and the formula of docs/ranks.md.
--
-- The model of a step of a rank with `threads` (R ranks, batch B, dim L, head H, tail U):
--   compute  fixed + draw B U + row B U L / R + flop 4 B L H / R + flop 4 B L^2    (draw, row: one
--            thread's seconds, shared by the threads)
--   agree    ceil(log2 R) messages of 8 bytes, once
--   sums     B / R (8 L + 40) bytes to each other rank
--   answers  B / R (4 L + 20) bytes and a status of 4 from each to all
-- Options (defaults):
--   items=1e9 dim=128 ranks=64 threads=64 batch=256 head=131072 tail=256 bytes_of_a_number=4
--   gbps=25,400 latency=20,3 overhead=2,0.5 (microseconds, for each of gbps)
--   fixed=, draw=, row=, flop= the measured costs; jitter=0.05 steps=50 seed=1
--   memory=512 GB of one machine, for the comparison with it
--   overlap=no        yes: the next batch is drawn while the sums are under way, as far as a run
--                     could do it: its draws need no theta
local fopo = require "fopo"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local o, words = study.options(
  {items = 1e9, dim = 128, ranks = 64, threads = 64, batch = 256, head = 131072, tail = 256,
   bytes_of_a_number = 4, gbps = {25, 400}, latency = {20, 3}, overhead = {2, 0.5},
   fixed = 18e-6, draw = 5.2e-9, row = 0.45e-9, flop = 0.0112e-9, jitter = 0.05, steps = 50,
   seed = 1, memory = 512, latencies = "", own = 200000,
   overlap = false},
  {steps = 3, ranks = 8, own = 2000})

-- ---- the model ----

-- Seconds in which a rank of R computes its part of a step of shape s.
local function compute(s, R, threads, c)
  return c.fixed + (c.draw * s.batch * s.tail + c.row * s.batch * s.tail * s.dim / R
    + c.flop * 4 * s.batch * s.dim * s.head / R + c.flop * 4 * s.batch * s.dim ^ 2) / threads
end

-- Bytes of a context's sums and answers, and of the status that goes with a rank's answers.
local function bytes_of(s) return 8 * s.dim + 40, 4 * s.dim + 20, 4 end

local function log2(R) return R > 1 and math.ceil(math.log(R, 2) - 1e-9) or 0 end

-- The formula: no jitter, the messages of a rank after one another.
local function formula(s, R, n, c, threads)
  local sums, answers, word = bytes_of(s)
  local per = s.batch / R
  local bytes = (R - 1) * (per * (sums + answers) + word)
  local agree = log2(R) * (n.latency + 2 * n.overhead)
  local exchange = R > 1 and n.latency + 2 * (R - 1) * n.overhead or 0
  local gather = log2(R) * (n.latency + 2 * n.overhead)
  return compute(s, R, threads, c), agree + exchange + gather, bytes / n.bandwidth
end

-- ---- playing ----

local state = 0
local function uniform() -- of the script's own, so that a played schedule is the same anywhere
  state = state * 6364136223846793005 + 1442695040888963407
  return (state >> 11) * 2.0 ^ -53
end

local drawn = {1}
local function latency(n) return n.latency * drawn[1 + math.floor(uniform() * #drawn)] end

-- A world of R ranks: the time of each, and when its card has sent and received what it was given.
local function new_world(R)
  local w = {R = R, clock = {}, out = {}, come = {}, messages = 0, bytes = 0}
  for r = 1, R do w.clock[r], w.out[r], w.come[r] = 0.0, 0.0, 0.0 end
  return w
end

-- A message that is ready when the sender is. Returns when the receiver has it.
local function send(w, n, from, to, bytes)
  local ready = w.clock[from] + n.overhead
  w.clock[from] = ready -- the processor is free again, the card is busy
  local left = math.max(ready, w.out[from]) + bytes / n.bandwidth
  w.out[from] = left
  local there = math.max(left + latency(n), w.come[to] + bytes / n.bandwidth)
  w.come[to] = there
  w.messages, w.bytes = w.messages + 1, w.bytes + bytes
  return there
end

local function take(w, n, to, there)
  w.clock[to] = math.max(w.clock[to], there) + n.overhead
end

-- Rounds in which each rank of a power of two swaps with one, and the others hand over theirs
-- before, and get the answer after.
local function agree(w, n)
  local R, power = w.R, 1
  while power * 2 <= R do power = power * 2 end
  for r = power + 1, R do take(w, n, r - power, send(w, n, r, r - power, 8)) end
  local distance = 1
  while distance < power do
    local there = {}
    for r = 1, power do
      local to = ((r - 1) ~ distance) + 1
      there[to] = send(w, n, r, to, 8)
    end
    for r = 1, power do take(w, n, r, there[r]) end
    distance = distance * 2
  end
  for r = power + 1, R do take(w, n, r, send(w, n, r - power, r, 8)) end
end

-- From each to each, all at once. `meanwhile`: seconds of work between sending and receiving.
local function exchange(w, n, bytes, meanwhile)
  local there = {}
  for r = 1, w.R do there[r] = {} end
  for k = 1, w.R - 1 do
    for r = 1, w.R do
      local to = (r - 1 + k) % w.R + 1
      there[to][#there[to] + 1] = send(w, n, r, to, bytes)
    end
  end
  for r = 1, w.R do
    w.clock[r] = w.clock[r] + meanwhile
    table.sort(there[r])
    for _, t in ipairs(there[r]) do take(w, n, r, t) end
  end
end

-- What a rank has doubles in each round.
local function gather(w, n, bytes)
  local has = 1
  while has < w.R do
    local there, given = {}, math.min(has, w.R - has)
    for r = 1, w.R do
      local to = (r - 1 - has) % w.R + 1
      there[to] = send(w, n, r, to, given * bytes)
    end
    for r = 1, w.R do take(w, n, r, there[r]) end
    has = has * 2
  end
end

local function latest(w) return math.max(table.unpack(w.clock)) end

-- Plays steps; the seconds of one, of its parts, messages and bytes of a rank.
local function play(s, R, n, c, threads, steps)
  local w = new_world(R)
  local sums, answers, word = bytes_of(s)
  local drawing = o.overlap and c.draw * s.batch * s.tail / threads or 0
  local per, parts, before = s.batch / R, {compute = 0, agree = 0, exchange = 0, gather = 0}, 0
  local function part(name, f, ...)
    f(w, n, ...)
    local now = latest(w)
    parts[name] = parts[name] + now - before
    before = now
  end
  for _ = 1, steps do
    part("compute", function()
      local t = compute(s, R, threads, c) - drawing
      for r = 1, R do w.clock[r] = w.clock[r] + t * (1 + o.jitter * -math.log(1 - uniform())) end
    end)
    part("agree", agree)
    part("exchange", exchange, per * sums, drawing)
    part("gather", gather, per * answers + word)
  end
  for name, seconds in pairs(parts) do parts[name] = seconds / steps end
  return latest(w) / steps, parts, w.messages / R / steps, w.bytes / R / steps
end

-- ---- measuring ----

-- x of least squares, rows [n][k]; each row divided by its y, so that errors are relative.
local function solve(rows, y)
  local k, A = #rows[1], {}
  for i = 1, k do
    A[i] = {}
    for j = 1, k + 1 do
      local sum = 0.0
      for r, row in ipairs(rows) do sum = sum + row[i] * (j > k and y[r] or row[j]) / y[r] ^ 2 end
      A[i][j] = sum
    end
  end
  for i = 1, k do -- positive definite: no pivots are needed
    for r = i + 1, k do
      local f = A[r][i] / A[i][i]
      for j = i, k + 1 do A[r][j] = A[r][j] - f * A[i][j] end
    end
  end
  local x = {}
  for i = k, 1, -1 do
    local sum = A[i][k + 1]
    for j = i + 1, k do sum = sum - A[i][j] * x[j] end
    x[i] = sum / A[i][i]
  end
  return x
end

-- The same with x >= 0: a cost that would come out below 0 is too small to be seen, and left out.
local function fit(rows, y)
  local kept = {}
  for j = 1, #rows[1] do kept[j] = j end
  while true do
    local some = {}
    for r, row in ipairs(rows) do
      some[r] = {}
      for i, j in ipairs(kept) do some[r][i] = row[j] end
    end
    local x, worst = solve(some, y), 1
    for i = 2, #x do if x[i] < x[worst] then worst = i end end
    if x[worst] >= 0 then
      local all = {}
      for j = 1, #rows[1] do all[j] = 0.0 end
      for i, j in ipairs(kept) do all[j] = x[i] end
      return all
    end
    table.remove(kept, worst)
  end
end

-- A trainer's step of the shape: seconds, those in collective operations, and the processor's
-- seconds outside them; the least of some rounds each.
local function step(s, sessions, items)
  local pi = fopo.policy.linear{items = items, theta = "identity"}
  local t = fopo.trainer{policy = pi, data = sessions, valid = false, seed = 7, batch = s.batch,
    contexts = fopo.array.randn(sessions.n, s.dim, 6), optim = fopo.optim.sgd{lr = 1e-3},
    gradient = fopo.gradient.head_tail{head = s.head, tail = s.tail}}
  t:run{steps = 5, view = false}
  local best, waited, worked = math.huge, 0.0, math.huge
  for _ = 1, 7 do
    local first, began, busy, n = fopo.ranks(), fopo.clock(), os.clock(), 20
    t:run{steps = n, every = n, view = false}
    local seconds, last = (fopo.clock() - began) / n, fopo.ranks()
    worked = math.min(worked, (os.clock() - busy - (last.cpu_seconds - first.cpu_seconds)) / n)
    if seconds < best then best, waited = seconds, (last.seconds - first.seconds) / n end
  end
  return best, waited, worked
end

local function shapes(list)
  local all = {}
  for _, s in ipairs(list) do
    all[#all + 1] = {dim = s[1], batch = s[2], head = s[3], tail = s[4]}
  end
  return all
end

local FITTED = shapes{{64, 32, 1024, 64}, {64, 32, 8192, 64}, {64, 128, 1024, 64},
  {64, 128, 8192, 64}, {64, 32, 1024, 1024}, {64, 128, 1024, 1024}, {128, 32, 1024, 64},
  {128, 128, 8192, 64}, {128, 32, 1024, 1024}, {128, 128, 4096, 512}}
local OTHERS = shapes{{64, 64, 4096, 256}, {128, 64, 2048, 256}, {128, 64, 16384, 128},
  {64, 64, 2048, 256}, {64, 128, 4096, 256}, {64, 64, 8192, 512}}

local function terms(s, R)
  return {1, s.batch * s.tail, s.batch * s.tail * s.dim / R,
          4 * s.batch * s.dim * (s.head / R + s.dim)}
end

local function measure()
  local R = fopo.ranks().size
  local items = {}
  for _, dim in ipairs{64, 128} do
    items[dim] = fopo.shard(fopo.array.randn(o.own * R, dim, 1):scale(0.05))
  end
  local P = o.own * R
  local name = os.tmpname() .. ".mtx"
  local f = assert(io.open(name, "w"))
  local N = 1000
  f:write(("%%%%MatrixMarket matrix coordinate pattern general\n%d %d %d\n"):format(N, P, 8 * N))
  for n = 1, N do for k = 1, 8 do f:write(n, " ", (n * 7919 + k * 104729) % P + 1, "\n") end end
  f:close()
  local sessions = fopo.data.read(name):sessions{min_items = 4, valid = 0, test = 0, seed = 1}.train
  os.remove(name)
  local rows, y = {}, {}
  for i, s in ipairs(FITTED) do
    rows[i], y[i] = terms(s, R), select(3, step(s, sessions, items[s.dim]))
  end
  local x = fit(rows, y)
  local c = {fixed = x[1], draw = x[2], row = x[3], flop = x[4]}
  local small, large = fopo.network{n = 2000, bytes = 64}, fopo.network{n = 300, bytes = 1 << 20}
  local alpha = small.agree.median / math.max(1, log2(R))
  local bandwidth = (R - 1) * (1 << 20) / large.exchange.median
  print(("threads %d, ranks %d on %s"):format(fopo.threads(), R,
                                               table.concat(fopo.ranks().hosts, " ")))
  print(("fixed=%.3g draw=%.3g row=%.3g flop=%.3g"):format(table.unpack(x)))
  print(("latency=%.3g overhead=0 gbps=%.3g"):format(alpha * 1e6, bandwidth * 8 / 1e9))
  print("dim batch head  tail | measured  in MPI | compute, model | step, formula  (ms)")
  local n = {latency = alpha, overhead = 0, bandwidth = bandwidth}
  for i, list in ipairs{FITTED, OTHERS} do
    for k, s in ipairs(list) do
      local seconds, waited, worked
      if i == 2 then seconds, waited, worked = step(s, sessions, items[s.dim]) end
      local model, messages, wire = formula(s, R, n, c, 1)
      if i == 1 then
        print(("%3d %5d %5d %5d |                  | %6.3f %6.3f  |"):format(s.dim, s.batch, s.head,
          s.tail, y[k] * 1e3, model * 1e3))
      else
        print(("%3d %5d %5d %5d | %6.3f %6.3f    | %6.3f %6.3f  | %6.3f"):format(s.dim, s.batch,
          s.head, s.tail, seconds * 1e3, waited * 1e3, worked * 1e3, model * 1e3,
          (model + messages + wire) * 1e3))
      end
    end
  end
  if fopo.ranks().rank > 0 then return end
  os.execute("mkdir -p runs")
  local out = assert(io.open("runs/ranks_latencies.txt", "w"))
  for _, s in ipairs(small.agree.all) do out:write(("%.2f\n"):format(s * 1e6)) end
  out:close()
end

if words[1] == "measure" then
  measure()
  os.exit(0)
elseif words[1] then
  study.misuse("%s is no command", words[1])
end

-- ---- the prediction ----

if o.latencies ~= "" then
  drawn = {}
  for line in io.lines(o.latencies) do drawn[#drawn + 1] = tonumber(line) end
  table.sort(drawn)
  local median = drawn[(#drawn + 1) // 2]
  for i, us in ipairs(drawn) do drawn[i] = us / median end
end
state = o.seed
local s = {dim = o.dim, batch = o.batch, head = o.head, tail = o.tail}
local held = o.items * (o.dim * o.bytes_of_a_number + 10) / 1e9
print(("%.3g items x %d: %.0f GB, %.1f GB on each of %d machines with %d threads"):format(o.items,
  o.dim, held, held / o.ranks, o.ranks, o.threads))
print(("a step of %d contexts, head %d, tail %d"):format(o.batch, o.head, o.tail))
local single = compute(s, 1, o.threads, o)
print(("one machine, if it holds them%s: %.3f ms"):format(held > o.memory
  and (" (%d GB do not)"):format(o.memory) or "", single * 1e3))
print("Gb/s ranks |  step ms  compute   agree  exchange  gather | formula | speedup  bytes  "
      .. "messages")
for i, gbps in ipairs(o.gbps) do
  local n = {bandwidth = gbps * 1e9 / 8, latency = (o.latency[i] or o.latency[1]) * 1e-6,
             overhead = (o.overhead[i] or o.overhead[1]) * 1e-6}
  local R = 2
  while R <= o.ranks do
    local seconds, p, messages, bytes = play(s, R, n, o, o.threads, o.steps)
    local c, m, wire = formula(s, R, n, o, o.threads)
    print(("%4g %5d | %8.3f %8.3f %8.3f %8.3f %8.3f | %7.3f | %6.1f %7.0f %6.1f"):format(gbps, R,
      seconds * 1e3, p.compute * 1e3, p.agree * 1e3, p.exchange * 1e3, p.gather * 1e3,
      (c + m + wire) * 1e3, single / seconds, bytes, messages))
    R = R * 2
  end
end
