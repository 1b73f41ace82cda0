-- fopo.optim: optimisers. The objective is a reward, so theta moves up the gradient. Each is a row
-- of C (src/train/optimisers.def), from which its function, its own options and its help are made.
local native = require "fopo.native"
local define = require "fopo.base.define"
local rows = require "fopo.base.rows"
local optim, methods = {}, native.types.optim

-- Options that all share.
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

local presets = {adam = {paper = {lr = 1e-4, weight_decay = 1e-10}}}

for _, row in ipairs(native.optimisers()) do
  local options = {{"lr", "number", row.lr, "learning rate", above = 0, required = not row.lr},
                   items_lr, lr_of, schedule, clip}
  for _, spec in ipairs(rows.specs(row.options)) do options[#options + 1] = spec end
  options[#options + 1], options[#options + 2] = weight_decay, decoupled
  optim[row.name] = define.fn{
    name = "fopo.optim." .. row.name, returns = "optim", options = options,
    presets = presets[row.name], text = row.text .. of_all, example = row.example,
    call = native["optim_" .. row.name],
  }
end

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
