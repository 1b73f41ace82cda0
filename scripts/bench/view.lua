-- The cost of the live view, redrawn ten times a second, for screen.lua.
--
--   ./fopo scripts/bench/view.lua rounds=7 seconds=2
--
-- Runs with the view, with one thread: without a terminal (drawings are discarded), and in
-- pseudo-terminals of 80 x 24 and 200 x 60 (by script, of util-linux). A line is "L,screen,share of
-- the CPU time that was spent outside the steps,drawings a second", medians over the rounds.
local fopo = require "fopo"
local live = require "fopo.view.live"
local run = require "fopo.run.run"
local sources = require "fopo.view.sources"

package.path = (arg[0]:match("^(.*/)") or "./") .. "../tools/?.lua;" .. package.path
local script = require "script"

fopo.threads(1)
-- The word child and result=FILE dim=L start this script in a pseudo-terminal of its own.
local o, words = script.options{rounds = 7, seconds = 2, result = "", dim = 0}

local function trainer(dim)
  local s = fopo.data.synthetic{users = 4000, items = 20000, clusters = 50, seed = 1}
  s = s:sessions{min_items = 10, seed = 1}
  local items = fopo.embed.svd(s.train, {dim = dim})
  local q = fopo.proposal.mixture{index = fopo.index.norm(items), k = 256}
  return fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train, seed = 1,
                      valid = false,
                      gradient = fopo.gradient.snis{samples = 1000, proposal = q}}
end

-- "own share,drawings a second" of runs; show(run) shows one and returns both.
local function cost(t, show)
  local start = fopo.clock()
  t:run{steps = 200, view = false}
  local steps = math.max(10, math.floor(200 / (fopo.clock() - start) * o.seconds))
  local own, drawn, columns = {}, {}, {}
  for name in pairs(t.history) do columns[#columns + 1] = name end
  for i = 1, o.rounds do
    local r <close> = run.new(t, {steps = steps, every = steps, keep_best = false}, columns)
    own[i], drawn[i] = show(sources.of_run(r))
    r:finish()
  end
  return ("%.4f,%.1f"):format(script.median(own), script.median(drawn))
end

if words[1] == "child" then
  local result <close> = io.open(o.result, "w")
  result:write(cost(trainer(o.dim), function(source) return live.run(source, {}) end))
  return
end

local function headless(source) return live.headless(source, {rows = 24, cols = 80}) end

local function in_terminal(rows, cols, dim)
  local path = os.tmpname()
  local command = "stty rows %d cols %d; TERM=xterm-256color %s %s child rounds=%d seconds=%g "
                  .. "result=%s dim=%d"
  command = command:format(rows, cols, arg[-1], arg[0], o.rounds, o.seconds, path, dim)
  os.execute(("script -qec '%s' /dev/null >/dev/null"):format(command))
  local f <close> = io.open(path, "r")
  local line = f:read("a")
  os.remove(path)
  return line
end

for _, dim in ipairs{10, 100} do
  print(("%d,none,%s"):format(dim, cost(trainer(dim), headless)))
  if os.execute("command -v script >/dev/null") then
    print(("%d,80 x 24,%s"):format(dim, in_terminal(24, 80, dim)))
    print(("%d,200 x 60,%s"):format(dim, in_terminal(60, 200, dim)))
  else
    print("skip: terminals (script, of util-linux, is not installed)")
  end
end
