-- What a run should say at its end, in sentences: which parameters the policy was left with, and
-- what was seen on the way that a user should know of.
local array = require "fopo.array"
local define = require "fopo.base.define"
local native = require "fopo.native"
local norms = require "fopo.run.norms"
local origin = require "fopo.base.origin"
local text = require "fopo.base.text"
local validation = require "fopo.run.validation"

local notes = {}
notes.__index = notes

local FEW = 0.01      -- share of the samples below which the effective sample size is small
local NEARLY_ALL = 0.9 -- share of the contexts that are recommended one item

-- What a run has seen that goes on later.
local kept = {"first", "start", "last", "last_step", "ess", "records", "norms",
              "first_norms"}

-- t: the trainer; o: the checked options of the run; before: notes:state() of the run that this one
-- goes on with, or nil.
function notes.new(t, o, before)
  local common, measure = native.gradient_common, validation.measure(t)
  local title = common(t.gradient, "objective_title"):gsub("reward$", measure)
  local new = setmetatable({t = t, first = t.step, samples = common(t.gradient, "samples"),
                            title = title, reward = measure, by = o.best_by,
                            keep_best = o.keep_best, sure = t.policy.scores_lists, ess = 0,
                            records = 0}, notes)
  new.options = {best_by = o.best_by, patience = o.patience, keep_best = o.keep_best}
  for _, name in ipairs(before and kept or {}) do new[name] = before[name] end
  return new
end

-- What a later run needs to go on with these notes, and with the options of this run.
function notes:state()
  local state = {options = self.options}
  for _, name in ipairs(kept) do state[name] = self[name] end
  return state
end

-- A record that has ended, as C gives it.
function notes:record(row)
  self.start = row.start or self.start
  self.last, self.last_step = row.worth or self.last, row.worth and row.step or self.last_step
  self.ess, self.records = self.ess + row.ess, self.records + 1
  if text.finite(row.head) then
    self.norms = {step = row.step, head = row.head, held = row.held}
    self.first_norms = self.first_norms or self.norms
  end
end

-- Whose parameters the policy holds at the end: {step, valid, expected}, or nil.
function notes:held(step, best)
  if best and (best.restored or best.step == step) then
    return {step = best.step, valid = best.worth.reward, expected = best.worth.expected,
            measure = self:lists() and best.worth.measure}
  end
  if self.last_step ~= step then return nil end
  return {step = step, valid = self.last.reward, expected = self.last.expected,
          measure = self:lists() and self.last.measure}
end

-- ---- the sentences; each is nil where there is nothing to say ----

-- "ndcg@10" and the like, by which the best is known; nil: by a reward.
function notes:lists() return self.by:find("@", 1, true) and self.by or nil end

function notes:measure()
  return self:lists() or self.by == "expected" and self.title or self.reward
end

function notes:value(worth)
  if self:lists() then return worth.measure end
  return self.by == "expected" and worth.expected or worth.reward
end

-- "reward 0.4107, expected reward 0.3758", what decides first.
local function both(self, worth)
  local parts = {("%s %.4f"):format(self.reward, worth.reward)}
  if text.finite(worth.expected) then
    table.insert(parts, self.by == "expected" and 1 or 2,
                 ("%s %.4f"):format(self.title, worth.expected))
  end
  if self:lists() then table.insert(parts, 1, ("%s %.4f"):format(self.by, worth.measure)) end
  return table.concat(parts, ", ")
end

local function put_back(self, step, best)
  if not (best and best.restored) then return nil end
  if best.at_start then
    local ends = self.last_step == step and ("; the last step: " .. both(self, self.last)) or ""
    return ("no record was better on validation than the start%s (%s%s), so its parameters were "
            .. "put back and the run has changed nothing; try a lower lr, a schedule "
            .. "(fopo.schedule), more samples, or best_by = \"%s\""):format(
      self.sure and " by more than chance" or "", both(self, best.worth), ends,
      self.by == "expected" and "greedy" or "expected")
  end
  local last = self.last_step == step and (" (%s)"):format(both(self, self.last)) or ""
  return ("the parameters of step %s, the best on validation (%s), were put back for those of the "
          .. "last step, %s%s; keep_best = false keeps the last"):format(text.count(best.step),
    both(self, best.worth), text.count(step), last)
end

-- The last parameters are kept though others looked better.
local function by_chance(self, step, best)
  if not best or best.restored or best.step == step or not text.finite(best.loss) then
    return nil
  end
  local when = best.at_start and "the start" or "step " .. text.count(best.step)
  return ("%s looked best on validation (%s; the last step: %s), but chance can make the "
          .. "difference of %.4f in the %s (95 %%: %.4f to %.4f), so the last parameters are kept"
         ):format(when, both(self, best.worth), both(self, self.last), best.loss, self:measure(),
                  best.low, best.high)
end

local function below_start(self, step, best)
  if best or not self.start or self.last_step ~= step then return nil end
  local before, now = self:value(self.start), self:value(self.last)
  if now >= before or now ~= now then return nil end
  local why = self.keep_best and "a run that is stopped keeps its last parameters"
              or "keep_best = true, the default, ends with the best parameters instead"
  return ("the run ended below its start: %s on validation %.4f, and %.4f before it; %s; try a "
          .. "lower lr or fewer steps"):format(self:measure(), now, before, why)
