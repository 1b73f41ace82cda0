"""What a run says of a policy, by NumPy: problems drawn by a seed, solved by one process of fopo
(judged.lua) and here from the definitions of the manual: splits, baselines with random options,
lists, every field of fopo.evaluate and of fopo.ope and what they print, recommendations by the
recipe of scripts/examples/serving. test_judged.py tries some problems, nightly/judged many."""
import json
import os
import random
import re
import subprocess
import sys

import checks
from checks import check, FOPO
from oracle import np, below, ones, philox

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "../scripts/examples/serving"))
import policy as recipe  # noqa: E402

Z = 1.959963984540054
INFINITE = float("inf")


def near(name, got, want, bound=1e-6, *seen):
    got, want = (np.array(v, float) for v in (got, want))
    check(name, got.shape == want.shape and np.allclose(got, want, bound, bound, equal_nan=True),
          got, want, *seen)


# ---- problems ----

def interactions(r, timed, users, items):
    """[(user, item, time)]: popular items and clusters of them; pairs repeat, times are equal."""
    clusters, latest, rows = r.randrange(1, 6), r.choice((5, 100, 10 ** 6)), []
    for u in range(users):
        own = r.randrange(clusters)
        for _ in range(1 + int(r.expovariate(1 / 12))):
            a = int(items * r.random() ** r.choice((1, 2)))
            if r.random() < 0.7:
                a = min(items - 1, a // clusters * clusters + own)
            rows.append(("u%d" % u, "i%d" % a, r.randrange(latest) if timed else 0))
    return rows


def write(path, rows, timed):
    with open(path, "w") as f:
        f.write("user,item,time\n" if timed else "user,item\n")
        for row in rows:
            f.write(",".join(map(str, row[:3 if timed else 2])) + "\n")


def split_options(r, rows, timed):
    kind = r.choice(("users", "time", "last") if timed else ("users", "last"))
    o = {"split": kind, "min_items": r.randrange(2, 7), "seed": r.randrange(100),
         "observed": r.choice((0.2, 0.5, 0.7)), "test": r.choice((0.1, 0.3)),
         "valid": r.choice((0, 0.1, 0.2))}
    if kind == "time" and r.random() < 0.3:
        times = sorted(row[2] for row in rows)
        o["test_from"] = times[len(times) * 3 // 4]
        if o["valid"]:
            o["valid_from"] = times[len(times) // 2]
    elif kind == "time" and r.random() < 0.4:
        o["seen"] = "keep"
    if kind == "users" and timed and r.random() < 0.3:
        o["order"] = "time"
    if r.random() < 0.2:
        o["max_users"] = r.randrange(10, 40)
    return o


def baseline(r, P):
    kind = r.choice(("random", "popular", "item_knn", "item_knn", "ease", "slim", "als"))
    l2 = r.choice((0.5, 5, 80, 250.5))
    return kind, {
        "random": lambda: {"seed": r.randrange(1000)},
        "popular": dict,
        "item_knn": lambda: {"neighbours": r.randrange(1, P + 9), "shrink": r.choice((0, 1.5, 10)),
                             "similarity": r.choice(("cosine", "jaccard"))},
        "ease": lambda: {"l2": r.choice((l2, l2, l2, "auto")), "top": r.choice((0, 0, 3, P))},
        "slim": lambda: {"m": r.randrange(1, P + 1), "l2": r.choice((l2, l2, l2, "auto"))},
        "als": lambda: {"dim": r.randrange(1, 9), "l2": r.choice((0.1, 2, 10)),
                        "nu": r.choice((0, 0, 0.5, 1)), "alpha": r.choice((0, 1, 10)),
                        "iterations": r.randrange(1, 5), "seed": r.randrange(1000)},
    }[kind]()


def normal(r, rows, cols, scale=1.0):
    return [[r.gauss(0, scale) for _ in range(cols)] for _ in range(rows)]


def policy(r, P):
    """A policy's kind and options: those that make it, for judged.lua."""
    kind, L = r.choice(("linear", "linear", "mlp", "neighbours")), r.randrange(1, 7)
    contexts = r.choice(("mean", "unit", "degree", "sqrt_degree", "idf"))
    if kind == "neighbours":
        dense, parts, valued = (r.random() < 0.5 for _ in range(3))
        o = {"start": r.choice(("cosine", "jaccard")), "n": r.choice((0, 0, 5)), "held": 0,
             "contexts": contexts, "set": {
                 "c0": [[r.gauss(0, 0.5)]], "c1": [[r.gauss(0, 0.3)]],
                 "log_tau": [[r.uniform(0, 4)]]}}
        if dense:
            o.update(items=normal(r, P, L), dense_start=0.5,
                     scored=r.choice(("candidates", "all")))
            o["set"]["dense"] = [[r.uniform(0.1, 2)]]
        if valued:
            o["value"] = [0.25 + r.randrange(9) for _ in range(P)]
            o["set"]["c2"] = [[r.uniform(0, 1.5)]]
        if parts:
            o["learn"] = ["theta", "bias", "importance"]
            o["set"].update(bias=normal(r, 1, P), importance=normal(r, 1, P, 0.5))
        return kind, o
    o = {"items": normal(r, P, L), "contexts": contexts, "seen": r.choice(("mask", "keep")),
         "temperature": r.choice((0.05, 0.3, 1, 2.5))}
    if kind == "linear":
        o["theta"] = normal(r, L, L)
    else:
        o.update(hidden=[r.randrange(1, 9) for _ in range(r.randrange(1, 3))],
                 activation=r.choice(("tanh", "relu")))
    return kind, o


def session_problem(r, name):
    timed = r.random() < 0.8
    rows = interactions(r, timed, r.choice((15, 40, 90, 130)), r.randrange(8, 90))
    P = len({row[1] for row in rows})
    p = {"name": name, "timed": timed, "rows": rows, "methods": []}
    if r.random() < 0.2:  # files that are split already
        p["split"] = None
        p["files"] = {"observed": r.choice((0.2, 0.5)), "min_items": r.randrange(2, 5),
                      "seen": r.choice(("drop", "keep"))}
        p["parts"] = parts = {"train": [], "test": []} if r.random() < 0.5 else {
            "train": [], "valid": [], "test": []}
        for row in rows:
            parts[r.choice(("train", "train") + tuple(parts))].append(row)
        for part, held in parts.items():
            p["files"][part] = "%s.%s.csv" % (name, part)
            write(p["files"][part], held, timed)
    else:
        p["file"], p["split"] = name + ".csv", split_options(r, rows, timed)
        write(p["file"], rows, timed)
    if r.random() < 0.3:
        p["value"] = [r.randrange(8) / 8 for _ in range(P)]
    for i, draw in enumerate((baseline, baseline, policy)):
        kind, options = draw(r, P)
        if draw is baseline and "value" in p and r.random() < 0.5:
            options["value"] = p["value"]
        ks = sorted({r.randrange(1, min(P, 30) + 1) for _ in range(r.randrange(1, 4))})
        m = {"name": str(i), "kind": kind, "options": options, "k": ks, "best": max(ks)}
        if r.random() < 0.5:
            m["exclude"] = r.choice(("seen", "none"))
        if draw is policy and r.random() < 0.3:
            m["expected_contexts"] = r.randrange(1, 20)
        if kind in ("linear", "mlp") and r.random() < 0.4:
            m["index"] = r.choice(("exact", "norm", "hnsw", "clusters"))
        g = random.Random(name + m["name"])  # as in log_problem
        if kind in ("linear", "mlp") and g.random() < 0.6:
            m["slate"] = {"k": g.randrange(1, min(P, 9) + 1), "samples": 2 * g.randrange(1, 30),
                          "measure": g.choice(("hit", "sum", "dcg", "ndcg")),
                          "discount": g.choice(("auto", 0.7))}
            m["slates"], m["best"] = g.choice(("slate", "plackett_luce")), max(
                m["best"], m["slate"]["k"])
        m["left_out"] = kind == "ease" and options["top"] == 0 and r.random() < 0.5
        p["methods"].append(m)
    return p


def large_problem(r, name, users, l2):
    """More items than two of the blocks of rows that ease sweeps at once; of 2,400 users more
    contexts than one block of an evaluation."""
    rows = interactions(r, False, users, 600)
    write(name + ".csv", rows, False)
    methods = [{"name": str(top), "kind": "ease", "options": {"l2": l2, "top": top}, "k": [1, 20],
                "best": 20, "left_out": top == 0} for top in (0, 9)]
    items = normal(r, len({row[1] for row in rows}), 3)
    methods.append({"name": "pi", "kind": "linear", "k": [1, 20], "best": 20, "options": {
        "items": items, "theta": normal(r, 3, 3), "contexts": "unit", "temperature": 0.5}})
    split = {"split": "users", "min_items": 2, "observed": 0.5, "valid": 0, "test": 0.5, "seed": 1}
    return {"name": name, "timed": False, "rows": rows, "file": name + ".csv", "split": split,
            "methods": methods}


def log_problem(r, name, real=None, most=150):
    """Fewer than `most` drawn events, or those of a published log: ([(x, action, reward,
    propensity)], P)."""
    n, P, D, L = r.randrange(2, most), r.randrange(2, 25), r.randrange(1, 5), r.randrange(1, 5)
    binary = r.random() < 0.6
    if real:
        n, P, D, binary = len(real[0]), real[1], len(real[0][0][0]), True
    p = {"name": name, "file": name + ".csv", "n_actions": P, "items": normal(r, P, L),
         "theta": normal(r, D, L), "temperature": r.choice((0.1, 0.5, 1, 3))}
    p["events"] = events = real[0] if real else []
    for _ in range(0 if real else n):
        reward = r.random() < 0.4 if binary else r.choice((-0.5, 0, 1.25, 3))
        events.append(([round(r.gauss(0, 1), 4) for _ in range(D)], r.randrange(P), float(reward),
                       r.choice((0.01, 0.05, 0.125, 0.3, 1))))
    with open(p["file"], "w") as f:
        f.write(",".join("x%d" % d for d in range(D)) + ",action,reward,propensity\n")
        for x, a, reward, chance in events:
            f.write(",".join(map(str, x)) + ",%d,%g,%g\n" % (a + 1, reward, chance))
    o = p["options"] = {"bootstrap": r.choice((0, 7, 60)), "seed": r.randrange(100),
                        "level": r.choice((0.8, 0.95, 0.99)),
                        "policy": r.choice(("softmax", "softmax", "argmax"))}
    if r.random() < 0.7:
        o["clip"] = r.choice((0.02, 0.1, 0.5))
    if r.random() < 0.3:
        o["reward_range"] = [-1, r.choice((3, 5))]
    if r.random() < 0.3:
        o["least_propensity"] = r.choice((0.004, 0.01))
    model = r.choice(("none", "function", "ridge", "logistic" if binary else "ridge"))
    if model == "function":
        p["model"] = normal(r, n, P)
    elif model != "none":
        p["direct"] = {"model": model, "lambda": r.choice((0.1, 1, 20)), "dim": 8,
                       "folds": r.randrange(1, min(n, 5) + 1), "seed": r.randrange(50)}
        if r.random() < 0.5:
            p["direct"]["items"] = normal(r, P, r.randrange(1, 4))
    g = random.Random(name)  # what came later: the other problems stay as they were
    for option, values in (("smoothing", (0.05, 0.7)), ("exploration", (0.02, 0.4)),
                           ("shrinkage", (0, 1.5, 300))):
        ways = [None, g.choice(values), "slope"] + ["bound"] * (option != "shrinkage")
        way = g.choice(ways)
        if way is not None:
            o[option] = way
    if "clip" in o and g.random() < 0.2:
        o["clip"] = "slope"
    if g.random() < 0.6:
        p["groups"] = [g.randrange(1, 4) for _ in range(P)]
        if g.random() < 0.5:
            p["logging"] = [g.choice((0.1, 0.25, 0.5, 1)) for _ in range(n)]
        else:
            p["logging_theta"] = normal(g, D, L)
    way = g.choice(("", "", "", "given", "function", "index", "samples"))
    if way == "samples":
        o["policy"], p["samples"] = "softmax", 400
    elif way == "index":
        o["policy"], p["index"] = "argmax", g.choice(("exact", "norm"))
    elif way:
        o["policy"] = "softmax"
        p[way] = [[g.random() ** 2 * (g.random() < 0.7) for _ in range(P)] for _ in range(n)]
        for row in p[way]:
            row[g.randrange(P)] += 1e-3
            row[:] = [v / sum(row) for v in row]
    if r.random() < 0.3:
        known = ["ips", "snips"] + ["clipped_ips"] * ("clip" in o) + ["dr"] * (model != "none")
        o["estimators"] = r.sample(known, 2)
    return p


# ---- splits ----

def by_user(rows):
    """{user: {item: (first time, last time)}}."""
    users = {}
    for user, item, time in rows:
        items = users.setdefault(user, {})
        first, last = items.get(item, (INFINITE, -INFINITE))
        items[item] = min(time, first), max(time, last)
    return users


def retaken(window, end):
    """The items that count at their last time too, before the end; end None: none."""
    return {a for a, t in window.items() if end is not None and t[0] < t[1] < end}


def divided(what, x, y, window, o, by_time, end=None):
    """X is the share `observed` of a window {item: (first, last)}: the earlier one by_time. With
    seen = "keep" the window has an end, before which an item counts at its last time too."""
    again = retaken(window, end)
    m = max(1, int(o["observed"] * (len(window) + len(again))))
    check(what, x | y == set(window) and x & y <= again
          and (len(x) == m or again and len(x) < m) and (not by_time or max(
              window[a][0] for a in x) <= min(window[a][a in x] for a in y)), x, y, window, m)


def check_train(what, train, windows, o, by_time, end=None):
    windows = {u: w for u, w in windows.items() if len(w) + len(retaken(w, end)) >= 2}
    check(what + ": users of train", set(train) == set(windows), set(train) ^ set(windows))
    for u in set(train) & set(windows):
        divided(what + ": train", *train[u], windows[u], o, by_time, end)


def check_files(what, p, parts):
    o, held = p["files"], {part: by_user(rows) for part, rows in p["parts"].items()}
    users = {u for rows in held.values() for u in rows}
    items = {u: set().union(*(part.get(u, {}) for part in held.values())) for u in users}
    users = {u for u in users if len(items[u]) >= o["min_items"]}
    check_train(what, parts["train"], {u: w for u, w in held["train"].items() if u in users}, o,
                False)
    before = {}
    for part in [name for name in ("train", "valid", "test") if name in held]:
        want = {u: (before[u], {a for a in held[part].get(u, {})
                                if a not in before[u] or o["seen"] == "keep"})
                for u in before if u in users}
        want = {u: (x, y) for u, (x, y) in want.items() if y}
        check("%s: %s" % (what, part), part == "train" or parts[part] == want, parts[part], want)
        for u, w in held[part].items():
            before[u] = before.get(u, set()) | set(w)


def check_split(what, p, reply):
    """Every session of the parts {user: (X, Y)}, by the definition of the split."""
    parts = {name: {s["user"]: tuple({reply["names"][a - 1] for a in s[side]} for side in "xy")
                    for s in reply[name]} for name in ("train", "valid", "test")}
    for name in parts:
        check(what + ": no user twice", len(parts[name]) == len(reply[name]))
    if p["split"] is None:
        return check_files(what, p, parts)
    o, users, some = p["split"], by_user(p["rows"]), set().union(*parts.values())
    counts = reply["counts"]
    enough = {u: w for u, w in users.items() if len(w) >= o["min_items"]}
    left_out = max(len(enough) - o.get("max_users", len(enough)), 0)
    check(what + ": counts", (counts["kept"], counts["dropped"]) ==
          (len(some), len(users) - left_out - len(some)), counts, len(some), len(users), left_out)
    if "max_users" in o:  # the first of them, which only their number tells
        check(what + ": max_users", len(some) <= o["max_users"])
        enough = {u: w for u, w in enough.items() if u in some}
    by_order = o.get("order", "random" if o["split"] == "users" or not p["timed"] else "time")
    if o["split"] == "users":
        check(what + ": each user once", sum(map(len, parts.values())) == len(some)
              and some == set(enough))
        for name in ("valid", "test"):
            check(what + ": share of " + name, abs(len(parts[name]) - o[name] * len(some)) <= 1)
        for part in parts.values():
            for u, (x, y) in part.items():
                divided(what, x, y, users[u], o, by_order == "time")
    elif o["split"] == "last":
        window = {}
        for u, w in enough.items():
            x, y = parts["test"].get(u, (set(), set()))
            vx, vy = parts["valid"].get(u, (x, set()))
            check(what + ": last", x | y == set(w) and len(y) == 1 and not x & y
                  and len(vy) == (1 if o["valid"] and len(w) > 2 else 0)
                  and vx | vy == x and not vx & vy, u, x, y, vx, vy)
            check(what + ": the order of last", by_order == "random" or
                  all(w[a][0] <= w[b][0] for a in x for b in y) and
                  all(w[a][0] <= w[b][0] for a in vx for b in vy), u, x, y, vx, vy)
            window[u] = {a: w[a] for a in vx}
        check_train(what, parts["train"], window, o, by_order == "time")
    else:
        check_time(what, parts, enough, users, o, counts)


def cuts_of(users, o):
    """Where the windows of valid and test begin: at shares of the pairs, by their first times."""
    times = sorted(first for w in users.values() for first, _ in w.values())
    test, valid = int(o["test"] * len(times)), int(o["valid"] * len(times))
    cut = o.get("test_from", times[-test] if test else INFINITE)
    test = sum(t >= cut for t in times) if "test_from" in o else test
    return o.get("valid_from", times[-test - valid] if valid else cut), cut


def windows(enough, valid_cut, cut, o):
    """{user: {item: times}} of the window of train, {user: (X, Y)} of those of valid and test."""
    train = {u: {a: t for a, t in w.items() if t[0] < valid_cut} for u, w in enough.items()}
    wanted = []
    for start, end in ((valid_cut, cut), (cut, INFINITE)):
        both = {u: ({a for a, t in w.items() if t[0] < start},
                    {a for a, t in w.items() if start <= t[0] < end
                     or o.get("seen") == "keep" and start <= t[1] < end})
                for u, w in enough.items()}
        wanted.append({u: (x, y) for u, (x, y) in both.items() if x and y and start < end})
    return [train] + wanted


def check_time(what, parts, enough, users, o, counts):
    cuts = counts.get("valid_from", counts["test_from"]), counts["test_from"]
    if "max_users" not in o:
        check(what + ": cuts", cuts == cuts_of(users, o), cuts, cuts_of(users, o))
    train, *wanted = windows(enough, *cuts, o)
    check_train(what, parts["train"], train, o, True,
                cuts[0] if o.get("seen") == "keep" else None)
    for name, want in zip(("valid", "test"), wanted):
        check("%s: %s" % (what, name), parts[name] == want, parts[name], want)
    check(what + ": users without a session", all(
        counts["without"][name] == counts["kept"] - len(part) for name, part in parts.items()
        if part), counts)


def check_refused(what, p, error):
    """A split is refused where a part would be empty."""
    found = re.search(r"(train|valid|test) would be empty|none of the .* or more \(the longest",
                      error)
    check(what + ": no error", found and "methods" in p, error)
    if not found or p["split"] is None or "max_users" in p["split"]:
        return
    o, users = p["split"], by_user(p["rows"])
    enough = {u: w for u, w in users.items() if len(w) >= o["min_items"]}
    if o["split"] == "time" and found[1]:
        part = windows(enough, *cuts_of(users, o), o)[["train", "valid", "test"].index(found[1])]
        check(what + ": it is empty", not any(len(w) >= 2 for w in part.values()), part)
    else:
        check(what + ": few users", len(enough) <= (10 if found[1] else 0), len(enough))


# ---- baselines ----

def largest(S, top):
    """The positive entries among the `top` largest of each row."""
    out = np.zeros_like(S)
    for row, kept in zip(S, out):
        best = np.argsort(-row.astype(np.float32), kind="stable")[:top]
        kept[best] = np.maximum(row[best], 0)
    return out


def similarities(M, jaccard, shrink):
    C, n = M.T @ M, M.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        S = C / ((n[:, None] + n - C if jaccard else np.sqrt(np.outer(n, n))) + shrink)
    S = np.nan_to_num(S)
    np.fill_diagonal(S, 0)
    return S


def ease(M, l2):
    A = np.linalg.inv(M.T @ M + l2 * np.eye(M.shape[1]))
    B = -A / np.diag(A)
    np.fill_diagonal(B, 0)
    return B


def slim(M, m, l2):
    """Each column by the normal equations of those of its most similar items."""
    G, cosine = M.T @ M, similarities(M, False, 0).astype(np.float32)
    W = np.zeros_like(G)
    for a in range(len(W)):
        S = np.argsort(-cosine[a], kind="stable")[:m]
        S = S[cosine[a][S] > 0]
        W[S, a] = np.linalg.solve(G[np.ix_(S, S)] + l2 * np.eye(len(S)), G[S, a])
    return W


def als_row(m, F, o, x, steps):
    """x after so many steps of conjugate gradients, preconditioned by what all rows have in common;
    0: the solution of the row's normal equations, with the weights c written out."""
    common = F.T @ F + o["l2"] * max(m.sum(), 1) ** o["nu"] * np.eye(F.shape[1])
    A, b = common + o["alpha"] * F.T @ (m[:, None] * F), F.T @ ((1 + o["alpha"] * m) * m)
    if not steps:
        return np.linalg.solve(A, b)
    r = b - A @ x
    z = np.linalg.solve(common, r)
    p = z
    for _ in range(steps):
        if r @ z < 1e-14 * (b @ np.linalg.solve(common, b) + 1e-300):
            break
        a, before = (r @ z) / (p @ A @ p), r @ z
        x, r = x + a * p, r - a * A @ p
        z = np.linalg.solve(common, r)
        p = z + (r @ z) / before * p
    return x


def als_side(M, F, o, before, steps):
    return np.array([als_row(m, F, o, x, steps) if m.any() else 0 * x
                     for m, x in zip(M, before)])


def als(what, M, X, o):
    """Factors are compared by their products, as they may be turned."""
    Y, Z = np.load(what + ".start.npy").astype(float), np.zeros((len(M), o["dim"]))
    for _ in range(o["iterations"]):
        Z = als_side(M, Y, o, Z, 3)
        Y = als_side(M.T, Z, o, Y, 3)
    items = np.load(what + ".items.npy").astype(float)
    near(what + ": factors", items @ items.T, Y @ Y.T, 1e-4)
    G = items.T @ items + o["l2"] * np.eye(o["dim"])
    near(what + ": theta", np.load(what + ".theta.npy"), np.linalg.inv(G) * np.linalg.norm(G)
         / np.sqrt(o["dim"]), 1e-3)
    return als_side(X, Y, o, np.zeros((len(X), o["dim"])), 0) @ Y.T


def shuffled(n, seed, stream, step):
    """Fisher and Yates, from words of Philox."""
    order = list(range(n))
    for i in range(n - 1):
        word = philox(seed, stream, step, 0, i // 4)[i % 4]
        j = i + int(below(n - i, word, seed, step, 0, i))
        order[i], order[j] = order[j], order[i]
    return order


def check_auto(what, reply, x, y, weights):
    """l2 = "auto": NDCG@20 of the first users of a random order, by weights learnt from the
    others."""
    N, held, tried = len(x), reply["held"], reply["tried"]
    check(what + ": held out", held == (max(N // 10, min(100, (N + 3) // 4)) if N >= 8 else held),
          held, N)
    if not held:
        return
    order = shuffled(N, 0, 13, 0)
    out, rest = order[:held], order[held:]
    M, seen = np.maximum(x, y)[rest], x[out] > 0
    at, now = None, [l2 for l2, _ in tried].index(100)  # it climbs from there, to more alone
    while at != now:
        at = now
        for i in range(max(at - 1, 0), min(at + 2, len(tried))):
            now = i if tried[i][1] > tried[now][1] else now
    check(what + ": the best", reply["l2"] == tried[at][0], reply["l2"], tried)
    for l2, ndcg in tried:
        f = np.where(seen, -np.inf, x[out] @ weights(M, l2))
        ids = np.argsort(-f.astype(np.float32), kind="stable")[:, :20]
        ids = np.where(np.isfinite(np.take_along_axis(f, ids, 1)), ids, -1)
        mine = of_lists(ids, 20, x[out], y[out], y[out])["ndcg"].mean()
        check(what + ": NDCG@20", abs(mine - ndcg) < 0.02, l2, mine, ndcg)


def baseline_scores(what, m, reply, x, y, X):
    """Scores [N, P] of test sessions X by what was learnt from x and y; -inf: not recommended, NaN:
    not known."""
    o, M, P = m["options"], np.maximum(x, y), X.shape[1]
    if m["kind"] == "popular":
        return np.tile(M.sum(0), (len(X), 1))
    if m["kind"] == "random":
        n, block = np.meshgrid(np.arange(len(X)), np.arange((P + 3) // 4), indexing="ij")
        return philox(o["seed"], 12, 0, n, block).reshape(len(X), -1)[:, :P] / 2.0 ** 32
    if m["kind"] == "item_knn":
        S = largest(similarities(M, o["similarity"] == "jaccard", o["shrink"]), o["neighbours"])
        f = X @ S
        return np.where(f > 0, f, -np.inf)
    if m["kind"] == "als":
        return als(what, M, X, o)
    if m["kind"] == "ease":
        weigh = (lambda M, l2: largest(ease(M, l2), o["top"]) if 0 < o["top"] < P else ease(M, l2))
    else:
        weigh = (lambda M, l2: slim(M, o["m"], l2))
    if o["l2"] == "auto":
        check_auto(what, reply, x, y, weigh)
    f = X @ weigh(M, reply["l2"])
    if m["kind"] == "ease" and 0 < o["top"] < P:  # which weight is kept, rounding may decide
        best = -np.sort(-ease(M, reply["l2"]), 1)[:, o["top"] - 1:o["top"] + 1]
        f[X @ (best[:, 0] - best[:, 1] < 1e-5 * np.abs(best[:, 0])) > 0] = np.nan
    return f


# ---- lists and evaluations ----

def of_lists(ids, k, X, Y, worth):
    """{measure: [N]} of the first k ids, -1 where a list has ended; worth [N, P] of hits."""
    N, P = Y.shape
    ids = ids[:, :k]
    listed = ids >= 0
    take = lambda A: np.where(listed, np.take_along_axis(A, np.maximum(ids, 0), 1), 0)  # noqa: E731
    hits, worths, discount = take(Y), take(worth), 1 / np.log2(2 + np.arange(ids.shape[1]))
    best = (-np.sort(-worth, 1)[:, :k] * discount).sum(1)
    length, relevant = listed.sum(1), Y.sum(1)
    return {"hit": (hits.sum(1) > 0) * 1.0, "precision": hits.sum(1) / k,
            "recall": hits.sum(1) / np.maximum(relevant, 1),
            "ndcg": (worths * discount).sum(1) / np.where(best > 0, best, 1),
            "seen": take(X).sum(1) / np.maximum(length, 1), "value": worths.sum(1)}


def mean_of(each):
    """A mean and its standard error, of which one number says nothing."""
    return each.mean(), each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else INFINITE


def interval(each, most=1.0):
    """A mean and its normal 95 % interval within 0 .. most."""
    mean, se = mean_of(each)
    return [mean, max(mean - Z * se, 0), min(mean + Z * se, most)]


def wilson(hits, n):
    """Where |p - q| = z sqrt(q (1 - q) / n), the ends q solve a quadratic equation."""
    p = hits / n
    low, high = sorted(np.roots([1 + Z * Z / n, -2 * p - Z * Z / n, p * p]).real)
    return [p, max(low, 0), min(high, 1)]


def check_measures(what, e, ids, X, Y, value):
    """The fields of an evaluation that come of lists, and what it prints of them."""
    N, P = Y.shape
    worth = Y if value is None else Y * value
    first = of_lists(ids, 1, X, Y, worth)
    near(what + ": reward", [e["reward"], e["low"], e["high"]],
         wilson(first["hit"].sum(), N) if value is None else interval(first["value"], INFINITE))
    near(what + ": counts", [e["hits"], e["contexts"], e["unanswered"], e["distinct"]],
         [first["hit"].sum(), N, (ids[:, 0] < 0).sum(), len(set(ids[:, 0]) - {-1})])
    for at in e["at"]:
        k = at["k"]
        mine = of_lists(ids, k, X, Y, worth)
        for name, each in mine.items():
            if name == "hit":
                near("%s: hit@%d" % (what, k), at[name], wilson(each.sum(), N), 1e-9)
            elif name != "value" or value is not None:
                near("%s: %s@%d" % (what, name, k), at[name],
                     interval(each, INFINITE if name == "value" else 1.0), 1e-6)
            else:
                check(what + ": no value", "value" not in at)
        listed = ids[:, :k][ids[:, :k] >= 0]
        times = np.bincount(listed, minlength=P)
        apart = np.abs(times[:, None] - times).sum() / max(2 * P * times.sum(), 1)
        near("%s: items@%d" % (what, k), [at["items"], at["coverage"], at["gini"]],
             [(times > 0).sum(), (times > 0).mean(), apart], 1e-9)
    check_text(what, e)


def check_text(what, e):
    """The numbers that an evaluation prints are its fields."""
    lines, number = e["text"].split("\n"), r"([\d.,]+)"
    for title, name in (("hit", "hit"), ("precision", "precision"), ("recall", "recall"),
                        ("NDCG", "ndcg"), ("value ", "value"), ("seen before", "seen")):
        row = [line for line in lines[3:] if line.startswith(title) and ":" not in line
               and "via" not in line and line.count("(") == len(e["at"])]
        want = [at[name] for at in e["at"] if name in at]
        if name == "seen" and e["exclude"] == "seen":
            want = []
        check("%s prints %s" % (what, name), len(row) == (1 if want else 0), e["text"])
        if row and want:
            cells = re.findall(r"([\d.]+) \(([\d.]+)-([\d.]+|inf)\)", row[0])
            near("%s prints %s" % (what, name), cells, want, 6e-4, row[0])
    for title, name, pattern in (("distinct items", "items", number + r" \("),
                                 ("distinct items", "coverage", r"\(([\d.e-]+) %"),
                                 ("Gini", "gini", number)):
        row = next((line for line in lines if line.startswith(title)), "")
        cells = [float(c.replace(",", "")) for c in re.findall(pattern, row[len(title):])]
        want = [at[name] * (100 if name == "coverage" else 1) for at in e["at"]]
        check("%s prints %s" % (what, name), len(cells) == len(want) and
              np.allclose(cells, want, 6e-3, 6e-5), row, want)
    cells = re.findall(r"([\d.]+) \(([\d.]+) - ([\d.]+|inf)\)", e["text"].replace("\n ", ""))
    want = [[e["reward"], e["low"], e["high"]]]
    if "expected" in e:
        want.append([e["expected"], e["expected_low"], e["expected_high"]])
    if "index" in e:
        want.append([e["index"]["reward"], e["index"]["low"], e["index"]["high"]])
    near(what + " prints rewards", cells, want, 6e-5, e["text"])


def check_expected(what, e, pi, Y, value, rows, unseen):
    """pi [N, P]; rows: the contexts that are summed over; unseen [N, P]: items that count."""
    pi, Y = pi[rows], (Y * unseen)[rows]
    weights = Y if value is None else Y * value
    mean, se = mean_of((pi * weights).sum(1))
    most = 1.0 if value is None else INFINITE
    near(what + ": expected", [e["expected"], e["expected_se"], e["expected_low"],
                               e["expected_high"], e["expected_contexts"]],
         [mean, se, max(mean - Z * se, 0), min(mean + Z * se, most), len(rows)], 2e-5)
    left = (pi > 0).any(1)
    near(what + ": effective", e["effective"], np.median(1 / (pi[left] ** 2).sum(1)), 1e-3)
    near(what + " prints effective", float(re.search(r"one of ([\d,.]*\d)", " ".join(
        e["text"].split()))[1].replace(",", "")), e["effective"], 1e-2)
    some = weights.sum(1) > 0
    if "likelihood" in e and some.any():
        with np.errstate(divide="ignore"):
            logs = np.where(weights > 0, np.log(pi), 0)
        near(what + ": likelihood", [e["likelihood"], e["likelihood_se"]],
             mean_of((weights * logs).sum(1)[some] / weights.sum(1)[some]), 1e-4)


def slate_rewards(o, ids, Y, most):
    """[N]: the reward of the slates ids [N, k], -1 where one has ended; most [N]: hits at best."""
    hits = np.where(ids >= 0, np.take_along_axis(Y, np.maximum(ids, 0), 1), 0)
    place = np.arange(ids.shape[1])
    d = {"hit": 0 * place, "sum": 1 + 0 * place}.get(
        o["measure"], 1 / np.log2(2 + place) if o["discount"] == "auto" else o["discount"] ** place)
    earned = hits.max(1) if o["measure"] == "hit" else hits @ d
    if o["measure"] != "ndcg":
        return earned
    best = np.array([d[:int(n)].sum() for n in most])
    return earned / np.where(best > 0, best, 1)


def check_slate(what, m, e, f, ids, X, Y, masks):
    """The slates that are served, and those that are drawn: by as many draws of NumPy's own."""
    o, got = m["slate"], e["slate"]
    most = (Y * (X == 0) if masks else Y).sum(1)
    near(what + ": slates", [got["k"], got["reward"]],
         [o["k"], slate_rewards(o, ids[:, :o["k"]], Y, most).mean()], 1e-6, o)
    printed = re.search(r"^slates of (\d+) by (\w+): ([\d.]+), as drawn ([\d.]+)$", e["text"],
                        re.M)
    check(what + " prints slates", printed and printed[2] == o["measure"] == got["measure"],
          e["text"])
    near(what + " prints slates", [float(printed[i]) for i in (1, 3, 4)],
         [got["k"], got["reward"], got["expected"]], 6e-5)
    ideal = slate_rewards({**o, "measure": "sum" if o["measure"] == "hit" else o["measure"]},
                          np.argsort(-Y, 1, kind="stable")[:, :o["k"]], Y, Y.sum(1)).mean()
    check(what + ": drawn slates", -1e-6 <= got["expected"] <= ideal + 1e-6, got, ideal)
    if m["slates"] == "slate":
        return
    dice, drawn = np.random.default_rng(1), []
    f = np.where(X > 0, -np.inf, f) if masks else f
    for _ in range(o["samples"]):
        noisy = f + dice.gumbel(size=f.shape)
        order = np.argsort(-noisy, 1)
        p = np.take_along_axis(softmax(f), order, 1)
        left = np.cumsum(p[:, ::-1], 1)[:, ::-1][:, :o["k"]]  # before each place
        if ((left > 1e-14) & (left < 1e-10)).any():
            return  # a slate is short where less than 1e-12 is left, up to rounding
        drawn.append(slate_rewards(o, np.where(left < 1e-12, -1, order[:, :o["k"]]), Y, most))
    drawn = np.array(drawn)
    error = np.sqrt(2 * drawn.var(0, ddof=1).sum() / o["samples"]) / len(f)
    check(what + ": slates as drawn", abs(drawn.mean() - got["expected"]) <=
          6 * error + 4 / (o["samples"] * len(f)), got, drawn.mean(), error)


def check_best(what, scores, X, exclude, tolerance):
    """The ids saved as `what` are the best of the scores, but for items too close to tell."""
    ids, given = np.load(what + ".ids.npy").astype(np.int64), np.load(what + ".scores.npy")
    f = np.where(X > 0, -np.inf, scores) if exclude == "seen" else scores
    P, k = f.shape[1], ids.shape[1]
    ids = np.where(ids < P, ids, -1)
    mine = np.where(ids >= 0, np.take_along_axis(f, np.maximum(ids, 0), 1), -np.inf)
    size = np.abs(f[np.isfinite(f)]).max() if np.isfinite(f).any() else 1
    for what_, a, b in (("scores", given, mine), ("the best", -np.sort(-f, 1)[:, :k], mine)):
        with np.errstate(invalid="ignore"):
            same = (a == b) | (np.abs(a - b) <= tolerance * size) | np.isnan(mine) | np.isnan(a)
        check("%s: %s" % (what, what_), same.all(), *[v[~same.all(1)][:2] for v in (a, b, ids)])
    check(what + ": each once", all(len(set(row[row >= 0])) == (row >= 0).sum() for row in ids))
    return ids


def softmax(f):
    top = np.max(f, 1, keepdims=True)
    w = np.exp(f - np.where(np.isfinite(top), top, 0))
    return w / np.maximum(w.sum(1, keepdims=True), 1e-300)


def policy_scores(what, m, reply, x, y, X):
    """The scores [N, P] of the saved policy by the recipe, and what may be recommended."""
    o, M, P = m["options"], np.maximum(x, y), X.shape[1]
    pi = recipe.Policy(what + ".npz")
    n, N = M.sum(0), len(M)
    known = np.maximum(n, 1)
    weight = {"degree": 1 / known, "sqrt_degree": 1 / np.sqrt(known), "idf": np.log(N / known)}.get(
        o["contexts"])
    if weight is not None and m["kind"] != "neighbours":
        near(what + ": weights of items", pi.weights, weight, 1e-5)
    if m["kind"] == "neighbours":
        S, W = similarities(M, o["start"] == "jaccard", 10), np.zeros((P, P))
        at = pi.neighbours["indptr"].astype(int)
        for b in range(P):
            W[b, pi.neighbours["ids"][at[b]:at[b + 1]]] = pi.neighbours["w"][at[b]:at[b + 1]]
        near(what + ": weights", -np.sort(-W, 1), -np.sort(-largest(S, o["n"] or 100), 1), 1e-5)
        near(what + ": which weights", W[W > 0], S[W > 0], 1e-5)
        near(what + ": log m", pi.neighbours["log_m"], np.log((n + 1) / (n.mean() + 1)), 1e-5)
        v = np.array(o.get("value", np.ones(P)))
        z = np.load(what + ".npz")
        check(what + ": shapes", all(z[name].shape == (len(one[0]),)
                                     for name, one in o["set"].items()), list(z))
        near(what + ": log v", pi.neighbours["log_v"], np.log(v / v.mean()), 1e-5)
    both = [pi.scores(np.flatnonzero(row)) for row in X]
    for i, row in enumerate(X):
        best = pi.best(np.flatnonzero(row), max(min(m["best"], P - int(X.sum(1).max())), 0))
        got = list(reply["recommended"][i]) if i < len(reply["recommended"]) else []
        check(what + ": as many are recommended", len(got) == len(best), got, best)
        if len(got) == len(best) and got:
            f, p = (np.array([one[j] for one in got]) for j in (1, 2))
            near(what + ": recommended", f, [one[1] for one in best], 2e-4)
            near(what + ": probabilities", p, [one[2] for one in best], 2e-4)
            near(what + ": which", [both[i][0][one[0] - 1] for one in got], f, 2e-4)
    return np.array([f for f, _ in both]), np.array([c for _, c in both])


def check_difference(what, less, e, others, now):
    """Low and high of the difference of two rewards on the same sessions."""
    other, low, high = others[less[0]], *less[1:]
    d = now - other
    if e.get("valued"):
        mean, se = mean_of(d)
        want = [mean - Z * se if len(d) > 1 else INFINITE, mean + Z * se]  # JSON has no sign
    else:  # Agresti and Min 2005: half a pair more in each cell
        m, b, c = len(d) + 2, (d > 0).sum() + 0.5, (d < 0).sum() + 0.5
        half = Z * np.sqrt(b + c - (b - c) ** 2 / m) / m
        want = [max((b - c) / m - half, -1), min((b - c) / m + half, 1)]
    near(what + ": a paired difference", [low, high], want)


def check_method(what, p, m, reply, sides, known):
    x, y, X, Y = sides
    e, kind, value = reply["e"], m["kind"], p.get("value")
    value = None if value is None else np.array(value)
    is_policy = kind in ("linear", "mlp", "neighbours")
    masks = kind == "neighbours" or is_policy and m["options"].get("seen", "mask") == "mask"
    keeps = (p["split"] or p["files"]).get("seen") == "keep"
    exclude = "seen" if masks else m.get("exclude", "none" if keeps else "seen")
    check(what + ": exclude", e["exclude"] == exclude, e["exclude"], exclude)
    if is_policy:
        f, candidates = policy_scores(what, m, reply, x, y, X)
        scores = np.where(candidates, f, -np.inf)
    else:
        scores = baseline_scores(what, m, reply, x, y, X)
        by_value = m["options"].get("value")
        if by_value:
            with np.errstate(invalid="ignore"):
                scores = np.where(np.isneginf(scores), scores, scores * np.array(by_value))
    for which in ("seen", "none"):
        ids = check_best("%s.%s" % (what, which), scores, X, "seen" if masks else which, 1e-4)
        if which == exclude:
            listed = ids
    if "slate" in m:
        check_slate(what, m, e, scores, ids, X, Y, masks)
    check_measures(what, e, listed, X, Y, value)
    first = of_lists(listed, 1, X, Y, Y if value is None else Y * value)
    known[m["name"]] = first["hit" if value is None else "value"]
    if "less" in reply:
        check_difference(what, reply["less"], e, known, known[m["name"]])
    rows, unseen = np.arange(len(X)), (X == 0) if exclude == "seen" else np.ones_like(X, bool)
    if is_policy:
        n = min(m.get("expected_contexts", len(X)), len(X))
        pi = softmax(np.where(unseen, f, -np.inf))
        rows = np.arange(n) * len(X) // n
        check_expected(what, e, pi, Y, value, rows, unseen)
    elif kind in ("popular", "random"):
        weight = np.maximum(x, y).sum(0) if kind == "popular" else np.ones(X.shape[1])
        weight = weight * np.array(m["options"].get("value", 1.0)) * unseen
        check_expected(what, e, weight / np.maximum(weight.sum(1, keepdims=True), 1e-300), Y, value,
                       rows, unseen)
    weighed = is_policy and ((Y if value is None else Y * value) * unseen)[rows].any()
    check(what + ": what is expected", ("expected" in e, "likelihood" in e) ==
          (is_policy or kind in ("popular", "random"), weighed), e)
    if "index" in e:
        exact = m["index"] in ("exact", "norm")
        path = what + ".index"
        ids = check_best(path, scores, X, exclude, 1e-4) if exact else np.load(
            path + ".ids.npy").astype(np.int64)
        ids = np.where(ids < X.shape[1], ids, -1)
        check_measures(path, e["index"], ids, X, Y, value)
        check(what + ": reward_index", e["reward_index"] == e["index"]["reward"])
    if m.get("left_out"):
        M = np.maximum(x, y)
        some = np.arange(0, len(M), max(len(M) // 5, 1))
        for part in ("ids", "scores"):
            path = "%s.left_out.%s.npy" % (what, part)
            np.save(path, np.load(path)[some])
        f = np.array([x[u] @ ease(np.delete(M, u, 0), reply["l2"]) for u in some])
        if m["options"].get("value"):
            f = f * np.array(m["options"]["value"])
        check_best(what + ".left_out", f, x[some], "seen", 5e-4)


def check_sessions(p, reply):
    what = p["name"]
    check_split(what, p, reply)
    if not reply["methods"]:
        return
    P = len(reply["names"])
    sides = [ones([[a - 1 for a in s[side]] for s in reply[part]], P)
             for part in ("train", "test") for side in "xy"]
    known = {}
    for m, one in zip(p["methods"], reply["methods"]):
        if "value" in p:
            p["value"] = p["value"][:P]
        check_method("%s.%s" % (what, m["name"]), p, m, one, sides, known)


# ---- logs ----

def along(X, dim):
    """Coordinates along the first principal directions, of mean square 1, and a 1 behind them."""
    s, V = np.linalg.eigh(X.T @ X / len(X))
    kept = [i for i in np.argsort(-s) if s[i] > 1e-6 * s.max()][:dim]
    return np.c_[X @ V[:, kept] / np.sqrt(s[kept].mean()), np.ones(len(X))]


def fitted(p, out, x, actions, r):
    """[n, P]: the reward model of each event, learnt without its fold."""
    o, n, P = p["direct"], len(r), p["n_actions"]
    logistic, u = o["model"] == "logistic", along(x, o["dim"])
    if "items" in o:
        b = along(np.array(o["items"], np.float32).astype(float), o["dim"])
        phi = np.einsum("ni,aj->naij", u, b).reshape(n, P, -1)
    else:
        phi = np.concatenate([np.broadcast_to(u[:, None, :-1], (n, P, u.shape[1] - 1)),
                              np.broadcast_to(np.eye(P), (n, P, P)), np.ones((n, P, 1))], 2)
    fold = philox(o["seed"], 5, 1, np.arange(n), 0)[:, 0].astype(object) * o["folds"] >> 32
    t, penalty = np.zeros((n, P)), o["lambda"] * np.eye(phi.shape[2])
    penalty[-1, -1] = 0
    for k in range(o["folds"]):
        A = phi[np.arange(n), actions][fold != k] if o["folds"] > 1 else phi[np.arange(n), actions]
        target = r[fold != k] if o["folds"] > 1 else r
        w = np.zeros(A.shape[1])
        for _ in range(60 if logistic else 1):
            h = 1 / (1 + np.exp(-A @ w)) if logistic else A @ w
            curve = h * (1 - h) if logistic else np.ones(len(h))
            w += np.linalg.solve(A.T @ (curve[:, None] * A) + penalty + 1e-11 * np.eye(len(w)),
                                 A.T @ (target - h) - penalty @ w)
        t[fold == k] = phi[fold == k] @ w
    got, mean = np.load(p["name"] + ".model.npy"), r.mean()

    def loss(t):
        return np.mean(np.logaddexp(0, t) - r * t if logistic else (r - t) ** 2)
    kept = [r[fold != k] if o["folds"] > 1 else r for k in range(o["folds"])]
    if not logistic or all(0 < one.sum() < len(one) for one in kept):  # the constant has an end
        near(p["name"] + ": the model", got, 1 / (1 + np.exp(-t)) if logistic else t, 2e-3)
        constant = np.log(mean / (1 - mean)) if logistic else mean
        near(p["name"] + ": its losses", [out["loss"], out["constant_loss"]],
             [loss(t[np.arange(n), actions]), loss(constant)], 2e-3)
    return got.astype(float)


def ends(interval):
    return [interval["low"], interval["high"]]


def check_log(p, out):
    what, o, e = p["name"], p["options"], out["e"]
    x, actions, r, chance = (np.array(v) for v in zip(*p["events"]))
    x, r, chance = (v.astype(np.float32).astype(float) for v in (x, r, chance))
    n, i = len(r), np.arange(len(r))
    items, theta = (np.array(p[v], np.float32).astype(float) for v in ("items", "theta"))
    f = x @ theta @ items.T / p["temperature"]
    pi = softmax(f) if o["policy"] == "softmax" else np.eye(len(items))[f.argmax(1)]
    given = p.get("given", p.get("function"))
    if given:
        pi = np.float32(given).astype(float)
    if "samples" in p:
        return check_sampled(p, out, f, pi[i, actions], chance, r)
    R = (fitted(p, out, x, actions, r) if "direct" in p else
         np.array(p["model"], np.float32).astype(float) if "model" in p else None)
    level, taken = o["level"], pi[i, actions]
    w = taken / chance
    m, logged = ((pi * R).sum(1), R[i, actions]) if R is not None else (0, 0)
    group = None
    if "groups" in p:
        kin = np.array(p["groups"])[None, :] == np.array(p["groups"])[actions][:, None]
        mu = (np.float32(p["logging"]).astype(float) if "logging" in p else
              (softmax(x @ np.array(p["logging_theta"], np.float32).astype(float) @ items.T)
               * kin).sum(1))
        group = (pi * kin).sum(1) / mu
    least, (low, high) = o.get("least_propensity", chance.min()), o.get("reward_range",
                                                                       (r.min(), r.max()))
    floor = min(low, 0)
    R_max = high - floor if high > floor else 1
    point = {0.8: 1.2815515655446004, 0.95: Z, 0.99: 2.5758293035489004}[level]

    def weight(kind, t):
        """(w of the events, the largest that a weight can be)"""
        if kind.startswith("clipped"):
            return taken / np.maximum(chance, t), 1 / max(least, t)
        if kind == "ix":
            return taken / (chance + t / 2), 1 / (least + t / 2)
        if kind == "dros":
            top = min(1 / least, t ** 0.5)
            return (t * w / (w * w + t) if t else 0 * w), (t * top / (top * top + t) if t else 0)
        if kind in ("mips", "offcem"):
            return group, 1 / mu.min()
        return (0 * w, 0) if kind == "dm" else (w, 1 / least)

    def terms_of(kind, t):
        v, most = weight(kind, t)
        if kind == "ls":
            return (floor + np.log(1 + t * v * (r - floor)) / t,
                    [floor, floor + np.log(1 + t * most * R_max) / t])
        if kind == "ix":
            return floor + v * (r - floor), [floor, floor + most * R_max]
        if kind in ("ips", "clipped_ips", "snips", "mips"):
            return v * r, [most * min(low, 0), most * max(high, 0)]
        ml, mh = min(m.min(), logged.min()), max(m.max(), logged.max())
        return m + v * (r - logged), [ml + most * min(low - mh, 0), mh + most * max(high - ml, 0)]

    def bound(kind, t, value, tried):
        cost = np.log(tried / (1 - level)) / n
        return (value - R_max * cost / t if kind == "ix" else
                floor + (np.exp(t * (value - floor) - cost) - 1) / t)

    def slopes(values):
        """The indices that SLOPE may take of [(value, half width)], up to rounding."""
        took = set()
        for slack in (-1e-4, 0, 1e-4):
            order = sorted(range(len(values)), key=lambda k: -values[k][1])
            k = 1
            while k < len(order) and all(
                    abs(values[order[k]][0] - values[j][0]) <= slack * abs(values[j][0]) +
                    values[order[k]][1] + (6 ** 0.5 - 1) * values[j][1] for j in order[:k]):
                k += 1
            took.add(order[k - 1])
        return took

    def chosen_from(kind, way):
        lo, hi = min(1 / n, least), 1
        if kind == "dros":
            lo, hi = 0.01, max(1, 100 * w.max() ** 2)
        grid = np.geomspace(lo, hi, 16) / (R_max if kind == "ls" else 1)
        found = [terms_of(kind, t)[0] for t in grid]
        if way == "slope":
            return grid[sorted(slopes([(v.mean(), point * v.std(ddof=1) / n ** 0.5)
                                       for v in found]))]
        bounds = [bound(kind, t, v.mean(), 16) for t, v in zip(grid, found)]
        return grid[np.array(bounds) > max(bounds) - 1e-4 * (abs(max(bounds)) + R_max)]

    defaults = {"ix": n ** -0.5, "ls": n ** -0.5 / R_max, "dros": "slope"}
    option = {"clipped_ips": "clip", "clipped_dr": "clip", "ix": "exploration", "ls": "smoothing",
              "dros": "shrinkage"}
    modelled = ("dm", "dr", "clipped_dr", "dros", "offcem")
    allowed = [k for k in ("ips", "clipped_ips", "snips", "ix", "ls", "dm", "dr", "clipped_dr",
                           "dros", "mips", "offcem")
               if (R is not None or k not in modelled) and ("clip" in o or "clipped" not in k)
               and (group is not None or k not in ("mips", "offcem"))]
    wanted = o.get("estimators", allowed)
    check(what + ": estimators", list(out["estimators"]) == wanted and
          all((k in e) == (k in wanted) for k in allowed), out["estimators"], wanted)
    terms, spans, tried = {}, {}, {}
    for k in wanted:
        way = o.get(option.get(k), defaults.get(k))
        tried[k] = 16 if isinstance(way, str) else 1
        if k in option:
            got = e[k]["parameter"]
            near("%s: parameter of %s" % (what, k), np.min(np.abs(
                got / np.array(chosen_from(k, way) if tried[k] > 1 else [way or 1e-300]) - 1)
                if way else [got]), 0, 1e-4, k, way)
        terms[k], spans[k] = terms_of(k, e[k].get("parameter", 0))
    log, normal_point = np.log(4 / (1 - level)), point
    drawn = resampled(n, o)
    for k in wanted:
        name, got = "%s: %s" % (what, k), e[k]
        if k == "snips" and not w.any():
            check(name + " is undefined", got["value"] == INFINITE, got)
            continue
        value = terms[k].mean() / (w.mean() if k == "snips" else 1)
        off = (terms[k] - value * w) / w.mean() if k == "snips" else terms[k] - value
        variance = (off ** 2).sum() / (n - 1)
        size = max(np.abs(terms[k]).max(), abs(value), 1e-3)

        def close(part, got, want):
            check(name + part, np.allclose(np.array(got, float) / size, np.array(want) / size,
                                           2e-4, 2e-4), got, want)
        close("", [got["value"], got["se"]], [value, np.sqrt(variance / n)])
        half = normal_point * np.sqrt(variance / n)
        close(", normal", ends(got["normal"]), [value - half, value + half])
        check(name + ", which intervals", ("bernstein" in got, "bootstrap" in got) ==
              (k != "snips", len(drawn) > 0), got)
        if k != "snips":
            half = np.sqrt(2 * variance * log / n) + 7 * np.diff(spans[k])[0] * log / (3 * (n - 1))
            close(", bernstein", ends(got["bernstein"]), [value - half, value + half])
            close(", range", ends(got["range"]), spans[k])
        if len(drawn):
            with np.errstate(invalid="ignore"):
                means = terms[k][drawn].mean(1) / (w[drawn].mean(1) if k == "snips" else 1)
            kept = means[np.isfinite(means)]
            close(", bootstrap", ends(got["bootstrap"]),
                  np.quantile(kept, [(1 - level) / 2, (1 + level) / 2]))
            if k == "snips":
                check(name + ", degenerate", e["degenerate"] == len(means) - len(kept))
        check(name + ", which bound", ("bound" in got) == (k in ("ix", "ls")), got)
        if "bound" in got:
            close(", bound", got["bound"], bound(k, got["parameter"], value, tried[k]))
        head, line = [next(row for row in out["text"].split("\n") if row.startswith(first + " "))
                      for first in ("estimator", k)]
        cells = dict(zip(re.split(" {2,}", head.strip()), line.split()))
        check(name + ", columns", len(cells) == len(line.split()) >= 6, head, line)
        for column, cell in list(cells.items())[1:]:
            kind = column.split()[-1]  # se is left out where it does not fit
            want = ends(got[kind]) if isinstance(got.get(kind), dict) else [got.get(kind)]
            check(name + " prints " + kind, cell == "-" if want == [None] else np.allclose(
                [float(v) for v in cell.split("..")], want, 6e-2 if kind == "se" else 6e-3),
                line, want)
    valued = [k for k in wanted if k != "snips" or w.any()]
    seen = [(e[k]["value"], e[k]["normal"]["high"] - e[k]["value"]) for k in valued]
    check(what + ": SLOPE", any(np.allclose(seen[valued.index(e["chosen"])], seen[k], 1e-4, 1e-7)
                                for k in slopes(seen)), e.get("chosen"), seen)  # or an equal one
    check_ope_text(what, "given" if given else o["policy"], out, e, wanted)
    unshown = 1 - pi[:, np.unique(actions)].sum(1).mean()
    near(what + ": unshown", e["unshown"], unshown, 1e-5)
    sum_w, off = w.sum(), w - w.mean()
    near(what + ": weights", [e[k] for k in (
        "n", "overlap", "reward", "ess", "max_weight", "max_share", "mean_weight",
        "mean_weight_se", "weight_bound")],
         [n, (w > 0).sum(), r.mean(), sum_w ** 2 / (w ** 2).sum() if sum_w else 0, w.max(),
          w.max() / sum_w if sum_w else 0, w.mean(), np.sqrt((off ** 2).sum() / (n - 1) / n),
          1 / least], 2e-4)
    for said, when in (("no event shows", unshown > 0.1), ("takes none of the", not sum_w),
                       ("one event has", e["max_share"] > 0.1),
                       ("effective sample size is", sum_w and (e["ess"] < max(100, 0.01 * n)))):
        check(what + ": warnings", (said in " ".join(e["warnings"])) == bool(when), e["warnings"],
              said)


def check_ope_text(what, policy, out, e, wanted):
    """What is printed around the table."""
    text = out["text"].replace(",", "").replace("\n  ", " ")  # broken lines go on by two spaces
    head = re.match(r"value of the (\w+) policy from (\d+) events; the logged reward is (\S+) in",
                    text)
    check(what + " prints its head", head and head[1] == policy and int(head[2]) == e["n"]
          and np.isclose(float(head[3]), e["reward"], 1e-5, 1e-9), text)
    sizes = re.search(r"^weights: effective sample size (\S+) largest (\S+) mean (\S+)$", text,
                      re.M)
    check(what + " prints weights", sizes and np.allclose(
        [float(v) for v in sizes.groups()], [e["ess"], e["max_weight"], e["mean_weight"]], 6e-4),
          text)
    said = {one: float(v) for one, v in re.findall(r"\w+ of (\w+) = (\S+)", text)}
    want = {one: e[one]["parameter"] for one in wanted if "parameter" in e[one]}
    check(what + " prints parameters", set(said) == set(want) and all(
        np.isclose(said[one], want[one], 6e-4) for one in want), text, want)
    takes = re.search(r"^SLOPE takes (\w+)$", text, re.M)
    check(what + " prints what SLOPE takes", (takes and takes[1]) ==
          (e.get("chosen") if len(wanted) > 1 else None), text)
    check(what + " prints warnings", re.findall(r"^warning: (.*)$", text, re.M) ==
          [one.replace(",", "") for one in e["warnings"]], text)


def check_sampled(p, out, f, taken, chance, r):
    """What estimates of the normaliser by uniform draws say of themselves, and what comes of it."""
    what, e, weigh = p["name"], out["e"], np.exp(f - f.max(1, keepdims=True))
    error = weigh.std(1) / weigh.mean(1) / np.sqrt(p["samples"])
    near(what + ": the error of the normaliser", e["z_error"], error.mean(), 0.25)
    check(what + ": at worst", e["z_error"] <= e["z_worst"] <= 4 * error.max() + 0.02, e, error)
    if "ips" in e:
        exact = np.abs(taken / chance * r)
        check(what + ": sampled ips", abs(e["ips"]["value"] - (taken / chance * r).mean()) <=
              1e-6 + 8 * (exact * error).mean(), e["ips"], error.mean())
    printed = re.search(r"^normaliser: (\S+) draws, relative standard error (\S+) % in the mean, "
                        r"(\S+) %", out["text"], re.M)
    check(what + " prints the normaliser", printed and int(printed[1].replace(",", "")) ==
          p["samples"] and np.allclose([float(printed[2]), float(printed[3])],
                                       [100 * e["z_error"], 100 * e["z_worst"]], 6e-3), out["text"])


def resampled(n, o):
    """[bootstrap, n]: the events of each replicate."""
    step, i = np.meshgrid(np.arange(o["bootstrap"]), np.arange((n + 3) // 4), indexing="ij")
    words = philox(o["seed"], 9, step, 0, i).reshape(o["bootstrap"], i.shape[1] * 4)[:, :n]
    return below(n, words, o["seed"], step[:, :1], 9, np.arange(n))


# ---- all of it ----

def solved(problems):
    """Has the problems solved in this folder; how many were judged. What is not so is said by
    check."""
    with open("problems.jsonl", "w") as f:
        for p in problems:
            f.write(json.dumps({k: v for k, v in p.items() if k not in ("rows", "parts", "events")})
                    + "\n")
    done = subprocess.run([FOPO, os.path.join(HERE, "judged.lua"), "problems.jsonl"],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    lines = done.stdout.replace("null", "Infinity").splitlines()  # what JSON has no number for
    check("fopo ends", done.returncode == 0 and len(lines) == len(problems), lines[-1:],
          done.stderr)
    judged = 0
    for p, reply in zip(problems, map(json.loads, lines)):
        before = len(checks.failures)
        if "error" in reply:
            check_refused(p["name"], p, reply["error"])
        else:
            judged += 1
            (check_log if "events" in p else check_sessions)(p, reply)
        if len(checks.failures) > before:
            print("problem", p["name"], flush=True)
    return judged


def solve(seed, count):
    """Draws problems and has them solved, and, with many, two larger ones; how many of them were
    judged and not refused."""
    r = random.Random(seed)
    problems = [(log_problem if r.random() < 0.3 else session_problem)(r, "%d-%d" % (seed, i))
                for i in range(count)]
    if count >= 50:
        problems += [large_problem(r, "%d-wide" % seed, 800, 20),
                     large_problem(r, "%d-tall" % seed, 2400, "auto")]
    return solved(problems)
