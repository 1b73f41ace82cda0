"""fopo.policy.auto against NumPy: what it judges by, the means and paired intervals, and what it
takes; by hits and by value. Skipped without numpy."""
from checks import check, finish
from oracle import np, read_lists, run

DUMP = """
local fopo = require "fopo"
local s = fopo.data.synthetic{users = 500, items = 200, clusters = 12, seed = 7}
          :sessions{min_items = 8, valid = 0.2, seed = 2}
write_lists(s.train, "train.txt")
local value = fopo.array.zeros(1, 200)
for a = 1, 200 do value:set(1, a, a * a % 13 / 4 + 0.1) end
value:save("value.npy")
local rw = fopo.reward.hits(s.train, {value = value})
local starts = {"hybrid", "svd", "degree", "cosine", "ease"}
for name, reward in pairs{hits = false, value = rw} do
  local pi, rows = fopo.policy.auto{data = s.train, reward = reward or nil, held = 60,
                                    starts = starts, print = name == "value"}
  for i, row in ipairs(rows) do
    row.each.reward:save(("%s_reward%d.npy"):format(name, i))
    row.each.ndcg:save(("%s_ndcg%d.npy"):format(name, i))
    print("R", name, row.name, row.reward, row.ndcg, row.low, row.high, row == rows.chosen,
          row.seconds > 0, row.theta:get(1, 1))
  end
  if not reward then
    for i, of in ipairs(rows.judged) do
      for k, sessions in ipairs(of.sessions) do
        write_lists(sessions, ("judged%d_%d.txt"):format(i, k))
      end
    end
    print("J", #rows.judged, rows.judged.draws, rows.judged.contexts, s.valid.n, s.train.n)
  end
  fopo.evaluate(pi, s.test)
end
print("few")
fopo.policy.auto{data = s.train, starts = {"ease", "cosine"}, seconds = 0.02}
"""

lines = run(DUMP).strip().split("\n")
few = lines.index("few")
rows = {"hits": [], "value": []}
for line in lines[:few]:
    words = line.split("\t")
    if words[0] == "R":
        rows[words[1]].append(words[2:])
    elif words[0] == "J":
        parts, draws, contexts, n_valid, n_train = map(int, words[1:])
worth = np.load("value.npy")[0].astype(float)
P = len(worth)

# ---- what is judged: tenths of the training users and the validation sessions, drawn several times

sets = [[read_lists("judged%d_%d.txt" % (i + 1, k + 1)) for k in range(draws)]
        for i in range(parts)]
