-- What a run is validated on, and how its results are shown and kept in a checkpoint.
local cache = require "fopo.base.cache"
local native = require "fopo.native"
local define = require "fopo.base.define"
local lists_of = require("fopo.base.lists").of
local ope = require "fopo.ope"
local origin = require "fopo.base.origin"
local seen = require "fopo.base.seen"
local text = require "fopo.base.text"

local validation = {}

-- Multiply-adds that a validation may cost if nobody has asked for it, and the fewest contexts that
-- it uses all the same; of the expected reward, also the most.
local BUDGET, FEWEST = 1e10, 1000
local EXPECTED_BUDGET, EXPECTED_FEWEST, EXPECTED_MOST = 1e9, 100, 1000

-- Items of a catalogue that the expected reward sums, and those that stand for a larger one
-- (src/judge/expected.h).
local ALL, FEW = 8192, 2048

-- Of a run by itself, the contexts that a record is judged by are to those that its steps have
-- trained on as 1 to this; and the fewest.
local TRAINED, SAMPLED = 20, 64

-- Why the sessions of options o are not validated by themselves, or nil and the sessions for it.
local function by_itself(o)
  local split = origin.of(o.data).split
  local data = origin.of(o.data).held_of or o.data -- a part of them that is trained on
  if not split or not rawequal(data, split.train) then
    return "data is not the train part of a split"
  end
  if o.contexts and not o.valid_contexts then return "contexts are given without valid_contexts" end
  if o.reward and o.reward.kind ~= "hits" then return "the reward is not hits" end
  local open, n = pcall(function() return split.valid.n end) -- it may have been closed
  if not open or n == 0 then return "the split has no valid part" end
  return nil, split.valid
end

-- Raises if sessions to validate on are shared out, or a log is joined with what only sessions
-- have.
function validation.check(o)
  if define.kind(o.valid) == "sessions" and o.valid.shared then
    define.fail("fopo.trainer: the sessions to validate on are shared out to the ranks; give valid "
                .. "= s.valid:gather(1000), 1,000 of them on every rank")
  end
  local leaves_out = o.exclude == "seen"
  if define.kind(o.valid) == "logs" and (o.valid_contexts or o.index or leaves_out) then
    define.fail("fopo.trainer: a log to validate on has contexts of its own, no seen items, and "
                .. "is judged without an index; leave out %s",
                o.valid_contexts and "valid_contexts" or o.index and "index" or "exclude")
  end
end

-- What a trainer of these options validates on, and whether nobody has named it.
function validation.of(o)
  if o.valid == false then return nil, false end
  if o.valid ~= nil and o.valid ~= true then return o.valid, false end
  local why, sessions = by_itself(o)
  if o.valid and why then
    define.fail("fopo.trainer: valid = true, but %s; give the sessions, as valid = s.valid", why)
  end
  return sessions, sessions ~= nil
end

