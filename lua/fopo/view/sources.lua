-- The sources of the live view: a run in progress, a job, a finished trainer, the folder of a log.
local define = require "fopo.base.define"
local job = require "fopo.run.job"
local log = require "fopo.run.log"
local native = require "fopo.native"
local norms = require "fopo.run.norms"
local text = require "fopo.base.text"
local validation = require "fopo.run.validation"

local sources = {}

local finite, common = text.finite, native.gradient_common

-- "ndcg@10" of a run whose best parameters are known by lists; nil of others.
local function lists_of(by) return by and by:find("@", 1, true) and by or nil end

-- A run of t:run, which the view advances.
local live = {live = true}
live.__index = live

function sources.of_run(r)
  local t = r.t
  return setmetatable({r = r, t = t, history = t.history, batch = t.batch, device = t.device,
                       lists = lists_of(r.o.best_by)}, live)
end

function live:done() return self.r:done() end
function live:advance(seconds) return self.r:advance(seconds) end
function live:one() if not self.r:done() then return self.r:advance(nil, 1) end end
function live:get(what) return self.r:get(what) end
function live:set(what, value) self.r:set(what, value) end
function live:note(action) self.r:note(action) end
function live:watching(f, line) self.r:watching(f, line) end

function live:leave()
  self.r.left, self.r.stopped = true, "left by q"
end

function live:evaluate()
  local t = self.t
  if not t.valid then
    return "no sessions to validate on; give them as fopo.trainer{valid = s.valid}"
  end
  if not self.r:record_now() then return "evaluated at this step already" end
  local n = #t.history.valid
  return ("step %s: valid %.4f"):format(text.count(t.step), t.history.valid[n])
end

function live:folder()
  return self.t.log_folder or "runs"
end

function live:save()
  local folder = self:folder()
  local made, why = native.make_folder(folder)
  if not made then return why end
  local path = ("%s/step-%d.npz"):format(folder, self.t.step)
  if self.r then self.r:tell("save", "%s", path) end
  self.t:save(path)
  self:note{what = "save", value = path}
  return path
end

function live:shot() return ("%s/screen-%d"):format(self:folder(), self.t.step) end

function live:numbers(rate)
  local r, t = self.r, self.t
  local g = t.gradient
  local steps = finite(r.steps) and r.first + math.tointeger(r.steps) or nil
  local eta
  if r.o.seconds then eta = r.o.seconds - (t.seconds - r.begun)
  elseif steps and rate then eta = (steps - t.step) / rate end
  return {step = t.step, steps = steps, seconds = t.seconds, eta = eta, lr = t.optim.rate,
          measure = validation.measure(t),
          epsilon = common(g, "epsilon"), k = common(g, "k"), samples = common(g, "samples"),
          title = (g:describe():gsub("^gradient ", ""))
                  .. norms.state(t.native.head, t.native.held)}
end

-- A job, which continues in its own thread after the view is left.
local background = {live = true, apart = true}
background.__index = background

function sources.of_job(j)
  local t = j.trainer
  return setmetatable({j = j, t = t, history = t.history, batch = t.batch, device = t.device,
                       lists = lists_of(j.run.o.best_by)}, background)
end

function background:done() return self.j.state ~= "training" and self.j.state ~= "paused" end
function background:advance(seconds) return self.j:watch(seconds) end
function background:get(what) return self.j[what] end
function background:set(what, value) self.j[what] = value end
function background:note(action) self.j.run:note(action) end
function background:pause(on) if on then self.j:pause() else self.j:resume() end end

function background:resting() return self.j.state == "paused" end

function background:save()
  local path
  job.at_rest(self.t, function() path = live.save(self) end)
  return path
end

function background:shot() return live.shot(self) end
function background:folder() return live.folder(self) end

-- The learning rate of the job's last update; the optimiser at hand is that of its start.
local function rate_of(j)
  local o, made = j.trainer.optim, j.step - j.trainer.native.step
  return o.lr * o.schedule:at(math.max(0, o.t + made - 1))
end

function background:numbers(rate)
  local g, last = self.t.gradient, self.j.last
  return {step = self.j.step, steps = last, seconds = self.j.seconds, lr = rate_of(self.j),
          measure = validation.measure(self.t),
          eta = last and rate and (last - self.j.step) / rate or nil,
          epsilon = common(g, "epsilon"), k = common(g, "k"), samples = common(g, "samples"),
          title = "job, " .. g:describe():gsub("^gradient ", "")
                  .. norms.of_history(self.t.history)}
end

-- A finished run: a trainer, or the folder of a log.
local past = {state = "ended"}
past.__index = past

local function last_of(list)
  for i = #(list or {}), 1, -1 do
    if finite(list[i]) then return list[i] end
  end
end

function sources.of_past(what)
  if type(what) == "string" then
    local run = log.read(what)
    local g = run.config.gradient or {}
    local by_value = (run.config.reward or ""):find("by value", 1, true)
    return setmetatable({history = run.history, batch = run.config.batch, samples = g.samples,
                         measure = by_value and "value" or "reward",
                         k = g.k, title = (g.about or what):gsub("^gradient ", "")
                                          .. norms.of_history(run.history),
                         device = (run.config.device or {}).name,
                         lists = lists_of((run.config.run or {}).best_by)}, past)
  end
  if define.kind(what) ~= "trainer" then
    define.fail("fopo.view shows trainers and folders of logs, not %s", define.a(what))
  end
  return setmetatable({t = what, history = what.history, batch = what.batch, device = what.device,
                       measure = validation.measure(what), lists = lists_of(what.valid
                       and validation.standard(what)),
                       samples = common(what.gradient, "samples"), k = common(what.gradient, "k"),
                       title = what.gradient:describe():gsub("^gradient ", "")
                               .. norms.of_history(what.history)}, past)
end

function past:done() return false end
function past:advance() end

function past:numbers()
  local h = self.history
  local rate = last_of(h.steps_per_second)
  local numbers = {step = last_of(h.step), seconds = last_of(h.seconds), steps_rate = rate,
                   contexts_rate = rate and rate * (self.batch or 1), samples = self.samples,
                   k = self.k, epsilon = last_of(h.epsilon), lr = last_of(h.lr),
                   measure = self.measure}
  for _, one in ipairs(native.statistics()) do
    if one.label ~= "" then numbers[one.name] = last_of(h[one.name]) end
  end
  return numbers
end

function past:phases()
  local seconds = {}
  for _, phase in ipairs(native.phases()) do
    seconds[phase.name] = last_of(self.history[phase.column])
  end
  return seconds
end

return sources
