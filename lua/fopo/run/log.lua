-- The log of a run: a folder with
--
--   config.json     options, seed, versions, machine, device
--   history.jsonl   a record a line, as t.history has it; what has no value is null
--   history.csv     the same; what has no value is empty
--   actions.jsonl   what was changed by hand while it ran, at which step
--   notes.txt       what the run said at its end, a sentence a line; absent if it said nothing
--   held.json       what the policy holds since the record of step `at`, and its validation by all
--                   contexts, where records may be judged by a sample
--   events.out.*    the same records for TensorBoard
--
-- Every record is handed to the system. A disk that fills up costs the log and not the training:
-- it is said once, and every file ends with a whole line. A last line that is torn (the process
-- was killed) is left out by who reads the log, and taken away by a run that continues it. A run
-- that goes on from a checkpoint of before the log's end moves what lies behind to cut-STEP.jsonl
-- and makes it again.
local native = require "fopo.native"
local define = require "fopo.base.define"
local events = require "fopo.run.events"
local json = require "fopo.base.json"
local lock = require "fopo.run.lock"
local sealed = require "fopo.base.sealed"
local source = require "fopo.run.source"
local term = require "fopo.term"
local validation = require "fopo.run.validation"

local log = {}
log.__index = log

-- The columns of the history under the names that TensorBoard groups by.
local tags = {valid = "reward/valid", valid_expected = "reward/valid_expected",
              valid_index = "reward/valid_index", lr = "schedule/lr",
              epsilon = "schedule/epsilon", head = "schedule/head", held = "weights/held",
              steps_per_second = "speed/steps_per_second"}
for _, one in ipairs(native.statistics()) do if one.tag ~= "" then tags[one.name] = one.tag end end
for _, phase in ipairs(native.phases()) do tags[phase.column] = "time/" .. phase.name end

local function exists(path)
  local f = io.open(path, "r")
  if f then f:close() end
  return f ~= nil
end

local function first_match(path, pattern)
  local f <close> = io.open(path, "r")
  return f and (f:read("a") or ""):match(pattern) or nil
end

local function machine_facts()
  local m = native.machine()
  m.cpu = first_match("/proc/cpuinfo", "model name%s*:%s*([^\n]+)")
  m.memory = native.memory().available
  m.threads, m.kernels = native.threads(), (native.isa())
  return m
end

local common = native.gradient_common

local function about(object) return object and object.describe and object:describe() or nil end

-- The options of the estimator that are numbers or words, by name.
local function options_of(g)
  local values = {}
  for _, row in ipairs(native.gradients()) do
    for _, option in ipairs(row.name == common(g, "kind") and row.options or {}) do
      local value = g[option.name]
      if type(value) == "number" or type(value) == "string" then values[option.name] = value end
    end
  end
  return values
end

-- What is needed to make the run again.
local function facts(t, options)
  local o, g = t.optim, t.gradient
  local run = {}
  for name, value in pairs(options) do
    if type(value) ~= "function" and type(value) ~= "userdata" then run[name] = value end
  end
  return {
    format = 1, started = os.date("!%Y-%m-%dT%H:%M:%SZ"), first_step = t.step, run = run,
    seed = t.seed, batch = t.batch, resplit = t.resplit, steps_per_epoch = t.steps_per_epoch,
    policy = about(t.policy), data = about(t.data), reward = about(t.reward),
    valid = about(t.valid), valid_contexts = validation.contexts(t),
    exclude = validation.left_out(t),
    index = about(t.index),
    gradient = {kind = common(g, "kind"), samples = common(g, "samples"),
                epsilon = common(g, "epsilon"), k = common(g, "k"), options = options_of(g),
                tail = g.tail, head = g.head, baseline = g.baseline, about = about(g)},
    optim = {kind = o.kind, lr = o.lr, weight_decay = o.weight_decay, about = about(o)},
    device = {name = t.device, note = t.native.device_note},
    versions = {fopo = native.version, lua = _VERSION,
                source = source.commit()},
    machine = machine_facts(), command = _G.arg and _G.arg[0] or nil,
  }
end

