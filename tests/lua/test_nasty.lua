-- Every public function with values that it does not expect, at the top and inside its tables: what
-- is refused is refused with a sentence at the caller's line, never by an error of Lua in a file of
-- fopo's.
local lu = require "luaunit"
local fopo = require "fopo"
local define = require "fopo.base.define"
local native = require "fopo.native"

local d = fopo.data.synthetic{users = 40, items = 30, clusters = 3, seed = 3}
local s = d:sessions{min_items = 4}
local items = fopo.embed.svd(s.train, {dim = 3})
local logs, log_world = fopo.data.synthetic_logs{n = 40, actions = 8, dim = 3, seed = 2}
local policy = fopo.policy.linear{items = items}
local gradient = fopo.gradient.snis{samples = 5}
local trainer = fopo.trainer{policy = policy, data = s.train, batch = 4, gradient = gradient,
                             valid = s.valid}
trainer:run{steps = 2, view = false}
local evaluation = fopo.evaluate(policy, s.test)
local closed = fopo.array.zeros(2, 2)
closed:close()
local file = os.tmpname()

local good = {array = items, sessions = s.train, policy = policy, gradient = gradient, table = {},
              index = fopo.index.norm(items), trainer = trainer, logs = logs, dataset = d,
              split = s, string = file, integer = 3, number = 0.5, boolean = true, any = 1,
              reward = fopo.reward.hits(s.train), ["function"] = function() return 1 end}
local nasty = {
  false, true, 0, -1, 1e308, 0 / 0, math.mininteger, "", "no/such/place", "no/such\0place",
  ("x"):rep(300), {}, {{}}, {1},
  {"a"}, {{1}, "a"}, {1, {}}, {x = {}}, {y = {"a"}}, {{name = 1}}, {{"a"}, {"b", "c", "d"}},
  {{name = "a"}}, {{name = "a", evaluation = {}}}, {{trainer = 1, evaluation = 1}},
  {{name = "a", evaluation = evaluation, trainer = {}}}, {{name = "a", trainer = trainer}},
  {trainer = {}}, {trainer, 1}, {{trainer}}, {{"a", 1}}, {{1, gradient}}, {{false, "c"}}, print,
  function() return 1 end, coroutine.create(print), io.stdout, closed, evaluation}
for _, one in pairs(good) do nasty[#nasty + 1] = one end

-- What waits for keys, sets the process up, or takes long.
local left_out = {["fopo.demo"] = true, ["fopo.view"] = true, ["fopo.threads"] = true,
                  ["fopo.isa"] = true, ["fopo.theme"] = true, ["fopo.strict"] = true,
                  ["fopo.tune"] = true, ["fopo.check"] = true, ["trainer:run"] = true,
                  ["trainer:start"] = true}

-- Options that keep a call short.
local small = {["fopo.data.synthetic"] = {users = 20, items = 20, clusters = 2},
               ["fopo.data.synthetic_logs"] = {n = 20, actions = 4, dim = 2},
               ["fopo.baseline.als"] = {data = s.train, dim = 2, iterations = 1}}

local calls, raw = 0, {}
local function try(name, f, ...)
  calls = calls + 1
  local ok, why = pcall(f, ...)
  if ok or type(why) ~= "string" then return end
  if why:find("^fopo/") or why:find("^bad argument") then raw[#raw + 1] = name .. ": " .. why end
end

local function good_of(spec)
  for one in spec[2]:gmatch("[^|]+") do
    if good[one] ~= nil then return good[one] end
  end
end

local function with(list, at, value)
  local copy = {}
  for k, v in pairs(list) do copy[k] = v end
  copy[at] = value
  return copy
end

-- Each argument and each option of a declared function in turn.
local function try_entry(entry, f)
  local args, options, n = {}, with(small[entry.name] or {}, 1, nil), #entry.args
  for i, spec in ipairs(entry.args) do args[i] = good_of(spec) end
  for _, spec in ipairs(entry.options or {}) do
    if spec.required then options[spec[1]] = options[spec[1]] or good_of(spec) end
  end
  for _, value in ipairs(nasty) do
    for i = 1, n do
      try(entry.name, f, table.unpack(with(with(args, n + 1, options), i, value), 1, n + 1))
    end
    if entry.options then
      try(entry.name, f, table.unpack(with(args, n + 1, value), 1, n + 1))
      for _, spec in ipairs(entry.options) do
        try(entry.name, f,
            table.unpack(with(args, n + 1, with(options, spec[1], value)), 1, n + 1))
      end
    end
  end
end

local function silently(f)
  local print_, write = print, io.stdout
  print = function() end -- luacheck: ignore
  io.output(file)
  f()
  io.output():close()
  io.output(write)
  print = print_ -- luacheck: ignore
end

local function judged(f)
  calls, raw = 0, {}
  silently(f)
  lu.assertTrue(calls > 300)
  lu.assertEquals(table.concat(raw, "\n"), "")
end

TestNasty = {}

function TestNasty:test_declared_functions()
  judged(function()
    for f, entry in pairs(define.of) do
      if not left_out[entry.name] then try_entry(entry, f) end
    end
  end)
end

function TestNasty:test_methods()
  local objects = with(good, "log_world", log_world)
  judged(function()
    for kind, methods in pairs(native.types) do
      local own = {trainer = true, device = true, job = true, run = true, replacement = true}
      for name, f in pairs(methods) do
        if type(f) == "function" and name ~= "close" and not own[kind] then
          for _, value in ipairs(nasty) do
            try(kind .. ":" .. name, f, value)
            try(kind .. ":" .. name, f, objects[kind], value)
          end
        end
      end
    end
  end)
end

function TestNasty:test_pictures_and_words()
  judged(function()
    for name, f in pairs{plot = fopo.plot.text, bars = fopo.plot.bars, show = fopo.show,
                         histogram = fopo.plot.histogram, text = fopo.view.text} do
      for _, value in ipairs(nasty) do
        try(name, f, value)
        for _, other in ipairs{1, {1, 2}, {"a"}, {title = 1}, {y = 2}} do
          try(name, f, value, other)
        end
      end
    end
    for _, value in ipairs(nasty) do
      for _, key in ipairs{"x", "y", "low", "high", "name", "style", "title", "xunit", "width"} do
        try("plot.save", fopo.plot.save, file .. ".gif", {with({y = {1, 2}}, key, value)})
        try("plot.save", fopo.plot.save, file .. ".gif", with({y = {1, 2}}, key, value))
      end
    end
    for _, value in ipairs{0, "words", {}, {{}}, {1, 2}, {1, 0 / 0}} do
      for _, key in ipairs{"x", "low", "name", "style", "xunit"} do
        try("plot.save", fopo.plot.save, file .. ".svg", {with({y = {1, 2}}, key, value)})
      end
    end
  end)
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
