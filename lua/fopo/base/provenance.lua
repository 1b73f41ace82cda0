-- What a policy was made of: its data, the run that trained it, what it was measured by. pi:save
-- keeps it in the file as JSON, and a policy that was loaded says it.
local native = require "fopo.native"
local define = require "fopo.base.define"
local json = require "fopo.base.json"
local origin = require "fopo.base.origin"
local text = require "fopo.base.text"
local provenance = {}

-- policy -> {data = sessions, training = facts, auto = facts, metrics = {facts, ..} of the policy
-- with the `stamp`, file = what its file says, said = that as text, unchanged = its stamp then}
local known = setmetatable({}, {__mode = "k"})

local function about(pi)
  known[pi] = known[pi] or {metrics = {}}
  return known[pi]
end

-- Of what the policy has learnt.
local function stamp_of(pi) return ("%d:%d"):format(pi.version, native.items_crc(pi:theta())) end

local function describe(object) return object and object.describe and object:describe() or nil end

-- ---- what happens to a policy ----

-- A run of the trainer t has ended.
function provenance.trained(t)
  local k, on_log = about(t.policy), define.kind(t.data) == "logs"
  k.data = not on_log and t.data or nil
  k.training = {steps = t.step, seconds = t.seconds, seed = t.seed, batch = t.batch,
                gradient = describe(t.gradient), optim = describe(t.optim),
                reward = describe(t.reward), log = on_log and describe(t.data) or nil,
                resplit = t.resplit, device = tostring(t.device), held = t.held}
end

-- fopo.policy.auto chose the policy by the row of its table; trained: whether its runs count.
function provenance.chosen(pi, row, trained)
  local k = about(pi)
  if not trained then k.training = nil end
  k.auto = {chosen = row.name, users = row.each.reward.cols, ["ndcg@20"] = row.ndcg,
            reward = {row.reward, row.low, row.high}}
end

local function part_of(sessions)
  local split = origin.of(sessions).split
  for _, name in ipairs{"train", "valid", "test"} do
    if split and rawequal(split[name], sessions) then return name end
  end
  return "sessions"
end

-- The policy was evaluated on sessions. The last evaluation of each part counts.
function provenance.measured(pi, e, sessions)
  local k, part, stamp = about(pi), part_of(sessions), stamp_of(pi)
  if k.stamp ~= stamp then k.metrics, k.stamp = {}, stamp end
  local facts = {on = part, contexts = e.contexts, exclude = e.exclude,
                 reward = {e.reward, e.low, e.high},
                 expected = e.expected and {e.expected, e.expected_low, e.expected_high} or nil}
  for _, n in ipairs(e.k) do
    for _, name in ipairs{"hit", "recall", "ndcg"} do
      facts[name .. "@" .. n] = {e[name][n], table.unpack(e.interval[name][n])}
    end
    facts["coverage@" .. n] = e.coverage[n]
  end
  for i, one in ipairs(k.metrics) do
    if one.on == part and one.exclude == e.exclude then table.remove(k.metrics, i) end
  end
  table.insert(k.metrics, facts)
end

-- ---- the member of the file ----

local function facts_of_data(sessions, d)
  local from = sessions and origin.of(sessions) or {}
  d = from.dataset or d
  if not d or d.n_users == 0 then return nil end
  local files = origin.of(d).files
  return {files = type(files) == "string" and {files} or files, format = d.format,
          users = d.n_users, items = d.n_items, interactions = d.nnz,
          crc32 = not d.shared and ("%08x"):format(native.dataset_crc(d)) or nil,
          split = describe(from.split)}
end

-- The JSON; catalogue: the dataset of the policy's items, or nil. Of a policy that is as it was
-- loaded, what the file said.
function provenance.text(pi, catalogue)
  local k, stamp = about(pi), stamp_of(pi)
  local file, measured = k.file or {}, k.stamp == stamp and #k.metrics > 0
  if k.unchanged == stamp and not (k.training or measured) then return k.said end
  return json.encode{
    fopo = native.version, saved = os.date("!%Y-%m-%dT%H:%M:%SZ"),
    policy = pi:describe():match("[^\n]*"),
    data = facts_of_data(k.data or origin.sessions(pi:initial_items()), catalogue) or file.data,
    training = k.training or file.training, before = k.training and file.training or file.before,
    auto = k.auto or file.auto,
    metrics = measured and k.metrics or k.unchanged == stamp and file.metrics or nil,
  }
end

-- Takes what the file at path says of pi, which was made of it.
function provenance.loaded(pi, said, path)
  if not said then return end
  local facts, why = json.decode(said)
  if type(facts) ~= "table" then
    define.fail("%s: its provenance is no JSON object: %s", path, why or "it is a " .. type(facts))
  end
  local k = about(pi)
  k.file, k.said, k.unchanged = facts, said, stamp_of(pi)
end

-- ---- in words; a file may say anything ----

local function number(v) return type(v) == "number" and ("%.4f"):format(v) or "?" end

local function count(v) return math.type(v) == "integer" and text.count(v) or "?" end

local function interval(v)
  if type(v) ~= "table" then return "?" end
  return ("%s (%s - %s)"):format(number(v[1]), number(v[2]), number(v[3]))
end

local function of_data(d)
  local files = type(d.files) == "table" and #d.files > 0 and d.files or {d.format}
  return ("data: %s%s, %s users, %s items, %s interactions%s"):format(tostring(files[1]),
    #files > 1 and (" and %d more"):format(#files - 1) or "", count(d.users), count(d.items),
    count(d.interactions), d.crc32 and ", crc32 " .. tostring(d.crc32) or "")
end

local function of_training(t)
  return ("trained: %s steps of %s contexts, seed %s; %s; %s; %s"):format(count(t.steps),
    count(t.batch), tostring(t.seed), tostring(t.gradient), tostring(t.optim), tostring(t.reward))
end

local function of_auto(a)
  return ("fopo.policy.auto: %s, reward %s, of %s users"):format(tostring(a.chosen),
    interval(a.reward), count(a.users))
end

local function of_metrics(m)
  local names, parts = {}, {}
  for name in pairs(m) do
    if name:find("^%l+@%d+$") and type(m[name]) == "table" then names[#names + 1] = name end
  end
  table.sort(names, function(a, b)
    local k, l = tonumber(a:match("%d+")), tonumber(b:match("%d+"))
    return k < l or k == l and a < b
  end)
  for i, name in ipairs(names) do parts[i] = (", %s %s"):format(name, interval(m[name])) end
  return ("%s, %s contexts, X %s: reward %s, expected %s%s"):format(tostring(m.on),
    count(m.contexts), m.exclude == "seen" and "left out" or "kept in", interval(m.reward),
    interval(m.expected), table.concat(parts))
end

-- Lines about a policy that was loaded; none about one that was made here.
function provenance.lines(pi)
  local f, lines = known[pi] and known[pi].file, {}
  if not f then return lines end
  local function say(of, facts)
    if type(facts) ~= "table" then return end
    lines[#lines + 1] = text.page(text.line(of(facts), 2000), "  ")
  end
  say(function() return ("saved %s by fopo %s"):format(tostring(f.saved), tostring(f.fopo)) end, f)
  say(of_data, f.data)
  if type(f.data) == "table" and f.data.split then
    say(function(d) return tostring(d.split) end, f.data)
  end
  say(of_training, f.training)
  say(of_auto, f.auto)
  for _, m in ipairs(type(f.metrics) == "table" and f.metrics or {}) do say(of_metrics, m) end
  return lines
end

return provenance
