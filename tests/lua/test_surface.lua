-- The surface that scripts rely on: every example of help() runs, every error is one sentence with
-- the place and the remedy, and nothing is lost.
local lu = require "luaunit"
local fopo = require "fopo"
local define = require "fopo.base.define"

-- The message of an error, which must carry this file's name and line.
local function sentence(f, ...)
  local ok, message = pcall(f, ...)
  lu.assertFalse(ok, "an error was expected")
  lu.assertStrContains(message, "test_surface.lua:")
  lu.assertNil(message:find("\n", 1, true), message)
  return message
end

local function says(part, f, ...) lu.assertStrContains(sentence(f, ...), part) end

-- A small world that all tests may read.
local world = {}
do
  world.d, world.truth = fopo.data.synthetic{users = 600, items = 1000, clusters = 20, seed = 5}
  world.s = world.d:sessions{min_items = 10, seed = 2}
  world.items = fopo.embed.svd(world.s.train, {dim = 12})
  world.index = fopo.index.norm(world.items)
end

local function trainer(options)
  local o = {policy = fopo.policy.linear{items = world.items, seed = 1}, data = world.s.train,
             gradient = fopo.gradient.snis{samples = 100},
             optim = fopo.optim.adam{lr = 1e-2}, seed = 4, valid = false}
  for name, value in pairs(options or {}) do o[name] = value end
  return fopo.trainer(o)
end

TestHelp = {}

function TestHelp:test_every_example_runs()
  local n = 0
  for name, entry in pairs(define.entries) do
    if entry.example then
      local env = setmetatable({fopo = fopo, print = function() end}, {__index = _G})
      local chunk = assert(load(entry.example, "=" .. name, "t", env))
      local ok, why = pcall(chunk)
      lu.assertTrue(ok, name .. ": " .. tostring(why))
      n = n + 1
    end
  end
  local f <close> = assert(io.open("docs/manual.md"))
  local _, shown = f:read("a"):gsub("\n```lua\n", "")
  lu.assertEquals(n, shown) -- those that the manual shows
end

function TestHelp:test_every_public_function_has_help()
  for module, t in pairs(fopo) do
    if type(t) == "function" then
      lu.assertNotNil(define.of[t] or define.entries["fopo." .. module], "fopo." .. module)
    elseif type(t) == "table" and module ~= "help" and module ~= "show" and module ~= "plot" then
      for name, f in pairs(t) do
        if type(f) == "function" then
          lu.assertNotNil(define.of[f], ("fopo.%s.%s"):format(module, name))
        end
      end
    end
  end
  for type_name, methods in pairs(require("fopo.native").types) do
    for name, f in pairs(methods) do
      if type(f) == "function" and not ({describe = 1, close = 1, advance = 1})[name]
         and not ({trainer = 1, device = 1, job = 1, run = 1, replacement = 1})[type_name] then
        lu.assertTrue(define.of[f] ~= nil or define.entries[type_name .. ":" .. name] ~= nil
                      or fopo.help.text(type_name .. ":" .. name) ~= nil,
                      type_name .. ":" .. name)
      end
    end
  end
end

function TestHelp:test_text()
  lu.assertStrContains(fopo.help.text("fopo.index.hnsw"), "ef_construction")
  lu.assertStrContains(fopo.help.text(fopo.index.hnsw), "fopo.index.hnsw(items, {...})")
  lu.assertStrContains(fopo.help.text(world.index), "ix:search(Q, k)")
  lu.assertStrContains(fopo.help.text("index"), "fopo.index.norm")
  local found, why = fopo.help.text("fopo.index.hnws")
  lu.assertNil(found)
  lu.assertStrContains(why, "fopo.index.hnsw")
end

TestSentences = {}

function TestSentences:test_options()
  says("did you mean 'ef_construction'", fopo.index.hnsw, world.items, {ef_contruction = 3})
  says("it takes M, ef_construction", fopo.index.hnsw, world.items, {zzz = 1})
  says("M must be at least 2, not 1", fopo.index.hnsw, world.items, {M = 1})
  says("M must be integer, not 2.5", fopo.index.hnsw, world.items, {M = 2.5})
  says("needs the option items", fopo.policy.linear, {})
  says("must be one of none, sqrt, sigma", fopo.embed.svd, world.s.train, {scale = "sgma"})
  says("did you mean \"sigma\"", fopo.embed.svd, world.s.train, {scale = "sgma"})
  says("takes its options in one table", fopo.gradient.snis, 3)
  says("lr is NaN", fopo.optim.adam, {lr = 0 / 0})
