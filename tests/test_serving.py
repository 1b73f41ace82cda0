"""The recipes of scripts/examples/serving: a saved policy gives in NumPy, PyTorch, FAISS and
hnswlib what pi:recommend gives. What is not installed is skipped by name."""
import csv
import importlib.util
import io
import os
import shutil
import subprocess
import sys

from checks import check, finish, folder, FOPO

RECIPES = os.path.abspath("scripts/examples/serving")

MAKE = """
d = data.synthetic{users = 300, items = 400, clusters = 8, mean_items = 12, seed = 4}
function write(path, users)
  f = io.open(path, "w")
  f:write("user,item\\n")
  for u = 1, users do
    for _, a in ipairs(d:row(u):totable()[1]) do
      f:write(("u%d,\\"the %d, %d\\"\\n"):format(u, a, a))
    end
  end
  f:close()
end
write("users.csv", 40)
write("all.csv", d.n_users)
d = data.read("all.csv")
s = d:sessions{min_items = 4, valid = 0}
beta = embed.svd(s.train, {dim = 8})
pis = {
  linear = policy.linear{items = beta, theta = "identity", contexts = "unit", temperature = 0.2},
  mlp = policy.mlp{items = beta, hidden = {6}, temperature = 0.01, seed = 2},
  relu = policy.mlp{items = beta, hidden = {6, 5}, activation = "relu", contexts = "unit",
                    temperature = 0.002, seed = 5},
  learnt = policy.linear{items = beta, theta = "identity", train_items = true},
  degree = policy.linear{items = beta, contexts = "degree", temperature = 0.2},
  idf = policy.mlp{items = beta, hidden = {6}, contexts = "idf", temperature = 0.002},
}
pis.neighbours = policy.neighbours{data = s.train, start = "cosine", tau = 3, held = 0}
pis.parts = policy.neighbours{data = s.train, start = "cosine", tau = 3, held = 0,
                              learn = {"theta", "bias", "importance"}}
local moved = pis.parts:parameters()
for i, name in ipairs{"bias", "importance"} do moved[name] = array.randn(1, s.train.n_items, i) end
pis.parts:set_parameters(moved)
local worth = {}
for a = 1, s.train.n_items do worth[a] = a % 5 / 2 end
pis.hybrid = policy.neighbours{data = s.train, start = "cosine", tau = 3, held = 0, items = beta,
                               value = worth, scored = "all"}
pis.hybrid:set_parameters{c0 = array.from{{-0.4}}, c1 = array.from{{0.2}}, c2 = array.from{{0.8}},
                          log_tau = array.from{{1}}, dense = array.from{{0.7}}}
pis.network = policy.neighbours{data = s.train, start = "cosine", tau = 3, held = 0,
                                dense = pis.mlp}
pis.learnt:set_items(array.randn(beta.rows, 8, 3))
beta:save("items.npy")
for name, pi in pairs(pis) do
  pi:save(name .. ".npz", {items = name == "mlp" and "items.npy" or nil})
  pi:recommend_file("users.csv", name .. ".csv", {n = 5, probability = true, quiet = true})
end
pi, test = pis.linear, s.test
pi:queries(test:contexts(beta, {scale = "unit"})):save("queries.npy")
f = io.open("served.txt", "w")
for i, r in ipairs(pi:recommend(test, 5)) do -- ids from 0: those taken, then the best
  local seen, best = test:x(i):totable()[1], {}
  for k, a in ipairs(seen) do seen[k] = a - 1 end
  for k, one in ipairs(r) do best[k] = one.item - 1 end
  f:write(table.concat(seen, " "), ",", table.concat(best, " "), "\\n")
end
f:close()
"""


def run(command):
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


def rows(text):
    return list(csv.reader(io.StringIO(text)))[1:]


def compare(what, text, truth, with_probability):
    """Same users, ranks and items; scores and probabilities to six digits."""
    found, wanted = rows(text), rows(open(os.path.join(folder, truth)).read())
    check(what + ": users, ranks and items", [r[:3] for r in found] == [r[:3] for r in wanted],
          [(a, b) for a, b in zip(found, wanted) if a[:3] != b[:3]][:3], len(found), len(wanted))
    for column in (3, 4) if with_probability else (3,):
        worst = max(abs(float(a[column]) - float(b[column])) / max(abs(float(b[column])), 1e-3)
                    for a, b in zip(found, wanted))
        check("%s: column %d" % (what, column + 1), worst < 1e-3, worst)


def recipe(script, module, *more, names=("linear",), with_probability=False):
    """Runs a recipe if what it imports is installed."""
    for one in (module, "numpy"):
        if importlib.util.find_spec(one) is None:
            print("skip %s: %s is not here" % (script, one))
            return
    for name in names:
        done = run([sys.executable, os.path.join(RECIPES, script), name + ".npz", "users.csv", "5",
                    *more])
        check("%s runs on %s" % (script, name), done.returncode == 0, done.stderr)
        if done.returncode == 0:
            compare("%s on %s" % (script, name), done.stdout, name + ".csv", with_probability)


def hnswlib_in_cpp():
    """The C++ recipe on the queries that fopo wrote; items that were taken are dropped here."""
    source = os.path.join(RECIPES, "hnswlib_index.cc")
    if shutil.which("g++") is None or not os.path.exists("/usr/include/hnswlib/hnswlib.h"):
        print("skip hnswlib_index.cc: g++ or libhnswlib-dev is not here")
        return
    built = run(["g++", "-O0", "-std=c++17", source, "-o", "hnswlib_index"])
    check("hnswlib_index.cc is built", built.returncode == 0, built.stderr)
    done = run(["./hnswlib_index", "items.npy", "queries.npy", "60"])
    check("hnswlib_index.cc runs", done.returncode == 0, done.stderr)
    found, wanted = [], []
    for line, served in zip(done.stdout.splitlines(), open(os.path.join(folder, "served.txt"))):
        seen, best = (part.split() for part in served.split(","))
        found.append([i for i in line.split() if i not in seen][:5])
        wanted.append(best)
    check("hnswlib_index.cc finds what pi:recommend does", len(found) > 20 and found == wanted,
          [(a, b) for a, b in zip(found, wanted) if a != b][:3])
    check("a file that is no array is refused",
          run(["./hnswlib_index", "all.csv", "queries.npy", "5"]).returncode == 1)


try:
    made = run([FOPO, "-e", MAKE])
    check("policies and their recommendations", made.returncode == 0, made.stderr)
    names = ("linear", "mlp", "relu", "learnt", "degree", "idf")
    recipe("policy.py", "numpy", names=names + ("neighbours", "parts", "hybrid", "network"),
           with_probability=True)
    recipe("torch_policy.py", "torch", names=names, with_probability=True)
    recipe("faiss_index.py", "faiss", "flat")
    recipe("faiss_index.py", "faiss")
    recipe("hnswlib_index.py", "hnswlib")
    hnswlib_in_cpp()
finally:
    shutil.rmtree(folder)
finish()
