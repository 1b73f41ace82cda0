-- Methods in Lua beside those of C: one table. Every method trains a policy from the same start, on
-- the same contexts and uniform draws, or two_stage's, and is judged on the test part.
--
--   ./fopo scripts/examples/methods/compare.lua [option=value ...]
--
-- Cost: some seconds. Quick: steps=20 users=500 items=500
-- Options (defaults): steps (300), users (3000), items (3000), dim (32), samples (1000),
-- batch (32).
-- FOPO_THREADS=1 for the cost of one thread.
local fopo = require "fopo"
local o = {steps = 300, users = 3000, items = 3000, dim = 32, samples = 1000, batch = 32}
for _, one in ipairs(arg or {}) do
  local name, value = one:match("^(%w+)=(%d+)$")
  if not o[name] then error("there is no option " .. one, 0) end
  o[name] = math.tointeger(value)
end
local folder = (arg and arg[0] or ""):match("^(.*/)") or "scripts/examples/methods/"

local d = fopo.data.synthetic{users = o.users, items = o.items, clusters = 60, seed = 1}
local s = d:sessions{min_items = 10, valid = 0.1, test = 0.2, seed = 1}
local items = fopo.embed.svd(s.train, {dim = o.dim})
local q = fopo.proposal.uniform() -- so that weights vary, and clipping them matters

-- {name, in, gradient, policy (linear if left out)}
local methods = {{"exact", "C", fopo.gradient.exact{}},
                 {"snis", "C", fopo.gradient.snis{proposal = q, samples = o.samples}}}
for _, name in ipairs{"snis", "clipped_snis", "top_k"} do
  methods[#methods + 1] = {name, "Lua", dofile(folder .. name .. ".lua")(q, o.samples)}
end

local two_stage = dofile(folder .. "two_stage.lua")(items)
methods[#methods + 1] = {"two_stage", "Lua",
                         fopo.gradient.snis{proposal = two_stage, samples = o.samples}}
methods[#methods + 1] = {"biases", "Lua", fopo.gradient.snis{proposal = q, samples = o.samples},
                         dofile(folder .. "biases.lua")(items, s.train)}

local form = "%-13s %-4s %9s %9s %9s %9s  %s"
print(form:format("method", "in", "expected", "recall@5", "ndcg@20", "distinct", "CPU ms a step"))
-- The steps are made in rounds, by turns, so that a busy machine is busy for all.
local ROUNDS = 5
for _, method in ipairs(methods) do
  method.policy = method[4] or fopo.policy.linear{items = items, seed = 1}
  method.cost = {}
  method.trainer = fopo.trainer{policy = method.policy, data = s.train, gradient = method[3],
                                batch = o.batch, optim = fopo.optim.adam{lr = 3e-3},
                                valid = false}
end
for round = 1, ROUNDS do
  for _, method in ipairs(methods) do
    local steps = o.steps * round // ROUNDS - method.trainer.step
    local start = os.clock()
    if steps > 0 then method.trainer:run{steps = steps, view = false} end
    method.cost[round] = 1000 * (os.clock() - start) / math.max(steps, 1)
  end
end
for _, method in ipairs(methods) do
  local e = fopo.evaluate(method.policy, s.test, {k = {5, 20}})
  table.sort(method.cost)
  print(form:format(method[1], method[2], ("%.4f"):format(e.expected),
                    ("%.4f"):format(e.recall[5]), ("%.4f"):format(e.ndcg[20]), e.items[5],
                    ("%.2f"):format(method.cost[(ROUNDS + 1) // 2])))
end
