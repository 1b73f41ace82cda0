-- What is assigned to a field of an object takes effect, or is an error with a remedy: no object
-- shows a value that it does not use.
local lu = require "luaunit"
local fopo = require "fopo"
local json = require "fopo.base.json"
local knobs = require "fopo.run.knobs"
local log = require "fopo.run.log"

local d = fopo.data.synthetic{users = 300, items = 400, clusters = 8, seed = 1}
local s = d:sessions{min_items = 10, seed = 2}
local items = fopo.embed.svd(s.train, {dim = 8})
local ix = fopo.index.norm(items)

local function new(more)
  local o = {policy = fopo.policy.linear{items = items, seed = 1}, data = s.train, seed = 4,
             gradient = fopo.gradient.snis{samples = 60, proposal = fopo.proposal.mixture{
               index = ix, k = 20}},
             optim = fopo.optim.adam{lr = 1e-2}, valid = false}
  for name, value in pairs(more or {}) do o[name] = value end
  return fopo.trainer(o)
end

local function theta(t) return t.policy:theta():totable() end

-- The sentence of the error that an assignment raises.
local function refused(object, field, value)
  local ok, why = pcall(function() object[field] = value end)
  lu.assertFalse(ok, field .. " was set")
  lu.assertStrContains(why, "test_sealed.lua:")
  lu.assertNil(why:find("\n"), why)
  return why
end

TestTrainer = {}

-- An option of an estimator that is called like a field of a trainer or a job is no field there.
function TestTrainer:test_no_knob_hides_a_field()
  local t = new()
  local j = t:start{steps = 1}
  j:wait()
  for _, object in ipairs{t, j} do
    local meta = debug.getmetatable(object)
    for _, names in ipairs{meta, meta.fields, require("fopo.base.sealed").behind(object)} do
      for name in next, names do
        lu.assertTrue(knobs.is(name) or knobs.taken[name] or not name:find("^%a"), name)
      end
    end
  end
end

function TestTrainer:test_what_is_fixed()
  local t = new()
  local values = {batch = 64, seed = 9, device = "cuda", index_refresh = 5,
                  gradient = fopo.gradient.exact{}, optim = fopo.optim.sgd{lr = 1},
                  policy = fopo.policy.linear{items = items}, data = s.test,
                  reward = fopo.reward.hits(s.test), contexts = items}
  for field, value in pairs(values) do
    local before = t[field]
    local why = refused(t, field, value)
    lu.assertStrContains(why, "t." .. field .. " cannot be set: it is fixed when a trainer is made")
    lu.assertStrContains(why, "fopo.trainer{" .. field .. " = ")
    lu.assertEquals(t[field], before)
  end
  lu.assertStrContains(refused(t, "batch", 64), "fopo.trainer{batch = 64, policy = t.policy")
  for _, field in ipairs{"step", "history", "notes", "actions", "seconds", "held", "best_step",
                         "steps_per_epoch", "job"} do
    lu.assertStrContains(refused(t, field, 1), "it records what was done")
  end
  lu.assertStrContains(refused(t, "run", print), "it is a method, as in t:run{...}")
  t:run{steps = 2, view = false}
  lu.assertEquals(t.step, 2)
end

function TestTrainer:test_names_that_do_not_exist()
  local t = new()
  lu.assertStrContains(refused(t, "smaples", 1), "no field 'smaples'; did you mean 'samples'?")
  lu.assertStrContains(refused(t, "xyzzyq", 1), "what can be set is clip, epsilon, exclude, ")
  lu.assertStrContains(refused(t, 1, 1), "trainer has no field 1")
  lu.assertErrorMsgContains("did you mean 'history'?", function() return t.histroy end)
end

