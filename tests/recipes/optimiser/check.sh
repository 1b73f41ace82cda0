# A run goes uphill, as Adam does whose beta1 is 0 to the bit; files and jobs know it, and help().
"$NEW" -e '
  local s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
  local items = fopo.embed.svd(s.train, {dim = 6})
  local function trainer(optim)
    return fopo.trainer{policy = fopo.policy.linear{items = items, preset = "paper"}, optim = optim,
                        data = s.train, gradient = fopo.gradient.exact{}, valid = false}
  end
  local function new() return trainer(fopo.optim.rmsprop{lr = 0.05}) end
  local t, adam = new(), trainer(fopo.optim.adam{lr = 0.05, beta1 = 0, beta2 = 0.99})
  for _, one in ipairs{t, adam} do one:run{steps = 20, every = 10, view = false} end
  local function theta(one) return one.policy:theta():add(t.policy:theta(), -1):norm() end
  assert(theta(adam) == 0 and t.history.reward[2] > t.history.reward[1])
  local path = os.getenv "TOP" .. "/rmsprop.npz"
  local part = new():run{steps = 8, view = false}
  part:save(path)
  assert(theta(new():resume(path):run{steps = 12, view = false}) == 0)
  assert(theta(new():start{steps = 20}:wait()) == 0)
  assert(not pcall(fopo.optim.rmsprop, {beta2 = 1}))
  assert(not pcall(adam.resume, adam, path))'
"$NEW" -e 'help "fopo.optim.rmsprop"' | grep -q 'decay of the mean square'
