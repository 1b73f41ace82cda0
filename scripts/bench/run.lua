-- Speed as ratios: each row of the table is measured against something else in the same run.
--
--   ./fopo scripts/bench/run.lua [section ...] [name=value ...]      (make bench BENCH="...")
--
-- Cost: about `limit` seconds a section after its preparation; up to 4 GB of memory, and 6 of
-- memory and 5 of disk for ranks.
-- Quick: norm scale=0.02 rounds=1
--
-- Sections; all but gpu if none is named:
--   steps     a step at P = 790,000 against the gather of its rows, two GEMMs, PyTorch with FAISS
--   rivals    the default's step against the same algorithm by hand in NumPy and torch, by batches
--             and heads, and REINFORCE against torch without autograd: CPU time of one thread
--   threads   CPU time of a step by threads, and its wall time beside a competing process
--   start     the first five steps, and validation by default, against later steps
--   slates    a step of slates against the default's of single items, and Plackett-Luce
--   reward    seconds until 95 % of the reward of the paper's mixture, on files and a large world
--   sweep     a step at P = 10^4 .. 10^7
--   evaluate  10,000 contexts by true argmax: index.norm against scoring every item
--   norm      building index.norm against copying the items
--   hnsw      building the graph against hnswlib's own parallel build
--   graph     searches in a graph of 200,000 x 100 against hnswlib's own search
--   svd       embeddings against the same algorithm in NumPy and SciPy
--   read      20 M rows of CSV against pandas, and the cached .npz
--   peers     ALS, item-kNN, an SVD, lists for all users, evaluating, saving and loading against
--             implicit, scikit-learn, torch and NumPy: CPU time of one thread, and memory
--   wide      neighbours of 10^6 and 10^7 items against reading the file
--   arrays    sums, products and functions of arrays against NumPy, one thread
--   memory    peak of training at 790,000 x 1,000 and 2.33 M x 100
--   view      CPU time of the live view
--   ranks     training 20 M x 64 dealt out to processes of this machine: memory, a step, bytes
--   gpu       a step on this machine's GPU against its own copies and products, and PyTorch
--             (make bench-gpu)
--
-- Options (defaults):
--   rounds=5          rounds of every measurement
--   limit=60          seconds after which a section starts no further round, and which a row of
--                     reward may train for each seed
--   scale=1           multiplies all sizes
--   threads=2         of fopo and of the programs that it is compared with
--   torch=yes         no: without PyTorch
--   index=norm        of the mixture: norm, auto, hnsw or hybrid
--   data=made         svd: steps and evaluate embed the sessions, up to L = 200
--   dims=10,100,1000  L of steps
--   ranks=2           processes of ranks
--   graph_items=50000 items of the hnsw section
--   graph_limit=300   seconds of each run that go into FAISS's graphs, which are kept and continued
--   folder=           reward: where the files are; those that are not there are skipped by name
--   files=amazon-book-ngcf/test.txt.gz,gowalla-ngcf/test.txt,citeulike-a/users.dat,
--         movietweetings-100k/ratings.dat      reward: below folder, or absolute paths
--   large=yes         reward: the large world of the studies, too, at `scale` of its size
--   seeds=1,2,3       reward: of theta and of the order of contexts
--   steps=1000        reward: of a row on files; four times as many in the large world
--   test=10000        reward: at most so many test contexts are judged
--   twin=0            reward: a twin of so much of Twitch, too
--   device=cpu        reward: or cuda
--   batches=32,1024   gpu: contexts of a step
--   samples=1000      gpu: draws of a context
--   cases=            gpu: those of these names alone, as "uniform/mixture, kept"
--   constants=        gpu: a file of those of the model, by gpu_limits.cu
--   enough=300        gpu: seconds after which no further case begins
--   sample=0.4        seconds of steps in a measurement
--   settle=0.05       seconds before a measurement
-- PYTHON=... names the Python interpreter (default /usr/bin/python3, which has Debian's packages).
-- A comparison whose packages are absent (torch, faiss, pandas, pyarrow, implicit, scikit-learn,
-- NumPy, SciPy) is skipped by name. The table and a CSV of it are kept in runs/bench/.
local fopo = require "fopo"
local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. here .. "../studies/?.lua;" .. here .. "../tools/?.lua;"
               .. package.path
local bench = require "bench"
local script = require "script"

local words
bench.options, words = script.options{
  rounds = 5, limit = 60, scale = 1, threads = 2, torch = true, index = "norm", data = "made",
  folder = "", large = true, seeds = {1, 2, 3}, steps = 1000, test = 10000,
  twin = 0, device = "cpu",
  files = {"amazon-book-ngcf/test.txt.gz", "gowalla-ngcf/test.txt", "citeulike-a/users.dat",
           "movietweetings-100k/ratings.dat"},
  dims = {10, 100, 1000}, graph_items = 50000, graph_limit = 300, sample = 0.4, settle = 0.05,
  batches = {32, 1024}, samples = 1000, cases = "", constants = "", enough = 300, ranks = 2}
local first = 0
while arg[first - 1] do first = first - 1 end
bench.fopo = arg[first]

local order = {"steps", "rivals", "threads", "start", "slates", "reward", "sweep", "evaluate",
               "norm", "hnsw", "graph", "svd", "read", "peers", "wide", "arrays", "memory", "view",
               "ranks", "gpu"}
local sections = {}
for _, file in ipairs{"steps", "reward", "search", "files", "memory", "screen", "ranks", "gpu",
                      "arrays", "peers", "rivals"} do
  for name, f in pairs(require(file)) do sections[name] = f end
end

local chosen = {}
for _, word in ipairs(words) do
  if not sections[word] then
    script.misuse("there is no section %s but %s", word, table.concat(order, ", "))
  end
  chosen[word] = true
end
if bench.options.data ~= "made" and bench.options.data ~= "svd" then
  script.misuse("data is made or svd, not %s", bench.options.data)
end
fopo.threads(bench.options.threads)
bench.run("mkdir -p " .. bench.folder)
bench.head = bench.machine()
print(bench.head)
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

print(bench.keep())
if failed then os.exit(1) end
