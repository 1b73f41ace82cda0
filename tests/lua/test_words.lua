-- The glossary is that of docs/design.md, and explain(t) says nothing that the history does not.
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

os.exit(lu.LuaUnit.run())
