# An estimate goes up the objective, and its value is the objective's.
mkdir -p "$TREE/tests/c"
cp tests/recipes/objective/check.c "$TREE/tests/c/test_root.c"
build test_root
"$TREE/build/debug/test_root"

# fopo.check compares it with differences of its value, and a validation gives that value.
"$NEW" -e '
  local s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}
    :sessions{min_items = 10, valid = 0.2, test = 0.1}
  local items = fopo.embed.svd(s.train, {dim = 8})
  local pi = fopo.policy.linear{items = items}
  local g = fopo.gradient.snis{samples = 200, objective = "root_reward"}
  local checked = fopo.check{policy = pi, data = s.train, gradient = g, contexts = 2,
                             repetitions = 30, print = false}
  assert(checked.ok, tostring(checked))
  local function validated(objective)
    local t = fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train,
                           valid = s.valid, gradient = fopo.gradient.snis{objective = objective}}
    return t:run{steps = 1, view = false}.history.valid_expected[1]
  end
  local reward, root = validated "reward", validated "root_reward"
  assert(root > reward and root <= math.sqrt(reward))'
