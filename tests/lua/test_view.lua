-- The screens of the live view from made-up numbers, compared with those in tests/golden (write
-- them anew with FOPO_GOLDEN=write), and what its keys do, without any terminal.
local lu = require "luaunit"
local fopo = require "fopo"
local term = require "fopo.term"

local golden = (arg[0]:match("^(.*/)lua/") or "tests/") .. "golden/"

-- A run as it might be.
local function model(options)
  local v = term.view{}
  for i = 1, 3000 do
    local seconds, reward = i * 0.05, 0.2 * (1 - math.exp(-i / 600))
    v:add("reward", i * 10, seconds, reward + 0.02 * math.sin(i * i * 0.37))
    v:add("rate", i * 10, seconds, 40000 + 3000 * math.sin(i * 0.01) + 1000 * math.sin(i * 1.7))
    if i % 300 == 0 then
      v:add("valid", i * 10, seconds, reward + 0.01)
      v:add("valid_index", i * 10, seconds, reward - 0.005)
    end
  end
  local steps, times, rewards = {}, {}, {}
  for i = 1, 100 do
    steps[i], times[i], rewards[i] = i * 300, i * 1.5, 0.15 * (1 - math.exp(-i / 20))
  end
  lu.assertTrue(v:overlay("before", steps, times, rewards))
  v:set{title = "snis: S 1000, proposal mixture: K 256", state = "running", step = 30000,
        steps = 100000, seconds = 150, eta = 350, reward = 0.19876, valid = 0.2012,
        valid_index = 0.1951, best = 0.2012, best_step = 30000, contexts_rate = 41234,
        steps_rate = 1288.6, ess = 431.2, samples = 1000, max_weight = 0.0123, epsilon = 0.8,
        k = 256, head_mass = 0.634, norm = 1.234e-3, lr = 1e-4, memory = 812e6,
        memory_free = 15.2e9, cost = 0.0042, device = "CPU, 2 threads, avx512"}
  v:phases{search = 1, propose = 2, reward = 3, gradient = 4, update = 0.3}
  v:say("step 29,000 reward 0.1985\nsaid by \27[31manother\27[0m library")
  v:set(options or {})
  return v
end

local function compare(name, text)
  if os.getenv("FOPO_GOLDEN") == "write" then
    local f = assert(io.open(golden .. name, "w"))
    f:write(text)
    f:close()
  end
  local f = assert(io.open(golden .. name, "r"))
  local wanted = f:read("a")
  f:close()
  lu.assertEquals(text, wanted, name)
end

-- Every line of a screen fits, and there are as many as it has.
local function fits(text, rows, cols)
  local n = 0
  for line in text:gmatch("(.-)\n") do
    n = n + 1
    lu.assertTrue(utf8.len(line) <= cols, line)
  end
  lu.assertEquals(n, rows)
end

TestScreens = {}

function TestScreens:test_sizes()
  for _, glyphs in ipairs{"braille", "ascii"} do
    local v = model{glyphs = glyphs}
    for _, size in ipairs{{1, 20}, {1, 80}, {3, 30}, {5, 20}, {8, 40}, {24, 80}, {60, 200}} do
      local text = v:render("text", size[1], size[2])
      fits(text, size[1], size[2])
      compare(("view-%dx%d-%s.txt"):format(size[2], size[1], glyphs), text)
      if glyphs == "ascii" then lu.assertNil(text:find("[\128-\255]")) end
    end
  end
end

function TestScreens:test_settings()
  compare("view-block.txt", model{glyphs = "block", smoothing = 0.9}:render("text", 24, 80))
  compare("view-log.txt", model{logy = true, axis = "seconds"}:render("text", 24, 80))
  compare("view-window.txt", model{window = 5000, overlays = false}:render("text", 24, 80))
  compare("view-help.txt", model{help = true}:render("text", 24, 80))
  compare("view-command.txt",
          model{command = "t.optim.lr = 1e-3", cursor = 17}:render("text", 24, 80))
  compare("view-mono.txt",
          model{mono = true, smoothing = 0.9, glyphs = "ascii"}:render("text", 24, 80))
  compare("view-empty.txt", term.view{}:render("text", 24, 80))
end

-- The light theme has another colour for each of the dark one; #1c1c1c is the ground, and text.
local LIGHT = {["#1c1c1c"] = "#ffffff", ["text #1c1c1c"] = "#000000", ["#ffffff"] = "#000000",
               ["#bcbcbc"] = "#d0d0d0", ["#d8d8d8"] = "#1c1c1c", ["#808080"] = "#626262",
               ["#d55e00"] = "#d70000", ["#cc79a7"] = "#af0087", ["#56b4e9"] = "#005faf",
               ["#009e73"] = "#007f5a", ["#e69f00"] = "#a65200"}

function TestScreens:test_other_forms()
  local v = model()
  compare("view.ans", v:render("ansi", 24, 80))
  local dark, was = v:render("svg", 24, 80), fopo.theme()
  compare("view.svg", dark)
  fopo.theme("light")
  local light = v:render("svg", 24, 80)
  fopo.theme(was)
  lu.assertEquals(light, (dark:gsub("<(%a+)([^<>]-)(#%x+)", function(tag, before, colour)
    return "<" .. tag .. before .. (LIGHT[tag .. " " .. colour] or LIGHT[colour])
  end)))
  lu.assertNotStrContains(v:render("ansi"), "31m") -- what others send is no command of ours
