"""A policy of neighbours against NumPy: its weights, scores, softmax and gradient from the formula
over all items, in double. Its evaluations: judged.py. Skipped without numpy."""
from checks import check, finish
from oracle import np, read_lists, run

DUMP = """
local fopo = require "fopo"
local native, cache = require "fopo.native", require "fopo.base.cache"
local s = fopo.data.synthetic{users = 300, items = 150, clusters = 12, seed = 7}
          :sessions{min_items = 8, seed = 2}
write_lists(s.train, "lists.txt")
local items = fopo.embed.svd(s.train, {dim = 5})
items:save("items.npy")
local one = fopo.array.from
local hits, value = fopo.reward.hits(s.train), fopo.array.zeros(1, s.train.n_items)
for a = 1, s.train.n_items do value:set(1, a, a % 7 == 0 and 0 or a * a % 13 / 8 + 0.1) end
value:save("value.npy")
for name, items in pairs{hybrid = items, pure = false, parts = items, valued = items,
                         all = items} do
  local pi = fopo.policy.neighbours{data = s.train, start = "cosine", n = 20, held = 0,
                                    items = items or nil, value = name == "valued" and value or nil,
                                    scored = name == "all" and "all" or nil,
                                    learn = name == "parts"
                                            and {"theta", "importance", "bias"} or nil}
  local theta = {c0 = one{{-0.4}}, c1 = one{{0.3}}, log_tau = one{{2.2}}, dense = one{{1.5}}}
  if not items then theta.dense = nil end
  if name == "valued" then theta.c2 = one{{0.6}} end
  if name == "parts" then
    theta.bias = fopo.array.randn(1, s.train.n_items, 5)
    theta.importance = fopo.array.randn(1, s.train.n_items, 6)
  end
  pi:set_parameters(theta)
  pi:save(name .. ".npz")
  for _, objective in ipairs{"reward", "likelihood", "log_reward"} do
    local g = fopo.gradient.sparse{objective = objective, tail = s.train.n_items}
    local G, stats = g:compute(pi, s.train, nil, hits)
    G:save(name .. "_" .. objective .. ".npy")
    print(name, objective, ("%.9g %.9g %.9g"):format(stats.reward, stats.ess, stats.max_weight))
  end
end
local made, known = 0, io.open("known.txt", "w") -- whom the items of each tenth know
local function embed(sessions)
  local items, users = fopo.embed.svd(sessions, {dim = 5}), {}
  for n = 1, sessions.n do users[n] = sessions:user(n) end
  known:write(table.concat(users, " "), "\\n")
  items:save(("dense%d.npy"):format(made))
  made = made + 1
  return items
end
local few = native.sessions_hold(s.train, 0, 60, 1) -- fewer than items
write_lists(few, "few.txt")
local function ease(data) return fopo.baseline.ease{data = data, l2 = 20} end
local starts = {ease = ease, wide = ease}
-- training contexts, each without its own user
for _, name in ipairs{"cosine", "jaccard", "ease", "wide"} do
  local dense = name == "cosine"
  local data = name == "wide" and few or s.train
  local pi = fopo.policy.neighbours{data = data, start = starts[name] or name,
                                    n = starts[name] and 150 or 20,
                                    items = dense and embed or nil,
                                    learn = {"theta", "importance", "weights"}}
  pi:set_parameters{c0 = one{{-0.4}}, c1 = one{{0.3}}, log_tau = one{{2.2}},
                    dense = dense and one{{1.5}} or nil,
                    importance = fopo.array.zeros(1, s.train.n_items)}
  pi:save(name .. ".npz")
  local G, stats, ids, rows = fopo.gradient.sparse{}:compute(pi, pi:training(), nil,
                                                             fopo.reward.hits(data))
  G:save(name .. ".npy")
  ids:save(name .. "_ids.npy")
  rows:save(name .. "_rows.npy")
  print(name, "reward", ("%.9g"):format(stats.reward))
  local ids, rows = {}, {}
  for n = 1, data.n do rows[n] = n end
  ids = native.recommend(pi, cache.contexts(data, pi), cache.exact_of(pi), 3,
                         {seen = data, training = rows, may_be_short = true})
  ids:save(name .. "_best.npy")
end
known:close()
local users = {}
for n = 1, s.train.n do users[n] = s.train:user(n) end
print("users", "", table.concat(users, " "))
"""

said = {}
for line in run(DUMP).strip().split("\n"):
    name, what, value = line.split("\t")
    said[name, what] = value
X, Y = read_lists("lists.txt")
N, P = len(X), len(np.load("items.npy"))

# The weights: the 20 largest cosines of an item, as item_knn shrinks them.
R = np.zeros((N, P))
for n in range(N):
    R[n, X[n] + Y[n]] = 1
users, together = R.sum(axis=0), R.T @ R
with np.errstate(divide="ignore", invalid="ignore"):
    cosine = together / (np.sqrt(np.outer(users, users)) + 10)
np.fill_diagonal(cosine, 0)
cosine[~np.isfinite(cosine)] = 0


