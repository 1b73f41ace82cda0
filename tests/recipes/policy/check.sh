# fopo.policy.biased is there with its help; its gradient and that of its items agree with central
# differences, the bias is learnt with the items, and files and checkpoints know the kind.
"$NEW" -e '
  local folder = os.getenv "TOP"
  local s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
  local items = fopo.embed.svd(s.train, {dim = 8})
  for _, learnt in ipairs{false, true} do
    local pi = fopo.policy.biased{items = items, bias = 0.5, train_items = learnt}
    local beta, own = items:get(7, 3), pi:items()
    assert(own.cols == 9 and own:get(7, 3) == beta and pi.bias == 0.5)
    assert(math.abs(own:get(7, 9) - 0.5 * items:rows_of{7}:norm()) < 1e-6)
    pi:set_theta(fopo.array.randn(8, 8, 3))
    local checked = fopo.check{policy = pi, data = s.train, gradient = fopo.gradient.exact{},
                               contexts = 2, repetitions = 30, print = false}
    assert(checked.ok, tostring(checked))

    local function trainer(policy)
      return fopo.trainer{policy = policy, data = s.train, optim = fopo.optim.adam{lr = 0.1},
                          gradient = fopo.gradient.snis{samples = 100}}
    end
    local before = own:get(7, 9)
    local t = trainer(pi)
    t:run{steps = 100, view = false}
    local reward = t.history.reward
    assert(reward[#reward] > reward[1], "it does not learn")
    assert((own:get(7, 9) ~= before) == learnt)

    t:save(folder .. "/biased.ckpt.npz")
    local linear = trainer(fopo.policy.linear{items = items, train_items = learnt})
    assert(not pcall(linear.resume, linear, folder .. "/biased.ckpt.npz"))
    trainer(fopo.policy.biased{items = items, bias = 0.5, train_items = learnt,
                               temperature = pi.temperature})
      :resume(folder .. "/biased.ckpt.npz")
    pi:save(folder .. "/biased.npz")
    local again = fopo.policy.load(folder .. "/biased.npz")
    local x = s.test:contexts(items)
    local ids, scores = pi:best(x, {k = 3})
    local ids2, scores2 = again:best(x, {k = 3})
    assert(again.kind == "biased" and again.bias == 0.5)
    for i = 1, 3 do
      assert(scores:get(1, i) == scores2:get(1, i) and ids:get(1, i) == ids2:get(1, i))
    end
  end
  assert(fopo.policy.linear{items = items}.bias == nil)'
"$NEW" -e 'help "policy.biased"' | grep -q 'a bias b_a for each item'
