-- fopo.experiment: several runs under the same conditions.
local define = require "fopo.base.define"
local native = require "fopo.native"
local rows = require "fopo.base.rows"
local seen = require "fopo.base.seen"
local experiment = {}

local function check_methods(methods)
  for i, method in ipairs(methods) do
    local name = type(method) == "table" and method[1]
    if type(name) ~= "string" or define.kind(method[2]) ~= "gradient" then
      define.fail("fopo.experiment.race: methods[%d] is %s, not {name, gradient} as "
                  .. "{\"exact\", fopo.gradient.exact{}}", i,
                  name and ("{%s, %s}"):format(define.shown(name), define.shown(method[2]))
                  or define.shown(method))
    end
  end
end

experiment.race = define.fn{
  name = "fopo.experiment.race", returns = "table",
  options = {
    {"split", "split", nil, "sessions, as of d:sessions", required = true},
    {"items", "array", nil, "[P, L] embeddings", required = true},
    {"methods", "table", nil, "list of {name, gradient}", required = true},
    {"steps", "integer", nil, "steps of each run", required = true, min = 1},
    {"reward", "reward", nil, "of hits, that is raised and judged by, fopo.reward.hits(s.train, "
     .. "{value = ..}); each hit is worth 1 if left out"},
    {"index", "index", nil, "also evaluate through it"},
    seen.option("of fopo.evaluate, and of validation"),
    {"batch", "integer", 32, "contexts a step", min = 1},
    {"lr", "number", 1e-3, "learning rate of adam", above = 0},
    {"temperature", "number|string", nil, "of the policy; as fopo.policy.linear has it if left out",
     above = 0, one_of = {"auto"}},
    {"contexts", "string", nil, "of sessions; the same", one_of = (rows.names(native.encoders()))},
    {"seen", "string", nil, "the items of X; the same", one_of = {"keep", "mask"}},
    {"theta", "string", nil, "the start of every run; the same", one_of = {"identity", "random"}},
    {"seed", "integer", 1, "of theta, the order of contexts and the draws"},
    {"resplit", "boolean", nil, "as of fopo.trainer"},
    {"device", "string", "auto", "where the steps run", one_of = {"auto", "cpu", "cuda"}},
    {"on_run", "function", nil, "called with each run at its end"},
  },
  presets = {paper = {lr = 1e-4, temperature = 1.0, contexts = "mean", theta = "random",
                       resplit = false, seen = "keep", exclude = "none"}},
  text = [[Trains one policy per method from the same start, on the same contexts, for the same
number of steps, and evaluates each on the test split. A run ends with the parameters that were best
on the valid part of the split, where it has one (t:run). Returns the runs for fopo.report.runs:
{name=, policy=, trainer=, evaluation=}. Before those that were trained stand the untrained start,
popular ({name=, baseline=, evaluation=}), and identity if the start is another.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items = fopo.embed.svd(s.train, {dim = 8})
runs = fopo.experiment.race{split = s, items = items, steps = 10, methods = {
  {"exact", fopo.gradient.exact{}}, {"snis", fopo.gradient.snis{samples = 50}}}}
print(fopo.report.runs(runs))]],
  call = function(o)
    local fopo = require "fopo"
    check_methods(o.methods)
    local function policy(theta)
      return fopo.policy.linear{items = o.items, theta = theta or o.theta, data = o.split.train,
                                contexts = o.contexts, temperature = o.temperature, seen = o.seen,
                                seed = o.seed}
    end
    local function evaluate(who, index)
      return fopo.evaluate(who, o.split.test, {index = index, exclude = o.exclude,
                                                reward = o.reward})
    end
    local start, value = policy(), o.reward and o.reward.valued and o.reward or nil
    local popular = fopo.baseline.popular{data = o.split.train, value = value}
    local runs = {{name = "start", policy = start, evaluation = evaluate(start, o.index)},
                  {name = value and "popular by value" or "popular", baseline = popular,
                   evaluation = evaluate(popular)}}
    if o.theta == "random" then
      local identity = policy("identity")
      runs[3] = {name = "identity", policy = identity, evaluation = evaluate(identity, o.index)}
    end
    for _, method in ipairs(o.methods) do
      local pi = policy()
      local t = fopo.trainer{policy = pi, data = o.split.train, gradient = method[2],
                             reward = o.reward, optim = fopo.optim.adam{lr = o.lr},
                             batch = o.batch, seed = o.seed, device = o.device,
                             exclude = o.exclude, resplit = o.resplit}
      t:run{steps = o.steps, view = false}
      local run = {name = method[1], policy = pi, trainer = t,
                   evaluation = evaluate(pi, o.index)}
      runs[#runs + 1] = run
      if o.on_run then o.on_run(run) end
    end
    return runs
  end,
}

experiment.curves = define.fn{
  name = "fopo.experiment.curves", returns = "table",
  args = {{"runs", "table", nil, "as of fopo.experiment.race"}},
  text = "The expected reward against the seconds of learning, one series a run, for fopo.plot.",
  call = function(runs)
    local curves = {title = "expected reward while learning", xlabel = "seconds",
                    ylabel = "expected reward"}
    for _, run in ipairs(runs) do
      local h = type(run) == "table" and type(run.trainer) == "table" and run.trainer.history
      if h then
        curves[#curves + 1] = {name = run.name, x = h.seconds, y = h.reward}
      end
    end
    return curves
  end,
}

return experiment
