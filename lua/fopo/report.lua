-- fopo.report: aligned tables, the table of a race, and whether it was won.
local define = require "fopo.base.define"
local paired = require "fopo.base.paired"
local text = require "fopo.base.text"
local report = {}

report.table = define.fn{
  name = "fopo.report.table", returns = "string",
  args = {{"rows", "table", nil, "lists of strings; the first is the head"}},
  text = "Rows as aligned text; columns of numbers are set to the right.",
  example = "print(fopo.report.table{{\"method\", \"ms\"}, {\"snis\", \"1.2\"}})",
  call = text.table,
}

-- ---- what is given

local function is_number(v) return type(v) == "number" end

-- Runs come from users' tables, too: each must have what is shown of it.
local function check_runs(name, runs)
  for i, run in ipairs(runs) do
    local function refuse(why, ...) define.fail("%s: run %d " .. why, name, i, ...) end
    if type(run) ~= "table" then
      refuse("is %s, not a table as {name = \"a\", trainer = t, evaluation = fopo.evaluate(..)}",
             define.a(run))
    end
    local e, t, first = run.evaluation, run.trainer, runs[1].evaluation
    if type(run.name) ~= "string" then refuse("has no name, a string") end
    if type(e) ~= "table" or not is_number(e.reward) then
      refuse("(%s) has no evaluation; fopo.evaluate(pi, s.test) makes one", run.name)
    end
    if e.contexts and first.contexts and not e.valued ~= not first.valued then
      refuse("(%s) is evaluated %s and run 1 is not; evaluate both with the same reward", run.name,
             e.valued and "by value" or "by hits")
    end
    if t and not (type(t) == "table" and is_number(t.seconds) and is_number(t.step)) then
      refuse("(%s) has %s as its trainer, which is none", run.name, define.a(t))
    end
    if t and not (run.policy or t.policy) then refuse("(%s) has no policy", run.name) end
  end
end

-- ---- baselines among the runs

-- A run that nobody trained, measured on contexts: the start, popular, identity. An upper bound has
-- a reward, but no contexts.
local function is_baseline(run) return not run.trainer and run.evaluation.contexts ~= nil end

local function find(runs, name)
  for _, run in ipairs(runs) do
    if run.name == name then return run end
  end
end

-- The untrained policy that a run's policy would be with theta = identity; nil if it has none.
local function identity_of(runs)
  for _, run in ipairs(runs) do
    local pi = run.policy or run.trainer and run.trainer.policy
    if pi and define.kind(pi) == "policy" and pi.context_dim == pi.dim then
      return require("fopo.baseline").identity{items = pi:initial_items(), contexts = pi.contexts,
                                               item_weights = pi:item_weights(),
                                               temperature = pi.temperature, seen = pi.seen}
    end
  end
end

