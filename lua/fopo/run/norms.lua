-- How many of the largest norms a run uses where that follows from the policy's mass
-- (src/plan/mass.h), in words; and a softmax that is nearly uniform.
local cache = require "fopo.base.cache"
local define = require "fopo.base.define"
local native = require "fopo.native"
local origin = require "fopo.base.origin"
local text = require "fopo.base.text"

local norms = {}

local LITTLE = 0.1  -- share of the policy below which a head holds little
local UNIFORM = 0.3 -- share of the items, in effect, from which a softmax is nearly uniform
local CONTEXTS = 16 -- that tell how many items there are in effect

-- ", 2,048 norms hold 0.998"; "" if their number does not follow from the mass.
function norms.state(head, held)
  if not text.finite(head) or not text.finite(held) then return "" end
  return (", %s norms hold %.3g"):format(text.count(head), held)
end

-- The last value of a column of a history, or nil.
local function last_of(list) return list and list[#list] end

function norms.of_history(h) return norms.state(last_of(h.head), last_of(h.held)) end

-- The items of a head that all contexts share, if so many norms are used so; nil: they are searched
-- for candidates.
function norms.shared(t, head) return (t.native:uses(head)) end

-- How candidates are found among all items.
local found = {index = "by the index", clusters = "in clusters of the items (fopo.index.clusters)",
               items = "among all items"}

-- Where candidates are not the best of the `head` norms; nil: they are.
function norms.way(t, head)
  local _, way = t.native:uses(head)
  return (head == t.policy.n_items or way == "clusters") and found[way] or nil
end

-- What is made of `head` norms; nil: there is nothing to add.
local function use_of(t, head)
  local P, shared = t.policy.n_items, norms.shared(t, head)
  local why = "because few norms do not hold the mass: the items' norms are too equal, or small "
              .. "where the policy looks"
  if shared and head < P then return "they are the head of all contexts" end
  if shared then
    return ("all items are used, %s: %s are the head of all contexts, the others the tail"):format(
      why, text.count(shared))
  end
  local way = norms.way(t, head)
  if way then return ("candidates are found %s, %s"):format(way, why) end
  if t.gradient.head ~= "auto" then return nil end
  return "candidates are found among them, because all contexts cannot share so many"
end

-- Whether the norms of a record, {step, head, held} or nil, hold little of the policy.
function norms.hold_little(record) return record ~= nil and record.held < LITTLE end

-- What a run should say at its end. first, last: {step, head, held} of two records; t: the trainer.
function norms.sentence(t, first, last)
  if not last then return nil end
  local P, little = t.policy.n_items, norms.hold_little(last)
  local head = math.tointeger(last.head)
  local shared, way = norms.shared(t, head), norms.way(t, head)
  local usual = shared or not way
  if first.head == last.head and usual and not little then return nil end
  local what = use_of(t, head)
  local since = first.head ~= last.head
    and (", %s at step %s"):format(text.count(math.tointeger(first.head)), text.count(first.step))
    or ""
  local hold = head < P and ("; they hold %.3g of the policy's mass%s"):format(last.held,
    little and ", as little as each context's own best candidates do: it is spread over many items"
    or "") or ""
  local used = not shared and way == found.clusters and "would be needed" or "are used"
  return ("%s of the largest norms %s%s%s%s"):format(text.count(head), used, since, hold,
                                                     what and "; " .. what or "")
end

-- ---- a softmax that is nearly uniform ----

-- The median norm of some rows of an array.
local function typical_norm(a)
  local list, n = {}, math.min(a.rows, 1000)
  for i = 1, n do list[i] = a:rows_of{(i - 1) * a.rows // n + 1}:norm() end
  table.sort(list)
  return list[(n + 1) // 2]
end

-- Why a linear policy is uniform: {causes}, {remedies}. The temperature that these embeddings and
-- contexts need is that of 1 % of the items at theta = identity; theta is small beside it.
-- It is kept where these do not change.
local function causes(pi, data)
  local from, remedies = {}, {}
  if pi.kind ~= "linear" or pi.context_dim ~= pi.dim then return from, {"a lower temperature"} end
  local theta, items = pi:theta(), pi:items()
  local x = cache.contexts(data, pi:initial_items(), pi.contexts, pi:item_weights(), CONTEXTS)
  local n = math.max(1.5, 0.01 * pi.n_items)
  local fitting = pi.train_items and native.policy_temperature(x, items, n)
                  or cache.number(x, n, native.policy_temperature, items, n)
  local size = theta:norm() / math.sqrt(pi.dim)
  if pi.temperature > 2 * fitting then
    from[1] = ("the temperature, %.3g: these embeddings, of norms about %.2g, need about %.2g "
                 .. "at theta = identity"):format(pi.temperature, typical_norm(items), fitting)
    remedies[1] = "temperature = \"auto\""
  end
  if size < 0.5 then
    from[#from + 1] = ("theta, whose numbers are small: they are worth %.2g of the identity")
                          :format(size)
    remedies[#remedies + 1] = "theta = \"identity\""
  end
  if #remedies == 0 then remedies[1] = "a lower temperature" end
  return from, remedies
end

-- Whether the policy of t has the defaults of items whose sessions are not known, as of NumPy's.
function norms.unknown(t) return origin.of(t.policy).unknown end

-- A sentence if pi chooses among so many items in effect that its softmax is nearly uniform.
local function is_uniform(pi, n)
  return n and n > UNIFORM * pi.n_items
    and ("the softmax is nearly uniform: in effect it chooses among %s of %s items, so the "
         .. "expected reward is that of chance and hardly learns"):format(
      text.count(math.floor(n + 0.5)), text.count(pi.n_items))
end

-- The same with its cause and the remedy, of a policy with such defaults; else nil.
function norms.began_unknown(pi, n)
  local what = origin.of(pi).unknown and is_uniform(pi, n)
  return what and ("%s: the policy does not know the sessions, of which its temperature, theta, "
                   .. "contexts and mask follow; make it by fopo.policy.%s{items = items, data = "
                   .. "s.train}"):format(what, pi.kind) or nil
end

-- A sentence if the policy of t chooses among nearly all items, or nil. What it learns from are
-- sessions.
function norms.uniform(t)
  local pi, data = t.policy, t.valid or t.data
  if pi.scores_lists or define.kind(data) ~= "sessions" or data.shared or t.valid_contexts then
    return nil
  end
  local some = data:gather(CONTEXTS)
  local x = cache.contexts(some, pi)
  if x.cols ~= pi.context_dim then return nil end
  local n = native.evaluate_expected(pi, x, some, CONTEXTS, pi.seen ~= "keep", nil).effective
  local what = is_uniform(pi, n)
  if not what or norms.unknown(t) then return norms.began_unknown(pi, n) end
  local from, remedies = causes(pi, data)
  return ("%s%s; make the policy with %s"):format(what,
    #from > 0 and "; that comes from " .. table.concat(from, ", and from ") or "",
    table.concat(remedies, " and "))
end

return norms
