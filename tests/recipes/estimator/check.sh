# fopo.gradient.uniform is there with its help, learns, and is what snis does with uniform draws.
"$NEW" -e '
  local s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
  local items = fopo.embed.svd(s.train, {dim = 8})
  local function learn(gradient)
    local pi = fopo.policy.linear{items = items, seed = 1, preset = "paper"}
    local t = fopo.trainer{policy = pi, data = s.train, gradient = gradient,
                           optim = fopo.optim.adam{lr = 0.1}}
    t:run{steps = 200, view = false}
    return pi:theta(), t.history.reward
  end
  local theta, reward = learn(fopo.gradient.uniform{samples = 100})
  assert(reward[#reward] > 1.5 * reward[1], "it does not learn")
  local other = learn(fopo.gradient.snis{samples = 100})
  assert(theta:add(other, -1):norm() == 0, "it is not snis with uniform draws")
  assert(not pcall(fopo.gradient.uniform, {samples = 1}))'
"$NEW" -e 'help "gradient.uniform"' | grep -q 'draws a context'
# Its own options are its own, though other estimators, proposals and trainers have these names.
"$NEW" -e '
  local function refused(sentence, f, ...)
    local ok, why = pcall(f, ...)
    assert(not ok and why:find(sentence, 1, true), why)
  end
  local make = fopo.gradient.uniform
  local g = make{samples = 50, k = 0.75, head = 5, tail = "long", epsilon = 3, batch = 4}
  assert(g.k == 0.75 and g.head == 5 and g.tail == "long" and g.epsilon == 3 and g.batch == 4)
  assert(g.refresh == "short" and g.samples == 50 and g.baseline == nil and g.proposal == nil)
  assert(tostring(g) == "gradient uniform: S 50, head 5, batch 4, k 0.75, tail long, eps 3, "
                        .. "refresh short", tostring(g))
  refused("k must be at most 2", make, {k = 3})
  refused("head must be at least 1", make, {head = 0})
  refused("tail", make, {tail = "middle"})
  g:set{epsilon = 1.5, tail = "short"}
  g.batch = 9
  assert(g.epsilon == 1.5 and g.tail == "short" and g.batch == 9 and g:copy().batch == 9)
  refused("epsilon is 5; use 1 to 4", g.set, g, {epsilon = 5})
  refused("batch is 1; use 2 to 9", function() g.batch = 1 end)
  refused("tail", g.set, g, {tail = "middle"})
  refused("a gradient uniform has no k to set; it takes samples, tail, epsilon, batch",
          g.set, g, {k = 1})
  refused("a gradient snis has no tail to set", function() fopo.gradient.snis{}.tail = "long" end)
  assert(fopo.gradient.snis{}.batch == nil)

  local s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
  local items = fopo.embed.svd(s.train, {dim = 8})
  local function trainer(o)
    return fopo.trainer{policy = fopo.policy.linear{items = items, preset = "paper"},
                        data = s.train, valid = false, gradient = make(o or {samples = 50})}
  end
  local t = trainer()
  t:run{steps = 5, view = false}
  t.epsilon, t.tail = 4, "long"
  t.gradient:set{batch = 3}
  refused("epsilon is 9; use 1 to 4", function() t.epsilon = 9 end)
  t:run{steps = 5, view = false, log = os.getenv("TOP") .. "/log"}
  assert(t.gradient.epsilon == 4 and t.tail == "long" and t.gradient.batch == 3 and t.batch == 32)
  local done = {}
  for _, a in ipairs(t.actions) do done[a.what] = a.value end
  assert(done.epsilon == 4 and done.tail == "long" and done["gradient.batch"] == 3)
  local config = io.open(os.getenv("TOP") .. "/log/config.json"):read("a")
  assert(config:find("\"head\":%s*3") and config:find("\"tail\":%s*\"long\""), config)
  assert(fopo.view.text(os.getenv("TOP") .. "/log"))
  t:save(os.getenv("TOP") .. "/t.npz")
  local again = trainer()
  again:resume(os.getenv("TOP") .. "/t.npz")
  for _, one in ipairs{t, again} do one:run{steps = 5, view = false} end
  assert(t.policy:theta():add(again.policy:theta(), -1):norm() == 0 and again.step == 15)
  local replayed = trainer()
  replayed:run{steps = 10, view = false, replay = t.actions}
  assert(replayed.tail == "long" and replayed.gradient.batch == 3 and replayed.epsilon == 4)
  local job = trainer():start{steps = 200}
  job.tail = "long"
  assert(job.tail == "long" and job:wait().gradient.tail == "long")

  -- the check sees what the gradient is used with, before the first step
  local moved = fopo.policy.linear{items = items, train_items = true}
  refused("uniform does not learn items; use snis", fopo.trainer,
          {policy = moved, data = s.train, gradient = make{}})
  refused("a head of 400 items is all of the 400 items", trainer, {head = 400})
  refused("uniform does not learn items", function()
    make{}:compute(moved, s.train, {1, 2}, fopo.reward.hits(s.train), {})
  end)
  local lg = fopo.data.synthetic_logs{n = 50, actions = 20, dim = 4}
  refused("uniform hardly draws the action of a log", fopo.trainer,
          {policy = fopo.policy.linear{items = lg:items()}, data = lg, gradient = make{}})'
