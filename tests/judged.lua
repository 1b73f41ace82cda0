-- Solves the problems of tests/judged.py: a line of JSON for each line of the file; arrays are
-- saved as .npy, policies as .npz, in this folder.
local fopo = require "fopo"
local json = require "fopo.base.json"
local lists = require "fopo.base.lists"
local paired = require "fopo.base.paired"

local function pick(e, names)
  local out = {}
  for _, name in ipairs(names) do out[name] = e[name] end
  return out
end

-- ---- sessions

local function parts_of(s)
  local parts = {names = {}}
  parts.counts = pick(s, {"kept", "dropped", "without", "valid_from", "test_from"})
  for a = 1, s.train and s.train.n_items or 0 do parts.names[a] = s.dataset:item_name(a) end
  for _, name in ipairs{"train", "valid", "test"} do
    local part, rows = s[name], {}
    for n = 1, part and part.n or 0 do
      rows[n] = {user = s.dataset:user_name(part:user(n)), x = part:x(n):totable()[1],
                 y = part:y(n):totable()[1]}
    end
    parts[name] = rows
  end
  return parts
end

local function split_of(p)
  if p.files then return fopo.data.sessions(p.files) end
  return fopo.data.read(p.file):sessions(p.split)
end

-- ---- evaluations

local measures = {"hit", "precision", "recall", "ndcg", "value", "seen"}

local function fields(e)
  local out = pick(e, {"exclude", "reward", "low", "high", "hits", "contexts", "unanswered",
                       "distinct", "expected", "expected_se", "expected_low", "expected_high",
                       "expected_contexts", "effective", "likelihood", "likelihood_se",
                       "reward_index", "valued", "slate"})
  out.at, out.text = {}, tostring(e)
  for i, k in ipairs(e.k) do
    local m = {k = k, items = e.items[k], coverage = e.coverage[k], gini = e.gini[k]}
    for _, name in ipairs(measures) do
      local interval = e[name] and e.interval[name][k]
      m[name] = interval and {e[name][k], interval[1], interval[2]}
    end
    out.at[i] = m
  end
  if e.index then out.index = fields(e.index) end
  return out
end

local function save_best(name, who, sessions, o)
  local ids, scores = lists.of(who, sessions, o)
  ids:save(name .. ".ids.npy")
  scores:save(name .. ".scores.npy")
end

local make = {}

function make.linear(s, o)
  o.items, o.theta = fopo.array.from(o.items), fopo.array.from(o.theta)
  o.data = s.train
  return fopo.policy.linear(o)
end

function make.mlp(s, o)
  o.items, o.data = fopo.array.from(o.items), s.train
  local pi = fopo.policy.mlp(o)
  local p = pi:parameters()
  for i, name in ipairs{"W1", "W2", "W3", "b1", "b2", "b3"} do
    if p[name] then p[name] = fopo.array.randn(p[name].rows, p[name].cols, i, 0.7) end
  end
  pi:set_parameters(p)
  return pi
end

function make.neighbours(s, o)
  local set = o.set
  o.items, o.data, o.set = o.items and fopo.array.from(o.items), s.train, nil
  local pi = fopo.policy.neighbours(o)
  for name, value in pairs(set) do set[name] = fopo.array.from(value) end
  pi:set_parameters(set)
  return pi
end

-- At most n of what all contexts have left, which pi:recommend asks for.
local function recommended(pi, sessions, n)
  local out = {}
  for i = 1, sessions.n do n = math.min(n, sessions.n_items - sessions:x(i).cols) end
  for i, r in ipairs(n > 0 and pi:recommend(sessions, n) or {}) do
    out[i] = {}
    for k, one in ipairs(r) do out[i][k] = {one.item, one.score, one.probability} end
  end
  return out
end