-- runs/TIME-NAME, with a number behind it where that is taken.
local function fresh_folder(t)
  local base = ("runs/%s-%s"):format(os.date("%Y%m%d-%H%M%S"), common(t.gradient, "kind"))
  local folder, n = base, 2
  while exists(folder .. "/config.json") do folder, n = ("%s-%d"):format(base, n), n + 1 end
  return folder
end

-- The step of the last record in a folder, nil where there is none.
local function last_step(folder)
  local f <close> = io.open(folder .. "/history.csv", "r")
  local last
  for line in f and f:lines() or function() end do
    last = math.tointeger(tonumber(line:match("^(%d+),"))) or last
  end
  return last
end

local function complain(format, ...)
  io.stderr:write("fopo: ", format:format(...), "\n")
end

-- The first n bytes of an open file, all of them.
local function read_all(f, n, path)
  f:seek("set")
  local all, why = f:read(n)
  if all and #all == n then return all end
  define.fail("%s cannot be read: %s", path, why or "it became shorter while it was read")
end

-- The text of a file without a last line that does not end, and the length of that line. nil if
-- there is no file.
local function whole_lines(path)
  local f <close> = io.open(path, "rb")
  if not f then return nil end
  local size, why = f:seek("end") -- 0 for a device, which may have no end
  if not size then define.fail("%s cannot be read: %s", path, why) end
  if size == 0 or size >= math.maxinteger then return "", 0 end -- empty, a device or a folder
  local all = read_all(f, size, path)
  local whole = all:match("^.*\n") or ""
  return whole, #all - #whole
end

local function replace(path, text)
  local written, why = native.write_file(path, text)
  if not written then define.fail("the log cannot be continued: %s", why) end
end

-- Takes a torn last line away.
local function repair(path)
  local whole, torn = whole_lines(path)
  if not whole or torn == 0 then return end
  replace(path, whole)
  complain("%s ended in a torn line of %d bytes, which is taken away", path, torn)
end

-- ---- a log that is ahead of its checkpoint ----

local function same(a, b)
  return a == b or a ~= a and b ~= b or math.abs(a - b) <= 1e-6 * math.abs(b)
end

-- Whether the log is one of this run: made with its seed, and its records up to step `at` are those
-- of t.history. A run at step 0 is another one, unless it was read from a checkpoint.
local function is_own(t, folder, at)
  if not exists(folder .. "/config.json") then return false end
  local was = log.read(folder)
  local first = was.config.first_step
  if t.step == 0 and not sealed.behind(t).resumed then return false end
  if was.config.seed ~= t.seed or was.config.batch ~= t.batch then return false end
  if type(first) ~= "number" or first > t.step then return false end
  local known, mine = {}, t.history
  for i, step in ipairs(mine.step or {}) do known[step] = mine.reward[i] end
  for i, step in ipairs(was.history.step or {}) do
    local reward = known[step]
    if step <= at and not (reward and same(was.history.reward[i], reward)) then return false end
  end
  return true
end

