-- The controller of the live view: its figures, and the loop that feeds and draws it. Its keys are
-- in fopo/view/keys.lua, its line of Lua in fopo/view/line.lua; src/term/view draws the screen.
--
-- The controller shows a source; fopo/view/sources.lua has the sources of runs:
--   source.title, .device     words, if they are known
--   source.history            columns as of t.history, which may grow
--   source.t                  the value of t in a line of Lua
--   source:numbers()          the present figures, by the names of v:set
--   source:done()             true after its end
--   source.apart              true if it works in another thread, so that drawing costs it nothing
--   source:advance(seconds)   works or waits for about so long; returns a slice {step, seconds,
--                             steps, reward, ess, ..., time} if there is one
-- A source that can be controlled also has source:get(what) and source:set(what, value) of lr,
-- epsilon and k, source:pause(on), source:resting(), source:one(), source:evaluate(),
-- source:save(path), source:leave(), source:note(action), and source:watching(f), which calls f and
-- notes the options that it changed.
local define = require "fopo.base.define"
local keys = require "fopo.view.keys"
local line = require "fopo.view.line"
local log = require "fopo.run.log"
local native = require "fopo.native"
local term = require "fopo.term"
local text = require "fopo.base.text"

local live = {}

-- The statistics of a step that the view shows.
local statistics = {}
for _, one in ipairs(native.statistics()) do
  if one.label ~= "" then statistics[#statistics + 1] = one end
end

local interval = 0.1     -- least seconds between drawings
local longest = 2        -- most seconds between drawings
local slice_seconds = 0.05 -- a key waits that long
local dearest = 0.008    -- share of the CPU time for the view; above it the view slows down

-- ---- a controller: a view, its source, and the settings ----

local controller = {}
controller.__index = controller

local function now() return native.clock() end

local finite = text.finite

-- v: a view of term.view; o: its options overlay, glyphs and mono.
function live.new(v, source, o)
  local c = setmetatable({v = v, source = source, line = line.new(v, source),
                          paused = source.resting and source:resting(),
                          seen = 0, cpu = 1e-9, own_cpu = 0, drawings = 0,
                          begun = now(), said_until = 0, next_memory = 0,
                          settings = {axis = "steps", smoothing = 0.9, window = 0, logy = false,
                                      overlays = true}}, controller)
  c.settings.glyphs = o.glyphs or (not term.utf8() and "ascii") or
    (term.blocks() and "block") or "braille"
  v:set(c.settings)
  v:set{lists = source.lists}
  v:set{title = source.title, device = source.device, state = "running", mono = o.mono or false}
  for _, given in ipairs(o.overlay or {}) do c:overlay(given) end
  return c
end

function controller:message(...)
  self.said_until = now() + 4
  self.v:set{message = string.format(...)}
end

-- Draws an earlier run behind this one: a trainer, or the folder of a log.
function controller:overlay(given)
  local name, h
  if type(given) == "string" then
    name, h = given:match("([^/]+)/*$"), log.read(given).history
  elseif define.kind(given) == "trainer" then
    name, h = given.gradient.kind .. " earlier", given.history
  else
    define.fail("overlay takes trainers and folders of logs, not %s", define.a(given))
  end
  local steps, seconds, rewards = h.step or {}, h.seconds or {}, h.reward or {}
  if not self.v:overlay(name, steps, seconds, rewards) then
    define.fail("overlay: at most 8 earlier runs can be shown")
  end
end

-- Adds the new records of the history: validations and, unless `is_live`, the curves, which a live
-- source gives as slices.
function controller:read_history(is_live)
  local h, v = self.source.history, self.v
  for n = self.seen + 1, #(h.step or {}) do
    local step, seconds = h.step[n], h.seconds and h.seconds[n] or 0
    local function add(series, value)
      if finite(value) then v:add(series, step, seconds, value) end
    end
    if not is_live then
      add("reward", h.reward and h.reward[n])
      local rate = h.steps_per_second and h.steps_per_second[n]
      add("rate", finite(rate) and rate * (self.source.batch or 1) or nil)
    end
    local valid, through = h.valid and h.valid[n], h.valid_index and h.valid_index[n]
    add("valid", valid)
    add("valid_index", through)
    if self.source.lists then add("lists", (h.valid_measure or {})[n]) end
    if finite(valid) then
      if not self.best or valid > self.best then
        self.best = valid
        v:set{best = valid, best_step = step}
      end
      v:set{valid = valid}
    end
    if finite(through) then v:set{valid_index = through} end
    local expected = h.valid_expected and h.valid_expected[n]
    if finite(expected) then v:set{valid_expected = expected} end
    self.seen = n
  end
end

-- Adds a slice. One point per drawing is enough for the curves, so slices are summed until then.
function controller:add(slice)
  if not slice or slice.steps == 0 then return end
  local sum = self.sum or {steps = 0, seconds = 0, reward = 0}
  sum.steps, sum.seconds = sum.steps + slice.steps, sum.seconds + slice.seconds
  sum.reward = sum.reward + slice.reward * slice.steps
  self.sum, self.last = sum, slice
end

local function ema(old, value, weight) return old and old + (value - old) * weight or value end

function controller:close_point(step, seconds)
  local sum, last = self.sum, self.last
  if not sum then return end
  self.sum = nil
  local batch = self.source.batch or 1
  local reward, rate = sum.reward / sum.steps, sum.steps / sum.seconds
  self.reward, self.rate = ema(self.reward, reward, 0.1), ema(self.rate, rate, 0.2)
  self.v:add("reward", step, seconds, reward)
  self.v:add("rate", step, seconds, rate * batch)
  local figures = {steps_rate = self.rate, contexts_rate = self.rate * batch}
  for _, one in ipairs(statistics) do figures[one.name] = last[one.name] end
  figures.reward = self.reward
  self.v:set(figures)
  self.v:phases(last.time)
end

-- Shows the memory of the process, read once a second.
function controller:read_memory()
  if now() < self.next_memory then return end
  self.next_memory = now() + 1
  local f <close> = io.open("/proc/self/statm", "r")
  local pages = f and f:read("a"):match("^%d+ (%d+)")
  local free = native.memory().available
  self.v:set{memory = pages and pages * 4096.0 or nil, memory_free = finite(free) and free or nil}
end

function controller:draw(anew)
  local numbers = self.source:numbers(self.rate)
  self:close_point(numbers.step or 0, numbers.seconds or 0)
  self:read_memory()
  if self.source.live and not self.source.apart then
    numbers.cost = self.own_cpu / self.cpu
  end
  numbers.state = self.paused and "paused" or self.source.state or "running"
  self.v:set(numbers)
  if now() > self.said_until then self.v:set{message = ""} end
  self.v:draw(anew)
  self.drawn, self.drawings = now(), self.drawings + 1
end

-- ---- the loop ----

function controller:press(key)
  if key == "resize" then self:draw() return end
  if self.line:is_open() then self.line:press(key)
  elseif keys[key] then keys[key](self) end
  self.pressed = true
end

-- Handles the keys that were typed; waits at most `seconds` for the first.
function controller:take_keys(seconds)
  local key = self.v:key(seconds)
  while key do
    self:press(key)
    if self.left then return end
    key = self.v:key(0)
  end
end

-- Whether to draw: ten times a second, less often where that would cost more than `dearest` of the
-- CPU time so far. On a busy machine a drawing and the steps between two drawings wait alike.
function controller:is_due()
  local waited = now() - (self.drawn or 0)
  return self.pressed or waited >= longest
         or waited >= interval and self.own_cpu <= dearest * self.cpu
end

function controller:turn_once()
  local began, source, worked = os.clock(), self.source, 0
  self:take_keys(self.paused and 0.1 or 0)
  if self.left or source:done() then return end
  if not self.paused then
    local from = os.clock()
    local slice = source:advance(slice_seconds)
    worked = os.clock() - from
    self:add(slice)
  end
  self:read_history(source.live)
  if self:is_due() then
    self:draw()
    self.pressed = false
  end
  local spent = os.clock() - began
  self.cpu, self.own_cpu = self.cpu + spent, self.own_cpu + spent - worked
end

-- The share of the CPU time that the view took, and its drawings per second.
local function costs(c) return c.own_cpu / c.cpu, c.drawings / (now() - c.begun) end

-- Keeps the last screen until a key is pressed, if the user is at the prompt. What
-- was typed by then never reaches the prompt.
function controller:linger()
  if self.left or not term.waits() then return end
  self.paused, self.source.state = false, "ended"
  local function wait()
    local _ <close> = setmetatable({}, {__close = native.interrupt_clear}) -- Ctrl-C is a key too
    while self.v:key(0) do end -- typed before the end is seen
    self.v:set{message = "the run has ended; a key closes the view", state = "ended"}
    self.v:draw()
    local key
    repeat
      key = self.v:key(0.5)
      if key == "resize" then self.v:draw() end
    until key and key ~= "resize"
  end
  pcall(wait)
  term.forget_typed()
end

-- Shows the source on the terminal until it ends or the user leaves. Returns the cost.
function live.run(source, o)
  local v <close> = term.view{terminal = true, colour = term.colour()}
  local c = live.new(v, source, {overlay = o.overlay, glyphs = o.glyphs, mono = not term.colour()})
  c:read_history(false)
  c:draw(true)
  while not (c.left or source:done()) do c:turn_once() end
  c:read_history(source.live)
  c:draw()
  local own, rate = costs(c)
  c:linger()
  return own, rate
end

-- The same without a terminal, to measure the cost of drawing.
function live.headless(source, o)
  local v <close> = term.view{rows = o.rows, cols = o.cols}
  local c = live.new(v, source, o)
  while not source:done() do c:turn_once() end
  return costs(c)
end

return live
