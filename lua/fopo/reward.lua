-- fopo.reward: estimators rhat(a, x) of the reward of showing item a in context x. Each is a row of
-- C (src/learn/rewards/), from which its function, its options and its help are made here.
local native = require "fopo.native"
local called = require "fopo.base.called"
local define = require "fopo.base.define"
local rows = require "fopo.base.rows"
local values = require "fopo.base.values"
local reward, methods = {}, native.types.reward

local sessions = {"sessions", "sessions|shared_sessions", nil, "whose Y holds the hits"}
local value = {"value", "array|table|reward", nil, "what a hit on each of the P items earns: "
               .. "margin, price, minutes, each finite and 0 or more, as an array (d:item_values), "
               .. "a list of P numbers, or a reward of hits that has them; 1 if left out"}
local fill = {"f", "function", nil, "f(ids, rows) -> values: ids an array [B, S] of items, rows "
              .. "the ids [1, B] of their contexts; values an array [B, S] or a table of B rows"}
local the_log = {"logs", "logs", nil, "the log to learn from; train with data = the same log",
                 required = true}

-- The options of a reward's model.
local model_options = {
  {"model", "string|table|reward", "ridge", "\"ridge\" or \"logistic\": fitted here; "
   .. "{queries = [n, d], items = [P, d], link = \"identity\" | \"logistic\"}: given; "
   .. "a direct reward: its model, also on another log than it was fitted to",
   one_of = {"ridge", "logistic"}},
  {"lambda", "number", 1.0, "penalty lambda |W|^2 / 2 of a fit", above = 0},
  {"dim", "integer", 16, "principal directions of contexts and of items that a fit uses, at most",
   min = 1},
  {"folds", "integer", 1, "cross-fitting: an event's model is fitted without its own fold",
   min = 1, max = 200},
  {"items", "array", nil, "[P, L] features of the actions for a fit; lg:items() if left out"},
  {"seed", "integer", 1, "of the folds"}}

-- The direct reward of these options.
local function direct(name, o)
  local m = o.model
  if type(m) == "string" then
    return native.reward_fit(o.logs, {logistic = m == "logistic", lambda = o.lambda, dim = o.dim,
                                      folds = o.folds, seed = o.seed, items = o.items})
  elseif define.kind(m) == "reward" then
    if o.items then define.fail("%s: items belong to a fit; this model has its own", name) end
    return native.reward_apply(o.logs, m)
  end
  local known = {queries = 1, items = 1, link = 1}
  for key in pairs(m) do
    if not known[key] then
      define.fail("%s: model has no field '%s'; it takes queries, items and link", name,
                  tostring(key))
    end
  end
  local link = m.link or "identity"
  if define.kind(m.queries) ~= "array" or define.kind(m.items) ~= "array"
     or (link ~= "identity" and link ~= "logistic") then
    define.fail("%s: a given model is {queries = array, items = array, link = \"identity\" or "
                .. "\"logistic\"}", name)
  end
  return native.reward_given(o.logs, m.queries, m.items, link == "logistic")
end

-- The direct reward whose model is to be corrected: one over the same log is used as it is.
local function model_of(name, o)
  local given = define.kind(o.model) == "reward"
  return given and native.reward_over(o.logs, o.model) and o.model or direct(name, o)
end

-- The options of a reward of logs: the log, its model's, its own.
local function log_options(row)
  local options = {the_log}
  for _, spec in ipairs(row.model and model_options or {}) do options[#options + 1] = spec end
  for _, spec in ipairs(rows.specs(row.options)) do options[#options + 1] = spec end
  return options
end

local function call_of(row, name)
  local make = native["reward_" .. row.name]
  if row.sessions then
    return function(s, o) return make(s, values.of(name, o.value)) end
  end
  if row.fills then
    local parts = {"ids", "rows"}
    return function(f) return make(called("the function of reward.custom", f, parts)) end
  end
  if row.is_model then return function(o) return direct(name, o) end end
  if row.model then return function(o) return make(o.logs, model_of(name, o), o) end end
  return function(o) return make(o.logs, o) end
end

for _, row in ipairs(native.rewards()) do
  local name = "fopo.reward." .. row.name
  reward[row.name] = define.fn{
    name = name, returns = "reward", text = row.text, example = row.example,
    args = row.sessions and {sessions} or row.fills and {fill} or nil,
    options = row.logs and log_options(row) or row.sessions and {value} or nil,
    call = call_of(row, name),
  }
end

function methods.describe(r)
  local parts = {"reward " .. r.kind .. (r.valued and " by value" or "")}
  if r.translate and r.translate ~= 0 then
    parts[#parts + 1] = ("rewards less %.4g"):format(r.translate)
  end
  if r.parameters then
    parts[#parts + 1] = ("%d parameters, loss %.4g (of the mean alone %.4g)"):format(r.parameters,
      r.loss, r.constant_loss)
  end
  return table.concat(parts, "; ")
end

define.doc{name = "reward:value", signature = "rw:value(ids, rows)", returns = "array",
  text = "The rewards [B, S] of items ids [B, S] in the contexts rows."}

return reward
