-- The run of a sweep that has no function of its own: a linear policy is trained on the train part
-- of the split, and evaluated on its test part.
local define = require "fopo.base.define"
local native = require "fopo.native"
local rows = require "fopo.base.rows"
local trial = require "fopo.tune.trial"

local standard = {}

local of_policy = {"temperature", "theta", "contexts", "effective", "seen", "preset"}
local own = {"gradient", "batch", "steps", "epochs", "resplit", "dim", "seen", "preset"}

local function known_names()
  local names = define.names_in(trial.known)
  table.move(own, 1, #own, #names + 1, names)
  table.sort(names)
  return names
end

-- Raises if a setting is unknown, or the runs have no length.
local function check(p, items)
  local names, known = known_names(), {seed = true, split = true}
  for _, name in ipairs(names) do known[name] = true end
  for _, name in ipairs(p.names) do
    if not known[name] then
      define.fail("fopo.experiment.sweep: over has %s, which the standard run does not use%s; it "
                  .. "uses %s; other settings are for a function run", name,
                  define.meant(name, names), table.concat(names, ", "))
    end
  end
  local kinds, is_kind = rows.names(native.gradients()), {}
  for _, name in ipairs(kinds) do is_kind[name] = true end
  for _, run in ipairs(p.runs) do
    local c = run.settings
    if (c.steps == nil) == (c.epochs == nil) then
      define.fail("fopo.experiment.sweep: over needs the length of the runs, steps = 1000 or "
                  .. "epochs = 5, one of them")
    end
    if items and (c.dim or c.scale) then
      define.fail("fopo.experiment.sweep: over has %s, but items are given; leave one of them out",
                  c.dim and "dim" or "scale")
    end
    local kind = define.kind(c.gradient)
    if kind == "string" and not is_kind[c.gradient] then
      define.fail("fopo.experiment.sweep: over.gradient has %q, which is none%s; there are %s",
                  c.gradient, define.meant(c.gradient, kinds), table.concat(kinds, ", "))
    elseif kind ~= "string" and kind ~= "function" and kind ~= "nil" then
      define.fail("fopo.experiment.sweep: over.gradient has %s, whose state would go from one run "
                  .. "into the next; give a function(c, items) that makes it, or its name as a "
                  .. "string", define.a(c.gradient))
    end
  end
end

local function gradient_of(maker, c, items)
  if type(c.gradient) == "function" then return c.gradient(c, items) end
  if c.gradient and c.gradient ~= "snis" then
    return require("fopo.gradient")[c.gradient]{samples = c.samples, k = c.k}
  end
  local drawn = c.gradient or c.samples or c.k or c.epsilon
  return drawn and maker:gradient_of(c, items) or nil
end

-- Goes on from the checkpoint of the run, if there is one.
local function resume(t, path)
  local f <close> = io.open(path)
  if not f then return end
  local ok, why = pcall(t.resume, t, path)
  if not ok then io.stderr:write(("fopo: a run begins anew: %s\n"):format(why)) end
end

local function policy_options(c)
  local options = {}
  for _, name in ipairs(of_policy) do options[name] = c[name] end
  return options
end

-- The function run of a sweep of these options, and one that makes the embeddings of a list of runs
-- before there are processes, each of which would make them again.
function standard.of(o, p)
  if not o.splits then
    define.fail("fopo.experiment.sweep needs the option split: a split of sessions, or a list of "
                .. "splits, for its standard run; or run, a function")
  end
  check(p, o.items)
  local makers = {}
  for _, split in ipairs(o.splits) do
    makers[split] = trial.new{data = split.train, items = o.items, dim = 64, over = {}, steps = 1,
                              batch = 1, policy = policy_options}
  end
  local function prepare(list)
    for _, run in ipairs(list) do makers[run.settings.split]:items_of(run.settings) end
  end
  local function run(c, my)
    local split, maker = c.split, makers[c.split]
    local pi, items = maker:policy_of(c)
    local t = require("fopo.trainer"){policy = pi, data = split.train, valid = split.valid,
      gradient = gradient_of(maker, c, items), optim = maker:optim_of(c), seed = c.seed,
      batch = c.batch, preset = c.preset, resplit = c.resplit,
      device = o.jobs > 1 and "cpu" or nil}
    resume(t, my.path)
    local how = {view = false, checkpoint = my.path, every_seconds = 60}
    if t.step == 0 then how.steps, how.epochs = c.steps, c.epochs end
    if t.step == 0 or t.native.unfinished then t:run(how) end
    local e = require "fopo.evaluate"(pi, split.test, {exclude = c.preset == "paper" and "none"
                                                               or nil})
    local h = t.history
    return {reward = e.reward, low = e.low, high = e.high, expected = e.expected,
            effective = e.effective, seconds = t.seconds, ms_step = 1e3 * t.seconds / t.step,
            step = h.step, valid = h.valid, valid_expected = h.valid_expected}
  end
  return run, prepare
end

return standard
