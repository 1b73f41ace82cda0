-- fopo.explain: how a run stands, in sentences made of its history and its notes.
local define = require "fopo.base.define"
local native = require "fopo.native"
local norms = require "fopo.run.norms"
local notes = require "fopo.run.notes"
local page = require "fopo.view.page"
local proportion = require "fopo.base.proportion"
local term = require "fopo.term"
local text = require "fopo.base.text"
local validation = require "fopo.run.validation"

-- The first and the last record that has a finite value in the column: {value, step}, or nil.
local function ends_of(h, column)
  local list, first, last = h[column] or {}, nil, nil
  for n = 1, #(h.step or {}) do
    if text.finite(list[n]) then
      last = {value = list[n], step = h.step[n]}
      first = first or last
    end
  end
  return first, last
end

-- "0.4231 (0.3811 - 0.4662)": with the interval if it is a share of n contexts.
local function with_interval(value, n)
  if not n or n < 1 or value < 0 or value > 1 then return ("%.4f"):format(value) end
  return ("%.4f (%.4f - %.4f)"):format(value, proportion.wilson(value, n))
end

-- ---- the sentences; each is nil where the history says nothing ----

local function progress(t)
  local passes = (", %.3g passes over the data"):format(t.step / t.steps_per_epoch)
  local seconds = select(2, ends_of(t.history, "seconds"))
  local spent = seconds and (", in %s of training"):format(text.seconds(seconds.value)) or ""
  return ("The run has made %s step%s%s%s."):format(text.count(t.step), t.step == 1 and "" or "s",
    passes, spent)
end

-- Whether the last reward differs from the first by more than chance, in words.
local function change(first, last, n)
  if not n then return "" end
  local low, high = proportion.difference(last, n, first, n)
  if low > 0 then return ": it has risen by more than chance" end
  if high < 0 then return ": it has fallen by more than chance" end
  return ": a difference that chance can make"
end

-- What the run is compared with: {value, step, name} of a column, of the parameters before the
-- first step, else of the first record.
local function before_of(t, column, worth)
  local start, first = t.began, ends_of(t.history, column)
  if start and text.finite(start[worth]) then
    return {value = start[worth], step = start.step,
            name = start.step == 0 and "the start" or "step " .. text.count(start.step)}
  end
  if not first then return nil end
  return {value = first.value, step = first.step,
          name = ("the first record, of step %s,"):format(text.count(first.step))}
end

local function validated(t)
  local first, now = before_of(t, "valid", "valid"), validation.holds(t)
  if not now then
    return "It is not validated: give fopo.trainer valid = s.valid to know what it earns on users "
           .. "that it has not seen."
  end
  local n = validation.contexts(t)
  local on = n and (" of %s contexts"):format(text.count(n)) or ""
  if first.step == now.step then
    return ("The reward on validation%s is %s, at step %s."):format(on,
      with_interval(now.valid, n), text.count(now.step))
  end
  return ("The reward on validation%s is %s with the parameters of step %s; %s has %s%s."):format(
    on, with_interval(now.valid, n), text.count(now.step), first.name,
    with_interval(first.value, n), change(first.value, now.valid, n))
end

local function expected(t)
  local first = before_of(t, "valid_expected", "expected")
  local _, last = ends_of(t.history, "valid_expected")
  if not last or first.step == last.step then return nil end
  local title = native.gradient_common(t.gradient, "objective_title")
  return ("The %s there, which training raises, went from %.4f at %s to %.4f at step "
          .. "%s."):format(title, first.value, first.name:gsub(",$", ""), last.value,
    text.count(last.step))
end

local function samples(t)
  local _, last = ends_of(t.history, "ess")
  local S = native.gradient_common(t.gradient, "samples")
  local _, size = ends_of(t.history, "head")
  if not last then return nil end
  if size and t.gradient.tail then
    local shared = norms.shared(t, size.value)
    local k = native.gradient_common(t.gradient, "k")
    return ("The effective sample size is %.3g, of %s %s and %s draws from the tail."):format(
      last.value, text.count(shared or k), shared and "items in the head"
      or "candidates of each context", text.count(t.gradient.tail))
  end
  if not S or S <= 1 then
    return ("The effective sample size is %.3g."):format(last.value)
  end
  return ("The effective sample size is %.3g of S = %s samples, %.3g %%: so many equal draws the "
          .. "weighted ones are worth."):format(last.value, text.count(S), 100 * last.value / S)
