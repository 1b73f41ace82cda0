-- How fopo.policy.neighbours comes to its weights: from a start that is learnt from all training
-- users. Training contexts are scored by weights that do not know their user: of similarities and
-- of all weights of EASE these follow by a formula, of other starts they are learnt once more
-- without a part of the users (cross-fitting). By these contexts the start is chosen, before its
-- scalars are learnt.
local native = require "fopo.native"
local array = require "fopo.array"
local baseline = require "fopo.baseline"
local cache = require "fopo.base.cache"
local define = require "fopo.base.define"
local origin = require "fopo.base.origin"
local neighbours = {}

local PARTS = 10 -- a tenth of the users is held out at a time
local TOP = 100  -- weights of EASE that an item keeps, but on small catalogues all, with signs:
local SIGNED = 10000 -- 0.8 GB of them

-- What a start is chosen from, by training users that it was learnt without: the l2 of slim and
-- c0, of which the first ones are taken unless others are better by more than chance, then tau. As
-- many tenths as hold SURE users choose l2, MOST at most.
local L2, C0 = {100, 10, 30, 300, 1000}, {0, -0.2, -0.4, -0.6}
local TAU = {125, 250, 500, 1000, 2000, 4000, 8000, 16000}
local SURE, MOST = 500, 4
local SHARP = 0.98 -- of the largest expected reward; sharper ones have less to learn from
local K = 20       -- of NDCG
local DRAWS = 4    -- of X and Y of each user, ..
local APART = 2000 -- .. those of epochs that no training comes to

-- What a start's name stands for: a function that learns weights from sessions; l2: as another
-- baseline has chosen it by validation, so that it is chosen once.
neighbours.starts = {
  slim = function(data, l2) return baseline.slim{data = data, l2 = l2 or L2[1]} end,
  cosine = function(data) return baseline.item_knn{data = data} end,
  jaccard = function(data) return baseline.item_knn{data = data, similarity = "jaccard"} end,
  ease = function(data, l2) return baseline.ease{data = data, l2 = l2} end,
}

-- The start where none is named: slim solves a system of equations for each item, from the users of
-- 200 others, which takes hours where popular items have 100,000 users.
local LARGE = 100000

function neighbours.standard(data) return data.n_items > LARGE and "cosine" or "slim" end

local exact = {cosine = true, jaccard = true}

-- Whether a start is without a user by a formula, so that it is learnt once. The largest weights of
-- EASE are not: which they are depends on the user, too.
local function is_exact(kind, n_items)
  return exact[kind] or kind == "ease" and n_items <= SIGNED
end

-- How many weights an item of a start has, about.
function neighbours.weights(kind, n_items)
  return kind == "ease" and n_items <= SIGNED and n_items or math.min(200, n_items)
end

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

-- How often learning once a start costs with `parts` tenths held out. All l2 of slim cost about
-- twice as much as one of them.
function neighbours.times(kind, n_items, parts)
  if is_exact(kind, n_items) then return 1 end
  return 1 + parts + (kind == "slim" and math.min(parts, MOST) or 0)
end

