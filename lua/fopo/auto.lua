-- fopo.policy.auto: what one would try first, measured on validation, and the best of it.
local native = require "fopo.native"
local define = require "fopo.base.define"
local embed = require "fopo.embed"
local evaluate = require "fopo.evaluate"
local gradient = require "fopo.gradient"
local lists = require "fopo.neighbours"
local origin = require "fopo.base.origin"
local paired = require "fopo.base.paired"
local text = require "fopo.base.text"

local EPOCHS = 5     -- of training the scalars of neighbours
local DENSE = 100    -- dimensions of a dense start
local LARGEST = 6000 -- EASE inverts a matrix of users or items, whichever are fewer
local CLOSE = 0.001  -- of reward or NDCG@20, within which the cheaper one is taken

-- By what they cost: the hybrid is made of the best of the others.
local kinds = {"svd", "degree", "cosine", "jaccard", "slim", "ease", "hybrid"}

-- Items by svd, of the interactions or of those normalised by degree; and how contexts are made.
local dense = {
  svd = {contexts = "unit", svd = {}},
  degree = {contexts = "degree", svd = {normalise = "degree", power = 0}},
}

local function items_of(o, kind)
  local options = {dim = math.min(DENSE, o.data.n, o.data.n_items), seed = o.seed}
  for name, value in pairs(dense[kind].svd) do options[name] = value end
  return embed.svd(o.data, options)
end

-- A policy by the name of its start; nil and why not.
local function make(policy, kind, o, best)
  if dense[kind] then
    return policy.linear{items = items_of(o, kind), theta = "identity", seen = "mask",
                         contexts = dense[kind].contexts, data = o.data}
  elseif kind == "hybrid" then
    if not best.list then return nil, "no start between items was measured" end
    local by = best.dense and best.dense.kind or "svd"
    return policy.neighbours{data = o.data, start = best.list.kind, held = o.held, seed = o.seed,
                             items = items_of(o, by), contexts = dense[by].contexts}
  elseif kind == "slim" and lists.standard(o.data) ~= "slim" then
    return nil, text.count(o.data.n_items) .. " items: a regression for each would take too long"
  elseif kind == "ease" and math.min(o.data.n, o.data.n_items) > LARGEST then
    return nil, ("%s users and %s items: the inverse would take too long"):format(
      text.count(o.data.n), text.count(o.data.n_items))
  end
  return policy.neighbours{data = o.data, start = kind, held = o.held, seed = o.seed}
end

-- The expected reward on the sessions that are held out in training, by weights that do not know
-- their users: as good as validation, and of many more users. Items by svd know all users, so that
-- a dense part would make it look better than it is.
local function cross_fitted(pi)
  local training = pi:training()
  local _, stats = gradient.sparse{}:compute(pi, training, nil, native.reward_hits(training))
  return stats.reward, training.n
end

