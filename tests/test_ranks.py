"""Several processes under mpirun: all come to the bits of one process, the first alone shows the
run and keeps its log, what depends on time is decided by it, and what goes wrong on one reaches
all."""
import os
import re
import signal
import subprocess
import sys
import time

from checks import check, finish, folder
from ranks import ALL, ALONE, FOPO, MPIRUN, or_skip, program

or_skip()
os.chdir(folder)


def start(ranks, *arguments):
    """The command on several ranks; on one without mpirun."""
    mpirun = MPIRUN + ["-n", str(ranks)] if ranks > 1 else []
    return subprocess.Popen(mpirun + [FOPO, *arguments], text=True, env=ALONE,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


# what a slow machine is told of a long operation: no error
PROGRESS = re.compile(r"^.*\[[#.]+\] +\d+ %.*\n", re.M)


def run(ranks, *arguments, limit=120):
    process = start(ranks, *arguments)
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        process.communicate()
        return 124, "", "it does not end"
    return process.returncode, out, PROGRESS.sub("", err)


WORLD = """
s = data.synthetic{users = 400, items = 500, clusters = 8, seed = 3}:sessions{min_items = 10}
items = embed.svd(s.train, {dim = 8})
ix = index.norm(items)
function new(g, lr, resplit)
  return fopo.trainer{policy = policy.linear{items = items, seed = 1}, data = s.train, batch = 13,
    seed = 7, optim = optim.adam{lr = lr or 1e-2}, gradient = g, valid = s.valid,
    resplit = resplit}
end
function mixture(o)
  o.index, o.k = ix, 20
  return gradient.snis{samples = 40, proposal = proposal.mixture(o)}
end
function shared(g)
  local pi = policy.linear{items = items, seed = 1}
  return fopo.trainer{policy = pi, data = s.train:share(pi), batch = 13, seed = 7,
    optim = optim.adam{lr = 1e-2}, gradient = g, valid = s.valid}
end
function steps(t, n)
  t:run{steps = n, every = 50, view = false}
  return ("%.17g %.17g"):format(t.policy:theta():norm(), t.history.ess[#t.history.ess])
end
"""

# ---- the same bits; what a checkpoint of several holds, any number resumes ----

SAME = WORLD + """
for _, g in ipairs{mixture{}, mixture{refresh = 3}, gradient.snis{samples = 40},
    gradient.snis{samples = 40, proposal = proposal.adaptive{index = ix, k = 20}},
    gradient.head_tail{}, gradient.head_tail{index = ix, k = 20, tail = 16},
    gradient.reinforce{samples = 20}} do
  print(steps(new(g), 100))
end
rw = fopo.reward.custom(function(ids, rows)
  local out = fopo.array.zeros(ids.rows, ids.cols)
  for b = 1, ids.rows do out:set(b, 1, 0.5) end
  return out
end)
t = fopo.trainer{policy = policy.linear{items = items, seed = 1}, data = s.train, batch = 5,
  reward = rw, seed = 7, optim = optim.adam{lr = 1e-2}, gradient = gradient.snis{samples = 8}}
print(steps(t, 20))
-- contexts and hits shared out, which are not divided anew: no bit differs
for _, g in ipairs{gradient.head_tail{}, mixture{refresh = 3}, gradient.reinforce{samples = 20}} do
  local t = shared(g)
  print(steps(t, 40) == steps(new(g, nil, false), 40), t.data.n)
end
half = shared(mixture{refresh = 3})
steps(half, 40)
half:save("half-" .. fopo.ranks().size .. ".npz")
kept = new(mixture{refresh = 3})
steps(kept, 60)
kept:save("kept-" .. fopo.ranks().size .. ".npz")
new(mixture{refresh = 3}):run{steps = 60, every = 50, view = false, every_seconds = 1e-3,
                              checkpoint = "run-" .. fopo.ranks().size .. ".npz"}
-- a policy that masks X, of sessions that are whole and shared out
function masked(g, share)
  local pi = policy.linear{items = items, seen = "mask"}
  return fopo.trainer{policy = pi, data = share and s.train:share(pi) or s.train, batch = 13,
    seed = 7, optim = optim.adam{lr = 1e-2}, gradient = g, valid = s.valid, resplit = false}
end
for _, g in ipairs{mixture{}, mixture{refresh = 3}, gradient.head_tail{},
    gradient.head_tail{head = 64, tail = 16}, gradient.head_tail{index = ix, k = 20, tail = 16},
    gradient.snis{samples = 40, proposal = proposal.adaptive{index = ix, k = 20}},
    gradient.reinforce{samples = 20}} do
  local t = masked(g)
  local here = steps(t, 40)
  print(here, here == steps(masked(g, true), 40), t.history.valid_expected[1])
end
"""
answers = {n: run(n, "-e", SAME) for n in ((1, 2, 3, 4, 5) if ALL else (1, 4))}
for n, (code, out, err) in answers.items():
    check(f"{n} ranks end", code == 0, out, err)
    check(f"{n} ranks, the same bits", out == answers[1][1] and len(out.split("\n")) > 8, out,
          answers[1][1])
check("shared out, the bits of the whole", answers[1][1].count("true") == 3 + 7, answers[1])
RESUME = WORLD + """
for _, name in ipairs{"kept", "run"} do
  local t, sent = new(mixture{refresh = 3}), fopo.ranks().bytes
  t:resume(OF[name])
  print(steps(t, 60))
  -- every step sends at least the [8, 8] gradient
  print(fopo.ranks().size == 1 or fopo.ranks().bytes - sent > 60 * 8 * 8 * 4)
end
local half = shared(mixture{refresh = 3})
half:resume(OF.half)
print(steps(half, 20), half.data.here < half.data.n)
"""
resumed = [run(to, "-e", "OF = {kept = 'kept-%d.npz', run = 'run-%d.npz', half = 'half-%d.npz'}" %
               of + RESUME)[1].split("\n") for of, to in (((1, 4, 1), 2), ((4, 1, 4), 1))]
check("resumed by any number", len({r[i] for r in resumed for i in (0, 2)}) == 1 and
      all(len(r) == 6 and r[1] == r[3] == "true" for r in resumed), resumed)
shared = [r[4].split() for r in resumed]
check("shared out and resumed", len(shared[0]) == 3 and shared[0][:2] == shared[1][:2] and
      shared[0][2] == "true" and shared[1][2] == "false", resumed)

# ---- the catalogue dealt out: the draws, answers and, but for rounding, gradients of one process

MASK_DEALT = """
do
local s = data.synthetic{users = 300, items = 401, clusters = 8, seed = 3}:sessions{min_items = 10}
local whole = embed.svd(s.train, {dim = 8})
local items = ALL and whole or fopo.shard(whole)
local ix, hits, rows = index.norm(items), fopo.reward.hits(s.train), {}
for r = 1, 33 do rows[r] = r end
local function mixture(o)
  o.index, o.k = ix, 20
  return gradient.snis{samples = 40, proposal = proposal.mixture(o)}
end
for _, g in ipairs{gradient.snis{samples = 40}, gradient.exact{}, mixture{},
    mixture{refresh = 2, draws = "stratified"}, gradient.head_tail{head = 64, tail = 16},
    gradient.head_tail{index = ix, k = 20, tail = 16, refresh = 3}, gradient.head_tail{k = 30}} do
  local function new()
    return policy.linear{items = items, theta = "identity", temperature = 0.3, seen = "mask"}
  end
  local pi = new()
  local G, st = g:compute(pi, s.train, rows, hits, {seed = 3, step = 2})
  print("G", G:norm(), G:get(1, 1), G:get(5, 3), st.reward, st.ess, st.head_mass or 0)
  for _, share in ipairs{false, true} do
    pi = new()
    local t = fopo.trainer{policy = pi, data = share and not ALL and s.train:share(pi) or s.train,
                           batch = 13, gradient = g, seed = 7, valid = s.valid,
                           optim = optim.adam{lr = 1e-2}}
    -- of those that are not shared out, X and Y are divided anew after 19 steps
    t:run{steps = share and 12 or 30, view = false, every = 6, keep_best = false}
    local e = fopo.evaluate(pi, s.test)
    print("T", pi:theta():norm(), t.history.ess[2], e.reward, e.expected, e.effective)
  end
  for _, one in ipairs(pi:recommend(7, 5)) do print("R", one.item, one.score, one.probability) end
end
print("A", policy.linear{items = items, seen = "mask", data = s.train}.temperature)
end
"""

DEALT = MASK_DEALT + """
local s = data.synthetic{users = 300, items = 401, clusters = 8, seed = 3}:sessions{min_items = 10}
local whole = embed.svd(s.train, {dim = 8})
local items = ALL and whole or fopo.shard(whole)
local x, rows = s.train:contexts(items), {}
for r = 1, 33 do rows[r] = r end
local ix, ex, worth = index.norm(items), index.exact(items), {}
for a = 1, 401 do worth[a] = a % 6 / 2 end
local hits = fopo.reward.hits(s.train, {value = worth})
local function mixture(ix, draws)
  return gradient.snis{samples = 40, proposal = proposal.mixture{index = ix, k = 20, draws = draws}}
end
for _, g in ipairs{gradient.snis{samples = 40}, gradient.exact{}, mixture(ix, "iid"),
    gradient.head_tail{head = 64, tail = 16}, mixture(ex, "stratified"),
    gradient.head_tail{index = ix, k = 20, tail = 16}, gradient.head_tail{k = 30}} do
  local pi = policy.linear{items = items, theta = "identity", temperature = 0.3}
  local G, st = g:compute(pi, x, rows, hits, {seed = 3, step = 2})
  print("G", G:norm(), G:get(1, 1), G:get(5, 3), st.reward, st.ess, st.head_mass or 0)
  local t = fopo.trainer{policy = pi, data = s.train, contexts = x, batch = 13, gradient = g,
                         reward = hits, seed = 7, valid = s.valid, optim = optim.adam{lr = 1e-2}}
  t:run{steps = 12, view = false, every = 6}
  local e = fopo.evaluate(pi, s.test)
  print("T", pi:theta():norm(), t.history.ess[2], e.reward, e.expected, e.effective)
  local ids = pi:best(s.test:contexts(items), {k = 12})
  local sum = 0
  for i = 1, ids.rows do for j = 1, ids.cols do sum = (sum * 31 + ids:get(i, j)) % 1000003 end end
  print("I", sum)
end
for _, g in ipairs{gradient.head_tail{index = ix, k = 20, tail = 16, refresh = 3},
    gradient.snis{samples = 40, proposal = proposal.mixture{index = ix, k = 20, refresh = 2}}} do
  local pi = policy.linear{items = items, theta = "identity", temperature = 0.3}
  local t = fopo.trainer{policy = pi, data = s.train, contexts = x, batch = 60, gradient = g,
                         seed = 7, valid = false, optim = optim.sgd{lr = 1e-3}}
  t:run{steps = 15, view = false, every = 5}
  print("T", pi:theta():norm(), t.history.ess[3], t.history.head_mass[3])
end
for _, g in ipairs{gradient.head_tail{head = 64, tail = 16}, mixture(ix, "iid"),
    gradient.exact{}} do
  local pi = policy.linear{items = items, theta = "identity", temperature = 0.3}
  local part = ALL and s.train or s.train:share(pi)
  local t = fopo.trainer{policy = pi, data = part, batch = 13, gradient = g, seed = 7,
                         reward = fopo.reward.hits(part, {value = worth}), valid = false,
                         optim = optim.adam{lr = 1e-2}, resplit = false}
  t:run{steps = 12, view = false}
  print("T", pi:theta():norm(), t.history.ess[1], t.history.reward[1])
end
local best = policy.linear{items = items, theta = "identity"}
for i, user in ipairs{7, 8, {items = {3, 40}}, 9, 10} do
  local o = i > 3 and {index = ix, exclude = {"seen", 3}} or {}
  for _, one in ipairs(best:recommend(user, 5, o)) do
    print("R", one.item, one.score, one.probability)
  end
end
local auto = policy.linear{items = items}
print("A", auto.temperature)
local found, singular = embed.svd(s.train, {dim = 8, shard = not ALL})
print("S", singular[1], singular[8], s.train:contexts(found):norm())
if ALL then whole:save("whole.npy") else items:save("beta.parts") end
if not ALL then best:save("policy.npz", {items = "one.npy"}) end
local again = fopo.shard(ALL and "whole.npy" or "beta.parts")
print("A", s.valid:contexts(again):norm())
local lg = fopo.data.synthetic_logs{n = 200, actions = 60, dim = 4, seed = 2}
local pi = policy.linear{items = ALL and lg:items() or fopo.shard(lg:items()), seed = 1}
local t = fopo.trainer{policy = pi, data = lg, reward = fopo.reward.ips{logs = lg}, batch = 20,
                       gradient = gradient.head_tail{head = 30, tail = 8}, seed = 1}
t:run{steps = 20, view = false}
print("T", pi:theta():norm(), t.history.reward[1])
local over, taste = index.norm(pi:items()), policy.linear{items = pi:items(), theta = "identity"}
local function model(ids, rows)
  local out = fopo.array.zeros(ids.rows, ids.cols)
  for b = 1, ids.rows do
    for j = 1, ids.cols do out:set(b, j, (ids:get(b, j) * 7 + rows:get(1, b)) % 11 / 11) end
  end
  return out
end
local groups = {}
for a = 1, lg.n_actions do groups[a] = a % 4 + 1 end
groups = fopo.array.ids(groups)
local mu = fopo.array.zeros(1, lg.n)
for i = 1, lg.n do mu:set(1, i, 0.25) end
for _, o in ipairs{{clip = 0.01, model = "ridge", groups = groups, logging = mu}, {model = model},
    {samples = 30, model = model, groups = groups, logging = mu},
    {samples = 30, model = "logistic", proposal = proposal.mixture{index = over, k = 9}},
    {samples = 30, proposal = proposal.mixture{k = 9, draws = "stratified"}},
    {policy = "argmax", index = over, model = model}} do
  o.bootstrap = 100
  local e = fopo.ope(taste, lg, o)
  for _, one in ipairs(e.estimators) do
    local v = e[one]
    print("O", v.value, v.se, v.normal.low, v.bootstrap.high, v.bernstein and v.bernstein.low or 0)
  end
  print("O", e.ess, e.max_weight, e.overlap, e.unshown, e.z_error or 0, e.z_worst or 0)
end
local drawn, density = proposal.mixture{k = 9}:sample(taste, lg:contexts():rows_of{1, 2}, 6,
                                                      {seed = 4})
for b = 1, 2 do
  for j = 1, 6 do print("I", drawn:get(b, j)) print("O", density:get(b, j)) end
end
if ALL then return end
local kept = policy.linear{items = items, theta = "identity", temperature = 0.3}
local function made()
  return fopo.trainer{policy = kept, data = s.train, contexts = x, batch = 13, seed = 7,
                      gradient = gradient.snis{samples = 40}, optim = optim.adam{lr = 1e-2}}
end
local u = made()
u:run{steps = 10, view = false}
if fopo.ranks().size == 2 then u:save("dealt.npz") end
u:run{steps = 10, view = false}
print("T", kept:theta():norm(), 0)
if fopo.ranks().size == 4 then
  local v = made()
  v:resume("dealt.npz")
  v:run{steps = 10, view = false}
  print("T", kept:theta():norm(), 0)
end
local function refused(what, f, ...)
  local ok, why = pcall(f, ...)
  io.stderr:write(ok and what .. " is not refused\\n" or "")
  local known = ok or why:find("dealt out") or why:find("shared")
  if not known then io.stderr:write(what, ": ", why, "\\n") end
end
refused("reinforce", gradient.reinforce{}.compute, gradient.reinforce{}, kept, x, rows, hits)
refused("a fault", gradient.snis{fault = "no_q"}.compute,
        gradient.snis{fault = "no_q"}, kept, x, rows, hits)
refused("items that are learnt", policy.linear, {items = items, train_items = true})
refused("a row", items.get, items, 1, 1)
refused("a search here alone", ix.search, ix, x, 3)
refused("a file", kept.save, kept, "policy.npz")
if fopo.ranks().size > 1 then
  refused("a log of one's own", fopo.ope, taste, lg:part(1, 100 + fopo.ranks().rank), {})
end
local part = s.train:share(kept)
refused("the shape of shares", fopo.evaluate, kept, part)
local of_part = fopo.trainer{policy = kept, data = part}.reward
refused("hits of shares", of_part.value, of_part, kept:best(x:rows_of{1}), {1})
refused("contexts of others", gradient.snis{}.compute, gradient.snis{}, kept, x, rows, of_part)
"""


def near(one, other):
    """Lines of a kind and numbers, equal to 1e-6; whole numbers exactly."""
    for a, b in zip(one.strip().split("\n"), other.split("\n")):
        a, b = a.split(), b.split()
        if a[:1] != b[:1] or len(a) != len(b):
            return False
        scale = max([abs(float(v)) for v in a[1:4]] or [1])
        for u, v in zip(a[1:], b[1:]):
            bound = {"I": 0, "S": 1e-5}.get(a[0], 1e-6)
            if abs(float(u) - float(v)) > bound * max(abs(float(v)), scale):
                return False
    return True


code, truth, err = run(1, "-e", "ALL = true\n" + DEALT)
check("the truth", code == 0 and truth.count("\n") == 57 + 130, truth, err)
dealt = {}
for n in (1, 2, 3, 4) if ALL else (1, 2, 4):
    code, out, err = run(n, "-e", DEALT)
    check(f"dealt out to {n}", code == 0 and err == "", out, err)
    check(f"{n} parts, the numbers of the whole", near(truth, out), truth, out)
    dealt[n] = out.strip().split("\n")
    names = open("beta.parts").read().split()
    read = subprocess.run([sys.executable, "-c", "import sys, numpy as np\n"
                           "a = np.concatenate([np.load(f) for f in sys.argv[1:]])\n"
                           "print((a == np.load('whole.npy')).all())", *names],
                          capture_output=True, text=True)
    check("NumPy joins the files", len(names) == n and read.stdout == "True\n", names, read)
    with open("one.npy", "rb") as one, open("whole.npy", "rb") as whole:
        check("ranks write the file of one process", one.read() == whole.read())
    alone = run(1, "-e", 'print(fopo.policy.load("policy.npz"):theta():norm())')
    check("one process loads what ranks saved", alone[1].startswith("2.828427124"), alone)
    kept = sorted(f for f in os.listdir(".") if f.startswith("beta.") and f.endswith(".npy"))
    check("no older files", kept == sorted(names), kept, names)
check("a checkpoint of two resumed by four", near(dealt[4][-1], dealt[2][-1]), dealt)

# ---- data shared out: no rank has all interactions, users or items ----

program("test_shares", (2, 3, 4, 5) if ALL else (3,))

# from files to recommendations: read, split, embed, train, in parts
here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sample = open(os.path.join(here, "datasets/sample.csv")).read().strip().split("\n")
half = len(sample) // 2
for name, rows in (("first.csv", sample[1:half]), ("second.csv", sample[half:])):
    with open(name, "w") as f:
        f.write("user,item,time\n")
        for row in rows:  # users of both files; times that are often equal
            user, item = row.split(",")[:2]
            f.write(f"{user},{item},{sum(map(ord, user + 2 * item)) % 90}\n")
FILES = """
local d = data.read({"first.csv", "second.csv"}, {shard = not ALL})
for _, split in ipairs{"users", "time", "last"} do
  local s = d:sessions{split = split, min_items = 5}
  print("I", d.nnz, d.last_time, s.kept, s.dropped, s.train.n, s.valid.n, s.test.n)
  print("I", s.valid_from or 0, s.test_from or 0)
  for _, part in ipairs{s.train:gather(9), s.valid:gather(9), s.test:gather(9)} do
    for i = 1, part.n do
      print("I", part:user(i), part:x(i).cols, part:x(i):get(1, 1), part:y(i):get(1, 1))
    end
  end
  local items, singular = embed.svd(s.train, {dim = 8, shard = not ALL})
  local pi = policy.linear{items = items}
  local t = fopo.trainer{policy = pi, data = ALL and s.train or s.train:share(pi), batch = 16,
                         seed = 3, valid = s.valid:gather(50), resplit = false}
  t:run{steps = 40, view = false, keep_best = false}
  print("S", singular[1], singular[8])
  print("T", pi.temperature, pi:theta():norm(), t.history.valid_expected[2])
  local e = fopo.evaluate(pi, s.test:gather(100))
  print("T", e.expected, e.reward, e.recall[20])
  local new = pi:recommend({items = {d:item_name(7), d:item_name(40)}}, 3)
  for _, one in ipairs(new) do print("T", one.item, one.score, one.probability) end
end
-- recommendations for the users of a file, which the first rank writes
local read = data.read("SAMPLE")
if not ALL then read = read:share() end
local parts = read:sessions{min_items = 10}
local beta = embed.svd(parts.train, {dim = 8, shard = not ALL})
policy.linear{items = beta, theta = "identity"}:recommend_file("SAMPLE", "best.csv", {n = 5})
""".replace("SAMPLE", os.path.join(here, "datasets/sample.csv"))

WHOLE_RUN = """
local function made(o)
  local d = data.synthetic(o)
  return ALL and d or d:share()
end
local d = made{users = 400, items = 500, clusters = 8, seed = 3}
local s = d:sessions{min_items = 10}
print("I", d.n_users, d.nnz, s.train.n, s.valid.n, s.kept, s.dropped)
local some = s.train:gather(9)
for i = 1, 9 do print("I", some:user(i), some:x(i):get(1, 1), some:y(i).cols) end
local items, singular = embed.svd(s.train, {dim = 8, shard = not ALL})
print("S", singular[1], singular[8], some:contexts(items):norm())
for _, scale in ipairs{"mean", "unit", "idf"} do
  local pi = policy.linear{items = items, contexts = scale}
  local t = fopo.trainer{policy = pi, data = ALL and s.train or s.train:share(pi), batch = 13,
                         seed = 7, valid = s.valid:gather(20), gradient = gradient.snis{},
                         resplit = false}
  t:run{steps = 40, view = false, keep_best = false}
  print("T", pi.temperature, pi:theta():norm(), t.history.reward[1], t.history.valid_expected[2])
  local e = fopo.evaluate(pi, s.test:gather(1000))
  print("T", e.expected, e.reward, e.contexts)
end
-- items that every rank has whole: no bit differs
s = made{users = 400, items = 500, clusters = 8, seed = 4}:sessions{split = "last", min_items = 10}
local pi = policy.linear{items = fopo.array.randn(500, 8, 1), data = s.train}
local t = fopo.trainer{policy = pi, data = ALL and s.train or s.train:share(pi), batch = 13,
                       seed = 7, valid = s.valid:gather(50), resplit = false}
t:run{steps = 40, view = false, keep_best = false}
print("I", pi.temperature, pi:theta():norm(), t.history.valid_expected[3], t.history.reward[20])
local popular = fopo.baseline.popular{data = s.train}
local ids, scores = popular:best(s.test:gather(3), {k = 4})
for k = 1, 4 do print("I", ids:get(1, k), scores:get(1, k)) end
local als = fopo.baseline.als{data = s.train, dim = 8, iterations = 3, seed = 2}
for _, a in ipairs{1, 2, 77, 500} do print("I", als:items():get(a, 1), als:items():get(a, 8)) end
local many = made{users = 400, items = 120, clusters = 8, seed = 4}:sessions{min_items = 5}
ids, scores = fopo.baseline.ease{data = many.train, l2 = 20}:best(many.test:gather(3), {k = 4})
for k = 1, 4 do print("I", ids:get(3, k), scores:get(3, k)) end
if ALL then return end
local function refused(what, part, f, ...)
  local ok, why = pcall(f, ...)
  local known = not ok and tostring(why):find(part, 1, true)
  if not known then io.stderr:write(what, ": ", tostring(why), "\\n") end
end
local gather = "s:gather(1000) puts 1,000 of them on every rank"
refused("evaluate", gather, fopo.evaluate, pi, s.test)
refused("contexts", gather, s.train.contexts, s.train, pi:items())
refused("a session", gather, s.train.x, s.train, 1)
refused("the reward", gather, fopo.reward.hits, s.train)
refused("knn", gather, fopo.baseline.item_knn, {data = s.train})
refused("the l2 of ease", "holds out users", fopo.baseline.ease, {data = many.train})
refused("ease", "inverts users x users", fopo.baseline.ease, {data = s.train, l2 = 20})
refused("slim", "slim counts the users that two items share", fopo.baseline.slim, {data = s.train})
refused("neighbours", "count the users that two of them share", policy.neighbours, {data = s.train})
refused("a whole svd", gather, embed.svd, s.train, {dim = 8})
refused("valid", "valid = s.valid:gather(1000)", fopo.trainer,
        {policy = pi, data = s.train:share(pi), valid = s.valid})
refused("data", "s:share(pi) is to train on", fopo.trainer, {policy = pi, data = s.train})
refused("a file", "the dataset is shared out", d.save, d, "d.npz")
refused("a share of it", "shared out to the ranks already", d.share, d)
refused("files", "the dataset is shared out", fopo.data.sessions, {train = d, test = d})
refused("dim", "36 contexts x 500 items", embed.svd, made{users = 36, items = 500}:sessions{
  min_items = 2, valid = 0, test = 0}.train, {dim = 40, shard = true})
"""


def best_of_users():
    """What recommend_file has written, which is taken away."""
    os.rename("best.csv", "read.csv")
    with open("read.csv") as f:
        return [line.split(",") for line in f]


code, truth, err = run(1, "-e", "ALL = true\n" + FILES + WHOLE_RUN)
check("a whole run of one", code == 0 and truth.count("\n") == 105 + 30, truth, err)
true_best = best_of_users()
check("lists of many users", len(true_best) > 1000)
for n in (1, 2, 3, 4) if ALL else (1, 2, 4):
    code, out, err = run(n, "-e", FILES + WHOLE_RUN)
    check(f"a whole run of {n}", code == 0 and err == "", out, err)
    check(f"a whole run of {n}: the numbers of one process", near(truth, out), truth, out)
    best = best_of_users()
    check(f"a file by {n}: the same items", [t[:3] for t in best] == [t[:3] for t in true_best])
    check(f"a file by {n}: the same scores", all(abs(float(a[3]) - float(b[3])) < 1e-4
                                                for a, b in zip(best[1:], true_best[1:])))

# names, of which each rank has a share: asked for, looked up, guessed at, and in a policy's file
NAMES = """
local d = data.read({"first.csv", "second.csv"}, {shard = true})
local s = d:sessions{min_items = 5}
local pi = policy.linear{items = embed.svd(s.train, {dim = 8, shard = true}), theta = "identity"}
local name = d:item_name(7)
print(name, d:find_item(name), d:find_user(d:user_name(d.n_users)), d:find_item("nobody"))
print(select(2, pcall(pi.recommend, pi, {items = {name .. "0"}}, 2)))
pi:save("named.npz", {items = "named.npy"})
print(pi:recommend({items = {name}}, 2)[2].name)
"""
LOAD = 'print(fopo.policy.load("named.npz"):recommend({items = {"%s"}}, 2)[2].name)'
said = []
for n in (1, 3):
    code, out, err = run(n, "-e", NAMES)
    check(f"names of {n}", code == 0 and "did you mean" in out, out, err)
    said.append(out.split("\n"))
    alone = run(1, "-e", LOAD % out.split("\t")[0])
    check(f"names that {n} saved", alone[1] == said[-1][-2] + "\n", alone, out)
check("the names of one process", said[0] == said[1], said)

# what a rank takes while it splits, embeds and shares is its part of what one process takes; of two
# matrices by users that the SVD has of several, one process needs one. A rank sends N x 32 floats
# for each of its two pairs of products, less than a part of the interactions, and little else
taken = {}
for n in (1, 2, 4):
    code, out, err = run(n, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                         "ranks_data.lua"))
    lines = out.strip().split("\n")
    check(f"memory of {n}", code == 0 and len(lines) == n, out, err)
    for line in lines:
        N, nnz, *words = line.split()
        one = {words[i]: [int(w) for w in words[i + 2:i + 7:2]] for i in range(0, len(words), 7)}
        taken.setdefault(n, one)
        numbers = 2 * int(N) * 32 + int(nnz) / n
        check(f"{n} ranks: svd sent", n == 1 or one["svd"][2] < 1.05 * 4 * numbers, line)
        for name, most in (("split", 1.1), ("svd", 1.6), ("share", 1.3 + 0.1 * n)):
            held, peak, _ = taken[1][name]
            check(f"{n} ranks: {name} held", one[name][0] < 1.1 * held / n, line, taken[1])
            check(f"{n} ranks: {name} taken", one[name][1] < most * peak / n, line, taken[1])