end

function TestSentences:test_ranges()
  says("epsilon must be at most 1", fopo.proposal.mixture, {index = world.index, epsilon = 1.5})
  says("epsilon must be at least 0", fopo.proposal.mixture, {index = world.index, epsilon = -0.1})
  says("samples must be at least 2", fopo.gradient.snis, {samples = 1})
  says("tail must be at least 1", fopo.gradient.head_tail, {tail = 0})
  local x = world.s.train:contexts(world.items)
  says("1000", world.index.search, world.index, x, 1001)
  says("k is 1001 but there are 1000 items", fopo.proposal.mixture, {index = world.index, k = 1001})
  says("batch", trainer, {batch = 100000})
  local t = trainer()
  says("needs one of epochs, steps and seconds", t.run, t, {view = false})
end

function TestSentences:test_shapes_name_both()
  local wrong = fopo.array.randn(3, 7)
  local message = sentence(world.index.search, world.index, wrong, 1)
  lu.assertStrContains(message, "7")
  lu.assertStrContains(message, "12")
  message = sentence(wrong.matmul, wrong, fopo.array.randn(3, 7))
  lu.assertStrContains(message, "7")
  lu.assertStrContains(message, "3")
end

function TestSentences:test_files()
  says("/no/such/file.csv", fopo.data.read, "/no/such/file.csv")
  local path = os.tmpname()
  local f = io.open(path, "w")
  f:write("user,item,rating\n1,2,3\n1,4,what\n")
  f:close()
  local message = sentence(fopo.data.read, path)
  lu.assertStrContains(message, path .. ", line 3, column 3")
  lu.assertStrContains(message, "what")
  os.remove(path)
  says("there is no such folder", world.items.save, world.items, "/no/such/folder/x.npy")
end

function TestSentences:test_numbers()
  local items = fopo.array.randn(50, 4, 1)
  items:set(20, 3, 0 / 0)
  local message = sentence(fopo.index.norm, items)
  lu.assertStrContains(message, "20")
  local reward = fopo.reward.custom(function(ids)
    local r = fopo.array.zeros(ids.rows, ids.cols)
    r:set(1, 1, 0 / 0)
    return r
  end)
  local t = trainer{reward = reward}
  says("finite", t.run, t, {steps = 1, view = false})
  lu.assertEquals(t.step, 0)
end

function TestSentences:test_empty_split()
  says("min_items", world.d.sessions, world.d, {min_items = 100000})
end

TestTrainer = {}

function TestTrainer:test_custom_reward_is_the_built_in_one()
  local hits = trainer():run{steps = 5, view = false}
  local train = world.s.train
  local custom = trainer{reward = fopo.reward.custom(function(ids, rows)
    local r = fopo.array.zeros(ids.rows, ids.cols)
    for b = 1, ids.rows do
      local context = rows:get(1, b)
      for s = 1, ids.cols do
        if train:hits(context, ids:get(b, s)) then r:set(b, s, 1) end
      end
    end
    return r
  end)}:run{steps = 5, view = false}
  lu.assertEquals(hits.policy:theta():add(custom.policy:theta(), -1):norm(), 0)
end

function TestTrainer:test_a_reward_that_fails_leaves_the_trainer_usable()
  local fail = true
  local t = trainer{reward = fopo.reward.custom(function(ids)
    if fail then error("no reward today") end
    return fopo.array.zeros(ids.rows, ids.cols)
  end)}
  local ok, why = pcall(t.run, t, {steps = 2, view = false})
  lu.assertFalse(ok)
  lu.assertStrContains(tostring(why), "no reward today")
  fail = false
  lu.assertEquals(t:run{steps = 2, view = false}.step, 2)
end

TestScripts = {}

function TestScripts:test_own_loop()
  local f = io.popen(os.getenv("FOPO") .. " scripts/examples/own_loop.lua 12 2>&1")
  local said = f:read("a")
  lu.assertTrue(f:close(), said)
  lu.assertStrContains(said, "difference of the two thetas: 0\n")
end

function TestScripts:test_demo() -- of the quickstart: test_snippets.py
  local f = io.popen(os.getenv("FOPO") .. " scripts/examples/demo.lua 3000 5 2>&1")
  local said = f:read("a")
  lu.assertTrue(f:close(), said)
  for _, word in ipairs{"REINFORCE", "SNIS, uniform", "SNIS, mixture", "best possible",
                        "ms/step"} do
    lu.assertStrContains(said, word)
  end
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
