"""Some problems of tests/judged.py: what a run says of a policy, against NumPy; splits of real
interactions by the same definitions; what ease refuses. Skipped without numpy."""
import csv
import gzip
import random
import subprocess

from checks import check, finish, FOPO, real_file
from judged import interactions, log_problem, solve, solved, write


def movielens(path):
    with open(path) as f:
        return [(r["userid"], r["movieid"], float(r["timestamp"])) for r in csv.DictReader(f)]


def tweetings(path):
    with open(path) as f:
        return [(r[0], r[1], float(r[3])) for r in (line.strip().split("::") for line in f)]


problems = []
for name, parse, least in (("movielens-latest-small/ratings.csv", movielens, 20),
                           ("movietweetings-100k/ratings.dat", tweetings, 4)):
    path = real_file(name)
    for split in ("time", "last") if path else ():
        o = {"split": split, "min_items": least, "observed": 0.6, "valid": 0.1, "test": 0.1}
        problems.append({"name": f"{name}, {split}", "file": path, "timed": True, "split": o,
                         "rows": parse(path), "methods": []})
check("real files", solved(problems) == len(problems))

# what users of a shop were shown at its first position, at random
path = real_file("open-bandit/random_men.csv.gz")
if path:
    with gzip.open(path, "rt") as f:
        shown = [row for row in csv.DictReader(f) if row["position"] == "1"]
    kinds = sorted({row["user_feature_0"] for row in shown})
    events = [([float(row["user_feature_0"] == kind) for kind in kinds] + [1.0],
               int(row["item_id"]), float(row["click"]), float(row["propensity_score"]))
              for row in shown]
    problems = [log_problem(random.Random(k), "open-bandit-%d" % k, (events, 34))
                for k in range(4)]
    check("open bandit", solved(problems) == len(problems))

# every kind of split of two files, one of which has times; pairs repeat, and times are equal
problems = []
for timed, kinds in (
        (True, [("time", {}), ("time", {"seen": "keep"}), ("time", {"seen": "keep", "valid": 0}),
                ("time", {"test_from": 80}), ("time", {"test_from": 80, "valid": 0}),
                ("time", {"valid_from": 50, "test_from": 70, "seen": "keep", "observed": 0.7}),
                ("last", {}), ("last", {"valid": 0}), ("users", {"order": "time"}),
                ("users", {"order": "time", "observed": 0.9}),
                ("users", {"order": "time", "observed": 0.01})]),
        (False, [("last", {}), ("last", {"valid": 0}), ("users", {"observed": 0.7})])):
    r, file = random.Random(2), "timed.csv" if timed else "untimed.csv"
    rows = [(u, a, r.randrange(100)) for u, a, _ in interactions(r, timed, 200, 80)]
    write(file, rows, timed)
    for split, more in kinds:
        o = {"split": split, "min_items": 3, "observed": 0.5, "valid": 0.1, "test": 0.2, **more}
        problems.append({"name": f"{split}, {more}", "file": file, "timed": timed, "split": o,
                         "rows": rows, "methods": []})
check("splits", solved(problems) == len(problems))
check("most splits can be made", solve(1, 64) > 55)
# of few events a spread is seldom that of one more, or one less
problems = [log_problem(random.Random(k), "few-%d" % k, most=9) for k in range(40)]
check("few events", solved(problems) == len(problems))

# what would not fit is refused before it is allocated: n^2 floats of the smaller side, 150 MB
LARGE = """
s = fopo.data.synthetic{users = %d, items = %d, clusters = 4, mean_items = 8}
    :sessions{min_items = 2}
print(pcall(fopo.baseline.ease, {data = s.train}))
"""
for users, items, which in ((9000, 9000, "users x users matrix"),
                            (12000, 6100, "items x items weights")):
    done = subprocess.run([FOPO, "--max-memory", "150M", "-e", LARGE % (users, items)],
                          capture_output=True, text=True)
    for part in ("the %s of ease, the smaller of " % which, " needs 0.", "use slim"):
        check("too large: " + which, part in done.stdout, done.stdout, done.stderr)
    check("before l2 is searched for", "inverting" not in done.stderr, done.stderr)
finish()
