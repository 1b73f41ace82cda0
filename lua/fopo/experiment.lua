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
    if method.policy ~= nil and type(method.policy) ~= "function" then
      define.fail("fopo.experiment.race: policy of method %s is %s, not a function that makes one",
                  name, define.shown(method.policy))
    end
  end
end

experiment.race = define.fn{
  name = "fopo.experiment.race", returns = "table",
  options = {
    {"split", "split", nil, "sessions, as of d:sessions", required = true},
    {"items", "array", nil, "[P, L] embeddings", required = true},
    {"methods", "table", nil, "list of {name, gradient}, or {name, gradient, policy = f}: "
     .. "f() makes the policy of the run", required = true},
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
      local pi = method.policy and method.policy() or policy()
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

experiment.sweep = define.fn{
  name = "fopo.experiment.sweep", returns = "table",
  options = {
    {"over", "table", nil, "settings by name: a value, a list of values, or a table of anything by "
     .. "name, {gradient = {plain = f, own = g}}; or a list of such tables, whose runs are all "
     .. "made", required = true},
    {"out", "string", nil, "the folder of the rows and of what is made of them", required = true},
    {"seeds", "integer|table", 5, "how many, 1, 2, ..., or a list of them; a table of settings "
     .. "with `seed` has its own", min = 1},
    {"split", "split|table", nil, "c.split: a split of sessions, or a list of several, on each of "
     .. "which all is run"},
    {"items", "array", nil, "[P, L] embeddings for the standard run; if left out those of "
     .. "fopo.embed.svd, by the settings dim and scale"},
    {"run", "function", nil, "called with the settings c of a run; returns numbers by name; the "
     .. "standard run if left out"},
    {"measures", "table", nil, "names of what tables show; the best has the largest mean of the "
     .. "first; all, reward first, if left out"},
    {"against", "table", nil, "settings of the runs that the others are compared with, {gradient = "
     .. "\"snis\"}; the best ones if left out"},
    {"jobs", "integer", 1, "runs at once, in processes of their own", min = 1},
    {"view", "boolean", true, "show the table as it grows, where there is a terminal, else a line "
     .. "a run"},
    {"report", "boolean", true, "write tables, pictures and TensorBoard's files at the end"},
  },
  text = [[
Runs every combination of the settings in `over`, with every seed, on every split, and keeps a row
a run in out/results.csv, on the disk when the run has ended. The same call makes only the runs
that the file lacks, so a sweep that was stopped, by Ctrl-C or kill -9, goes on: call it again.
With more values or seeds it makes those that are new. Rows of other settings stay in the file, and
it is said which; they are not shown.
The result prints as a table: over the runs that differ in seed alone the mean of each measure,
with half its 95 % interval by Student's t over the seeds; on several splits over these, of the
means over their seeds. Of a single run reward has its interval over the test sessions. "against
the best" is the mean difference from the best in pairs of the same seed or split, with its
interval; the best of many looks better than it is. It is a table too: rows, all that is kept of
these settings; best, {settings by name}; failed, rows with their `error`; folder; interrupted.
run(c, my) gets the settings, c.seed and c.split, and returns {name = number}, or lists of numbers,
of which tables show the last and pictures all, over the list epoch, step or seconds. my.path is a
file for the checkpoint of this run alone, t:run{checkpoint = my.path}, removed when the run has
ended; my.rows are the rows so far; my.say(text) shows how far it is. What run uses and `over` does
not name is not known to the rows: give it as a setting of one value.
The standard run trains fopo.policy.linear on split.train for c.steps or c.epochs, and evaluates it
on split.test. Its settings are dim and scale of fopo.embed.svd; temperature, effective, theta,
contexts, seen and preset of the policy; lr, weight_decay, clip and schedule of fopo.optim.adam;
batch and resplit of fopo.trainer; gradient, a name, or by name functions of (c, items); samples, k
and epsilon. An unfinished run goes on from its checkpoint of once a minute.
A run that raises an error is a row with that error; the others are made, and the next call tries
it again. jobs = n forks the program: the rows are those of jobs = 1, the GPU is not used, and jobs
of t:start must have ended.
At the end out/ has table.csv, table.md and table.tex; pictures, a curve with bands over the seeds
for each list and bars for each measure; and tensorboard/, with hparams.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
out = os.tmpname()
os.remove(out)
found = fopo.experiment.sweep{over = {lr = {1e-3, 1e-2}, steps = 20, dim = 8}, seeds = 2, split = s,
                              out = out, view = false, report = false}
print(found)
assert(#found.rows == 4 and found.best.lr)
os.execute("rm -r " .. out)]],
  call = function(o) return require "fopo.sweep.sweep"(o) end,
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
