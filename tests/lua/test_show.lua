-- What the prompt prints, completes and plots.
local lu = require "luaunit"
local fopo = require "fopo"
local complete = require "fopo.prompt.complete"
local term = require "fopo.term"
local show = fopo.show

TestShow = {}

function TestShow:test_scalars()
  lu.assertEquals(show(1), "1")
  lu.assertEquals(show(1.0), "1.0")
  lu.assertEquals(show(nil), "nil")
  lu.assertEquals(show(true), "true")
  lu.assertEquals(show("a\nb"), "a\nb")
  lu.assertEquals(show{"a\nb\27"}, [[{"a\nb\27"}]])
  lu.assertEquals(show(fopo.embed.svd), "function fopo.embed.svd")
  lu.assertEquals(show(print), "function [C]")
end

function TestShow:test_tables()
  lu.assertEquals(show{}, "{}")
  lu.assertEquals(show{1, 2, b = "x", a = {}}, '{1, 2, a = {}, b = "x"}')
  lu.assertEquals(show{["end"] = 1, ["a b"] = 2, [1.5] = 3, [true] = 4},
                  '{[1.5] = 3, ["a b"] = 2, ["end"] = 1, [true] = 4}')
  lu.assertEquals(show{nil, 2}, "{nil, 2}")
end

