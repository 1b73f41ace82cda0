-- fopo.schedule: how the learning rate changes from update to update.
local native = require "fopo.native"
local define = require "fopo.base.define"
local text = require "fopo.base.text"
local schedule, methods = {}, native.types.schedule

local warmup = {"warmup", "integer", 0, "first updates, over which the rate rises linearly to lr",
                min = 0}

local function make(kind)
  return function(o)
    o.kind = kind
    return native.schedule(o)
  end
end

schedule.constant = define.fn{
  name = "fopo.schedule.constant", returns = "schedule",
  options = {warmup},
  text = [[The learning rate lr at every update, after the warm-up. With warmup = 0 it is what an
optimiser without a schedule does.]],
  example = [[o = fopo.optim.adam{lr = 1e-3, schedule = fopo.schedule.constant{warmup = 100}}
assert(math.abs(o.schedule:at(0) - 0.01) < 1e-12 and o.schedule:at(100) == 1)]],
  call = make("constant"),
}

-- Options of those that end.
local steps = {"steps", "integer", nil, "updates in all, the warm-up included", required = true,
               min = 1}
local final = {"final", "number", 0, "share of lr at the end, and from then on", min = 0, max = 1}

schedule.cosine = define.fn{
  name = "fopo.schedule.cosine", returns = "schedule",
  options = {steps, warmup, final},
  text = [[After the warm-up the rate falls from lr to final * lr along half a cosine (Loshchilov
and Hutter 2017). steps is that of the run: t:run{steps = n}, or epochs * t.steps_per_epoch.]],
  example = [[s = fopo.schedule.cosine{steps = 1000, warmup = 100}
print(s)
assert(s:at(100) == 1 and s:at(1000) == 0 and math.abs(s:at(550) - 0.5) < 1e-12)
o = fopo.optim.adam{lr = 1e-2, schedule = s}]],
  call = make("cosine"),
}

schedule.linear = define.fn{
  name = "fopo.schedule.linear", returns = "schedule",
  options = {steps, warmup, final},
  text = [[After the warm-up the rate falls from lr to final * lr along a straight line, by the same
amount at each update. steps is that of the run, as of fopo.schedule.cosine.]],
  example = [[s = fopo.schedule.linear{steps = 1000, final = 0.28}
assert(s:at(0) == 1 and math.abs(s:at(500) - 0.64) < 1e-12 and s:at(1000) == 0.28)]],
  call = make("linear"),
}

schedule.step = define.fn{
  name = "fopo.schedule.step", returns = "schedule",
  options = {
    {"every", "integer", nil, "updates between two changes, counted from the end of the warm-up",
     required = true, min = 1},
    {"factor", "number", 0.1, "multiplies the rate at each change", above = 0, max = 1},
    warmup,
  },
  text = "The rate is multiplied by factor after every so many updates.",
  example = [[s = fopo.schedule.step{every = 500, factor = 0.5}
assert(s:at(499) == 1 and s:at(500) == 0.5 and s:at(1000) == 0.25)]],
  call = make("step"),
}

methods.at = define.fn{
  name = "schedule:at", returns = "number",
  args = {{"s", "schedule", nil, "the schedule"},
          {"t", "integer", nil, "updates made before", min = 0}},
  text = "What lr is multiplied by at the next update after t updates; a function of t alone.",
  call = methods.at,
}

function methods.describe(s)
  local parts = {"schedule " .. s.kind}
  if s.kind == "cosine" or s.kind == "linear" then
    parts[2] = ("from lr to %g lr at update %s"):format(s.final, text.count(s.steps))
  elseif s.kind == "step" then
    parts[2] = ("times %g every %s updates"):format(s.factor, text.count(s.every))
  end
  if s.warmup > 0 then
    parts[#parts + 1] = ("a warm-up of %s updates"):format(text.count(s.warmup))
  end
  return table.concat(parts, ", ")
end

return schedule
