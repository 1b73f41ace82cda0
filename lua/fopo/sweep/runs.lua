-- Makes the runs of a sweep, one after another or in processes of their own, and keeps each row.
local csv = require "fopo.base.csv"
local define = require "fopo.base.define"
local events = require "fopo.run.events"
local interrupt = require "fopo.base.interrupt"
local native = require "fopo.native"
local term = require "fopo.term"

local runs = {}
runs.__index = runs

-- Files of a run that has not ended lie at this path and those that begin with it.
local function path_of(s, run)
  return ("%s/run-%08x"):format(s.store.folder, events.crc32c(run.key))
end

-- s: {run = function(settings, my), store =, plan =, jobs =}, and what may be nil: prepare(runs),
-- called before there are processes, and show(s, run, said).
function runs.new(s)
  s.todo, s.busy, s.made, s.spent = {}, {}, 0, {}
  for _, run in ipairs(s.plan.runs) do
    local row = s.store.rows[run.key]
    if not row or row.error then s.todo[#s.todo + 1] = run end
    if row then os.remove(path_of(s, run) .. ".npz") end -- killed between the two
    os.remove(path_of(s, run) .. ".csv") -- of a process whose parent was killed
  end
  s.began = native.clock()
  return setmetatable(s, runs)
end

local function machine()
  return ("fopo %s, kernels %s, %d threads"):format(native.version, (native.isa()),
                                                   native.threads())
end

-- The rows that there are, in the order of the plan.
function runs:rows()
  local list = {}
  for _, run in ipairs(self.plan.runs) do list[#list + 1] = self.store.rows[run.key] end
  return list
end

-- ---- one run ----

local function checked(run, found)
  if type(found) == "number" then found = {value = found} end
  if type(found) ~= "table" then
    define.fail("run must return a table of numbers by name, {reward = 0.3}, not %s",
                define.a(found))
  end
  for name, v in pairs(found) do
    local kind = type(v)
    if run.row[name] ~= nil then
      define.fail("run returns %s, which is the name of a setting; name it otherwise", name)
    end
    if type(name) ~= "string" or not name:find("^[%a_][%w_@.-]*$") then
      define.fail("run returns %s, which is no name of a column", define.shown(name))
    end
    local is_list = kind == "table" and (#v > 0 or next(v) == nil)
    if kind ~= "number" and kind ~= "string" and kind ~= "boolean" and not is_list then
      define.fail("run returns %s = %s; a row holds numbers, lists of numbers and words", name,
                  define.a(v))
    end
    for i, x in ipairs(kind == "table" and v or {}) do
      if type(x) ~= "number" then
        define.fail("run returns %s[%d] = %s, not a number", name, i, define.shown(x))
      end
    end
  end
  return found
end

-- The row of a run; of one that fails its settings and the sentence. Ctrl-C is raised.
local function make(s, run)
  local settings, row = {}, {}
  for name, value in pairs(run.settings) do settings[name] = value end
  for name, word in pairs(run.row) do row[name] = word end
  local began = native.clock()
  local my = {path = path_of(s, run) .. ".npz", rows = s:rows(), say = function(said)
    if s.show then s:show(run, said) end
  end}
  local ok, found = pcall(function() return checked(run, s.run(settings, my)) end)
  if not ok and interrupt.is(found) then error(found, 0) end
  if ok then
    for name, v in pairs(found) do row[name] = v end
  else
    row.error = tostring(found):gsub("^fopo/[^:]*:%d+: ", "")
  end
  row.seconds = row.seconds or native.clock() - began
  row.machine = row.machine or machine()
  return row
end

-- The row is on disk, and what the unfinished run had is gone.
local keep = term.atomic(function(s, run, row, seconds)
  s.store:add(run.key, row)
  os.remove(path_of(s, run) .. ".npz")
  s.made = s.made + 1
  s.spent[#s.spent + 1] = seconds
end)

local function ended(s, run, row, seconds)
  keep(s, run, row, seconds)
  if s.show then s:show(run) end
end

-- ---- processes ----

-- In the child: the row goes into a file. The parent alone shows the sweep.
local in_child = term.divisible(function(s, run)
  s.show = nil
  local row, names = make(s, run), {}
  for name in pairs(row) do names[#names + 1] = name end
  local done, why = native.write_file(path_of(s, run) .. ".csv",
                                      csv.head(names) .. csv.line(names, row))
  if not done then io.stderr:write("fopo: ", why, "\n") end
  native.leave(done and 0 or 1)
end)

-- Atomic, so that Ctrl-C neither loses a child nor lets one go on as the parent.
local start = term.atomic(function(s, run)
  local child = native.fork(math.max(1, native.threads() // s.jobs))
  if child == 0 then
    local _ <close> = setmetatable({}, {__close = native.leave})
    in_child(s, run)
  end
  s.busy[#s.busy + 1] = {child = child, run = run, began = native.clock()}
end)

local ended_by = {[139] = "it crashed", [137] = "it was killed: was there enough memory?"}

-- The row that a child has left; of one that could not, why.
local function row_of(s, one, code)
  local path = path_of(s, one.run) .. ".csv"
  local rows = csv.read(path)
  os.remove(path)
  if code == 0 and rows and rows[1] then return rows[1] end
  if code == 130 then define.fail("interrupted: a process of the sweep was") end
  local row = {error = ("its process ended with status %d%s"):format(code,
    ended_by[code] and "; " .. ended_by[code] or ""), machine = machine()}
  for name, word in pairs(one.run.row) do row[name] = word end
  return row
end

-- Takes a process that has ended, if one has. Atomic, so that Ctrl-C does not lose its row.
local take = term.atomic(function(s)
  for i = #s.busy, 1, -1 do
    local one = s.busy[i]
    local code = native.ended(one.child)
    if code then
      table.remove(s.busy, i)
      ended(s, one.run, row_of(s, one, code), native.clock() - one.began)
      return true
    end
  end
end)

local function collect(s)
  if not take(s) then native.sleep(0.01) end
end

local function refuse_jobs(s)
  for _, job in ipairs(require("fopo.run.job").list()) do
    if not job.ended then
      define.fail("fopo.experiment.sweep: jobs = %d cannot be while a job of t:start trains in "
                  .. "this program; wait for it, or use jobs = 1", s.jobs)
    end
  end
end

-- ---- all runs ----

function runs:all()
  if self.jobs > 1 then
    refuse_jobs(self)
    if self.prepare then self.prepare(self.todo) end
  end
  for _, run in ipairs(self.todo) do
    if self.jobs == 1 then
      local began = native.clock()
      ended(self, run, make(self, run), native.clock() - began)
    else
      while #self.busy >= self.jobs do collect(self) end
      start(self, run)
    end
  end
  while #self.busy > 0 do collect(self) end
end

-- Ends the processes that still run.
function runs:abandon()
  for _, one in ipairs(self.busy) do native.stop(one.child) end
  self.busy = {}
end

-- The seconds that are left, by the mean of the runs so far; nil before the first.
function runs:left()
  if #self.spent == 0 then return nil end
  local sum = 0
  for _, seconds in ipairs(self.spent) do sum = sum + seconds end
  return sum / #self.spent * (#self.todo - self.made) / self.jobs
end

return runs
