-- fopo.policy: the softmax policy over the catalogue. Each kind is a row of C (src/policy/), from
-- which its function, its own options and its help are made here.
local native = require "fopo.native"
local array = require "fopo.array"
local define = require "fopo.base.define"
local cache = require "fopo.base.cache"
local origin = require "fopo.base.origin"
local provenance = require "fopo.base.provenance"
local table_rows = require "fopo.base.rows"
local file = require "fopo.serve.file"
local own = require "fopo.serve.own"
local text = require "fopo.base.text"
local values = require "fopo.base.values"
local neighbours = require "fopo.neighbours"
local seen_items = require "fopo.base.seen"
local policy, methods = {}, native.types.policy
local training_of = setmetatable({}, {__mode = "k"}) -- policy -> {data, the sessions to train on}

-- Options that all kinds share.
local items = {"items", "array|logs", nil, "beta [P, L]; or a log: those of its actions, or, "
               .. "where they have no features, the identity, a vector of its own for each",
               required = true}
local context_dim = {"context_dim", "integer", nil, "D, features of a context; the columns of "
                     .. "items, or the log's dim, if left out", min = 1}
local contexts = {"contexts", "string", nil, "how contexts are made of sessions: as their mean "
                  .. "embedding, that at unit length, or a weighted one (s:contexts); the default "
                  .. "is unit where the sessions are known, else mean",
                  one_of = (table_rows.names(native.encoders()))}
local item_weights = {"item_weights", "array", nil, "[1, P], of weighted contexts: what each item "
                      .. "weighs; those of the sessions if left out (s:item_weights)"}
local temperature = {"temperature", "number|string", nil, "divides every score; auto, the default "
                     .. "where the sessions are known: see below; else 1", above = 0,
                     one_of = {"auto"}}
local effective = {"effective", "number", 0.01, "auto: the number of items that theta = identity "
                   .. "chooses from in effect, as a share of P", above = 0, below = 1}
local data = {"data", "sessions", nil, "the sessions that defaults are chosen for; if left out, "
              .. "those that the items were embedded from; where that is not known, as of "
              .. "fopo.array.load, the data of the policy's first trainer"}
local seen = {"seen", "string", nil, "the items of X: mask, they have no probability, the default "
              .. "where the sessions are known; keep, they are like all others: see below",
              one_of = {"keep", "mask"}}
local train_items = {"train_items", "boolean", false, "learn the items too, on a copy of them"}
local learn = {"learn", "table", nil, "names of the blocks that are learnt, as {\"theta\"} or "
               .. "{\"W2\", \"b2\", \"items\"}; the others are fixed. All of theta if left out; "
               .. "train_items adds items"}
local rows = {"rows", "string", "float32", "precision of the items that training steps read",
              one_of = {"float32", "float16", "bfloat16"}}

-- So many contexts, evenly spread, choose a temperature: their median moves little with more.
local CONTEXTS = 16
local LEAST = 1.5 -- items in effect, of a small catalogue

-- A policy made by `make`, with the defaults that follow from the sessions, or nil.
local function with_sessions(name, make, o, sessions)
  local is_square = (o.context_dim or o.items.cols) == o.items.cols
  local known = sessions ~= nil and is_square
  o.contexts = o.contexts or known and "unit" or "mean"
  o.theta = o.theta or known and "identity" or "random"
  o.temperature = o.temperature or known and "auto" or 1.0
  o.seen = o.seen or seen_items.default_of(known and sessions)
  o.item_weights = o.item_weights or cache.weights_for(name, o.items, o.contexts, o.data)
  if o.temperature == "auto" then
    if not known then
      define.fail("%s: temperature = \"auto\" is chosen for contexts made of sessions, %s", name,
                  is_square and "which are not known of these items; give data = s.train, or a "
                  .. "number" or "which have the items' columns; give a number")
    end
    local in_effect = math.max(LEAST, o.effective * o.items.rows)
    -- at which theta = identity chooses from so many of the items in effect
    if o.seen ~= "keep" then
      local some = sessions:gather(CONTEXTS)
      o.temperature = native.policy_temperature(
        native.contexts(some, o.items, o.contexts, o.item_weights), o.items, in_effect, some)
    else
      local x = cache.contexts(sessions, o.items, o.contexts, o.item_weights, CONTEXTS)
      o.temperature = cache.number(x, in_effect, native.policy_temperature, o.items, in_effect)
    end
  end
  return make(o)
end