-- runs with the rows popular and identity where they are missing, before the others.
local function with_baselines(runs, split)
  local evaluate, first = require "fopo.evaluate", runs[1] and runs[1].evaluation
  local all, o = {}, {exclude = first and first.exclude, reward = first and paired.reward(first)}
  local name = o.reward and "popular by value" or "popular"
  if not find(runs, name) then
    local popular = require("fopo.baseline").popular{data = split.train, value = o.reward}
    all[1] = {name = name, baseline = popular, evaluation = evaluate(popular, split.test, o)}
  end
  local identity = not find(runs, "identity") and identity_of(runs)
  if identity then
    all[#all + 1] = {name = "identity", policy = identity,
                     evaluation = evaluate(identity, split.test, o)}
  end
  return table.move(runs, 1, #runs, #all + 1, all)
end

-- ---- the verdict

-- The largest by value(run).
local function best_of(runs, of, value)
  local best
  for _, run in ipairs(runs) do
    if of(run) and (not best or value(run) > value(best)) then best = run end
  end
  return best
end

local function reward_of(run) return run.evaluation.reward end

-- What the rewards of the runs are called: values where they were measured by value.
local function measure(runs)
  return runs[1] and runs[1].evaluation.valued and "value" or "reward"
end

-- Whether the reward of `run` is above that of `base` by more than chance: the 95 % interval of the
-- difference is above 0.
local function beats(run, base) return paired.difference(run.evaluation, base.evaluation) > 0 end

local between_items = {item_knn = true, ease = true, slim = true} -- baselines of such weights

-- What to do about a run that does not beat the baseline: more contexts tell whether a higher
-- reward is chance; a lower one has reasons that may be known of the run.
local function advice(run, base)
  local e, pi, parts = run.evaluation, run.policy or run.trainer.policy, {}
  if e.reward > base.evaluation.reward then
    return ("%s contexts are few to tell: a larger test part, as d:sessions{test = 0.3}, or users "
            .. "with fewer items (min_items) give more"):format(text.count(e.contexts))
  end
  if e.exclude == "none" then
    parts[1] = "exclude = \"seen\" (what users took before is not recommended)"
  end
  if pi.contexts == "mean" then parts[#parts + 1] = "contexts = \"unit\"" end
  if e.effective and e.effective > 0.3 * pi.n_items then
    parts[#parts + 1] = "a lower temperature (the softmax is nearly uniform)"
  end
  if base.baseline and between_items[base.baseline.kind] then
    parts[#parts + 1] = "fopo.policy.neighbours, which trains such weights"
    parts[#parts + 1] = "fopo.policy.auto"
  elseif not base.policy then
    parts[#parts + 1] = "more steps, or embeddings of another dim"
  elseif e.reward < base.evaluation.reward then
    parts[#parts + 1] = "a smaller lr (training lost what the start had)"
  else
    parts[#parts + 1] = "another proposal or estimator (the draws may miss the items that matter)"
  end
  parts[#parts + 1] = "fopo.tune"
  return "try " .. table.concat(parts, "; ")
end

-- "a does not beat", "a; b do not beat" (names may hold commas), or "None of .. beats".
local function subject(behind, trained)
  if #behind == trained and trained > 1 then
    return ("None of the %d trained policies beats"):format(trained)
  end
  local names = {}
  for i, run in ipairs(behind) do names[i] = run.name end
  return table.concat(names, "; ") .. (#names > 1 and " do not beat" or " does not beat")
end

-- A list of the runs that were trained and fail to beat `base`, and how many were trained.
local function behind_of(runs, base, wins)
  local behind, trained = {}, 0
  for _, run in ipairs(runs) do
    if run.trainer and run.evaluation.contexts then
      trained = trained + 1
      if not wins(run, base) then behind[#behind + 1] = run end
    end
  end
  return behind, trained
end

local function by_reward(runs)
  local base = best_of(runs, is_baseline, reward_of)
  if not base then return nil end
  local behind, trained = behind_of(runs, base, beats)
  if #behind == 0 then return nil end
  local best = best_of(behind, reward_of, reward_of)
  return ("%s %s, which nobody trained, by more than chance: %s %.4f against %.4f; %s."):
    format(subject(behind, trained), base.name, measure(runs), best.evaluation.reward,
           base.evaluation.reward, advice(best, base))
end

-- The longest list that all runs which were measured have, above 1; or nil.
local function length_of(runs)
  local k
  for _, run in ipairs(runs) do
    local e = run.evaluation
    if e.contexts then
      local last = e.k and e.k[#e.k]
      if not last or last == 1 or k and k ~= last then return nil end
      k = last
    end
  end
  return k
end

-- What is served are lists: the same of their NDCG, and how much of the catalogue they show.
local function by_lists(runs)
  local k = length_of(runs)
  local function ndcg(run) return run.evaluation.ndcg[k] end
  local base = k and best_of(runs, is_baseline, ndcg)
  if not base then return nil end
  local behind, trained = behind_of(runs, base, function(run)
    local low = paired.of_lists(run.evaluation, base.evaluation, k)
    return not low or low > 0
  end)
  if #behind == 0 then return nil end
  local best = best_of(behind, ndcg, ndcg)
  return ("%s %s in NDCG@%d by more than chance: %.4f against %.4f, with lists that show %.3g %% "
          .. "of the items against %.3g %%."):format(subject(behind, trained), base.name, k,
    ndcg(best), ndcg(base), 100 * best.evaluation.coverage[k], 100 * base.evaluation.coverage[k])
end

report.verdict = define.fn{
  name = "fopo.report.verdict", returns = "string",
  args = {{"runs", "table", nil, "as of fopo.report.runs"}},
  text = [[A sentence that names the trained policies whose reward is not above that of the best
baseline among the runs (popular, identity, the start) by more than chance, and what to try, and one
that names those whose lists are not better than those of the best baseline by NDCG at the largest
k, with the share of the items that the lists show; nil if there is none, or nothing to compare. By
more than chance: the 95 % interval of the difference is above 0, for evaluations on the same
sessions a paired one (Agresti and Min 2005), else that of Newcombe (1998). Lists are compared on
the same sessions only.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
popular = fopo.evaluate(fopo.baseline.popular{data = s.train}, s.test)
pi = fopo.policy.linear{items = fopo.embed.svd(s.train, {dim = 8}), theta = "random"}
t = fopo.trainer{policy = pi, data = s.train, gradient = fopo.gradient.snis{}}
t:run{steps = 1, view = false}
runs = {{name = "popular", evaluation = popular},
        {name = "one step", trainer = t, evaluation = fopo.evaluate(pi, s.test)}}
print(fopo.report.verdict(runs))]],
  call = function(runs)
    check_runs("fopo.report.verdict", runs)
    local first, second = by_reward(runs), by_lists(runs)
    return first and second and first .. " " .. second or first or second
  end,
}

-- ---- the table

-- Milliseconds of a training step.
local function step_ms(t) return 1e3 * t.seconds / t.step end

-- {head, cell} of each column; a column without a cell is left out. what: the reward's name; k: of
-- NDCG, or nil.
local function columns(base, what, k)
  return {
    {"method", function(run) return run.name end},
    {what, function(run) return ("%.4f"):format(run.evaluation.reward) end},
    {"95 % interval", function(run)
      local e = run.evaluation
      return e.low and ("%.4f - %.4f"):format(e.low, e.high)
    end},
    {"expected", function(run)
      return run.evaluation.expected and ("%.4f"):format(run.evaluation.expected)
    end},
    {k and "NDCG@" .. k or "", function(run)
      local of = k and run.evaluation.ndcg
      return of and ("%.4f"):format(of[k])
    end},
    {"via index", function(run)
      return run.evaluation.reward_index and ("%.4f"):format(run.evaluation.reward_index)
    end},
    {"ms/step", function(run) return run.trainer and ("%.3f"):format(step_ms(run.trainer)) end},
    {"speed-up", function(run)
      return run.trainer and ("%.1f x"):format(step_ms(base) / step_ms(run.trainer))
    end},
  }
end

local two_rewards = {
  reward = "reward: the best item is one that the user took next; expected: an item drawn from the "
           .. "softmax is.",
  value = "value: of the best item, where it is one that the user took next; expected: of an item "
          .. "drawn from the softmax.",
}

-- The same of e.exclude.
local left_out = {seen = "Items seen before are left out.",
                  none = "Items seen before are kept in, as in the paper's R_test."}

local function table_of(runs)
  local base
  for _, run in ipairs(runs) do base = base or run.trainer end
  local rows, has = {{}}, {}
  for i = 1, #runs do rows[i + 1] = {} end
  for _, column in ipairs(columns(base, measure(runs), length_of(runs))) do
    local cells, used = {}, false
    for i, run in ipairs(runs) do
      cells[i] = column[2](run) or ""
      used = used or cells[i] ~= ""
    end
    if used then
      has[column[1]] = true
      table.insert(rows[1], column[1])
      for i, cell in ipairs(cells) do table.insert(rows[i + 1], cell) end
    end
  end
  return text.table(rows), has
end

report.runs = define.fn{
  name = "fopo.report.runs", returns = "string",
  args = {{"runs", "table", nil, "list of {name=, trainer=, evaluation=}"}},
  options = {
    {"split", "split", nil, "adds the rows popular and identity where they are missing"},
    {"verdict", "boolean", true, "end with the sentence of fopo.report.verdict, if there is one"},
  },
  text = [[One line for each run: the test reward by true argmax with its 95 % interval, the
expected reward of its softmax, NDCG at the largest k, the reward through the index, milliseconds a
step, and the speed-up of a step over the first run that was trained. A run without a trainer
(popular, the start, an upper bound) shows its rewards only. Columns that no run fills are left out.
Below stands what the two rewards are, and whether a trained policy fails to beat what nobody
trained.]],
  call = function(runs, o)
    check_runs("fopo.report.runs", runs)
    if o.split then runs = with_baselines(runs, o.split) end
    local shown, has = table_of(runs)
    local parts = {shown}
    local what = measure(runs)
    local note = has.expected and two_rewards[what] or nil
    local seen = left_out[runs[1] and runs[1].evaluation.exclude]
    if seen then note = (note and note .. " " or "") .. seen end
    if note then parts[#parts + 1] = text.page(note, "") end
    local verdict = o.verdict and report.verdict(runs)
    if verdict then parts[#parts + 1] = text.page(verdict, "") end
    return table.concat(parts, "\n")
  end,
}

local gains = require "fopo.gains"
report.groups, report.coverage = gains.groups, gains.coverage

return report