-- The users of a tenth, and how many tenths are held out in turn for `held` contexts or more. Tenth
-- k are the sessions at the places (k - 1) size + 1 .. k size of a random order (sessions_hold).
function neighbours.parts(data, held)
  local size = math.max(1, data.n // PARTS)
  return size, math.min(PARTS, math.max(1, math.ceil(held / size)))
end

-- The fewest sessions that are left by a part: the last part has what tenths leave, too.
function neighbours.fewest(data)
  return data.n < PARTS and math.max(1, data.n - 1) or (PARTS - 1) * (data.n // PARTS)
end

-- ---- what a start is chosen by ----

-- A policy of the weights w.
local function scorer(w, o)
  return native.policy_neighbours{neighbours = w, items = neighbours.no_items(o.data),
    contexts = "mean", temperature = 1, tau = 1, dense_start = 0, value_start = o.value and 1 or 0,
    train_items = false, seed = 1}
end

-- The sessions, and if X and Y are a matter of chance draws 2 .. n of them, those of the epochs
-- from `apart` on, which no training comes to.
function neighbours.draws(sessions, n, seed, apart)
  local list = {sessions}
  for i = 2, sessions.at_random and n or 1 do
    list[i] = native.sessions_redraw(sessions, seed, apart + i)
  end
  return list
end

-- Appends the reward and NDCG@20 of each session by pi, means over the draws, to each.reward and
-- each.ndcg. rows: which training contexts of pi the sessions are; nil: new ones.
function neighbours.measure(each, pi, draws, reward, rows)
  local k, sums = math.min(K, pi.n_items), nil
  for _, sessions in ipairs(draws) do
    local x = cache.contexts(sessions, pi)
    local ids = native.recommend(pi, x, cache.exact_of(pi), k,
                                 {seen = sessions, training = rows, may_be_short = true})
    local found = {native.measure_each(ids, sessions, k, reward)}
    for i = 1, sums and 2 or 0 do sums[i]:add(found[i]) end
    sums = sums or found
  end
  for i, name in ipairs{"reward", "ndcg"} do
    local list = sums[i]:scale(1 / #draws):totable()[1]
    table.move(list, 1, #list, #each[name] + 1, each[name])
  end
end

-- Of the weights w by the l2 at a place, with each c0: the measures of each session are added to
-- those in `tried`.
local function judge(tried, place, w, o, draws, rows)
  local pi = scorer(w, o)
  local theta = pi:parameters()
  for i, c0 in ipairs(C0) do
    local at = (place - 1) * #C0 + i
    local one = tried[at] or {place = place, c0 = c0, each = {reward = {}, ndcg = {}}}
    tried[at] = one
    theta.c0:set(1, 1, c0)
    pi:set_parameters(theta)
    neighbours.measure(one.each, pi, draws, o.reward, rows)
  end
end

-- Of rows {reward =, ndcg =, each = {reward =, ndcg =}}, means and arrays over the same contexts:
-- of those whose reward is not below the largest by more than chance that of the largest NDCG,
-- which tells smaller differences; of equal ones the first.
function neighbours.best_of(rows)
  local best, chosen = rows[1], nil
  for _, row in ipairs(rows) do
    if row.reward > best.reward then best = row end
  end
  for _, row in ipairs(rows) do
    local _, high = native.paired_values(row.each.reward, best.each.reward)
    if (row == best or high >= 0) and not (chosen and row.ndcg <= chosen.ndcg) then chosen = row end
  end
  return chosen
end

-- The best of what was tried; the first unless reward or NDCG are larger by more than chance.
local function choose(tried)
  for _, one in ipairs(tried) do
    for name, list in pairs(one.each) do
      one.each[name] = array.from{list}
      one[name] = one.each[name]:mean()
    end
  end
  local first, best = tried[1], neighbours.best_of(tried)
  for name, each in pairs(best.each) do
    if best ~= first and native.paired_values(each, first.each[name]) > 0 then return best end
  end
  return first
end

-- The smallest tau whose expected reward, of these rows of training, is nearly the largest.
local function choose_tau(w, c0, o, training, rows)
  local pi, sparse = scorer(w, o), require("fopo.gradient").sparse{}
  local theta, most, found = pi:parameters(), 0.0, {}
  local reward = native.reward_hits(training, o.reward)
  theta.c0:set(1, 1, c0)
  for i, tau in ipairs(TAU) do
    theta.log_tau:set(1, 1, math.log(tau))
    pi:set_parameters(theta)
    local _, stats = sparse:compute(pi, training, rows, reward)
    found[i], most = stats.reward, math.max(most, stats.reward)
  end
  for i, tau in ipairs(TAU) do
    if found[i] >= SHARP * most then return tau end
  end
end

-- Which of the training contexts the users of the sessions have.
function neighbours.rows_of(training, sessions)
  local row_of, rows = {}, {}
  for n = 1, training.n do row_of[training:user(n)] = n end
  for n = 1, sessions.n do rows[n] = row_of[sessions:user(n)] end
  return rows
end

-- The weights, the sessions of `data` that the scalars are learnt on, and the first of these: {c0,
-- tau}. A baseline that is given has seen all of them, so nothing is held out.
function neighbours.learn(o)
  local data, n = o.data, o.n
  local learn, given = learner(o.start)
  local size, parts = neighbours.parts(data, o.held)
  local tried, each, chosen = {}, {}, nil
  if o.start == "ease" then
    local top = data.n_items <= SIGNED and data.n_items or TOP
    n = n > 0 and math.min(n, top) or top
  end
  local function weights(b)
    local w = native.neighbours(b, data, n)
    if o.value then native.neighbours_value(w, o.value) end
    return w
  end
  for _, name in ipairs(o.learn or {}) do
    if name == "weights" then parts = PARTS end -- there are too many of them to learn of a few
  end
  if o.start == "slim" and o.held > 0 then
    for k = 1, math.min(parts, MOST, math.ceil(SURE / size)) do
      local held, others = native.sessions_hold(data, (k - 1) * size, k * size, o.seed)
      each[k] = native.baseline_each("slim", others, {m = 200, l2 = L2[1]}, L2)
      local draws = neighbours.draws(held, DRAWS, o.seed, APART)
      for place, b in ipairs(each[k]) do judge(tried, place, weights(b), o, draws) end
    end
    chosen = choose(tried)
  end
  local first = given or learn(data, chosen and L2[chosen.place])
  local w, training = weights(first), data
  if given or o.held == 0 then return w, data, {} end
  if not native.neighbours_leave_out(w, first, data) then
    for k = 1, parts do
      local held, others = native.sessions_hold(data, (k - 1) * size, k * size, o.seed)
      local b = each[k] and each[k][chosen.place] or learn(others, first.l2)
      native.neighbours_hold(w, b, n, held.n)
    end
    training = native.sessions_hold(data, 0, parts * size, o.seed)
    local from = origin.of(data)
    origin.set(training, {dataset = from.dataset, split = from.split, held_of = data})
  end
  if o.from then return w, training, {} end
  local some = training:gather(math.min(math.max(o.held, size), training.n))
  local rows = neighbours.rows_of(training, some)
  if not chosen then
    judge(tried, 1, w, o, neighbours.draws(some, DRAWS, o.seed, APART), rows)
    chosen = choose(tried)
  end
  return w, training, {c0 = chosen.c0, tau = choose_tau(w, chosen.c0, o, training, rows)}
end

-- The dense part of training contexts is scored by items that embed(sessions) makes without the
-- tenth of the users that theirs is one of, of `dim` numbers, as those of all users are.
function neighbours.hold_items(w, o, training, embed, dim, contexts, item_weights)
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
    if items[k].cols ~= dim then
      define.fail("fopo.policy.neighbours: items returned %d numbers an item of all sessions and "
                  .. "%d of those without a tenth of the users; give it a dim", dim, items[k].cols)
    end
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
