-- The arithmetic of gpu_model.lua: for each method the kernels and copies that a step launches, the
-- bytes that it moves, how many of the processors its largest kernel fills, and the time that
-- follows. It is a model of this source, not a measurement.
local work = {}

-- An H100 and an H200, and what is taken of both where nothing has been measured. `guess` holds the
-- constants that decide most times, as {least, taken, most}.
work.cards = {
  H100 = {memory = 2.9e12, cached = 50 << 20},
  H200 = {memory = 4.3e12, cached = 60 << 20},
}
local taken = {
  P = 790000,        -- items
  processors = 132,  -- streaming multiprocessors
  cache = 5.5e12,    -- bytes a second of rows that the L2 cache holds
  float32 = 4.5e13,  -- operations a second of products in float32
  bfloat16 = 5e14,   -- and in bfloat16
  scanned = 0.1,     -- the share of the catalogue that a norm search scans before it may stop
  parts = 1,         -- more: REINFORCE in so many products of bfloat16 in the place of each of
}                    -- float32, over copies of its operands that lie side by side
work.guess = {
  node = {1.2, 1.8, 2.5},         -- us between the ends of two small kernels of a graph
  latency = {0.6, 0.9, 1.2},      -- us of a round of loads, from the id to the row and its sums
  cached_round = {0.45, 0.65, 0.9}, -- us of one of rows in the L2 cache
  barrier = {0.8, 1.2, 2.0}, -- us of a barrier of one block a processor
}

-- The constants of a card. which: 1, 2 or 3 of the guesses; given: what is known better, such as
-- the table that gpu_limits.cu has measured.
function work.constants(card, which, given)
  local o = {}
  for name, value in pairs(taken) do o[name] = value end
  for name, value in pairs(work.cards[card] or {}) do o[name] = value end
  for name, values in pairs(work.guess) do o[name] = values[which or 2] end
  for name, value in pairs(given or {}) do o[name] = value end
  o.rows = o.rows or o.memory -- bytes a second of rows in random places
  return o
end

local S, K, THREADS = 1000, 256, 256

local function ceil_div(a, b) return (a + b - 1) // b end

