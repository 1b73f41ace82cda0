-- What an experiment keeps on disk: its rows in the table of all results (common.lua has the form),
-- and an unfinished run.
local fopo = require "fopo"
local script = require "script"

local kept = {}

local group = {"world", "source", "experiment", "items", "contexts", "test", "machine", "settings"}
local configuration = {"method", "dim", "embedding", "temperature", "lr", "k", "samples", "epsilon",
                       "index", "learnt", "seed"}
local records = {"epoch", "step", "seconds", "ms_step", "reward", "low", "high", "expected",
                 "effective"}
kept.configuration = configuration

local of_run = {} -- the columns that have one value a run; the others have one a record
for _, names in ipairs{group, configuration} do
  for _, name in ipairs(names) do of_run[name] = true end
end

function kept.key(c)
  local parts = {}
  for i, name in ipairs(configuration) do
    local v = c[name]
    parts[i] = type(v) == "number" and ("%.9g"):format(v) or tostring(v or "")
  end
  return table.concat(parts, "|")
end

-- ---- the table

-- A column of a run's records as one field. The first records may lack it: what is measured at the
-- end only, and ms_step of step 0.
local function field_of(rows, name)
  local list = {}
  for _, row in ipairs(rows) do
    local v = row[name]
    assert(v or #list == 0, name)
    if v then list[#list + 1] = math.type(v) == "float" and ("%.9g"):format(v) or v end
  end
  return #list > 0 and table.concat(list, " ") or nil
end

-- A line of the table as the rows of its records.
local function rows_of(line)
  local lists, n, rows = {}, 0, {}
  for name, v in pairs(line) do
    if not of_run[name] then
      local list = {}
      for word in tostring(v):gmatch("%S+") do list[#list + 1] = tonumber(word) end
      lists[name], n = list, math.max(n, #list)
    end
  end
  for i = 1, n do
    rows[i] = {}
    for name in pairs(of_run) do rows[i][name] = line[name] end
    for name, list in pairs(lists) do rows[i][name] = list[i - n + #list] end
  end
  return rows
end

local function name_of(g) return g.world .. g.source .. g.experiment .. g.settings end

-- The place of a group in the list, or that behind its end.
local function found_in(groups, group_or_line)
  local i = 1
  while groups[i] and name_of(groups[i]) ~= name_of(group_or_line) do i = i + 1 end
  return i
end

-- What the table at a path has of each experiment in each world, {world =, source =, experiment =,
-- settings =, machine =, rows =}; nothing if there is no such file.
function kept.groups(path)
  local groups = {}
  for _, line in ipairs(script.read_csv(path) or {}) do
    local i, rows = found_in(groups, line), rows_of(line)
    if not groups[i] then
      groups[i] = {rows = {}}
      for _, name in ipairs(group) do groups[i][name] = line[name] end
    end
    table.move(rows, 1, #rows, #groups[i].rows + 1, groups[i].rows)
  end
  return groups
end

-- The lines of a group, one for each run.
local function lines_of(g, columns)
  local runs, lines = {}, {}
  for _, row in ipairs(g.rows) do
    local key = kept.key(row)
    if not runs[key] then
      runs[key] = {}
      lines[#lines + 1] = {rows = runs[key]}
    end
    table.insert(runs[key], row)
  end
  for _, line in ipairs(lines) do
    for _, name in ipairs(columns) do
      if of_run[name] then line[name] = line.rows[1][name]
      else line[name] = field_of(line.rows, name) end
    end
    for _, name in ipairs(group) do line[name] = g[name] or line[name] end
  end
  return lines
end

function kept.write(path, groups)
  local columns, known, own = {}, {}, {}
  for _, names in ipairs{group, configuration, records} do
    for _, name in ipairs(names) do columns[#columns + 1], known[name] = name, true end
  end
  for _, g in ipairs(groups) do
    for name in pairs(g.rows[1] or {}) do
      if not known[name] then own[#own + 1], known[name] = name, true end
    end
  end
  table.sort(own)
  table.move(own, 1, #own, #columns + 1, columns)
  local lines = {}
  for _, g in ipairs(groups) do
    local some = lines_of(g, columns)
    table.move(some, 1, #some, #lines + 1, lines)
  end
  script.csv(path, columns, lines)
end

-- ---- the rows of one experiment

-- "name=value ...", sorted, of what holds for all rows.
local function settings_of(e, o)
  local list = {}
  for _, name in ipairs(e.settings) do
    local v = o[name]
    list[#list + 1] = name .. "=" .. (type(v) == "number" and ("%.9g"):format(v) or tostring(v))
  end
  for _, name in ipairs{"batch", "min_items", "power_iterations", "split_seed", "test"} do
    list[#list + 1] = ("%s=%g"):format(name, o[name])
  end
  table.sort(list)
  return table.concat(list, " ")
end

local file = {}
file.__index = file

-- The rows that the table in the folder has of an experiment in a world, to add to.
function kept.open(e, found, o)
  local f = {path = o.out .. "/results.csv", start = ("%s/%s-%s"):format(o.out, e.name, found.name),
             world = found.name, source = found.source, experiment = e.name, rows = {}, done = {},
             settings = settings_of(e, o), machine = ("fopo %s, kernels %s, %d threads"):format(
               fopo.version, (fopo.isa()), fopo.threads())}
  local groups, other = kept.groups(f.path), nil
  for _, g in ipairs(groups) do
    if g.world == f.world and g.experiment == f.experiment then other = g end
  end
  local own = groups[found_in(groups, f)]
  if own then
    f.rows, f.machine = own.rows, own.machine
  elseif other then
    script.misuse("%s in %s was made with other settings:\n  %s; %s\nand these are\n  %s; %s\n"
      .. "Give out=FOLDER for these, or remove its rows", f.experiment, f.path, other.source,
      other.settings, f.source, f.settings)
  end
  for _, row in ipairs(f.rows) do f.done[kept.key(row)] = true end
  return setmetatable(f, file)
end

-- The table is read again: another experiment may have added to it.
function file:add(rows)
  for _, row in ipairs(rows) do
    self.rows[#self.rows + 1] = row
    self.done[kept.key(row)] = true
  end
  local groups = kept.groups(self.path)
  groups[found_in(groups, self)] = self
  kept.write(self.path, groups)
end

-- ---- an unfinished run

local keep = {}
keep.__index = keep

-- What keeps the run of one configuration, at most once in so many seconds.
function kept.run(f, key, seconds)
  return setmetatable({start = f.start .. ".part", key = key, seconds = seconds,
                       last = fopo.clock()}, keep)
end

-- Takes up the run of this configuration where there is one: its rows up to then.
function keep:resume(t)
  local rows, comment = script.read_csv(self.start .. ".csv")
  if not rows or comment ~= "# " .. self.key .. "\n" then return nil end
  local resumed, why = pcall(t.resume, t, self.start .. ".npz")
  if not resumed then
    io.stderr:write(("starts this run again: %s\n"):format(why))
    return nil
  end
  while #rows > 0 and rows[#rows].step > t.step do table.remove(rows) end
  io.stderr:write(("goes on at step %d, kept in %s.npz\n"):format(t.step, self.start))
  return rows
end

-- Steps of the trainer in the time between two writes.
function keep:steps(t)
  if t.step == 0 then return 20 end
  return math.max(1, math.floor(self.seconds * t.step / math.max(t.seconds, 1e-6)))
end

function keep:save(t, rows)
  if fopo.clock() - self.last < self.seconds then return end
  script.csv(self.start .. ".csv", records, rows, "# " .. self.key .. "\n")
  t:save(self.start .. ".npz")
  self.last = fopo.clock()
end

function keep:remove()
  os.remove(self.start .. ".csv")
  os.remove(self.start .. ".npz")
end

return kept
