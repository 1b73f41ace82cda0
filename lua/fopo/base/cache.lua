-- Objects derived from other objects, kept as long as those live (weak keys).
local native = require "fopo.native"
local define = require "fopo.base.define"
local origin = require "fopo.base.origin"
local cache = {}

local exact_of = setmetatable({}, {__mode = "k"})    -- items -> exact (norm-sorted) index
local contexts_of = setmetatable({}, {__mode = "k"}) -- sessions -> items -> scale -> {x, weights}
local weights_of = setmetatable({}, {__mode = "k"})  -- training sessions -> scale -> weights
local numbers_of = setmetatable({}, {__mode = "k"})  -- object -> key -> number
local version_of = setmetatable({}, {__mode = "k"})  -- index -> version of the items in it

-- An exact index of these items, for the true argmax.
function cache.exact(items)
  if not exact_of[items] then exact_of[items] = native.index_norm(items, {}) end
  return exact_of[items]
end

-- The same if it is there, nil if not.
function cache.known_exact(items) return exact_of[items] end

-- The exact index of a policy's items, brought up to date if the policy has learnt them since.
function cache.exact_of(pi)
  local items = pi:items()
  local known = exact_of[items]
  local ix = cache.exact(items)
  if pi.train_items and known and version_of[ix] ~= pi.version then ix:update() end
  version_of[ix] = pi.version
  return ix
end

-- The weights [1, P] of the items in contexts of this kind, whose training sessions these are; nil
-- if it weighs no items.
function cache.weights(sessions, scale)
  local known = weights_of[sessions] or {}
  weights_of[sessions] = known
  if known[scale] == nil then known[scale] = native.item_weights(sessions, scale) or false end
  return known[scale] or nil
end

local weighs = {}
for _, row in ipairs(native.encoders()) do weighs[row.name] = row.weighs end

-- The same for the sessions that these items were embedded from, or those that are given.
function cache.weights_for(name, items, scale, sessions)
  if not weighs[scale] then return nil end
  sessions = sessions or origin.sessions(items)
  if sessions then return cache.weights(sessions, scale) end
  define.fail('%s: "%s" weighs items by the training users of each, who are not known of these '
              .. 'items; give item_weights = s.train:item_weights("%s")', name, scale, scale)
end

-- The contexts [N, L] of these sessions from the items' rows, as the encoder `scale` makes them
-- with these weights, if it weighs items; with `n` of at most so many sessions, evenly spread. For
-- a policy, cache.contexts(sessions, pi): as it makes them, of its first items.
function cache.contexts(sessions, items, scale, weights, n)
  if not scale then
    items, scale, weights = items:initial_items(), items.contexts, items:item_weights()
  end
  local by_items = contexts_of[sessions] or setmetatable({}, {__mode = "k"})
  contexts_of[sessions] = by_items
  local by_scale = by_items[items] or {}
  by_items[items] = by_scale
  local key = n and ("%s %d"):format(scale, n) or scale
  local known = by_scale[key]
  if not (known and rawequal(known.weights, weights)) then
    local some = n and sessions:gather(n) or sessions
    known = {x = native.contexts(some, items, scale, weights), weights = weights}
    by_scale[key] = known
  end
  return known.x
end

-- f(object, ...), a number that is kept by `key` as long as the object lives.
function cache.number(object, key, f, ...)
  local known = numbers_of[object] or {}
  numbers_of[object] = known
  known[key] = known[key] or f(object, ...)
  return known[key]
end

return cache
