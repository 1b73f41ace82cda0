-- fopo.data: interactions, sessions, synthetic worlds.
local native = require "fopo.native"
local define = require "fopo.base.define"
local moment = require "fopo.base.moment"
local reading = require "fopo.base.reading"
local text = require "fopo.base.text"
local fn, doc = define.fn, define.doc
local data = {}
local dataset, sessions, world = native.types.dataset, native.types.sessions, native.types.world
local logs, log_world = native.types.logs, native.types.log_world

-- The names for one_of, and a line of help for each format, from native's {name, what, ...}.
local function formats(list)
  local names, lines = {"auto"}, {}
  for i = 1, #list, 2 do
    names[#names + 1] = list[i]
    lines[#lines + 1] = ("  %-10s %s"):format(list[i], list[i + 1])
  end
  return names, table.concat(lines, "\n")
end

local data_formats, data_lines = formats(native.data_formats())
local log_formats, log_lines = formats(native.logs_formats())

data.read = fn{
  name = "fopo.data.read", returns = "dataset",
  args = {{"files", "string|table", nil, "the file, or a list of files; .gz is read as it is"}},
  options = {
    {"format", "string", "auto", "what the file is", one_of = data_formats},
    {"user", "string|integer", nil, "column of the user: its name, or its number from 1"},
    {"item", "string|integer", nil, "column of the item"},
    {"value", "string|integer", nil, "column of the value; \"\": every interaction counts 1"},
    {"time", "string|integer|boolean", nil, "column of the time; \"\" or false: times are left "
     .. "out. If it is named, a malformed time is a malformed row"},
    {"where", "string", nil, "keep only rows that meet a condition: \"is_read=1\", \"rating>=4\""},
    {"separator", "string", nil, "between columns: \",\" \"\\t\" \"::\" ..."},
    {"header", "boolean", nil, "whether the first line names the columns; recognised if left out"},
    {"skip_errors", "boolean", false, "count malformed rows instead of stopping at the first"},
    {"max_errors", "integer", 1000, "stop all the same after so many of them", min = 0},
    {"shard", "boolean", false, "of a run of several ranks: each reads its part of the files and "
     .. "keeps the interactions of its range of the users"},
  },
  text = [[
Reads interactions: which user took which item. The format is recognised by the first lines of the
file, gzipped or not, or named by an option:

]] .. data_lines .. [[


Columns are found by their names, and so are the keys of JSON lines, where true counts as 1 and
false as 0; a used key that holds an object or a list is an error. Pairs that repeat are summed. Ids
of pairs become 1 .. n of those that occur, and the names are kept (d:item_name(j)); ids of lists,
baskets and matrices are indices as they stand.
A malformed row is an error with file, line, column and the text.

Times are numbers as they stand, or dates (2019-11-24 00:03:13+00:00,
2014-04-07T10:51:09.277Z, 2016-05-09) in seconds since 1970 UTC. They are kept if a column is known
to hold them: by its name in the header (timestamp, time, date, ...), without a header by what it
holds, and column 4 of twitch. A pair that repeats keeps its earliest and its latest time; d:row(i)
gives both. If a recognised column turns out to hold something else, d.no_times says where, and the
dataset has no times. d.first_time and d.last_time are those of all pairs.

A list of files is read as if they stood one after the other, each with a header of its own or none,
gzipped or not, in one format or several: users and items of the same name are the same, and so are
those of lists and matrices with the same index. Names of a side are integers if all files have only
integers there. Times are kept if every file has them. Where line i is user i (baskets, counted),
several files cannot be one.

shard = true is for several ranks (fopo.ranks), which make this call together: no rank holds all
interactions. The bytes of all files are shared out evenly; tables (pairs, JSON lines and what else
has columns) are cut anywhere between two rows, and what is gzipped, lists and matrices go whole to
one rank each. Each interaction is then sent to the rank that has its user. The dataset is as
fopo.data.read(files):share() makes it, bit by bit, for any number of ranks: names, counts and d:row
are those of all, each rank has the users of one range (d.here of them). docs/ranks.md says what it
takes. Alone, it is read as without shard.]],
  example = [[path = os.tmpname()
f = io.open(path, "w")
f:write("user,item,time\n7,apple,2016-05-09\n7,pear,2016-05-10\n9,apple,2016-05-08\n"); f:close()
d = fopo.data.read(path)
assert(d.n_users == 2 and d.n_items == 2 and d.nnz == 3)
items, values, times = d:row(1)
assert(times[2] - times[1] == 86400)
d = fopo.data.read({path, path}) -- as a list: here every pair twice
assert(d.nnz == 3 and d.repeats == 3)
d = fopo.data.read(path, {shard = true})
assert(d.n_users == 2 and d.shared == (fopo.ranks().size > 1))
os.remove(path)]],
  call = function(files, o)
    return native.data_read(reading.files("fopo.data.read", files), reading.options(o))
  end,
}

data.logs = fn{
  name = "fopo.data.logs", returns = "logs",
  args = {{"path", "string", nil, "the file; .gz is read as it is"}},
  options = {
    {"format", "string", "auto", "what the file is", one_of = log_formats},
    {"action", "string", nil, "csv: column of the action shown; action, item_id, ... if left out"},
    {"reward", "string", nil, "csv: column of the reward; reward, click, ..."},
    {"propensity", "string", nil, "csv: column of its probability; propensity, pscore, ..."},
    {"features", "string", nil, "csv: columns of the context or beginnings of their names, "
     .. "separated by commas; all others if left out"},
    {"categories", "string", nil, "csv: columns of the context whose cells are texts even if they "
     .. "look like numbers (a postcode), named as in features"},
    {"n_actions", "integer", nil, "csv, vw: actions are the integers 1 .. n_actions; those that "
     .. "occur if left out", min = 1},
    {"items", "string", nil, "obd: path of item_context.csv, for lg:items()"},
    {"position", "integer", 0, "obd: keep this position only, an action is an item; 0: an action "
     .. "is (item, position)", min = 0, max = 3},
    {"hash_bits", "integer", 8, "vw, dsjson: features are hashed into 2^hash_bits columns",
     min = 1, max = 20},
    {"skip_errors", "boolean", false, "count malformed rows instead of stopping at the first"},
    {"max_errors", "integer", 1000, "stop after so many of them nevertheless", min = 0},
    {"like", "logs", nil, "a log read before: its columns, actions and items are used, by name"},
  },
  text = [[Reads a bandit log: contexts, the action shown in each, its probability under the policy
that showed it (its propensity), and the reward. The format is recognised by the first lines of the
file, gzipped or not, or named by an option:

]] .. log_lines .. [[


A column of texts becomes one-hot, in alphabetical order; print(lg) says which columns are. A column
with more numbers than texts is one of numbers, and any other cell in it, an empty one too, is an
error. reward = -cost for vw and dsjson.
A propensity of 0, above 1 or NaN is an error with file and row, as is any malformed row.
obd with position = 0: a view shows three items and is three events, so the propensity of a pair
(item, position) is that of the item at its position divided by 3; lg:action_name(j) says which.
ADF and dsjson know an action by its features; all events must offer the same ones, because a policy
here chooses from one fixed catalogue. Their features are hashed (with a sign, so that inner
products hold in the mean), and the last column of the contexts is 1.
A file by itself has one column for each text that occurs in it: with like = train, the log to
evaluate on gets the columns of the one to learn from. A text or an action that train lacks is an
error.]],
  example = [[path = os.tmpname()
f = io.open(path, "w")
f:write("age,country,action,reward,propensity\n31,fr,7,1,0.5\n25,be,9,0,0.25\n")
f:close()
lg = fopo.data.logs(path)
assert(lg.n == 2 and lg.n_actions == 2 and lg.dim == 3 and lg.mean_reward == 0.5)
os.remove(path)]],
  call = native.logs_read,
}

data.synthetic_logs = fn{
  name = "fopo.data.synthetic_logs", returns = "logs, log_world",
  options = {
    {"n", "integer", 10000, "number of events", min = 1},
    {"actions", "integer", 1000, "size P of the catalogue", min = 2},
    {"dim", "integer", 16, "columns D of contexts and items", min = 1},
    {"k", "integer", nil, "K of the logging policy; 100, or P if that is less", min = 1},
    {"epsilon", "number", 0.2, "share of uniform decisions in the log", above = 0, max = 1},
    {"skill", "number", 0.5, "how well the logging policy ranks: 1 as the rewards do, 0 not at all",
     min = -1, max = 1},
    {"sharpness", "number", 1.0, "factor of the logging policy's scores"},
    {"bias", "number", -3.0, "log-odds of a reward at x . beta = 0"},
    {"slope", "number", 1.0, "how much x . beta adds to it"},
    {"spread", "number", 0.3, "of the logarithm of the items' norms", min = 0, max = 4},
    {"seed", "integer", 1, "the world is a function of the options and the seed"},
  },
  text = [[A log from a made-up world in which the true value of any policy is computable:
x ~ N(0, I / D), beta_a = s_a h_a with h_a ~ N(0, I) and log s_a ~ N(0, spread^2),
P(r = 1 | a, x) = sigmoid(bias + slope x . beta_a). The logging policy is the paper's cheap mixture,
mu = epsilon / P + (1 - epsilon) kappa on the K best of sharpness y . beta, where y is x turned away
from the truth as far as skill says; its propensities are known exactly at any P.
lg:items() are the beta, world:value(pi) the truth. Items and contexts take 4 D (P + n) bytes.]],
  example = [[lg, world = fopo.data.synthetic_logs{n = 500, actions = 200, dim = 8, seed = 2}
pi = fopo.policy.linear{items = lg:items()}
assert(world:value(pi) <= world:best())]],
  call = function(o)
    o.k = o.k or math.min(100, o.actions)
    return native.logs_synthetic(o)
  end,
}

log_world.value = fn{
  name = "log_world:value", returns = "number",
  args = {{"world", "log_world", nil, "the world"}, {"pi", "policy", nil, "over its actions"}},
  options = {
    {"contexts", "array", nil, "[m, D]; those of the log if left out"},
    {"how", "string", "softmax", "softmax: E_pi of the true reward; argmax: that of the best item",
     one_of = {"softmax", "argmax"}},
  },
  text = [[
The true value of a policy: the mean over the contexts of sum_a pi(a | x) rho(a, x) over all P
actions, or of rho at the policy's best action, with rho the true probability of a reward. Exact up
to rounding. P D multiply-adds a context, in blocks: memory does not grow with P.]],
  example = [[lg, world = fopo.data.synthetic_logs{n = 100, actions = 50, dim = 4}
pi = fopo.policy.linear{items = lg:items()}
assert(world:value(pi, {how = "argmax"}) > world:value(pi))]],
  call = function(w, pi, o) return w:true_value(pi, o.contexts, o.how == "argmax") end,
}

logs.split = fn{
  name = "logs:split", returns = "logs, logs",
  args = {{"lg", "logs", nil, "the log"}},
  options = {
    {"train", "number", 0.5, "share of the events in the first part", above = 0, below = 1},
    {"seed", "integer", 1, "of the choice"},
  },
  text = [[
Splits the events at random into two logs, one to learn from and one to evaluate on; each keeps the
order of its events.]],
  example = [[lg = fopo.data.synthetic_logs{n = 100, actions = 10, dim = 4}
train, test = lg:split{train = 0.8, seed = 1}
assert(train.n == 80 and test.n == 20)]],
  call = function(lg, o) return native.logs_split(lg, math.floor(o.train * lg.n + 0.5), o.seed) end,
}

logs.batch = fn{
  name = "logs:batch", returns = "array",
  args = {{"lg", "logs", nil, "the log"}},
  options = {
    {"size", "integer", 32, "events a step", min = 1},
    {"seed", "integer", 1, "of the order"},
    {"step", "integer", nil, "which step, from 0", min = 0, required = true},
  },
  text = "The events that step `step` of a trainer with this batch and seed takes, as ids [1, B].",
  example = [[lg = fopo.data.synthetic_logs{n = 100, actions = 10, dim = 4}
assert(lg:batch{size = 8, seed = 1, step = 0}.cols == 8)]],
  call = function(lg, o) return native.trainer_batch(lg.n, o.size, o.seed, o.step) end,
}

local CLUSTERS = 300 -- of taste, if nothing is said

data.synthetic = fn{
  name = "fopo.data.synthetic", returns = "dataset, world",
  options = {
    {"like", "string", nil, "a set of the paper: the defaults below become those of its twin",
     one_of = native.data_twins()},
    {"fraction", "number", 1.0, "with like: the share of its users and items", above = 0, max = 1},
    {"users", "integer", 20000, "number of users", min = 1},
    {"items", "integer", 100000, "size P of the catalogue", min = 2},
    {"clusters", "integer", CLUSTERS, "clusters of taste; if left out, at most a tenth of "
     .. "the items where those are fewer than 300", min = 1},
    {"mean_items", "number", 40, "mean interactions of a user (log-normal), repeats included",
     min = 2},
    {"zipf", "number", 1.0, "exponent of popularity inside a cluster", above = 0},
    {"noise", "number", 0.05, "share of interactions that are uniform", min = 0, below = 1},
    {"tastes", "integer", 2, "clusters that a user likes", min = 1},
    {"appeal", "number", 0, "exponent of the clusters' own popularity; 0: all alike", min = 0,
     max = 10},
    {"spread", "number", 0.7, "standard deviation of the logarithm of a user's mean", above = 0,
     max = 3},
    {"least_items", "integer", 2, "different items of a user; those with fewer are replaced",
     min = 2},
    {"repeats", "boolean", true, "whether an interaction that repeats counts; false: every value "
     .. "is 1"},
    {"seed", "integer", 1, "the world is a function of the options and the seed"},
  },
  -- What is wrong with an option is said by its check, which follows.
  defaults = function(given)
    local known, options = pcall(native.data_twin, given.like, given.fraction or 1.0)
    if known then return options end
    local few = math.type(given.items) == "integer" and given.items < CLUSTERS
    return {clusters = few and math.max(1, given.items // 10) or nil}
  end,
  text = [[A made-up world whose best policy is known: users like a few clusters of items, items are
Zipf-popular inside their cluster, sessions have log-normal lengths, a few per cent is noise.
world:best(sessions) gives the reward of the policy that knows all of it: an upper bound.

like = "twitch" or "goodreads" makes a twin of a set of the paper as it is after the authors'
preparation: 500,000 users and 790,000 items, or 300,000 and 2,330,000; users with 20 items or more;
lengths of sessions, repeats and the shares of the most popular items as published. What nobody
published, such as the clusters, is assumed: docs/data.md says which is which. fraction = 0.01 makes
a small one, of sessions of the same lengths.]],
  example = [[d, world = fopo.data.synthetic{users = 200, items = 500, clusters = 10, seed = 3}
assert(d.n_users == 200 and d.n_items == 500)
assert(fopo.data.synthetic{users = 200, items = 100}.n_items == 100)
twin = fopo.data.synthetic{like = "twitch", fraction = 0.002}
assert(twin.n_users == 1000 and twin.n_items == 1580)]],
  call = function(o)
    if o.fraction ~= 1 and not o.like then
      define.fail("fopo.data.synthetic: fraction is the share of a twin; say which, as in like = "
                  .. "\"twitch\"")
    end
    o.ones = not o.repeats
    return native.data_synthetic(o)
  end,
}

data.sessions = require("fopo.split").files
require "fopo.share"

sessions.batch = fn{
  name = "sessions:batch", returns = "array",
  args = {{"s", "sessions", nil, "the sessions"}},
  options = {
    {"size", "integer", 32, "contexts a step", min = 1},
    {"seed", "integer", 1, "of the order"},
    {"step", "integer", nil, "which step, from 0", min = 0, required = true},
  },
  text = [[
The contexts that step `step` of a trainer with this batch and seed takes, as ids [1, B]: for a loop
of your own.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
assert(s.train:batch{size = 8, seed = 1, step = 0}.cols == 8)]],
  call = function(s, o) return native.trainer_batch(s.n, o.size, o.seed, o.step) end,
}

sessions.contexts = fn{
  name = "sessions:contexts", returns = "array",
  args = {{"s", "sessions", nil, "the sessions"}, {"items", "array", nil, "[P, L] embeddings"}},
  options = {
    {"scale", "string", "mean", "mean: of the embeddings of the items in X, the paper's x^emb; "
     .. "unit: divided by its length", one_of = {"mean", "unit"}},
  },
  text = [[[N, L], a context for each session. The mean of many items is short and that of a few
is long, so the softmax over means is sharp for short sessions and flat for long ones; with contexts
of unit length one temperature fits all. A policy says in pi.contexts which of them it learns
with.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items = fopo.embed.svd(s.train, {dim = 8})
x = s.test:contexts(items, {scale = "unit"})
assert(math.abs(x:rows_of{1}:norm() - 1) < 1e-6)]],
  call = sessions.contexts,
}

function dataset.describe(d)
  return ("dataset (%s): %s users x %s items, %s interactions%s%s%s%s"):format(d.format,
    text.count(d.n_users), text.count(d.n_items), text.count(d.nnz),
    d.shared and (", shared out: %s users here"):format(text.count(d.here)) or "",
    d.items_seen < d.n_items and (", %s items seen"):format(text.count(d.items_seen)) or "",
    d.has_times and (", times %s to %s"):format(moment.words(d.first_time, d),
                                                moment.words(d.last_time, d))
    or d.no_times and (", times left out (%s)"):format(d.no_times) or "",
    d.skipped > 0 and (", %s rows left out"):format(text.count(d.skipped)) or "")
end
function sessions.describe(s)
  return ("sessions: %s contexts over %s items%s"):format(text.count(s.n), text.count(s.n_items),
    s.shared and (", shared out: %s of them here"):format(text.count(s.here)) or "")
end

-- The columns of a log's contexts by kind: "; numbers: age, height; texts: country (3)". Texts are
-- one-hot, in columns named country=fr.
local function kinds_of_columns(lg)
  local numbers, texts, last = {}, {}, nil
  for i = 1, lg.dim do
    local name = lg:feature_name(i)
    if not name then return "" end
    local of_text = name:match("^(.-)=")
    if not of_text then
      numbers[#numbers + 1] = name
    elseif last == of_text then
      texts[#texts].n = texts[#texts].n + 1
    else
      texts[#texts + 1] = {name = of_text, n = 1}
    end
    last = of_text
  end
  for i, t in ipairs(texts) do texts[i] = ("%s (%d)"):format(t.name, t.n) end
  local function list(head, names)
    if #names == 0 then return "" end
    local rest = #names > 8 and (" and %d more"):format(#names - 8) or ""
    return head .. table.concat(names, ", ", 1, math.min(8, #names)) .. rest
  end
  return list("; numbers: ", numbers) .. list("; texts: ", texts)
end

function logs.describe(lg)
  local form = "logs (%s): %s events over %s actions, contexts of %d columns, mean reward %.4g%s%s"
  return form:format(lg.format, text.count(lg.n), text.count(lg.n_actions), lg.dim, lg.mean_reward,
    lg.skipped > 0 and (", %s events left out"):format(text.count(lg.skipped)) or "",
    kinds_of_columns(lg))
end
function log_world.describe(w)
  return ("world of %s actions, dim %d; world:value(pi) is the true value of a policy"):format(
    text.count(w.actions), w.dim)
end
function world.describe() return "synthetic world; world:best(sessions) is its upper bound" end

doc{name = "dataset:save", signature = "d:save(path)",
    text = [[
Writes an .npz that fopo.data.read and scipy.sparse.load_npz read; names and times included (the
members times and last_times, in the order of the entries).]]}
for _, side in ipairs{"item", "user"} do
  doc{name = "dataset:" .. side .. "_name", signature = ("d:%s_name(i)"):format(side),
      returns = "string", text = ("The id that %s i had in the file."):format(side)}
  doc{name = "dataset:find_" .. side, signature = ("d:find_%s(name)"):format(side),
      returns = "integer", text = ("The %s of that name, or nil."):format(side)}
end
doc{name = "dataset:row", signature = "d:row(i)", returns = "array, table, table, table",
    text = [[
The items of user i, their values (nil if all are 1), and where the dataset has times the first time
of each pair and, if some pair repeats, the last. Of a dataset that is shared out all ranks make
this call together.]]}
doc{name = "sessions:x", signature = "s:x(n)", returns = "array",
    text = "The observed items of context n, as ids."}
doc{name = "sessions:y", signature = "s:y(n)", returns = "array",
    text = "The items of context n that are to be found, as ids."}
doc{name = "sessions:user", signature = "s:user(n)", returns = "integer",
    text = "The user of the dataset that context n comes from."}
doc{name = "sessions:hits", signature = "s:hits(n, item)", returns = "boolean",
    text = "Whether the item stands in Y of context n."}
doc{name = "logs:contexts", signature = "lg:contexts()", returns = "array",
    text = "[n, D]: the features of each event; the same array every time."}
doc{name = "logs:items", signature = "lg:items()", returns = "array",
    text = "[P, L]: the features of the actions, or nil where the log has none."}
doc{name = "logs:actions", signature = "lg:actions()", returns = "array",
    text = "The actions shown, as ids [1, n]."}
doc{name = "logs:rewards", signature = "lg:rewards()", returns = "array",
    text = "What came of them: [1, n]."}
doc{name = "logs:propensities", signature = "lg:propensities()", returns = "array",
    text = "The probabilities with which they were shown: [1, n]."}
doc{name = "logs:action_name", signature = "lg:action_name(j)", returns = "string",
    text = "What action j is called in the file."}
doc{name = "logs:feature_name", signature = "lg:feature_name(i)", returns = "string",
    text = "The name of column i of the contexts; nil where features are hashed."}
doc{name = "logs:part", signature = "lg:part(first, count)", returns = "logs",
    text = "Events first .. first + count - 1 as a log of their own."}
doc{name = "logs:take", signature = "lg:take(ids)", returns = "logs",
    text = "These events as a log of their own; ids may repeat."}
doc{name = "logs:save", signature = "lg:save(path)",
    text = "Writes an .npz that fopo.data.logs reads; names included."}
doc{name = "log_world:true_value", signature = "world:true_value(pi, contexts, greedy)",
    returns = "number", text = "What world:value calls; contexts may be nil."}
doc{name = "log_world:best", signature = "world:best([contexts])", returns = "number",
    text = "The true value of the best policy, argmax of the reward's probability."}
doc{name = "log_world:logging", signature = "world:logging([contexts])", returns = "number",
    text = "The true value of the logging policy."}
doc{name = "log_world:contexts", signature = "world:contexts(n, seed)", returns = "array",
    text = "[n, D]: contexts of the same law; seed 0 begins as the log's own."}
doc{name = "log_world:reward", signature = "world:reward(ids, rows[, contexts])", returns = "array",
    text = [[
The true probability [B, S] of a reward for actions ids [B, S] in the contexts rows, of the log
if no contexts are given.]]}
doc{name = "world:cluster", signature = "world:cluster(item)", returns = "integer",
    text = "The cluster that the item belongs to."}
doc{name = "world:best", signature = "world:best(sessions)", returns = "expected, achieved",
    text = "The expected reward of the best possible policy, and its reward on these sessions."}

return data
