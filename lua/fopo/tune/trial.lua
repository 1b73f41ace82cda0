-- The parts of a search's runs: a policy, an estimator and an optimiser for given settings, by
-- functions of the user's or the built-in ones; and a run of them.
local define = require "fopo.base.define"

local trial = {}
trial.__index = trial

-- What the built-in parts make of a setting.
local of_policy = {"temperature", "theta", "contexts", "effective"}
local of_optim = {"lr", "weight_decay", "clip"}
local of_gradient = {"samples", "k", "epsilon"}
local known = {scale = true, schedule = true}
trial.known = known
for _, names in ipairs{of_policy, of_optim, of_gradient} do
  for _, name in ipairs(names) do known[name] = true end
end

local function pick(c, names, into)
  for _, name in ipairs(names) do
    if c[name] ~= nil then into[name] = c[name] end
  end
  return into
end

-- ---- the built-in parts ----

-- The embeddings of a trial, made once for each scale and dim.
function trial:items_of(c)
  local scale, dim = c.scale or "sqrt", c.dim or self.o.dim
  local key = scale .. dim
  if self.o.items then return self.o.items end
  if not self.items[key] then
    dim = math.min(dim, self.o.data.n, self.o.data.n_items)
    self.items[key] = require("fopo.embed").svd(self.o.data, {dim = dim, scale = scale})
  end
  return self.items[key]
end

-- The policy of a trial and its items, from the user's function or not.
function trial:policy_of(c)
  local made
  if self.o.policy then made = self.o.policy(c) else made = pick(c, of_policy, {}) end
  if define.kind(made) == "policy" then return made, made:items() end
  if type(made) ~= "table" then
    define.fail("fopo.tune: policy(c) must return a policy or options of fopo.policy.linear, "
                .. "not %s", define.a(made))
  end
  local options = {seed = c.seed, data = self.o.data}
  for name, value in pairs(made) do options[name] = value end
  options.items = options.items or self:items_of(c)
  return require("fopo.policy").linear(options), options.items
end

local function index_of(self, items)
  self.indexes[items] = self.indexes[items] or require("fopo.index").norm(items)
  return self.indexes[items]
end

function trial:gradient_of(c, items)
  if self.o.gradient then return self.o.gradient(c, items) end
  local P = items.rows
  local g = pick(c, {"samples"}, {samples = math.min(1000, P)})
  local q = pick(c, {"k", "epsilon"}, {k = math.min(256, P), index = index_of(self, items)})
  g.proposal = require("fopo.proposal").mixture(q)
  return require("fopo.gradient").snis(g)
end

local function schedule_of(c)
  if c.schedule == "cosine" or c.schedule == "linear" then
    return require("fopo.schedule")[c.schedule]{steps = c.steps, warmup = c.steps // 20}
  end
  if type(c.schedule) ~= "string" then return c.schedule end
  if c.schedule ~= "constant" then
    define.fail("fopo.tune: schedule must be constant, cosine, linear or one of fopo.schedule, "
                .. "not %q", c.schedule)
  end
end

function trial:optim_of(c)
  if self.o.optim then return self.o.optim(c) end
  return require("fopo.optim").adam(pick(c, of_optim, {schedule = schedule_of(c)}))
end

-- ---- a run ----

local function begin(self, run, seed)
  local c, o = {steps = run.steps, seed = seed}, self.o -- the settings as functions see them
  for name, value in pairs(run.options) do c[name] = value end
  run.policy, run.items = self:policy_of(c)
  run.trainer = require("fopo.trainer"){policy = run.policy, data = o.data, valid = o.valid or true,
    reward = o.reward,
    gradient = not run.options.default and self:gradient_of(c, run.items) or nil,
    optim = self:optim_of(c), seed = seed, exclude = o.exclude,
    batch = math.min(o.batch, o.data.n)}
  local how = {steps = run.steps, view = false, best_by = o.by}
  if o.jobs > 1 then run.job = run.trainer:start(how) else run.trainer:run(how) end
end

-- Begins the i-th run of these settings, as a job if there may be several. What goes wrong is told
-- by finish.
function trial:start(options, steps, i)
  local run = {options = options, steps = steps}
  local ok, why = pcall(begin, self, run, self.o.seed + i - 1)
  if not ok then run.failed = tostring(why) end
  return run
end

function trial:finish(run)
  if run.job then
    local ok, why = pcall(run.job.wait, run.job)
    if not ok then run.failed = tostring(why) end
    run.job = nil
  end
  if run.failed then
    run.failed = run.failed:gsub("^[^:]*:%d+: ", "")
    return
  end
  local held = run.trainer.held
  run.valid, run.valid_expected, run.valid_measure = held.valid, held.expected, held.measure
  run.best_step, run.seconds = run.trainer.best_step, run.trainer.seconds
end

-- A run lets go of what it was trained with.
function trial.forget(run)
  run.trainer, run.policy, run.policies, run.items = nil, nil, nil, nil
end

function trial.abandon(run)
  if run.job then run.job:stop() end
  run.job = nil
  trial.forget(run)
end

-- ---- what is searched ----

local function check_names(self)
  local own = self.o.policy or self.o.gradient or self.o.optim
  for name in pairs(self.over) do
    if not known[name] and not own then
      local names = define.names_in(known)
      define.fail("fopo.tune: over has %s, which no part uses%s; the built-in parts know %s", name,
                  define.meant(name, names, "; did you mean %s?"), table.concat(names, ", "))
    end
  end
  if self.over.scale and self.o.items then
    define.fail("fopo.tune: over has scale, but items are given; leave one of them out")
  end
end

local function steps_of(o)
  local per_pass = math.ceil(o.data.n / math.min(o.batch, o.data.n))
  return o.steps or math.max(300, math.min(10000, 3 * per_pass))
end

-- o: the checked options of fopo.tune.
function trial.new(o)
  local self = setmetatable({o = o, items = {}, indexes = setmetatable({}, {__mode = "k"}),
                             steps = steps_of(o)}, trial)
  self.over = o.over or {lr = {1e-4, 1e-1}, effective = {3e-4, 0.3}, contexts = {"mean", "unit"},
                         scale = not o.items and {"none", "sqrt"} or nil}
  self.whole = not o.gradient and {samples = true, k = true} or nil
  check_names(self)
  return self
end

return trial
