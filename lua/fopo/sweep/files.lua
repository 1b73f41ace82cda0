-- What is made of the rows of a sweep at its end, in its folder: tables, pictures, and the files of
-- TensorBoard.
local define = require "fopo.base.define"
local events = require "fopo.run.events"
local native = require "fopo.native"
local plan = require "fopo.sweep.plan"
local plot = require "fopo.plot"
local result = require "fopo.sweep.result"

local files = {}

local function write(path, text)
  local done, why = native.write_file(path, text)
  if not done then define.fail("fopo.experiment.sweep: %s", why) end
end

-- ---- pictures ----

local MOST = 60 -- bars or curves that can still be told apart

local function pictures(folder, r)
  local x, drawn = result.abscissa(r), {}
  local function draw(name, series)
    if #series > 0 and #series <= MOST and #(series.labels or {}) <= MOST then
      drawn[#drawn + 1] = {("%s/%s.svg"):format(folder, name), series}
    end
  end
  for _, name in ipairs(x and r.lists or {}) do
    if name ~= x then draw(name .. "-curves", result.curves(r, name, x)) end
  end
  for _, name in ipairs(#r.names > 0 and r.measures or {}) do draw(name, result.bars(r, name)) end
  for _, one in ipairs(drawn) do -- the rows are worth more than a picture of them
    local ok, why = pcall(plot.save, table.unpack(one))
    if not ok then
      io.stderr:write(("fopo: no picture %s: %s\n"):format(one[1], why))
      return
    end
  end
end

-- ---- TensorBoard ----

-- The scalars of a row: lists over their steps, numbers at the last one.
local function scalars(row, known)
  local parts, steps, last = {}, type(row.step) == "table" and row.step, 0
  local names = {}
  for name, v in pairs(row) do
    local kind = type(v)
    if not known[name] and name ~= "step" and (kind == "number" or kind == "table") then
      names[#names + 1] = name
    end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    for i, v in ipairs(type(row[name]) == "table" and row[name] or {}) do
      local step = steps and steps[i + #steps - #row[name]] or i
      step = math.max(0, math.floor(step))
      last = math.max(last, step)
      parts[#parts + 1] = events.scalars(os.time(), step, {{name, v}})
    end
  end
  for _, name in ipairs(names) do
    if type(row[name]) == "number" then
      parts[#parts + 1] = events.scalars(os.time(), last, {{name, row[name]}})
    end
  end
  return table.concat(parts)
end

-- A folder for each run, named by what differs, with one file that is written anew.
local function tensorboard(folder, p, rows, r)
  local known = {}
  for _, name in ipairs(p.names) do known[name] = true end
  for _, run in ipairs(p.runs) do
    local row = rows[run.key]
    if row then
      local group = plan.words(run.row, r.names)
      local name = ("%s seed %s"):format(group, run.row.seed):gsub("[^%w.=_-]+", "-")
      if r.several then name = run.row.split:match("^%d+") .. "-" .. name end
      local path = ("%s/tensorboard/%s"):format(folder, name:gsub("^%-", ""))
      local made, why = native.make_folder(path)
      if not made then define.fail("fopo.experiment.sweep: %s", why) end
      local first, last = events.session(os.time(), {settings = run.row,
        group = group ~= "" and group or "all", failed = row.error ~= nil})
      write(path .. "/events.out.tfevents.sweep",
            events.head(os.time()) .. first .. scalars(row, known) .. last)
    end
  end
end

-- p: the plan; rows: by key; r: the result of both.
function files.write(folder, p, rows, r)
  if #r.measures > 0 then
    write(folder .. "/table.csv", result.csv(r))
    write(folder .. "/table.md", result.markdown(r))
    write(folder .. "/table.tex", result.latex(r))
    pictures(folder, r)
  end
  tensorboard(folder, p, rows, r)
end

return files
