-- What to do about common mistakes: a value of another kind than the one that is needed, a field
-- that an object does not have, a field that cannot be set. The checks in define.lua and in
-- src/bind/bind_object.c ask for the end of their sentences here.
local define = require "fopo.base.define"
local native = require "fopo.native"
local rows = require "fopo.base.rows"

local remedy = {}

-- By the kind that is needed and the kind that was given.
local instead = {
  sessions = {
    split = "give one part of it: s.train, s.valid or s.test",
    dataset = "make sessions of it: s = d:sessions{}, then s.train, s.valid or s.test",
    string = "read the file and divide it: s = fopo.data.read(path):sessions{}, then s.train",
    trainer = "t.data are its sessions",
  },
  logs = {
    string = "fopo.data.logs(path) reads one",
    table = "fopo.data.logs(path) reads one from a file",
  },
  dataset = {
    split = "s.dataset is what it was made of",
    string = "fopo.data.read(path) reads one",
    sessions = "give the dataset that they were made of: s.dataset",
  },
  split = {
    dataset = "d:sessions{} makes one",
    sessions = "give the whole split: s, not s.train",
  },
  policy = {
    trainer = "t.policy is its policy",
    array = "fopo.policy.linear{items = items} makes one over these items",
    string = "fopo.policy.load(path) reads one",
    job = "job.trainer.policy is its policy",
  },
  gradient = {
    proposal = "a proposal goes inside: fopo.gradient.snis{proposal = q}",
    index = "an index goes inside: fopo.gradient.head_tail{index = ix}",
    optim = "give it as the option optim",
    trainer = "t.gradient is its estimator",
    integer = "numbers go inside: fopo.gradient.snis{samples = 1000}, fopo.gradient.slate{k = 5}",
    array = "fopo.gradient.snis{...} makes an estimator; its gradients are g:compute's",
  },
  proposal = {
    index = "an index goes inside: fopo.proposal.mixture{index = ix}",
    gradient = "g.proposal is its proposal",
  },
  index = {
    array = "fopo.index.norm(items) builds one over items",
    policy = "fopo.index.norm(pi:items()) builds one over its items",
    proposal = "q.index is its index",
    gradient = "g.proposal.index is its index",
    string = "fopo.index.load(path, items) reads one",
    boolean = "fopo.index.norm(items) builds one",
  },
  reward = {
    sessions = "fopo.reward.hits(s.train) is the reward of finding what was taken",
    split = "fopo.reward.hits(s.train) is the reward of finding what was taken",
    logs = "fopo.reward.ips{logs = lg} is the reward of a log",
    ["function"] = "fopo.reward.custom(f) makes a reward of a function",
    array = "fopo.reward.custom(f) makes a reward of a function of ids and rows",
  },
  optim = {
    number = "a learning rate goes inside: fopo.optim.adam{lr = 0.01}",
    schedule = "a schedule goes inside: fopo.optim.adam{schedule = fopo.schedule.cosine{...}}",
    trainer = "t.optim is its optimiser",
  },
  schedule = {
    number = "fopo.schedule.constant{} is the one of a fixed rate; lr is an option beside it",
    optim = "o.schedule is its schedule",
  },
  trainer = {
    job = "job.trainer is its trainer",
    policy = "fopo.trainer{policy = pi, data = s.train} makes one that trains it",
  },
  array = {
    sessions = "s.train:contexts(items) are contexts, fopo.embed.svd(s.train, {dim = 64}) "
               .. "embeddings",
    split = "fopo.embed.svd(s.train, {dim = 64}) makes embeddings",
    dataset = "fopo.embed.svd(d:sessions{}.train, {dim = 64}) makes embeddings",
    table = "fopo.array.from{{...}, {...}} makes one",
    policy = "pi:items() are its items, pi:theta() its parameters",
    string = "fopo.array.load(path) reads one",
    logs = "lg:contexts() are its contexts, lg:items() its items",
  },
}

