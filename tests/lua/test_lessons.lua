-- Every lesson to its end without a keyboard: the code that is shown is the code that runs, and
-- what the prose claims holds.
local lu = require "luaunit"
local fopo = require "fopo"

local lessons = 11

-- As at the prompt: fopo's modules are globals.
local modules = {fopo = fopo}
for name, module in pairs(fopo) do
  if rawget(_G, name) == nil then modules[name] = module end
end
for name, module in pairs(modules) do rawset(_G, name, module) end
local own = {} -- what a lesson must leave as it is
for name, v in pairs(_G) do
  if name ~= "_G" and name ~= "print" then own[name] = v end
end

-- What f prints, and what it returns.
local function printed(f, ...)
  local parts, write, show = {}, io.write, print
  io.write = function(...)
    for _, s in ipairs{...} do parts[#parts + 1] = tostring(s) end
    return io.stdout
  end
  print = function(...)
    local line = table.pack(...)
    for i = 1, line.n do line[i] = tostring(line[i]) end
    io.write(table.concat(line, "\t"), "\n")
  end
  local results = table.pack(pcall(f, ...))
  io.write, print = write, show
  lu.assertTrue(results[1], results[2])
  return table.concat(parts), table.unpack(results, 2, results.n)
end

local function lines_of(s) return (s .. "\n"):gmatch("([^\n]*)\n") end

local function sized(lesson, s, which)
  return (s:gsub("%$([%a_]+)", function(name) return tostring(lesson.sizes[name][which]) end))
end

-- Answers that are wrong, of each lesson's two exercises.
local wrong = {
  arms = {"pays[a] - earned", "q / math.exp(f)"},
  epsilon = {"sum / squares", "math.max(eps / P, (1 - eps) * kappa)"},
  catalogue = {"B * S + K", "n * ms / 3600"},
  faults = {"f + log_q", "sd / n"},
  serving = {"found[u]", "b <= best"},
  logs = {"pi_a / p", "expects + w * r"},
  recommend = {"math.exp(score)", [["seen"]]},
  heart = {"h.reward[1]", "valid[i] > valid[1]"},
  tail = {"math.exp(f) / U", "16"},
  learning = {"earned / #w", "w * r / (1 + lambda)"},
  slates = {"p[a]", "v / j"},
}

-- The exercises take the lesson's answer, and neither a wrong one nor what is no Lua.
local function exercises(lesson)
  lu.assertEquals(#lesson.exercises, 2)
  for n, it in ipairs(lesson.exercises) do
    for line in lines_of(it.code) do lu.assertTrue(#line <= 77, "too wide: " .. line) end
    local said, right = printed(fopo.check_answer, n, wrong[lesson.name][n])
    lu.assertFalse(right, lesson.name .. " takes " .. wrong[lesson.name][n])
    lu.assertStrContains(said, "Not yet. ")
    lu.assertFalse(select(2, printed(fopo.check_answer, n, "1 +")))
    lu.assertFalse(select(2, printed(fopo.check_answer, n, "nil .. 1")))
    said, right = printed(fopo.check_answer, n, it.answer)
    lu.assertTrue(right, lesson.name .. ": " .. said)
    lu.assertStrContains(said, "Right. ")
    lu.assertNil(said:find("[${]"), said)
  end
  lu.assertErrorMsgContains("has 2 exercises, not 3", fopo.check_answer, 3, "1")
end

-- Enters the lines as at the prompt: an entry ends where it is whole.
local function try(lines)
  local entry = ""
  for line in lines_of(lines) do
    lu.assertTrue(#line <= 77, "too wide for a terminal: " .. line)
    entry = entry .. line .. "\n"
    local chunk = load("return " .. entry, "=try yourself") or load(entry, "=try yourself")
    if chunk then
      printed(chunk)
      entry = ""
    end
  end
  lu.assertEquals(entry, "")
end

-- The lesson runs through; returns it and what happened.
local function run(i)
  local began = fopo.clock()
  local shown, r = printed(fopo.demo, i, {ask = false, scale = "small"})
  local lesson = r.lesson
  print(("lesson %d, %s: %s"):format(i, lesson.name, ("%.1f s"):format(fopo.clock() - began)))
  lu.assertTrue(r.done)
  lu.assertEquals(r.steps, #lesson.steps)
  lu.assertNil(shown:find("$", 1, true), "a size that was not put in")
  lu.assertNil(shown:find("{%", 1, true), "a number that was not put in")
  lu.assertTrue(#r.claims >= 3)
  for _, c in ipairs(r.claims) do
    lu.assertTrue(c.holds, ("lesson %d, step %d: %s"):format(i, c.step, c.claim))
  end
  for n, step in ipairs(lesson.steps) do
    for line in lines_of(step.code) do
      lu.assertTrue(#sized(lesson, line, 1) <= 77, "too wide for a terminal: " .. line)
      local as_run = sized(lesson, line, 2)
      lu.assertTrue(line == "" or shown:find("\n  " .. as_run, 1, true) ~= nil, line)
    end
    if step.ask then lu.assertNotNil(r.answers[n].truth) end
    if step.ask and step.ask.choices then
      lu.assertNotNil(step.ask.choices[r.answers[n].truth], "the answer is none of the choices")
    end
  end
  for name, v in pairs(own) do
    lu.assertTrue(rawequal(_G[name], v), name .. " was overwritten")
  end
  exercises(lesson)
  try(sized(lesson, table.concat(lesson.try, "\n"), 2))
end

TestLessons = {}

function TestLessons:test_list()
  local shown = printed(fopo.demo)
  for i = 1, lessons do lu.assertStrContains(shown, ("fopo.demo(%d)"):format(i)) end
end

function TestLessons:test_names()
  local shown = printed(fopo.demo, "ten arms", {ask = false, scale = "small"})
  lu.assertStrContains(shown, "Lesson 1: Ten arms")
  lu.assertErrorMsgContains('did you mean "arms"', fopo.demo, "arm")
  lu.assertErrorMsgContains("there is no lesson 12", fopo.demo, 12)
end

function TestLessons:test_from()
  lu.assertErrorMsgContains("begin with fopo.demo(1)", fopo.demo, 1, {from = 8})
end

for i = 1, lessons do
  TestLessons["test_runs_" .. i] = function() run(i) end
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
