-- fopo.policy.auto: what one would try first, measured, and the best of it.
--
-- Policies are compared on the same contexts: the validation sessions, and tenths of the training
-- users, each scored by what was learnt without that tenth (cross-fitting). Few contexts are drawn
-- several times: X and Y of a user anew, and the user's numbers are means over the draws. So
-- differences are paired over users.
local native = require "fopo.native"
local array = require "fopo.array"
local define = require "fopo.base.define"
local embed = require "fopo.embed"
local lists = require "fopo.neighbours"
local origin = require "fopo.base.origin"
local provenance = require "fopo.base.provenance"
local text = require "fopo.base.text"

local EPOCHS = 5      -- of training the scalars of neighbours
local DENSE = 100     -- dimensions of a dense start
local ENOUGH = 4000   -- contexts, over all draws, that tell differences
local DRAWS = 8       -- of X and Y of a session, at most
local APART = 1000    -- draws of judging are those of epochs that no training comes to
local SHARES = {1, 4, 15, 50, 150} -- t of the dense part of a hybrid that are tried

-- Operations a second that the estimates of time are made by: of dense products, and of others.
local PRODUCTS, OTHERS = 2e10, 4e8

local kinds = {"svd", "degree", "cosine", "jaccard", "slim", "ease", "hybrid"}

-- Items by svd, of the interactions or of those normalised by degree; and how contexts are made.
local dense = {
  svd = {contexts = "unit", svd = {}},
  degree = {contexts = "degree", svd = {normalise = "degree", power = 0}},
}

-- A function that makes such items of sessions: of all of o.data and of these without any of their
-- tenths of as many dimensions.
local function embedding(o, kind)
  local dim = math.min(DENSE, lists.fewest(o.data), o.data.n_items)
  return function(sessions)
    local options = {dim = dim, seed = o.seed}
    for name, value in pairs(dense[kind].svd) do options[name] = value end
    return embed.svd(sessions, options)
  end
end

-- ---- what a start costs ----

-- Seconds of learning once from sessions whose work is w = {users, items, pairs (of items that a
-- user took), mates (users of an item that somebody takes), taken (items that are), distinct (of
-- those of the same users one)}, on two cores: from sizes and counts alone, so that the same starts
-- are tried on every machine.
local once = {}
function once.svd(w)
  local L = DENSE + 10
  return 20 * w.entries * L / OTHERS + 6 * (w.users + w.items) * L ^ 2 / PRODUCTS
end
once.degree = once.svd
function once.cosine(w) return 4 * w.pairs / OTHERS end
once.jaccard = once.cosine
function once.slim(w)
  local m = math.min(200, w.items)
  local unknowns = m * w.distinct / w.taken
  return (w.pairs + w.distinct * math.min(m * w.mates, w.entries) * 4) / OTHERS
         + w.distinct * unknowns ^ 3 / 3 / (PRODUCTS / 10) -- small systems
end
function once.ease(w)
  local D = math.min(w.users, w.items)
  local n, entries = w.items, w.entries
  if w.users < w.items then n, entries = w.distinct, w.distinct_entries end
  return 2 * D ^ 3 / PRODUCTS + n * (n + entries / 8) / OTHERS -- all weights are made, and compared
end

-- Of the search for l2.
local function searching(kind, w)
  return kind == "ease" and 3 * math.min(w.users, w.items, 4096) ^ 3 / PRODUCTS or 0
end

-- Of all of a start: learnt once and for each tenth that is held out, judged and trained.
local function seconds_of(kind, o, work, judged)
  local learnt = once[kind](work) * lists.times(kind, work.items, judged.parts)
                 + searching(kind, work)
  if dense[kind] then return learnt end
  local contexts = judged.contexts * judged.draws * 2 + EPOCHS * math.min(o.data.n, o.held)
  local scored = work.entries / work.users / 2 * lists.weights(kind, work.items)
  return learnt + contexts * scored / OTHERS
end

-- ---- judging ----

