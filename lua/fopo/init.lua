-- require "fopo": the whole surface, one module a family.
local native = require "fopo.native"
local strict = require "fopo.base.strict"

local fopo = {
  version = native.version,
  clock = native.clock,
  array = require "fopo.array",
  data = require "fopo.data",
  embed = require "fopo.embed",
  index = require "fopo.index",
  policy = require "fopo.policy",
  proposal = require "fopo.proposal",
  reward = require "fopo.reward",
  gradient = require "fopo.gradient",
  optim = require "fopo.optim",
  trainer = require "fopo.trainer",
  evaluate = require "fopo.evaluate",
  ope = require "fopo.ope",
  check = require "fopo.check",
  experiment = require "fopo.experiment",
  compare = require "fopo.compare",
  plot = require "fopo.plot",
  report = require "fopo.report",
  view = require "fopo.view",
  help = require "fopo.help",
  examples = require "fopo.examples",
  demo = require "fopo.demo",
  show = require "fopo.show",
  strict = strict.set,
}

for name, f in pairs(require "fopo.machine") do fopo[name] = f end

for name, module in pairs(fopo) do
  if type(module) == "table" then strict.module("fopo." .. name, module) end
end

return strict.module("fopo", fopo)
