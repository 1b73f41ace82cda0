-- fopo.experiment.sweep: shows the runs as they end, and what was found.
local define = require "fopo.base.define"
local files = require "fopo.sweep.files"
local interrupt = require "fopo.base.interrupt"
local plan = require "fopo.sweep.plan"
local result = require "fopo.sweep.result"
local runs = require "fopo.sweep.runs"
local sealed = require "fopo.base.sealed"
local standard = require "fopo.sweep.standard"
local store = require "fopo.sweep.store"
local term = require "fopo.term"
local text = require "fopo.base.text"

-- ---- the result ----

local function as_text(found)
  local r = sealed.behind(found).result
  local lines = {result.text(r)}
  table.move(result.notes(r), 1, 5, 2, lines)
  if found.interrupted then
    lines[#lines + 1] = "stopped; the same call goes on from here"
  end
  lines[#lines + 1] = "in " .. found.folder
  return table.concat(lines, "\n")
end

local meta = sealed.kind({__name = "fopo.swept", __tostring = as_text, describe = as_text}, {
  what = "result of fopo.experiment.sweep", letter = "found", hidden = {"result"},
  remedy = "it is what the runs gave; fopo.experiment.sweep{...} makes more",
  known = {"best", "interrupted"},
})

local function settings_of(r)
  if not r.best then return nil end
  local best = {}
  for name, word in pairs(r.best.row) do
    if name ~= "seed" and name ~= "split" then best[name] = word end
  end
  return best
end

local function result_of(s, o, interrupted)
  local r = result.of(s.plan, s.store.rows, o)
  return sealed.new(meta, {result = r, rows = s:rows(), best = settings_of(r), failed = r.failed,
                           folder = o.out, interrupted = interrupted})
end

-- ---- while it runs ----

local function left(s)
  local seconds = s:left()
  if s.made == #s.todo then return "none left" end
  return seconds and text.seconds(seconds) .. " left" or "the first runs"
end

-- A line for each run that has ended.
local function say_line(o)
  return function(s, run, said)
    if said then return end
    local row = s.store.rows[run.key]
    local one = {runs = {run}, names = s.plan.names}
    local first = o.measures and o.measures[1] or result.measures(one, s.store.rows)[1]
    local value = row.error or first and row[first] or nil
    if type(value) == "table" then value = value[#value] end
    if type(value) == "number" then value = ("%s %.4g"):format(first, value) end
    io.stderr:write(("sweep %d of %d: %s, seed %s: %s, %s\n"):format(s.made, #s.todo,
      plan.words(run.row, plan.varied(s.plan.runs, s.plan.names)), run.row.seed, value or "done",
      left(s)))
  end
end

-- The table so far, drawn over the last one.
local function draw_table(o)
  local drawn = 0
  return function(s, run, said)
    local lines, most = {}, term.height() - 2
    lines[1] = ("sweep: %d of %d runs, %s%s"):format(s.made, #s.todo, left(s),
                                                    said and "; " .. said or "")
    local shown = result.text(result.of(s.plan, s.store.rows, o))
    for line in shown:gmatch("[^\n]+") do
      if #lines < most then lines[#lines + 1] = text.cut(line, term.width() - 1) end
    end
    io.write(drawn > 0 and ("\27[%dA\27[J"):format(drawn) or "", table.concat(lines, "\n"), "\n")
    io.stdout:flush()
    drawn = #lines
    return run
  end
end

local function splits_of(split)
  if define.kind(split) == "split" then return {split} end
  if split and #split == 0 then
    define.fail("fopo.experiment.sweep: split is an empty list; give d:sessions{...}, or several")
  end
  for i, one in ipairs(split or {}) do
    if define.kind(one) ~= "split" then
      define.fail("fopo.experiment.sweep: split[%d] is %s, not a split of sessions", i,
                  define.a(one))
    end
  end
  return split
end

local function check_lists(o)
  for i, seed in ipairs(type(o.seeds) == "table" and o.seeds or {}) do
    if math.type(seed) ~= "integer" then
      define.fail("fopo.experiment.sweep: seeds[%d] is %s, not an integer", i, define.shown(seed))
    end
  end
  for i, name in ipairs(o.measures or {}) do
    if type(name) ~= "string" then
      define.fail("fopo.experiment.sweep: measures[%d] is %s, not the name of a measure", i,
                  define.shown(name))
    end
  end
end

return function(o)
  check_lists(o)
  local p = plan.of{over = o.over, seeds = o.seeds, splits = splits_of(o.split)}
  local run, prepare = o.run, nil
  if not run then
    run, prepare = standard.of({splits = splits_of(o.split), items = o.items, jobs = o.jobs}, p)
  end
  local st <close> = store.open(o.out, p)
  local s = runs.new{plan = p, store = st, jobs = o.jobs, run = run, prepare = prepare}
  if o.view then
    io.stderr:write(("sweep in %s: %d runs, %d of them kept\n"):format(o.out, #p.runs,
                                                                      #p.runs - #s.todo))
    s.show = term.is_tty() and draw_table(o) or say_line(o)
  end
  local interrupted = interrupt.ended(function() s:all() end, function() s:abandon() end)
  local found = result_of(s, o, interrupted)
  if o.report and not interrupted then
    files.write(o.out, p, st.rows, sealed.behind(found).result)
  end
  return found
end
