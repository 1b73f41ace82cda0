-- Items of X are left out by default: policies that are made for sessions, evaluation, validation,
-- baselines, races; and where they are not: the paper's presets, exclude = "none", sessions whose Y
-- has items of X, contexts and logs whose X is not known.
local lu = require "luaunit"
local fopo = require "fopo"

local s = fopo.data.synthetic{users = 400, items = 300, clusters = 8, seed = 5}
          :sessions{min_items = 10, seed = 2}
local items = fopo.embed.svd(s.train, {dim = 8})

local function linear(o)
  o = o or {}
  o.items = o.items or items
  return fopo.policy.linear(o)
end

-- How many of the best items are in X.
local function taken(ids)
  local n = 0
  for i = 1, ids.rows do
    for _, a in ipairs(s.test:x(i):totable()[1]) do
      for k = 1, ids.cols do n = n + (ids:get(i, k) == a and 1 or 0) end
    end
  end
  return n
end

TestSeen = {}

function TestSeen:test_policies()
  lu.assertEquals({linear().seen, linear{seen = "keep"}.seen, linear{preset = "paper"}.seen},
                  {"mask", "keep", "keep"})
  lu.assertEquals(linear{items = fopo.array.from(items:totable())}.seen, "keep")
  lu.assertEquals(linear{items = fopo.array.from(items:totable()), data = s.train}.seen, "mask")
  lu.assertEquals(fopo.policy.mlp{items = items, hidden = {4}}.seen, "mask")
  lu.assertEquals(fopo.baseline.identity{items = items}.seen, "mask")
  lu.assertEquals(fopo.baseline.identity{items = items, seen = "keep"}.seen, "keep")
end

-- Of contexts whose X is not known nothing is left out; a mask that was asked for refuses them. A
-- file keeps the difference.
function TestSeen:test_contexts()
  local pi, asked, kept = linear(), linear{seen = "mask"}, linear{seen = "keep"}
  kept:set_theta(pi:theta())
  local x = s.test:contexts(pi)
  lu.assertEquals(taken(pi:best(s.test, {k = 5})), 0)
  lu.assertTrue(taken(pi:best(x, {k = 5})) > 0)
  local path = os.tmpname()
  pi:save(path)
  lu.assertEquals(pi:best(x, {k = 5}):totable(), fopo.policy.load(path):best(x, {k = 5}):totable())
  asked:save(path)
  for _, one in ipairs{asked, fopo.policy.load(path)} do
    lu.assertErrorMsgContains("does not say which they are", one.best, one, x, {k = 5})
  end
  os.remove(path)
  local hits, g = fopo.reward.hits(s.test), fopo.gradient.exact{}
  local masked, plain = g:compute(pi, s.test, nil, hits), g:compute(pi, x, nil, hits)
  lu.assertTrue(masked:add(plain, -1):norm() > 1e-3 * plain:norm())
  lu.assertEquals(plain:totable(), g:compute(linear{seen = "keep", temperature = pi.temperature}, x,
                                             nil, hits):totable())
  local lg = fopo.data.synthetic_logs{n = 200, actions = 20, dim = 4}
  local of_log = linear{items = lg:items()}
  lu.assertEquals(of_log.seen, "keep")
  fopo.trainer{policy = of_log, data = lg, valid = lg}:run{steps = 5, view = false}
end

function TestSeen:test_evaluation()
  local kept, popular = linear{seen = "keep"}, fopo.baseline.popular{data = s.train}
  for _, who in ipairs{linear(), kept, popular} do
    local e = fopo.evaluate(who, s.test)
    lu.assertEquals({e.exclude, e.seen[5]}, {"seen", 0})
    lu.assertStrContains(tostring(e), " contexts, X left out\n")
  end
  for _, who in ipairs{kept, popular} do
    local e = fopo.evaluate(who, s.test, {exclude = "none"})
    lu.assertEquals(e.exclude, "none")
    lu.assertTrue(e.seen[5] > 0)
    lu.assertStrContains(tostring(e), "\nR_test, reward ")
  end
  lu.assertEquals(fopo.evaluate(linear(), s.test, {exclude = "none"}).exclude, "seen")
  lu.assertEquals(taken((popular:best(s.test, {k = 5}))), 0)
  lu.assertTrue(taken((popular:best(s.test, {k = 5, exclude = "none"}))) > 0)
end

function TestSeen:test_validation()
  local function valid(o)
    o.policy, o.data = linear{seen = "keep"}, s.train
    local t = fopo.trainer(o)
    t:run{steps = 2, view = false, keep_best = false}
    return t.history.valid[#t.history.valid], t
  end
  local served, t = valid{}
  lu.assertEquals(served, fopo.evaluate(t.policy, s.valid).reward)
  for _, o in ipairs{{exclude = "none"}, {preset = "paper"}} do
    local paper, u = valid(o)
    lu.assertEquals(paper, fopo.evaluate(u.policy, s.valid, {exclude = "none"}).reward)
  end
end

function TestSeen:test_races()
  local function race(o)
    o.split, o.items, o.steps, o.methods = s, items, 3, {{"exact", fopo.gradient.exact{}}}
    return fopo.experiment.race(o)
  end
  for _, one in ipairs(race{}) do lu.assertEquals(one.evaluation.exclude, "seen", one.name) end
  local paper = race{preset = "paper"}
  for _, one in ipairs(paper) do
    if one.name ~= "identity" then lu.assertEquals(one.evaluation.exclude, "none", one.name) end
  end
  lu.assertStrContains(fopo.report.runs(race{}), "Items seen before are left out")
  lu.assertStrContains(fopo.report.runs(paper), "the paper's R_test")
end

-- Where an item of X may be taken again, and counts, it stays in.
function TestSeen:test_kept_by_the_split()
  local path = os.tmpname()
  local f = io.open(path, "w")
  f:write("user,item,time\n")
  for user = 1, 60 do
    for k = 1, 12 do f:write(("%d,%d,%d\n"):format(user, (user + k * k) % 23, k * 10)) end
  end
  f:close()
  local split = fopo.data.read(path):sessions{split = "time", seen = "keep", min_items = 3}
  os.remove(path)
  lu.assertTrue(split.train.keeps_seen and split.test.keeps_seen)
  lu.assertFalse(s.test.keeps_seen)
  local pi = linear{items = fopo.embed.svd(split.train, {dim = 4})}
  lu.assertEquals(pi.seen, "keep")
  lu.assertEquals(fopo.evaluate(pi, split.test).exclude, "none")
  lu.assertEquals(fopo.evaluate(pi, split.test, {exclude = "seen"}).exclude, "seen")
  lu.assertEquals(fopo.evaluate(fopo.baseline.popular{data = split.train}, split.test).exclude,
                  "none")
end

os.exit(lu.LuaUnit.run())