def dense_weights(z):
    W, at = np.zeros((P, P)), z["weights_indptr"].astype(int)
    for b in range(P):
        W[b, z["weights_ids"][at[b]:at[b + 1]]] = z["weights"][at[b]:at[b + 1]]
    return W


def scores(theta, W, log_m, x, beta, taken):
    """f [P] in double; -inf for what was taken. theta has bias and importance behind the
    scalars."""
    c0, c1, log_tau, dense, c2 = theta[:5]
    bias, importance = theta[5:5 + P], theta[5 + P:]
    votes = (np.exp(c0 * log_m[taken] + importance[taken])[:, None] * W[taken]).sum(axis=0)
    f = np.exp(log_tau + c1 * log_m) / np.sqrt(len(taken)) * votes
    has_score = (W[taken] != 0).any(axis=0) | (name == "all")
    f = np.where(has_score, v ** c2 * (f + dense * (beta @ x)) + bias, 0.0)
    f[taken] = -np.inf
    return f


def softmax(f):
    w = np.exp(f - f.max())
    return w / w.sum()


def statistics(theta, *of):
    """The mean effective sample size, and the largest probability."""
    all_pi = [softmax(scores(theta, *of[:2], of[2][n], of[3], X[n])) for n in range(N)]
    return np.mean([1 / (pi ** 2).sum() for pi in all_pi]), np.max(all_pi)


def value(objective, theta, *of):
    total = 0.0
    for n in range(N):
        f = scores(theta, *of[:2], of[2][n], of[3], X[n])
        pi, hits = softmax(f), [a for a in Y[n] if a not in X[n]]
        R_n = pi[hits].sum()
        if objective == "reward":
            total += R_n
        elif objective == "log_reward":
            total += np.log(max(R_n, 1e-6))
        else:
            total += np.log(pi[hits]).mean()
    return total / N


worth = np.load("value.npy")[0].astype(float)
for name in ("pure", "hybrid", "parts", "valued", "all"):
    v = np.ones(P)
    if name == "valued":
        v = np.maximum(worth / worth[worth > 0].mean(), 1e-6)
        check("the log of the values", np.allclose(np.load(name + ".npz")["log_v"], np.log(v),
                                                   atol=1e-5))
    z = np.load(name + ".npz")
    W, log_m = dense_weights(z), z["log_m"].astype(float)
    m = (users + 1) / (users.mean() + 1)
    check(name + ": log m", np.allclose(log_m, np.log(m), atol=1e-5))
    kept = W != 0
    check(name + ": at most 20 weights", kept.sum(axis=1).max() <= 20)
    check(name + ": weights are cosines", np.allclose(W[kept], cosine[kept], rtol=1e-5))
    least = np.where(kept, W, np.inf).min(axis=1)
    more = (cosine > least[:, None] * (1 + 1e-5)).sum(axis=1)
    check(name + ": the largest ones", (more <= 20).all(), more.max())
    beta = np.load("items.npy").astype(float) if name != "pure" else np.zeros((P, 1))
    x = np.array([beta[t].mean(axis=0) for t in X])
    length = np.linalg.norm(x, axis=1, keepdims=True)
    x = np.divide(x, length, out=np.zeros_like(x), where=length > 0)
    theta = np.array([-0.4, 0.3, 2.2, 1.5 if name != "pure" else 0.0, 0.6])
    vectors = [z[part].astype(float) if name == "parts" else np.zeros(P)
               for part in ("bias", "importance")]
    theta = np.concatenate([theta] + vectors)
    for objective in ("reward", "likelihood", "log_reward"):
        G = np.load("%s_%s.npy" % (name, objective))[0].astype(float)
        G = np.concatenate([G[:5], G[5:] if len(G) > 5 else np.zeros(2 * P)])
        truth = float(value(objective, theta, W, log_m, x, beta))
        got, *figures = map(float, said[name, objective].split())
        check("%s: value of %s" % (name, objective), abs(truth - got) < 1e-4 * abs(truth),
              truth, got)
        mine = statistics(theta, W, log_m, x, beta)
        check("%s: statistics of %s" % (name, objective), np.allclose(figures, mine, 1e-4),
              figures, mine)
        along = list(np.eye(len(theta))[:{"pure": 3, "valued": 5}.get(name, 4)])
        if name == "parts":  # the largest of bias and of importance, and both together
            for part in (5, 5 + P):
                along.append(np.eye(len(theta))[part + np.argmax(np.abs(G[part:part + P]))])
            along.append(np.r_[np.zeros(5), np.random.default_rng(3).normal(size=2 * P)])
        slopes = np.array([(value(objective, theta + 1e-5 * u, W, log_m, x, beta)
                            - value(objective, theta - 1e-5 * u, W, log_m, x, beta)) / 2e-5
                           for u in along])
        G = np.array([G @ u for u in along])
        off = np.abs(G - slopes).max() / np.abs(slopes).max()
        check("%s: gradient of %s" % (name, objective), off < 1e-3, off, G, slopes)