# the example, with the head by mass: begun by two, taken further by three
os.mkdir("example")
for n, steps in ((2, 20), (3, 30)):
    code, out, err = run(n, os.path.join(here, "scripts/examples/ranks.lua"),
                         os.path.join(here, "datasets/sample.csv"), "8", str(steps), "example")
    check(f"the example on {n}", code == 0 and ("resumed at step 20" in out) == (n == 3), out, err)

# the schedule of a step, played: without chance it is the formula of docs/ranks.md
code, out, err = run(1, os.path.join(here, "scripts/studies/ranks_schedule.lua"), "quick",
                     "jitter=0")
rows = [[float(w) if "." in w else int(w) for w in re.findall(r"[\d.]+", line)]
        for line in out.split("\n")[-7:-1]]
check("the schedule", code == 0 and [r[1] for r in rows] == [2, 4, 8] * 2, out, err)
for row in rows:
    check("played as computed", abs(row[2] / row[7] - 1) < 0.1, row, out)
    check("its parts", abs(sum(row[3:7]) - row[2]) < 0.005, row, out)
    share, agreed = (row[1] - 1) / row[1] * 256, 8 * (row[1].bit_length() - 1)
    check("its bytes", row[9] == share * (12 * 128 + 60) + agreed + 4 * (row[1] - 1), row, out)

