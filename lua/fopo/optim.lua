-- fopo.optim: optimisers. The objective is a reward, so theta moves up the gradient.
local native = require "fopo.native"
local define = require "fopo.base.define"
local optim, methods = {}, native.types.optim

local items_lr = {"items_lr", "number", nil, "learning rate of items that are learnt; lr if left "
                  .. "out", above = 0}

optim.adam = define.fn{
  name = "fopo.optim.adam", returns = "optim",
  options = {
    {"lr", "number", 1e-3, "learning rate", above = 0},
    items_lr,
    {"beta1", "number", 0.9, "decay of the mean", min = 0, below = 1},
    {"beta2", "number", 0.999, "decay of the mean square", min = 0, below = 1},
    {"eps", "number", 1e-8, "added to the root of the mean square", above = 0},
    {"weight_decay", "number", 0, "L2, added to the gradient", min = 0},
  },
  text = [[Adam (Kingma and Ba 2014). o.lr may be changed between steps. Items that are learnt
(train_items) are updated lazily: an item without a gradient in a step stays as it is, with its
moments and without decay, and the bias correction counts each item's own updates.]],
  example = "o = fopo.optim.adam{lr = 1e-3}\no.lr = 5e-4",
  call = native.optim_adam,
}

optim.sgd = define.fn{
  name = "fopo.optim.sgd", returns = "optim",
  options = {
    {"lr", "number", nil, "learning rate", above = 0, required = true},
    items_lr,
    {"momentum", "number", 0, "of the velocity", min = 0, below = 1},
    {"weight_decay", "number", 0, "L2, added to the gradient", min = 0},
  },
  text = "Stochastic gradient ascent, with momentum if it is more than 0.",
  example = "o = fopo.optim.sgd{lr = 0.1, momentum = 0.9}",
  call = native.optim_sgd,
}

function methods.describe(o)
  return ("optimiser %s: lr %g, %d updates so far"):format(o.kind, o.lr, o.t)
end

define.doc{name = "optim:step", signature = "o:step(pi, G)",
  text = [[Moves pi's theta up the gradient G, which has theta's shape. o:step(pi, G, ids, rows)
also moves the items `ids` up the gradient `rows`, both as g:compute returns them.]]}

return optim
