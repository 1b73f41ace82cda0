# fopo.policy.scaled is there; its gradient agrees with central differences, log_scale is learnt
# alone, with theta, or at a rate of its own, and files and checkpoints keep it.
"$NEW" -e '
  local folder = os.getenv "TOP"
  local s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
  local items = fopo.embed.svd(s.train, {dim = 8})
  local function policy(learn, temperature)
    local pi = fopo.policy.scaled{items = items, learn = learn, temperature = temperature or 1}
    pi:set_parameters{theta = fopo.array.randn(8, 8, 3), log_scale = fopo.array.from{{0.5}}}
    return pi
  end
  local function trainer(pi, options)
    options = options or {lr = 0.1, weight_decay = 0.01}
    return fopo.trainer{policy = pi, data = s.train, optim = fopo.optim.adam(options),
                        gradient = fopo.gradient.snis{samples = 100}, batch = 16}
  end
  local checked = fopo.check{policy = policy(), data = s.train, gradient = fopo.gradient.exact{},
                             contexts = 2, repetitions = 30, print = false}
  assert(checked.ok, tostring(checked))

  -- How far both moved in some steps.
  local function moved(pi, options)
    local before, t = pi:parameters(), trainer(pi, options)
    t:run{steps = 20, view = false, keep_best = false}
    local after = pi:parameters()
    return after.theta:add(before.theta, -1):norm(),
           math.abs(after.log_scale:get(1, 1) - before.log_scale:get(1, 1)), t
  end
  local theta, scale = moved(policy())
  assert(theta > 0 and scale > 0)
  theta, scale = moved(policy{"theta"})
  assert(theta > 0 and scale == 0)
  local alone = policy{"log_scale"}
  local t
  theta, scale, t = moved(alone)
  assert(theta == 0 and scale > 0 and alone.learn[1] == "log_scale" and alone.fixed[1] == "theta")
  local slow = select(2, moved(policy{"log_scale"}, {lr = 0.1, lr_of = {log_scale = 1e-3}}))
  assert(slow > 0 and slow < scale / 10)

  local path = folder .. "/scaled.ckpt.npz"
  t:save(path)
  local other = trainer(policy())
  local ok, why = pcall(other.resume, other, path)
  assert(not ok and why:find "use the same learn", why)
  local again = policy{"log_scale"}
  local resumed = trainer(again)
  resumed:resume(path)
  t:run{steps = 5, view = false, keep_best = false}
  resumed:run{steps = 5, view = false, keep_best = false}
  assert(again:parameters().log_scale:get(1, 1) == alone:parameters().log_scale:get(1, 1))
  alone:save(folder .. "/scaled.npz")
  local loaded = fopo.policy.load(folder .. "/scaled.npz")
  assert(loaded:parameters().log_scale:get(1, 1) == alone:parameters().log_scale:get(1, 1))
  assert(#loaded.learn == 1 and loaded.learn[1] == "log_scale")'
"$NEW" -e 'help "policy.scaled"' | grep -q 'The blocks are theta'
