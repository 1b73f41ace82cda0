-- What every section uses: other programs, measurements in turn, the machine, the table.
local fopo = require "fopo"
local script = require "script"
local text = require "fopo.base.text"
local bench = {folder = "runs/bench", rows = {}, notes = {}}
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local built, counter = {}, 0

-- ---- programs ----

function bench.say(...) io.stderr:write("  ", string.format(...), "\n") end

-- The first line that the command prints, or nil and what is wrong.
function bench.line_of(command)
  local p <close> = assert(io.popen(command, "r"))
  local line = p:read("l")
  return line, line == nil and ("no answer from: " .. command) or nil
end

-- "a,b,c" as a list, numbers as numbers.
local function split(line)
  local list = {}
  for field in (line .. ","):gmatch("([^,]*),") do list[#list + 1] = tonumber(field) or field end
  return list
end

-- Its values; it must have some.
function bench.values_of(command)
  local line, why = bench.line_of(command)
  return split(line or error(why, 0))
end

function bench.run(command)
  local ok, _, code = os.execute(command)
  if not ok then error(("%s: failed with code %s"):format(command, code), 0) end
end

-- Compiles a file of this folder for this machine and returns the program's path. `libraries` may
-- name further files; "src/..." is one of fopo's own.
function bench.program(file, libraries)
  local out = bench.folder .. "/bin/" .. file:gsub("%.%w+$", "")
  if not built[out] then
    bench.run("mkdir -p " .. bench.folder .. "/bin")
    local compiler = file:find("%.cc$") and "g++ -std=c++17" or "gcc -std=c11 -D_GNU_SOURCE"
    local src = here .. "../../src/"
    bench.run(("%s -O3 -march=native -fopenmp -pthread -I%s -o %s %s%s %s"):format(compiler, src,
      out, here, file, ((libraries or ""):gsub("%f[%w]src/", src))))
    built[out] = true
  end
  return out
end

-- The command that runs a Python file of this folder with as many threads as fopo.
function bench.script(file)
  local n = bench.options.threads
  return ("env OMP_NUM_THREADS=%d OPENBLAS_NUM_THREADS=%d %s %s%s"):format(n, n, script.python,
                                                                         here, file)
end
function bench.path(file) return here .. file end
bench.forget = os.remove

function bench.scaled(n) return math.max(2000, math.floor(n * bench.options.scale)) end

-- Writes items [P, L] with heavy-tailed norms; the path of the .npy, which bench.forget removes.
function bench.items_file(P, L)
  local path = ("%s/items-%d-%d.npy"):format(bench.folder, P, L)
  bench.run(("%s items %d %d 1 %s"):format(bench.program("world.c", "-lm"), P, L, path))
  return path
end

-- ---- workers: programs that answer one line to each line ----

local worker = {}
worker.__index = worker

-- Starts a worker; nil and why if the program cannot work here.
function bench.worker(command)
  counter = counter + 1
  local fifo = ("%s/answers-%d.fifo"):format(bench.folder, counter)
  bench.run(("rm -f %s; mkfifo %s"):format(fifo, fifo))
  local questions = assert(io.popen(("exec %s > %s"):format(command, fifo), "w"))
  local answers = assert(io.open(fifo, "r"))
  os.remove(fifo)
  local w = setmetatable({questions = questions, answers = answers, command = command}, worker)
  local first = split(answers:read("l") or "no answer")
  if first[1] ~= "ready" then
    w:stop()
    return nil, first[1] == "absent" and first[2] or command .. ": " .. first[1]
  end
  w.about = table.concat(first, ", ", 2)
  return w
end

-- Notes that a program is not compared with.
function bench.absent(what, package)
  bench.note("%s skipped: %s is absent; PYTHON= may name an interpreter that has it", what, package)
end

-- The worker of a Python file of this folder, or nil and a note.
function bench.python(what, file, words)
  local w, why = bench.worker(bench.script(file) .. " " .. words)
  if w then bench.note("%s: %s", what, w.about) else bench.absent(what, why) end
  return w
end

function worker:ask(line)
  self.questions:write(line, "\n")
  self.questions:flush()
  local answer = self.answers:read("l")
  if not answer then error(self.command .. ": ended at the question " .. line, 0) end
  return split(answer)
end

function worker:stop()
  self.questions:close()
  self.answers:close()
end

-- ---- measuring ----

bench.median = script.median

-- Seconds of f(), and what it returns.
function bench.time(f)
  local start = fopo.clock()
  local a, b = f()
  return fopo.clock() - start, a, b
end

-- The same by the CPU time of all threads of this process.
function bench.cpu(f)
  local start = os.clock()
  local a, b = f()
  return os.clock() - start, a, b
end

-- f() with so many threads of fopo and of the programs beside it, and without waiting for those
-- that spin.
function bench.with_threads(n, f)
  local o = bench.options
  local threads, settle = o.threads, o.settle
  o.threads, o.settle = n, 0
  fopo.threads(n)
  local ok, why = pcall(f)
  o.threads, o.settle = threads, settle
  fopo.threads(threads)
  if not ok then error(why, 0) end
end

-- Waits until idle threads of OpenMP and BLAS, which spin for a while after their work, sleep.
local function settle()
  local start = fopo.clock()
  while fopo.clock() - start < bench.options.settle do end
end

-- Measures each case in turn, for several rounds, so that other load on the machine affects all
-- cases alike. cases = {{name, measure}, ...}; measure(warm) returns the seconds of one unit. The
-- first round (warm = true) does not count. Stops after `limit` seconds once every case has been
-- measured. Returns {name = list of samples}.
function bench.in_turn(cases, limit, rounds)
  local samples, start = {}, fopo.clock()
  for _, case in ipairs(cases) do samples[case[1]] = {} end
  for round = 0, rounds or bench.options.rounds do
    for _, case in ipairs(cases) do
      if round > 1 and fopo.clock() - start > limit then return samples end
      settle()
      local value = case[2](round == 0)
      if round > 0 then table.insert(samples[case[1]], value) end
    end
  end
  return samples
end

-- The number of units that take about `seconds`, if one took `one`.
function bench.fill(seconds, one, most)
  return math.max(1, math.min(most or 1000, math.floor(seconds / math.max(one, 1e-9) + 0.5)))
end

-- ---- the table ----

local columns = {"section", "what", "median", "cut", "unit", "runs", "spread", "against",
                 "reference", "reference_cut", "ratio", "meaning", "target", "met"}

local function shown(value, unit)
  if unit == "s" and value < 0.1 then return ("%.3f ms"):format(value * 1e3) end
  if unit == "s" then return ("%.3f s"):format(value) end
  if unit == "GB" then return ("%.3f GB"):format(value) end
  return ("%.4g %s"):format(value, unit)
end

local function spread(list)
  local least, most = math.huge, 0
  for _, v in ipairs(list) do least, most = math.min(least, v), math.max(most, v) end
  return (most - least) / bench.median(list)
end

-- Whether the target is met; "" if the bounds do not tell.
local function met(row, ratio)
  if not row.target then return "" end
  local yes = row.faster and ratio >= row.target or not row.faster and ratio <= row.target
  local unsure = yes and row.mine_cut or not yes and row.other_cut
  return unsure and "" or yes and "yes" or "no"
end

-- One row. row.mine and row.other are lists of samples in the same unit. faster = true: the ratio
-- is other / mine (a speed-up, target at least); else mine / other (a cost, target at most).
-- mine_cut, other_cut: true if these are lower bounds.
function bench.row(row)
  local mine, other = bench.median(row.mine), bench.median(row.other)
  local ratio = row.faster and other / mine or mine / other
  table.insert(bench.rows, {
    section = bench.section, what = row.what, median = mine, unit = row.unit, runs = #row.mine,
    cut = row.mine_cut, reference_cut = row.other_cut, faster = row.faster,
    spread = spread(row.mine), against = row.against, reference = other, ratio = ratio,
    meaning = row.faster and "faster" or "cost", met = met(row, ratio),
    target = row.target and ("%s %g"):format(row.faster and ">=" or "<=", row.target) or ""})
  bench.say("%s: %s %s, %.2f x %s %s", bench.section, row.what, shown(mine, row.unit), ratio,
            row.against, shown(other, row.unit))
end

-- The row of two cases of samples s, in seconds, if both were measured.
function bench.row_of(before, s, what, against, faster, target)
  if not s[what] or not s[against] then return end
  bench.row{what = before .. what, unit = "s", mine = s[what], against = against,
            other = s[against], faster = faster, target = target}
end

-- A line under the table.
function bench.note(...) table.insert(bench.notes, bench.section .. ": " .. string.format(...)) end

-- "> " before a lower bound.
local function bounded(value, unit, cut) return (cut and "> " or "") .. shown(value, unit) end

-- What the bounds leave of a ratio: "> " at least, "< " at most, "~ " nothing.
local function sign(r)
  local above, below = r.reference_cut, r.cut
  if not r.faster then above, below = below, above end
  return above and below and "~ " or above and "> " or below and "< " or ""
end

function bench.table()
  local cells = {{"section", "what", "median", "runs", "spread", "against", "its median", "ratio",
                  "target", "met"}}
  for _, r in ipairs(bench.rows) do
    cells[#cells + 1] = {r.section, r.what, bounded(r.median, r.unit, r.cut), tostring(r.runs),
      ("%.0f %%"):format(100 * r.spread), r.against,
      bounded(r.reference, r.unit, r.reference_cut),
      ("%s%.2f x %s"):format(sign(r), r.ratio, r.meaning), r.target, r.met}
  end
  return text.table(cells) .. "\n" .. table.concat(bench.notes, "\n")
end

function bench.csv(path) script.csv(path, columns, bench.rows) end

-- Writes the table so far, and its CSV, to files of this run; the table, and where it is.
function bench.keep()
  bench.stem = bench.stem or ("%s/bench-%s"):format(bench.folder, os.date("%Y%m%d-%H%M%S"))
  bench.csv(bench.stem .. ".csv")
  local f <close> = assert(io.open(bench.stem .. ".txt", "w"))
  f:write(bench.head, "\n", bench.table(), "\n")
  return ("%s\n%s.txt, %s.csv"):format(bench.table(), bench.stem, bench.stem)
end

-- ---- the machine ----

local function first_match(path, pattern)
  local f <close> = io.open(path, "r")
  return f and f:read("a"):match(pattern) or "unknown"
end

local function blas_core()
  return bench.line_of("OPENBLAS_VERBOSE=2 " .. bench.fopo .. " -e '' 2>&1") or "unknown"
end

function bench.machine()
  local cores = bench.line_of("nproc")
  local kilobytes = tonumber(first_match("/proc/meminfo", "MemTotal:%s+(%d+)")) or 0
  local commit = bench.line_of("git describe --always --dirty 2>/dev/null") or "unknown"
  local load = tonumber(first_match("/proc/loadavg", "^(%S+)")) or 0
  return table.concat({
    ("# %s, fopo %s (%s)"):format(os.date("%Y-%m-%d %H:%M"), fopo.version, commit),
    ("# %s, %s cores, %d threads used, %.1f GB, %s"):format(
      first_match("/proc/cpuinfo", "model name%s*:%s*([^\n]+)"), cores, bench.options.threads,
      kilobytes / 1e6, bench.line_of("uname -sr")),
    ("# kernels %s; OpenBLAS %s; huge pages %s; load %.2f at the start%s"):format(
      (fopo.isa()), (blas_core():gsub("^Core: ", "")),
      first_match("/sys/kernel/mm/transparent_hugepage/enabled", "%[(%w+)%]"),
      load, load > 0.5 and ": other work runs on this machine, so timings are unreliable" or ""),
  }, "\n")
end

return bench
