# fopo.baseline.niche is there with its help, recommends by its definition and is evaluated.
"$NEW" -e '
  local s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
  local took = {}
  for n = 1, s.train.n do
    for _, side in ipairs{"x", "y"} do
      for _, a in ipairs(s.train[side](s.train, n):totable()[1]) do took[a] = (took[a] or 0) + 1 end
    end
  end
  local least = math.huge
  for _, n in pairs(took) do least = math.min(least, n) end
  local niche = fopo.baseline.niche{data = s.train}
  local ids, scores = niche:best(s.test, {k = 3})
  assert(took[ids:get(1, 1)] == least and scores:get(1, 3) == -took[ids:get(1, 3)])
  assert(fopo.evaluate(niche, s.test).items[1] == 1)'
"$NEW" -e 'help "baseline.niche"' | grep -q 'fewest training users'