-- Bytes of the 32-byte sectors that a row of L numbers touches, on average over its places.
local function sectors(L, size)
  local bytes, sum = L * size, 0
  local places = 32 // math.max(1, math.tointeger(2 ^ math.min(5, (function()
    local twos, n = 0, bytes
    while n % 2 == 0 and twos < 5 do twos, n = twos + 1, n // 2 end
    return twos
  end)())))
  for i = 0, places - 1 do sum = sum + ceil_div(i * (32 // places) + bytes, 32) end
  return 32 * sum / places
end

-- ---- a step: a list of work ----

local step = {}
step.__index = step

local function new(B, L, c) return setmetatable({B = B, L = L, c = c, work = {}}, step) end

-- Adds work: launches of it, bytes, operations at `rate`, blocks, and the microseconds that its
-- longest chain of dependent work takes; memory: bytes a second, if not those of a copy.
function step:add(name, launches, bytes, blocks, chain, flops, rate, memory)
  local o = self.c
  local fill = math.min(1, blocks / o.processors)
  local busy = math.max(1e6 * bytes / ((memory or o.memory) * fill), chain or 0,
                        1e6 * (flops or 0) / ((rate or o.float32) * fill))
  table.insert(self.work, {name = name, launches = launches, bytes = bytes, fill = fill,
                           us = launches * o.node + busy})
end

function step:product(name, m, n, k, rate, size)
  self:add(name, 1, (m * k + k * n) * (size or 4) + m * n * 4,
           math.max(1, ceil_div(m, 64) * ceil_div(n, 128)) * math.min(8, ceil_div(k, 256)), 1,
           2 * m * n * k, rate)
end

-- The rate and the round of rows of items in random places: those of the L2 cache if it holds all.
function step:rows(size)
  local o = self.c
  if o.P * self.L * size <= o.cached then return o.cache, o.cached_round end
  return o.rows, o.latency
end

local SMALL = 128 -- contexts of a batch whose products are made without cuBLAS

-- How many blocks share a context, as in src/device/cuda/snis.cu; and how many the card holds.
local function splits_of(o, B, samples, L, held)
  local lanes = L <= 16 and 1 or L <= 32 and 4 or L <= 128 and 8 or 32
  local teams = THREADS // lanes
  held = held or o.processors * (L <= 512 and 2 or 1)
  local fewest = ceil_div(samples, 1024)
  local best, least = fewest, math.huge
  for splits = fewest, 256 do
    if splits > fewest and splits * teams > samples then break end
    local time = ceil_div(B * splits, held) * (ceil_div(samples, splits * teams) + 4)
    if time < least then best, least = splits, time end
  end
  return best, teams, held
end

-- Contexts and queries. The order of an epoch is on the card; the numbers of 32 steps go there by
-- one copy.
function step:start()
  local B, L = self.B, self.L
  self:add("numbers of steps to the card", 1 / 32, 24, 1)
  if B <= SMALL then
    return self:add("contexts and queries", 1, 8 * B * L + ceil_div(B, 8) * 4 * L * L,
                    ceil_div(B, 8) * ceil_div(L, 32), 2 + ceil_div(L, 128) * self.c.latency)
  end
  self:add("gathering rows", 1, 8 * B * L, ceil_div(B * L // 4, THREADS))
  self:product("queries", B, L, L)
end

-- Samples drawn and rewarded, their rows gathered, scored and summed; with `whole` the sums of the
-- contexts and the statistics, too. `ready`: microseconds until the draws can begin.
function step:snis(samples, size, ready, whole)
  local B, L = self.B, self.L
  local o = self.c
  local rate, latency = self:rows(size)
  local splits, teams, held = splits_of(o, B, samples, L)
  local waves = ceil_div(B * splits, held)
  local rounds = waves * ceil_div(samples, splits * teams)
  local finish = whole and 4 + ceil_div(L, THREADS) + B / THREADS or 0
  self:add("the weights of the samples", 1,
           B * samples * sectors(L, size) + B * splits * 2 * L * 4 * (whole and 2 or 1), B * splits,
           rounds * latency + waves * (ready + 3) + finish, nil, nil, rate)
end

-- The gradient, its norm, the update.
function step:finish()
  local B, L = self.B, self.L
  if B <= SMALL then
    self:add("the gradient and its norm", 1, 8 * B * L * ceil_div(L, 32) + 4 * L * L,
             ceil_div(L, 32) ^ 2, 5)
  else
    self:product("the gradient", L, L, B)
    local alone = L * L <= 1 << 14 -- the last sums are one kernel with the norm
    if not alone then self:add("its norm", 1, 4 * L * L, ceil_div(L * L, 1 << 14), 2) end
    self:add("the norm and the sums of a step", 1, 8, 1, alone and 3 or 2)
  end
  self:add("adam", 1, 28 * L * L, ceil_div(L * L, THREADS))
end

-- ---- searches ----

-- The stretches of src/device/cuda/norm_search.cu up to the place where the search stops. If norms
-- were equal, 2 K items of a stretch would pass a query's threshold; as they fall, half as many are
-- taken to; a row that several queries score again comes from the cache, at twice the rate. Between
-- stretches there are two waits and a selection. The kernel's own products are taken to reach half
-- the rate of cuBLAS.
function step:search()
  local o, B, L, at, passed, stretches = self.c, self.B, self.L, 0, 0, 0
  local limit, groups, ld = math.floor(o.scanned * o.P), ceil_div(B, 64), ceil_div(L, 8) * 8
  while at < limit do
    passed, stretches = passed + (at == 0 and 2 * K or K), stretches + 1
    at = at + (at == 0 and 2 * K or 2 * at)
  end
  self:add("clearing counters", 1, 16 * B, 1)
  self:add("queries in bfloat16", 1, 6 * B * L, ceil_div(B, 8))
  local row, again = sectors(L, 4), B * passed
  self:add("scores of all items, and what passes", 1, 2 * limit * ld + math.min(limit, again) * row,
           ceil_div(limit, 128) * groups, 1e6 * again * row / (2 * o.memory),
           2 * limit * 64 * groups * L, o.bfloat16 / 2)
  self:add("its selections", 0, 0, B, stretches * (3 + 6 * math.max(1, B / (2 * o.processors))))
  self:add("the answer", 1, B * K * 16, B, 10)
end

-- ---- methods ----

local methods = {
  {"uniform", function(s) s:snis(S, 4, 2, true) end},
  {"uniform, bfloat16", function(s) s:snis(S, 2, 2, true) end},
  {"mixture, kept", function(s)
    s:add("scores", 1, s.B * K * (sectors(s.L, 4) + 8), ceil_div(s.B * K, 32), 1.5, nil, nil,
          (s:rows(4)))
    s:snis(S, 4, 6, true)
  end},
  {"mixture, fresh", function(s)
    s:search()
    s:snis(S, 4, 6, true)
  end},
  {"head and tail, kept", function(s) s:snis(2 * K, 4, 5, true) end},
}

for _, kind in ipairs{{2048, "float32", 4, 1}, {2048, "bfloat16", 2, 2}, {512, "bfloat16", 2, 2}} do
  methods[#methods + 1] = {("shared head %d + 64, %s"):format(kind[1], kind[2]), function(s)
    local o = s.c
    local H, U, size, parts, rate = kind[1], 64, kind[3], kind[4], o[kind[2]]
    s:snis(U, 4, 2)
    if parts == 2 then s:add("queries in two parts", 1, 8 * s.B * s.L, s.B) end
    s:product("scores of the head", parts * s.B, H, s.L, rate, size)
    local chunks = math.max(1, math.min(ceil_div(4 * o.processors, s.B), H // 256))
    s:add("the weights of a head", 1, parts * s.B * H * (4 + size), s.B * chunks, 2)
    s:add("products of chunks", 1, parts * s.B * H * size + H * s.L * size,
          chunks * ceil_div(parts * s.B, 64) * ceil_div(s.L, 128), 2,
          2 * parts * s.B * H * s.L, rate)
    s:add("the sums of a head", 1, chunks * parts * s.B * s.L * 4, s.B * ceil_div(s.L, THREADS),
          6 + s.B / THREADS)
  end}
end


-- Steps of the one kernel of src/device/cuda/persistent.cu, with two rows of a team on their way,
-- which the step before has asked for. Its chain: the query, a number a thread; the rows; the sums
-- of a block; the last block of a context, which is found by an atomic and reads what others wrote;
-- a barrier; a tile of the gradient; a barrier; theta, by 64 bytes a cycle.
for _, kind in ipairs{{"uniform", S}, {"shared head 512 + 64", 512 + 64}} do
  methods[#methods + 1] = {kind[1] .. ", one kernel", function(s)
    local o, B, L, samples, GHz = s.c, s.B, s.L, kind[2], 1.7
    local round, splits, teams = o.cached_round, splits_of(o, B, samples, L, o.processors)
    local parts = ceil_div(B * splits, o.processors)
    s:add("numbers of steps to the card", 1 / 32, 24, 1)
    s:add("the kernel", 1 / 32, 0, o.processors)
    s:add("queries", 0, 4 * B * L, B * splits, parts * 8 * L / (1000 * GHz))
    s:add("the weights of the samples", 0, B * samples * sectors(L, 4), B * splits,
          parts * ceil_div(ceil_div(samples, splits), 2 * teams) * round, nil, nil, o.cache)
    s:add("the sums of a block", 0, 16 * B * splits * L, B * splits, 1.5 * parts, nil, nil, o.cache)
    s:add("the sums of a context", 0, 8 * B * L, B, 3 * round)
    s:add("two barriers", 0, 0, o.processors, 2 * o.barrier)
    s:add("the gradient, its norm, adam", 0, 0, ceil_div(L, 32) ^ 2,
          2 * round + 5 * 8 * B / (1000 * GHz) + 0.5)
    s:add("the new theta", 0, 0, o.processors, round + 4 * L * L / 64 / (1000 * GHz) + 0.5)
  end, function(L, B) return L > 32 and L <= 128 and B <= SMALL end}
end

for _, mean in ipairs{false, true} do
  methods[#methods + 1] = {mean and "REINFORCE, no baseline" or "REINFORCE", function(s)
    local o, L, left = s.c, s.L, s.B
    local P, most = o.P, math.max(1, (512 << 20) // (o.P * 4))
    -- its products: bytes of a number of its operands, all parts together, and the rate
    local wide, fast = 4, o.float32
    if o.parts > 1 then wide, fast = 2 * o.parts, o.bfloat16 / o.parts end
    while left > 0 do
      local B = math.min(left, most)
      for first = 0, P - 1, 1 << 16 do
        s:product("scores of all items", B, math.min(1 << 16, P - first), L, fast, wide)
      end
      s:add("the weights of the items", 1, 4 * B * P, B * P // 2048, 2)
      s:add("the sums of the policy", 1, B * P // 16, B, 8)
      s:add("draws from the policy", 1, B * S * 1024, ceil_div(B * S, 8), 3)
      if mean then
        s:add("probabilities", 1, 8 * B * P, ceil_div(B * P, THREADS))
        local pieces = ceil_div(P, 4096)
        s:add("products of chunks", 2, wide * (B * P + P * L),
              pieces * ceil_div(B, 64) * ceil_div(L, 128), 2, 2 * B * P * L, fast)
        s:add("the mean of the policy", 1, 4 * pieces * B * L, ceil_div(B * L, THREADS),
              pieces * 0.02)
      end
      left = left - B
    end
    s:add("hits", 1, s.B * S * 8, ceil_div(s.B * S, THREADS), 2.5)
    s:add("rewards less their mean", 1, s.B * S * 8, s.B, 2)
    s:add("the sums of rows", 1, s.B * S * sectors(L, 4), s.B * ceil_div(S, 64), 8 * o.latency)
    s:add("the sums of rows", 1, s.B * ceil_div(S, 64) * L * 4, s.B, 2)
    s:add("adding up statistics", 1, s.B * 16, 1, 2 + s.B / THREADS)
  end}
end

-- ---- the model ----

work.methods = {}
for i, method in ipairs(methods) do work.methods[i] = method[1] end

-- A step of a method: its work, line by line, and its sums. nil if there is no such method, or it
-- makes no steps of this shape.
function work.step(name, L, B, constants)
  for _, method in ipairs(methods) do
    local whole = method[3] -- of which shapes the method is all of a step
    if method[1] == name and (not whole or whole(L, B)) then
      local s = new(B, L, constants)
      if not whole then s:start() end
      method[2](s)
      if not whole then s:finish() end
      s.launches, s.bytes, s.us, s.longest = 0, 0, 0, s.work[1]
      for _, w in ipairs(s.work) do
        s.launches, s.bytes, s.us = s.launches + w.launches, s.bytes + w.bytes, s.us + w.us
        if w.us > s.longest.us then s.longest = w end
      end
      return s
    end
  end
end

return work
