-- A softmax policy with item biases: f(a, x) = (x^T theta beta_a + c b_a) / T, where b_a is the log
-- of how many users took the item. The bias is one more column of the items and c, which is learnt
-- with theta, its factor in h. With learn = {"theta", "c", "items"} each b_a moves too, and with it
-- the embeddings.
local fopo = require "fopo"

-- [P, 1], with a mean of 0
local function log_popularity(s)
  local count = fopo.array.zeros(s.n_items, 1)
  for i = 1, s.n do
    for _, ids in ipairs{s:x(i), s:y(i)} do
      count:scatter_add(ids, fopo.array.zeros(ids.cols, 1) + 1)
    end
  end
  local b = (count + 1):log()
  return b - b:mean()
end

-- The policy over embeddings [P, L] of the sessions s, which starts as fopo.policy.linear does; o:
-- other options, as `learn`.
return function(items, s, o)
  local L = items.cols
  local function embedding(x) -- at unit length, without the column of the bias
    x = x:columns(1, L)
    return x / x:norm("rows"):maximum(1e-12)
  end
  local given = {
    items = fopo.array.concat({items, log_popularity(s)}, "columns"), data = s, contexts = "mean",
    temperature = fopo.policy.linear{items = items, data = s}.temperature,
    parameters = {theta = fopo.array.eye(L), c = fopo.array.zeros(1, 1)},
    queries = function(x, p)
      local c = fopo.array.zeros(x.rows, 1) + p.c
      return fopo.array.concat({embedding(x):matmul(p.theta), c}, "columns")
    end,
    backward = function(x, V)
      return {theta = embedding(x):matmul(V:columns(1, L), true),
              c = V:columns(L + 1):sum("columns")}
    end,
  }
  for name, value in pairs(o or {}) do given[name] = value end
  return fopo.policy.custom(given)
end