-- What sessions would decide of a policy made with these options: {{option, its words}, ...}.
local function left_out(o, has_theta)
  local left = {}
  for _, one in ipairs{{"temperature", "temperature %.3g"}, {"theta", "theta = %s"},
                       {"contexts", "%s contexts"}, {"seen", "seen = %s"}} do
    if o[one[1]] == nil and (one[1] ~= "theta" or has_theta) then left[#left + 1] = one end
  end
  return left
end

-- The policy of a kind whose function is `make`. If its items do not say of which sessions they
-- were made, a trainer, which has sessions, gives it what they decide (origin.of(pi).complete).
local function with_defaults(name, make, has_theta)
  return function(o)
    if define.kind(o.items) == "logs" then
      local lg = o.items
      o.items = lg:items() or array.eye(lg.n_actions)
      o.context_dim = o.context_dim or lg.dim
    end
    local sessions, left = o.data or origin.sessions(o.items), left_out(o, has_theta)
    local is_square = (o.context_dim or o.items.cols) == o.items.cols
    if sessions or not is_square or #left == 0 then
      return with_sessions(name, make, o, sessions)
    end
    local given = {}
    for option, value in pairs(o) do given[option] = value end
    local pi = with_sessions(name, make, o, nil)
    origin.set(pi, {unknown = #left >= (has_theta and 4 or 3), complete = function(known)
      given.data = known
      if not native.policy_begin(pi, with_sessions(name, make, given, known)) then return nil end
      local parts = {}
      given.seen = pi.seen
      for i, one in ipairs(left) do parts[i] = one[2]:format(given[one[1]]) end
      return "the items do not say of which sessions they were made, so the policy began as one "
             .. "that is made with the trainer's data: " .. table.concat(parts, ", ")
    end})
    return pi
  end
end

-- The options of a kind: the items, its own, then the shared ones.
local function options_of(row)
  local options = {items}
  for _, spec in ipairs(table_rows.specs(row.options)) do options[#options + 1] = spec end
  for _, spec in ipairs{context_dim, contexts, item_weights, temperature, effective, data, seen,
                       train_items, learn, rows} do
    options[#options + 1] = spec
  end
  if row.seed then options[#options + 1] = {"seed", "integer", 1, row.seed} end
  return options
end

local function has_theta(row)
  for _, option in ipairs(row.options) do
    if option.name == "theta" then return true end
  end
  return false
end

-- As the authors start.
local function paper_of(row)
  return {contexts = "mean", temperature = 1.0, seen = "keep",
          theta = has_theta(row) and "random" or nil}
end

-- ---- kinds that score lists ----

-- The options of such a kind: the sessions, the start, its own, and a few of the shared ones.
local function options_of_lists(row)
  local options = {
    {"data", "sessions", nil, "to learn the weights from: s.train", required = true},
    {"start", "string|function|baseline", nil, "what the weights are; slim if left out, or cosine "
     .. "for more than 100,000 items: those of fopo.baseline.slim, whose l2 is chosen with c0, or "
     .. "of ease (of up to 10,000 items all, with signs; of more the 100 largest of each), "
     .. "or the cosine or jaccard similarities of item_knn; a function that makes a baseline of "
     .. "sessions; or a baseline, which is not "
     .. "cross-fitted", one_of = neighbours.names},
    {"n", "integer", 0, "weights that an item keeps, the largest; 0: all that the start has",
     min = 0},
    {"held", "integer", 2000, "contexts that are trained on at least, in tenths of data: for each "
     .. "tenth the start is learnt once more, without its users; similarities and all weights of "
     .. "ease need that not, and all contexts are trained on; 0: all, the start knows them, and "
     .. "nothing of it is chosen by them", min = 0},
    {"items", "array|function", nil, "beta [P, L] of the dense part; or a function that makes them "
     .. "of sessions, as fopo.embed.svd: training contexts are then scored by items that were made "
     .. "without their users, in tenths of data, at the cost of up to ten more of them"},
    {"dense", "policy", nil, "a policy of dense scores, as linear or mlp, whose scores are the "
     .. "dense part, in the place of items: as it is, trained or not, or learnt with the scalars "
     .. "where learn names its parameters"},
    {"value", "array|table|reward", nil, "what each of the P items is worth, as of "
     .. "fopo.reward.hits, or such a reward: scores are multiplied by a power of it, c2, which is "
     .. "learnt"},
  }
  options[#options + 1] = {"from", "string", nil, "a file that pi:save wrote, of a policy made "
    .. "with the same options: training goes on from its parameters and its learnt weights"}
  for _, spec in ipairs(table_rows.specs(row.options)) do
    if spec[1] ~= "dense_kind" then options[#options + 1] = spec end -- dense says it
  end
  for _, spec in ipairs{contexts, item_weights, learn} do options[#options + 1] = spec end
  options[#options + 1] = {"seed", "integer", 1, row.seed}
  return options
end

local TAU = 500 -- where nobody is held out

-- given also makes a policy of the kind and with the options of `dense` as its dense part.
local function add_options_of(dense, given)
  given.dense_kind = dense.kind
  for _, row in ipairs(native.policies()) do
    for _, option in ipairs(row.name == dense.kind and row.options or {}) do
      if option.saved then given[option.name] = dense[option.name] end
    end
  end
end

-- A policy of weights that have been learnt, whose scalars are learnt on the sessions `training`.
local function of_weights(name, make, o, weights, training, chosen, saved)
  local embed = type(o.items) == "function" and o.items
  local given = {neighbours = weights, seed = o.seed, temperature = 1, train_items = false,
                 learn = o.learn, tau = tonumber(o.tau) or chosen.tau or TAU,
                 dense_start = o.dense_start, value_start = o.value_start, scored = o.scored}
  given.items = embed and embed(o.data) or o.items or neighbours.no_items(o.data)
  if define.kind(given.items) ~= "array" then
    define.fail("%s: items returned %s; it is a function that makes an array [P, L] of sessions",
                name, define.kind(given.items))
  end
  given.contexts = o.contexts or o.items and "unit" or "mean"
  given.item_weights = o.item_weights
                       or cache.weights_for(name, given.items, given.contexts, o.data)
  if embed and o.held > 0 and define.kind(o.start) ~= "baseline" then
    neighbours.hold_items(weights, o, training, embed, given.items.cols, given.contexts,
                          given.item_weights)
  end
  if o.dense then add_options_of(o.dense, given) end
  local pi = make(given)
  if o.dense then
    local parameters = pi:parameters()
    for part, value in pairs(o.dense:parameters()) do parameters[part] = value end
    pi:set_parameters(parameters)
  end
  if saved then
    file.resume(pi, saved, o.from, given.items)
    native.neighbours_resume(pi, weights, saved.neighbours)
  elseif chosen.c0 then
    local parameters = pi:parameters()
    parameters.c0:set(1, 1, chosen.c0)
    pi:set_parameters(parameters)
  end
  training_of[pi] = {data = o.data, training = training, weights = weights}
  return pi
end

-- The options of a policy with another one as its dense part.
local function take_dense(name, o)
  local dense = o.dense
  if o.items or o.contexts or o.item_weights then
    define.fail("%s: dense has items and contexts of its own; leave out items, contexts and "
                .. "item_weights", name)
  end
  if dense.scores_lists or dense.train_items or not dense.in_double then
    define.fail("%s: dense is a policy of kind %s%s; use linear or mlp over items that are fixed",
                name, dense.kind, dense.train_items and " that learns its items" or "")
  end
  o.items, o.contexts, o.item_weights = dense:items(), dense.contexts, dense:item_weights()
  if o.dense_start == 0 then o.dense_start = 1 / dense.temperature end
  o.learn = o.learn or {"c0", "c1", "log_tau", "dense", o.value and "c2"}
end

local function with_weights(name, make)
  return function(o)
    if o.data.shared then
      define.fail("%s: weights between items count the users that two of them share, and of "
                  .. "sessions that are shared out no rank has all; s:gather(1000) puts 1,000 of "
                  .. "them on every rank, which it takes", name)
    end
    if o.dense then take_dense(name, o) end
    if o.items and o.dense_start == 0 then o.dense_start = 1 end
    if not o.items and o.dense_start ~= 0 then
      define.fail("%s: dense_start is %g but there are no items; give items = fopo.embed.svd(data)",
                  name, o.dense_start)
    end
    o.value = values.of(name, o.value)
    if define.kind(o.value) == "reward" and not o.value.valued then o.value = nil end
    if o.value and o.value_start == 0 then o.value_start = 1 end
    if not o.value and o.value_start ~= 0 then
      define.fail("%s: value_start is %g but there is no value; give what each item is worth",
                  name, o.value_start)
    end
    o.start = o.start or neighbours.standard(o.data)
    o.reward = define.kind(o.value) == "reward" and o.value or native.reward_hits(o.data, o.value)
    local saved = o.from and file.saved(o.from, "neighbours") or nil
    if saved then o.learn = o.learn or saved.learn end
    local weights, training, chosen = neighbours.learn(o)
    return of_weights(name, make, o, weights, training, chosen, saved)
  end
end

for _, row in ipairs(native.policies()) do
  local name = "fopo.policy." .. row.name
  local make = row.name == "custom" and own or native["policy_" .. row.name]
  policy[row.name] = define.fn{
    name = name, returns = "policy",
    options = row.scores_lists and options_of_lists(row) or options_of(row),
    presets = not row.scores_lists and {paper = paper_of(row)} or nil,
    text = row.text, example = row.example,
    call = row.scores_lists and with_weights(name, make)
           or with_defaults(name, make, has_theta(row)),
  }
  for _, option in ipairs(row.options) do
    if option.saved then native.fields.policy[option.name] = true end -- for help and completion
  end
end

-- For fopo.policy.auto: the policy pi of neighbours with a dense part, of the same weights.
local function with_dense(pi, embed, encoder, o)
  local known = training_of[pi]
  return of_weights("fopo.policy.auto", native.policy_neighbours,
                    {data = known.data, items = embed, contexts = encoder, held = o.held,
                     seed = o.seed, tau = 1, dense_start = 1, value_start = pi.value_start},
                    known.weights, known.training, {})
end

policy.auto = require "fopo.auto"(policy, with_dense)

local best = methods.best
methods.best = define.fn{
  name = "policy:best", returns = "array, array",
  args = {{"pi", "policy", nil, "the policy"},
          {"x", "array|sessions", nil, "[N, D] contexts, or sessions that they are made of"}},
  options = {
    {"index", "index", nil, "the index to search; exact search if left out"},
    {"k", "integer", 1, "how many items", min = 1},
  },
  text = "ids and scores [N, k] of the best items of each context, best first.",
  call = function(pi, x, o)
    local index = o.index or cache.exact_of(pi)
    if define.kind(x) ~= "sessions" then return best(pi, x, index, o.k) end
    local made = cache.contexts(x, pi)
    if pi.seen ~= "mask" then return best(pi, made, index, o.k) end
    return native.recommend(pi, made, index, o.k, {seen = x, may_be_short = true})
  end,
}

methods.training = define.fn{
  name = "policy:training", returns = "sessions",
  args = {{"pi", "policy", nil, "a policy that scores lists"}},
  text = [[The sessions that a trainer learns the policy's scalars on, whose users its weights do
not know; fopo.trainer takes them by itself where its data are those that the policy was made of.]],
  call = function(pi)
    return training_of[pi] and training_of[pi].training
  end,
}

methods.recommend = require "fopo.serve.recommend"
methods.explain = require "fopo.serve.explain"
methods.similar = require "fopo.serve.similar"
methods.refit = require "fopo.serve.refit"
methods.map = require "fopo.serve.map"
methods.recommend_file = require "fopo.serve.table"
methods.save, policy.load = file.save, file.load

-- " (learnt)" or " (read as float16)" if either holds of the items.
local function about_items(pi)
  if pi.train_items then return " (learnt)" end
  return pi.rows == "float32" and "" or (" (read as %s)"):format(pi.rows)
end

function methods.describe(pi)
  local start = ("policy %s: %s items%s"):format(pi.kind, text.count(pi.n_items), about_items(pi))
  local shape = pi.shape and ("%s, %s parameters"):format(pi.shape, text.count(pi.n_params))
                or ("theta [%d, %d]"):format(pi.context_dim, pi.dim)
  if #pi.fixed > 0 then shape = ("%s, %s fixed"):format(shape, table.concat(pi.fixed, ", ")) end
  local first = ("%s, %s, temperature %.4g, %s contexts%s"):format(start, shape, pi.temperature,
    pi.contexts, pi.seen == "mask" and ", seen items masked" or "")
  return table.concat({first, table.unpack(provenance.lines(pi))}, "\n")
end

define.doc{name = "policy:queries", signature = "pi:queries(x)", returns = "array",
  text = "Q [N, L] = x theta / temperature, so that the score of item a is Q_n . beta_a."}
define.doc{name = "policy:theta", signature = "pi:theta()", returns = "array",
  text = "A copy of theta [D, L]; of a network all parameters [1, n_params]."}
define.doc{name = "policy:set_theta", signature = "pi:set_theta(array)",
  text = "Replaces theta by a copy of the array [D, L]."}
define.doc{name = "policy:parameters", signature = "pi:parameters()", returns = "table",
  text = "Copies of the parameters by name: theta, or W1, b1, W2, b2, .. of a network."}
define.doc{name = "policy:set_parameters", signature = "pi:set_parameters(t)",
  text = "Replaces the parameters by copies of the arrays in t, which must have all their names."}
define.doc{name = "policy:items", signature = "pi:items()", returns = "array",
  text = [[The item embeddings [P, L] that the policy was made with. With train_items they are the
policy's own copy as it is learnt, always the same array: ix:update() brings an index built on it up
to date. pi.version grows with every change.]]}
define.doc{name = "policy:initial_items", signature = "pi:initial_items()", returns = "array",
  text = "The item embeddings that the policy was made with: contexts are made of them."}
define.doc{name = "policy:item_weights", signature = "pi:item_weights()", returns = "array",
  text = [[
What each item weighs in a context, [1, P]; nil if pi.contexts weighs none (s:contexts).]]}
define.doc{name = "policy:set_items", signature = "pi:set_items(array)",
  text = "Replaces items that are learnt by a copy of the array [P, L]."}

return policy
