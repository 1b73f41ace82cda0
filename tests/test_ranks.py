"""Several processes (make MPI=1): the first alone shows the run and keeps its log, what depends on
time is decided by it, all end with the same bits, and what goes wrong on it reaches the others."""
import os
import shutil
import subprocess
import sys
import tempfile

from checks import check, failures

FOPO = os.path.abspath("build/release-mpi/fopo")
if not (os.access(FOPO, os.X_OK) and shutil.which("mpirun")):
    print("skip: several processes (build/release-mpi/fopo is made by make MPI=1)")
    sys.exit(77)

folder = tempfile.mkdtemp()
os.chdir(folder)


CODE = """
local s = data.synthetic{users = 400, items = 500, clusters = 8, seed = 3}:sessions{min_items = 10}
local items = embed.svd(s.train, {dim = 8})
local ix = index.norm(items)
local function new(lr)
  return fopo.trainer{policy = policy.linear{items = items, seed = 1}, data = s.train, batch = 16,
    seed = 7, valid = s.valid, optim = optim.adam{lr = lr or 1e-3}, gradient = gradient.snis{
    samples = 40, proposal = proposal.mixture{index = ix, k = 20}}}
end
local rank = os.getenv("OMPI_COMM_WORLD_RANK")
local out = io.open("rank-" .. rank, "w")
local function tell(t) out:write(t.step, " ", t.policy:theta():norm(), " ", #t.history.step, " ",
  tostring(t.best_step), " ", t.optim.lr, "\\n") end
local t = new()
t:run{seconds = 0.3}
t:run{seconds = 0.2, every = 7, view = false}
tell(t)
local u = new()
u:run{steps = 200, patience = 2, log = "log", json = true,
      replay = {{step = 20, what = "lr", value = 0.3}}}
tell(u)
local v = new()
v:run{steps = 100, on_record = function(_, n) return rank == "0" and n == 3 end, view = false}
tell(v)
out:write(tostring(select(2, pcall(v.run, v, {steps = 50, view = "curses"}))), "\\n")
out:write(tostring(select(2, pcall(v.run, v, {steps = 50, view = false, on_record = function()
  if rank == "0" then error("of the first", 0) end end}))), "\\n")
out:write(tostring(select(2, pcall(v.start, v, {steps = 1}))), "\\n")
local w = new(1e38)
out:write(tostring(select(2, pcall(w.run, w, {steps = 50, view = false}))), "\\n")
out:close()
"""
done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", FOPO, "-e",
                       CODE],
                      capture_output=True, text=True, timeout=120,
                      env={**os.environ, "FOPO_THREADS": "1"})
check("it ends", done.returncode == 0, done.stdout, done.stderr)
if not failures:
    first, second = (open("rank-%d" % r).read().split("\n") for r in (0, 1))
    check("the same bits", first[:3] == second[:3], first, second)
    check("the same words", first[3:] == second[3:], first, second)
    check("stopped by the first", first[2].split()[0] == "15", first)
    check("no view", "curses" in first[3] or "terminal" in first[3], first)
    check("the first's error", first[4] == "of the first", first)
    check("no jobs", "use t:run" in first[5], first)
    check("a failure", any(w in first[6] for w in ("nan", "inf")), first)
    lines = [line for line in done.stdout.split("\n") if line.startswith("{")]
    steps = int(first[1].split()[0])
    check("shown once", len(lines) == steps // 10, done.stdout)
    check("logged once", len(open("log/history.csv").read().strip().split("\n")) == steps // 10 + 1)
os.chdir("/")
shutil.rmtree(folder)
sys.exit(1 if failures else 0)