-- The lines of a file of the log up to a step, those after it, and how many these are.
local function divide(path, step)
  local kept, cut = {}, {}
  for line in (whole_lines(path) or ""):gmatch("(.-)\n") do
    local object = line:find("^{") and json.decode(line)
    local at = object and object.step or tonumber(line:match("^(%d+),"))
    local list = at and at > step and cut or kept
    list[#list + 1] = line .. "\n"
  end
  return table.concat(kept), table.concat(cut), #cut
end

-- Takes away what the log has after the records up to step `at`, and actions after t.step. The
-- table, which says how far the log is, comes last: if this is cut short, the next run does the
-- rest. A record that was cut short where the run goes on now is part of the next one.
local function cut_back(t, folder, last, at)
  local aside = ("%s/cut-%d.jsonl"):format(folder, t.step)
  local records, gone, n = divide(folder .. "/history.jsonl", at)
  local actions, undone, m = divide(folder .. "/actions.jsonl", t.step)
  if last > t.step then replace(aside, (whole_lines(aside) or "") .. gone .. undone) end
  replace(folder .. "/history.jsonl", records)
  replace(folder .. "/actions.jsonl", actions)
  replace(folder .. "/history.csv", (divide(folder .. "/history.csv", at)))
  if last <= t.step then return end
  complain("%s is at step %d and the run goes on from step %d: what the log had after it "
           .. "(records: %d, actions: %d) is in %s now", folder, last, t.step, n, m, aside)
end

-- Makes the files of a log whose folder is locked, and continues what is there.
local function begin(l, t, folder, options, between)
  for _, name in ipairs{"history.jsonl", "history.csv", "actions.jsonl", "notes.txt"} do
    repair(folder .. "/" .. name)
  end
  local last, at = last_step(folder), t.history.step[#t.history.step] or 0
  if last and last > at and is_own(t, folder, at) then
    cut_back(t, folder, last, at)
    last = at
  elseif last and last > t.step then
    define.fail("%s holds a run that is at step %d, and this one at step %d would be mixed with "
                .. "it; name another folder", folder, last, t.step)
  end
  for _, name in ipairs(l.columns) do
    if tags[name] then l.tagged[#l.tagged + 1] = {name, tags[name]} end
  end
  l.last = last
  local begins, made, why = (whole_lines(folder .. "/history.csv") or "") == ""
  for _, name in ipairs{"history.jsonl", "history.csv", "actions.jsonl"} do
    made, why = native.append_file(folder .. "/" .. name, "")
    if not made then define.fail("the log cannot be written: %s", why) end
  end
  l.events, why = events.open(folder, native.machine().host)
  if not l.events then define.fail("the log cannot be written: %s", why) end
  if begins then l:put("history.csv", table.concat(l.columns, ",") .. "\n") end
  begins = begins or not exists(folder .. "/config.json") -- its first part had no room for one
  local config = folder .. (begins and "/config.json" or ("/config-%d.json"):format(t.step))
  made, why = native.write_file(config, json.encode(facts(t, options)) .. "\n")
  if not made then l:fail(why) end
  if not begins then for _, action in ipairs(between) do l:action(action) end end
  sealed.behind(t).log_folder = folder
end

-- Opens the log of a run of t. where: true or a folder; a folder that holds an earlier part of this
-- run is continued, beginning with the actions `between` the two parts. Atomic, because a table of
-- records without its first line, which names the columns, cannot be read.
log.open = term.atomic(function(t, where, columns, options, between)
  local folder = where == true and (t.log_folder or fresh_folder(t)) or where
  local made, why = native.make_folder(folder)
  if not made then define.fail("the log cannot be written: %s", why) end
  local l = setmetatable({folder = folder, columns = columns, tagged = {}}, log)
  l.lock = lock.take(folder .. "/lock", "the log " .. folder,
                     "name another folder, or end that run")
  local ok
  ok, why = pcall(begin, l, t, folder, options, between)
  if not ok then
    l:close()
    error(why, 0)
  end
  return l
end)

-- Adds whole lines to a file; a failure leaves it as it was and ends the log.
function log:put(name, lines)
  if self.broken then return end
  local ok, why = native.append_file(self.folder .. "/" .. name, lines)
  if not ok then self:fail(why) end
end

function log:fail(why)
  if self.broken then return end
  self.broken = why
  complain("the log in %s ends %s: %s; the training goes on", self.folder,
           self.last and ("with the record of step %d"):format(self.last) or "without a record",
           why)
end

-- One record: a table by the names of the columns. It comes first into history.csv, which says how
-- far the log is: of a process killed in between, no other file is ahead of it.
function log:record(row)
  local cells = {}
  for i, name in ipairs(self.columns) do
    local text = json.number(row[name])
    cells[i] = text == "null" and "" or text
  end
  self:put("history.csv", table.concat(cells, ",") .. "\n")
  self:put("history.jsonl", json.row(self.columns, row) .. "\n")
  if self.broken then return end
  self.last = row.step
  local list = {}
  for i, one in ipairs(self.tagged) do list[i] = {one[2], row[one[1]]} end
  local ok, why = self.events:add(row.step, list)
  if not ok then self:fail(why) end
end

local action_keys = {"step", "seconds", "what", "value", "before"}

function log:action(a) self:put("actions.jsonl", json.row(action_keys, a) .. "\n") end

-- The sentences of the end of a run. A run whose process was killed after it wrote them, and before
-- its checkpoint, comes to the same end once more.
function log:notes(sentences)
  if #sentences == 0 then return end
  local lines = table.concat(sentences, "\n") .. "\n"
  local before = whole_lines(self.folder .. "/notes.txt") or ""
  if before:sub(-#lines) ~= lines then self:put("notes.txt", lines) end
end

-- What the policy holds at the end of a run of t.
function log:held(t)
  local holds = t.valid_automatic and validation.holds(t)
  if not holds or self.broken then return end
  local text = json.encode{at = t.history.step[#t.history.step], step = holds.step,
                           valid = holds.valid}
  local written, why = native.write_file(self.folder .. "/held.json", text .. "\n")
  if not written then self:fail(why) end
end

function log:close()
  if self.closed then return end
  self.closed = true
  self.lock:release()
end

log.__close = log.close

-- ---- reading ----

-- The lines of a file of one JSON object a line; a torn last line is left out.
local function objects(path)
  local list = {}
  local whole, torn = whole_lines(path)
  if not whole then define.fail("%s cannot be read: is it the folder of a run?", path) end
  if torn > 0 then complain("%s ends in a torn line of %d bytes, which is left out", path, torn) end
  for line in whole:gmatch("(.-)\n") do
    local object, wrong = json.decode(line)
    if type(object) ~= "table" then
      define.fail("%s, line %d: %s", path, #list + 1, wrong or "no object")
    end
    list[#list + 1] = object
  end
  return list
end

-- What was done by hand in the run whose log lies in the folder.
function log.read_actions(folder) return objects(folder .. "/actions.jsonl") end

-- What readers of logs compute with or show, by its place in config.json.
local kinds = {batch = "number", valid_contexts = "number", gradient = "table",
               ["gradient.samples"] = "number", ["gradient.k"] = "number",
               ["gradient.about"] = "string", device = "table", ["device.name"] = "string"}

-- What is wrong with a config.json, or nil.
local function wrong_in(config)
  if type(config) ~= "table" then return "it is no object" end
  for place, kind in pairs(kinds) do
    local outer, name = place:match("^(.-)%.?([^.]+)$")
    local inside = outer == "" and config or config[outer]
    local value = type(inside) == "table" and inside[name] or nil
    if value ~= nil and type(value) ~= kind then
      return ("%s must be %s"):format(place, kind == "table" and "an object" or "a " .. kind)
    end
  end
end

-- What held.json says, {step, valid}; nil if there is none, or records came after it.
local function read_held(folder, history)
  local f <close> = io.open(folder .. "/held.json", "r")
  if not f then return nil end
  local held, wrong = json.decode(f:read("a") or "")
  if type(held) ~= "table" or type(held.step) ~= "number" or type(held.valid) ~= "number" then
    define.fail("%s/held.json: %s", folder, wrong or "step and valid must be numbers")
  end
  local steps = history.step or {}
  return held.at == steps[#steps] and {step = held.step, valid = held.valid} or nil
end

-- {folder, config, history, holds}: the history by columns, NaN where there is no value.
function log.read(folder)
  local f <close> = io.open(folder .. "/config.json", "r")
  if not f then
    define.fail("%s is no folder of a run: it has no config.json; t:run{log = true} writes one",
                folder)
  end
  local config, wrong = json.decode(f:read("a") or "")
  wrong = config == nil and wrong or wrong_in(config)
  if wrong then define.fail("%s/config.json: %s", folder, wrong) end
  local history = {}
  for n, row in ipairs(objects(folder .. "/history.jsonl")) do
    for name, value in pairs(row) do
      if type(value) ~= "number" then
        define.fail("%s/history.jsonl, line %d: %s must be a number", folder, n, name)
      end
      history[name] = history[name] or {}
    end
    for name, list in pairs(history) do
      for i = #list + 1, n - 1 do list[i] = 0 / 0 end
      list[n] = row[name] or 0 / 0
    end
  end
  return {folder = folder, config = config, history = history, holds = read_held(folder, history)}
end

return log
