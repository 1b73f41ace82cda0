-- How many of the largest norms a run uses where that follows from the policy's mass
-- (src/plan/mass.h), in words.
local native = require "fopo.native"
local text = require "fopo.base.text"

local norms = {}

-- ", 2,048 norms hold 0.998"; "" if their number does not follow from the mass.
function norms.state(head, held)
  if not text.finite(head) or not text.finite(held) then return "" end
  return (", %s norms hold %.3f"):format(text.count(head), held)
end

-- The last value of a column of a history, or nil.
local function last_of(list) return list and list[#list] end

function norms.of_history(h) return norms.state(last_of(h.head), last_of(h.held)) end

-- What is made of H norms; nil: there is nothing to add. As fopo_mass_shared and
-- fopo_automatic_index of src/learn have it.
local function use_of(head, P, g)
  local by_mass = g.head == "auto" and math.type(g.tail) ~= nil
  local why = "because fewer norms do not hold the mass"
  if by_mass and math.min(head, P - g.tail) <= 8192 then
    if head < P then return "they are the head of all contexts" end
    return ("all items are used, %s: %s are the head of all contexts, the others the tail"):format(
      why, text.count(P - g.tail))
  end
  if head == P then
    local q = native.gradient_common(g, "proposal")
    return (by_mass and q.index and "candidates are found by the index, "
            or "all items are searched, ") .. why
  end
  return by_mass and "candidates are found among them, because all contexts cannot share so many"
         or nil
end

-- What a run should say at its end. first, last: {step, head, held} of two records; t: the trainer.
function norms.sentence(t, first, last)
  if not last or first.head == last.head then return nil end
  local k = native.gradient_common(t.gradient, "k")
  local head, before = math.tointeger(last.head), math.tointeger(first.head)
  local what = use_of(head, t.policy.n_items, t.gradient)
  return ("%s of the largest norms are used, %s at step %s; they hold %.3f of the mass of each "
          .. "context's own top %s%s"):format(text.count(head), text.count(before),
    text.count(first.step), last.held, text.count(k), what and "; " .. what or "")
end

return norms
