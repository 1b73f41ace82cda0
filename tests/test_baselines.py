"""Baselines against NumPy: each from its published formula, on sessions of two small worlds, one
with fewer users than items and one with more. Skipped without numpy."""
import subprocess

from checks import check, finish, failures, FOPO
from oracle import np, ones, read_lists, run

K = 10
P = 600  # more than two of the blocks of rows that ease sweeps at once

WORLD = """
fopo = require "fopo"
s = fopo.data.synthetic{users = %%d, items = %d, clusters = 12, mean_items = 16, seed = 7}
    :sessions{min_items = 6, seed = 2}
""" % P

DUMP = WORLD + """
for _, part in ipairs{"train", "test"} do
  write_lists(s[part], part .. ".txt")
end
local b = fopo.baseline
local made = {
  popular = b.popular{data = s.train},
  cosine = b.item_knn{data = s.train, neighbours = 7, shrink = 3},
  jaccard = b.item_knn{data = s.train, neighbours = 200, similarity = "jaccard", shrink = 0},
  ease = b.ease{data = s.train, l2 = 20},
  als = b.als{data = s.train, dim = 5, l2 = 2, alpha = 3, iterations = 3, seed = 4},
}
made.ease_top = b.ease{data = s.train, l2 = 20, top = 9}
made.als_nu = b.als{data = s.train, dim = 5, l2 = 0.2, nu = 0.8, alpha = 3, iterations = 3,
                    seed = 4}
made.slim = b.slim{data = s.train, m = 30, l2 = 5}
made.slim_all = b.slim{data = s.train, m = 4096, l2 = 20}
for name, one in pairs(made) do
  for _, exclude in ipairs{"none", "seen"} do
    local ids, scores = one:best(s.test, {k = %d, exclude = exclude})
    ids:save(name .. "." .. exclude .. ".ids.npy")
    scores:save(name .. "." .. exclude .. ".scores.npy")
  end
  local e = fopo.evaluate(one, s.test, {k = {1, %d}, exclude = "seen"})
  local f = io.open(name .. ".txt", "w")
  f:write(e.reward, " ", e.recall[%d], " ", e.ndcg[%d], " ", e.expected or -1, "\\n")
  f:close()
end
local ids, scores = made.ease:best(s.train, {k = %d, left_out = true, exclude = "seen"})
ids:save("left_out.ids.npy")
scores:save("left_out.scores.npy")
for name, one in pairs{ease_auto = b.ease{data = s.train},
                       slim_auto = b.slim{data = s.train, m = 30, l2 = "auto"}} do
  local f = io.open(name .. ".txt", "w")
  f:write(one.l2, " ", one.tried.held)
  for _, t in ipairs(one.tried) do f:write("\\n", t.value, " ", t.ndcg) end
  f:close()
end
fopo.array.randn(%d, 5, 4, 0.1):save("start.npy")
""" % (K, K, K, K, K, P)


def read(part):
    return [ones(lists, P) for lists in read_lists(part)]


def philox(counter, key):
    """Philox4x32-10 (Salmon et al. 2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def knn(M, X, neighbours, jaccard, shrink):
    C, n = M.T @ M, M.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        S = C / ((n[:, None] + n[None, :] - C if jaccard else np.sqrt(np.outer(n, n))) + shrink)
    S = np.nan_to_num(S)
    np.fill_diagonal(S, 0)
    for row in S:
        row[np.argsort(-row.astype(np.float32), kind="stable")[neighbours:]] = 0
    scores = X @ S
    return np.where(scores > 0, scores, -np.inf)


def ease(M, l2):
    A = np.linalg.inv(M.T @ M + l2 * np.eye(P))
    B = -A / np.diag(A)
    np.fill_diagonal(B, 0)
    return B


def largest(B, top):
    """Its positive weights, the `top` largest of each row."""
    out = np.zeros_like(B)
    for row, kept in zip(B, out):
        best = np.argsort(-row.astype(np.float32), kind="stable")[:top]
        kept[best] = np.maximum(row[best], 0)
    return out


def slim(M, m, l2):
    """Each column by the normal equations of those of its most similar items."""
    C, n, W = M.T @ M, M.sum(axis=0), np.zeros((P, P))
    for a in range(P):
        with np.errstate(divide="ignore", invalid="ignore"):
            cosine = np.nan_to_num(C[a] / np.sqrt(n[a] * n)).astype(np.float32)
        cosine[a] = 0
        S = np.argsort(-cosine, kind="stable")[:m]
        S = S[cosine[S] > 0]
        W[S, a] = np.linalg.solve(C[np.ix_(S, S)] + l2 * np.eye(len(S)), C[S, a])
    return W


def als_side(M, F, l2, alpha, nu):
    """Each row by its own normal equations with the weights c written out."""
    out = np.zeros((len(M), F.shape[1]))
    for u, m in enumerate(M):
        c, penalty = 1 + alpha * m, l2 * max(m.sum(), 1) ** nu
        out[u] = np.linalg.solve(F.T @ (c[:, None] * F) + penalty * np.eye(F.shape[1]),
                                 F.T @ (c * m))
    return out


def als(M, X, Y, l2, alpha, iterations, nu=0):
    for _ in range(iterations):
        U = als_side(M, Y, l2, alpha, nu)
        Y = als_side(M.T, U, l2, alpha, nu)
    return als_side(X, Y, l2, alpha, nu) @ Y.T


def same_lists(name, scores, ids, given, tolerance):
    """The list is the k best of the oracle's scores, but for items too close to tell."""
    ids = ids.astype(np.int64)
    for n in range(len(scores)):
        possible = np.isfinite(scores[n]).sum()
        listed = ids[n] < P
        check(name + ": length", listed.sum() == min(K, possible), n, listed.sum(), possible)
        mine = scores[n][ids[n][listed]]
        check(name + ": scores", np.allclose(mine, given[n][listed], rtol=tolerance,
                                             atol=tolerance), n, mine, given[n])
        best = np.sort(scores[n])[::-1][:len(mine)]
        check(name + ": the best", np.allclose(mine, best, rtol=tolerance, atol=tolerance), n)
        check(name + ": each once", len(set(ids[n][listed])) == listed.sum(), n)
        if failures:
            return


