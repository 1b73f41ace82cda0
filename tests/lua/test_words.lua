-- The glossary is that of docs/design.md, explain(t) says nothing that the history does not, and
-- every colour of the light theme can be read on white.
local lu = require "luaunit"
local fopo = require "fopo"
local glossary = require "fopo.glossary"

local function printed(f, ...)
  local out, was = {}, print
  print = function(s) out[#out + 1] = tostring(s) end -- luacheck: ignore
  local ok, why = pcall(f, ...)
  print = was -- luacheck: ignore
  if not ok then error(why, 0) end
  return (table.concat(out, "\n"):gsub("\n +", " "):gsub("\n", " "))
end

TestGlossary = {}

function TestGlossary:test_it_is_that_of_the_design()
  local f = assert(io.open("docs/design.md"))
  local rows, i = f:read("a"):match("## Glossary\n\n| word | meaning |\n|%-%-%-|%-%-%-|\n(.*)"), 0
  f:close()
  for word, meaning in rows:gmatch("| (.-) | (.-) |\n") do
    i = i + 1
    lu.assertEquals({glossary.words[i], glossary.meanings[i]}, {word, meaning},
                    "make lua/fopo/glossary.lua and docs/design.md the same")
  end
  lu.assertTrue(i > 50)
  lu.assertEquals(#glossary.words, i)
end

function TestGlossary:test_words_are_found_by_every_name()
  for name, wanted in pairs{ess = "effective sample size", ["effective sample size"] = "ess",
                            eps = "uniform share", ["Head and Tail"] = "enumerates", k = "number",
                            ["inverse propensity score"] = "IPS"} do
    lu.assertStrContains(printed(fopo.glossary, name), wanted)
  end
  lu.assertStrContains(printed(fopo.glossary), "temperature")
  lu.assertErrorMsgContains('did you mean "proposal"', fopo.glossary, "propsal")
end

TestExplain = {}

-- Which rows a file's dataset is without, and why: of two files, kept by d:save.
function TestExplain:test_rows_that_were_left_out()
  local path, saved = os.tmpname(), os.tmpname()
  local f = io.open(path, "w")
  f:write("user,item,rating\n1,1,5\n1,1,4\n1\n2,1,1\n2,2,5\n1,2\n3,,5\n")
  f:close()
  local d = fopo.data.read({path, path}, {skip_errors = true, where = "rating>=4"})
  local counts = "8 rows left out (2 by a condition, 6 malformed), 4 pairs repeated"
  lu.assertEquals({d.skipped, d.malformed, d.repeats}, {8, 6, 4})
  local said = printed(fopo.explain, d)
  for _, part in ipairs{counts, "line 4: '1' has 1 field", "line 7: '1,2' has 2 fields", "line 8",
                        "and 3 more"} do
    lu.assertStrContains(said, part)
  end
  d:save(saved)
  lu.assertStrContains(tostring(fopo.data.read(saved)), counts)
  os.remove(path)
  os.remove(saved)
end

local function trainer(o)
  local s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
  o.policy = fopo.policy.linear{items = fopo.embed.svd(s.train, {dim = 8})}
  o.data = s.train
  return fopo.trainer(o)
end

function TestExplain:test_the_numbers_are_those_of_the_history()
  local t = trainer{}
  lu.assertStrContains(printed(fopo.explain, t), "no step yet")
  t:run{steps = 40, view = false}
  local said, h = printed(fopo.explain, t), t.history
  lu.assertStrContains(said, "40 steps")
  lu.assertStrContains(said, ("%.4f"):format(t.held.valid))
  lu.assertStrContains(said, ("%.4f"):format(h.valid_expected[#h.step]))
  lu.assertStrContains(said, ("size is %.3g"):format(h.ess[#h.step]))
  lu.assertStrContains(said, "The head chosen by mass has")
end

-- The start is what was there before the first step, not the first record; a checkpoint keeps it.
function TestExplain:test_the_start()
  local t = trainer{optim = fopo.optim.adam{lr = 0.1}}
  local s = t.data
  local before = fopo.evaluate(t.policy, t.valid)
  t:run{steps = 20, every = 20, view = false}
  local start = ("went from %.4f at the start"):format(before.expected)
  lu.assertNotAlmostEquals(t.history.valid_expected[1], before.expected, 1e-3)
  lu.assertStrContains(printed(fopo.explain, t), start)
  lu.assertStrContains(printed(fopo.explain, t:run{steps = 20, view = false}), start)
  local path = os.tmpname()
  t:save(path)
  local again = fopo.trainer{policy = t.policy, data = s, valid = t.valid, optim = t.optim}
  lu.assertStrContains(printed(fopo.explain, again:resume(path)), start)
  os.remove(path)
end

function TestExplain:test_what_is_missing_is_not_said()
  local t = trainer{valid = false, gradient = fopo.gradient.exact()}
  local said = printed(fopo.explain, t:run{steps = 5, view = false})
  lu.assertStrContains(said, "It is not validated")
  lu.assertNil(said:find("head chosen", 1, true))
  lu.assertNil(said:find("of S =", 1, true))
  local meta = trainer{}
  lu.assertErrorMsgContains("t must be", fopo.explain, meta.policy)
end

TestPlot = {}

function TestPlot:test_y_over_x()
  local one = fopo.plot.text{{x = {1, 2, 4}, y = {3, 5, 4}}, title = "z", height = 5}
  lu.assertEquals(fopo.plot.text({1, 2, 4}, {3, 5, 4}, {title = "z", height = 5}), one)
  local x = fopo.array.from{{1, 2, 4}}
  lu.assertEquals(fopo.plot.text(x, {3, 5, 4}, {title = "z", height = 5}), one)
  lu.assertEquals(fopo.plot.text({3, 5, 4}, {height = 5}), fopo.plot.text{3, 5, 4, height = 5})
  lu.assertErrorMsgContains("2 values of x and 1 of y", fopo.plot.text, {1, 2}, {3})
end

TestTheme = {}

-- The sRGB values of one of the 256 colours above the first 16, whose colours are the terminal's.
local function of_256(n)
  if n >= 232 then return {8 + 10 * (n - 232), 8 + 10 * (n - 232), 8 + 10 * (n - 232)} end
  lu.assertTrue(n >= 16)
  local levels = {0, 95, 135, 175, 215, 255}
  n = n - 16
  return {levels[n // 36 + 1], levels[n // 6 % 6 + 1], levels[n % 6 + 1]}
end

local function of_hex(s)
  local r, g, b = s:match("^#(%x%x)(%x%x)(%x%x)$")
  return {tonumber(r, 16), tonumber(g, 16), tonumber(b, 16)}
end

-- Relative luminance and contrast, as WCAG 2 defines them.
local function luminance(rgb)
  local sum = 0
  for i, weight in ipairs{0.2126, 0.7152, 0.0722} do
    local c = rgb[i] / 255
    sum = sum + weight * (c <= 0.04045 and c / 12.92 or ((c + 0.055) / 1.055) ^ 2.4)
  end
  return sum
end

local function contrast(a, b)
  local one, two = luminance(a), luminance(b)
  return (math.max(one, two) + 0.05) / (math.min(one, two) + 0.05)
end

function TestTheme:test_every_light_colour_is_read_on_white()
  local term, page = require "fopo.term", require "fopo.view.page"
  local was, white, n = fopo.theme(), {255, 255, 255}, 0
  fopo.theme("light")
  local c = term.colours()
  fopo.theme(was)
  local function readable(colour, name, on)
    n = n + 1
    lu.assertTrue(contrast(colour, on or white) >= 4.5,
                  ("%s: %.2f"):format(name, contrast(colour, on or white)))
  end
  lu.assertEquals(c.paper, "#ffffff")
  for i, ink in ipairs(c.inks) do
    readable(of_hex(ink.svg), ink.svg)
    readable(of_hex(ink.svg), ink.svg, i == 4 and of_hex(c.bar))
    if ink.rich >= 0 then readable(of_256(ink.rich), ink.rich) end
  end
  local function sgr(s)
    if s ~= "1" then readable(of_256(tonumber(s:match("^38;5;(%d+)$"))), s) end
  end
  for _, curve in ipairs(c.curves) do sgr(curve) end
  for _, look in pairs(page.themes.light) do sgr(look) end
  lu.assertTrue(n > 30)
  lu.assertAlmostEquals(contrast({0, 0, 0}, white), 21, 1e-9)
end

function TestTheme:test_it_is_told_by_the_environment()
  for setting, wanted in pairs{["COLORFGBG='0;15'"] = "light", ["COLORFGBG='15;0'"] = "dark",
                               ["COLORFGBG='0;default;7'"] = "light", ["COLORFGBG=x"] = "dark",
                               ["FOPO_THEME=light"] = "light",
                               ["FOPO_THEME=dark COLORFGBG='0;15'"] = "dark"} do
    local p = io.popen(("env -u COLORFGBG -u FOPO_THEME %s %s -e 'print(fopo.theme())'"):format(
      setting, os.getenv("FOPO") or "./fopo"))
    lu.assertEquals(p:read("l"), wanted, setting)
    p:close()
  end
end

function TestTheme:test_pictures_take_it()
  local t, path = trainer{}, os.tmpname()
  t:run{steps = 5, view = false}
  fopo.view.save(path .. ".svg", t, {theme = "light"})
  local f = io.open(path .. ".svg")
  local svg = f:read("a")
  f:close()
  os.remove(path)
  os.remove(path .. ".svg")
  lu.assertStrContains(svg, 'fill="#ffffff"')
  lu.assertStrContains(svg, "#005faf")
  lu.assertNil(svg:find("#56b4e9", 1, true))
end

os.exit(lu.LuaUnit.run())
