# s:contexts makes them, a policy learns with them, its file keeps the name, and help() says it.
"$NEW" -e '
  local s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
  local items = fopo.embed.svd(s.train, {dim = 8})
  local root, mean = s.test:contexts(items, {scale = "root"}), s.test:contexts(items)
  local n = s.test:x(1).cols
  assert(math.abs(root:get(1, 3) / mean:get(1, 3) - math.sqrt(n)) < 1e-4)
  local pi = fopo.policy.linear{items = items, contexts = "root"}
  local t = fopo.trainer{policy = pi, data = s.train, valid = false}
  t:run{steps = 5, view = false}
  pi:save(os.getenv "TOP" .. "/root.npz")
  assert(fopo.policy.load(os.getenv "TOP" .. "/root.npz").contexts == "root")'
"$NEW" -e 'help "sessions:contexts"' | tr -s ' \n' ' ' | grep -q 'divided by the root'
