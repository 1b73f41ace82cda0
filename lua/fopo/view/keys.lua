-- The keys of the live view: keys[key](c) does what the key says to the controller c.
local native = require "fopo.native"
local term = require "fopo.term"

-- ---- settings of the view ----

local function next_of(list, value)
  for i, one in ipairs(list) do
    if one == value then return list[i % #list + 1] end
  end
  return list[1]
end

local function set(c, name, value)
  c.settings[name] = value
  c.v:set{[name] = value}
end

local function toggle(name)
  return function(c) set(c, name, not c.settings[name]) end
end

local function cycle(c, name, list) set(c, name, next_of(list, c.settings[name])) end

-- ---- what the source does ----

-- The message of an error, without its place.
local function reason(why) return (tostring(why):gsub("^[^:]*:%d+: ", "")) end

-- Changes lr, epsilon or k by the function f.
local function turn(what, f)
  return function(c)
    local source = c.source
    local old = source.get and source:get(what)
    if type(old) ~= "number" then return c:message("this run has no %s to change", what) end
    local ok, why = pcall(source.set, source, what, f(old))
    if ok then c:message("%s: %.6g, was %.6g", what, source:get(what), old)
    else c:message("%s", reason(why)) end
  end
end

local function stepped(by)
  return function(v) return math.min(1, math.max(0, math.floor((v + by) * 100 + 0.5) / 100)) end
end

-- Calls a method of the source, which may be missing or fail, and shows its message.
local function ask(name)
  return function(c)
    local source = c.source
    if not source[name] then return c:message("this screen has nothing to %s", name) end
    local ok, said = pcall(source[name], source)
    if not ok then c:message("%s", reason(said))
    elseif said then c:message("%s", said) end
  end
end

local function screenshot(c)
  local base = c.source.shot and c.source:shot() or "screen"
  local made, why = native.make_folder(base:match("^(.*)/[^/]*$") or ".")
  for format, ending in pairs{text = "txt", ansi = "ans", svg = "svg"} do
    if made then
      made, why = native.write_file(("%s.%s"):format(base, ending), c.v:render(format))
    end
    if not made then return c:message("the screenshot is not whole: %s", why) end
  end
  c:message("%s.txt, .ans and .svg", base)
end

-- ---- the table ----

local keys = {
  ["?"] = toggle("help"),
  ["\27"] = function(c) set(c, "help", false) end,
  q = function(c)
    if c.settings.help then return set(c, "help", false) end
    c.left = true
    if c.source.leave then c.source:leave() end
  end,
  [" "] = function(c)
    c.paused = not c.paused
    if c.source.pause then c.source:pause(c.paused) end
  end,
  n = function(c)
    if not c.source.one then return c:message("this screen makes no steps") end
    c.paused = true
    c:add(c.source:one())
  end,
  ["+"] = turn("lr", function(v) return v * 1.25 end),
  ["-"] = turn("lr", function(v) return v / 1.25 end),
  ["["] = turn("epsilon", stepped(-0.05)),
  ["]"] = turn("epsilon", stepped(0.05)),
  k = turn("k", function(v) return math.max(1, v // 2) end),
  K = turn("k", function(v) return v * 2 end),
  e = ask("evaluate"),
  s = ask("save"),
  y = toggle("logy"),
  w = function(c)
    local seconds = c.settings.axis == "seconds"
    cycle(c, "window", seconds and {0, 60, 600, 3600} or {0, 1000, 10000, 100000})
  end,
  x = function(c)
    cycle(c, "axis", {"steps", "seconds"})
    set(c, "window", 0)
  end,
  m = function(c) cycle(c, "smoothing", {0, 0.6, 0.9, 0.97}) end,
  o = toggle("overlays"),
  g = function(c)
    cycle(c, "glyphs", term.utf8() and {"braille", "block", "ascii"} or {"ascii"})
  end,
  S = screenshot,
  [":"] = function(c) c.line:open() end,
  ["\12"] = function(c) c:draw(true) end,
  gone = function(c) c.left = true end,
}
keys["="], keys["_"] = keys["+"], keys["-"]

return keys
