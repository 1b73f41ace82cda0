-- How fopo.policy.neighbours comes to its weights: from a start that is learnt from all training
-- users. Training contexts are scored by weights that do not know their user: of similarities these
-- follow by a formula, of other starts they are learnt once more without a part of the users
-- (cross-fitting).
local native = require "fopo.native"
local array = require "fopo.array"
local baseline = require "fopo.baseline"
local define = require "fopo.base.define"
local origin = require "fopo.base.origin"
local neighbours = {}

local PARTS = 10 -- a tenth of the users is held out at a time
local TOP = 100  -- weights of EASE that an item keeps, but on small catalogues all, with signs
local SIGNED = 4096

-- Of slim as a start. What validation chooses for slim alone may be less, and on large sets that
-- was worse on validation once the scalars were learnt.
local SLIM_L2 = 100

-- What a start's name stands for: a function that learns weights from sessions; l2: as another
-- baseline has chosen it by validation, so that it is chosen once.
neighbours.starts = {
  slim = function(data) return baseline.slim{data = data, l2 = SLIM_L2} end,
  cosine = function(data) return baseline.item_knn{data = data} end,
  jaccard = function(data) return baseline.item_knn{data = data, similarity = "jaccard"} end,
  ease = function(data, l2)
    local P = data.n_items
    return baseline.ease{data = data, top = P <= SIGNED and P or TOP, l2 = l2}
  end,
}

-- The start where none is named: slim solves a system of equations for each item, from the users of
-- 200 others, which takes hours where popular items have 100,000 users.
local LARGE = 100000

function neighbours.standard(data) return data.n_items > LARGE and "cosine" or "slim" end

neighbours.similarities = {cosine = true, jaccard = true} -- without a user by a formula

neighbours.names = {}
for name in pairs(neighbours.starts) do neighbours.names[#neighbours.names + 1] = name end
table.sort(neighbours.names)

local function learner(start)
  if type(start) == "string" then return neighbours.starts[start] end
  if define.kind(start) == "baseline" then return nil, start end
  return function(data)
    local made = start(data)
    if define.kind(made) ~= "baseline" then
      define.fail("fopo.policy.neighbours: start returned %s; it is a function that makes a "
                  .. "baseline of sessions", define.kind(made))
    end
    return made
  end
end

-- The users of a tenth, and how many tenths are held out in turn for `held` contexts or more. Tenth
-- k are the sessions at the places (k - 1) size + 1 .. k size of a random order (sessions_hold).
function neighbours.parts(data, held)
  local size = math.max(1, data.n // PARTS)
  return size, math.min(PARTS, math.max(1, math.ceil(held / size)))
end

-- The weights, and the sessions of `data` that the scalars are learnt on. A baseline that is given
-- has seen all of them, so nothing is held out.
function neighbours.learn(o)
  local data, n = o.data, o.n
  local learn, given = learner(o.start)
  local first = given or learn(data)
  local w, l2 = native.neighbours(first, data, n), first.tried and first.l2 or nil
  if given or o.held == 0 or native.neighbours_leave_out(w, first, data) then return w, data end
  local size, parts = neighbours.parts(data, o.held)
  for _, name in ipairs(o.learn or {}) do
    if name == "weights" then parts = PARTS end -- there are too many of them to learn of a few
  end
  for k = 1, parts do
    local held, others = native.sessions_hold(data, (k - 1) * size, k * size, o.seed)
    native.neighbours_hold(w, learn(others, l2), n, held.n)
  end
  local training = native.sessions_hold(data, 0, parts * size, o.seed)
  local from = origin.of(data)
  origin.set(training, {dataset = from.dataset, split = from.split, held_of = data})
  return w, training
end

-- The dense part of training contexts is scored by items that embed(sessions) makes without the
-- tenth of the users that theirs is one of.
function neighbours.hold_items(w, o, training, embed, contexts, item_weights)
  local data = o.data
  local size, part_of, items, parts = neighbours.parts(data, 0), {}, {}, {}
  for k = 1, math.min(PARTS, data.n) do
    local last = k == PARTS and data.n or k * size
    local held, others = native.sessions_hold(data, (k - 1) * size, last, o.seed)
    local wanted = false
    for n = 1, held.n do part_of[held:user(n)] = k end
    for n = 1, training.n do wanted = wanted or part_of[training:user(n)] == k end
    if not wanted then break end -- training are the first tenths
    items[k] = embed(others)
  end
  for n = 1, training.n do parts[n] = string.char(part_of[training:user(n)] - 1) end
  native.neighbours_dense(w, items, table.concat(parts), contexts, item_weights)
end

-- Items for a policy without a dense part: no dimension says anything.
function neighbours.no_items(data)
  local items = array.zeros(data.n_items, 1)
  origin.set(items, {sessions = data})
  return items
end

return neighbours
