-- The exercises of a lesson: code with a hole, ___, that the reader fills. A row of `exercises` in
-- fopo/lessons/*.lua is
--
--   {text =, code =, answer =, claim = {...}, hint =, after =}
--
-- An answer is Lua that takes the hole's place. The code is run with it, and the claims, which are
-- expressions over what the code leaves, must hold: so whatever computes the same is right.
-- `answer` is one that is; `hint` is said of every other, `after` of a right one.
local define = require "fopo.base.define"
local explain = require "fopo.prompt.explain"
local text = require "fopo.base.text"

local exercise = {}
local open -- the lesson that was played to its end last, and its texts

-- texts: code(s) puts sizes into code, prose(s) sizes and numbers of the run into a sentence.

-- Whether a typed answer is right, and the sentence about it.
function exercise.judge(lesson, i, typed, texts)
  local it, name = lesson.exercises[i], ("lesson, exercise %d"):format(i)
  local code = texts.code(it.code):gsub("___", (typed:gsub("%%", "%%%%")))
  local chunk, why = load(code, "=" .. name, "t", _G)
  if not chunk then return false, "That is not Lua: " .. why .. "." end
  explain.remember(name, code)
  local ran, raised = pcall(chunk)
  if not ran then return false, "It stops with an error: " .. tostring(raised) .. "." end
  for _, claim in ipairs(it.claim) do
    local held, holds = pcall(assert(load("return " .. texts.code(claim), "=" .. name, "t", _G)))
    if not (held and holds) then return false, "Not yet. " .. texts.prose(it.hint) end
  end
  return true, "Right. " .. texts.prose(it.after)
end

-- Makes the exercises of a lesson those of fopo.check_answer.
function exercise.offer(lesson, texts) open = {lesson = lesson, texts = texts} end

exercise.check_answer = define.fn{
  name = "fopo.check_answer", returns = "boolean",
  args = {{"exercise", "integer", nil, "1 or 2, as the end of the lesson numbers them"},
          {"answer", "string", nil, "Lua, in the place of ___"}},
  text = [[Whether an answer to an exercise of the lesson that was played last is right. The code of
the exercise is run with the answer in the place of ___, and what it computes is looked at, so there
is more than one right answer. What is wrong is said, with a hint. At a terminal the lesson asks for
the answers itself, at its end.]],
  example = [[fopo.demo("arms", {ask = false, scale = "small"})
assert(fopo.check_answer(1, "prob[a] * (pays[a] - earned)"))]],
  call = function(i, typed)
    if not open then
      define.fail("fopo.check_answer: no lesson has been played to its end; fopo.demo() lists them")
    end
    if not open.lesson.exercises[i] then
      define.fail("fopo.check_answer: lesson %q has %d exercises, not %d", open.lesson.title,
                  #open.lesson.exercises, i)
    end
    local right, sentence = exercise.judge(open.lesson, i, typed, open.texts)
    print(text.page(sentence, ""))
    return right
  end,
}

return exercise
