-- Logs of decisions, and the synthetic world they can come from: fopo.data.logs and synthetic_logs.
local native = require "fopo.native"
local define = require "fopo.base.define"
local reading = require "fopo.base.reading"
local saves = require "fopo.base.saves"
local text = require "fopo.base.text"
local fn, doc = define.fn, define.doc
local logs, log_world = native.types.logs, native.types.log_world

local formats, format_lines = reading.formats(native.logs_formats())

local read = fn{
  name = "fopo.data.logs", returns = "logs",
  args = {{"path", "string|table", nil, "the file; .gz and .zst are read as they are; \"-\" is "
           .. "standard input, {command = \"...\"} the output of a command"}},
  options = {
    {"format", "string", "auto", "what the file is", one_of = formats},
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
    {"standardise", "string", "auto", "csv, obd: columns of the context with values beyond -10 .. "
     .. "10: auto, they get the mean 0 and the deviation 1, and a note names them; none, they stay",
     one_of = {"auto", "none"}},
    {"like", "logs", nil, "a log read before: its columns, actions and items are used, by name"},
  },
  text = [[Reads a bandit log: contexts, the action shown in each, its probability under the policy
that showed it (its propensity), and the reward. The format is recognised by the first lines of the
file, gzipped or not, or named by an option:

]] .. format_lines .. [[


What comes through a pipe is read once; of a table its text is kept in memory meanwhile. Parquet and
Arrow files are tables, which pyarrow reads, and a folder or a list of them is one: docs/data.md.

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
evaluate on gets the columns of the one to learn from, standardised by the same numbers. A text or
an action that train lacks is an error.]],
  example = [[path = os.tmpname()
f = io.open(path, "w")
f:write("age,country,action,reward,propensity\n31,fr,7,1,0.5\n25,be,9,0,0.25\n")
f:close()
lg = fopo.data.logs(path)
assert(lg.n == 2 and lg.n_actions == 2 and lg.dim == 3 and lg.mean_reward == 0.5)
os.remove(path)]],
  call = function(path, o)
    return native.logs_read(reading.files("fopo.data.logs", path), o)
  end,
}

local synthetic = fn{
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

-- The action of the largest score, the smaller number of two that are equal.
local function best_of(score, P)
  local best
  for a = 1, P do
    if score[a] and (not best or score[a] > score[best]) then best = a end
  end
  return best
end

-- By action, over the events that show it: the mean reward; the sum of log(1 + lambda w (r - low)).
local function scores_of(lg, by)
  local rewards, p = lg:rewards(), lg:propensities()
  local low = math.min(0, rewards:min())
  local lambda = 1 / (math.sqrt(lg.n) * math.max(rewards:max() - low, 1e-30))
  local actions, sum, count = lg:actions(), {}, {}
  for i = 1, lg.n do
    local a, r = actions:get(1, i), rewards:get(1, i)
    count[a] = (count[a] or 0) + 1
    sum[a] = (sum[a] or 0) + (by == "mean" and r or math.log(1 + lambda * (r - low) / p:get(1, i)))
  end
  for a, n in pairs(count) do sum[a] = by == "mean" and sum[a] / n or sum[a] end
  return sum
end

logs.constant = fn{
  name = "logs:constant", returns = "function, integer",
  args = {{"lg", "logs", nil, "the log"}},
  options = {
    {"by", "string", "smoothed", "smoothed: the action of the largest value, and lower bound, by "
     .. "logarithmic smoothing; mean: that of the largest mean reward when it was shown",
     one_of = {"smoothed", "mean"}},
  },
  text = [[
The policy that shows one action to everybody, as fopo.ope takes it, and that action: what a learnt
policy has to beat, beside the logging policy, whose value is lg.mean_reward. by = "mean" is greedy
without contexts, as a counter of clicks is, and falls for an action that was shown once and was
lucky; smoothed is pessimistic about it. Choose on other events than those that judge it. Cost: one
pass over the events.]],
  example = [[lg = fopo.data.synthetic_logs{n = 2000, actions = 10, dim = 4}
train, test = lg:split{seed = 1}
print(fopo.ope(train:constant(), test, {estimators = {"snips", "ls"}}))]],
  call = function(lg, o)
    local P, best = lg.n_actions, best_of(scores_of(lg, o.by), lg.n_actions)
    return function(x)
      local p = native.array_zeros(x.rows, P)
      for i = 1, x.rows do p:set(i, best, 1) end
      return p
    end, best
  end,
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

doc{name = "logs:contexts", signature = "lg:contexts()", returns = "array",
    text = "[n, D]: the features of each event; the same array every time."}
doc{name = "logs:items", signature = "lg:items()", returns = "array",
    text = "[P, L]: the features of the actions, or nil where the log has none."}
doc{name = "logs:scales", signature = "lg:scales()", returns = "array",
    text = [[
[2, D]: what was taken from each column of the contexts when they were standardised, and by what it
was then divided, 0 and 1 for those that stayed; nil if none was. A policy that was learnt from this
log takes other contexts x as (x - s:rows_of{1}) / s:rows_of{2}.]]}
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
logs.save = saves("log", logs.save, function(_, path) read(path) end)
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
doc{name = "log_world:groups", signature = "world:groups(groups, lg)", returns = "array",
    text = [[
[1, n]: the probability with which the logging policy shows the group of each event's action, groups
ids [1, P] (fopo.ope's groups and logging). lg is the world's log or a part of it.]]}

return {read = read, synthetic = synthetic}
