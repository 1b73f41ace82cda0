-- fopo.compare: the results of several runs side by side, with confidence intervals.
local define = require "fopo.base.define"
local log = require "fopo.run.log"
local proportion = require "fopo.base.proportion"
local text = require "fopo.base.text"
local validation = require "fopo.run.validation"

-- {name, history, contexts, holds} of the i-th run that was given: a folder of logs or a trainer.
-- contexts: those that the validation is a share of; nil where it is none, as the mean of values.
-- holds: what the policy holds, {step, valid}, where records may be judged by a sample of these.
local function run_of(given, i)
  if type(given) == "string" then
    local run = log.read(given)
    return {name = given:match("([^/]+)/*$"), history = run.history,
            contexts = run.config.valid_contexts, holds = run.holds}
  end
  local t = define.kind(given) == "trainer" and given or
    type(given) == "table" and rawget(given, "trainer") or nil
  if not t then
    define.fail("fopo.compare: run %d is %s; give a folder of logs or a trainer", i,
                define.a(given))
  end
  local name = rawget(given, "name") or t.gradient:describe():gsub("^gradient ", "")
  return {name = name, history = t.history, contexts = validation.contexts(t),
          holds = t.valid_automatic and validation.holds(t) or nil}
end

-- The last value of a column that is not NaN, and its place.
local function last_of(list)
  for i = list and #list or 0, 1, -1 do
    if list[i] == list[i] then return list[i], i end
  end
end

-- The largest value of a column, and its place.
local function best_of(list)
  local best, at
  for i, v in ipairs(list or {}) do
    if v == v and (not best or v > best) then best, at = v, i end
  end
  return best, at
end

-- The figures of a run's last record and of its best one; nil if the run lacks a column.
local function summary(run)
  local h = run.history
  local s = {name = run.name, contexts = run.contexts, records = h.step and #h.step or 0}
  s.steps, s.seconds = last_of(h.step), last_of(h.seconds)
  s.reward, s.valid, s.valid_index = last_of(h.reward), last_of(h.valid), last_of(h.valid_index)
  local best, at = best_of(h.valid)
  local shown = run.holds or {valid = best, step = at and h.step[at]}
  s.best, s.best_step = shown.valid, shown.step
  if s.best and s.contexts then s.low, s.high = proportion.wilson(s.best, s.contexts) end
  return s
end

local function cell(format, v) return v and format:format(v) or "" end

local function row_of(s, base)
  local row = {s.name, s.steps and text.count(s.steps) or "0",
               s.seconds and text.seconds(s.seconds) or "", cell("%.4f", s.reward),
               cell("%.4f", s.best), s.low and ("%.4f - %.4f"):format(s.low, s.high) or "",
               s.best_step and text.count(s.best_step) or "", cell("%.4f", s.valid_index), ""}
  if base ~= s and s.low and base.low then
    local low, high = proportion.difference(s.best, s.contexts, base.best, base.contexts)
    row[9] = ("%+.4f (%+.4f, %+.4f)%s"):format(s.best - base.best, low, high,
                                               (low > 0 or high < 0) and " *" or "")
  end
  return row
end

-- The rows without columns that are empty in all of them.
local function without_empty(rows)
  local kept = {}
  for i in ipairs(rows) do kept[i] = {} end
  for c = 1, #rows[1] do
    local some = c == 1
    for i = 2, #rows do some = some or rows[i][c] ~= "" end
    for i, row in ipairs(some and rows or {}) do kept[i][#kept[i] + 1] = row[c] end
  end
  return kept
end

-- The rows as text. Where that is wider than the terminal, runs have numbers, and below stand their
-- names and the differences, the last column.
local function as_text(rows)
  local whole = text.table(without_empty(rows))
  if text.fits(whole) then return whole end
  local below = {}
  for i, row in ipairs(rows) do
    local against = table.remove(row)
    if i > 1 then
      local more = against ~= "" and ("; against 1: %s"):format(against) or ""
      below[i - 1] = text.page(("%d: %s%s"):format(i - 1, row[1], more), "   ")
      row[1] = tostring(i - 1)
    end
  end
  return text.table(without_empty(rows)) .. "\n" .. table.concat(below, "\n")
end

return define.fn{
  name = "fopo.compare", returns = "list",
  args = {{"runs", "table", nil, "folders of logs, trainers, or {name =, trainer =}"}},
  text = [[Prints one line for each run: its steps and seconds, the training reward of its last
record, its best validation with Wilson's 95 % interval (not on a log, nor by value, where it is
no share) and the step of it, the last validation through the index, and the difference from the
first run with Newcombe's 95 % interval. Records of a trainer whose validation is left to it may be
judged by a sample; of such a run the best validation is that of the parameters that its policy
holds, judged by all (of a folder, once the run has come to its end). A star says that the interval
excludes 0. It treats the two samples as independent, so it is wider than necessary if both runs
were validated on the same sessions. The reward is that of the run's validation, with the items of X
left out unless its trainer has exclude = "none". Returns the figures.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items = fopo.embed.svd(s.train, {dim = 8})
runs = {}
for _, samples in ipairs{20, 100} do
  t = fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train, valid = s.valid,
                   gradient = fopo.gradient.snis{samples = samples}}
  runs[#runs + 1] = t:run{steps = 20, view = false}
end
fopo.compare(runs)]],
  call = function(runs)
    if #runs == 0 then define.fail("fopo.compare: the list of runs is empty; give at least one") end
    local list = {}
    local rows = {{"run", "steps", "time", "train", "best valid", "95 % interval", "at step",
                   "via index", "against the first"}}
    for i, one in ipairs(runs) do
      list[i] = summary(run_of(one, i))
      rows[i + 1] = row_of(list[i], list[1])
    end
    print(as_text(rows))
    return list
  end,
}
