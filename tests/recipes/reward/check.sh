# fopo.reward.recall is there with its help, has the values of its definition, and can be learnt.
"$NEW" -e '
  local s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
  local items = fopo.embed.svd(s.train, {dim = 8})
  local hits, recall = fopo.reward.hits(s.train), fopo.reward.recall(s.train)
  local all = {}
  for a = 1, 400 do all[a] = a end
  for n = 1, 4 do
    local ids, row = fopo.array.ids(all), fopo.array.ids{n}
    local h, r = hits:value(ids, row), recall:value(ids, row)
    assert(math.abs(r:sum() - 1) < 1e-6 and h:sum() == s.train:y(n).cols)
  end
  local pi = fopo.policy.linear{items = items, preset = "paper"}
  local t = fopo.trainer{policy = pi, data = s.train,
                         reward = recall, gradient = fopo.gradient.snis{samples = 100},
                         optim = fopo.optim.adam{lr = 0.1}}
  t:run{steps = 200, view = false}
  assert(t.history.reward[#t.history.reward] > 1.5 * t.history.reward[1])'
"$NEW" -e 'help "reward.recall"' | grep -q 'share of the recall'
