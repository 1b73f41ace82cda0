-- Training as a user meets it: schedules, validation, what a run says at its end, the search for
-- good settings.
local lu = require "luaunit"
local fopo = require "fopo"
local native = require "fopo.native"

local world = {}
do
  world.s = fopo.data.synthetic{users = 700, items = 500, clusters = 10, seed = 5}
            :sessions{min_items = 10, seed = 2, valid = 0.2}
  world.items = fopo.embed.svd(world.s.train, {dim = 8})
end

local function trainer(options)
  local o = {policy = fopo.policy.linear{items = world.items, seed = 1}, data = world.s.train,
             gradient = fopo.gradient.snis{samples = 50}, seed = 4, valid = false}
  for name, value in pairs(options or {}) do o[name] = value end
  return fopo.trainer(o)
end

local function same(a, b)
  lu.assertEquals(a.policy:theta():totable(), b.policy:theta():totable())
end

-- ---- schedules ----

TestSchedule = {}

local function scheduled(kind)
  return fopo.optim[kind]{lr = 0.05, clip = 0.1, weight_decay = 0.1, decoupled = true,
                          schedule = fopo.schedule.cosine{steps = 24, warmup = 4, final = 0.1}}
end

-- In one run, in slices, in a job, and interrupted and resumed: the same rates and the same bits.
function TestSchedule:test_the_same_in_every_way()
  local path = os.tmpname()
  for _, kind in ipairs{"adam", "sgd", "adagrad"} do
    local whole = trainer{optim = scheduled(kind)}:run{steps = 30, every = 10, view = false}
    local cut = trainer{optim = scheduled(kind)}
    for _, n in ipairs{1, 12, 17} do cut:run{steps = n, every = 10, view = false} end
    local job = trainer{optim = scheduled(kind)}:start{steps = 30, every = 10}:wait()
    local first = trainer{optim = scheduled(kind)}:run{steps = 13, every = 10, view = false}
    first:save(path)
    local resumed = trainer{optim = scheduled(kind)}:resume(path)
    resumed:run{steps = 17, every = 10, view = false}
    same(cut, whole)
    same(job, whole)
    same(resumed, whole)
    lu.assertEquals(job.history.lr, whole.history.lr)
  end
  os.remove(path)
end