sizes = [len(of[0][0]) for of in sets]
check("tenths, then validation", sizes[-1] == n_valid and sum(sizes) == contexts
      and sum(sizes[:-1]) >= 60 and set(sizes[:-1]) == {n_train // 10}, sizes)
check("few contexts are drawn often", draws == min(8, 4000 // contexts) and draws > 1, draws)
for of in sets:
    for n in range(len(of[0][0])):
        whole = sorted(of[0][0][n] + of[0][1][n])
        check("X and Y are drawn anew", all(sorted(X[n] + Y[n]) == whole
                                            and len(X[n]) == len(of[0][0][n]) for X, Y in of))
moved = np.mean([X[n] != of[0][0][n] for of in sets for X, Y in of[1:] for n in range(len(X))])
check("most of them differ", moved > 0.9, moved)

# ---- cosine: counts without the user at hand, of each draw

X, Y = read_lists("train.txt")
R = np.zeros((len(X), P))
for n in range(len(X)):
    R[n, X[n] + Y[n]] = 1
gain = 1 / np.log2(np.arange(2, 22))


def cosine(n, c):
    w = c / (np.sqrt(np.outer(n, n)) + 10)
    np.fill_diagonal(w, 0)
    return w


# The 100 largest of each item are kept. An item of the user that a row has for her alone is not.
users, together = R.sum(axis=0), R.T @ R
whole = cosine(users, together)
kept = np.zeros((P, P), bool)
np.put_along_axis(kept, np.argsort(-whole.astype(np.float32), axis=1, kind="stable")[:, :100], True,
                  axis=1)
kept &= whole > 0
whole = np.where(kept, whole, 0)


def without(n):
    w = np.where(kept, cosine(users - R[n], together - np.outer(R[n], R[n])), 0)
    others = np.where(kept & (R[n] == 0), w, np.inf).min(axis=1)[:, None]
    cut = (kept.sum(axis=1) == 100)[:, None] & (R[n] > 0) & (w < others * (1 - 1e-6))
    return np.where(cut & np.isfinite(others), 0, w)


def measured(W, X, Y, value, voice):
    """Reward and NDCG@20 of one context; None where the order is a matter of rounding."""
    f = (voice[X, None] * W[X]).sum(axis=0) * value
    f[X] = -1
    order = np.argsort(-f, kind="stable")[:21]
    close = (f[order[:-1]] - f[order[1:]]) < 1e-5 * f[order[0]]
    if close.any():
        return None
    earned = np.where(np.isin(order[:20], Y), value[order[:20]], 0)
    best = np.sort(value[Y])[::-1][:20]
    return earned[0], (earned * gain).sum() / (best * gain[:len(best)]).sum()


user_of = {tuple(sorted(X[n] + Y[n])): n for n in range(len(X))}
for name, value in (("hits", np.ones(P)), ("value", worth)):
    at = [row[0] for row in rows[name]].index("cosine") + 1
    got = np.array([np.load("%s_%s%d.npy" % (name, m, at))[0] for m in ("reward", "ndcg")])
    place, compared = 0, 0
    voice = ((users + 1) / (users.mean() + 1)) ** float(rows[name][at - 1][7])  # m_b^c0
    for i, of in enumerate(sets):
        for n in range(len(of[0][0])):
            taken = sorted(of[0][0][n] + of[0][1][n])
            W = without(user_of[tuple(taken)]) if i < len(sets) - 1 else whole
            each = [measured(W, X[n], Y[n], value, voice) for X, Y in of]
            if all(each):
                mean = np.mean(each, axis=0)
                compared += 1
                check("cosine by %s" % name, np.allclose(got[:, place], mean, atol=1e-5), i, n,
                      got[:, place], mean)
            place += 1
    check("enough are compared, %s" % name, compared > 0.3 * contexts, compared)

# ---- means, intervals and the choice


def interval(d):
    half = 1.959963984540054 * d.std(ddof=1) / np.sqrt(len(d))
    return d.mean() - half, d.mean() + half


for name, found in rows.items():
    each = [[np.load("%s_%s%d.npy" % (name, m, i + 1))[0].astype(float)
             for i in range(len(found))] for m in ("reward", "ndcg")]
    for m, numbers in enumerate(each):
        for i, row in enumerate(found):
            check("a mean", abs(float(row[1 + m]) - numbers[i].mean()) < 1e-5, row)
    reward, ndcg = np.array(each[0]), np.mean(each[1], axis=1)
    best = np.argmax(reward.mean(axis=1))
    left = [i for i in range(len(found)) if i == best or interval(reward[i] - reward[best])[1] >= 0]
    wanted = max(left, key=lambda i: ndcg[i])
    for i, row in enumerate(found):
        check("an interval", np.allclose([float(v) for v in row[3:5]], interval(each[0][i]),
                                         atol=1e-5), row)
    chosen = [i for i, row in enumerate(found) if row[5] == "true"]
    check("the largest NDCG where the reward is silent", chosen == [wanted], chosen, left, found)

# ---- what is said

said = " ".join(" ".join(lines[:few]).split())
names = [row[0] for row in rows["value"]]
check("by value", "svd" not in names and "svd is left out" in said
      and "learning changes the value of its start" in said, said)
check("a hybrid comes last", rows["hits"][-1][0].startswith("hybrid"), rows["hits"])
said = " ".join(" ".join(lines[few:]).split())
check("what does not fit is said with its estimate",
      "ease is left out: by estimate it takes" in said and "of 20 ms are left" in said
      and "cosine, trained" in said, said)
finish()
