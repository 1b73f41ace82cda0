-- The difference of two rewards with its 95 % interval. Evaluations on the same sessions are
-- paired: what is easy or hard in a context is so for both, and their difference is known better
-- than each of them.
local native = require "fopo.native"
local proportion = require "fopo.base.proportion"
local paired = {}

local known = setmetatable({}, {__mode = "k"}) -- evaluation -> {sessions, hits}

-- Keeps which contexts had a hit, from the lists ids [N, k] of the evaluation e.
function paired.remember(e, ids, sessions)
  known[e] = {sessions = sessions, hits = native.first_hits(ids, sessions)}
end

-- low, high of e.reward - other.reward; nil if one of them was not measured on contexts.
function paired.difference(e, other)
  local a, b = known[e], known[other]
  if a and b and a.sessions == b.sessions then return native.paired(a.hits, b.hits) end
  if not (e.contexts and other.contexts) then return nil end
  return proportion.difference(e.reward, e.contexts, other.reward, other.contexts)
end

return paired
