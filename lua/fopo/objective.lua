-- fopo.objective: objectives of the user's, beside those of C (src/device/objectives/).
local native = require "fopo.native"
local called = require "fopo.base.called"
local define = require "fopo.base.define"
local objective, methods = {}, native.types.objective

objective.custom = define.fn{
  name = "fopo.objective.custom", returns = "objective",
  options = {
    {"value", "function", nil, "value(R) -> value, slope, arrays [n, 1]: R [n, 1] are the expected "
     .. "rewards of n contexts, value what each counts, slope its derivative by R",
     required = true},
    {"title", "string", "value", "what the value is called in records, notes and checks"},
  },
  text = [[An objective of your own: the mean over contexts of a function of R, the expected reward
of a context, as log R, sqrt R, or 1 - exp(-a R). It is the option objective of fopo.gradient.exact,
snis and head_tail, and of fopo.trainer. C estimates R and its gradient by any draws, and the slope
multiplies that gradient; the value is the statistic reward, validated and kept by best_by =
"expected" under its title. fopo.check compares the gradient with differences of the value. The
estimate of R varies, so a slope that varies with it gives a bias of order 1 / S; exact has none.
Called once a batch and for validations, on the main thread, with arrays alone: jobs, a GPU, several
processes, items that are learnt and policies that score lists refuse it. A checkpoint holds no
function: to resume, give it again. In C such a function is a header: fopo.gradient.snis{objective =
"log_reward"} is one.]],
  example = [[root = fopo.objective.custom{title = "root of the reward", value = function(R)
  return R:maximum(1e-6):sqrt(), R:maximum(1e-6) ^ -0.5 / 2
end}
g = fopo.gradient.snis{objective = root, samples = 200}
assert(g.objective == "custom" and g.objective_title == "root of the reward")]],
  call = function(o)
    return native.objective_custom(called("objective.custom", o.value, {"R"}), o.title)
  end,
}

methods.describe = function(o) return ("objective custom: %s"):format(o.title) end

define.doc{name = "objective:values", signature = "o:values(R)", returns = "array, array",
  text = "The values [n, 1] of contexts whose expected rewards are R [n, 1], and their slopes."}

return objective
