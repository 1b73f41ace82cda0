-- The cost of the live view, redrawn ten times a second: steps with it against steps without.
--
--   ./fopo scripts/bench/view.lua [rows] [name=value ...]
--
-- Cost: about 3 minutes on two cores. Quick: rounds=1 seconds=0.2
--
-- Runs with and without the view take turns in one process, with one thread: without a terminal
-- (drawings are discarded), and in pseudo-terminals of 80 x 24 and 200 x 60 (by script, of
-- util-linux). A row has the steps a second of both, the medians over the rounds of the ratios of
-- their wall time and of their CPU time (targets: at most 1.01), the share of the CPU time that was
-- spent outside the steps (target: at most 0.01), which other load affects least, and the drawings
-- a second. rows: prints only "L,screen,own CPU,draws/s" (make bench).
--
-- Options (defaults):
--   rounds=7          rounds of every measurement
--   seconds=2         seconds of a round
local fopo = require "fopo"
local live = require "fopo.view.live"
local run = require "fopo.run.run"
local sources = require "fopo.view.sources"

package.path = (arg[0]:match("^(.*/)") or "./") .. "../tools/?.lua;" .. package.path
local script = require "script"
local median = script.median

fopo.threads(1)
-- The words child, result=FILE and dim=L start this script in a pseudo-terminal of its own.
local o, words = script.options{rounds = 7, seconds = 2, result = "", dim = 0}
local child, rows_only = words[1] == "child", words[1] == "rows"
local rounds, seconds = o.rounds, o.seconds

local function trainer(dim)
  local s = fopo.data.synthetic{users = 4000, items = 20000, clusters = 50, seed = 1}
  s = s:sessions{min_items = 10, seed = 1}
  local items = fopo.embed.svd(s.train, {dim = dim})
  local q = fopo.proposal.mixture{index = fopo.index.norm(items), k = 256}
  return fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train, seed = 1,
                      valid = false,
                      gradient = fopo.gradient.snis{samples = 1000, proposal = q}}
end

-- Wall and CPU seconds of a step.
local function measure(steps, f)
  local wall, cpu = fopo.clock(), os.clock()
  f()
  return {wall = (fopo.clock() - wall) / steps, cpu = (os.clock() - cpu) / steps}
end

-- "plain rate, view rate, wall ratio, cpu ratio, own share, drawings" of runs in turn. show(t, o)
-- runs with the view and returns the view's share and its drawings a second.
local function compare(t, show)
  local rate = 200 / measure(1, function() t:run{steps = 200, view = false} end).wall
  local steps = math.max(10, math.floor(rate * seconds))
  local plain, shown, wall, cpu, own, drawn = {}, {}, {}, {}, {}, {}
  for i = 1, rounds do
    local a = measure(steps, function() t:run{steps = steps, every = steps, view = false} end)
    local b = measure(steps, function()
      own[i], drawn[i] = show(t, {steps = steps, every = steps, keep_best = false})
    end)
    plain[i], shown[i], wall[i], cpu[i] = 1 / a.wall, 1 / b.wall, b.wall / a.wall, b.cpu / a.cpu
  end
  return ("%.0f %.0f %.4f %.4f %.4f %.1f"):format(median(plain), median(shown), median(wall),
                                                  median(cpu), median(own), median(drawn))
end

local columns = {}
for name in pairs(trainer(8).history) do columns[#columns + 1] = name end

if child then
  local result <close> = io.open(o.result, "w")
  local function show(t, run_options)
    local r <close> = run.new(t, run_options, columns)
    local share, drawn = live.run(sources.of_run(r), {})
    r:finish()
    return share, drawn
  end
  result:write(compare(trainer(o.dim), show))
  return
end

local function headless(t, run_options)
  local r <close> = run.new(t, run_options, columns)
  local share, drawn = live.headless(sources.of_run(r), {rows = 24, cols = 80})
  r:finish()
  return share, drawn
end

local function in_terminal(rows, cols, dim)
  local path = os.tmpname()
  local command = "stty rows %d cols %d; TERM=xterm-256color %s %s child rounds=%d seconds=%g "
                  .. "result=%s dim=%d"
  command = command:format(rows, cols, arg[-1], arg[0], rounds, seconds, path, dim)
  os.execute(("script -qec '%s' /dev/null >/dev/null"):format(command))
  local f <close> = io.open(path, "r")
  local line = f:read("a")
  os.remove(path)
  return line
end

local table_of = {{"L", "screen", "steps/s", "with view", "wall", "CPU", "own CPU", "draws/s"}}
local function row(dim, name, line)
  local cells = {tostring(dim), name}
  for word in line:gmatch("%S+") do cells[#cells + 1] = word end
  table_of[#table_of + 1] = cells
  if rows_only then print(("%s,%s,%s,%s"):format(cells[1], cells[2], cells[7], cells[8])) end
end
for _, dim in ipairs{10, 100} do
  row(dim, "none", compare(trainer(dim), headless))
  if os.execute("command -v script >/dev/null") then
    row(dim, "80 x 24", in_terminal(24, 80, dim))
    row(dim, "200 x 60", in_terminal(60, 200, dim))
  else
    print("skip: terminals (script, of util-linux, is not installed)")
  end
end
if not rows_only then print(fopo.report.table(table_of)) end
