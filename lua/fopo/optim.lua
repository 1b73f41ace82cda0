-- fopo.optim: optimisers. The objective is a reward, so theta moves up the gradient.
local native = require "fopo.native"
local define = require "fopo.base.define"
local optim, methods = {}, native.types.optim

-- Options that both share.
local items_lr = {"items_lr", "number", nil, "learning rate of items that are learnt; lr if left "
                  .. "out", above = 0}
local lr_of = {"lr_of", "table", nil, "learning rates of blocks by name, as {items = 1e-2, W1 = "
               .. "1e-4}: of items (items_lr is the same), theta or the parts of a network; the "
               .. "others have lr"}
local schedule = {"schedule", "schedule", nil, "how all learning rates change from update to "
                  .. "update, as fopo.schedule.cosine{steps = 1000}; constant if left out"}
local clip = {"clip", "number", nil, "largest norm of a gradient: a longer one is scaled down to "
              .. "it; none if left out", above = 0}
local weight_decay = {"weight_decay", "number", 0, "L2, added to the gradient, unless decoupled",
                      min = 0}
local decoupled = {"decoupled", "boolean", false, "weights decay apart from the gradient: theta "
                   .. "loses lr * weight_decay * theta at each step"}

local of_all = [[o.lr is the base of the schedule and may be changed between steps, like clip,
weight_decay and schedule; o.rate is the learning rate of the last update, o.t the number of
updates. The schedule's factor is a function of o.t alone, so a run that is interrupted and resumed
uses the same rates; a file has o.t, and the schedule comes from the optimiser.
The norm that clip compares is the Frobenius norm of the gradient of all that is learnt, theta and
items (the column norm of the history), before weight decay is added. What the policy fixes (its
option learn) stays as it is, without decay too. A trainer refuses names in lr_of that its policy
does not have; o.lr_of gives them back. With several rates, or a part of theta fixed, a GPU makes
its steps one by one.]]

optim.adam = define.fn{
  name = "fopo.optim.adam", returns = "optim",
  options = {
    {"lr", "number", 1e-3, "learning rate", above = 0},
    items_lr, lr_of, schedule, clip,
    {"beta1", "number", 0.9, "decay of the mean", min = 0, below = 1},
    {"beta2", "number", 0.999, "decay of the mean square", min = 0, below = 1},
    {"eps", "number", 1e-8, "added to the root of the mean square", above = 0},
    weight_decay, decoupled,
  },
  presets = {paper = {lr = 1e-4, weight_decay = 1e-10}},
  text = [[Adam (Kingma and Ba 2014); with decoupled = true AdamW (Loshchilov and Hutter 2019).
Items that are learnt (train_items) are updated lazily: an item without a gradient in a step stays
as it is, with its moments and without decay, and the bias correction counts each item's own
updates.
]] .. of_all,
  example = [[o = fopo.optim.adam{lr = 1e-3}
o.lr = 5e-4
adamw = fopo.optim.adam{lr = 1e-2, weight_decay = 0.1, decoupled = true, clip = 1,
                        schedule = fopo.schedule.cosine{steps = 1000, warmup = 50}}
assert(adamw.clip == 1 and math.abs(adamw.rate - 1e-2 / 50) < 1e-12)]],
  call = native.optim_adam,
}

optim.sgd = define.fn{
  name = "fopo.optim.sgd", returns = "optim",
  options = {
    {"lr", "number", nil, "learning rate", above = 0, required = true},
    items_lr, lr_of, schedule, clip,
    {"momentum", "number", 0, "of the velocity", min = 0, below = 1},
    weight_decay, decoupled,
  },
  text = "Stochastic gradient ascent, with momentum if it is more than 0.\n" .. of_all,
  example = "o = fopo.optim.sgd{lr = 0.1, momentum = 0.9, clip = 5}",
  call = native.optim_sgd,
}

-- "clipped at 1, weight decay 0.1 (decoupled)", what is not as usual.
local function extras(o)
  local parts = {}
  if o.schedule.kind ~= "constant" or o.schedule.warmup > 0 then
    parts[1] = ("now %.3g by %s"):format(o.rate, o.schedule:describe())
  end
  if o.clip > 0 then parts[#parts + 1] = ("clipped at %g"):format(o.clip) end
  if o.weight_decay > 0 then
    parts[#parts + 1] = ("weight decay %g%s"):format(o.weight_decay,
                                                    o.decoupled and " (decoupled)" or "")
  end
  return #parts > 0 and ", " .. table.concat(parts, ", ") or ""
end

function methods.describe(o)
  return ("optimiser %s: lr %g%s, %d updates so far"):format(o.kind, o.lr, extras(o), o.t)
end

define.doc{name = "optim:step", signature = "o:step(pi, G)",
  text = [[Moves pi's theta up the gradient G, which has theta's shape. o:step(pi, G, ids, rows)
also moves the items `ids` up the gradient `rows`, both as g:compute returns them.]]}

return optim
