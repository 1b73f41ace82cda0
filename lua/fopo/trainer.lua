-- fopo.trainer: what a run is made of, its history and its checkpoints. C makes the steps, in
-- slices; fopo/run/run.lua decides how many, what is recorded and when to stop.
local native = require "fopo.native"
local checkpoint = require "fopo.run.checkpoint"
local define = require "fopo.base.define"
local cache = require "fopo.base.cache"
local knobs = require "fopo.run.knobs"
local job = require "fopo.run.job"
local json = require "fopo.base.json"
local live = require "fopo.view.live"
local norms = require "fopo.run.norms"
local origin = require "fopo.base.origin"
local run = require "fopo.run.run"
local saves = require "fopo.base.saves"
local sealed = require "fopo.base.sealed"
local seen_items = require "fopo.base.seen"
local sources = require "fopo.view.sources"
local term = require "fopo.term"
local text = require "fopo.base.text"
local validation = require "fopo.run.validation"

local common, trainer = native.gradient_common, {__name = "fopo.trainer"}

-- The columns of the history: statistics, the reward before the validations, and phases' seconds.
local function columns_of_history()
  local list, statistics = {"step", "seconds"}, {}
  for _, one in ipairs(native.statistics()) do
    if one.tag ~= "" then statistics[#statistics + 1] = one.name end
  end
  table.move({table.remove(statistics, 1), "valid", "valid_expected", "valid_index",
              "valid_measure"}, 1, 5, 3, list)
  table.move(statistics, 1, #statistics, #list + 1, list)
  table.move({"lr", "epsilon", "head", "held", "steps_per_second"}, 1, 5, #list + 1, list)
  for _, phase in ipairs(native.phases()) do list[#list + 1] = phase.column end
  return list
end

local columns = columns_of_history()

local fields = {}
function fields.step(t)
  local seen = t.job and t.job.native:look()
  return seen and seen.state == "trains" and seen.step or t.native.step
end
function fields.steps_per_epoch(t) return t.native.steps_per_epoch end
function fields.unfinished(t) return t.native.unfinished end
function fields.device(t) return t.native.device_name end

-- fopo.gradient.head_tail{} for a catalogue of P items, which may be small.
local function standard_gradient(P, objective)
  local k, tail = math.min(256, P), math.max(1, math.min(64, P - 1))
  return require("fopo.gradient").head_tail{k = k, tail = tail, objective = objective}
end

-- Whether a trainer of these options draws X and Y anew each epoch; raises if it is asked to and
-- cannot.
local function resplits(o, kind)
  local why = kind == "logs" and "data is a bandit log, which has one X"
    or kind == "shared_sessions" and "the sessions are shared out to the ranks"
    or o.contexts and "contexts are given, so they cannot be made anew"
    or o.reward and not native.reward_is_of(o.reward, o.data)
       and "the reward is not fopo.reward.hits on data"
    or not (o.data.at_random or o.data.in_order)
       and "X and Y of data were not divided at random and have no order"
  if o.resplit and why then
    define.fail("fopo.trainer: resplit = true, but %s; leave it out", why)
  end
  if why or o.resplit ~= nil then return not why and o.resplit end
  return o.data.at_random or o.policy.kind == "linear"
end

-- For the few scalars of a policy that scores lists: five epochs over n contexts.
local function optim_of_lists(n, batch)
  local linear = require("fopo.schedule").linear{steps = 5 * math.ceil(n / batch), final = 0.28}
  return require("fopo.optim").adagrad{lr = 0.05, schedule = linear}
end

-- The sessions whose users the weights of a policy that scores lists do not know.
local function sessions_of_lists(o)
  local training = o.policy:training()
  if not training then
    define.fail("fopo.trainer: the policy was loaded, and its weights know the users that they "
                .. "were learnt from; make it again by fopo.policy.neighbours{data = s.train, from "
                .. "= its file} with the options that it was made with, and train that one")
  end
  local from = origin.of(training).held_of or training
  if not rawequal(o.data, training) and not rawequal(o.data, from) then
    define.fail("fopo.trainer: data are not the sessions that the weights of the policy were "
                .. "learnt from; give those, or make the policy by fopo.policy.neighbours{data = "
                .. "..} of these")
  end
  return training
end

-- A policy whose items do not say of which sessions they were made gets from the data of its first
-- trainer what sessions decide; its items their names.
local function complete(o, kind)
  local pi = o.policy
  local from = origin.of(pi)
  if not from.complete then return end
  local possible = kind == "sessions" and not o.contexts and o.data.n_items == pi.n_items
  local said = possible and from.complete(o.data) or nil
  origin.set(pi, {unknown = from.unknown and not said, completed = said})
  local items, dataset = pi:initial_items(), origin.dataset(o.data)
  if said and dataset and not origin.dataset(items) then origin.set(items, {dataset = dataset}) end
end

local make = define.fn{
  name = "fopo.trainer", returns = "trainer",
  options = {
    {"policy", "policy", nil, "what learns", required = true},
    {"data", "sessions|logs|shared_sessions", nil, "training sessions, or a bandit log; over "
     .. "several processes also s.train:share(pi)", required = true},
    {"contexts", "array", nil, "[N, D], one row a session or event of data; where left out the "
     .. "mean embedding of the items in X, or the log's contexts"},
    {"reward", "reward", nil, "what is maximised; hits on the sessions, IPS on the log, where left "
     .. "out"},
    {"gradient", "gradient", nil, "the estimator; where left out fopo.gradient.head_tail{}, or "
     .. "sparse{} of a policy that scores lists"},
    {"objective", "string|objective", nil, "what is raised: that of the gradient, of whose options "
     .. "it is one; give it where the gradient is left out"},
    {"optim", "optim", nil, "the optimiser; where left out adam, or of a policy that scores lists "
     .. "adagrad with lr 0.05, which falls to 0.28 of it in five epochs"},
    {"batch", "integer", 32, "contexts a step", min = 1},
    {"seed", "integer", 1, "order of contexts and all draws"},
    {"device", "string", "auto", "where the steps run", one_of = {"auto", "cpu", "cuda"}},
    {"index_refresh", "integer", 0, "with train_items: steps between two updates of the index that "
     .. "candidates come from; 0: never", min = 0},
    {"resplit", "boolean", nil, "draw X and Y of the sessions anew each epoch; true where they "
     .. "were divided at random, and of a linear policy where they are in order"},
    {"valid", "sessions|logs|boolean", nil, "sessions to validate on, for early stopping; or "
     .. "another log: what the policy is worth there, by fopo.ope's snips; false: none. If left "
     .. "out, s.valid where data is s.train"},
    {"valid_contexts", "array", nil, "[N, D] of the valid sessions, where contexts are given"},
    {"index", "index", nil, "also validate through it"},
    seen_items.option("of validation, as of fopo.evaluate: seen, the default, if what users took "
                      .. "before will not be recommended; none: the paper's R_test"),
  },
  presets = {paper = {resplit = false, exclude = "none"}},
  text = [[A training run: t:run makes steps, t.history records them, t:save and t:resume keep them.

Same bits. Everything is a function of the seed: for any number of threads, in one run or several,
interrupted and resumed or not. But a run that validates and comes to its end may put its best
parameters back (keep_best of t:run), and the next one goes on from them.

Epochs. X and Y of a session that were divided at random are drawn anew at the start of each epoch,
as many items in X as before: a policy that sees the same Y in every pass learns that Y by heart.
- The first epoch takes the split as it is; what is drawn is a function of the seed and the epoch.
- Where sessions have an order, as those of train that were cut by time, X is from the second epoch
  on the first c items, c drawn from as many as X has to all but one, and Y what came after them.
- Contexts are encoded again, at the cost of s:contexts each epoch, and cached candidates expire, so
  that refresh serves only with resplit = false.
- Sessions of seen = "keep" keep X and Y; so do bandit logs, sessions that are shared out, contexts
  that are given, and other rewards than hits on data.

Validation. Before the first step of a run and at each record the policy is judged on `valid`, by
the reward (greedy: is the best item in Y) and by the expected reward, which training raises. See
t:run for keep_best, best_by and patience.
- Where data is the train part of a split and valid is left out, it is the split's valid part, of
  which large catalogues use fewer contexts, evenly spread; not where contexts are given without
  valid_contexts, nor with a reward other than hits, which other sessions' hits do not measure.
- Such records, of a given number of steps, are judged by a sample that the seed fixes, a twentieth
  as many contexts as their steps train on, at least 64; the start, the end and, at the end, the
  best record by all; not of policies that score lists.
- The expected reward is over at most 1,000 contexts, evenly spread and always the same. Of more
  than 8,192 items that are not learnt it sums the 1,024 of largest norm, 1,024 draws of the others
  that the seed fixes, and Y: its error is far below that of the contexts.
- The items of X are left out, as one serves, also for a policy that keeps them in; exclude = "none"
  validates such a policy by the paper's R_test.

Items and indexes. Where a policy learns its items, the index of the proposal goes stale: the
estimate stays valid, its candidates get worse; index_refresh brings it up to date (an index over
pi:items()). The index of validation is asked as it is: index:update(). On a GPU the proposal's
exact or norm index is searched there, budget and all, for k up to 2048 and items that are not
learnt; any other on the host while the GPU works.

What follows from the data. A policy whose items do not say of which sessions they were made
(fopo.array.load) is completed: what was left out of temperature, theta, contexts and seen is then
as in a policy that is made with data = the sessions, and a note of the first run says so. A
gradient whose head or candidates follow from the mass of the policy (fopo.proposal.mixture says
how) starts from what this trainer knows of it; the history has their number as head, and the share
of the mass that they hold as held.

What may be changed: t.lr, t.epsilon, t.samples and so on (]] .. table.concat(knobs.names, ", ")
  .. [[), from the next step on; between two runs also t.valid, t.valid_contexts, t.index and
t.exclude. The change is kept in t.actions and in the log, and replay makes it again. All else is
fixed, and setting it is an error that says what to do.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items = fopo.embed.svd(s.train, {dim = 8})
pi = fopo.policy.linear{items = items}
t = fopo.trainer{policy = pi, data = s.train, gradient = fopo.gradient.snis{samples = 50}}
t:run{steps = 20, view = false}
assert(t.step == 20 and #t.history.step > 0)]],
  call = function(o)
    local kind = define.kind(o.data)
    local from_logs, shared = kind == "logs", kind == "shared_sessions"
    if shared and o.contexts then
      define.fail("fopo.trainer: sessions that are shared out have contexts of their own; leave "
                  .. "out contexts")
    end
    local lists = o.policy.scores_lists
    if lists then
      o.data = sessions_of_lists(o)
      -- hits on these sessions, by the values of those that were given
      if o.reward and o.reward.kind == "hits" then
        o.reward = native.reward_hits(o.data, o.reward)
      end
    end
    validation.check(o)
    local valid, automatic = validation.of(o)
    local resplit = resplits(o, kind)
    complete(o, kind)
    local raises = o.gradient and common(o.gradient, "objective")
    local wanted = define.kind(o.objective) == "objective" and "custom" or o.objective
    if raises and wanted and (wanted ~= raises or wanted == "custom") then
      define.fail("fopo.trainer: objective is \"%s\" but the gradient's is \"%s\"; give it to the "
                  .. "gradient: fopo.gradient.%s{objective = %s}", wanted, raises,
                  common(o.gradient, "kind"), wanted == "custom" and "the objective"
                  or ("%q"):format(wanted))
    end
    o.gradient = o.gradient or lists and require("fopo.gradient").sparse{objective = o.objective}
                 or standard_gradient(o.policy.n_items, o.objective)
    o.reward = o.reward or from_logs and native.reward_ips(o.data)
               or native.reward_hits(o.data)
    o.optim = o.optim or lists and optim_of_lists(o.data.n, o.batch)
              or require("fopo.optim").adam{}
    local contexts = o.contexts or from_logs and o.data:contexts() or shared and o.data
                     or cache.contexts(o.data, o.policy)
    local t = {contexts = contexts, given_contexts = o.contexts, index_refresh = o.index_refresh,
               policy = o.policy, data = o.data, reward = o.reward, gradient = o.gradient,
               optim = o.optim, batch = o.batch, seed = o.seed, valid = valid, index = o.index,
               valid_contexts = o.valid_contexts, exclude = o.exclude, valid_automatic = automatic,
               history = {}, actions = {}, notes = {}, seconds = 0, unlogged = {},
               resplit = resplit}
    local device = lists and o.device == "auto" and "cpu" or o.device
    t.native = native.trainer{policy = o.policy, contexts = contexts, reward = o.reward,
                              sessions = kind == "sessions" and o.data or nil,
                              gradient = o.gradient, optim = o.optim, batch = o.batch,
                              seed = o.seed, device = device,
                              index_refresh = o.index_refresh, resplit = resplit}
    for _, name in ipairs(columns) do t.history[name] = {} end
    t.knobs = knobs.all(t)
    return sealed.new(trainer, t)
  end,
}

-- The plain line of a record; without the seconds on a terminal of less than 96 columns.
local function line(t, n)
  local h = t.history
  local step, rate = text.count(h.step[n]), h.steps_per_second[n]
  local narrow = term.is_tty() and term.width() < 96
  local what = validation.objective(t) or validation.measure(t)
  local parts = {narrow
    and ("step %6s  %s %.4f  ess %6.1f  %5.0f/s"):format(step, what, h.reward[n], h.ess[n], rate)
    or ("step %6s  %8s  %s %.4f  ess %7.1f  %6.0f steps/s"):format(
      step, text.seconds(h.seconds[n]), what, h.reward[n], h.ess[n], rate)}
  parts[#parts + 1] = validation.as_text(t, h.valid[n], h.valid_expected[n])
  local fault = common(t.gradient, "fault")
  if fault then parts[#parts + 1] = "FAULT " .. fault end
  return table.concat(parts, "  ")
end

-- A sentence, wrapped at words on a terminal.
local function wrapped(said)
  return term.is_tty() and text.fill(said, math.max(40, term.width() - 1), "  ") or said
end

local function say_note(note) print(wrapped(note)) end

-- The same record as JSON.
local function object(t, n)
  local row = {}
  for _, name in ipairs(columns) do row[name] = t.history[name][n] end
  return json.row(columns, row)
end

-- How a run shows itself: json, lines, curses, or nil for not at all.
local function mode(o)
  if o.json or term.json() then return "json" end
  if o.view == "curses" or o.view == true then
    local possible, why = term.view_possible()
    if possible then return "curses" end
    if o.view == "curses" then
      define.fail("trainer:run: %s; view = \"lines\" prints lines", why)
    end
    return "lines"
  end
  return o.view or nil
end

-- "reward: estimate of ...; ess: ...", for help().
local function meanings_of_statistics()
  local list = {}
  for _, one in ipairs(native.statistics()) do
    if one.tag ~= "" then list[#list + 1] = ("%s: %s"):format(one.name, one.text) end
  end
  return table.concat(list, ";\n") .. ".\n"
end

trainer.run = define.fn{
  name = "trainer:run", returns = "trainer",
  args = {{"t", "trainer", nil, "the trainer"}},
  options = {
    {"epochs", "number", nil, "passes over the data", above = 0},
    {"steps", "integer", nil, "or steps", min = 1},
    {"seconds", "number", nil, "or seconds of training, validation not counted", above = 0},
    {"every", "integer", nil, "steps of a record; a twentieth of the run, or about a second's",
     min = 1},
    {"view", "boolean|string", "lines", "lines: a line per record; true: the live view where there "
     .. "is a terminal, else lines; curses: the live view or an error; false: nothing",
     one_of = {"lines", "curses"}},
    {"json", "boolean", false, "each record as a JSON object on a line (fopo --json: always)"},
    {"log", "boolean|string", false, "write the run's log: true under runs/, or the folder to use"},
    {"replay", "table|string", nil, "actions to make again: t.actions, or the folder of a log"},
    {"overlay", "table", nil, "earlier runs to draw behind this one: trainers or folders of logs"},
    {"patience", "integer", nil, "stop after so many validations without a better one", min = 1},
    {"keep_best", "boolean", true, "with validation: end with the best parameters seen, the "
     .. "start's included"},
    {"best_by", "string", nil, "which validation is the best, for keep_best and patience: by the "
     .. "reward of the best item (greedy, the default), by the expected reward, or by a measure of "
     .. "fopo.evaluate, as \"ndcg@10\" or \"recall@20\", of lists without the items of X "
     .. "unless exclude of the trainer keeps them in; of a policy that scores lists the default is "
     .. "ndcg@20, or with values expected; the expected reward decides between equals, or the "
     .. "reward where that one decides"},
    {"on_record", "function", nil, "called with (t, n) after record n of the history; true stops"},
    table.unpack(checkpoint.options),
  },
  text = "Makes steps and records t.history, lists by name: " .. table.concat(columns, ", ")
    .. ".\n" .. meanings_of_statistics() .. [[
valid: reward (greedy) on the validation sessions; valid_expected: expected reward there;
valid_index: reward through the index; valid_measure: the measure that best_by names.
What a run should say at its end is printed and kept in t.notes: which step's parameters were put
back by keep_best, a small effective sample size, one item for everybody, expected reward up while
the reward falls, an end below the start. print(t) shows whose parameters the policy holds.
keep_best goes back to the best parameters only where the last ones lose more than chance can make,
over the same contexts: by what best_by names, or else by the other one of the two rewards. Of a
policy that scores lists one is better only by more than chance, by what best_by names or, where
that cannot tell, by the reward; if none is better than the start, that is put back.
Ctrl-C stops after the step in hand. t:run again goes on from there, t:run{} to the end that the run
had: with its best parameters, its patience and its records, as if it had not stopped, unless the
policy was set by hand meanwhile or is validated by other means. What was made since the last record
is shown as one, without validation, until then. Returns t.
Of several processes the first shows the run, keeps its log and decides what depends on time.
log writes config.json, history.jsonl, history.csv, actions.jsonl, notes.txt, held.json (what the
policy holds at the end) and TensorBoard's event files, flushed at every record; t.log_folder says
where. If the run goes on from a checkpoint and its log is ahead of it, the log is cut back to the
step, into cut-STEP.jsonl. What is changed by hand in the live view is in t.actions; replay changes
the same at the same steps, so the same run comes out to the bit.]],
  call = function(t, o)
    local fault = common(t.gradient, "fault")
    if native.ranks() == 0 and fault then
      io.stderr:write(("*** wrong on purpose: the fault %q is planted ***\n")
                      :format(fault))
    end
    local r <close> = run.new(t, o, columns)
    r:open()
    r:together()
    local how = not r.follows and mode(o)
    if r.follows then
      r:follow()
    elseif how == "curses" then
      live.run(sources.of_run(r), o)
      if #t.history.step > 0 then print(line(t, #t.history.step)) end
      r.say_note = say_note
      if r.left then print(("left at step %d; t:run goes on from there"):format(t.step)) end
    else
      if how == "json" then r.say = function(n) print(object(t, n)) end end
      if how == "lines" then
        r.say, r.say_note = function(n) print(line(t, n)) end, say_note
      end
      while not r:done() do r:advance() end
    end
    r:finish()
    return t
  end,
}

-- ---- what may be changed ----

-- What the trainer validates on, from the next run on; checked as the option of that name.
local function set_validation(t, name, value)
  local mine, before = sealed.behind(t), t[name]
  job.settled(t)
  if mine.current then
    define.fail("t.%s cannot be set while a run or a job of the trainer goes on; set it before the "
                .. "next one", name)
  end
  if value ~= nil then value = define.checked("fopo.trainer", name, value, "trainer") end
  local o = {data = t.data, reward = t.reward, contexts = mine.given_contexts,
             valid = t.valid or false, valid_contexts = t.valid_contexts, index = t.index,
             exclude = t.exclude}
  if name == "valid" and value == nil then value = false end
  o[name] = value
  if name == "valid" and value ~= t.valid then o.valid_contexts = nil end -- of other sessions
  validation.check(o)
  if name == "valid" then
    mine.valid, mine.valid_automatic = validation.of(o)
    mine.valid_contexts = o.valid_contexts
  else
    mine[name] = value
  end
  local function about(v) return type(v) == "userdata" and v:describe() or v or "none" end
  run.between(t, {what = name, value = about(t[name]), before = about(before)})
end

local settable = {}
for _, name in ipairs(knobs.names) do
  fields[name] = function(t) return knobs.get(t, name) end
  settable[name] = function(t, value)
    local j = job.settled(t)
    if j then j[name] = value else run.set_knob(t, name, value) end
  end
end
for _, name in ipairs{"valid", "valid_contexts", "index", "exclude"} do
  settable[name] = function(t, value) set_validation(t, name, value) end
end
function settable.log_folder(t, folder)
  if type(folder) ~= "string" then
    define.fail("t.log_folder must be a string, not %s", define.shown(folder))
  end
  sealed.behind(t).log_folder = folder
end

local type_of_option = {}
for _, spec in ipairs(define.entries["fopo.trainer"].options) do
  type_of_option[spec[1]] = spec[2]
end

-- What to do instead of setting a field.
local function remedy(_, name, value)
  if define.of[trainer[name]] then return ("it is a method, as in t:%s{...}"):format(name) end
  local wanted = type_of_option[name]
  if not wanted then
    return "it records what was done; t:run makes steps, and fopo.trainer{...} another trainer"
  end
  local given = (wanted == "integer" or wanted == "string") and define.shown(value) or "..."
  return ("it is fixed when a trainer is made; fopo.trainer{%s = %s, %s%s ...} makes one that %s")
         :format(name, given, name == "policy" and "" or "policy = t.policy,",
                 name == "data" and "" or " data = t.data,",
                 name == "policy" and "trains it" or "goes on with the same policy")
end

-- The parts of a trainer, and the functions that make them, in the order in which they are asked;
-- true where the form has the function's name.
local makers = {
  {"fopo.optim.", "fopo.trainer{optim = %s{%s = %s}, ...}"},
  {"fopo.gradient.", "fopo.trainer{gradient = %s{%s = %s}, ...}"},
  {"fopo.policy.linear", "fopo.trainer{policy = %s{%s = %s, ...}, ...}"},
  {"fopo.proposal.", "fopo.gradient.snis{proposal = %s{%s = %s}}"},
  {"trainer:run", "t:run{%s = %s}", true},
  {"fopo.trainer", "fopo.trainer{%s = %s, ...}", true},
}

-- What to write for an option of one of the trainer's parts or of t:run; nil if it is none.
local function elsewhere(name, value)
  local plain = type(value) == "number" or type(value) == "string"
  local given = plain and define.shown(value) or "..."
  for _, maker in ipairs(makers) do
    for _, entry_name in ipairs(define.order) do
      local entry = entry_name:sub(1, #maker[1]) == maker[1] and define.entries[entry_name]
      for _, spec in ipairs(entry and entry.options or {}) do
        if spec[1] == name then
          local form = maker[3] and maker[2]:format(name, given)
                       or maker[2]:format(entry_name, name, given)
          return ("it is an option of %s: %s"):format(entry_name, form)
        end
      end
    end
  end
end

sealed.kind(trainer, {
  what = "trainer", letter = "t", remedy = remedy, elsewhere = elsewhere,
  computed = fields, settable = settable,
  known = {"valid", "valid_contexts", "index", "exclude", "held", "best_step", "log_folder", "job"},
  hidden = {"native", "knobs", "unlogged", "current", "given_contexts", "valid_automatic", "began",
            "seen", "cut"},
})

-- Jobs train in the background, with what is needed of here (fopo/run/job.lua).
job.open(trainer, {columns = columns, line = line, object = object, wrapped = wrapped})

for _, name in ipairs{"fopo.trainer", "trainer:run", "trainer:start"} do
  define.entries[name].elsewhere = elsewhere
end

-- The history without a record that was cut short: its steps are in hand, and are saved so.
local function whole_history(t)
  local mine = sealed.behind(t)
  if mine.cut ~= #t.history.step then return t.history end
  local whole = {}
  for name, list in pairs(t.history) do whole[name] = table.move(list, 1, #list - 1, 1, {}) end
  return whole
end

-- What Lua knows of the trainer and its run, as strings.
local function facts_of(t)
  local mine = sealed.behind(t)
  local seen = mine.current and mine.current.seen:state() or mine.seen
  local facts = {seconds = t.seconds, notes = json.encode(t.notes), best_step = t.best_step}
  if seen and t.native.unfinished then facts.seen = json.encode(seen) end
  return validation.facts(t, facts)
end

trainer.save = define.fn{
  name = "trainer:save",
  args = {{"t", "trainer", nil, "the trainer"}, {"path", "string", nil, "an .npz"}},
  text = [[Writes theta, items and weights that are learnt, the optimiser's state, the step and the
history; the old file stays until the new one is whole on disk.]],
  call = saves("checkpoint", function(t, path)
    job.at_rest(t, function()
      t.native:save(path, whole_history(t), facts_of(t))
    end)
  end, function(t, path) t.native:reads(path) end),
}

trainer.resume = define.fn{
  name = "trainer:resume", returns = "trainer",
  args = {{"t", "trainer", nil, "a trainer over the same data and shapes"},
          {"path", "string", nil, "an .npz written by t:save"}},
  text = [[Takes up where the file left off, with the same bits as if it had never stopped. Where
the file was written before the end of a run, t:run{} makes the rest of it, with the options that it
had: its best parameters, patience and records are in the file. t.unfinished is {first =, last =,
every =} of such a run, its steps, or nil. Options such as lr come from this trainer, not from the
file. A file that does not fit changes nothing.]],
  call = function(t, path)
    local history, facts = t.native:resume(path)
    local mine = sealed.behind(t)
    mine.resumed = true
    mine.held = validation.from_facts(facts, "held")
    mine.began = validation.from_facts(facts, "began")
    mine.seconds = history.seconds and history.seconds[#history.seconds] or 0
    mine.best_step = math.tointeger(tonumber(facts.best_step))
    mine.notes = facts.notes and json.decode(facts.notes) or {}
    mine.seen, mine.cut = facts.seen and json.decode(facts.seen), nil
    for _, name in ipairs(columns) do
      t.history[name] = history[name] or {}
      for n = 1, history[name] and 0 or #(history.step or {}) do t.history[name][n] = 0 / 0 end
    end
    return t
  end,
}

trainer.describe = define.method("trainer", "describe", function(t)
  local kept = common(t.gradient, "kept_bytes")
  local h, state = t.history, ""
  local n = #h.step
  if n > 0 then
    state = (", %s %.4f"):format(validation.measure(t), h.reward[n]) .. validation.state(t)
  end
  if t.job then state = state .. ", a job trains it" end
  return ("trainer at step %s (%s a pass)%s, batch %d, %s%s%s, on %s"):format(text.count(t.step),
    text.count(t.steps_per_epoch), state, t.batch, t.gradient:describe(),
    not t.resplit and "" or t.data.in_order and ", X another prefix of each session each pass"
    or ", X and Y drawn anew each pass",
    norms.of_history(h)
    .. (kept > 0 and (", candidates kept in %s"):format(text.bytes(kept)) or ""), t.device)
end, "t")

function trainer.__tostring(t) return trainer.describe(t) end

return make
