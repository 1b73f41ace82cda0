-- fopo.check: all okay where all is okay, and red, naming the right check, where a mistake is
-- planted.
local lu = require "luaunit"
local fopo = require "fopo"

local d = fopo.data.synthetic{users = 500, items = 3000, clusters = 20, seed = 4}
local s = d:sessions{min_items = 10}
local items = fopo.embed.svd(s.train, {dim = 10})
local index = fopo.index.norm(items)

local function policy() return fopo.policy.linear{items = items, theta = "identity"} end

local function mixture(o)
  return fopo.proposal.mixture{index = o.index or index, k = 40, epsilon = 0.4, draws = o.draws}
end

local function check(o)
  local options = {policy = policy(), data = s.train, contexts = 3, repetitions = 40, print = false}
  for name, value in pairs(o) do options[name] = value end
  return fopo.check(options)
end

-- The statuses by name.
local function statuses(r)
  local of = {}
  for _, row in ipairs(r.rows) do of[row.name] = row.status end
  return of
end

local function okay(r) lu.assertTrue(r.ok, r.first) end

TestCheck = {}

function TestCheck:test_nothing_given()
  local r = fopo.check{repetitions = 40, print = false}
  okay(r)
  lu.assertNil(r.first)
  lu.assertTrue(#r.rows >= 20)
  lu.assertStrContains(fopo.show(r), "all okay")
  local of = statuses(r)
  lu.assertEquals(of["exact gradient"], "okay")
  lu.assertEquals(of["CPU and GPU"] == "skipped" or of["CPU and GPU"] == nil, true)
end

function TestCheck:test_policy_and_data()
  local pi, g = policy(), fopo.gradient.snis{proposal = mixture{}, samples = 123}
  local before = pi:theta():totable()
  okay(check{policy = pi, gradient = {g, fopo.gradient.reinforce{samples = 77}}})
  lu.assertEquals(g.samples, 123)
  lu.assertEquals(pi:theta():totable(), before)
  okay(check{gradient = fopo.gradient.snis{proposal = mixture{draws = "stratified"}}})
  okay(check{gradient = fopo.gradient.exact{}})
  local h = fopo.gradient.head_tail{index = index, k = 40, tail = 90}
  okay(check{gradient = h})
  lu.assertEquals(h.tail, 90)
end

-- Where the tail holds much of a policy's mass more is drawn from it, or it is said that too much
-- would have to be; and a policy that is nearly certain has no gradient that float32 could show.
function TestCheck:test_cold_policies()
  local others = fopo.array.randn(items.rows, items.cols, 3)
  local mean, reinforce = "mean of head and tail, H 100", "mean of reinforce, baseline none"
  local function at(temperature)
    local pi = fopo.policy.linear{items = others, theta = "identity", temperature = temperature}
    local r = check{policy = pi, repetitions = 100,
                    gradient = {fopo.gradient.head_tail{head = 100, tail = 200},
                                fopo.gradient.reinforce{samples = 50}}}
    okay(r)
    local of, measured = statuses(r), {}
    for i, row in ipairs(r.rows) do measured[i] = row.measured end
    return {of["exact gradient"], of[mean], of[reinforce]}, table.concat(measured, "\n")
  end
  local of, text = at(0.27)
  lu.assertEquals(of, {"okay", "okay", "okay"})
  lu.assertNil(text:find("S = 500", 1, true))
  of, text = at(0.05)
  lu.assertEquals(of, {"okay", "skipped", "skipped"})
  lu.assertStrContains(text, "draws of the tail are worth one of the policy")
  lu.assertStrContains(text, "the policy hardly ever draws but its best item")
  of, text = at(0.01)
  lu.assertEquals(of, {"skipped", "skipped", "skipped"})
  lu.assertStrContains(text, "the policy is nearly certain")
end

-- A head that is rounded is compared with the policy of the rounded head, where it is multiplied.
function TestCheck:test_products()
  local g = fopo.gradient.head_tail{head = 1000, tail = 400, products = "bfloat16"}
  okay(check{gradient = g})
  local even = fopo.reward.custom(function(ids)
    local r = fopo.array.zeros(ids.rows, ids.cols)
    for b = 1, ids.rows do
      for k = 1, ids.cols do r:set(b, k, ids:get(b, k) % 2) end
    end
    return r
  end)
  okay(check{gradient = g, reward = even, repetitions = 30})
end

function TestCheck:test_network_and_custom_reward()
  local net = fopo.policy.mlp{items = items, hidden = {6}, activation = "relu", seed = 2}
  net:set_theta(fopo.array.randn(1, net.n_params, 3, 0.5))
  local odd = fopo.reward.custom(function(ids, rows)
    local values = fopo.array.zeros(ids.rows, ids.cols)
    for b = 1, ids.rows do
      for j = 1, ids.cols do values:set(b, j, (ids:get(b, j) + rows:get(1, b)) % 3 - 1) end
    end
    return values
  end)
  okay(check{policy = net, gradient = fopo.gradient.snis{proposal = mixture{}}})
  okay(check{policy = net, reward = odd, gradient = fopo.gradient.snis{proposal = mixture{}},
             repetitions = 30, samples = 200})
  okay(fopo.check{policy = policy(), x = fopo.array.randn(20, 10, 3), reward = odd, print = false,
                  gradient = fopo.gradient.reinforce{}, contexts = 2, repetitions = 30})
end

function TestCheck:test_items_learnt()
  local pi = fopo.policy.linear{items = items, theta = "identity", train_items = true}
  local g = fopo.gradient.snis{proposal = mixture{index = fopo.index.norm(pi:items())}}
  local r = check{policy = pi, gradient = g}
  okay(r)
  lu.assertEquals(statuses(r)["gradient of items"], "okay")
end

function TestCheck:test_logs()
  local logs = fopo.data.synthetic_logs{n = 300, actions = 60, dim = 4}
  local pi = fopo.policy.linear{items = logs:items(), theta = "identity"}
  local g = fopo.gradient.snis{proposal = fopo.proposal.uniform()}
  okay(check{policy = pi, data = logs, gradient = g})
  for _, rw in ipairs{fopo.reward.ips{logs = logs, clip = 0.01}, fopo.reward.direct{logs = logs},
                      fopo.reward.doubly_robust{logs = logs, clip = 0.01}} do
    okay(check{policy = pi, data = logs, reward = rw, gradient = {g, fopo.gradient.reinforce{}}})
  end
end

-- Each mistake turns exactly the right check red.
function TestCheck:test_faults()
  for _, draws in ipairs{"iid", "stratified"} do
    for fault, wrong in pairs{no_q = "mean of snis, ", added_q = "mean of snis, ",
                              off_by_one = "draws of snis, "} do
      local g = fopo.gradient.snis{proposal = mixture{draws = draws}, fault = fault}
      local r = check{gradient = {fopo.gradient.reinforce{}, g}}
      lu.assertFalse(r.ok, fault)
      lu.assertEquals(r.first, ("%s%s, K 40, eps 0.4 (FAULT %s)"):format(wrong, draws, fault))
      for name, status in pairs(statuses(r)) do
        if not name:find("FAULT", 1, true) then lu.assertNotEquals(status, "FAILED", name) end
        if name:find("^draws") and fault ~= "off_by_one" then lu.assertEquals(status, "okay") end
      end
    end
  end
end

-- Other mistakes than the planted ones: a theta that changes under the estimate, a biased q.
function TestCheck:test_finds_more()
  local pi, calls = policy(), 0
  local moody = fopo.reward.custom(function(ids)
    calls = calls + 1
    local values = fopo.array.randn(ids.rows, ids.cols, 1)
    return calls > 20 and values:scale(1.2) or values
  end)
  lu.assertFalse(check{policy = pi, reward = moody, gradient = fopo.gradient.reinforce{}}.ok)
  -- epsilon = 0 never draws what is not a candidate: a bias that no S cures
  local g = fopo.gradient.snis{proposal = fopo.proposal.mixture{index = index, k = 5, epsilon = 0}}
  local r = check{policy = pi, gradient = g}
  lu.assertEquals(r.first, "mean of snis, iid, K 5, eps 0")
end

function TestCheck:test_index()
  local g = fopo.gradient.exact{}
  local bad = fopo.index.norm(items, {budget = 60})
  local r = check{gradient = g, index = bad}
  okay(r)
  lu.assertFalse(check{gradient = g, index = bad, recall = 0.99}.ok)
  okay(check{gradient = g, recall = 0.1, index = fopo.index.hnsw(items, {M = 8, ef = 400})})
  -- a poor index is a poor proposal, but no mistake
  okay(check{gradient = fopo.gradient.snis{proposal = mixture{index = bad}}})
end

function TestCheck:test_prints_and_exits()
  local function run(code)
    local p = io.popen(("%s -e '%s' 2>&1"):format(os.getenv("FOPO") or "./fopo", code))
    local said = p:read("a")
    local _, _, status = p:close()
    return said, status
  end
  local said, status = run("fopo.check{exit = true, contexts = 2, repetitions = 30}")
  lu.assertEquals(status, 0)
  lu.assertStrContains(said, "\nall okay\n")
  lu.assertNil(said:find("\27", 1, true))
  said, status = run("fopo.check{exit = true, contexts = 2, repetitions = 30, fault = \"added_q\"}")
  lu.assertEquals(status, 1)
  lu.assertStrContains(said, "not okay: mean of snis, iid")
  status = select(2, run("fopo.check{contexts = 2, repetitions = 30, fault = \"no_q\"}"))
  lu.assertEquals(status, 0)
end

-- A planted fault is said wherever the gradient is seen.
function TestCheck:test_faults_are_loud()
  local g = fopo.gradient.snis{proposal = mixture{}, fault = "no_q"}
  lu.assertEquals(g.fault, "no_q")
  lu.assertStrContains(g:describe(), "FAULT no_q PLANTED")
  lu.assertNil(fopo.gradient.snis{}.fault)
  lu.assertStrContains(fopo.trainer{policy = policy(), data = s.train, gradient = g}:describe(),
                       "FAULT no_q PLANTED")
  g:set{samples = 50}
  lu.assertEquals(g.fault, "no_q")
end

function TestCheck:test_refused()
  local function says(part, o)
    local ok, message = pcall(fopo.check, o)
    lu.assertFalse(ok)
    lu.assertStrContains(message, part)
  end
  says("needs data, or x and reward", {policy = policy()})
  says("needs a reward if x", {policy = policy(), x = fopo.array.zeros(2, 10)})
  says("gradient 1 of the list is string", {gradient = {"snis"}})
  says("list of gradients is empty", {gradient = {}})
  says("did you mean \"no_q\"", {fault = "noq"})
end

-- Ctrl-C or an error inside leaves what was given as it was.
function TestCheck:test_error_inside()
  local g, pi, calls = fopo.gradient.snis{proposal = mixture{}, samples = 99}, policy(), 0
  local failing = fopo.reward.custom(function(ids)
    calls = calls + 1
    if calls > 40 then error("enough") end
    return fopo.array.zeros(ids.rows, ids.cols)
  end)
  local ok, message = pcall(fopo.check, {policy = pi, data = s.train, reward = failing,
                                         gradient = g, print = false})
  lu.assertFalse(ok)
  lu.assertStrContains(message, "enough")
  lu.assertEquals(g.samples, 99)
  okay(check{policy = pi, gradient = g})
end

os.exit(lu.LuaUnit.run())
