-- Objects derived from other objects, kept as long as those live (weak keys).
local native = require "fopo.native"
local cache = {}

local exact_of = setmetatable({}, {__mode = "k"})    -- items -> exact (norm-sorted) index
local contexts_of = setmetatable({}, {__mode = "k"}) -- sessions -> items -> scale -> contexts
local numbers_of = setmetatable({}, {__mode = "k"})  -- object -> key -> number
local version_of = setmetatable({}, {__mode = "k"})  -- index -> version of the items in it

-- An exact index of these items, for the true argmax.
function cache.exact(items)
  if not exact_of[items] then exact_of[items] = native.index_norm(items, {}) end
  return exact_of[items]
end

-- The exact index of a policy's items, brought up to date if the policy has learnt them since.
function cache.exact_of(pi)
  local items = pi:items()
  local known = exact_of[items]
  local ix = cache.exact(items)
  if pi.train_items and known and version_of[ix] ~= pi.version then ix:update() end
  version_of[ix] = pi.version
  return ix
end

-- The contexts [N, L] of these sessions: means of the items' rows, as they are or of unit length;
-- with `n` of at most so many sessions, evenly spread. For a policy, cache.contexts(sessions, pi):
-- of its first items, as pi.contexts says.
function cache.contexts(sessions, items, scale, n)
  if not scale then items, scale = items:initial_items(), items.contexts end
  local by_items = contexts_of[sessions] or setmetatable({}, {__mode = "k"})
  contexts_of[sessions] = by_items
  local by_scale = by_items[items] or {}
  by_items[items] = by_scale
  local key = n and ("%s %d"):format(scale, n) or scale
  if not by_scale[key] then
    local some = n and sessions:gather(n) or sessions
    by_scale[key] = some:contexts(items, {scale = scale})
  end
  return by_scale[key]
end

-- f(object, ...), a number that is kept by `key` as long as the object lives.
function cache.number(object, key, f, ...)
  local known = numbers_of[object] or {}
  numbers_of[object] = known
  known[key] = known[key] or f(object, ...)
  return known[key]
end

return cache