# Without the user at hand: the same entries, counted anew from the interactions of all others, or
# learnt anew from them.
for name in ("cosine", "jaccard", "ease", "wide"):
    z, without = np.load(name + ".npz"), []
    if name == "wide":
        X, Y = read_lists("few.txt")
        N, R = len(X), R[:len(X)] * 0
        for n in range(N):
            R[n, X[n] + Y[n]] = 1
        check("fewer users than items", N < P)
    kept = dense_weights(z) != 0
    for n in range(N):
        others = np.delete(R, n, axis=0)
        if name in ("ease", "wide"):
            Q = np.linalg.inv(others.T @ others + 20 * np.eye(P))
            without.append(np.where(kept, -Q / np.diag(Q), 0))
            continue
        u, c = others.sum(axis=0), others.T @ others
        with np.errstate(divide="ignore", invalid="ignore"):
            w = (c / (np.sqrt(np.outer(u, u)) + 10) if name == "cosine"
                 else c / (u[:, None] + u - c + 10))
        w = np.where(kept, np.where(np.isfinite(w), w, 0), 0)
        own = R[n] > 0  # items of the user that a row, cut to 20, would not have without her
        least = np.where(kept & ~own, w, np.inf).min(axis=1)
        cut = (kept.sum(axis=1) == 20)[:, None] & own & (w < least[:, None] * (1 - 1e-6))
        without.append(np.where(cut & np.isfinite(least)[:, None], 0, w))
    theta = np.concatenate([[-0.4, 0.3, 2.2, 1.5 if name == "cosine" else 0, 0], np.zeros(2 * P)])
    log_m = z["log_m"].astype(float)
    betas = [np.zeros((P, 1))] * N
    if name == "cosine":  # the dense part by the items that were made without the user
        known = [set(line.split()) for line in open("known.txt")]
        fits = [[k for k in range(1, len(known)) if u not in known[k]]
                for u in said["users", ""].split()]
        check("each user is held out once", len(known) == 11 and all(len(f) == 1 for f in fits))
        betas = [np.load("dense%d.npy" % fit[0]).astype(float) for fit in fits]

    def score(n, theta, delta=0.0):
        W = without[n][X[n]]
        candidates = (W != 0).any(axis=0)
        if np.ndim(delta):
            W = np.where(W != 0, W + delta[X[n]], 0)
        voice = np.exp(theta[0] * log_m[X[n]] + theta[5 + P:][X[n]])
        f = (np.exp(theta[2] + theta[1] * log_m) / np.sqrt(len(X[n]))
             * (voice[:, None] * W).sum(axis=0))
        x = betas[n][X[n]].sum(axis=0)
        x = x / max(np.linalg.norm(x), 1e-12)
        f = np.where(candidates, f + theta[3] * (betas[n] @ x), 0)
        f[X[n]] = -np.inf
        return f, candidates

    def reward(theta, delta=0.0):
        return sum(softmax(score(n, theta, delta)[0])[[a for a in Y[n] if a not in X[n]]].sum()
                   for n in range(N)) / N

    best = np.load(name + "_best.npy").astype(int)
    for n in range(N):
        f, candidates = score(n, theta)
        f = np.where(candidates, f, -np.inf)
        top = np.sort(f)[::-1][:3]
        top = top[np.isfinite(top)]
        check(name + ": the best of a training context",
              np.allclose(f[best[n][:len(top)]], top, rtol=1e-4, atol=1e-4), n, f[best[n]], top)

    truth = reward(theta)
    check(name + ": reward without the user",
          abs(truth - float(said[name, "reward"])) < 1e-4 * truth,
          truth, said[name, "reward"])
    G = np.load(name + ".npy")[0].astype(float)
    G = np.concatenate([G[:5], np.zeros(P), G[5:]])
    largest = 5 + P + np.argmax(np.abs(G[5 + P:]))
    for at in (0, 1, 2, largest) + ((3,) if name == "cosine" else ()):
        step = 1e-5 * np.eye(len(theta))[at]
        slope = (reward(theta + step) - reward(theta - step)) / 2e-5
        check("%s: slope %d without the user" % (name, at),
              abs(G[at] - slope) < 1e-3 * np.abs(G[:3]).max(), G[at], slope)
    # The gradient of the weights: of the largest, and along a random direction.
    own = np.zeros(int(z["weights_indptr"][-1]))
    numbers = np.load(name + "_ids.npy")[0].astype(int)
    own[numbers] = np.load(name + "_rows.npy")[:, 0]
    check(name + ": weights in order", (np.diff(numbers) > 0).all() and numbers.min() >= 0)
    places = (np.repeat(np.arange(P), np.diff(z["weights_indptr"].astype(int))), z["weights_ids"])
    some = np.random.default_rng(7).normal(size=len(own))
    for u in (np.eye(len(own))[np.argmax(np.abs(own))], some):
        delta = np.zeros((P, P))
        delta[places] = u
        slope = (reward(theta, 1e-6 * delta) - reward(theta, -1e-6 * delta)) / 2e-6
        check(name + ": gradient of the weights", abs(own @ u - slope) < 1e-3 * np.abs(own).max()
              + 1e-3 * abs(slope), own @ u, slope)
finish()