-- The share of a context's top K that this world's head holds was 1.0000000000000002 by rounding.
function TestSchedule:test_a_share_is_read_again()
  local s = fopo.data.synthetic{users = 2000, items = 3000, clusters = 20, seed = 5,
                                mean_items = 14}:sessions{min_items = 6, test = 0.1}
  local items, path = fopo.embed.svd(s.train, {dim = 16}), os.tmpname()
  local function made()
    return fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train}
  end
  local t = made():run{steps = 100, view = false}
  t:save(path)
  lu.assertTrue(t.history.held[#t.history.held] <= 1)
  lu.assertEquals(made():resume(path).step, 100)
  os.remove(path)
end

-- The seconds of a history are those of all runs of its trainer, of a job and of a file that is
-- resumed too.
function TestSchedule:test_seconds_go_on()
  local path = os.tmpname()
  local t = trainer():run{steps = 200, every = 50, view = false}
  t:run{steps = 20, every = 10, view = false}
  t:start{steps = 20, every = 10}:wait()
  t:save(path)
  local resumed = trainer():resume(path)
  os.remove(path)
  resumed:run{steps = 20, every = 10, view = false}
  local seconds = resumed.history.seconds
  lu.assertEquals(#seconds, 10)
  for n = 2, #seconds do
    lu.assertTrue(seconds[n] > seconds[n - 1], ("record %d: %g s after %g s"):format(
      n, seconds[n], seconds[n - 1]))
  end
  lu.assertEquals(resumed.seconds, seconds[#seconds])
end

function TestSchedule:test_history_has_the_rate_that_was_used()
  local t = trainer{optim = scheduled("adam")}:run{steps = 30, every = 2, view = false}
  for n, step in ipairs(t.history.step) do
    lu.assertAlmostEquals(t.history.lr[n], 0.05 * t.optim.schedule:at(step - 1), 1e-15)
  end
  lu.assertAlmostEquals(t.history.lr[1], 0.025, 1e-15)
  lu.assertAlmostEquals(t.history.lr[15], 0.005, 1e-15)
  lu.assertEquals(t.optim.lr, 0.05)
  t.optim.lr = 1
  lu.assertAlmostEquals(t.optim.rate, 0.1, 1e-15)
end

function TestSchedule:test_as_text()
  local o = scheduled("adam")
  lu.assertEquals(tostring(o), "optimiser adam: lr 0.05, now 0.0125 by schedule cosine, from lr to "
    .. "0.1 lr at update 24, a warm-up of 4 updates, clipped at 0.1, weight decay 0.1 (decoupled), "
    .. "0 updates so far")
  lu.assertEquals(tostring(fopo.optim.adam{}), "optimiser adam: lr 0.001, 0 updates so far")
  lu.assertEquals(tostring(fopo.schedule.step{every = 1500}),
                  "schedule step, times 0.1 every 1,500 updates")
  o.schedule = fopo.schedule.constant{}
  o.clip, o.decoupled = 0, false
  lu.assertEquals(tostring(o), "optimiser adam: lr 0.05, weight decay 0.1, 0 updates so far")
end

function TestSchedule:test_refused()
  lu.assertErrorMsgContains("of 5 steps and its warm-up of 5", fopo.schedule.cosine,
                            {steps = 5, warmup = 5})
  lu.assertErrorMsgContains("needs the option every", fopo.schedule.step, {})
  lu.assertErrorMsgContains("schedule must be a schedule, not", fopo.optim.adam, {schedule = {}})
  lu.assertErrorMsgContains("a schedule is needed here", function()
    fopo.optim.adam{}.schedule = "cosine"
  end)
  lu.assertErrorMsgContains("clip is -1", function() fopo.optim.adam{}.clip = -1 end)
end

-- By hand, through o:step: the gradient is clipped with that of the items.
function TestSchedule:test_step_clips()
  local items = fopo.array.randn(3, 2, 1)
  local pi = fopo.policy.linear{items = items, train_items = true}
  local theta, beta = pi:theta():copy(), pi:items():copy()
  local o = fopo.optim.sgd{lr = 0.5, clip = 1}
  o:step(pi, fopo.array.from{{3, 0}, {0, 0}}, fopo.array.ids{2}, fopo.array.from{{0, 4}})
  lu.assertAlmostEquals(pi:theta():get(1, 1) - theta:get(1, 1), 0.3, 1e-6)
  lu.assertAlmostEquals(pi:items():get(2, 2) - beta:get(2, 2), 0.4, 1e-6)
end

-- ---- validation ----

TestValidation = {}

local function validated(options)
  local o = {valid = world.s.valid}
  for name, value in pairs(options or {}) do o[name] = value end
  return trainer(o)
end

-- A trainer of the same, but of a world whose valid part is found by itself.
local function plain(options)
  local o = {policy = fopo.policy.linear{items = world.items, seed = 1}, data = world.s.train,
             gradient = fopo.gradient.snis{samples = 50}, seed = 4}
  for name, value in pairs(options or {}) do o[name] = value end
  return fopo.trainer(o)
end

function TestValidation:test_by_itself()
  lu.assertTrue(rawequal(plain().valid, world.s.valid))
  lu.assertTrue(rawequal(plain{valid = true}.valid, world.s.valid))
  lu.assertTrue(rawequal(plain{valid = world.s.test}.valid, world.s.test))
  lu.assertTrue(rawequal(plain{reward = fopo.reward.hits(world.s.train)}.valid, world.s.valid))
  lu.assertNil(plain{valid = false}.valid)
  lu.assertNil(plain{data = world.s.test}.valid)
  local x = world.s.train:contexts(world.items)
  lu.assertNil(plain{contexts = x}.valid)
  local v = world.s.valid:contexts(world.items)
  lu.assertTrue(rawequal(plain{contexts = x, valid_contexts = v}.valid, world.s.valid))
  local custom = fopo.reward.custom(function(ids) return fopo.array.zeros(ids.rows, ids.cols) end)
  lu.assertNil(plain{reward = custom}.valid)
  lu.assertErrorMsgContains("valid = true, but the reward is not hits", plain,
                            {reward = custom, valid = true})
  lu.assertErrorMsgContains("valid = true, but data is not the train part of a split", plain,
                            {data = world.s.test, valid = true})
end

-- Both columns are what fopo.evaluate says of the policy of that record.
function TestValidation.test_columns()
  local t = validated{optim = fopo.optim.adam{lr = 0.03}}
  t:run{steps = 40, every = 10, view = false, keep_best = false, on_record = function(self, n)
    local e = fopo.evaluate(self.policy, world.s.valid)
    lu.assertEquals(self.history.valid[n], e.reward)
    lu.assertAlmostEquals(self.history.valid_expected[n], e.expected, 1e-12)
  end}
  lu.assertEquals(#t.history.valid_expected, 4)
  local none = trainer():run{steps = 2, view = false}
  lu.assertTrue(none.history.valid_expected[1] ~= none.history.valid_expected[1])
end

-- Judged as it is served: without the items of X, also on fewer contexts.
function TestValidation.test_without_seen_items()
  local valid = world.s.valid
  local kept = fopo.policy.linear{items = world.items, seed = 1, seen = "keep"}
  local t = validated{optim = fopo.optim.adam{lr = 0.03}, policy = kept}
  t:run{steps = 40, every = 10, view = false, keep_best = false, on_record = function(self, n)
    local e = fopo.evaluate(self.policy, valid)
    lu.assertEquals(self.history.valid[n], e.reward)
    lu.assertAlmostEquals(self.history.valid_expected[n], e.expected, 1e-12)
    lu.assertTrue(e.reward > fopo.evaluate(self.policy, valid, {exclude = "none"}).reward)
  end}
  local x = valid:contexts(world.items, {scale = t.policy.contexts})
  local r = native.run(t.native, {steps = 1, every = 1, valid = valid, valid_contexts = x,
                                  valid_most = 9, unseen = true,
                                  exact = fopo.index.norm(world.items)})
  r:advance()
  local worth, hits = r:advance().worth, 0
  local best = t.policy:recommend(valid, 1)
  for i = 0, 8 do
    local row = i * valid.n // 9 + 1
    if valid:hits(row, best[row][1].item) then hits = hits + 1 end
  end
  lu.assertEquals({worth.contexts, worth.reward}, {9, hits / 9})
  lu.assertErrorMsgContains("no seen items, and is judged without an index; leave out exclude",
                            function()
    local lg = fopo.data.synthetic_logs{n = 50, actions = 20, dim = 4}
    fopo.trainer{policy = fopo.policy.linear{items = lg:items()}, data = lg, valid = lg,
                 gradient = fopo.gradient.exact{}, exclude = "seen"}
  end)
end

-- For each session whether the best item is in Y, and sum over Y of pi, from the scores of all
-- items.
local function contexts_of(pi, sessions)
  local hits, chances = {}, {}
  local scores = pi:queries(sessions:contexts(world.items, {scale = pi.contexts}))
                 :matmul(world.items, false, true):totable()
  for n, f in ipairs(scores) do
    local z, in_y, best, y = 0, 0, nil, {}
    for _, a in ipairs(sessions:x(n):totable()[1]) do f[a] = -math.huge end
    for _, a in ipairs(sessions:y(n):totable()[1]) do y[a] = true end
    for a, score in ipairs(f) do
      local w = math.exp(score)
      z, in_y = z + w, y[a] and in_y + w or in_y
      if not best or score > f[best] then best = a end
    end
    hits[n], chances[n] = y[best] and 1 or 0, in_y / z
  end
  return hits, chances
end

-- Whether the mean of a - b is above 0 by more than chance: pairs of hits by Agresti and Min,
-- others by the normal interval.
local function more_than_chance(a, b, are_hits)
  local N, sum, squares, more, less = #a, 0, 0, 0, 0
  for n = 1, N do
    local d = a[n] - b[n]
    sum, squares = sum + d, squares + d * d
    if d > 0 then more = more + 1 elseif d < 0 then less = less + 1 end
  end
  if are_hits then
    local d, m = more - less, N + 2
    return d / m - 1.959963984540054 * math.sqrt(more + less + 1 - d * d / m) / m > 0
  end
  local mean = sum / N
  return mean - 1.959963984540054 * math.sqrt((squares - N * mean ^ 2) / (N - 1) / N) > 0
end

-- What run and job end with, by either measure: the last parameters, or the best of start and
-- records if the last ones are worse by more than chance, by the measure or else by the other one.
local function check_best(by, lr, theta)
  local column = by == "expected" and "valid_expected" or "valid"
  local function make()
    return validated{policy = fopo.policy.linear{items = world.items, theta = theta, seed = 1},
                     optim = fopo.optim.adam{lr = lr}, resplit = false}
  end
  local t, u = make(), make()
  local start = fopo.evaluate(t.policy, world.s.valid)
  local other = by == "expected" and "valid" or "valid_expected"
  local best = {start.reward, start.expected}
  if by == "expected" then best = {start.expected, start.reward} end
  t:run{steps = 200, every = 20, view = false, best_by = by}
  u:start{steps = 200, every = 20, best_by = by}:wait()
  local step = 0
  for n, value in ipairs(t.history[column]) do
    local second = t.history[other][n]
    if value > best[1] or value == best[1] and second > best[2] then
      best, step = {value, second}, t.history.step[n]
    end
  end
  lu.assertEquals({t.best_step, u.best_step}, {step, step})
  local at_best, at_end = make(), make()
  if step > 0 then at_best:run{steps = step, every = 20, view = false, keep_best = false} end
  at_end:run{steps = 200, every = 20, view = false, keep_best = false}
  local hits, chances = contexts_of(at_best.policy, world.s.valid)
  local last_hits, last_chances = contexts_of(at_end.policy, world.s.valid)
  local lost = more_than_chance(hits, last_hits, true)
               or more_than_chance(chances, last_chances, false)
  same(t, lost and at_best or at_end)
  local e = fopo.evaluate(t.policy, world.s.valid)
  lu.assertEquals(t.held, {step = lost and step or 200, valid = e.reward, expected = e.expected})
  lu.assertEquals({u.held, u.notes}, {t.held, t.notes})
  same(t, u)
  return t
end

function TestValidation:test_best()
  local greedy = check_best("greedy", 0.01, "identity")
  local expected = check_best("expected", 0.01, "identity")
  lu.assertTrue(greedy.best_step ~= expected.best_step)
  lu.assertEquals(greedy.held.step, 200)
  lu.assertStrContains(greedy.notes[1], ("step %d looked best on validation (reward 0."):format(
    greedy.best_step))
  lu.assertStrContains(greedy.notes[1], "but chance can make the difference of 0.")
  local start = check_best("greedy", 3, "identity") -- a rate that destroys a good start
  lu.assertEquals(start.best_step, 0)
  lu.assertStrContains(start.notes[1], "no record was better on validation than the start")
  lu.assertStrContains(tostring(start), "trainer at step 200")
  lu.assertStrContains(tostring(start), ("holds the parameters of the start: valid %.4f expected")
                                        :format(start.held.valid))
end

function TestValidation:test_said_by_a_checkpoint()
  local path = os.tmpname()
  local t = validated{policy = fopo.policy.linear{items = world.items, theta = "identity"},
                      optim = fopo.optim.adam{lr = 3}}
  t:run{steps = 40, every = 20, view = false}
  t:save(path)
  local u = validated():resume(path)
  os.remove(path)
  lu.assertEquals(u.held, t.held)
  lu.assertEquals(u:describe(), t:describe())
  u:run{steps = 20, view = false, keep_best = false}
  lu.assertEquals(u.held.step, 60)
  lu.assertNil(u:describe():find("holds", 1, true))
end

function TestValidation:test_refused()
  lu.assertErrorMsgContains('best_by = "expected" needs sessions to validate on', function()
    trainer():run{steps = 1, best_by = "expected", view = false}
  end)
  for _, by in ipairs{"expcted", "ndcg", "ndcg@0", "ndcg@1.5", "gini@5", "seen@5", ""} do
    lu.assertErrorMsgContains("best_by must be greedy, expected, or a measure", function()
      validated():run{steps = 1, best_by = by, view = false}
    end)
  end
  lu.assertErrorMsgContains('best_by = "ndcg@10" needs sessions to validate on', function()
    trainer():run{steps = 1, best_by = "ndcg@10", view = false}
  end)
  lu.assertErrorMsgContains("ndcg@501 is of lists of 501 items but there are 500", function()
    validated():run{steps = 1, best_by = "ndcg@501", view = false}
  end)
end

-- A run that validates and is left in the middle of a record goes on to the same bits, records and
-- notes, in this process and from a file.
function TestValidation:test_goes_on()
  local path = os.tmpname()
  for _, how in ipairs{{}, {best_by = "expected", patience = 3}, {best_by = "ndcg@10"},
                       {keep_best = false}} do
    local function make()
      return validated{optim = fopo.optim.adam{lr = 0.1}, seed = 9,
                       policy = fopo.policy.linear{items = world.items}}
    end
    local function run(t, steps)
      local o = {steps = steps, every = steps and 10, view = false}
      for name, value in pairs(how) do o[name] = value end
      return t:run(o)
    end
    local whole, left = run(make(), 100), make()
    pcall(function()
      how.on_record = function(_, n) if n == 3 then error("no more") end end
      run(left, 100)
    end)
    how.on_record = nil
    left:save(path)
    lu.assertEquals(left.unfinished, {first = 0, last = 100, every = 10})
    local resumed = make():resume(path)
    -- once more in the middle of a record, which is shown until the run goes on
    local columns = {}
    for name in pairs(resumed.history) do columns[#columns + 1] = name end
    local part = require("fopo.run.run").new(resumed, {steps = 70, best_by = how.best_by,
      keep_best = how.keep_best ~= false, patience = how.patience}, columns)
    part:advance(nil, 4)
    part:close()
    lu.assertEquals(resumed.history.step, {10, 20, 30, 34})
    resumed:save(path)
    local again = make():resume(path)
    lu.assertEquals(again.history.step, {10, 20, 30})
    for _, t in ipairs{run(left), run(resumed), run(again)} do
      same(t, whole)
      lu.assertNil(t.unfinished)
      lu.assertEquals({t.held, t.notes, t.best_step}, {whole.held, whole.notes, whole.best_step})
      for _, column in ipairs{"step", "reward", "ess", "valid", "valid_expected"} do
        lu.assertEquals(t.history[column], whole.history[column])
      end
    end
  end
  os.remove(path)
end

-- The last record is judged by all contexts, whatever ends the run; those before by a sample.
function TestValidation:test_last_record()
  for _, how in ipairs{{steps = 30}, {steps = 3000, patience = 2}} do
    local t, all = plain{optim = fopo.optim.adam{lr = 0.3}, exclude = "none"}, {}
    how.every, how.keep_best, how.view = 10, false, false
    how.on_record = function()
      all[#all + 1] = fopo.evaluate(t.policy, world.s.valid, {exclude = "none"}).reward
    end
    t:run(how)
    lu.assertEquals(#t.history.valid, #all)
    lu.assertTrue(how.patience == nil or t.step < how.steps)
    lu.assertAlmostEquals(t.history.valid[#all], all[#all], 1e-12)
    lu.assertNotEquals(t.history.valid, all)
  end
end

-- A policy that was set by hand, or another way to validate, begins anew, and says so.
function TestValidation:test_begins_anew()
  local t = validated()
  local function left()
    pcall(t.run, t, {steps = 50, every = 10, view = false, on_record = function() error("x") end})
    lu.assertNotNil(t.unfinished)
  end
  left()
  t.policy:set_theta(t.policy:theta())
  t:run{steps = 10, view = false}
  lu.assertStrContains(t.notes[1], "the run that was left before is not gone on with")
  left()
  t:run{steps = 10, view = false, best_by = "expected"}
  lu.assertStrContains(t.notes[1], "the run that was left before is not gone on with")
  left()
  t:run{steps = 10, view = false}
  lu.assertNil(table.concat(t.notes, " "):find("left before", 1, true))
end

-- Any measure of fopo.evaluate decides, with seen items left out or kept in.
function TestValidation:test_by_a_measure()
  for _, exclude in ipairs{"seen", "none"} do
    for _, by in ipairs{"ndcg@10", "recall@20", "hit@5", "precision@3"} do
      local name, k = by:match("(%a+)@(%d+)")
      local function evaluated(pi)
        return fopo.evaluate(pi, world.s.valid, {k = math.tointeger(k), exclude = exclude,
                                                 expected = false})[name][math.tointeger(k)]
      end
      local values, at = {}, 0
      local t = validated{exclude = exclude, optim = fopo.optim.adam{lr = 0.3}, seed = 7,
                          policy = fopo.policy.linear{items = world.items, seen = "keep"}}
      local best = evaluated(t.policy)
      t:run{steps = 30, every = 10, view = false, best_by = by, on_record = function()
        values[#values + 1] = evaluated(t.policy)
      end}
      for n, value in ipairs(values) do
        lu.assertAlmostEquals(t.history.valid_measure[n], value, 1e-6)
        if value > best then best, at = value, 10 * n end
      end
      lu.assertEquals(t.best_step, at)
    end
  end
end

-- Of a run by itself, large catalogues use fewer contexts: evenly spread, always the same.
function TestValidation:test_fewer_contexts()
  local t = validated{optim = fopo.optim.adam{lr = 0.03},
                      policy = fopo.policy.linear{items = world.items, seen = "keep"}}
  local valid, policy = world.s.valid, t.policy
  local x = valid:contexts(world.items, {scale = policy.contexts})
  local function worth(most, expected_most)
    local r = native.run(t.native, {steps = 1, every = 1, valid = valid, valid_most = most,
                                    expected_most = expected_most,
                                    valid_contexts = x,
                                    exact = fopo.index.norm(world.items)})
    r:advance()
    local event = r:advance()
    lu.assertEquals(event.kind, "record")
    return event.worth
  end
  for _, most in ipairs{1, 7, 10, valid.n, valid.n + 5} do
    local n = math.min(most, valid.n)
    local w = worth(most, most)
    lu.assertEquals(w.contexts, n)
    local best = policy:best(x, {k = 1})
    local hits, seen, distinct, top = 0, {}, 0, 0
    for i = 0, n - 1 do
      local row = i * valid.n // n + 1
      local item = best:get(row, 1)
      if valid:hits(row, item) then hits = hits + 1 end
      if not seen[item] then distinct = distinct + 1 end
      seen[item] = (seen[item] or 0) + 1
      top = math.max(top, seen[item])
    end
    lu.assertAlmostEquals(w.reward, hits / n, 1e-15)
    lu.assertEquals({w.distinct, w.top}, {distinct, top})
    lu.assertAlmostEquals(w.expected,
      fopo.evaluate(policy, valid, {expected_contexts = most, exclude = "none"}).expected, 1e-12)
  end
  lu.assertTrue(worth(5).expected ~= worth(5).expected) -- NaN: it was not asked for
end

-- Records are judged by the same few contexts, the start and the end by all of them, and so is the
-- best record when it is compared with the last parameters.
function TestValidation:test_a_sample()
  local valid = world.s.valid
  for _, lr in ipairs{1e-7, 0.1} do
    local policy = fopo.policy.linear{items = world.items, theta = "random", seed = 1}
    local t = validated{optim = fopo.optim.adam{lr = lr}, resplit = false, policy = policy}
    local pi, values, parameters = t.policy, {}, {}
    local x = valid:contexts(world.items, {scale = pi.contexts})
    local r = native.run(t.native, {
      steps = 80, every = 10, valid = valid, valid_sampled = 20, expected_most = 1000,
      keep_best = true, unseen = true, valid_contexts = x, exact = fopo.index.norm(world.items)})
    local event
    repeat
      event = r:advance()
      if event.kind == "record" then
        values[#values + 1], parameters[t.step] = event.worth, pi:theta()
        lu.assertEquals(event.worth.contexts, t.step == 80 and valid.n or 20)
        lu.assertEquals(event.start.contexts, valid.n)
        if t.step == 40 and lr == 0.1 then t.optim.lr = 50 end -- from here on it gets worse
      end
    until event.kind == "done"
    local function check(worth)
      local e = fopo.evaluate(pi, valid)
      lu.assertEquals({worth.contexts, worth.reward}, {valid.n, e.reward})
      lu.assertAlmostEquals(worth.expected, e.expected, 1e-12)
    end
    check(values[8])
    local best = r:finish().best
    for n = 2, lr < 0.1 and 7 or 1 do lu.assertEquals(values[n].reward, values[1].reward) end
    lu.assertEquals(best.restored, lr == 0.1)
    if best.restored then
      lu.assertTrue(best.step > 0 and best.step <= 40)
      lu.assertEquals(pi:theta():totable(), parameters[best.step]:totable())
      check(best.worth)
    end
  end
end

-- ---- what a run says at its end ----

TestNotes = {}

local notes = require "fopo.run.notes"

-- The notes of a run with these facts.
local function notes_of(o)
  local gradient = o.samples and fopo.gradient.snis{samples = o.samples} or fopo.gradient.exact{}
  local t = {step = 100, gradient = gradient, reward = {}, policy = {}}
  local n = notes.new(t, {best_by = o.by or "greedy", keep_best = not o.free})
  for i, w in ipairs(o.records) do
    n:record{step = 100 + 10 * i, worth = w, start = o.start, ess = o.ess or 0}
  end
  return n:sentences(100 + 10 * #o.records, o.best)
end

local function worth(reward, expected, distinct, top)
  return {reward = reward, expected = expected or 0 / 0, se = 0.01, contexts = 400,
          reward_se = math.sqrt(reward * (1 - reward) / 400), distinct = distinct or 50,
          top = top or 10}
end

local function one_note(part, o)
  local list = notes_of(o)
  lu.assertEquals(#list, 1, table.concat(list, " | "))
  lu.assertStrContains(list[1], part)
end

function TestNotes:test_each_alone()
  local good = {worth(0.2), worth(0.3)}
  lu.assertEquals(notes_of{start = worth(0.1), records = good, samples = 100, ess = 1}, {})
  lu.assertEquals(notes_of{start = worth(0.3), records = {worth(0.3)}}, {})
  lu.assertEquals(notes_of{records = {}}, {})
  one_note("the parameters of step 110, the best on validation (reward 0.3000), were put back for "
           .. "those of the last step, 120 (reward 0.2000)",
           {start = worth(0.1), records = {worth(0.3), worth(0.2)},
            best = {step = 110, restored = true, worth = worth(0.3)}})
  one_note("no record was better on validation than the start (expected reward 0.5000, reward "
           .. "0.1000; the last step: expected reward 0.4500, reward 0.3000), so its parameters",
           {by = "expected", start = worth(0.1, 0.5), records = {worth(0.3, 0.45)},
            best = {step = 100, at_start = true, restored = true, worth = worth(0.1, 0.5)}})
  one_note("step 110 looked best on validation (reward 0.3000; the last step: reward 0.2900), but "
           .. "chance can make the difference of 0.0100 in the reward (95 %: -0.0200 to 0.0400)",
           {start = worth(0.1), records = {worth(0.3), worth(0.29)},
            best = {step = 110, worth = worth(0.3), loss = 0.01, low = -0.02, high = 0.04}})
  one_note("the run ended below its start: reward on validation 0.2900, and 0.3000 before it",
           {start = worth(0.3), records = {worth(0.4), worth(0.29)}})
  one_note("effective sample size was 0.99 of 100 samples",
           {start = worth(0.1), records = good, samples = 100, ess = 0.99})
  one_note("one item is recommended to all of the 400 contexts",
           {start = worth(0.1), records = {worth(0.3, nil, 1, 400)}})
  one_note("one item is recommended to 91 % of the 400 contexts",
           {start = worth(0.1), records = {worth(0.3, nil, 9, 364)}})
  lu.assertEquals(notes_of{start = worth(0.1), records = {worth(0.3, nil, 9, 360)}}, {})
  local risen = {start = worth(0.3, 0.1), records = {worth(0.2, 0.2)}, best = {worth = worth(0.3)}}
  one_note("rose from 0.1000 to 0.2000 while the reward of the best item fell from 0.3000 to "
           .. "0.2000", risen)
  risen.records = {worth(0.25, 0.2)} -- within two standard errors
  lu.assertEquals(notes_of(risen), {})
  risen.records = {worth(0.2, 0.12)}
  lu.assertEquals(notes_of(risen), {})
end

-- Printed once, behind the records; not in json mode, and kept in t.notes and the log's folder.
function TestNotes:test_printed_once()
  local lines, before = {}, print
  local function say(options)
    lines = {}
    local t = validated{policy = fopo.policy.linear{items = world.items, theta = "identity"},
                        optim = fopo.optim.adam{lr = 3}}
    options.steps, options.every = 40, 20
    print = function(line) lines[#lines + 1] = line end
    local ok, why = pcall(t.run, t, options)
    print = before
    lu.assertTrue(ok, why)
    return t
  end
  local folder = os.tmpname()
  os.remove(folder)
  local t = say{log = folder}
  lu.assertEquals(#lines, 2 + #t.notes)
  lu.assertEquals(lines[3], "note: " .. t.notes[1])
  lu.assertTrue(#t.notes > 0)
  lu.assertStrContains(lines[1], " expected 0.")
  local f <close> = assert(io.open(folder .. "/notes.txt"))
  lu.assertEquals(f:read("l"), t.notes[1])
  lu.assertTrue(os.execute("rm -r " .. folder))
  lu.assertEquals(say{json = true}.notes, t.notes)
  lu.assertEquals(#lines, 2)
  lu.assertEquals(say{view = false}.notes, t.notes)
  lu.assertEquals(lines, {})
end

-- A folder is compared by what its policy held at the end, as its trainer is: records of a sample,
-- of which one was lucky, do not count. Records that came after it do.
function TestNotes:test_a_folder_holds_what_its_trainer_holds()
  local folder = os.tmpname()
  os.remove(folder)
  local t = fopo.trainer{policy = fopo.policy.linear{items = world.items}, data = world.s.train}
  t:run{steps = 40, every = 20, view = false, log = folder}
  local function compared(one)
    local show = print
    print = function() end
    local ok, list = pcall(fopo.compare, {one})
    print = show
    lu.assertTrue(ok, list)
    return {list[1].best_step, list[1].best, list[1].low}
  end
  local wanted = compared(t)
  lu.assertEquals(compared(folder), wanted)
  local path = folder .. "/history.jsonl"
  local records = io.open(path):read("a")
  local function write(text)
    local f <close> = io.open(path, "w")
    f:write(text)
  end
  write((records:gsub('"valid": [^,]*', '"valid": 0.99', 1)))
  lu.assertEquals(compared(folder), wanted)
  write(records .. records:match("([^\n]+\n)$"):gsub('"step": %d+', '"step": 60')
    :gsub('"valid": [^,]*', '"valid": 0.99'))
  lu.assertAlmostEquals(compared(folder)[2], 0.99, 1e-9)
  lu.assertTrue(os.execute("rm -r " .. folder))
end

-- Ctrl-C at the very end: what the trainer says is true of the parameters that were put back.
function TestNotes:test_interrupted_end()
  local pid = io.open("/proc/self/stat"):read("a"):match("^%d+")
  local t = validated{policy = fopo.policy.linear{items = world.items, theta = "identity"},
                      optim = fopo.optim.adam{lr = 3}}
  local held = notes.held
  function notes.held(...)
    io.popen("kill -INT " .. pid):close()
    return held(...)
  end
  local ok, why = pcall(function()
    local _ <close> = setmetatable({}, {__close = native.interrupt_clear})
    t:run{steps = 40, every = 20, view = false}
  end)
  notes.held = held
  lu.assertFalse(ok)
  lu.assertStrContains(tostring(why), "interrupted")
  lu.assertEquals(t.held.step, 0)
  lu.assertEquals(t.held.valid, fopo.evaluate(t.policy, world.s.valid).reward)
  lu.assertTrue(#t.notes > 0)
end

-- A note that cannot be written ends the log, not the run or its job.
function TestNotes:test_no_place_for_notes()
  local folder = os.tmpname()
  os.remove(folder)
  assert(native.make_folder(folder .. "/notes.txt")) -- a folder of that name is there
  for _, how in ipairs{"run", "start"} do
    local t = validated{policy = fopo.policy.linear{items = world.items, theta = "identity"},
                        optim = fopo.optim.adam{lr = 3}}
    local o = {steps = 40, every = 20, view = false, log = folder}
    if how == "run" then t:run(o) else t:start(o):wait() end
    lu.assertTrue(#t.notes > 0)
    lu.assertEquals(t.held.step, 0)
    lu.assertNil(t.job)
    assert(os.execute(("rm %s/*.*sv %s/*.json*"):format(folder, folder)))
  end
  assert(os.execute("rm -r " .. folder))
end

-- ---- the search for settings ----

TestTune = {}

local draw = require "fopo.tune.draw"
local rungs = require "fopo.tune.rungs"

function TestTune:test_settings()
  local over = {lr = {1e-4, 1}, theta = {"a", "b", "c"}, n = {values = {4, 8}}}
  local list = draw.settings(over, 12, 7)
  lu.assertEquals(list, draw.settings(over, 12, 7))
  lu.assertNotEquals(list, draw.settings(over, 12, 8))
  local strips, times = {}, {}
  for _, c in ipairs(list) do
    lu.assertTrue(c.lr >= 1e-4 and c.lr < 1)
    strips[math.floor(12 * math.log(c.lr / 1e-4) / math.log(1e4))] = true
    times[c.theta] = (times[c.theta] or 0) + 1
    times[c.n] = (times[c.n] or 0) + 1
  end
  for strip = 0, 11 do lu.assertTrue(strips[strip], strip) end
  lu.assertEquals(times, {a = 4, b = 4, c = 4, [4] = 6, [8] = 6})
  -- all combinations of lists, where they are no more than the trials
  local all = draw.settings({a = {1, 2, 3}, b = {values = {4, 5}}}, 10, 1)
  local seen = {}
  for _, c in ipairs(all) do seen[c.a .. " " .. c.b] = true end
  lu.assertEquals(#all, 6)
  for _, pair in ipairs{"1 4", "1 5", "2 4", "2 5", "3 4", "3 5"} do lu.assertTrue(seen[pair]) end
end

function TestTune:test_rungs()
  lu.assertEquals(rungs.plan(9, 90, 3), {{trials = 9, steps = 10}, {trials = 3, steps = 30},
                                         {trials = 1, steps = 90}})
  lu.assertEquals(rungs.plan(18, 100, 3), {{trials = 18, steps = 12}, {trials = 6, steps = 34},
                                           {trials = 2, steps = 100}})
  lu.assertEquals(rungs.plan(1, 50, 2), {{trials = 1, steps = 50}})
end

-- A search whose runs are worth what `value` says; which settings were run for how many steps.
local function fake(o, settings, value)
  local ran, open, most = {}, 0, 0
  local maker = {steps = o.steps, forget = function(run) run.trainer = nil end}
  function maker:start(options, steps)
    open = open + 1
    most = math.max(most, open)
    ran[#ran + 1] = ("%s:%d"):format(options.x, steps)
    return {options = options, steps = steps, trainer = {}}
  end
  function maker:finish(run)
    open = open - 1
    run.valid, run.valid_expected, run.failed = value(run.options.x, run.steps)
  end
  local search = rungs.new(o, settings, maker)
  search:run()
  return search, ran, most
end

function TestTune:test_halving()
  local settings = {}
  for x = 1, 9 do settings[x] = {x = x} end
  local o = {by = "greedy", jobs = 1, eta = 3, steps = 90}
  local function value(x, steps) return (x * 4) % 9 + steps / 1000 end
  local search, ran, most = fake(o, settings, value)
  lu.assertEquals(table.concat(ran, " "),
                  "1:10 2:10 3:10 4:10 5:10 6:10 7:10 8:10 9:10 2:30 4:30 6:30 2:90")
  lu.assertEquals({search.best.options.x, search.best.steps, most}, {2, 90, 1})
  lu.assertNotNil(search.best.trainer)
  local ranking = search:ranking()
  lu.assertEquals(#ranking, 9)
  for i = 2, 9 do
    lu.assertTrue(ranking[i - 1].valid >= ranking[i].valid)
    lu.assertNil(ranking[i].trainer)
  end
  -- several at once: the same, never more than so many
  o.jobs = 4
  local again, _, at_once = fake(o, settings, value)
  lu.assertEquals({again.best.options.x, at_once}, {2, 4})
  -- by the expected reward; equals by the greedy one; what fails is last, and may not be the best
  o.by = "expected"
  local other = fake(o, settings, function(x, steps)
    return x, x == 5 and 0.9 or 0.5, x == 5 and steps > 10 and "it overflowed" or nil
  end)
  lu.assertEquals({other.best.options.x, other.best.steps}, {5, 10})
  lu.assertEquals(other:ranking()[2].options.x, 9)
  lu.assertEquals({other:ranking()[1].steps, other:ranking()[1].failed}, {10})
  lu.assertEquals(other.first_failure, "it overflowed")
end

local function tuned(options)
  local o = {data = world.s.train, dim = 8, steps = 45, trials = 9, seed = 3, view = false,
             over = {lr = {1e-3, 1}, temperature = {0.3, 1, 3}}}
  for name, value in pairs(options or {}) do o[name] = value end
  return fopo.tune(o)
end

-- The same in jobs; the best is what a trainer of these settings gives.
function TestTune:test_the_same_by_jobs_and_by_hand()
  local found, jobs = tuned(), tuned{jobs = 3}
  local function of(list)
    local numbers = {}
    for i, t in ipairs(list) do
      numbers[i] = {t.options, t.steps, t.valid, t.valid_expected, t.best_step}
    end
    return numbers
  end
  lu.assertEquals(#found.trials, 9)
  lu.assertEquals(of(jobs.trials), of(found.trials))
  same(jobs.best, found.best)
  local c, items = found.best.options, fopo.embed.svd(world.s.train, {dim = 8})
  local pi = fopo.policy.linear{items = items, theta = "identity", seed = 3,
                                temperature = c.temperature}
  local q = fopo.proposal.mixture{index = fopo.index.norm(items), k = 256}
  local t = fopo.trainer{policy = pi, data = world.s.train, optim = fopo.optim.adam{lr = c.lr},
                         gradient = fopo.gradient.snis{samples = 500, proposal = q}, seed = 3}
  t:run{steps = found.best.steps, view = false}
  same(t, found.best)
  lu.assertEquals({found.best.valid, found.best.valid_expected}, {t.held.valid, t.held.expected})
  lu.assertEquals(found.best.valid, fopo.evaluate(found.best.policy, world.s.valid).reward)
end

-- Of equal greedy rewards the expected one decides: of steps that change no best item, the last.
function TestValidation:test_equals()
  local t = validated{policy = fopo.policy.linear{items = world.items, theta = "identity"},
                      gradient = fopo.gradient.exact{}, batch = 400,
                      optim = fopo.optim.sgd{lr = 1e-4}}
  t:run{steps = 4, every = 1, view = false}
  lu.assertEquals(t.history.valid[1], t.history.valid[4])
  lu.assertTrue(t.history.valid_expected[4] > t.history.valid_expected[1])
  lu.assertEquals(t.best_step, 4)
end

-- A run is worth what its policy is, by the measure that decides.
function TestTune:test_worth_of_a_run()
  for _, by in ipairs{"greedy", "expected"} do
    local found = tuned{over = {lr = {0.1}}, trials = 1, by = by}
    local column = by == "expected" and "valid_expected" or "valid"
    local t = found.best.trainer
    local e = fopo.evaluate(t.policy, world.s.valid)
    lu.assertAlmostEquals(found.best[column], by == "expected" and e.expected or e.reward, 1e-12)
    lu.assertEquals(found.best[column], t.held[by == "expected" and "expected" or "valid"])
  end
end

-- By any measure of lists, with seen items in or out; the first trial is what one has without.
function TestTune:test_by_a_measure()
  local found = fopo.tune{data = world.s.train, dim = 8, steps = 20, trials = 3, view = false,
                          by = "ndcg@10", exclude = "none"}
  local best = found.best
  local e = fopo.evaluate(best.policy, world.s.valid, {k = 10, exclude = "none"})
  lu.assertEquals(best.trainer.history.valid_measure[#best.trainer.history.step] ~= nil, true)
  lu.assertAlmostEquals(best.trainer.held.measure, e.ndcg[10], 1e-6)
  lu.assertStrContains(tostring(found), "tuned by the ndcg@10 on validation")
  lu.assertStrMatches(tostring(found):match("\n(.-)\n"), "steps +ndcg@10 +valid +expected.*")
  lu.assertStrContains(tostring(found), ("  %.4f  %.4f"):format(found.trials[1].valid_measure,
                                                              found.trials[1].valid))
  lu.assertStrContains(tostring(found), "the defaults")
  lu.assertErrorMsgContains("fopo.tune: by must be greedy, expected, or a measure", fopo.tune,
                            {data = world.s.train, by = "ndgc@10", view = false})
end

-- Each trial is the mean over its seeds, which are those of trainers; the same in jobs.
function TestTune:test_seeds()
  local options = {over = {lr = {values = {0.003, 0.3}}}, trials = 2, eta = 2, seeds = 3,
                   policy = function(c)
                     return {temperature = 1, theta = "random", seed = c.seed}
                   end}
  local found = tuned(options)
  options.jobs = 4
  local jobs = tuned(options)
  lu.assertEquals(#found.trials, 2)
  for i, t in ipairs(found.trials) do
    local valid, expected = 0, 0
    for seed = 3, 5 do
      local pi = fopo.policy.linear{items = fopo.embed.svd(world.s.train, {dim = 8}), seed = seed,
                                    temperature = 1, theta = "random"}
      local q = fopo.proposal.mixture{index = fopo.index.norm(pi:items()), k = 256}
      local u = fopo.trainer{policy = pi, data = world.s.train, seed = seed,
                             optim = fopo.optim.adam{lr = t.options.lr},
                             gradient = fopo.gradient.snis{samples = 500, proposal = q}}
      u:run{steps = t.steps, view = false}
      valid, expected = valid + u.held.valid / 3, expected + u.held.expected / 3
      if i == 1 and seed == 3 then same(u, found.best) end
    end
    lu.assertAlmostEquals(t.valid, valid, 1e-9)
    lu.assertAlmostEquals(t.valid_expected, expected, 1e-9)
    lu.assertEquals({jobs.trials[i].valid, jobs.trials[i].steps}, {t.valid, t.steps})
  end
  lu.assertStrContains(tostring(found), "2 trials of 3 seeds")
  lu.assertNil(found.worth) -- what is searched was said, so that there are no defaults
end

-- What each context comes to, and with it whether the best trial is worth more than the defaults.
function TestTune:test_worth_beside_the_defaults()
  local each = require("fopo.run.validation").each
  local s, verdicts = world.s, {}
  for _, by in ipairs{"greedy", "expected", "ndcg@10"} do
    local found = fopo.tune{data = s.train, dim = 8, steps = 60, trials = 6, seed = 2, seeds = 2,
                            view = false, by = by}
    local function by_hand(policies) -- the sum over the seeds
      local sum
      for _, pi in ipairs(policies) do
        local e, x = fopo.evaluate(pi, s.valid, {k = 10}), each(found.best.trainer, pi, by)
        lu.assertAlmostEquals(x:mean(), by == "greedy" and e.reward or by == "expected"
                              and e.expected or e.ndcg[10], 1e-6)
        sum = sum and sum:add(x) or x
      end
      return sum:totable()[1]
    end
    local function trained(o, seed)
      local items = fopo.embed.svd(s.train, {dim = 8, scale = o.scale})
      local t = fopo.trainer{seed = seed, data = s.train, policy = fopo.policy.linear{items = items,
                               seed = seed, contexts = o.contexts, effective = o.effective},
        optim = fopo.optim.adam{lr = o.lr}, gradient = not o.default and fopo.gradient.snis{
          samples = 500, proposal = fopo.proposal.mixture{index = fopo.index.norm(items)}} or nil}
      t:run{steps = o.steps, view = false, best_by = by}
      return t.policy
    end
    local c = {steps = found.trials[1].steps}
    for name, value in pairs(found.trials[1].options) do c[name] = value end
    local a = by_hand{trained(c, 2), trained(c, 3)}
    local whole = {default = true, steps = 60}
    local b = by_hand{trained(whole, 2), trained(whole, 3)}
    local n, mean, square = #a, 0, 0
    for i = 1, n do mean = mean + (a[i] - b[i]) / 2 / n end
    for i = 1, n do square = square + ((a[i] - b[i]) / 2 - mean) ^ 2 end
    local low = mean - 1.959964 * math.sqrt(square / (n - 1) / n)
    local is_better = low > 0
    lu.assertEquals(found.best.options.default == nil, is_better)
    lu.assertStrContains(tostring(found):gsub("%s+", " "), found.worth)
    if not c.default then
      local said, least = found.worth:match("([-+][%d.]+) on validation %(95 %%: ([-+][%d.]+)")
      lu.assertAlmostEquals(tonumber(said), mean, 6e-5)
      lu.assertAlmostEquals(tonumber(least), low, 6e-5)
      verdicts[is_better and "better" or "kept"] = true
    end
    lu.assertEquals(found.best.steps, is_better and c.steps or 60)
  end
  lu.assertEquals(verdicts, {better = true, kept = true}) -- that both have been seen
end

function TestTune:test_parts_of_ones_own()
  local seen = {}
  local found = tuned{over = {size = {4, 6, 8}, rate = {values = {0.01, 0.1}}}, trials = 6, eta = 2,
    steps = 8, by = "expected",
    policy = function(c)
      return {items = fopo.embed.svd(world.s.train, {dim = c.size}), theta = "random"}
    end,
    gradient = function(c, items)
      lu.assertEquals(items.cols, c.size)
      return fopo.gradient.exact{}
    end,
    optim = function(c)
      seen[c.steps] = (seen[c.steps] or 0) + 1
      return fopo.optim.adam{lr = c.rate}
    end}
  lu.assertEquals(seen, {[2] = 6, [4] = 3, [8] = 1})
  lu.assertEquals(found.best.policy.dim, found.best.options.size)
  lu.assertEquals(found.best.trainer.gradient.kind, "exact")
  lu.assertStrContains(tostring(found), "tuned by the expected reward on validation: 6 trials")
  lu.assertStrContains(tostring(found), ("rate %g, size %d"):format(found.best.options.rate,
                                                                    found.best.options.size))
end

-- What the built-in estimator counts is drawn as integers; a range of another name is not.
function TestTune:test_integers()
  local found = tuned{over = {samples = {5, 50}, k = {3, 30}, epsilon = {0.1, 1}}, trials = 4}
  for _, t in ipairs(found.trials) do
    lu.assertNil(t.failed)
    lu.assertEquals({math.type(t.options.samples), math.type(t.options.k)}, {"integer", "integer"})
    lu.assertEquals(math.type(t.options.epsilon), "float")
  end
  found = tuned{over = {k = {0.1, 0.4}}, trials = 2,
                gradient = function(c) return fopo.gradient.snis{samples = math.ceil(99 * c.k)} end}
  lu.assertEquals(math.type(found.best.options.k), "float")
end

-- A rate that overflows is a failed trial, not the end.
function TestTune:test_failures()
  local found = tuned{over = {lr = {values = {1e-2, 1e38}}}, trials = 2, eta = 2, steps = 20}
  lu.assertEquals(found.best.options.lr, 1e-2)
  lu.assertEquals(found.trials[2].options.lr, 1e38)
  lu.assertStrContains(found.trials[2].failed, "could move theta beyond")
  lu.assertErrorMsgContains("every trial failed; the first one said", tuned,
                            {over = {lr = {values = {1e38}}}})
  lu.assertErrorMsgContains('must be constant, cosine, linear or one of fopo.schedule, not "cos"',
                            tuned, {over = {schedule = {"cos"}}})
  lu.assertErrorMsgContains("schedule must be a schedule, not", tuned, {over = {schedule = {1}}})
  found = tuned{over = {schedule = {"linear", "cosine", fopo.schedule.step{every = 5}}}}
  lu.assertEquals(#found.trials, 3)
  for _, t in ipairs(found.trials) do lu.assertNil(t.failed) end
  lu.assertErrorMsgContains("over has lrr, which no part uses; did you mean lr?", tuned,
                            {over = {lrr = {1, 2}}})
  lu.assertErrorMsgContains("over.lr = {2, 1} must be a range with 0 < low < high", tuned,
                            {over = {lr = {2, 1}}})
  lu.assertErrorMsgContains("over.lr is empty", tuned, {over = {lr = {}}})
  lu.assertErrorMsgContains("policy(c) must return a policy or options of fopo.policy.linear, not "
                            .. "a nil", tuned, {policy = function() end})
end

-- The record that Ctrl-C cut short stays in the history if the run that would go on cannot begin.
function TestNotes:test_a_cut_record_stays()
  local t, pid = trainer(), io.open("/proc/self/stat"):read("a"):match("^%d+")
  pcall(function()
    local _ <close> = setmetatable({}, {__close = native.interrupt_clear})
    t:run{steps = 1000000, every = 1000000, view = false, on_record = error}
  end, io.popen(("sleep 0.2; kill -INT %s"):format(pid)))
  local n, step = #t.history.step, t.step
  lu.assertEquals({n, t.history.step[n]}, {1, step})
  lu.assertErrorMsgContains("cannot be written", t.run, t, {log = "/proc/no/log"})
  lu.assertErrorMsgContains("cannot be written", t.start, t, {log = "/proc/no/log"})
  for name, list in pairs(t.history) do lu.assertEquals({name, #list}, {name, n}) end
  lu.assertEquals(t.history.step[n], step)
  t:run{steps = 5, view = false}
  lu.assertEquals(t.history.step[1] > step and t.history.step[#t.history.step], step + 5)
end

-- Ctrl-C ends the search, with what it has.
function TestTune:test_interrupted()
  local pid = io.open("/proc/self/stat"):read("a"):match("^%d+")
  for jobs = 1, 2 do
    local lines, before = {}, print
    print = function(line)
      lines[#lines + 1] = line
      if #lines == 3 then io.popen("kill -INT " .. pid):close() end
    end
    local ok, found = pcall(tuned, {view = true, jobs = jobs})
    print = before
    lu.assertTrue(ok, found)
    lu.assertTrue(found.interrupted)
    lu.assertEquals(#found.trials, 3)
    lu.assertEquals(found.best.trainer.step, found.best.steps)
    lu.assertEquals(found.best.valid, fopo.evaluate(found.best.policy, world.s.valid).reward)
    lu.assertEquals(#lines, 3)
    lu.assertStrContains(lines[3], "tune 3 of 13: lr ")
    lu.assertStrContains(lines[3], " left")
  end
end

-- ------------------------------------------------------------------------------------------------
TestRest = {}

-- t:run{} makes the rest of a run with the options that it had, here and from a checkpoint: it ends
-- with the bits, the records and the notes of the run that was not given up.
function TestRest:test_options()
  local split = fopo.data.synthetic{users = 400, items = 300, clusters = 8, seed = 5}:sessions{
    min_items = 6, test = 0.1, seed = 2}
  local beta, path = fopo.embed.svd(split.train, {dim = 12}), os.tmpname() .. ".npz"
  local function fresh()
    return fopo.trainer{policy = fopo.policy.linear{items = beta, data = split.train},
                        data = split.train, optim = fopo.optim.adam{lr = 0.02}}
  end
  for _, o in ipairs{{best_by = "ndcg@10", patience = 2}, {best_by = "expected", patience = 1},
                     {keep_best = false}} do
    local function with(on_record)
      local all = {steps = 400, every = 25, view = false, on_record = on_record}
      for name, value in pairs(o) do all[name] = value end
      return all
    end
    local whole, here, later = fresh():run(with()), fresh(), fresh()
    lu.assertFalse(pcall(here.run, here, with(function(_, n) assert(n < 2) end)))
    here:save(path)
    later:resume(path)
    for _, t in ipairs{here, later} do
      t:run{view = false}
      lu.assertEquals((t.policy:theta() - whole.policy:theta()):norm(), 0.0)
      lu.assertEquals({t.best_step, t.history.step, t.notes},
                      {whole.best_step, whole.history.step, whole.notes})
    end
  end
  os.remove(path)
end

os.exit(lu.LuaUnit.run())
