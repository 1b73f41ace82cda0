-- Would a fresh search on a GPU end sooner if it began with a threshold? One that costs little is
-- the least score, under the policy of now, of the candidates that a context had an epoch ago: the
-- K-th score of now is at least that. Counts the tiles of 128 items that norm_search.cu of
-- src/device/cuda scores for a batch before it may stop, in its stretches: cold, with that
-- threshold, and with the true K-th score from the start, than which none is better.
--
--   ./fopo scripts/bench/gpu_floor.lua [name=value ...]
--
-- Options (defaults):
--   fraction=0.05   of a twin of Twitch: 39,500 items
--   dim=100         L
--   k=256           candidates of a context
--   steps=1000      of training, before the epoch
--   batch=32 batches=16
-- Cost: half a minute. Quick: fraction=0.01 dim=20 k=64 steps=100 batches=4
local fopo = require "fopo"
local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "../tools/?.lua;" .. package.path
local script = require "script"
local o = script.options({fraction = 0.05, dim = 100, k = 256, steps = 1000, batch = 32,
                          batches = 16},
                         {fraction = 0.01, dim = 20, k = 64, steps = 100, batches = 4})
local TILE, FIRST, CAPACITY = 128, 512, 4096

local split = fopo.data.synthetic{like = "twitch", fraction = o.fraction, seed = 3}:sessions{
  min_items = 10, valid = 0, test = 0.1, seed = 5}
local items = fopo.embed.svd(split.train, {dim = o.dim})
local P, n = items.rows, o.batch * o.batches
local pi = fopo.policy.linear{items = items, preset = "paper", seed = 1}
local rows = {}
for i = 1, n do rows[i] = i * 7919 % split.train.n + 1 end
local x = split.train:contexts(items, {scale = pi.contexts}):rows_of(fopo.array.ids(rows))
local trainer = fopo.trainer{policy = pi, data = split.train, preset = "paper", valid = false,
                             seed = 1, optim = fopo.optim.adam{lr = 0.01}}

-- The places where stretches end, as cut_stretches of norm_search.cu has them.
local function ends_of_stretches()
  local ends, at = {}, 0
  while at < P do
    local width = math.max(2 * o.k, FIRST)
    if at > 0 then
      local most = math.max(TILE, at * (CAPACITY - o.k) // (2 * o.k))
      width = (math.min(2 * at, most) + TILE - 1) // TILE * TILE
    end
    at = math.min(P, at + width)
    ends[#ends + 1] = at
  end
  return ends
end

local function dot(a, i, b, j)
  local sum = 0
  for l = 1, o.dim do sum = sum + a:get(i, l) * b:get(j, l) end
  return sum
end

-- The K-th score of each query among the first `limit` norms.
local function kth_scores(Q, limit)
  local ix <close> = fopo.index.norm(items, limit < P and {budget = limit} or {})
  local _, scores = ix:search(Q, o.k)
  local list = {}
  for b = 1, n do list[b] = scores:get(b, o.k) end
  return list
end

local function norms_descending()
  local list = {}
  for a = 1, P do list[a] = math.sqrt(dot(items, a, items, a)) end
  table.sort(list, function(u, v) return u > v end)
  return list
end

trainer:run{steps = o.steps, every = o.steps, view = false}
local exact <close> = fopo.index.norm(items)
local old = exact:search(pi:queries(x), o.k)
trainer:run{steps = trainer.steps_per_epoch, every = trainer.steps_per_epoch, view = false}
local Q, norms, ends = pi:queries(x), norms_descending(), ends_of_stretches()

local length, known, floor = {}, {}, {}
for b = 1, n do
  length[b], floor[b] = math.sqrt(dot(Q, b, Q, b)), math.huge
  for j = 1, o.k do floor[b] = math.min(floor[b], dot(Q, b, items, old:get(b, j))) end
end
for i, last in ipairs(ends) do known[i] = kth_scores(Q, last) end

-- The tiles that a batch scores before every query is done; start: thresholds before the first.
local function tiles(first, start)
  local count = 0
  for i, last in ipairs(ends) do
    for at = i > 1 and ends[i - 1] or 0, last - 1, TILE do
      local needs = false
      for b = first, first + o.batch - 1 do
        local before = i > 1 and known[i - 1][b] or -math.huge
        needs = needs or length[b] * norms[at + 1] >= math.max(before, start[b] or -math.huge)
      end
      if not needs then return count end
      count = count + 1
    end
  end
  return count
end

print(("%d items, L = %d, K = %d, %d batches of %d, %d steps after %d: a catalogue of %d tiles")
      :format(P, o.dim, o.k, o.batches, o.batch, trainer.steps_per_epoch, o.steps,
              (P + TILE - 1) // TILE))
for _, kind in ipairs{{"cold", {}}, {"from the old candidates", floor},
                      {"from the true K-th score", known[#ends]}} do
  local sum = 0
  for first = 1, n, o.batch do sum = sum + tiles(first, kind[2]) end
  print(("%-26s %8.1f tiles a batch"):format(kind[1], sum / o.batches))
end
