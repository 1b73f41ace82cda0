-- fopo.demo: the lessons, one step after the other. A lesson (fopo/lessons/*.lua) is data:
--
--   {name =, title =, minutes =, about =, source =, sizes = {users = {20000, 400}, ...},
--    steps = {{title =, text =, code =, ask =, after =, claim =}, ...}, try = {line, ...}}
--
-- The code of a step is shown as it stands and run as it stands, in the globals, so that it cannot
-- say one thing and do another; $users in it is the size of that name, the second one with
-- scale = "small". In the prose {%.2f|expression} is a number of the run, {%,d|expression} one with
-- commas. ask = {question =, choices = {...}, answer = expression} is put between the showing and the
-- running; without choices the answer is a number, and right is what is within `factor` of it. A
-- claim is a list of expressions that must hold after the code: what the prose says is tested, and
-- said where it is not so.
local define = require "fopo.base.define"
local explain = require "fopo.prompt.explain"
local native = require "fopo.native"
local page = require "fopo.view.page"
local text = require "fopo.base.text"

local names = {"arms", "epsilon", "catalogue", "faults", "serving", "logs"}
local kept = {} -- of this session, by name: the result of the last time

local function lesson_of(i) return require("fopo.lessons." .. names[i]) end

local result = {__name = "fopo.lesson"}
result.__index = result

-- ---- expressions and sizes ----

local function value(expression, lesson)
  local f = assert(load("return " .. expression, "=" .. lesson.title, "t", _G))
  return f()
end

-- $name as the size that it stands for, as `write` writes it.
local function sized(s, lesson, scale, write)
  return (s:gsub("%$([%a_]+)", function(name)
    return (write or tostring)(lesson.sizes[name][scale == "small" and 2 or 1])
  end))
end

-- The prose with the numbers of the run in it.
local function filled(prose, r)
  prose = prose:gsub("{(%%[^|}]*)|([^}]*)}", function(format, expression)
    local v = value(sized(expression, r.lesson, r.scale), r.lesson)
    return format == "%,d" and text.count(v) or format:format(v)
  end)
  return sized(prose, r.lesson, r.scale, text.count)
end

-- ---- predictions ----

-- What was typed as a prediction: a number that may be one, or nil and what is asked for.
local function prediction(ask, typed)
  local n = tonumber(typed)
  if ask.choices then
    n = math.tointeger(n)
    if n and ask.choices[n] then return n end
    return nil, ("a number from 1 to %d, or Return for none"):format(#ask.choices)
  end
  if n and n == n then return n end
  return nil, "a number, or Return for none"
end

local function is_right(ask, given, truth)
  if ask.choices or given == truth then return given == truth end
  local ratio = given / truth
  return ratio > 0 and ratio <= ask.factor and ratio >= 1 / ask.factor
end

-- Asks until there is an answer: its number, or nil, or nil and where to go instead.
local function predict(p, ask)
  while true do
    local typed, where = p:read("Your prediction: ")
    if where or typed == "" then return nil, where end
    local n, wanted = prediction(ask, typed)
    if n then return n end
    p:say("Please type " .. wanted .. ".")
  end
end

local function shown(r, ask, n)
  if ask.choices then return ("%d: %s"):format(n, filled(ask.choices[n], r)) end
  return ask.format == "%,d" and text.count(n) or (ask.format or "%.3g"):format(n)
end

-- Compares with what came out, in words, and keeps both.
local function compare(p, r, i, ask, given)
  local truth = value(ask.answer, r.lesson)
  local right = given and is_right(ask, given, truth)
  if not (r.answers[i] and r.answers[i].given) then -- the first one counts
    r.answers[i] = {given = given, truth = truth, right = right}
  end
  local it = ("It is %s"):format(shown(r, ask, truth))
  if not given then p:verdict(it .. ".")
  elseif not right then p:verdict(("You said %s. %s."):format(shown(r, ask, given), it), false)
  elseif ask.choices then p:verdict(it .. ", as you said.", true)
  else p:verdict(("You said %s. %s: close enough."):format(shown(r, ask, given), it), true) end
end

-- ---- a step ----

local function run(p, lesson, i, code)
  local name = ("lesson, step %d"):format(i)
  explain.remember(name, code)
  local chunk = assert(load(code, "=" .. name, "t", _G))
  local began = native.clock()
  io.write("\n")
  chunk()
  p:took(native.clock() - began)
end

local function check_claims(p, r, i, claims)
  for _, claim in ipairs(claims or {}) do
    local holds = value(sized(claim, r.lesson, r.scale), r.lesson)
    r.claims[#r.claims + 1] = {step = i, claim = claim, holds = holds and true or false}
    if not holds then p:verdict(("This time it did not come out so: %s"):format(claim), false) end
  end
end

local function choices_of(r, ask)
  local list = {}
  for i, choice in ipairs(ask.choices or {}) do list[i] = filled(choice, r) end
  return list
end

-- One step from its title to its end; "back" or "leave" where that was asked for.
local function play(p, r, i)
  local lesson, step = r.lesson, r.lesson.steps[i]
  p:title(("%d of %d"):format(i, #lesson.steps), step.title)
  p:prose(filled(step.text, r))
  local code, ask, given = sized(step.code, lesson, r.scale), step.ask, nil
  local where = p:code(code, ask and filled(ask.question, r), ask and choices_of(r, ask))
  if ask and not where and p.asks then given, where = predict(p, ask) end
  if where then return where end
  run(p, lesson, i, code)
  r.steps = math.max(r.steps, i)
  if ask then compare(p, r, i, ask, given) end
  if step.after then p:prose(filled(step.after, r)) end
  check_claims(p, r, i, step.claim)
end

-- ---- a lesson ----

-- The globals that are new or other than before.
local function made_since(before)
  local list = {}
  for name, v in next, _G do
    if type(name) == "string" and rawget(before, name) ~= v then list[#list + 1] = name end
  end
  table.sort(list)
  return table.concat(list, ", ")
end

local function copy_of_globals()
  local before = {}
  for name, v in next, _G do before[name] = v end
  return before
end

-- The steps from `at` on; where the student stopped, or nil at the end.
local function steps(p, r, at)
  while at <= #r.lesson.steps do
    r.at = at
    local where = play(p, r, at)
    if not where and p.asks and at < #r.lesson.steps then
      local typed
      typed, where = p:read("Return goes on, b goes back, q leaves: ")
    end
    if where == "leave" then return end
    at = where == "back" and math.max(1, at - 1) or at + 1
  end
  r.done = true
end

local function ending(p, r, i)
  if r.done then
    p:title("Now you", "lines to paste at the prompt")
    p:code(sized(table.concat(r.lesson.try, "\n"), r.lesson, r.scale))
  end
  local made = made_since(r.before)
  local more = r.done and "" or (" fopo.demo(%d, {from = %d}) goes on from here."):format(i, r.at)
  p:prose(made ~= "" and ("Left for you: %s.%s"):format(made, more) or more)
end

local function teach(i, o)
  local lesson, fopo = lesson_of(i), require "fopo"
  local last = kept[lesson.name]
  if o.from > 1 and (not last or last.steps < o.from - 1) then
    define.fail("fopo.demo: step %d needs what the steps before it make; begin with fopo.demo(%d)",
                o.from, i)
  end
  local r = setmetatable({lesson = lesson, number = i, scale = o.scale, steps = o.from - 1, at = 1,
                          claims = {}, answers = {}, before = copy_of_globals()}, result)
  if o.from > 1 then r.answers, r.before = last.answers, last.before end
  kept[lesson.name] = r
  if rawget(_G, "fopo") == nil then rawset(_G, "fopo", fopo) end
  local p = page.new(o.ask)
  p:head(("Lesson %d: %s"):format(i, lesson.title), lesson.about, lesson.source)
  p:guarded(steps, p, r, o.from)
  ending(p, r, i)
  return r
end

-- ---- what is asked for ----

local function predictions(r)
  local n, right = 0, 0
  for _, a in pairs(r.answers) do
    if a.given then n, right = n + 1, right + (a.right and 1 or 0) end
  end
  return n > 0 and (", %d of %d predictions right"):format(right, n) or ""
end

function result.describe(r)
  local till = r.done and "done" or ("left at step %d of %d"):format(r.at, #r.lesson.steps)
  return ("lesson %d, %s: %s%s"):format(r.number, r.lesson.title, till, predictions(r))
end

local function list()
  local p = page.new(false)
  p:prose("The lessons run offline and leave their variables to you. Each shows its code, asks "
          .. "what you expect, runs it and says what it means.")
  for i, name in ipairs(names) do
    local lesson, r = lesson_of(i), kept[name]
    local state = r and (r.done and ", done" or ", begun") .. predictions(r) or ""
    p:entry(("fopo.demo(%d)"):format(i), lesson.title,
            ("%s (%d min%s)"):format(lesson.about, lesson.minutes, state))
  end
end

-- The number of the lesson that is meant.
local function number_of(which)
  local n = math.tointeger(tonumber(which))
  if n and names[n] then return n end
  local titles = {}
  for i, name in ipairs(names) do
    local title = lesson_of(i).title
    if name == which or title:lower() == tostring(which):lower() then return i end
    titles[i] = name
  end
  local near = type(which) == "string" and define.nearest(which, titles)
  define.fail("there is no lesson %s%s; fopo.demo() lists them", tostring(which),
              near and (", did you mean %q?"):format(near) or "")
end

return define.fn{
  name = "fopo.demo", returns = "lesson",
  args = {{"which", "integer|string", nil, "its number or its name; without one they are listed",
           optional = true}},
  options = {
    {"ask", "boolean", nil, "stop for Return and ask for predictions; where a terminal is there, "
     .. "if left out"},
    {"from", "integer", 1, "the step to begin with, after an earlier visit", min = 1},
    {"scale", "string", "full", "small: fewer items and repeats, for a quick look",
     one_of = {"full", "small"}},
  },
  text = [[A lesson: steps of a few sentences and some code, which is shown as it is run; a question,
whose answer you may predict; the answer, and what it means. Return goes on, b goes back a step, q, Ctrl-C
or Ctrl-D leaves. The variables are globals and stay. Everything is made here from seeds: only times
are other ones on another machine. Returns what happened: r.done, r.answers[step] = {given, truth,
right}, r.claims.]],
  example = "fopo.demo()",
  call = function(which, o)
    if which == nil then return list() end
    return teach(number_of(which), o)
  end,
}