local function measure(rows, name, pi, o, seconds)
  local e = evaluate(pi, o.valid, {k = {1, 20}, exclude = "seen", expected = false})
  local row = {name = name, policy = pi, evaluation = e, reward = e.reward, low = e.low,
               high = e.high, ndcg = e.ndcg[20], recall = e.recall[20], seconds = seconds,
               theta = pi:theta(), worth = e.reward}
  if pi.scores_lists and pi.dense_start == 0 then
    local held, n = cross_fitted(pi)
    row.held, row.worth = held, (n * held + o.valid.n * e.reward) / (n + o.valid.n)
  end
  rows[#rows + 1] = row
  return row
end

-- The scalars, learnt from the policy's start; the start itself is a candidate of the run.
local function train(pi, o)
  local t = require("fopo.trainer"){policy = pi, data = o.data, valid = o.valid, seed = o.seed,
                                    exclude = "seen"}
  t:run{epochs = EPOCHS, view = false}
  return t
end

-- Of the rows `which` the one of the largest value of a field; of those as good the first, which
-- costs least.
local function best_of(rows, which, field)
  local best
  for _, row in ipairs(rows) do
    if which(row) and (not best or row[field] > best[field] + CLOSE) then best = row end
  end
  return best
end

-- A policy with a dense part is taken only if it is better on validation, by NDCG and not worse by
-- reward.
local function choose(rows)
  local list = best_of(rows, function(row) return row.held end, "worth")
  local flat = best_of(rows, function(row) return not row.held end, "ndcg")
  if not (list and flat) then return list or flat end
  local _, high = paired.difference(flat.evaluation, list.evaluation)
  return flat.ndcg > list.ndcg and high > 0 and flat or list
end

local function print_table(rows, left_out, chosen)
  local shown = {{"policy", "reward", "95 %", "NDCG@20", "held", "time", ""}}
  for i, row in ipairs(rows) do
    shown[i + 1] = {row.name, ("%.4f"):format(row.reward),
                    ("%.4f - %.4f"):format(row.low, row.high), ("%.4f"):format(row.ndcg),
                    row.held and ("%.4f"):format(row.held) or "",
                    text.seconds(row.seconds), row == chosen and "chosen" or ""}
  end
  print(text.table(shown))
  for _, line in ipairs(left_out) do print(text.fill(line, 80, "  ")) end
end

-- What training adds to the start of the chosen policy, in words.
local function verdict(chosen, o)
  local start = chosen.start
  if not start then
    return ("%s is taken as it is, on %s validation sessions with seen items left out"):format(
      chosen.name, text.count(o.valid.n))
  end
  local low, high = paired.difference(chosen.evaluation, start.evaluation)
  local how = low > 0 and "by more than chance" or high < 0 and "and is worse by more than chance"
              or "which chance can make"
  return ("%s: learning changes the reward of its start by %+.4f (%+.4f, %+.4f), %s"):format(
    chosen.name, chosen.reward - start.reward, low, high, how)
end

return function(policy)
  return define.fn{
    name = "fopo.policy.auto", returns = "policy, table",
    options = {
      {"data", "sessions", nil, "to learn from: s.train", required = true},
      {"valid", "sessions", nil, "to choose by; those of the same split if left out"},
      {"starts", "table", nil, "which are tried, some of " .. table.concat(kinds, ", ")
       .. "; all if left out"},
      {"held", "integer", 2000, "as of fopo.policy.neighbours", min = 1},
      {"print", "boolean", true, "print the table"},
      {"seed", "integer", 1, "of embeddings, held out users and the order of training"},
    },
    text = [[What one would try first, measured: neighbours by cosine and jaccard similarities, by
the weights of slim and of EASE, dense policies over items by svd, of the interactions and of those
normalised by degree, and the best of the first with the best of these in it (hybrid). Each is
judged with seen items left out, untrained and, if its scores are of lists, trained for 5 epochs: by
the reward and NDCG@20 on validation, and where the weights are cross-fitted by the expected reward
on the sessions that are held out in training (held), which are more. The largest reward over both
is taken, of those within 0.001 the one that costs least, and a dense or hybrid policy only where
its NDCG@20 on validation is larger and its reward not worse by more than chance. Prints a table
with intervals and what training has added, and returns the policy and the rows, with row.name,
reward, low, high, ndcg, recall, held, seconds; rows.chosen is the policy's. Nothing but the
training and validation sessions is looked at. A start that would take too long is left out, and
said.]],
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
      local rows, left_out, best = {}, {}, {} -- best: of lists and of dense starts
      local function keep_best(row, kind, which, by)
        row.kind = kind
        if not best[which] or row[by] > best[which][by] then best[which] = row end
      end
      for _, kind in ipairs(o.starts or kinds) do
        if not (dense[kind] or kind == "hybrid" or lists.starts[kind]) then
          define.fail("fopo.policy.auto: there is no start %s; use some of %s", tostring(kind),
                      table.concat(kinds, ", "))
        end
        local began = native.clock()
        local pi, why = make(policy, kind, o, best)
        if not pi then
          left_out[#left_out + 1] = ("%s is left out: %s"):format(kind, why)
        else
          local start = measure(rows, kind, pi, o, native.clock() - began)
          if pi.scores_lists then
            train(pi, o)
            local row = measure(rows, kind .. ", trained", pi, o, native.clock() - began)
            row.start = start
            if lists.starts[kind] then keep_best(row, kind, "list", "worth") end
          else
            keep_best(start, kind, "dense", "ndcg")
          end
        end
      end
      if #rows == 0 then
        define.fail("fopo.policy.auto: nothing was measured: %s", table.concat(left_out, "; "))
      end
      local chosen = choose(rows)
      chosen.policy:set_theta(chosen.theta)
      rows.chosen = chosen
      if o.print then
        print_table(rows, left_out, chosen)
        print(verdict(chosen, o))
      end
      return chosen.policy, rows
    end,
  }
end
