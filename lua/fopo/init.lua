-- require "fopo": the public surface, one module for each family of functions.
--
-- The modules named below are public and lie in this folder. Their helpers lie in folders:
--   base/     declarations of functions, caches, JSON, text: what every module may use
--   run/      a training run: its log on disk, its events, jobs in the background
--   index/    the choice of an index by measurement (fopo.index.auto)
--   serve/    recommendations, what explains them, files of policies
--   tune/     the settings, rungs and runs of a search
--   sweep/    the plan, rows, runs and tables of a sweep
--   view/     the training view's sources and pictures, the pages of a lesson
--   check/    the measurements of fopo.check
--   prompt/   completion, and what is added to an error message
--   lessons/  the texts and the code of fopo.demo
local native = require "fopo.native"
local define = require "fopo.base.define"
local strict = require "fopo.base.strict"
require "fopo.base.remedy"

local fopo = {
  version = native.version,
  clock = native.clock,
  array = require "fopo.array",
  data = require "fopo.data",
  embed = require "fopo.embed",
  shard = require "fopo.shard",
  index = require "fopo.index",
  policy = require "fopo.policy",
  proposal = require "fopo.proposal",
  reward = require "fopo.reward",
  objective = require "fopo.objective",
  gradient = require "fopo.gradient",
  schedule = require "fopo.schedule",
  optim = require "fopo.optim",
  trainer = require "fopo.trainer",
  jobs = require("fopo.run.job").list,
  tune = require "fopo.tune",
  evaluate = require "fopo.evaluate",
  baseline = require "fopo.baseline",
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
  check_answer = require("fopo.exercise").check_answer,
  show = require "fopo.show",
  theme = require "fopo.theme",
  who = require "fopo.who",
  explain = require "fopo.explain",
  glossary = require("fopo.glossary").print,
  strict = strict.set,
}

-- fopo.time, fopo.memory, fopo.threads, fopo.isa, fopo.device, fopo.ranks, fopo.network
for name, f in pairs(require "fopo.machine") do fopo[name] = f end

-- describe() is what print shows of an object; it reads its fields without a check.
for kind, methods in pairs(native.types) do
  if methods.describe then
    methods.describe = define.method(kind, "describe", methods.describe)
  end
end

for name, module in pairs(fopo) do
  if type(module) == "table" then strict.module("fopo." .. name, module) end
end

return strict.module("fopo", fopo)
