-- The difference of two rewards with its 95 % interval. Evaluations on the same sessions are
-- paired: what is easy or hard in a context is so for both, and their difference is known better
-- than each of them.
local native = require "fopo.native"
local define = require "fopo.base.define"
local proportion = require "fopo.base.proportion"
local paired = {}

-- evaluation -> {sessions, hits, k, ndcg [1, N] of the first k}; earned in the place of hits where
-- these differ in value
local known = setmetatable({}, {__mode = "k"})

-- Keeps which contexts had a hit, from the lists ids [N, k] of the evaluation e; with a reward that
-- has values what they earned.
function paired.remember(e, ids, sessions, reward)
  local _, ndcg = native.measure_each(ids, sessions, ids.cols, reward)
  local kept = {sessions = sessions, k = ids.cols, ndcg = ndcg}
  if reward and reward.valued then
    kept.earned, kept.reward = native.first_values(ids, sessions, reward), reward
  else
    kept.hits = native.first_values(ids, sessions)
  end
  known[e] = kept
end

-- The reward by whose values e was measured, or nil.
function paired.reward(e) return known[e] and known[e].reward end

-- low, high of e.reward - other.reward; nil if one of them was not measured on contexts.
function paired.difference(e, other)
  local a, b = known[e], known[other]
  if a and b and not a.hits ~= not b.hits then
    define.fail("one evaluation is by value and the other one is not, so their rewards cannot be "
                .. "compared; give both the same reward")
  end
  if a and b and a.sessions == b.sessions then
    if a.earned then return native.paired_values(a.earned, b.earned) end
    return native.paired(a.hits, b.hits)
  end
  if not (e.contexts and other.contexts) then return nil end
  if e.valued then return proportion.difference_of_means(e, other) end
  return proportion.difference(e.reward, e.contexts, other.reward, other.contexts)
end

-- low, high of the difference in NDCG of the first k; nil unless both were measured at k, on the
-- same sessions.
function paired.of_lists(e, other, k)
  local a, b = known[e], known[other]
  if not (a and b) or a.sessions ~= b.sessions or a.k ~= k or b.k ~= k then return nil end
  return native.paired_values(a.ndcg, b.ndcg)
end

return paired
