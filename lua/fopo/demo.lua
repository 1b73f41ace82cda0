-- fopo.demo: the lessons, one step after the other. A lesson (fopo/lessons/*.lua) is data:
--
--   {name =, title =, minutes =, about =, source =, sizes = {users = {20000, 400}, ...},
--    steps = {{title =, text =, code =, ask =, after =, claim =}, ...},
--    exercises = {...} (fopo/exercise.lua), try = {line, ...}}
--
-- The code of a step is shown and then run exactly as it is written, on global variables. $users in
-- it is the size of that name: the first value, or the second with scale = "small". In the prose
-- {%.2f|expression} is a number of the run, {%,d|expression} one with commas. The question of
-- ask = {question =, choices = {...}, answer = expression} comes between the code and its run;
-- without choices the answer is a number, and a prediction within `factor` of it is right. claim is
-- a list of expressions that must hold after the code: they test what the prose says, and a claim
-- that fails is shown to the reader.
local define = require "fopo.base.define"
local exercise = require "fopo.exercise"
local explain = require "fopo.prompt.explain"
local native = require "fopo.native"
local page = require "fopo.view.page"
local text = require "fopo.base.text"

local names = {"arms", "epsilon", "catalogue", "faults", "serving", "logs", "recommend",
               "heart", "tail", "learning", "slates"}
local kept = {} -- lesson name -> its latest result in this session
local left = {} -- global -> the value that a lesson left there

local function lesson_of(i) return require("fopo.lessons." .. names[i]) end

local result = {__name = "fopo.lesson"}
result.__index = result

-- ---- expressions and sizes ----

local function value(expression, lesson)
  local f = assert(load("return " .. expression, "=" .. lesson.title, "t", _G))
  return f()
end

-- Replaces every $name in s by that size, formatted by `write`.
local function sized(s, lesson, scale, write)
  return (s:gsub("%$([%a_]+)", function(name)
    return (write or tostring)(lesson.sizes[name][scale == "small" and 2 or 1])
  end))
end

-- The prose with the numbers of the run filled in.
local function filled(prose, r)
  prose = prose:gsub("{(%%[^|}]*)|([^}]*)}", function(format, expression)
    local v = value(sized(expression, r.lesson, r.scale), r.lesson)
    return format == "%,d" and text.count(v) or format:format(v)
  end)
  return sized(prose, r.lesson, r.scale, text.count)
end

-- ---- predictions ----

-- The prediction that was typed, as a number; or nil and what should be typed instead.
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

-- Asks until the answer is valid. Returns its number; nil if there is none; or nil and "back" or
-- "leave".
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

-- Compares the prediction with the true answer, in words, and keeps both.
local function compare(p, r, i, ask, given)
  local truth = value(ask.answer, r.lesson)
  local right = given and is_right(ask, given, truth)
  if not (r.answers[i] and r.answers[i].given) then -- the first prediction counts
    r.answers[i] = {given = given, truth = truth, right = right}
  end
  local it = ("It is %s"):format(shown(r, ask, truth))
  if not given then p:verdict(it .. ".")
  elseif not right then p:verdict(("You said %s. %s."):format(shown(r, ask, given), it), false)
  elseif ask.choices then p:verdict(it .. ", as you said.", true)
  else p:verdict(("You said %s. %s: close enough."):format(shown(r, ask, given), it), true) end
end

-- ---- a step ----

local function run(p, i, code)
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
    if not holds then p:verdict(("This time it is not so: %s"):format(claim), false) end
  end
end

local function choices_of(r, ask)
  local list = {}
  for i, choice in ipairs(ask.choices or {}) do list[i] = filled(choice, r) end
  return list
end

-- One step, from its title to its end. Returns "back" or "leave" if the reader typed b or q.
local function play(p, r, i)
  local lesson, step = r.lesson, r.lesson.steps[i]
  p:title(("%d of %d"):format(i, #lesson.steps), step.title)
  p:prose(filled(step.text, r))
  local code, ask, given = sized(step.code, lesson, r.scale), step.ask, nil
  local where = p:code(code, ask and filled(ask.question, r), ask and choices_of(r, ask))
  if ask and not where and p.asks then given, where = predict(p, ask) end
  if where then return where end
  run(p, i, code)
  r.steps = math.max(r.steps, i)
  if ask then compare(p, r, i, ask, given) end
  if step.after then p:prose(filled(step.after, r)) end
  check_claims(p, r, i, step.claim)
end

-- ---- a lesson ----

-- The names of the globals that are new or have changed.
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

-- Plays the steps from `at` on. r.at is the step where the reader left, r.done is true at the end.
local function steps(p, r, at)
  while at <= #r.lesson.steps do
    r.at = at
    local where = play(p, r, at)
    if not where and p.asks then
      where = select(2, p:read("Return goes on, b goes back, q leaves: "))
    end
    if where == "leave" then return end
    at = where == "back" and math.max(1, at - 1) or at + 1
  end
  r.done = true
end

-- Asks for what stands in the hole of exercise i until it is right or nothing is typed. Returns
-- "back" or "leave" if that was typed.
local function solve(p, r, i, texts)
  while true do
    local typed, where = p:read("In place of ___: ")
    if where then return where end
    if typed == "" then
      p:verdict(("One answer: %s"):format(r.lesson.exercises[i].answer))
      return
    end
    local right, sentence = exercise.judge(r.lesson, i, typed, texts)
    if r.solved[i] == nil then r.solved[i] = right end -- the first answer counts
    p:verdict(sentence, right)
    if right then return end
  end
end

local function exercises(p, r)
  local list, texts = r.lesson.exercises, {}
  function texts.code(s) return sized(s, r.lesson, r.scale) end
  function texts.prose(s) return filled(s, r) end
  exercise.offer(r.lesson, texts)
  local i = 1
  while i <= #list do
    p:title(("Now you, %d of %d"):format(i, #list), "fill the hole, ___")
    p:prose(texts.prose(list[i].text))
    local where = p:code(texts.code(list[i].code))
    if p.asks and not where then where = solve(p, r, i, texts) end
    if where == "leave" then return end
    i = where == "back" and math.max(1, i - 1) or i + 1
  end
  p:prose("fopo.check_answer(1, \"...\") takes another answer.")
end

local function ending(p, r, i)
  if r.done then
    exercises(p, r)
    p:title("And then", "lines to paste at the prompt")
    p:code(sized(table.concat(r.lesson.try, "\n"), r.lesson, r.scale))
  end
  local made = made_since(r.before)
  local more = r.done and "" or (" fopo.demo(%d, {from = %d}) goes on from here."):format(i, r.at)
  p:prose(made ~= "" and ("Left for you: %s.%s"):format(made, more) or more)
end

-- ---- the user's variables ----

-- The globals that the code of a lesson assigns, in their order.
local function assigned(lesson)
  local list, seen = {}, {}
  local function look(code)
    for line in code:gmatch("[^\n]+") do
      local words = not line:find("^for%f[%W]") and line:match("^([%a_][%w_, ]*)=[^=]")
                    or line:match("^function ([%w_]+)") or ""
      for name in words:gmatch("[%w_]+") do
        if not seen[name] then list[#list + 1] = name end
        seen[name] = true
      end
    end
  end
  for _, step in ipairs(lesson.steps) do look(step.code) end
  for _, it in ipairs(lesson.exercises) do look(it.code) end
  return list
end

-- Those of them that hold something of the user's: not a module, nor what a lesson left there.
local function in_the_way(lesson)
  local list, fopo = {}, require "fopo"
  for _, name in ipairs(assigned(lesson)) do
    local v = rawget(_G, name)
    if v ~= nil and v ~= left[name] and v ~= rawget(fopo, name) then list[#list + 1] = name end
  end
  return list
end

-- Puts the user's variables that the lesson assigns into the table `mine`, once the reader agrees;
-- returns "leave" if not.
local function make_room(p, lesson)
  local taken = in_the_way(lesson)
  if #taken == 0 then return end
  local several = #taken > 1
  p:prose(("The lesson assigns %s, where you have %s of your own. %s kept in the table mine: "
           .. "mine.%s."):format(table.concat(taken, ", "),
           several and "values" or "a value", several and "They are" or "It is", taken[1]))
  if p.asks then
    local _, where = p:read("Return goes on, q leaves: ")
    if where then return "leave" end
  end
  local mine = rawget(_G, "mine")
  if type(mine) ~= "table" then mine = {mine = mine} end
  for _, name in ipairs(taken) do mine[name] = rawget(_G, name) end
  rawset(_G, "mine", mine)
end

-- Notes what the lesson leaves in its variables: another lesson may assign them.
local function note_left(lesson)
  for _, name in ipairs(assigned(lesson)) do left[name] = rawget(_G, name) end
end

local function teach(i, o)
  local lesson, fopo = lesson_of(i), require "fopo"
  local last = kept[lesson.name]
  if o.from > 1 and (not last or last.steps < o.from - 1) then
    define.fail("fopo.demo: step %d needs the variables of the steps before it; begin with "
                .. "fopo.demo(%d)", o.from, i)
  end
  local r = setmetatable({lesson = lesson, number = i, scale = o.scale, steps = o.from - 1, at = 1,
                          claims = {}, answers = {}, solved = {}}, result)
  if o.from > 1 then r.answers = last.answers end
  if rawget(_G, "fopo") == nil then rawset(_G, "fopo", fopo) end
  local p = page.new(o.ask)
  if make_room(p, lesson) == "leave" then return r end
  kept[lesson.name], r.before = r, o.from > 1 and last.before or copy_of_globals()
  p:head(("Lesson %d: %s"):format(i, lesson.title), lesson.about, lesson.source)
  local _ <close> = setmetatable({}, {__close = function() note_left(lesson) end})
  p:guarded(function() steps(p, r, o.from) end)
  ending(p, r, i)
  return r
end

-- ---- fopo.demo ----

-- ", 3 of 4 predictions right, 1 of 2 exercises", or "" if there was none.
local function predictions(r)
  local n, right, tried, solved = 0, 0, 0, 0
  for _, a in pairs(r.answers) do
    if a.given then n, right = n + 1, right + (a.right and 1 or 0) end
  end
  for _, ok in pairs(r.solved) do tried, solved = tried + 1, solved + (ok and 1 or 0) end
  return (n > 0 and (", %d of %d predictions right"):format(right, n) or "")
    .. (tried > 0 and (", %d of %d exercises"):format(solved, tried) or "")
end

function result.describe(r)
  local till = r.done and "done" or ("left at step %d of %d"):format(r.at, #r.lesson.steps)
  return ("lesson %d, %s: %s%s"):format(r.number, r.lesson.title, till, predictions(r))
end

local function list()
  local p = page.new(false)
  p:prose("The lessons run offline and leave their variables to you. Each step shows its code, "
          .. "asks what you expect, runs the code and says what the result means.")
  for i, name in ipairs(names) do
    local lesson, r = lesson_of(i), kept[name]
    local state = r and (r.done and ", done" or ", begun") .. predictions(r) or ""
    p:entry(("fopo.demo(%d)"):format(i), lesson.title,
            ("%s (%d min%s)"):format(lesson.about, lesson.minutes, state))
  end
end

-- The number of a lesson that is given by number, name or title.
local function number_of(which)
  local n = math.tointeger(tonumber(which))
  if n and names[n] then return n end
  local titles = {}
  for i, name in ipairs(names) do
    local title = lesson_of(i).title
    if name == which or title:lower() == tostring(which):lower() then return i end
    titles[i] = name
  end
  define.fail("there is no lesson %s%s; fopo.demo() lists them", tostring(which),
              define.meant(which, titles, ", did you mean %q?"))
end

return define.fn{
  name = "fopo.demo", returns = "lesson",
  args = {{"which", "integer|string", nil, "number or name of a lesson; lists them if left out",
           optional = true}},
  options = {
    {"ask", "boolean", nil, "stop for Return and ask for predictions; true at a terminal if left "
     .. "out"},
    {"from", "integer", 1, "the step to begin with, once the steps before it have run", min = 1},
    {"scale", "string", "full", "small: fewer items and repeats, for a quick look",
     one_of = {"full", "small"}},
  },
  text = [[A lesson in steps. Each has a few sentences, some code, a question whose answer you may
predict, the run of the code, and what its result means. At the end are two exercises, code with a
hole that you fill and that is checked. Return goes on, b goes back a step; q, Ctrl-C or Ctrl-D
leaves. The variables are globals and stay; what you have under the same names is
kept in the table mine. All data are made from seeds, so only
times differ on another machine. Returns the result: r.done, r.answers[step] = {given, truth,
right}, r.solved[exercise], r.claims.]],
  example = "fopo.demo()",
  call = function(which, o)
    if which == nil then return list() end
    return teach(number_of(which), o)
  end,
}