-- What policies are judged on: {sessions = the draws of it, part = k, a tenth of the training users
-- that is held out, others = all others}, or without part validation.
local function judged_of(o)
  local size, parts = lists.parts(o.data, o.held)
  local n = size * parts + o.valid.n
  local judged = {contexts = n, parts = parts,
                  draws = math.max(1, math.min(DRAWS, ENOUGH // n))}
  for k = 1, parts do
    local held, others = native.sessions_hold(o.data, (k - 1) * size, k * size, o.seed)
    local split = origin.of(o.data)
    origin.set(others, {dataset = split.dataset})
    judged[k] = {sessions = lists.draws(held, judged.draws, o.seed, APART), part = k,
                 others = others}
  end
  judged[parts + 1] = {sessions = lists.draws(o.valid, judged.draws, o.seed, APART)}
  return judged
end

-- The interval of the mean of a, or of a - b.
local function interval(a, b)
  return native.paired_values(a, b or array.zeros(1, a.cols))
end

-- A row of the table: of pi, or for tenths that are held out of the policies of_part[k].
local function measure(rows, name, pi, judged, o, of_part)
  local each = {reward = {}, ndcg = {}}
  for _, of in ipairs(judged) do
    local by = of.part and of_part and of_part[of.part] or pi
    local trained = of.part and by.scores_lists and lists.rows_of(by:training(), of.sessions[1])
    lists.measure(each, by, of.sessions, o.reward, trained or nil)
  end
  each = {reward = array.from{each.reward}, ndcg = array.from{each.ndcg}}
  local low, high = interval(each.reward)
  local row = {name = name, policy = pi, theta = pi:theta(), each = each, low = low, high = high,
               reward = each.reward:mean(), ndcg = each.ndcg:mean()}
  rows[#rows + 1] = row
  return row
end

-- ---- making policies ----

-- The scalars, learnt from where the policy stands.
local function train(pi, o)
  local t = require("fopo.trainer"){policy = pi, data = o.data, valid = false, seed = o.seed,
                                    reward = o.reward, batch = math.min(32, pi:training().n)}
  t:run{epochs = EPOCHS, view = false}
end

local function linear(policy, o, kind, data)
  return policy.linear{items = embedding(o, kind)(data), theta = "identity", seen = "mask",
                       contexts = dense[kind].contexts, data = data}
end

local try = {}

function try.dense(rows, kind, policy, judged, o)
  local of_part = {}
  for k = 1, judged.parts do of_part[k] = linear(policy, o, kind, judged[k].others) end
  local row = measure(rows, kind, linear(policy, o, kind, o.data), judged, o, of_part)
  row.dense = kind
end

local function train_from(rows, start, judged, o)
  train(start.policy, o)
  local row = measure(rows, start.name .. ", trained", start.policy, judged, o)
  row.start, row.list = start, start.list
end

function try.list(rows, kind, policy, judged, o)
  local pi = policy.neighbours{data = o.data, start = kind, held = o.held, seed = o.seed,
                               value = o.reward}
  local row = measure(rows, kind, pi, judged, o)
  row.list = kind
  train_from(rows, row, judged, o)
end

local function only(rows, field)
  local list = {}
  for _, row in ipairs(rows) do
    if row[field] then list[#list + 1] = row end
  end
  return list
end

-- The best weights with the best dense part, at the t of the largest worth, and trained from there:
-- steps of the scalars are of about one size, so t does not go far by them.
function try.hybrid(rows, _, _, judged, o, with_dense)
  local of, part = lists.best_of(only(rows, "list")), lists.best_of(only(rows, "dense"))
  local pi = with_dense(of.policy, embedding(o, part.dense), dense[part.dense].contexts, o)
  local tried, parameters = {}, pi:parameters()
  of.policy:set_theta(of.theta)
  for name, value in pairs(of.policy:parameters()) do parameters[name] = value end
  for _, share in ipairs(SHARES) do
    parameters.dense = array.from{{share}}
    pi:set_parameters(parameters)
    measure(tried, ("hybrid (%s, %s)"):format(of.list, part.dense), pi, judged, o).share = share
  end
  local best = lists.best_of(tried)
  rows[#rows + 1] = best
  pi:set_theta(best.theta)
  train_from(rows, best, judged, o)
end

-- ---- printing ----

local function print_table(rows, left_out, judged)
  local shown = {{"policy", rows.measure, "95 %", "NDCG@20", "time", ""}}
  for i, row in ipairs(rows) do
    shown[i + 1] = {row.name, ("%.4f"):format(row.reward),
                    ("%.4f - %.4f"):format(row.low, row.high), ("%.4f"):format(row.ndcg),
                    text.seconds(row.seconds), row == rows.chosen and "chosen" or ""}
  end
  print(text.table(shown))
  for _, line in ipairs(left_out) do print(text.page(line, "  ")) end
  print(text.page(("seen items left out, over %s users, of whom %s are of training and held out%s")
    :format(text.count(judged.contexts), text.count(judged.contexts - judged.valid),
            judged.draws > 1 and ("; X and Y of each drawn %d times"):format(judged.draws) or ""),
    "  "))
end

-- "by +0.0123 (0.0045, 0.0201), more than chance".
local function difference(a, b, name)
  local low, high = interval(a.each[name], b.each[name])
  return ("by %+.4f (%+.4f, %+.4f), %s"):format(a[name] - b[name], low, high,
    (low > 0 or high < 0) and "more than chance" or "which chance can make")
end

-- What training has changed, in words.
local function verdict(rows)
  local chosen, start, trained = rows.chosen, rows.chosen.start, nil
  for _, row in ipairs(rows) do
    if row.start == chosen then trained = row end
  end
  if not (start or trained) then
    return chosen.name .. " is taken as it is: nothing of it is learnt"
  end
  local a, b = trained or chosen, start or chosen
  return ("%s: learning changes the %s of its start %s, and NDCG@20 %s%s"):format(
    b.name, rows.measure, difference(a, b, "reward"), difference(a, b, "ndcg"),
    trained and "; the start is kept" or "")
end

-- ---- the plan ----

-- The starts in the order of what they are estimated to cost, {kind, seconds}, as many as the
-- option `seconds` has room for, the first in any case; and sentences on the others.
local function plan(o, judged)
  local work, left_out, list, total = native.sessions_work(o.data), {}, {}, 0.0
  local wanted = {}
  for place, kind in ipairs(o.starts or kinds) do
    if not (dense[kind] or kind == "hybrid" or lists.starts[kind]) then
      define.fail("fopo.policy.auto: there is no start %s; use some of %s", tostring(kind),
                  table.concat(kinds, ", "))
    end
    local seconds = kind == "hybrid" and math.huge or seconds_of(kind, o, work, judged)
    wanted[#wanted + 1] = {kind = kind, seconds = seconds, place = place}
  end
  table.sort(wanted, function(a, b)
    if a.seconds ~= b.seconds then return a.seconds < b.seconds end
    return a.place < b.place
  end)
  for _, one in ipairs(wanted) do
    local kind = one.kind
    if dense[kind] and o.reward.valued then
      left_out[#left_out + 1] = kind .. " is left out: its scores do not know what items are worth"
    elseif kind == "hybrid" then
      list[#list + 1] = {kind = kind}
    elseif total + one.seconds > o.seconds and #list > 0 then
      left_out[#left_out + 1] = ("%s is left out: by estimate it takes %s, and %s of %s are left")
        :format(kind, text.seconds(one.seconds), text.seconds(math.max(0, o.seconds - total)),
                text.seconds(o.seconds))
    else
      total = total + one.seconds
      list[#list + 1] = one
    end
  end
  return list, left_out
end

-- Why there can be no hybrid of these rows, or nil.
local function lacks(rows)
  if #only(rows, "list") == 0 then return "no start between items was measured" end
  return #only(rows, "dense") == 0 and "no dense start was measured" or nil
end

return function(policy, with_dense)
  local function measure_all(o, judged)
    local rows = {measure = o.reward.valued and "value" or "reward"}
    local list, left_out = plan(o, judged)
    for _, one in ipairs(list) do
      local kind, first = one.kind, #rows + 1
      local how = dense[kind] and "dense" or kind == "hybrid" and "hybrid" or "list"
      local why = kind == "hybrid" and lacks(rows)
      local began = native.clock()
      if why then
        left_out[#left_out + 1] = "hybrid is left out: " .. why
      else
        try[how](rows, kind, policy, judged, o, with_dense)
        for i = first, #rows do
          rows[i].seconds, rows[i].estimated = native.clock() - began, one.seconds
        end
      end
    end
    if #rows == 0 then
      define.fail("fopo.policy.auto: nothing was measured: %s", table.concat(left_out, "; "))
    end
    return rows, left_out
  end

  return define.fn{
    name = "fopo.policy.auto", returns = "policy, table",
    options = {
      {"data", "sessions", nil, "to learn from: s.train", required = true},
      {"valid", "sessions", nil, "to choose by; those of the same split if left out"},
      {"reward", "reward", nil, "of hits: by its values, if items differ in what a hit is worth; "
       .. "each is worth 1 if left out"},
      {"starts", "table", nil, "which are tried, some of " .. table.concat(kinds, ", ")
       .. "; all if left out"},
      {"seconds", "number", 600, "that the starts may take together, by estimate: of sizes and "
       .. "counted work on two cores, the cheapest first", above = 0},
      {"held", "integer", 2000, "as of fopo.policy.neighbours; they are judged too", min = 1},
      {"print", "boolean", true, "print the table"},
      {"seed", "integer", 1, "of embeddings, held out users and the order of training"},
    },
    text = [[What one would try first, measured: neighbours by cosine and jaccard similarities, by
the weights of slim and of EASE, dense policies over items by svd, of the interactions and of those
normalised by degree, and the best of the first with the best of these in it (hybrid).
The starts are tried in the order of what they cost, by an estimate from sizes and counted work
alone, which is the same everywhere; one that `seconds` has no room for is left out, and said with
its estimate.
Each is judged with seen items left out, untrained and, if its scores are of lists, trained for 5
epochs: on the validation sessions and on as many tenths of the training users as hold `held` of
them, each by what was learnt without that tenth. If these are few, X and Y of each are drawn up to
8 times, and a user counts by the mean. By some of these users, with other X and Y, the l2 of slim
and c0 and tau of lists were chosen before: from so few candidates that it raises what is measured
by far less than its interval. Taken is, of those whose reward is not below the largest by more than
chance (paired over these users), the one of the largest NDCG@20, which tells smaller differences;
of equal ones the cheapest. Nothing but the training and validation sessions is looked at.
With a reward that has values all is by value: starts rank by their scores times value, training
raises the expected value, and dense policies, which know no values, are left out.
Prints a table with intervals and the seconds of each start, and in words what training has changed.
Returns the policy and the rows: row.name, policy, theta, reward, low, high, ndcg, estimated (the
seconds), seconds, and row.each.reward and ndcg, [1, n] of the users; rows.chosen is the policy's,
rows.judged the sessions.]],
    example = [[
s = fopo.data.synthetic{users = 600, items = 300, clusters = 8}:sessions{min_items = 10}
pi, rows = fopo.policy.auto{data = s.train, starts = {"cosine", "slim"}, print = false}
assert(rows.chosen.policy == pi and #rows == 4)
assert(fopo.evaluate(pi, s.test).reward > 0.05)]],
    call = function(o)
      local split = origin.of(o.data).split
      o.valid = o.valid or split and split.valid
      if not o.valid or o.valid.n == 0 then
        define.fail("fopo.policy.auto: there are no validation sessions to choose by; give "
                    .. "valid, or split with valid = 0.1")
      end
      if rawequal(o.data, o.valid) then
        define.fail("fopo.policy.auto: data are the validation sessions themselves; learn from "
                    .. "s.train")
      end
      if o.starts and #o.starts == 0 then
        define.fail("fopo.policy.auto: starts is an empty list; use some of %s",
                    table.concat(kinds, ", "))
      end
      o.reward = o.reward or native.reward_hits(o.data)
      local judged = judged_of(o)
      judged.valid = o.valid.n
      local rows, left_out = measure_all(o, judged)
      local chosen = lists.best_of(rows)
      chosen.policy:set_theta(chosen.theta)
      rows.chosen, rows.judged = chosen, judged
      provenance.chosen(chosen.policy, chosen, chosen.start)
      if o.print then
        print_table(rows, left_out, judged)
        print(text.page(verdict(rows), "  "))
      end
      return chosen.policy, rows
    end,
  }
end