-- A function that makes what is needed, or its name as a string: "call it: fopo.gradient.exact{}".
local function called(one, value)
  local entry = define.of[value]
  if type(value) == "string" then entry = define.entries[("fopo.%s.%s"):format(one, value)] end
  if not entry or not (entry.returns or ""):find("^" .. one) then return nil end
  return ("%s %s%s"):format(type(value) == "string" and "write" or "call it:", entry.name,
                            #entry.args > 0 and "(...)" or "{...}")
end

-- What to do where one of the kinds `want`, joined by "|", is needed and `value` was given; nil if
-- it is not known.
function remedy.kind(want, value)
  local kind = define.kind(value)
  for one in want:gmatch("[^|]+") do
    local of = instead[one] or {}
    local found = called(one, value) or of[kind] or kind == "integer" and of.number
    if found then return found end
    if (one == "integer" or one == "number") and type(value) == "string" and tonumber(value) then
      return ("write it without quotes: %s"):format(value)
    end
  end
end

-- ---- fields ----

local rows_and_cols = "it has rows and cols, as a.rows"
local missing = {
  array = {shape = rows_and_cols, size = rows_and_cols, dim = rows_and_cols, dims = rows_and_cols,
           n = rows_and_cols, length = rows_and_cols, ndim = "it always has two dimensions",
           dtype = "a.kind is float32 or ids",
           T = "a:transpose() is it, and a:matmul(b, true) a product with it",
           dot = "a:matmul(b) is the product", data = "a:totable() are its numbers",
           values = "a:totable() are its numbers"},
  dataset = {train = "d:sessions{} divides it into s.train, s.valid and s.test",
             shape = "it has n_users and n_items", users = "d.n_users is how many there are",
             items = "d.n_items is how many there are"},
  sessions = {train = "this is one part of a split", X = "s:x(i) are the items of context i",
              Y = "s:y(i) are the items of context i"},
  policy = {run = "fopo.trainer{policy = pi, data = s.train}:run{epochs = 1} trains it",
            train = "fopo.trainer{policy = pi, data = s.train}:run{epochs = 1} trains it",
            fit = "fopo.trainer{policy = pi, data = s.train}:run{epochs = 1} trains it",
            evaluate = "fopo.evaluate(pi, s.test) does that",
            predict = "pi:recommend(user, n) and pi:best(x, {k = n}) do that"},
  index = {items = "ix:about() says what it was built on", k = "k is an argument: ix:search(Q, k)"},
  gradient = {step = "g:compute(pi, x, rows, reward) is the gradient, and o:step(pi, G) a step"},
}

local settable = table.concat(rows.of_gradients(), ", "):gsub(", (%w+)$", " and %1")

-- What to do instead of setting a field of an object of C.
local fixed = {
  array = "a:set(i, j, value) changes an element; fopo.array makes arrays of other shapes",
  dataset = "it says what was read; fopo.data.read(path, {...}) reads anew",
  world = "fopo.data.synthetic{...} makes another one",
  sessions = "they are part of a split; d:sessions{...} makes another one",
  index = "only ef of a graph and budget of a norm index can be; build another index for the rest",
  policy = "fopo.policy.linear{items = pi:items(), ...} makes another one; pi:set_theta(array) "
           .. "changes what is learnt",
  proposal = "make another one; a gradient has a copy, which g:set{epsilon = 0.5, k = 100} changes",
  gradient = ("only %s can be; make another estimator for the rest"):format(settable),
  reward = "only translate of a log's reward can be; make another reward for the rest",
  schedule = "make another one, and o.schedule = fopo.schedule.cosine{...} uses it",
  optim = "it follows from the updates, or from how the optimiser was made; lr, items_lr, "
          .. "weight_decay, clip and schedule can be set",
  logs = "it says what was read; fopo.data.logs(path, {...}) reads anew",
  log_world = "fopo.data.synthetic_logs{...} makes another one",
  baseline = "it was fitted to its data; fopo.baseline makes another one",
}

-- Raises that an object of this kind has no field `key`, with what to do instead.
local function no_field(kind, key)
  local instead_of_it = missing[kind] and missing[kind][key]
  if instead_of_it then define.fail("%s has no field '%s'; %s", kind, key, instead_of_it) end
  local fields, methods = define.names_in(native.fields[kind]), define.names_in(native.types[kind])
  local names = table.move(methods, 1, #methods, #fields + 1, table.move(fields, 1, #fields, 1, {}))
  define.no_field(kind, key, names, fields)
end

-- For native.remedies.
local function of_object(what, kind, value, name)
  if what == "read" then no_field(kind, value) end
  if what == "set" then
    local methods = native.types[kind]
    if methods and methods[value] then return "it is a method" end
    return fixed[kind]
  end
  local method = name and native.types[kind] and native.types[kind][name]
  if method and name ~= "close" then
    return ("write %s:%s(...), with a colon"):format(remedy.letter[kind] or kind, name)
  end
  return remedy.kind(kind, value)
end

-- How examples call an object of a kind.
remedy.letter = {array = "a", dataset = "d", sessions = "s.train", index = "ix", policy = "pi",
                 proposal = "q", gradient = "g", reward = "rw", optim = "o", logs = "lg",
                 trainer = "t", world = "world", log_world = "world"}

native.remedies(of_object)
define.remedy = remedy.kind

return remedy
