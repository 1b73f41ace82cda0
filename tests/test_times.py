"""Times of interactions against Python's datetime and NumPy: files made here, and real ones where
they are; what d:save writes, read by NumPy and SciPy."""
import csv
import datetime as dt
import os
import random
import subprocess
import sys

from checks import check, finish, folder, FOPO, real_file

try:
    import numpy as np
    import scipy.sparse as sp
except ImportError:
    print("skip  Python has no numpy and scipy")
    sys.exit(77)


def cached(path, options=""):
    """The arrays of the .npz that fopo makes of the file."""
    out = os.path.join(folder, "cache.npz")
    code = "fopo.data.read(arg[1], {%s}):save(arg[2])" % options
    with open(os.path.join(folder, "read.lua"), "w") as f:
        f.write('local fopo = require "fopo"\n' + code)
    done = subprocess.run([FOPO, os.path.join(folder, "read.lua"), path, out], capture_output=True,
                          text=True)
    check("reads " + path, done.returncode == 0, done.stderr)
    z = np.load(out)
    m = sp.load_npz(out)
    check("scipy reads it", m.nnz == z["times"].size, m.nnz, z["times"].size)
    return z


def compare(what, z, rows):
    """rows: (user, item, time), integers and a float."""
    first, last = {}, {}
    for user, item, time in rows:
        pair = user, item
        first[pair] = min(time, first.get(pair, time))
        last[pair] = max(time, last.get(pair, time))
    pairs = sorted(first)
    names = [z[side + "_numbers"] if side + "_numbers" in z else np.arange(10**6)
             for side in ("users", "items")]
    at = np.repeat(np.arange(z["indptr"].size - 1), np.diff(z["indptr"]))
    check(what + ": pairs", [(int(names[0][u]), int(names[1][i])) for u, i in
                             zip(at, z["indices"])] == pairs)
    difference = np.abs(z["times"] - [first[p] for p in pairs]).max()
    check(what + ": first times", difference <= 1e-6, difference)
    if "last_times" in z:
        difference = np.abs(z["last_times"] - [last[p] for p in pairs]).max()
        check(what + ": last times", difference <= 1e-6, difference)
    else:
        check(what + ": no pair repeats", len(pairs) == len(rows))


def written(time, kind):
    """The time as text, and its seconds; by Python's datetime."""
    if kind == 0:
        return str(int(time)), float(int(time))
    if kind == 1:
        return repr(time), time
    zone = dt.timezone(dt.timedelta(minutes=random.choice([0, 90, -330])))
    t = dt.datetime.fromtimestamp(time, zone if kind == 2 else dt.timezone.utc)
    if kind == 2:
        return t.isoformat(random.choice("T "), "microseconds"), t.timestamp()
    if kind == 3:
        text = t.strftime("%Y-%m-%dT%H:%M:%S")
        return text + random.choice(["", "Z"]), dt.datetime.fromisoformat(
            text + "+00:00").timestamp()
    return t.strftime("%Y-%m-%d"), dt.datetime(t.year, t.month, t.day,
                                               tzinfo=dt.timezone.utc).timestamp()


random.seed(7)
for kind in range(5):
    path, rows = os.path.join(folder, "made.csv"), []
    with open(path, "w") as f:
        f.write("user;time;item\n")
        for _ in range(3000):
            user, item = random.randrange(40), random.randrange(60)
            text, seconds = written(random.uniform(1e8, 2e9), kind)
            rows.append((user, item, seconds))
            f.write(f"{user};{text};{item}\n")
    compare(f"kind {kind}", cached(path), rows)

path = real_file("movielens-latest-small/ratings.csv")
if path:
    with open(path) as f:
        rows = [(int(r["userid"]), int(r["movieid"]), float(r["timestamp"]))
                for r in csv.DictReader(f)]
    compare("movielens", cached(path), rows)
path = real_file("movietweetings-100k/ratings.dat")
if path:
    with open(path) as f:
        times = sorted(float(line.split("::")[3]) for line in f)
    check("movietweetings", sorted(cached(path)["times"]) == times)

finish()
