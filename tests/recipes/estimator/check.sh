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
