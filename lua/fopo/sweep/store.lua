-- The rows of a sweep on disk, results.csv in its folder: a line a run, on the disk when the run
-- has ended. The columns up to `seed` are the settings. Of a run that was made twice, as after a
-- failure, the last line counts. Rows of other settings stay in the file.
local csv = require "fopo.base.csv"
local define = require "fopo.base.define"
local lock = require "fopo.run.lock"
local native = require "fopo.native"
local plan = require "fopo.sweep.plan"

local store = {}
store.__index = store

local function complain(format, ...) io.stderr:write("fopo: ", format:format(...), "\n") end

local function must(done, why)
  if not done then define.fail("fopo.experiment.sweep: %s", why) end
end

-- The text of the file, without a last line that does not end: its process was killed.
local function whole_text(path)
  local f <close> = io.open(path, "rb")
  local all = f and f:read("a") or ""
  local whole = all:match("^.*\n") or ""
  if #whole < #all then
    must(native.write_file(path, whole))
    complain("%s ended in a torn line of %d bytes, which is taken away: its run is made again",
             path, #all - #whole)
  end
  return whole
end

-- How many columns are settings: those up to `seed`.
local function settings_in(columns, path)
  for i, name in ipairs(columns) do if name == "seed" then return i end end
  if #columns > 0 then
    define.fail("fopo.experiment.sweep: %s has no column seed, so it is no table of a sweep; name "
                .. "another folder", path)
  end
  return 0
end

-- What a list of other rows has that the plan has not, as "steps 500; lr 0.1".
local function strange(others, columns, p)
  local planned, found, list = {}, {}, {}
  for _, run in ipairs(p.runs) do
    for _, name in ipairs(columns) do
      planned[name .. " " .. csv.field(run.row[name])] = true
    end
  end
  for _, row in ipairs(others) do
    for _, name in ipairs(columns) do
      local word = name .. " " .. csv.field(row[name])
      if not planned[word] and not found[word] then
        found[word], list[#list + 1] = true, row[name] == nil and "no " .. name or word
      end
    end
  end
  if #list == 0 then return "other combinations of them" end
  return table.concat(list, "; ", 1, math.min(4, #list)) .. (#list > 4 and " ..." or "")
end

local function read(s, p)
  local rows, columns = csv.parse(whole_text(s.path))
  local n = settings_in(columns, s.path)
  s.columns, s.settings = columns, table.move(columns, 1, n, 1, {})
  local others = {}
  for _, row in ipairs(rows) do
    local key = plan.key(row, s.settings)
    if p.by_key[key] then s:take(key, row) else others[#others + 1] = row end
  end
  if #others > 0 then
    complain("%s has %d row%s of other settings (%s): they stay there and are not shown", s.path,
             #others, #others == 1 and "" or "s", strange(others, s.settings, p))
  end
end

-- Opens the folder for the runs of a plan. s.rows has what is there of them, by key.
function store.open(folder, p)
  must(native.make_folder(folder))
  local s = setmetatable({path = folder .. "/results.csv", folder = folder, rows = {},
                          names = p.names}, store)
  s.lock = lock.take(folder .. "/lock", "the sweep " .. folder, "name another folder, or end it")
  local ok, why = pcall(read, s, p)
  if not ok then
    s:close()
    error(why, 0)
  end
  return s
end

-- Takes a row as the file gives it back.
function store:take(key, row)
  for name, v in pairs(row) do row[name] = csv.list(v) end
  self.rows[key] = row
end

-- The columns with those of a row that they lack: settings before `seed`, the others at the end.
local function wider(self, row)
  local known, settings, more = {}, {}, {}
  for _, name in ipairs(self.columns) do known[name] = true end
  for _, name in ipairs(self.names) do
    if not known[name] then settings[#settings + 1], known[name] = name, true end
  end
  for name in pairs(row) do if not known[name] then more[#more + 1] = name end end
  if #settings + #more == 0 then return nil end
  table.sort(more)
  local at = math.max(0, #self.settings - 1)
  local list = table.move(self.columns, 1, at, 1, {})
  table.move(settings, 1, #settings, #list + 1, list)
  table.move(self.columns, at + 1, #self.columns, #list + 1, list)
  return table.move(more, 1, #more, #list + 1, list)
end

-- Writes the file anew with more columns.
local function widen(self, columns)
  local lines = {csv.head(columns)}
  for _, row in ipairs((csv.read(self.path) or {})) do
    lines[#lines + 1] = csv.line(columns, row)
  end
  must(native.write_file(self.path, table.concat(lines)))
  self.columns = columns
  self.settings = table.move(columns, 1, settings_in(columns, self.path), 1, {})
end

-- Adds the row of a run.
function store:add(key, row)
  local columns = wider(self, row)
  if columns then widen(self, columns) end
  local line = csv.line(self.columns, row)
  must(native.append_file(self.path, line, true))
  self:take(key, csv.parse(csv.head(self.columns) .. line)[1])
end

function store:close() self.lock:release() end

store.__close = store.close

return store
