"""scripts/served.lua against NumPy: means and paired intervals over users from the lists of best
items; what it says of a method that fails and of a wrong command line. Skipped without numpy."""
import csv
import os
import re
import subprocess
import sys

try:
    import numpy as np
except ImportError:
    print("skip: numpy is not here")
    sys.exit(77)

from checks import check, finish, folder, FOPO

SCRIPT = os.path.abspath("scripts/served.lua")
os.chdir(folder)

# A file of made interactions, and of each of three splits the lists that two methods recommend.
DUMP = """
local d = fopo.data.synthetic{users = 400, items = 300, clusters = 12, seed = 7}
local f = io.open("made.csv", "w")
for n = 1, d.n_users do
  for _, item in ipairs(d:row(n):totable()[1]) do f:write("u", n, ",i", item, "\\n") end
end
f:close()
d = fopo.data.read("made.csv")
for seed = 1, 3 do
  local s = d:sessions{min_items = 10, test = 0.2, valid = 0.1, seed = seed}
  local o = {k = 20, exclude = "seen"}
  fopo.baseline.popular{data = s.train}:best(s.test, o):save(("popular%d.npy"):format(seed))
  fopo.baseline.slim{data = s.train}:best(s.test, o):save(("slim%d.npy"):format(seed))
  f = io.open(("y%d.txt"):format(seed), "w")
  for n = 1, s.test.n do
    f:write(s.test:user(n), " ", table.concat(s.test:y(n):totable()[1], " "), "\\n")
  end
  f:close()
end
"""


def run(*words):
    return subprocess.run([FOPO, SCRIPT, *words], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL)


done = subprocess.run([FOPO, "-e", DUMP], capture_output=True, text=True, stdin=subprocess.DEVNULL)
check("fopo ends", done.returncode == 0, done.stdout, done.stderr)


def measured(name, seed):
    """Reward, recall@20 and NDCG@20 of each context [N, 3], and the user of each."""
    values, users = [], []
    lists = np.load("%s%d.npy" % (name, seed)) + 1
    for ids, line in zip(lists, open("y%d.txt" % seed)):
        user, *y = map(int, line.split())
        hits = np.isin(ids, y)
        gains = 1 / np.log2(np.arange(2, 22))
        values.append([hits[0], hits.sum() / len(y),
                       (hits * gains).sum() / gains[:len(y)].sum()])
        users.append(user)
    return np.array(values, float), np.array(users)


out = run("made.csv", "only=popular,slim", "out=" + os.path.join(folder, "to"))
check("the script ends", out.returncode == 0, out.stdout, out.stderr)
popular, slim = ([measured(name, seed) for seed in (1, 2, 3)] for name in ("popular", "slim"))
rows = list(csv.DictReader(line for line in open("to.csv") if line[0] != "#"))
check("a row for each method and seed", len(rows) == 6, rows)
for row in rows:
    mine = measured(row["method"], int(row["seed"]))[0].mean(axis=0)
    his = [float(row[name]) for name in ("reward", "recall", "ndcg")]
    check("%(method)s, seed %(seed)s" % row, np.allclose(mine, his, atol=1e-6), mine, his)

# The interval of a mean over users, by the variance of what each user adds to it.
shifts = [(p - s).mean(axis=0) for (p, _), (s, _) in zip(popular, slim)]
added = {}
for (p, users), (s, _), shift in zip(popular, slim, shifts):
    for user, d in zip(users, p - s):
        added[user] = added.get(user, 0) + (d - shift) / (3 * len(users))
half = 1.96 * np.sqrt(sum(D ** 2 for D in added.values()))
check("users return in other seeds", len(added) < sum(len(u) for _, u in popular))
line = next(row for row in open("to.md", encoding="utf-8") if row.startswith("| popular"))
cells = [cell.strip() for cell in line.split("|")[2:-1]]
for i, (cell, shift, h) in enumerate(zip(cells[1:6:2], np.mean(shifts, axis=0), half)):
    said = re.fullmatch(r"([-+][\d.]+) ± ([\d.]+)( \*)?", cell)
    check("difference %d" % i, said and abs(float(said[1]) - shift) < 1e-4
          and abs(float(said[2]) - h) < 1e-4 and bool(said[3]) == (abs(shift) > h), cell, shift, h)
check("the table is printed too", all(cell in out.stdout for cell in cells[:6]), out.stdout, cells)

# A policy has two rows; a method that fails is said, and the others go on.
out = run("made.csv", "quick", "only=ease,popular,neighbours")
check("a policy as it starts and as it is trained",
      re.search(r"(?m)^neighbours, start +0\.\d+ .*\nneighbours +0\.\d+ ", out.stdout), out.stdout,
      out.stderr)
check("ease is the reference where it is there", "against ease" in out.stdout, out.stdout)
out = run("made.csv", "quick", "only=popular,linear", "dim=4000")
check("what failed is said", re.search(r"(?m)^linear, seed 2: .*dim", out.stdout)
      and re.search(r"(?m)^popular +0\.\d+ ", out.stdout), out.stdout, out.stderr)

for words, said in (([], "which files"), (["made.csv", "only=esae"], "no method esae"),
                    (["made.csv", "epoch=3"], "no option epoch")):
    out = run(*words)
    check("refused: %s" % said, out.returncode == 2 and said in out.stderr, out.stderr)

finish()
