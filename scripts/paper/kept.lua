-- What an experiment keeps on disk: its CSV (common.lua has the form), and an unfinished run.
local fopo = require "fopo"
local script = require "script"

local kept = {}

local configuration = {"method", "dim", "embedding", "temperature", "lr", "k", "samples", "epsilon",
                       "index", "learnt", "seed"}
local records = {"epoch", "step", "seconds", "ms_step", "reward", "low", "high", "expected",
                 "effective"}
kept.configuration = configuration
kept.columns = {"experiment", "world", "items", "contexts", "test"}
table.move(configuration, 1, #configuration, #kept.columns + 1, kept.columns)
table.move(records, 1, #records, #kept.columns + 1, kept.columns)

local file = {}
file.__index = file

function kept.key(c)
  local parts = {}
  for i, name in ipairs(configuration) do
    local v = c[name]
    parts[i] = type(v) == "number" and ("%.9g"):format(v) or tostring(v or "")
  end
  return table.concat(parts, "|")
end

-- "# settings name=value ...", sorted, of what holds for all rows.
local function settings_line(e, found, o)
  local list = {}
  for _, name in ipairs(e.settings) do
    local v = o[name]
    list[#list + 1] = name .. "=" .. (type(v) == "number" and ("%.9g"):format(v) or tostring(v))
  end
  for _, name in ipairs{"batch", "min_items", "power_iterations", "split_seed", "test"} do
    list[#list + 1] = ("%s=%g"):format(name, o[name])
  end
  table.sort(list)
  return ("# settings %s; %s"):format(found.source, table.concat(list, " "))
end

local function machine_line()
  return ("# fopo %s, kernels %s, %d threads"):format(fopo.version, (fopo.isa()), fopo.threads())
end

-- The CSV of an experiment in a world, with the rows that it has.
function kept.open(e, found, o)
  local f = setmetatable({start = ("%s/%s-%s"):format(o.out, e.name, found.name), rows = {},
                          done = {}, columns = kept.columns}, file)
  if e.columns then
    f.columns = table.move(kept.columns, 1, #kept.columns, 1, {})
    table.move(e.columns, 1, #e.columns, #f.columns + 1, f.columns)
  end
  local settings = settings_line(e, found, o)
  local rows, comment = script.read_csv(f.start .. ".csv")
  if rows then
    -- the folders above a file's own say nothing of the rows
    comment = comment:gsub("(# settings )[^;\n]*/([^/;]+/[^/;]+;)", "%1%2", 1)
    local before = comment:match("# settings [^\n]*")
    if before ~= settings then
      script.misuse("%s.csv was made with other settings:\n  %s\nand these are\n  %s\n"
        .. "Give out=FOLDER for these, or remove the file", f.start, before or "none", settings)
    end
    f.rows, f.comment = rows, comment
    for _, row in ipairs(rows) do f.done[kept.key(row)] = true end
  end
  f.comment = f.comment or ("%s\n%s\n"):format(machine_line(), settings)
  return f
end

function file:add(rows)
  for _, row in ipairs(rows) do
    self.rows[#self.rows + 1] = row
    self.done[kept.key(row)] = true
  end
  script.csv(self.start .. ".csv", self.columns, self.rows, self.comment)
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
