"""Splits of real interactions against their definitions in Python: every item of every session, by
time, by the last item and by given files. The files are read here by Python's csv."""
import csv
import os
import random
import subprocess

from checks import check, finish, folder, FOPO, real_file

INFINITE = float("inf")

SCRIPT = """local fopo = require "fopo"
local s = %s
for _, name in ipairs{"train", "valid", "test"} do
  local part = s[name]
  for i = 1, part and part.n or 0 do
    local line = {name, s.dataset:user_name(part:user(i)), ""}
    for _, half in ipairs{part:x(i), part:y(i)} do
      for k = 1, half.cols do line[#line + 1] = s.dataset:item_name(half:get(1, k)) end
      line[#line + 1] = ""
    end
    print(table.concat(line, "\\t"))
  end
end
print("counts", s.kept, s.dropped, s.valid_from, s.test_from)
"""


def split(expression):
    """{part: {user: (X, Y)}} and the counts, of a split that fopo makes."""
    path = os.path.join(folder, "split.lua")
    with open(path, "w") as f:
        f.write(SCRIPT % expression)
    done = subprocess.run([FOPO, path], capture_output=True, text=True)
    check(expression, done.returncode == 0, done.stderr)
    parts, counts = {"train": {}, "valid": {}, "test": {}}, []
    for line in done.stdout.splitlines():
        fields = line.split("\t")
        if fields[0] == "counts":
            counts = [None if x == "nil" else float(x) for x in fields[1:]]
            continue
        gap = fields.index("", 3)
        check("no user twice in a part", fields[1] not in parts[fields[0]])
        parts[fields[0]][fields[1]] = set(fields[3:gap]), set(fields[gap + 1:-1])
    return parts, counts


def by_user(rows):
    """{user: {item: first time}}."""
    users = {}
    for user, item, time in rows:
        items = users.setdefault(user, {})
        items[item] = min(time, items.get(item, INFINITE))
    return users


def check_train(what, got, window, share, timed):
    """Train: window[user] is {item: time}; X is the earlier share of it."""
    check(what + ": users of train", set(got) == {u for u, w in window.items() if len(w) >= 2})
    for user, (x, y) in got.items():
        n = len(window[user])
        fits = (x | y == set(window[user]) and not x & y and len(x) == max(1, int(share * n))
                and (not timed or max(window[user][a] for a in x) <=
                     min(window[user][a] for a in y)))
        if not fits:
            check(f"{what}: train of user {user}", False, x, y)
            return


def by_time(what, path, rows, least):
    users = by_user(rows)
    times = sorted(t for items in users.values() for t in items.values())
    in_test, in_valid = int(0.1 * len(times)), int(0.1 * len(times))
    cuts = times[-in_test - in_valid], times[-in_test]
    parts, counts = split(f'fopo.data.read("{path}"):sessions{{split = "time", '
                          f'min_items = {least}, observed = 0.6}}')
    check(what + ": cuts", counts[2:] == list(cuts), counts, cuts)
    enough = {u: items for u, items in users.items() if len(items) >= least}
    check_train(what, parts["train"], {u: {a: t for a, t in w.items() if t < cuts[0]}
                                       for u, w in enough.items()}, 0.6, True)
    for name, start, end in (("valid", cuts[0], cuts[1]), ("test", cuts[1], INFINITE)):
        want = {}
        for user, items in enough.items():
            x = {a for a, t in items.items() if t < start}
            y = {a for a, t in items.items() if start <= t < end}
            if x and y:
                want[user] = x, y
        check(f"{what}: {name}", parts[name] == want, len(parts[name]), len(want))
    some = set(parts["train"]) | set(parts["valid"]) | set(parts["test"])
    check(what + ": counts", counts[:2] == [len(some), len(users) - len(some)], counts, len(some))


def last(what, path, rows, least):
    users = by_user(rows)
    parts, _ = split(f'fopo.data.read("{path}"):sessions{{split = "last", min_items = {least}}}')
    enough = {u: items for u, items in users.items() if len(items) >= least}
    check(what + ": users of test", set(parts["test"]) == set(enough))
    window = {}
    for user, items in enough.items():
        (x, y), (vx, vy) = parts["test"][user], parts["valid"][user]
        fits = (len(y) == 1 and len(vy) == 1 and x | y == set(items) and vx | vy == x
                and not x & y and not vx & vy
                and all(items[a] <= items[b] for a in x for b in y)
                and all(items[a] <= items[b] for a in vx for b in vy))
        if not fits:
            check(f"{what}: user {user}", False, x, y, vx, vy)
            return
        window[user] = {a: items[a] for a in vx}
    check_train(what, parts["train"], window, 0.5, True)


def files(what, rows):
    """Two files of a random half each, without times, the second with unknown users and items."""
    random.seed(5)
    train, test = {}, {}
    paths = [os.path.join(folder, name) for name in ("train.tsv", "test.tsv")]
    with open(paths[0], "w") as a, open(paths[1], "w") as b:
        for f in (a, b):
            f.write("user\titem\n")
        for user, item, _ in rows:
            for f, held, share in ((a, train, 0.6), (b, test, 0.5)):
                if random.random() < share and not (f is a and item.endswith("7")):
                    f.write(f"{user}\tm{item}\n")
                    held.setdefault(user, set()).add("m" + item)
    for seen in ("drop", "keep"):
        parts, _ = split('fopo.data.sessions{train = "%s", test = "%s", seen = "%s"}'
                         % (*paths, seen))
        window = {u: dict.fromkeys(items, 0) for u, items in train.items()
                  if len(items | test.get(u, set())) >= 2}
        check_train(f"{what}, {seen}", parts["train"], window, 0.5, False)
        want = {u: (items, test.get(u, set()) - (items if seen == "drop" else set()))
                for u, items in train.items()}
        want = {u: (x, y) for u, (x, y) in want.items() if y and len(x | y) >= 2}
        check(f"{what}, {seen}: test", parts["test"] == want, len(parts["test"]), len(want))


def movielens(path):
    with open(path) as f:
        return [(r["userid"], r["movieid"], float(r["timestamp"])) for r in csv.DictReader(f)]


def tweetings(path):
    with open(path) as f:
        return [(r[0], r[1], float(r[3])) for r in (line.strip().split("::") for line in f)]


random.seed(2)
path, made = os.path.join(folder, "made.csv"), []
with open(path, "w") as f:
    f.write("user,item,time\n")
    for _ in range(6000):
        row = (str(random.randrange(150)), str(random.randrange(400)), random.randrange(2000))
        made.append(row)
        f.write("%s,%s,%d\n" % row)
cases = [("made", path, made, 5)]
for name, parse, least in (("movielens-latest-small/ratings.csv", movielens, 20),
                           ("movietweetings-100k/ratings.dat", tweetings, 4)):
    path = real_file(name)
    if path:
        cases.append((name, path, parse(path), least))
for what, path, rows, least in cases:
    by_time(what + ", time", path, rows, least)
    last(what + ", last", path, rows, least)
files("made, files", made)

finish()
