"""The recipes of scripts/examples/serving: a saved policy gives in NumPy, PyTorch, FAISS and
hnswlib what pi:recommend gives. What is not installed is skipped by name."""
import csv
import importlib.util
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import time

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


def columns():
    """Columns by any name, in any order, and a file without a head."""
    if importlib.util.find_spec("numpy") is None:
        return
    lines = rows(open(os.path.join(folder, "users.csv")).read())
    script = os.path.join(RECIPES, "policy.py")
    for name, head, more in (("a", ["sku", "when", "visitor_id"], []), ("b", None, []),
                             ("c", ["bought", "when", "by"], ["by", "bought"])):
        with open(os.path.join(folder, name + ".csv"), "w", newline="") as f:
            out = csv.writer(f)
            out.writerows([head] if head else [])
            out.writerows([[a, 0, u] if head else [u, a] for u, a in lines])
        done = run([sys.executable, script, "linear.npz", name + ".csv", "5", *more])
        compare("policy.py, columns %s" % head, done.stdout, "linear.csv", True)
    done = run([sys.executable, script, "linear.npz", "c.csv", "5", "nobody", "bought"])
    check("a column that is not there", done.returncode == 1 and
          "no column 'nobody'; the file has bought, when, by" in done.stderr, done.stderr)


def server():
    """Lines over standard input and over a socket; a new file is taken, a bad one is said."""
    if importlib.util.find_spec("numpy") is None:
        return
    wanted = rows(open(os.path.join(folder, "hybrid.csv")).read())
    users = {}
    for user, item in rows(open(os.path.join(folder, "users.csv")).read()):
        users.setdefault(user, []).append(item)
    script, path = os.path.join(RECIPES, "server.py"), os.path.join(folder, "served.npz")
    shutil.copy(os.path.join(folder, "hybrid.npz"), path)
    quick = {"env": {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, "cwd": folder, "text": True}
    p = subprocess.Popen([sys.executable, script, path], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, **quick)

    def ask(line):
        p.stdin.write(line + "\n")
        p.stdin.flush()
        return json.loads(p.stdout.readline())

    found = [[user, str(k + 1), one["item"]] for user, items in users.items()
             for k, one in enumerate(ask(json.dumps({"items": items, "n": 5}))["best"])]
    check("the server recommends what fopo does", found == [r[:3] for r in wanted], found[:3])
    items = users["u1"]
    tabs = ask("\t".join(items + ["nosuch"]))
    check("names with tabs", len(tabs["best"]) == 10 and tabs["unknown"] == 1, tabs)
    check("nobody known", ask("nosuch") == {"best": [], "unknown": 1})
    check("what is no line", "error" in ask("{") and "error" in ask('{"items": 3}'))
    shutil.copy(os.path.join(folder, "linear.npz"), path + "2")
    os.rename(path + "2", path)
    linear = [r[2] for r in rows(open(os.path.join(folder, "linear.csv")).read()) if r[0] == "u1"]
    line = json.dumps({"items": items, "n": 5})
    check("a new file is served", [one["item"] for one in ask(line)["best"]] == linear)
    with open(path, "w") as f:
        f.write("no policy")
    worse = ask(line)
    check("a bad one is not", [one["item"] for one in worse["best"]] == linear and
          path in worse["reload"], worse)
    p.stdin.close()
    p.wait()
    shutil.copy(os.path.join(folder, "linear.npz"), path)
    p = subprocess.Popen([sys.executable, script, path, "socket"], **quick)
    try:
        with socket.socket(socket.AF_UNIX) as s:
            while True:
                try:
                    s.connect(os.path.join(folder, "socket"))
                    break
                except OSError:
                    check("the server is there", p.poll() is None)
                    time.sleep(0.05)
            s.sendall(line.encode() + b"\n")
            best = json.loads(s.makefile().readline())["best"]
        check("over a socket", [one["item"] for one in best] == linear, best)
    finally:
        p.terminate()
        p.wait()


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
    columns()
    server()
    recipe("torch_policy.py", "torch", names=names, with_probability=True)
    recipe("faiss_index.py", "faiss", "flat")
    recipe("faiss_index.py", "faiss")
    recipe("hnswlib_index.py", "hnswlib")
    hnswlib_in_cpp()
finally:
    shutil.rmtree(folder)
finish()
