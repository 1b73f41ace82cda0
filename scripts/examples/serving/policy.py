"""A policy that pi:save wrote, in NumPy: contexts, scores, probabilities and the best items.

    python3 policy.py POLICY USERS [N [USER ITEM]]

USERS is a CSV; USER and ITEM name its columns. Without them these are found by their usual names,
else they are the first two, also of a file without a head. Prints user,rank,item,score,probability,
as scripts/recommend.lua writes it. The other recipes of this folder import this file:

    policy = Policy("policy.npz")
    policy.best(policy.ids(["Alien", "Brazil"]), 5)
"""
import csv
import json
import os
import sys

import numpy as np


class Policy:
    """items [P, L] are scored; contexts are sums of weights [P] times rows of first_items."""

    def __init__(self, path):
        z = np.load(path)
        kind = z["format"].item().decode()
        if kind != "fopo policy 1":
            raise ValueError("%s holds %r, not a policy of version 1" % (path, kind))
        self.provenance = json.loads(z["provenance"].item()) if "provenance" in z else {}
        self.temperature = float(z["temperature"])
        self.unit = z["contexts"].item() != b"mean"
        self.first_items = z["items"] if "items" in z else self._elsewhere(z, path)
        self.items = z["learnt_items"] if "learnt_items" in z else self.first_items
        P = len(self.first_items)
        self.weights = z["item_weights"] if "item_weights" in z else np.ones(P, np.float32)
        self.masks = "seen" in z and z["seen"].item() != b"keep"
        self.layers = self._layers(z)
        self.neighbours = self._neighbours(z) if "weights" in z else None
        self.activation = z["activation"].item().decode() if "activation" in z else None
        self.names = self._names(z)
        self.number = {name: i for i, name in enumerate(self.names)}

    @staticmethod
    def _elsewhere(z, path):
        """The items of a policy that was saved with items = "x.npy"."""
        file = z["items_file"].item().decode()
        if not os.path.exists(file):
            file = os.path.join(os.path.dirname(path), os.path.basename(file))
        return np.load(file)

    @staticmethod
    def _layers(z):
        """[(W, b)]; a linear policy is one layer without b."""
        if "theta" in z:
            return [(z["theta"], 0)]
        return [(z["W%d" % i], z["b%d" % i]) for i in (1, 2, 3) if "W%d" % i in z]

    @staticmethod
    def _neighbours(z):
        """A policy of neighbours: the rows of W [P, P], and the scalars of its scores."""
        scalars = {name: float(z[name][0]) for name in ("c0", "c1", "log_tau")}
        scalars["dense"] = float(z["dense"][0]) if "dense" in z else 0.0
        scalars["c2"] = float(z["c2"][0]) if "c2" in z else 0.0
        none = np.zeros(len(z["log_m"]), np.float32)
        scalars["bias"], scalars["importance"] = z.get("bias", none), z.get("importance", none)
        return {"all": z["scored"].item() == b"all",
                "indptr": z["weights_indptr"], "ids": z["weights_ids"], "w": z["weights"],
                "log_m": z["log_m"], "log_v": z.get("log_v", none), **scalars}

    def _names(self, z):
        if "items_numbers" in z:
            return [str(n) for n in z["items_numbers"]]
        if "items_text" not in z:
            return [str(i + 1) for i in range(len(self.items))]
        text, at = z["items_text"].tobytes(), z["items_offsets"].tolist()
        return [text[a:b - 1].decode() for a, b in zip(at, at[1:])]  # each ends in a zero byte

    def ids(self, names):
        """The numbers of those of the items that the policy knows."""
        return [self.number[name] for name in names if name in self.number]

    def context(self, ids):
        """x [D]: the mean of the items that a user took; or their weighted sum at unit length."""
        ids = sorted(set(ids))
        x = self.weights[ids] @ self.first_items[ids]
        length = np.linalg.norm(x) if self.unit else len(ids)
        return x / length if length > 0 else x

    def queries(self, x):
        """q [N, L] of contexts x [N, D]: the score of item a is q . items[a]."""
        for i, (W, b) in enumerate(self.layers):
            x = x @ W + b
            if i + 1 < len(self.layers):
                x = np.tanh(x) if self.activation == "tanh" else np.maximum(x, 0)
        return x / self.temperature

    def votes(self, ids):
        """scores [P] of neighbours: 0 but for the candidates, and which these are, perhaps all."""
        v, sums = self.neighbours, np.zeros(len(self.items))
        candidates = np.full(len(self.items), v["all"])
        for b in sorted(set(ids)):
            row = slice(v["indptr"][b], v["indptr"][b + 1])
            voice = np.exp(v["c0"] * v["log_m"][b] + v["importance"][b])
            sums[v["ids"][row]] += voice * v["w"][row]
            candidates[v["ids"][row]] = True
        scores = np.exp(v["log_tau"] + v["c1"] * v["log_m"]) / np.sqrt(len(set(ids))) * sums
        q = self.queries(self.context(ids)[None, :])[0] if v["dense"] else np.zeros(1)
        dense = v["dense"] * (self.items @ q) if v["dense"] else 0.0
        worth = np.exp(v["c2"] * v["log_v"])
        return np.where(candidates, worth * (scores + dense) + v["bias"], 0.0), candidates

    def scores(self, ids):
        """scores [P], and which items may be recommended."""
        if self.neighbours is not None:
            return self.votes(ids)
        x = self.context(ids)[None, :]
        return (self.queries(x) @ self.items.T)[0].astype(float), np.ones(len(self.items), bool)

    def best(self, ids, n):
        """(item, score, probability) of the n best items that the user did not take."""
        scores, candidates = self.scores(ids)
        taken = np.zeros(len(scores), bool)
        taken[ids] = True
        allowed = np.flatnonzero(candidates & ~taken)
        n = min(n, len(allowed))
        if n == 0:
            return []
        worst = -np.partition(-scores[allowed], n - 1)[n - 1]  # of the n best
        allowed = allowed[scores[allowed] >= worst]
        order = allowed[np.argsort(-scores[allowed], kind="stable")][:n]
        f = scores[~taken] if self.masks else scores
        log_z = f.max() + np.log(np.exp(f - f.max()).sum())
        return [(a, scores[a], np.exp(scores[a] - log_z)) for a in order]