-- P: items that each of them is scored with; all of them if left out.
local function contexts_for(budget, least, pi, P)
  return math.max(least, math.tointeger(budget // ((P or pi.n_items) * pi.dim)))
end

-- Of how many contexts the reward is that t's records have as `valid`; nil if of none, and where it
-- is no share of them: the snips of a log, the mean of values.
function validation.contexts(t)
  if not t.valid or t.reward.valued or define.kind(t.valid) == "logs" then return nil end
  if not t.valid_automatic then return t.valid.n end
  return math.min(t.valid.n, contexts_for(BUDGET, FEWEST, t.policy))
end

-- The measure of lists that is nearest to what a gradient of slates raises; nil of others.
local nearest = {hit = "hit", sum = "value", dcg = "ndcg", ndcg = "ndcg"}

function validation.of_slates(g)
  if not native.gradient_common(g, "slates") then return nil end
  return ("%s@%d"):format(nearest[g.measure], g.k)
end

-- By what the best parameters are known if nobody says: of slates, as they are rewarded. The
-- scalars of a policy that scores lists raise the expected reward by tau, too, which changes no
-- list: what is served decides.
function validation.standard(t)
  local slate = define.kind(t.valid) == "sessions" and validation.of_slates(t.gradient)
  if slate then return slate end
  local lists = define.kind(t.valid) == "sessions" and t.policy.scores_lists
  if not lists then return "greedy" end
  return t.reward.valued and "expected" or ("ndcg@%d"):format(math.min(20, t.policy.n_items))
end

-- Measures of lists that a validation can be by.
local lists = {hit = true, precision = true, recall = true, ndcg = true, value = true}

-- What best_by and fopo.tune's by say: {by = "greedy"}, {by = "expected"}, or of "ndcg@10" {by =
-- "measure", measure = "ndcg", k = 10}. what: the name of the option, for the error.
function validation.way(by, what)
  if by == "greedy" or by == "expected" then return {by = by} end
  local measure, k = by:match("^(%l+)@(%d+)$")
  k = math.tointeger(tonumber(k))
  if lists[measure] and k and k > 0 then return {by = "measure", measure = measure, k = k} end
  define.fail("%s must be greedy, expected, or a measure of the first items of a list, one of "
              .. "hit, precision, recall, ndcg and value, as \"ndcg@10\", not %q", what, by)
end

-- What a validation on sessions leaves out, "seen" or "none"; nil of any other.
function validation.left_out(t)
  if define.kind(t.valid) ~= "sessions" then return nil end
  return seen.left_out(t.exclude, t.valid, t.policy)
end

-- Adds to the plan p of a run (native.run) what it is validated on. every: steps of a record, nil
-- if they follow from a clock.
function validation.plan(p, t, o, every)
  local way = validation.way(o.best_by, "trainer:run: best_by")
  p.by, p.measure, p.k = way.by, way.measure, way.k
  if not t.policy.train_items then p.exact = cache.known_exact(t.policy:items()) end
  if define.kind(t.valid) == "logs" then
    p.ask = true
    if p.by ~= "greedy" then
      define.fail("trainer:run: a log to validate on has one value, fopo.ope's snips; leave out "
                  .. "best_by, or validate on sessions")
    end
  elseif t.valid then
    local pi = t.policy
    p.valid, p.index, p.exact = t.valid, t.index, cache.exact_of(pi)
    p.valid_contexts = t.valid_contexts or cache.contexts(t.valid, pi)
    p.valid_most = t.valid_automatic and contexts_for(BUDGET, FEWEST, pi) or nil
    local whole = not pi.train_items and pi:items().rows == pi.n_items
    local P = pi.n_items > ALL and whole and FEW or nil
    p.expected_most = math.min(EXPECTED_MOST, contexts_for(EXPECTED_BUDGET, EXPECTED_FEWEST, pi, P))
    p.unseen = validation.left_out(t) == "seen"
    if t.valid_automatic and every and not pi.scores_lists then
      p.valid_sampled = math.max(SAMPLED, every * t.batch // TRAINED)
    end
  elseif p.by ~= "greedy" then
    define.fail("trainer:run: best_by = %q needs sessions to validate on; give them as "
                .. "fopo.trainer{valid = s.valid}", o.best_by)
  end
end

-- What each session that t is validated on comes to with the policy pi, an array [1, n]. by: as
-- best_by.
function validation.each(t, pi, by)
  local way, reward = validation.way(by, "by"), t.reward.valued and t.reward or nil
  if way.by == "expected" then
    local most = math.min(EXPECTED_MOST, contexts_for(EXPECTED_BUDGET, EXPECTED_FEWEST, pi))
    return select(2, native.evaluate_expected(pi, cache.contexts(t.valid, pi), t.valid, most,
                                              validation.left_out(t) == "seen", reward))
  end
  local n = t.valid_automatic and contexts_for(BUDGET, FEWEST, pi) or t.valid.n
  local some, k = n < t.valid.n and t.valid:gather(n) or t.valid, way.k or 1
  local ids = lists_of(pi, some, {k = k, exclude = validation.left_out(t)})
  local rewards, measures = native.measure_each(ids, some, k, reward, way.measure)
  return way.measure and measures or rewards
end

-- The worth of t's policy on the log that it is validated on.
function validation.by_log(t)
  return ope(t.policy, t.valid, {estimators = {"snips"}, bootstrap = 0}).snips.value
end

-- "likelihood", or the title of the user's own: what the value of t's objective is called in a
-- line; nil: it is the reward.
function validation.objective(t)
  local name = native.gradient_common(t.gradient, "objective")
  if name == "custom" then return native.gradient_common(t.gradient, "objective_title") end
  return name ~= "reward" and name:gsub("_", " ") or nil
end

-- What t's rewards are called: values where its reward has values.
function validation.measure(t) return t.reward.valued and "value" or "reward" end

-- "valid 0.1234 expected 0.0456", or nil.
function validation.as_text(t, valid, expected)
  if not text.finite(valid) then return nil end
  if not text.finite(expected) then return ("valid %.4f"):format(valid) end
  return ("valid %.4f %s %.4f"):format(valid, validation.objective(t) or "expected", expected)
end

-- ---- whose parameters a policy holds: t.held = {step, valid, expected} ----

-- What they came to on validation, {step, valid}; nil: that is not known. Of the last record if t's
-- own run has not gone back.
function validation.holds(t)
  local h = t.history
  if t.held then return t.held end
  for n = #h.step, 1, -1 do
    if text.finite(h.valid[n]) then return {step = h.step[n], valid = h.valid[n]} end
  end
end

-- ", holds the parameters of step 400: valid 0.1234 expected 0.0456", for a trainer's line.
function validation.state(t)
  local h, held = t.history, t.held
  local n = #h.step
  held = held or {step = t.step, valid = h.valid[n], expected = h.valid_expected[n]}
  local worth = validation.as_text(t, held.valid, held.expected)
  if held.step == t.step then return worth and ", " .. worth or "" end
  return (", holds the parameters of %s: %s"):format(
    held.step == 0 and "the start" or "step " .. text.count(held.step), worth)
end

-- The facts that a checkpoint keeps, with those about t.held and t.began, which may be nil.
function validation.facts(t, facts)
  for _, which in ipairs{"held", "began"} do
    for name, value in pairs(t[which] or {}) do
      facts[which .. "_" .. name] = ("%.17g"):format(value)
    end
  end
  return facts
end

-- t.held or t.began, as `which` says, from the facts of a checkpoint.
function validation.from_facts(facts, which)
  local step = math.tointeger(tonumber(facts[which .. "_step"]))
  if not step then return nil end
  return {step = step, valid = tonumber(facts[which .. "_valid"]) or 0 / 0,
          expected = tonumber(facts[which .. "_expected"]) or 0 / 0,
          measure = tonumber(facts[which .. "_measure"])}
end

return validation