function TestShow:test_limits()
  local t = {}
  t.t = t
  lu.assertEquals(show(t), "{t = <cycle>}")
  lu.assertEquals(show({{{{{}}}}}, {depth = 2}), "{{{...}}}")
  local long = {}
  for i = 1, 1000 do long[i] = i end
  lu.assertEquals(show(long, {items = 3}), "{1, 2, 3, ... 997 more}")
  for _, line in ipairs{show(long, {width = 40})} do
    for one in (line .. "\n"):gmatch("(.-)\n") do lu.assertTrue(#one <= 40, one) end
  end
  lu.assertEquals(show({("x"):rep(300)}, {length = 5}), '{"xxxxx"...}')
  local shared = {1}
  lu.assertEquals(show{shared, shared}, "{{1}, {1}}")
end

function TestShow:test_wide_tables_are_stacked()
  local t = {name = ("n"):rep(30), other = ("o"):rep(30), list = {1, 2, 3}}
  lu.assertEquals(show(t, {width = 50}), "{\n  list = {1, 2, 3},\n  name = \"" .. ("n"):rep(30)
                  .. "\",\n  other = \"" .. ("o"):rep(30) .. "\"\n}")
end

function TestShow:test_no_metamethod_of_a_table_hurts()
  local function no() error("no") end
  local t = setmetatable({1}, {__index = no, __pairs = no, __len = no})
  lu.assertEquals(show(t), "{1}")
  lu.assertEquals(show(setmetatable({}, {__tostring = function() return "me" end})), "me")
end

function TestShow:test_arrays()
  lu.assertEquals(show(fopo.array.from{{1, 2.5}, {-3, 4}}),
    "array [2, 2] of float32, 16 B, from -3 to 4, mean 1.125\n   1  2.5\n  -3    4")
  lu.assertStrContains(show(fopo.array.ids{7, 123}), "7  123")
  local large = show(fopo.array.zeros(1000, 1000))
  local _, lines = large:gsub("\n", "")
  lu.assertEquals(lines, 7)
  lu.assertStrContains(large, "4 MB")
  lu.assertStrContains(large, "...")
  local bad = fopo.array.zeros(2, 2)
  bad:set(1, 2, 0 / 0)
  lu.assertStrContains(show(bad), "NOT FINITE")
  lu.assertEquals(show(fopo.array.zeros(0, 3)), "array [0, 3] of float32, 0 B")
  local closed = fopo.array.zeros(1, 1)
  closed:close()
  lu.assertStrContains(show(closed), "closed")
  lu.assertNotStrContains(show{fopo.array.zeros(2, 2)}, "\n")
end

function TestShow:test_objects_say_what_they_are()
  lu.assertStrContains(show(fopo.index.exact(fopo.array.randn(10, 4, 1))), "10 items")
end

TestComplete = {}

function TestComplete:setUp()
  _G.thing = {alpha = 1, alps = function() end, _hidden = 2, inner = {deep = 1}}
  _G.arr = fopo.array.zeros(1, 1)
  _G.fopo = fopo
end

function TestComplete:tearDown() _G.thing, _G.arr, _G.fopo = nil, nil, nil end

function TestComplete:test_options_and_what_they_may_be()
  lu.assertEquals(complete("sam", "g = fopo.gradient.snis{"), {"samples = "})
  lu.assertEquals(complete("sam", "fopo.gradient.snis({proposal = q, "), {"samples = "})
  lu.assertEquals(complete("n", "g = fopo.gradient.snis{fault = '"), {"no_q", "none"})
  lu.assertEquals(complete("n", "g = fopo.gradient.snis{proposal = '"), {})
  lu.assertEquals(complete("index.hns", "help('"), {"index.hnsw"})
  lu.assertEquals(complete("index.hns", "data.read('"), {})
end

function TestComplete:test_names()
  lu.assertEquals(complete("thin", ""), {"thing"})
  lu.assertEquals(complete("thing.al", ""), {"thing.alpha", "thing.alps"})
  lu.assertEquals(complete("thing:al", ""), {"thing:alps"})
  lu.assertEquals(complete("thing._", ""), {"thing._hidden"})
  lu.assertEquals(complete("thing.inner.", ""), {"thing.inner.deep"})
  lu.assertEquals(complete("nothing.x.y", ""), {})
  lu.assertEquals(complete(".x", ""), {})
  lu.assertEquals(complete("2/thing.inner.d", ""), {"2/thing.inner.deep"})
  lu.assertItemsEquals(complete("wh", ""), {"while"})
end

function TestComplete:test_methods_of_objects()
  lu.assertEquals(complete("arr:fin", ""), {"arr:finite"})
  _G.s = ""
  lu.assertItemsEquals(complete("s:re", ""), {"s:rep", "s:reverse"})
  _G.s = nil
end

function TestComplete:test_options()
  lu.assertEquals(complete("ef_", "fopo.index.hnsw(items, {M = 3, "), {"ef_construction = "})
  lu.assertEquals(complete("temp", "fopo.policy.linear{items = x, "), {"temperature = "})
  lu.assertEquals(complete("thin", "fopo.policy.linear{items = "), {"thing"})
end

function TestComplete:test_runs_no_metamethod()
  _G.trap = setmetatable({}, {__index = function() error("ran") end})
  lu.assertEquals(complete("trap.x.y", ""), {})
  _G.trap = nil
end

TestPlot = {}

function TestPlot:test_forms_of_series()
  local options = {width = 40, height = 5, utf8 = false, colour = false}
  local function text(given)
    for k, v in pairs(options) do given[k] = v end
    return fopo.plot.text(given)
  end
  local wanted = text{{x = {1, 2, 3}, y = {1, 4, 9}}}
  lu.assertEquals(text{{y = {1, 4, 9}}}, wanted)
  lu.assertEquals(text{1, 4, 9}, wanted)
  lu.assertEquals(text{{1, 4, 9}}, wanted)
  lu.assertEquals(text{x = {1, 2, 3}, y = {1, 4, 9}}, wanted)
  lu.assertEquals(text{y = fopo.array.from{1, 4, 9}}, wanted)
end

function TestPlot:test_errors_are_sentences()
  local function fails(words, ...) lu.assertErrorMsgContains(words, fopo.plot.text, ...) end
  fails("not a nil")
  fails("not an integer", 3)
  fails("no series", {})
  fails("did you mean 'title'", {{1, 2}, titel = "x"})
  fails("series 1 has 2 values of x and 3 of y", {{x = {1, 2}, y = {1, 2, 3}}})
  fails("y[2] is a string", {{y = {1, "2"}}})
  fails("series 2 has no y", {{1, 2}, {x = {1}}})
  fails("nothing to plot", {{y = {0 / 0}}})
  fails("one row or one column", {y = fopo.array.zeros(2, 2)})
  fails("at least 24", {{1, 2}, width = 3})
end

function TestPlot:test_term_checks_its_own()
  lu.assertErrorMsgContains("a series must be a table, not 1", term.plot, {1}, {})
  lu.assertErrorMsgContains("x[1] must be a number", term.plot, {{x = {"1"}, y = {1}}}, {})
  lu.assertErrorMsgContains("title must be a string", term.plot, {{x = {1}, y = {1}}}, {title = {}})
  lu.assertErrorMsgContains("width is 1000000000; use 0 to", term.plot, {{x = {1}, y = {1}}},
                            {width = 1e9})
end

-- What f prints.
local function printed(f, ...)
  local write, parts = io.write, {}
  io.write = function(...) for _, one in ipairs{...} do parts[#parts + 1] = one end end
  local ok, why = pcall(f, ...)
  io.write = write
  assert(ok, why)
  return table.concat(parts)
end

function TestPlot:test_bars()
  lu.assertEquals(printed(fopo.plot.bars, {b = 1, a = -0.5, c = 0 / 0}, nil,
                          {width = 24, utf8 = false, title = "t"}),
    "t\na | ##### -0.5\nb |      ########## 1\nc |       nan\n")
  lu.assertStrContains(printed(fopo.plot.bars, {2, 1}, {"two", "one"}, {utf8 = true, width = 30}),
                       "two │ █")
  lu.assertErrorMsgContains("no value", fopo.plot.bars, {})
  local two = {{y = {1, -2}, name = "this"}, {y = {2, 0 / 0}, name = "that"}}
  lu.assertEquals(printed(fopo.plot.bars, two, {"a", "b"}, {utf8 = false, width = 53}),
                  [[
  this                      that
a |          ##### 1        |          ######### 2
b | ######### -2            |           nan
]])
  local narrow = printed(fopo.plot.bars, two, {"a", "b"}, {utf8 = false, width = 30})
  lu.assertStrContains(narrow, "\nthat\n")
  lu.assertErrorMsgContains("series 2 has 1 values", fopo.plot.bars, {{y = {1, 2}}, {y = {1}}})
end

function TestPlot:test_histogram()
  local text = printed(fopo.plot.histogram, {0, 1, 1.5, 2, 3.9, 0 / 0}, {bins = 4, width = 30,
                                                                       utf8 = false})
  lu.assertEquals(text, "0 | ############ 1\n1 | ######################## 2\n"
                  .. "2 | ############ 1\n3 | ############ 1\n(1 value is not finite)\n")
  for _, values in ipairs{{5}, {1e-300, 2e-300}, {1e300, -1e300}, {1e9, 1e9 + 1}} do
    local n = 0
    for _ in printed(fopo.plot.histogram, values):gmatch("\n") do n = n + 1 end
    lu.assertTrue(n <= 25)
  end
  lu.assertErrorMsgContains("finite", fopo.plot.histogram, {0 / 0})
end

TestCoroutines = {}

-- coroutine.resume, wrap and close are the host's own; they are to do what Lua's do.
function TestCoroutines:test_resume()
  local co = coroutine.create(function(a, b)
    local c = coroutine.yield(a + b)
    local d, e = coroutine.yield(c * 2)
    return d + e, "end"
  end)
  lu.assertEquals({coroutine.resume(co, 1, 2)}, {true, 3})
  lu.assertEquals({coroutine.resume(co, 5)}, {true, 10})
  lu.assertEquals({coroutine.resume(co, 1, 1)}, {true, 2, "end"})
  local ok, why = coroutine.resume(co)
  lu.assertFalse(ok)
  lu.assertStrContains(why, "cannot resume dead coroutine")
  lu.assertErrorMsgContains("coroutine expected", coroutine.resume, 1)
end

function TestCoroutines:test_wrap()
  local gen = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end)
  lu.assertEquals({gen(), gen(), gen()}, {1, 2, 3})
  local failing = coroutine.wrap(function() error("inside", 0) end)
  lu.assertErrorMsgContains("inside", failing)
  local failing_table = coroutine.wrap(function() error({code = 7}) end)
  local _, e = pcall(failing_table)
  lu.assertEquals(e.code, 7)
  lu.assertErrorMsgContains("cannot resume dead coroutine", failing)
end

function TestCoroutines:test_close()
  local closed = {}
  local function guard(name)
    return setmetatable({}, {__close = function() closed[#closed + 1] = name end})
  end
  local co = coroutine.create(function()
    local _ <close> = guard("a")
    coroutine.yield()
  end)
  coroutine.resume(co)
  lu.assertEquals({coroutine.close(co)}, {true})
  lu.assertEquals(closed, {"a"})
  lu.assertEquals(coroutine.status(co), "dead")
  local bad = coroutine.create(function()
    local _ <close> = setmetatable({}, {__close = function() error("closing", 0) end})
    coroutine.yield()
  end)
  coroutine.resume(bad)
  lu.assertEquals({coroutine.close(bad)}, {false, "closing"})
  lu.assertErrorMsgContains("cannot close a running coroutine",
                            function() coroutine.close((coroutine.running())) end)
  local failing = coroutine.wrap(function()
    local _ <close> = guard("b")
    error("x", 0)
  end)
  lu.assertErrorMsgContains("x", failing)
  lu.assertEquals(closed, {"a", "b"})
end

function TestCoroutines:test_nesting_and_pcall()
  local outer = coroutine.wrap(function()
    local inner = coroutine.wrap(function()
      pcall(function() coroutine.yield(1) end)
      coroutine.yield(2)
    end)
    coroutine.yield(inner())
    coroutine.yield(inner())
  end)
  lu.assertEquals({outer(), outer()}, {1, 2})
  local function dive(n) return n == 0 and 0 or 1 + coroutine.wrap(dive)(n - 1) end
  lu.assertEquals(dive(100), 100)
  lu.assertErrorMsgContains("C stack overflow", dive, 1000)
end

function TestCoroutines:test_hooks_work()
  local lines = 0
  debug.sethook(function() lines = lines + 1 end, "l")
  local x = 1
  lu.assertEquals(x, 1)
  debug.sethook()
  lu.assertTrue(lines >= 2)
  lu.assertNil((debug.gethook()))
end

TestText = {}

local text = require "fopo.base.text"

function TestText:test_three_digits_round_up_to_the_next_unit()
  lu.assertEquals({text.seconds(0.99949), text.seconds(0.9996)}, {"999 ms", "1 s"})
  lu.assertEquals({text.seconds(0.0009994), text.seconds(0.0009996)}, {"999 us", "1 ms"})
  lu.assertEquals({text.bytes(999), text.bytes(1000)}, {"999 B", "1 kB"})
  lu.assertEquals({text.bytes(999400), text.bytes(999600)}, {"999 kB", "1 MB"})
end

function TestText:test_fill_and_flow()
  lu.assertEquals(text.fill("aa bb  cc dd", 5, "  "), "aa bb\n  cc\n  dd")
  lu.assertEquals(text.fill("longer than that", 4, ""), "longer\nthan\nthat")
  lu.assertEquals(text.fill("", 4, ""), "")
  local long = ("word "):rep(17):sub(1, -2)
  lu.assertEquals(text.flow(long .. "\nand on\nnext\n  as it is\n\nlast", 200),
                  long .. " and on\nnext\n  as it is\n\nlast")
  lu.assertEquals(text.flow("  name   " .. ("word "):rep(7), 30),
                  "  name   word word word word\n         word word word")
  lu.assertEquals(text.flow("  a_long_name   some words", 24), "  a_long_name\n    some words")
  -- the items of a list, also behind a long line and before a short one
  lu.assertEquals(text.flow(long .. "\n- one thing\n  and more of it\n- two\nshort\nlast", 14),
                  text.fill(long, 14, "")
                  .. "\n- one thing\n  and more of\n  it\n- two\nshort\nlast")
  lu.assertEquals(text.cut("äöü", 3), "äöü")
  lu.assertEquals(text.cut("äöüäöü", 5), "äö...")
end

function TestText:test_help_fits()
  local help = require "fopo.help"
  local width = term.width
  for _, columns in ipairs{50, 80, 200} do
    term.width = function() return columns end
    for _, name in ipairs{"trainer:run", "trainer:start", "data.logs", "index"} do
      local about = help.text(name):gsub("\nExample.*", "") -- code stays as it is
      for line in about:gmatch("[^\n]+") do
        lu.assertTrue(utf8.len(line) <= math.min(columns, 100), line)
      end
    end
  end
  term.width = width
end

os.exit(lu.LuaUnit.run())