USUAL = (("user", "user_id", "userid", "uid", "customer", "customer_id", "visitor", "visitor_id"),
         ("item", "item_id", "itemid", "iid", "product", "product_id", "movieid", "sku"))


def columns_of(head, named):
    """The places of user and item in the head, and whether it is one."""
    words = [word.strip().lower() for word in head]
    places = []
    for side, usual in enumerate(USUAL):
        if named and named[side] not in head:
            sys.exit("there is no column %r; the file has %s" % (named[side], ", ".join(head)))
        known = [head.index(named[side])] if named else [i for i, w in enumerate(words)
                                                         if w in usual]
        places.append(known[0] if known else None)
    if places == [None, None]:
        return 0, 1, False
    rest = [i for i in range(len(head)) if i not in places]
    return [place if place is not None else rest[0] for place in places] + [True]


def read_users(path, policy, named=None):
    """{user: ids of the items that the policy knows}; named: the columns of user and item."""
    users = {}
    with open(path, newline="") as f:
        rows = csv.reader(f)
        first = next(rows)
        user, item, has_head = columns_of(first, named)
        for row in rows if has_head else [first, *rows]:
            users.setdefault(row[user], []).extend(policy.ids([row[item]]))
    return {user: ids for user, ids in users.items() if ids}


def write(policy, lists):
    """Prints {user: [(item, score), ...] or [(item, score, probability), ...]}."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["user", "rank", "item", "score", "probability"])
    for user, best in lists.items():
        for rank, (a, *numbers) in enumerate(best, 1):
            out.writerow([user, rank, policy.names[a]] + ["%.6g" % x for x in numbers])


def without(ids, scores, seen, n):
    """The first n of the items that a search found, without those that were taken."""
    seen = set(seen)
    return [(a, s) for a, s in zip(ids, scores) if a >= 0 and a not in seen][:n]


if __name__ == "__main__":
    policy = Policy(sys.argv[1])
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    users = read_users(sys.argv[2], policy, sys.argv[4:6] or None)
    write(policy, {user: policy.best(ids, n) for user, ids in users.items()})