-- A knob set between two runs is that of the next one, is in the history, and is replayed.
function TestTrainer:test_knobs_take_effect()
  local t, plain = new(), new()
  t:run{steps = 10, view = false}
  plain:run{steps = 10, view = false}
  lu.assertEquals(theta(t), theta(plain))
  t.lr = 1e-3
  t.samples = 30
  t.epsilon = 0.5
  t.k = 15
  lu.assertEquals({t.lr, t.samples, t.epsilon, t.k}, {1e-3, 30, 0.5, 15})
  lu.assertEquals({t.optim.lr, t.gradient.samples, t.gradient.epsilon, t.gradient.k},
                  {1e-3, 30, 0.5, 15})
  t:run{steps = 10, view = false}
  plain:run{steps = 10, view = false}
  lu.assertNotEquals(theta(t), theta(plain))
  lu.assertEquals(t.history.lr[#t.history.lr], 1e-3)
  lu.assertEquals(t.history.epsilon[#t.history.epsilon], 0.5)
  local seen = {}
  for i, a in ipairs(t.actions) do seen[i] = {a.step, a.what, a.value, a.before} end
  lu.assertEquals(seen, {{10, "lr", 1e-3, 1e-2}, {10, "samples", 30, 60},
                         {10, "epsilon", 0.5, 0.8}, {10, "k", 15, 20}})
  local again = new()
  again:run{steps = 20, view = false, replay = t.actions}
  lu.assertEquals(theta(again), theta(t))
end

function TestTrainer:test_every_knob()
  local sgd = new{optim = fopo.optim.sgd{lr = 0.1, momentum = 0.5}}
  sgd.momentum, sgd.clip, sgd.weight_decay, sgd.items_lr = 0.25, 2, 0.125, 0.5
  lu.assertEquals({sgd.optim.momentum, sgd.optim.clip, sgd.optim.weight_decay, sgd.optim.items_lr},
                  {0.25, 2, 0.125, 0.5})
  local head = new{gradient = fopo.gradient.head_tail{head = 40, tail = 20}}
  head.head, head.tail = 50, 10
  lu.assertEquals({head.gradient.head, head.gradient.tail}, {50, 10})
  lu.assertStrContains(refused(head, "samples", 5), "no samples to change: gradient head and tail")
  lu.assertStrContains(refused(new(), "momentum", 0.5), "no momentum to change: optimiser adam")
  lu.assertStrContains(refused(head, "lr", "x"), "lr must be a number, not \"x\"")
  lu.assertStrContains(refused(head, "lr", -1), "learning rate is -1")
  lu.assertEquals(head.lr, 1e-2)
end

-- What is set on a part, as the documentation of optimisers shows it, is kept too.
function TestTrainer:test_parts()
  local t = new()
  t:run{steps = 4, view = false}
  t.optim.lr = 2e-3
  t:run{steps = 4, view = false}
  lu.assertEquals(#t.actions, 1)
  lu.assertEquals({t.actions[1].what, t.actions[1].step, t.actions[1].value}, {"lr", 4, 2e-3})
end

function TestTrainer:test_while_it_runs()
  local t, steps = new(), 0
  t:run{steps = 20, every = 5, view = false, on_record = function()
    steps = steps + 1
    if steps == 2 then t.lr = 5e-3 end
    if steps == 3 then refused(t, "valid", s.test) end
  end}
  lu.assertEquals(t.history.lr, {1e-2, 1e-2, 5e-3, 5e-3})
  lu.assertEquals({t.actions[1].step, t.actions[1].value, #t.actions}, {10, 5e-3, 1})
  local job = t:start{steps = 100000}
  t.lr = 2e-3
  lu.assertEquals(job.lr, 2e-3)
  lu.assertStrContains(refused(t, "valid", s.test), "set it before the next one")
  job:stop()
  t.lr = 1e-3
  lu.assertEquals({t.actions[#t.actions].what, t.actions[#t.actions].value}, {"lr", 1e-3})
end

function TestTrainer:test_validation()
  local t = new()
  t:run{steps = 2, every = 2, view = false}
  lu.assertNotEquals(t.history.valid[1], t.history.valid[1]) -- NaN
  t.valid = s.test
  t.index = ix
  t:run{steps = 2, every = 2, view = false, keep_best = false}
  lu.assertAlmostEquals(t.history.valid[2], fopo.evaluate(t.policy, s.test).reward, 1e-9)
  lu.assertEquals(t.history.valid_index[2], t.history.valid[2])
  t.exclude = "seen"
  t:run{steps = 2, every = 2, view = false, keep_best = false}
  lu.assertAlmostEquals(t.history.valid[3],
                        fopo.evaluate(t.policy, s.test, {exclude = "seen"}).reward, 1e-9)
  t.valid = true
  lu.assertIs(t.valid, s.valid)
  t.valid, t.exclude, t.index = nil, nil, nil
  lu.assertNil(t.valid)
  t:run{steps = 2, every = 2, view = false}
  lu.assertNotEquals(t.history.valid[4], t.history.valid[4])
  lu.assertStrContains(refused(t, "valid", 3), "trainer: valid must be ")
  lu.assertStrContains(refused(t, "exclude", "sen"), "did you mean \"seen\"?")
  lu.assertEquals(t.actions[1].what, "valid")
end

-- The log has the actions between its runs, and each config.json what its run began with.
function TestTrainer:test_log()
  local folder = os.tmpname()
  os.remove(folder)
  local t = new()
  t:run{steps = 5, view = false, log = folder}
  t.lr = 1e-3
  t.samples = 30
  t:run{steps = 5, view = false, log = folder}
  local actions = log.read_actions(folder)
  lu.assertEquals({#actions, actions[1].what, actions[1].step, actions[2].value},
                  {2, "lr", 5, 30})
  local function config(name)
    local f <close> = io.open(folder .. "/" .. name)
    return json.decode(f:read("a"))
  end
  lu.assertEquals({config("config.json").optim.lr, config("config.json").gradient.samples},
                  {1e-2, 60})
  lu.assertEquals({config("config-5.json").optim.lr, config("config-5.json").gradient.samples},
                  {1e-3, 30})
  local again = new()
  again:run{steps = 10, view = false, replay = folder}
  lu.assertEquals(theta(again), theta(t))
  t.log_folder = folder .. "-b"
  t:run{steps = 1, view = false, log = true}
  lu.assertEquals(#log.read_actions(folder .. "-b"), 0) -- its config.json has the values
  lu.assertStrContains(refused(t, "log_folder", 3), "must be a string")
  os.execute(("rm -r %s %s-b"):format(folder, folder))
end

TestTables = {}

-- Every field of these objects is the result of something, and says of what.
function TestTables:test_results()
  local t = new{valid = s.valid}:run{steps = 2, view = false}
  local lg = fopo.data.synthetic_logs{n = 300, actions = 20, dim = 4}
  local logged = fopo.policy.linear{items = lg:items(), theta = "identity"}
  local job = new():start{steps = 1}
  job:wait()
  local results = {
    [s] = "d:sessions{...} makes another one",
    [fopo.evaluate(t.policy, s.test, {index = ix})] = "fopo.evaluate(pi, sessions",
    [fopo.ope(logged, lg, {bootstrap = 0})] = "fopo.ope(pi, logs",
    [fopo.tune{data = s.train, dim = 4, steps = 4, trials = 1, view = false,
               over = {lr = {1e-3, 1e-2}}}] = "fopo.tune{...} searches anew",
    [fopo.check{contexts = 2, repetitions = 30, print = false}] = "fopo.check{...} measures anew",
  }
  for object, remedy in pairs(results) do
    local n = 0
    for field, value in pairs(object) do
      lu.assertStrContains(refused(object, field, 1), remedy)
      lu.assertIs(object[field], value)
      n = n + 1
    end
    lu.assertTrue(n >= 3)
    lu.assertStrContains(refused(object, "xyzzyq", 1), "no field 'xyzzyq'")
    lu.assertEquals(tostring(object), fopo.show(object))
  end
  lu.assertStrContains(refused(job, "step", 1), "what can be set is lr, ")
  lu.assertStrContains(refused(job, "trainer", 1), "what can be set is lr, ")
  lu.assertStrContains(refused(job, "stop", 1), "it is a method, as in job:stop()")
  lu.assertStrContains(refused(job, "lrr", 1), "did you mean 'lr'?")
  lu.assertStrContains(refused(job, "lr", 1e-3), "t:start starts another")
end

function TestTables:test_completion()
  local complete = require "fopo.prompt.complete"
  _G.some_split, _G.some_trainer = s, new()
  lu.assertEquals(complete("some_split.tr", ""), {"some_split.train"})
  lu.assertEquals(complete("some_trainer.hist", ""), {"some_trainer.history"})
  lu.assertEquals(complete("some_trainer.sam", ""), {"some_trainer.samples"})
  lu.assertEquals(complete("some_trainer.optim.mom", ""), {"some_trainer.optim.momentum"})
  _G.some_split, _G.some_trainer = nil, nil
  local function fields_of(x) return fopo.help.text(x):match("Fields: ([^\n]*)") end
  lu.assertEquals(fields_of(s), "dataset, dropped, kept, kind, new_items, new_users, order, split, "
                  .. "test, test_from, train, valid, valid_from, without")
  lu.assertStrContains(fields_of(new()), "batch, best_step, clip, contexts, data, device, ")
end

os.exit(lu.LuaUnit.run())