end

function TestScreens:test_any_size()
  local v = model{help = true, command = ("ä"):rep(100), cursor = 100}
  for rows = 1, 30 do
    for cols = 1, 130, 3 do fits(v:render("text", rows, cols), rows, cols) end
  end
  fits(v:render("text", 1000, 1000), 1000, 1000)
end

function TestScreens:test_odd_numbers()
  local v = term.view{}
  for _, x in ipairs{0 / 0, 1 / 0, -1 / 0, 1e308, -1e308, 0, -5} do
    v:add("reward", 1, 1, x)
    v:add("valid", 2, 2, x)
    v:set{step = x, steps = x, reward = x, ess = x, lr = x, eta = x, memory = x, seconds = x,
          contexts_rate = x, k = x, window = 1}
    v:phases{search = x, propose = x, reward = x, gradient = x, update = x}
    for _, logy in ipairs{true, false} do
      v:set{logy = logy}
      for _, size in ipairs{{24, 80}, {5, 20}, {1, 9}, {60, 200}} do
        fits(v:render("text", size[1], size[2]), size[1], size[2])
      end
    end
  end
end

function TestScreens:test_long_words()
  local v = term.view{}
  v:set{title = ("w"):rep(1000), message = ("m"):rep(1000), device = ("d"):rep(1000)}
  for i = 1, 2000 do v:say(("line %d "):format(i):rep(100)) end
  v:say("\255\254 \240\159\152\128 \t tab")
  fits(v:render("text", 24, 80), 24, 80)
  lu.assertStrContains(v:render("text", 40, 80), "line 2000 ")
end

function TestScreens:test_malformed_calls()
  local v = term.view{rows = 3}
  lu.assertErrorMsgContains("no figure or setting 'esss'", v.set, v, {esss = 1})
  lu.assertErrorMsgContains("ess must be a number, not a string", v.set, v, {ess = "1"})
  lu.assertErrorMsgContains("must be one of text, ansi, svg", v.render, v, "png")
  lu.assertErrorMsgContains("must be one of reward", v.add, v, "loss", 1, 1, 1)
  lu.assertErrorMsgContains("rows is 0; use 1", term.view, {rows = 0})
  lu.assertErrorMsgContains("a view is needed here, not", v.draw, term)
  v:close()
  v:close()
  for _, name in ipairs{"draw", "size", "render", "key"} do
    lu.assertErrorMsgContains("this view has been closed", v[name], v)
  end
end

function TestScreens:test_memory_stays()
  local v = term.view{}
  local function fill(n, from)
    for i = from, from + n do v:add("reward", i, i, math.sin(i)) end
  end
  fill(300000, 1)
  local before = fopo.memory().bytes
  fill(1000000, 300001)
  lu.assertTrue(fopo.memory().bytes - before < 200000)
  v:close()
  lu.assertTrue(fopo.memory().bytes < before)
end

-- ---- runs ----

local function trainer(o)
  local world = fopo.data.synthetic{users = 400, items = 500, clusters = 8, seed = 3}
  local s = world:sessions{min_items = 10}
  local items = fopo.embed.svd(s.train, {dim = 8})
  local index = fopo.index.norm(items)
  local q = fopo.proposal.mixture{index = index, k = 20}
  return fopo.trainer{policy = fopo.policy.linear{items = items, seed = 1}, data = s.train,
                      valid = o and o.valid and s.valid or false, index = index,
                      batch = 16, seed = 7,
                      gradient = o and o.gradient
                                 or fopo.gradient.snis{samples = 40, proposal = q}}
end

TestRuns = {}

function TestRuns:test_screens_of_the_past()
  local t = trainer{valid = true}:run{steps = 40, every = 10, view = false}
  local text = fopo.view.text(t, {glyphs = "ascii"})
  fits(text, 24, 80)
  for _, word in ipairs{"step 40", "ended", "expected", "via index", "ESS", "|gradient|"} do
    lu.assertStrContains(text, word)
  end
  -- best_by a measure of lists: it has a curve by its name
  local lists = trainer{valid = true, gradient = fopo.gradient.slate{k = 3}}
  lists:run{steps = 20, every = 5, view = false}
  lu.assertStrContains(fopo.view.text(lists, {glyphs = "ascii"}), "hit@3")
  lu.assertNil(text:find("@3", 1, true))
  local path = os.tmpname()
  fopo.view.save(path .. ".svg", t, {rows = 10, cols = 50, overlay = {t}})
  local f = io.open(path .. ".svg")
  lu.assertStrContains(f:read("a"), "</svg>")
  f:close()
  os.remove(path)
  os.remove(path .. ".svg")
  local ok, why = pcall(fopo.view.save, "x.jpg", t)
  lu.assertFalse(ok)
  lu.assertStrContains(why, ".svg")
  ok, why = pcall(fopo.view.text, "/no/such")
  lu.assertFalse(ok)
  lu.assertStrContains(why, "no folder of a run")
  lu.assertFalse(pcall(fopo.view, 3))
end

function TestRuns:test_a_view_needs_a_terminal()
  local t = trainer()
  local ok, why = pcall(t.run, t, {steps = 1, view = "curses"})
  lu.assertFalse(ok)
  lu.assertStrContains(why, "needs a terminal")
  lu.assertEquals(t.step, 0)
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