def measures(scores, Y, k=K):
    hits = recall = ndcg = 0
    gain = 1 / np.log2(np.arange(2, k + 2))
    for f, y in zip(scores, Y):
        best = np.argsort(-f.astype(np.float32), kind="stable")[:k]
        best = best[np.isfinite(f[best])]
        hit = y[best]
        hits += hit[0] if len(hit) else 0
        recall += hit.sum() / y.sum()
        ndcg += (hit * gain[:len(hit)]).sum() / gain[:int(min(k, y.sum()))].sum()
    return hits / len(Y), recall / len(Y), ndcg / len(Y)


def shuffled(n, seed, stream, step):
    """Fisher and Yates, from words of Philox; a bounded draw that needs a second try is refused."""
    order, words = list(range(n)), []
    for i in range(n - 1):
        if i % 4 == 0:
            words = philox((i // 4, 0, step, stream), (seed, 0))
        draw = words[i % 4] * (n - i)
        assert draw & 0xFFFFFFFF >= n, "a draw that is made again"
        j = i + (draw >> 32)
        order[i], order[j] = order[j], order[i]
    return order


def search(name, X, Y, weights):
    """l2 = "auto": NDCG@20 of the first users of a random order, by the weights learnt from the
    others."""
    lines = [line.split() for line in open(name + ".txt")]
    N, (chosen, held) = len(X), map(float, lines[0])
    check(name + ": held out", held == max(N // 10, min(100, (N + 3) // 4)), held, N)
    order = shuffled(N, 0, 13, 0)
    out, rest = order[:int(held)], order[int(held):]
    M, seen = np.maximum(X, Y)[rest], X[out] > 0
    tried = [(float(l2), float(ndcg)) for l2, ndcg in lines[1:]]
    check(name + ": bracketed", 3 <= len(tried) <= 9, tried)
    check(name + ": the best", chosen == max(tried, key=lambda one: one[1])[0], chosen, tried)
    for l2, ndcg in tried:
        mine = measures(np.where(seen, -np.inf, X[out] @ weights(M, l2)), Y[out], 20)[2]
        check(name + ": NDCG@20", abs(mine - ndcg) < 2e-3, l2, mine, ndcg)


def compare(users):
    run(DUMP % users)
    if failures:
        return
    x, y = read("train.txt")
    M = np.maximum(x, y)
    X, Y = read("test.txt")
    check("the smaller side", (len(M) < P) == (users < P), len(M))
    start = np.load("start.npy").astype(float)
    B = ease(M, 20)
    oracle = {
        "popular": np.tile(M.sum(axis=0), (len(X), 1)),
        "cosine": knn(M, X, 7, False, 3),
        "jaccard": knn(M, X, 200, True, 0),
        "ease": X @ B,
        "ease_top": X @ largest(B, 9),
        "slim": X @ slim(M, 30, 5),
        "slim_all": X @ slim(M, P, 20),
        "als": als(M, X, start, 2, 3, 3),
        "als_nu": als(M, X, start, 0.2, 3, 3, 0.8),
    }
    for name, scores in oracle.items():
        for exclude in ("none", "seen"):
            at = name + "." + exclude
            wanted = np.where(X > 0, -np.inf, scores) if exclude == "seen" else scores
            same_lists(name + ", " + exclude, wanted, np.load(at + ".ids.npy"),
                       np.load(at + ".scores.npy"), 2e-5)
        reward, recall, ndcg, expected = map(float, open(name + ".txt").read().split())
        # an item may change its place with one that scores the same up to rounding
        for mine, given in zip(measures(np.where(X > 0, -np.inf, scores), Y),
                               (reward, recall, ndcg)):
            check(name + ": measures", abs(mine - given) < 5e-3, mine, given)
        if name == "popular":
            w = M.sum(axis=0)
            chance = (Y @ w) / ((1 - X) @ w)
            check("popular: expected reward", abs(chance.mean() - expected) < 1e-6)
        else:
            check(name + ": no expected reward", expected == -1)
    some = list(range(0, len(M), len(M) // 5))
    given = [np.load("left_out.%s.npy" % what)[some] for what in ("ids", "scores")]
    scores = np.array([x[u] @ ease(np.delete(M, u, axis=0), 20) for u in some])
    same_lists("left out", np.where(x[some] > 0, -np.inf, scores), *given, 5e-5)
    search("ease_auto", x, y, ease)
    search("slim_auto", x, y, lambda M, l2: slim(M, 30, l2))


# what would not fit is refused before it is allocated: n^2 floats of the smaller side, 150 MB here
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

for users in (400, 1200):
    compare(users)

# what threads, seeds and an interruption do is tested by tests/lua/test_baselines.lua
finish()