# ---- the first decides, shows and keeps ----

CODE = WORLD + """
local rank = fopo.ranks().rank
local out = io.open("rank-" .. rank, "w")
local function tell(t) out:write(t.step, " ", t.policy:theta():norm(), " ", #t.history.step, " ",
  tostring(t.best_step), " ", t.optim.lr, "\\n") end
local t = new(mixture{}, 1e-3)
t:run{seconds = 0.3}
t:run{seconds = 0.2, every = 7, view = false}
tell(t)
local u = new(mixture{}, 1e-3)
u:run{steps = 200, patience = 2, log = "log", json = true,
      replay = {{step = 20, what = "lr", value = 0.3}}}
tell(u)
local v = new(mixture{}, 1e-3)
v:run{steps = 100, on_record = function(_, n) return rank == 0 and n == 3 end, view = false}
tell(v)
local function failure(...) out:write(tostring(select(2, pcall(...))), "\\n") end
failure(v.run, v, {steps = 50, view = "curses"})
failure(v.run, v, {steps = 50, view = false, on_record = function()
  if rank == 0 then error("of the first", 0) end end})
failure(v.start, v, {steps = 1})
local w = new(mixture{}, 1e38)
failure(w.run, w, {steps = 50, view = false})
local alone = fopo.reward.custom(function(ids, rows)
  if rank == 1 then error("of the second", 0) end
  return fopo.array.zeros(ids.rows, ids.cols)
end)
local x = fopo.trainer{policy = policy.linear{items = items, seed = 1}, data = s.train, batch = 5,
  reward = alone, seed = 7, optim = optim.adam{}, gradient = gradient.snis{samples = 8}}
failure(x.run, x, {steps = 5, view = false})
out:write(x.step, "\\n")
local lg = data.synthetic_logs{n = 50, actions = 40, dim = 4}
failure(fopo.ope, policy.linear{items = fopo.shard(lg:items())}, lg, {model = function(ids)
  if rank == 1 then error("of the model", 0) end
  return fopo.array.zeros(ids.rows, ids.cols)
end})
tell(t)
out:close()
print("said once")
"""
code, out, err = run(2, "-e", CODE)
check("it ends", code == 0, out, err)
if code == 0:
    first, second = (open("rank-%d" % r).read().split("\n") for r in (0, 1))
    check("the same bits", first[:3] == second[:3], first, second)
    check("the same words", first[3:7] == second[3:7], first, second)
    check("stopped by the first", first[2].split()[0] == "15", first)
    check("no view", "curses" in first[3] or "terminal" in first[3], first)
    check("the first's error", first[4] == "of the first", first)
    check("no jobs", "use t:run" in first[5], first)
    check("a failure", "could move theta beyond" in first[6], first)
    check("the second's error", second[7].startswith("of the second") and "rank 1 (" in first[7],
          first, second)
    check("no step of it", first[8] == second[8] == "0", first, second)
    check("a model's error", second[9] == "of the model" and "rank 1 (" in first[9], first, second)
    check("the first run is as it was", first[10:] == second[10:], first, second)
    lines = [line for line in out.split("\n") if line.startswith("{")]
    steps = int(first[1].split()[0])
    check("shown once", len(lines) == steps // 10 and out.count("said once") == 1, out)
    check("logged once", len(open("log/history.csv").read().strip().split("\n")) == steps // 10 + 1)

# ---- what ends all ----

began = time.time()
code, out, err = run(3, "-e", WORLD + """
t = new(mixture{})
t:run{steps = 30, view = false}
t:save("whole.npz")
if fopo.ranks().rank == 2 then error("of the third") end
t:run{steps = 1e6, view = false}""")
check("an error on one ends all", code != 0 and time.time() - began < 10, code, err)
check("it names rank and host",
      "rank 2 of 3 on " + os.uname().nodename in err and "of the third" in err, err)
code, out, err = run(2, "-e", WORLD + 't = new(mixture{})\nt:resume("whole.npz")\nprint(t.step)')
check("the checkpoint is whole", out == "30\n", out, err)

began = time.time()
code, out, err = run(2, "-e", "error('of all')")
check("an error on all is told once", code != 0 and err.count("of all") == 1, err)

process = start(3, "-e", WORLD + """
io.open("pid-" .. fopo.ranks().rank, "w"):write(io.open("/proc/self/stat"):read("n")):close()
new(mixture{}):run{steps = 1e6, view = false}""")
while not all(os.path.exists(f"pid-{r}") and open(f"pid-{r}").read() for r in range(3)):
    time.sleep(0.05)
    if time.time() - began > 60 or process.poll() is not None:
        break
time.sleep(0.3)
pids = [int(open(f"pid-{r}").read()) for r in range(3)]
began = time.time()
os.kill(pids[1], signal.SIGKILL)
try:
    out, err = process.communicate(timeout=30)
except subprocess.TimeoutExpired:
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
check("a death of one ends all", process.returncode != 0 and time.time() - began < 10, err)
check("which is said", "rank 1" in err and os.uname().nodename in err, err)


def lives(pid):
    """A process that has ended may still stand in the list, as a zombie."""
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


while any(lives(p) for p in pids) and time.time() - began < 10:
    time.sleep(0.05)
check("nobody is left", not any(lives(p) for p in pids), pids)

# ---- signals: the checkpoint of the last step ----

KEPT = WORLD + """
io.open("pid-" .. fopo.ranks().rank, "w"):write(io.open("/proc/self/stat"):read("n")):close()
new(mixture{}):run{steps = 1e6, view = false, checkpoint = "NAME.npz"}"""


def begun(name):
    """A run on two ranks that has made steps, and the ranks' processes."""
    for r in range(2):
        if os.path.exists(f"pid-{r}"):
            os.remove(f"pid-{r}")
    process, until = start(2, "-e", KEPT.replace("NAME", name)), time.time() + 60
    while not all(os.path.exists(f"pid-{r}") and open(f"pid-{r}").read() for r in range(2)):
        time.sleep(0.02)
        if time.time() > until or process.poll() is not None:
            break
    time.sleep(0.2)
    return process, [int(open(f"pid-{r}").read()) for r in range(2)]


AGAIN = WORLD + """
t, u = new(mixture{}), new(mixture{})
t:resume("NAME.npz")
local step = t.step
t:run{steps = 5, view = false, keep_best = false}
u:run{steps = step + 5, view = false, keep_best = false}
print(step > 0, t.policy:theta():norm() == u.policy:theta():norm())"""
for name, number, whom in (("int", signal.SIGINT, None), ("term", signal.SIGTERM, 1)):
    process, pids = begun(name)
    os.kill(process.pid if whom is None else pids[whom], number)
    try:
        out, err = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    check(f"{name} ends all", process.returncode != 0, process.returncode, err)
    check(f"{name}: said by the first", err.count("interrupted after step") == 1 and
          "has failed" not in err, err)
    check(f"{name}: where it goes on", (f"{name}.npz is the checkpoint of step" in err) ==
          (whom is None), err)
    code, out, err = run(1, "-e", AGAIN.replace("NAME", name))
    check(f"{name}: its bits", out == "true\ttrue\n", out, err)

# ---- machines of several kinds ----

UNLIKE = WORLD + 'io.write(fopo.isa(), "\\n")\nio.write(steps(new(mixture{}), 30), "\\n")'


def run_unlike(name, values):
    """Ranks that differ in a variable of the environment."""
    parts = []
    for value in values:
        parts += [":"] * bool(parts) + ["-n", "1", "env", f"{name}={value}", FOPO, "-e", UNLIKE]
    done = subprocess.run(MPIRUN + parts, capture_output=True, text=True, env=ALONE, timeout=60,
                          stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


truth = subprocess.run([FOPO, "-e", UNLIKE], capture_output=True, text=True,
                       env={**ALONE, "FOPO_ISA": "portable"}).stdout.split("\n")
code, out, err = run_unlike("FOPO_ISA", ("", "portable"))
check("the set that all have", code == 0 and len(truth) == 3 and
      set(out.split("\n")) == set(truth), out, err, truth)
check("which is said", err.count("all use portable") == 1, err)
code, out, err = run_unlike("OPENBLAS_CORETYPE", ("Haswell", "Nehalem"))
if code == 0 and "OpenBLAS" not in err:
    print("skip: processors that OpenBLAS tells apart (this build knows one)")
else:
    check("OpenBLAS of two kinds", code != 0 and out == "" and "OPENBLAS_CORETYPE=" in err, out,
          err)
code, out, err = run(2, "-e", WORLD + """
t = new(mixture{})
t:run{steps = 2, view = false}
if fopo.ranks().rank == 1 then t.policy:set_theta(fopo.array.randn(8, 8, 1)) end
t:run{steps = 2, view = false}""")
check("ranks that differ", code != 0 and "rank 1 (" in err and "another theta" in err, out, err)

# ---- make test-ranks: 4 x 2 million items of 32 numbers, of which each of R ranks holds 1 / R ----

LARGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks_large.lua")


def write_items(path, P=8_000_000, L=32):
    """Normal directions with norms of a heavy tail, as embeddings have."""
    import numpy as np
    random = np.random.default_rng(1)
    x = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(P, L))
    for first in range(0, P, 1_000_000):
        block = random.standard_normal((1_000_000, L), dtype=np.float32)
        block *= (0.3 * random.pareto(3, 1_000_000) + 0.015).astype(np.float32)[:, None]
        x[first:first + 1_000_000] = block
    x.flush()
    return P * L * 4 / 2**20


def numbers(line):
    words = line.split()
    return dict(zip(words[::2], words[1::2]))


if ALL:
    whole = write_items("items.npy")
    code, out, err = run(1, LARGE, "items.npy", "whole")
    truth = numbers(out)
    check("the whole", code == 0, out, err)
    for n in (2, 4):
        code, out, err = run(n, LARGE, "items.npy", limit=600)
        lines = [numbers(line) for line in out.strip().split("\n")]
        check(f"large: {n} ranks end", code == 0 and len(lines) == n, out, err)
        for one in lines:
            print("  ", one)
            check("held: 1 / R and a tenth", float(one["held"]) < 1.1 * whole / n, one, whole)
            check("theta", abs(float(one["theta"]) / float(truth["theta"]) - 1) < 2e-8, one, truth)
            check("best", one["best"] == truth["best"], one, truth)
            # sums to the ranks that join them, v and statistics to all, a status, an agreement
            most = 32 * 4 * (2 * 32 + 10) * (n - 1) / n + (32 // n + 1) * 4 * (32 + 5) + 16
            check("bytes of a step", float(one["bytes"]) < most, one, most)

# ---- a job of Slurm: scripts/examples/ranks.slurm, with an srun that starts two by mpirun ----

os.mkdir("job")
os.symlink(FOPO, "job/fopo")
os.symlink(os.path.join(here, "scripts"), "job/scripts")
with open("job/srun", "w") as f:
    f.write("""#!/bin/sh
test "$1 $2 $3 $4" = "--mpi=pmix --kill-on-bad-exit=1 --cpu-bind=none ./fopo" || exit 2
test "$FOPO_THREADS $7 $8 $9" = "1 128 20000 results" || exit 3
echo $$ > srun.pid
SLURM_STEP_NUM_TASKS=2 exec %s -n 2 "$4" "$5" "$6" 8 "$STEPS" results
""" % " ".join(MPIRUN))
os.chmod("job/srun", 0o755)


def job(steps):
    """The job, started; its results lie in job/results."""
    return subprocess.Popen(["sh", os.path.join(here, "scripts/examples/ranks.slurm"),
                             os.path.join(here, "datasets/sample.csv")], cwd="job", text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            stdin=subprocess.DEVNULL,
                            env={**ALONE, "SLURM_CPUS_PER_TASK": "1", "STEPS": str(steps),
                                 "OMPI_MCA_odls_base_sigkill_timeout": "20",
                                 "PATH": folder + "/job:" + ALONE["PATH"]})


process = job(400000)  # the first line after 20000: mpirun may take seconds to hear a signal
for line in process.stdout:
    if line.startswith("step "):
        break
os.kill(int(open("job/srun.pid").read()), signal.SIGTERM)  # as scancel, and the end of its time
out, err = process.communicate(timeout=60)
cut = re.search(r"checkpoint.npz is the checkpoint of step (\d+)", err)
check("a job that is ended keeps its work", process.returncode != 0 and cut and
      sorted(os.listdir("job/results")) == ["checkpoint.npz", "items.npy"], out, err)
done_steps = int(cut.group(1)) if cut else 0
process = job(done_steps + 20)
out, err = process.communicate(timeout=120)
check("started again it goes on", process.returncode == 0 and out.startswith("2 ranks by ") and
      f"resumed at step {done_steps}\n" in out and
      sorted(os.listdir("job/results")) == ["checkpoint.npz", "items.npy", "policy.npz"], out, err)

# ---- a list of machines: scripts/examples/ranks.sh, where a process is killed ----

with open("job/hosts", "w") as f:
    f.write("localhost slots=2\n")


def children(pid):
    return subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()


process = subprocess.Popen(["sh", os.path.join(here, "scripts/examples/ranks.sh"), "hosts",
                            os.path.join(here, "datasets/sample.csv")], cwd="job", text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           stdin=subprocess.DEVNULL,
                           env={**ALONE, "FOPO_THREADS": "1", "PAUSE": "0", "DIM": "8",
                                "STEPS": str(done_steps + 600),  # not over before it is killed
                                "MPIRUN_OPTIONS": " ".join(MPIRUN[1:])})
started, said = [], ""
for line in process.stdout:
    said += line
    if line.startswith("resumed ") and not started:
        started = children(children(process.pid)[0])
        os.kill(int(started[-1]), signal.SIGKILL)
check("a list of machines: tried again after a kill", process.wait(60) == 0 and
      len(started) == 2 and said.count("\nresumed ") == 2 and "ranks.sh: try 2 of 10\n" in said,
      started, said)
done = subprocess.run([FOPO, "-e", "print(1)"], capture_output=True, text=True, timeout=60,
                      env={**ALONE, "SLURM_STEP_NUM_TASKS": "2"}, stdin=subprocess.DEVNULL)
check("srun without PMIx", done.returncode != 0 and done.stdout == "" and
      "srun has started 2 processes" in done.stderr and "srun --mpi=pmix" in done.stderr, done)

# ---- starting ----

code, out, err = run(3)
check("no prompt for several", err.count("mpirun -n 3 fopo script.lua") == 1, err)
code, out, err = run(2, "-v")
check("the machines", out.count("machines") == 1 and ", 2 ranks" in out and "rank 1" in out, out)
ALONE["FOPO_MPI"] = folder + "/none.so"
code, out, err = run(2, "-e", "print(1)")
check("without MPI", code != 0 and "has started 2 processes" in err and
      "or start one process" in err and out.strip() == "", out, err)
ALONE["FOPO_MPI"] = "none"
code, out, err = run(2, "-e", "print(fopo.ranks().size)")
check("each alone", out.split() == ["1", "1"], out, err)

finish()
