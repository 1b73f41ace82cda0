-- Trains a few steps of every kind of work on the CPU and on the GPU, and prints a row of Markdown
-- for each: what the GPU makes of it, or the sentence by which it refuses. test_gpu_types.py runs
-- it on the emulation and compares the rows with docs/gpu.md.
local fopo = require "fopo"
fopo.threads(1)

local d = fopo.data.synthetic{users = 120, items = 60, clusters = 4, seed = 1}
local s = d:sessions{min_items = 6, valid = 0, test = 0.1, seed = 1}
local items = fopo.embed.svd(s.train, {dim = 6})
local norm = fopo.index.norm(items)
local P, K = items.rows, 12
local lg = fopo.data.synthetic_logs{n = 200, actions = 60, dim = 6, seed = 1}
local values = fopo.array.uniform(1, P, 1)

local function linear(o)
  o = o or {}
  o.items = o.items or items
  return fopo.policy.linear(o)
end
local ips = fopo.reward.ips{logs = lg}
local G, Q = fopo.gradient, fopo.proposal
local function mixture(index, o)
  o = o or {}
  o.index, o.k, o.epsilon = index, K, 0.5
  return G.snis{samples = 40, proposal = Q.mixture(o)}
end
local snis = G.snis{samples = 40}
local function likewise(objective) return G.snis{samples = 40, objective = objective} end

-- {what, gradient or a function that makes it, hits = a reward of the sessions, reward = one of a
-- log, which is trained on, policy = a function that makes it, about = what the GPU does otherwise,
-- steps = 3 if it is left out}
local TYPES = {
  {"uniform draws, items of X masked", snis},
  {"mixture over an exact or norm index", mixture(norm)},
  {"mixture, candidates kept", mixture(norm, {refresh = 3})},
  {"mixture over clusters", mixture(fopo.index.clusters(items)), about = "searched on the host"},
  {"mixture over a graph", mixture(fopo.index.hnsw(items)), about = "searched on the host"},
  {"adaptive mixture", G.snis{samples = 40, proposal = Q.adaptive{index = norm, k = K}}},
  {"head and tail by an index", G.head_tail{index = norm, k = K, tail = P - K - 8}},
  {"shared head", G.head_tail{head = K, tail = P - K, products = "float32"},
   about = "a tail of its own in each context"},
  {"shared head in bfloat16", G.head_tail{head = K, tail = P - K, products = "bfloat16"},
   about = "a tail of its own in each context"},
  {"exact", G.exact{}},
  {"REINFORCE", G.reinforce{samples = 40}},
  {"items in half the bytes", snis, policy = function() return linear{rows = "bfloat16"} end},
  {"objective: likelihood", likewise("likelihood")},
  {"objective: smoothed", likewise("smoothed"), reward = ips},
  {"objective: log_reward", likewise("log_reward")},
  {"objective: snips", G.snis{samples = 40, objective = "snips"}, reward = ips},
  {"objective: custom", likewise(fopo.objective.custom{
    value = function(R) return R:maximum(1e-6):sqrt(), R:maximum(1e-6) ^ -0.5 / 2 end})},
  {"reward: hits with values", snis, hits = fopo.reward.hits(s.train, {value = values})},
  {"reward: of a log, by propensities", snis, reward = ips},
  {"reward: a model of a log's", snis, reward = fopo.reward.direct{logs = lg}},
  {"reward: doubly robust", snis, reward = fopo.reward.doubly_robust{logs = lg}},
  {"reward: switch", snis, reward = fopo.reward.switch{logs = lg}},
  {"reward: a function of yours", snis, hits = fopo.reward.custom(function(ids)
    return fopo.array.from(ids:totable()) / P
  end)},
  {"items learnt: rows that were drawn", snis,
   policy = function() return linear{train_items = true} end},
  {"items learnt: all rows", G.exact{}, policy = function() return linear{train_items = true} end},
  {"items alone learnt", snis, policy = function() return linear{learn = {"items"}} end},
  {"a network", snis, policy = function() return fopo.policy.mlp{items = items, hidden = {5}} end},
  {"a network, a part of it learnt", snis, policy = function()
    return fopo.policy.mlp{items = items, hidden = {5}, learn = {"W2", "b2"}}
  end},
  {"slates", G.slate{samples = 40, k = 3, sigma = 0.5}},
  {"slates, more than one search finds", G.slate{samples = 514, k = 3, sigma = 0.5}, steps = 1},
  {"slates of the largest norms, sigma learnt", function()
    return G.slate{samples = 6, k = 3, head = 40, measure = "ndcg", sigma_lr = 0.1}
  end},
  {"slates over clusters", G.slate{samples = 4, k = 3, index = fopo.index.clusters(items)}},
  {"Plackett-Luce", G.plackett_luce{samples = 4, k = 3}},
  {"item-to-item weights (policy.neighbours)", G.sparse{},
   policy = function() return fopo.policy.neighbours{data = s.train, start = "cosine"} end},
  {"a policy, gradient or proposal of your own", G.snis{samples = 40, proposal = Q.custom{
    draws = function(q, _, S, seed, step)
      local p = fopo.array.zeros(q.rows, P) + 1 / P
      return p:draw(S, seed, step), fopo.array.zeros(q.rows, S) - math.log(P)
    end}}},
}

-- Everything that a policy has learnt, as one array.
local function learnt(pi)
  local all = {}
  for _, x in ipairs{pi:theta(), pi:items()} do all[#all + 1] = x:reshape(1, x.rows * x.cols) end
  return fopo.array.concat(all, "columns")
end

local function train(t, device)
  local pi = t.policy and t.policy() or linear{items = t.reward and lg:items() or items}
  local g = type(t[2]) == "function" and t[2]() or t[2]
  local o = {policy = pi, gradient = g, optim = fopo.optim.sgd{lr = 0.5}, batch = 8, seed = 1,
             valid = false, device = device}
  o.data, o.reward = t.reward and lg or s.train, t.reward or t.hits
  local before = learnt(pi)
  local tr = fopo.trainer(o)
  tr:run{steps = t.steps or 3, view = false}
  return learnt(pi) - before
end

print("| work | on a GPU |")
print("| --- | --- |")
for _, t in ipairs(TYPES) do
  local cpu = train(t, "cpu")
  local ok, gpu = pcall(train, t, "cuda")
  local what = t.about and "yes; " .. t.about or "yes"
  if not ok then
    what = "no: " .. tostring(gpu):gsub("^.-%.lua:%d+: ", ""):gsub("|", "\\|")
  elseif cpu:norm() == 0 or (gpu - cpu):norm() > 2e-3 * cpu:norm() then
    what = ("WRONG: %g of %g apart"):format((gpu - cpu):norm(), cpu:norm())
  end
  print(("| %s | %s |"):format(t[1], what))
end
