-- Whatever the user assigns to the standard globals, what was trained can be run and saved.
local lu = require "luaunit"
local fopo = require "fopo"

local function copy(t)
  local c = {}
  for name, v in next, t do c[name] = v end
  return c
end

local real = copy(_G)

TestGlobals = {}

function TestGlobals:setUp()
  self.path = os.tmpname()
  local s = fopo.data.synthetic{users = 100, items = 80, clusters = 4, seed = 3}
    :sessions{min_items = 4}
  self.t = fopo.trainer{policy = fopo.policy.linear{items = fopo.embed.svd(s.train, {dim = 4})},
                        data = s.train, batch = 8, seed = 7, valid = false}
  self.s = s
end

function TestGlobals:tearDown() os.remove(self.path) end

-- What must work with `value` in the place of a standard global. Uses no global itself.
local function use(self)
  self.t:run{steps = 1, view = "lines"}
  self.t:save(self.path .. ".npz")
  self.t.policy:save(self.path .. ".npz")
  fopo.evaluate(self.t.policy, self.s.test)
  return real.tostring(self.t), fopo.help.text("fopo.trainer")
end

function TestGlobals:test_each_standard_global()
  local names = {}
  for name, v in pairs(real) do
    if _VERSION == v or name == "arg" or package.loaded[name] or type(v) == "function" then
      names[#names + 1] = name
    end
  end
  lu.assertTrue(#names > 25)
  local globals, pcall, rawset, ipairs = _G, pcall, rawset, ipairs
  local failed = {}
  local function raise() real.error("a global of the user's") end
  for _, name in ipairs(names) do
    for _, v in ipairs{false, "x", raise} do
      rawset(globals, name, v or nil)
      local ok, why = pcall(use, self)
      rawset(globals, name, real[name])
      if not ok then failed[#failed + 1] = name .. ": " .. tostring(why) end
    end
  end
  lu.assertEquals(failed, {})
  os.remove(self.path .. ".npz")
end

function TestGlobals:test_libraries_emptied()
  local insert, floor = table.insert, math.floor
  table.insert, math.floor = nil, nil -- luacheck: ignore
  local ok, why = pcall(use, self)
  table.insert, math.floor = insert, floor -- luacheck: ignore
  lu.assertTrue(ok, why)
end

-- Output can be captured all the same.
function TestGlobals:test_print_is_the_users()
  local stock, said = print, {}
  print = function(...) said[#said + 1] = ... end
  pcall(self.t.run, self.t, {steps = 1, every = 1})
  print = stock
  lu.assertStrContains(table.concat(said, "\n"), "step")
end

-- No bytecode, by no way round.
function TestGlobals:test_stock_loader_is_out_of_reach()
  local code = string.dump(function() return 1 end)
  lu.assertNil(load(code))
  lu.assertNil(load(code, "x", "b"))
  lu.assertNil(load(function() local c = code; code = nil; return c end, "x", "bt"))
  for _, f in ipairs{load, loadfile, dofile, require, package.searchers[2], package.searchers[3]} do
    for i = 1, 5 do
      local _, value = debug.getupvalue(f, i)
      lu.assertNotEquals(type(value), "function")
    end
  end
end

-- load as Lua's.
function TestGlobals:test_load()
  lu.assertEquals(load("return 1 + 1")(), 2)
  lu.assertEquals(load("return x", "chunk", "t", {x = 3})(), 3)
  lu.assertStrContains(select(2, load("return +", "=mine")), "mine:1:")
  local pieces = {"return ", "4", nil}
  local at = 0
  lu.assertEquals(load(function() at = at + 1; return pieces[at] end)(), 4)
  lu.assertNil((load(function() return {} end)))
  lu.assertFalse((pcall(load, {})))
  lu.assertError(load("return x", "c", "t", nil)) -- an environment that is nil
end

os.exit(lu.LuaUnit.run())