end

local function head(t)
  local _, size = ends_of(t.history, "head")
  local _, share = ends_of(t.history, "held")
  if not size or not share then return nil end
  local way = not norms.shared(t, size.value) and norms.way(t, size.value)
  if way then
    local _, mass = ends_of(t.history, "head_mass")
    return mass and ("Few large norms do not hold the mass, so candidates are found %s; they hold "
                     .. "%.3g %% of the policy."):format(way, 100 * mass.value)
  end
  return ("The head chosen by mass has %s items, which hold %.3g %% of the policy."):format(
    text.count(size.value), 100 * share.value)
end

-- What of a policy that learns from a log lies where the log has something to say.
local function explored(t)
  local share, warning = notes.shown(t)
  if not share then return nil end
  for _, note in ipairs(t.notes or {}) do if note == warning then return nil end end -- said below
  if warning then return warning .. "." end
  return ("%.3g %% of the policy is on actions that the log shows."):format(100 * share)
end

local function speed(t)
  local _, rate = ends_of(t.history, "steps_per_second")
  if not rate then return nil end
  local batch = t.batch and (", %s contexts"):format(text.count(rate.value * t.batch)) or ""
  return ("It makes %s steps%s a second, on %s."):format(text.count(rate.value), batch,
    tostring(t.device))
end

-- What to try next: the run's own notes, else what its history suggests.
local function advice(t)
  if t.notes and #t.notes > 0 then
    return "Noted at the end: " .. table.concat(t.notes, ". ") .. "."
  end
  local flat = norms.uniform(t)
  if flat then return "Next: " .. flat .. "." end
  local first = before_of(t, "valid_expected", "expected")
  local _, last = ends_of(t.history, "valid_expected")
  if first and last and last.value > first.value then
    if not t.best_step or t.best_step == t.step then
      return "Next: it still learns, so t:run{epochs = 20} goes on from here; then "
             .. "evaluate(t.policy, s.test)."
    end
  end
  return "Next: evaluate(t.policy, s.test) judges it on users held back until now; "
         .. "fopo.tune{data = s.train} searches for better settings."
end

local function sentences(t)
  if t.step == 0 or #(t.history.step or {}) == 0 then
    local flat = norms.unknown(t) and norms.uniform(t)
    return {flat and "Before a step is made: " .. flat .. "."
            or "The run has made no step yet: t:run{epochs = 20} begins it."}
  end
  local list = {}
  for _, say in ipairs{progress, validated, expected, samples, head, explored, speed, advice} do
    list[#list + 1] = say(t)
  end
  return list
end

local function of_dataset(d)
  local list = native.malformed_rows(d)
  table.insert(list, 1, tostring(d))
  if d.malformed > #list - 1 and #list > 1 then
    list[#list + 1] = ("and %s more"):format(text.count(d.malformed - #list + 1))
  end
  return list
end

return define.fn{
  name = "fopo.explain",
  args = {{"t", "trainer|job|dataset", nil, "a run, or a dataset that was read"}},
  text = [[Says in sentences how a run stands: the reward on validation now and before its first
step, with 95 % intervals, the effective sample size, the head chosen by mass, the speed, and what
to try next, from t.history and t.notes; of a run that learns from a log also what share of the
policy is on actions that the log never shows, from 256 of its events. Of a dataset: what it holds,
which rows were left out for what reason, and what is wrong with the first three malformed ones.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items = fopo.embed.svd(s.train, {dim = 8})
t = fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train}
fopo.explain(t:run{steps = 20, view = false})]],
  call = function(t)
    if define.kind(t) == "job" then t = t.trainer end
    local room = math.max(40, math.min(100, term.width())) - 1
    local list = define.kind(t) == "dataset" and of_dataset(t) or sentences(t)
    for i, sentence in ipairs(list) do list[i] = text.fill(sentence, room, "  ") end
    page.out(table.concat(list, "\n"))
  end,
}