local function judge(p, s, m, known)
  local rw = p.value and fopo.reward.hits(s.train, {value = p.value})
  local name, policy, o = p.name .. "." .. m.name, make[m.kind], m.options
  local who, out, index
  if policy then
    who = policy(s, o)
    who:save(name .. ".npz", {data = s.dataset})
    out = {recommended = recommended(who, s.test, m.best), temperature = who.temperature}
    index = m.index and fopo.index[m.index](who:items())
  else
    o.data = s.train
    who = fopo.baseline[m.kind](o)
    out = {l2 = o.l2 and who.l2, held = who.tried and who.tried.held, tried = {}}
    for i, t in ipairs(who.tried or {}) do out.tried[i] = {t.value, t.ndcg} end
    if m.kind == "als" then
      fopo.array.randn(s.train.n_items, o.dim, o.seed, 0.1):save(name .. ".start.npy")
      who:theta():save(name .. ".theta.npy")
      who:items():save(name .. ".items.npy")
    end
    if m.left_out then
      save_best(name .. ".left_out", who, s.train, {k = m.best, exclude = "seen", left_out = true})
    end
  end
  for _, exclude in ipairs{"seen", "none"} do
    save_best(name .. "." .. exclude, who, s.test, {k = m.best, exclude = exclude})
  end
  local e = fopo.evaluate(who, s.test, {k = m.k, exclude = m.exclude, reward = rw, index = index,
                                        expected_contexts = m.expected_contexts,
                                        slate = m.slate and fopo.gradient[m.slates](m.slate)})
  if index then
    save_best(name .. ".index", who, s.test, {k = m.best, exclude = e.exclude, index = index})
  end
  if known.e then out.less = {known.name, paired.difference(e, known.e)} end
  known.name, known.e = m.name, e
  out.e = fields(e)
  return out
end

-- ---- logs

local function off_policy(p)
  local lg = fopo.data.logs(p.file, {n_actions = p.n_actions})
  local pi = fopo.policy.linear{items = fopo.array.from(p.items), theta = fopo.array.from(p.theta),
                                context_dim = lg.dim, temperature = p.temperature}
  local o, out = p.options, {n = lg.n}
  o.groups = p.groups and fopo.array.ids(p.groups)
  o.logging = p.logging and fopo.array.from{p.logging}
  if p.logging_theta then
    o.logging = fopo.policy.linear{items = fopo.array.from(p.items), context_dim = lg.dim,
                                   theta = fopo.array.from(p.logging_theta)}
  end
  if p.direct then
    p.direct.logs = lg
    p.direct.items = p.direct.items and fopo.array.from(p.direct.items)
    o.model = fopo.reward.direct(p.direct)
    out.loss, out.constant_loss = o.model.loss, o.model.constant_loss
    local ids, v = {}, fopo.array.zeros(lg.n, p.n_actions)
    for a = 1, p.n_actions do ids[a] = a end
    for i = 1, lg.n do
      local r = o.model:value(fopo.array.ids(ids), fopo.array.ids{i})
      for a = 1, p.n_actions do v:set(i, a, r:get(1, a)) end
    end
    v:save(p.name .. ".model.npy")
  elseif p.model then
    o.model = function(ids, rows)
      local r = fopo.array.zeros(ids.rows, ids.cols)
      for b = 1, ids.rows do
        for s = 1, ids.cols do r:set(b, s, p.model[rows:get(1, b)][ids:get(b, s)]) end
      end
      return r
    end
  end
  o.samples, o.index = p.samples, p.index and fopo.index[p.index](pi:items())
  local given = p["function"]
  if given then
    function pi(_, rows)
      local block = {}
      for i = 1, rows.cols do block[i] = given[rows:get(1, i)] end
      return block
    end
  elseif p.given then
    pi = fopo.array.from(p.given)
  end
  local e = fopo.ope(pi, lg, o)
  out.e = pick(e, {"n", "overlap", "reward", "ess", "max_weight", "max_share", "mean_weight",
                   "mean_weight_se", "weight_bound", "degenerate", "unanswered", "level", "z_error",
                   "z_worst", "warnings", "unshown", "chosen", "ips", "clipped_ips", "snips", "ix",
                   "ls", "dm", "dr", "clipped_dr", "dros", "mips", "offcem"})
  out.estimators, out.text = e.estimators, tostring(e)
  return out
end

-- ----

for line in io.lines(arg[1]) do
  local p = assert(json.decode(line))
  local ok, out = xpcall(function()
    if p.n_actions then return off_policy(p) end
    local s, known = split_of(p), {}
    local parts = parts_of(s)
    parts.methods = {}
    for i, m in ipairs(s.test and p.methods or {}) do parts.methods[i] = judge(p, s, m, known) end
    return parts
  end, debug.traceback)
  print(json.encode(ok and out or {error = out}))
end
