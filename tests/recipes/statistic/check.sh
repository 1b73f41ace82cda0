# The statistic is a column of the history and of the log, and in the help; for one context a step
# it is 1 / ess.
cd "$TOP"
"$NEW" -e '
  local s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
  local items = fopo.embed.svd(s.train, {dim = 8})
  local t = fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train, batch = 1,
                         gradient = fopo.gradient.snis{samples = 100}}
  t:run{steps = 5, every = 1, view = false, log = "run"}
  local h = t.history
  for i = 1, 5 do assert(math.abs(h.concentration[i] * h.ess[i] - 1) < 1e-5) end'
head -n 1 run/history.csv | grep -q concentration
"$NEW" -e 'help "trainer:run"' | grep -q concentration