end

local function few_effective(self)
  local S = self.samples
  if not S or S <= 1 or self.records == 0 then return nil end
  local ess = self.ess / self.records
  if ess >= FEW * S then return nil end
  return ("the effective sample size was %.3g of %s samples: a few draws make the gradient, which "
          .. "is noisy and biased; try a proposal closer to the policy (fopo.proposal.mixture with "
          .. "a larger k), more samples, or a higher temperature"):format(ess, text.count(S))
end

local function one_item(worth)
  if not worth or not worth.contexts or worth.contexts < 20 then return nil end
  local what = "one item is recommended to all"
  if worth.distinct > 1 then
    if worth.top <= NEARLY_ALL * worth.contexts then return nil end
    what = ("one item is recommended to %.0f %%"):format(100 * worth.top / worth.contexts)
  end
  return ("%s of the %s contexts of validation: the policy does not look at the context; try "
          .. "theta = \"identity\", contexts = \"unit\", a lower lr, or another scale of the "
          .. "embeddings"):format(what, text.count(worth.contexts))
end

-- What items drawn at random earn by hits worth 1 each on sessions, or nil.
local function chance_of(t)
  local v = t.valid
  if define.kind(v) ~= "sessions" or t.reward.kind ~= "hits" or t.reward.valued then return nil end
  local n, sum = math.min(v.n, 100), 0
  for i = 1, n do sum = sum + v:y((i - 1) * v.n // n + 1).cols end
  return sum / n / t.policy.n_items
end

-- A policy that is sure of items that nobody takes learns next to nothing from draws. One that is
-- uniform is at chance, too, which norms.uniform says.
local function lost(self)
  local last, chance = self.last, chance_of(self.t)
  if not chance or not last or not text.finite(last.expected) then return nil end
  if native.gradient_common(self.t.gradient, "objective") ~= "reward" then return nil end
  local below = last.expected < 0.7 * chance
  if not below and (last.expected >= 1.2 * chance or norms.uniform(self.t)) then return nil end
  return ("the expected reward on validation, %.2g, is %s the %.2g of items drawn at random: "
          .. "the policy looks where nobody takes anything, and draws from there teach it nothing; "
          .. "try a higher temperature, embeddings whose large norms are items that users take "
          .. "(fopo.embed.svd), or a proposal with more uniform draws "
          .. "(fopo.proposal.mixture, epsilon = 0.8)"):format(last.expected,
                                                           below and "below" or "no more than",
                                                           chance)
end

local function apart(self)
  local a, b = self.start, self.last
  if not a or not b then return nil end
  if not text.finite(a.expected) or not text.finite(b.expected) then return nil end
  local up, up_se = b.expected - a.expected, math.sqrt(a.se ^ 2 + b.se ^ 2)
  local down, down_se = a.reward - b.reward, math.sqrt(a.reward_se ^ 2 + b.reward_se ^ 2)
  if up <= 2 * up_se or down <= 2 * down_se then return nil end
  return ("the %s rose from %.4f to %.4f while the %s of the best item fell from "
          .. "%.4f to %.4f: the probabilities gather on good items, but not the best on top; serve "
          .. "by drawing, keep the best by the other measure (best_by), or lower the temperature"
         ):format(self.title, a.expected, b.expected, self.reward, a.reward, b.reward)
end

-- The share of a policy that learns from a log on actions that its events show, and the warning
-- where that is little; nil of other data. Measured in some events, fewer of a large catalogue.
function notes.shown(t)
  local lg, ids = t.data, {}
  if define.kind(lg) ~= "logs" or select(2, native.ranks()) > 1 then return nil end
  local n = math.min(256, lg.n, math.max(8, (1 << 25) // lg.n_actions))
  for i = 1, n do ids[i] = (i - 1) * lg.n // n + 1 end
  local _, share = native.ope_groups(t.policy, lg:take(array.ids(ids)), {shown = lg})
  if share >= 0.9 then return share end
  return share, ("WARNING: %.3g %% of the policy is on actions that no event of the log shows, and "
    .. "it has learnt of them from its model or features alone; fopo.ope says more")
    :format(100 * (1 - share))
end

-- The sentences about a run that ended at `step`; best: what keep_best ended it with, or nil.
function notes:sentences(step, best)
  local list = {}
  list[1] = put_back(self, step, best) or by_chance(self, step, best)
            or below_start(self, step, best)
  list[#list + 1] = self.first == 0 and origin.of(self.t.policy).completed or nil
  list[#list + 1] = few_effective(self)
  list[#list + 1] = one_item(best and best.worth or self.last)
  list[#list + 1] = lost(self)
  list[#list + 1] = select(2, notes.shown(self.t))
  list[#list + 1] = apart(self)
  list[#list + 1] = norms.sentence(self.t, self.first_norms, self.norms)
  if norms.hold_little(self.norms) or norms.unknown(self.t) then
    list[#list + 1] = norms.uniform(self.t)
  end
  return list
end

return notes
