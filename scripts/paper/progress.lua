-- The progress of an experiment on stderr: a line a run, with the time that is left.
local script = require "script"

local progress = {}
progress.__index = progress

-- Of an experiment and the configurations that it is to run.
function progress.new(e, todo)
  return setmetatable({name = e.name, todo = todo, spent = {}}, progress)
end

-- The seconds that a configuration took, or will take like others of its method and dim.
local function class_of(c) return ("%s %s"):format(c.method, c.dim) end

function progress:left(from)
  local total, count = 0, 0
  for _, s in pairs(self.spent) do total, count = total + s[1], count + s[2] end
  if count == 0 then return nil end
  local left = 0
  for i = from, #self.todo do
    local s = self.spent[class_of(self.todo[i])]
    left = left + (s and s[1] / s[2] or total / count)
  end
  return left
end

local function about(c)
  local parts = {c.method}
  for _, name in ipairs{"dim", "epsilon", "k", "samples", "lr", "embedding", "temperature"} do
    parts[#parts + 1] = c[name] and ("%s %s"):format(name, c[name])
  end
  return table.concat(parts, ", ") .. ", seed " .. c.seed
end

local on_terminal = os.execute("test -t 2")

-- One line, replaced by the next, while a run goes on.
function progress:within(c, row, last)
  if not on_terminal then return end
  local share = last and last < math.huge and (" %.0f %%"):format(100 * row.step / last) or ""
  io.stderr:write(("\r\27[K%s: %s:%s, reward %.4f"):format(self.name, about(c), share, row.reward))
end

-- The result of a run: its last row, nil if it has none.
local function result(row)
  if not row then return "left out, " end
  return row.reward and ("reward %.4f, "):format(row.reward)
         or ("%.3f ms/step, "):format(row.ms_step)
end

function progress:one(i, c, seconds, row)
  local s = self.spent[class_of(c)] or {0, 0}
  self.spent[class_of(c)] = {s[1] + seconds, s[2] + 1}
  local left = self:left(i + 1)
  io.stderr:write(("%s%s: %d of %d: %s: %s%s, %s left\n"):format(
    on_terminal and "\r\27[K" or "", self.name, i, #self.todo, about(c),
    result(row), script.duration(seconds), script.duration(left)))
end

return progress
