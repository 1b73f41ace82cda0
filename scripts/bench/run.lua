-- Speed as ratios: each row of the table is measured against something else in the same run.
--
--   ./fopo scripts/bench/run.lua [section ...] [name=value ...]      (make bench BENCH="...")
--
-- Sections, all of them where none is named:
--   steps     a step at P = 790,000 against the gather of its rows, two GEMMs, PyTorch with FAISS
--   sweep     a step at P = 10^4 .. 10^7
--   evaluate  10,000 contexts by true argmax: index.norm against scoring every item
--   norm      building index.norm against copying the items
--   hnsw      building the graph against hnswlib's own parallel build
--   svd       embeddings against the same algorithm in NumPy and SciPy
--   read      20 M rows of CSV against pandas, and the cached .npz
--   memory    peak of training at 790,000 x 1,000 and 2.33 M x 100
--   gpu       a step on this machine's card against its own copies and products, and PyTorch; only
--             where it is named (make bench-gpu)
--   view      CPU time that the live view takes
--
-- Names (defaults): rounds=5 of every measurement; limit=60 seconds after which a section starts no
-- further round; scale=1 multiplies all sizes; threads=2; torch=yes; index=norm (or auto, hnsw,
-- hybrid) of the mixture; data=made (or svd: steps and evaluate embed the sessions, up to L = 200);
-- dims=10,100,1000; graph_items=50000 of the hnsw section; graph_limit=300 seconds a run that go
-- into each of FAISS's graphs, which are kept and gone on with; sample=0.4 seconds of steps a
-- measurement; settle=0.05 seconds before it.
-- What is absent (python3-torch, python3-faiss, python3-pandas) is skipped by name. The table and a
-- CSV of it are kept in runs/bench/.
local fopo = require "fopo"
local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. here .. "../studies/?.lua;" .. package.path
local bench = require "bench"

bench.options = {rounds = 5, limit = 60, scale = 1, threads = 2, torch = true, index = "norm",
                 data = "made", dims = {10, 100, 1000}, graph_items = 50000, graph_limit = 300,
                 sample = 0.4, settle = 0.05}
local first = 0
while arg[first - 1] do first = first - 1 end
bench.fopo = arg[first]

local order = {"steps", "sweep", "evaluate", "norm", "hnsw", "svd", "read", "memory", "view", "gpu"}
local sections = {}
for _, file in ipairs{"steps", "search", "files", "memory", "screen", "gpu"} do
  for name, f in pairs(require(file)) do sections[name] = f end
end

function bench.scaled(n) return math.max(2000, math.floor(n * bench.options.scale)) end

local function misuse(...)
  io.stderr:write("bench: ", string.format(...), "\n")
  os.exit(2)
end

local function set(name, value)
  local default = bench.options[name]
  if default == nil then misuse("no option %s; see the head of %s", name, arg[0]) end
  if type(default) == "boolean" then
    bench.options[name] = value ~= "no"
  elseif type(default) == "table" then
    local list = {}
    for number in value:gmatch("%d+") do list[#list + 1] = math.tointeger(tonumber(number)) end
    bench.options[name] = list
  elseif type(default) == "number" then
    bench.options[name] = tonumber(value) or misuse("%s=%s is no number", name, value)
  else
    bench.options[name] = value
  end
end

local chosen = {}
for _, word in ipairs(arg) do
  local name, value = word:match("^(%w[%w_]*)=(.*)$")
  if name then
    set(name, value)
  elseif sections[word] then
    chosen[word] = true
  else
    misuse("no section %s; there are %s", word, table.concat(order, ", "))
  end
end

if bench.options.data ~= "made" and bench.options.data ~= "svd" then
  misuse("data is made or svd, not %s", bench.options.data)
end
fopo.threads(bench.options.threads)
bench.run("mkdir -p " .. bench.folder)
local head = bench.machine()
print(head)
io.stdout:flush()
local failed = false
for _, name in ipairs(order) do
  if chosen[name] or next(chosen) == nil and name ~= "gpu" then
    bench.section = name
    local start = fopo.clock()
    local ok, why = xpcall(sections[name], debug.traceback)
    collectgarbage()
    collectgarbage()
    if not ok then
      if tostring(why):find("interrupted", 1, true) then error(why, 0) end
      failed = true
      bench.note("failed: %s", tostring(why):match("^[^\n]*"))
      io.stderr:write(why, "\n")
    end
    bench.say("%s took %.0f s", name, fopo.clock() - start)
  end
end

local stem = ("%s/bench-%s"):format(bench.folder, os.date("%Y%m%d-%H%M%S"))
bench.csv(stem .. ".csv")
local f <close> = assert(io.open(stem .. ".txt", "w"))
f:write(head, "\n", bench.table(), "\n")
print(bench.table())
print(("%s.txt, %s.csv"):format(stem, stem))
if failed then os.exit(1) end
