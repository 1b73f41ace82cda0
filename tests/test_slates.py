"""Gradients of slates against NumPy: the same normal numbers from Philox, the best items by sorting
all scores, every measure, with and without a mask. Skipped without numpy."""
import itertools

from checks import check, finish
from oracle import np, philox, read_lists, run

S, K, SIGMA, T, SEED, STEP, SLATE = 12, 5, 0.15, 0.5, 3, 4, 17

DUMP = """
local fopo = require "fopo"
local s = fopo.data.synthetic{users = 90, items = 400, clusters = 12, seed = 7}
          :sessions{min_items = 8, seed = 2}
local items = fopo.embed.svd(s.train, {dim = 6})
write_lists(s.train, "lists.txt")
items:save("items.npy")
local rw = fopo.reward.hits(s.train)
local function save(name, pi, o)
  o.k, o.samples, o.sigma = %d, %d, %g
  local G, stats = fopo.gradient.slate(o):compute(pi, s.train, nil, rw, {seed = %d, step = %d})
  G:save(name .. ".npy")
  print(name, stats.reward, stats.head_mass, stats.by_log_sigma)
end
for _, seen in ipairs{"mask", "keep"} do
  local pi = fopo.policy.linear{items = items, seen = seen, temperature = %g}
  for _, measure in ipairs{"hit", "sum", "dcg", "ndcg"} do
    save(seen .. "_" .. measure, pi, {measure = measure})
  end
  save(seen .. "_look", pi, {measure = "dcg", discount = 0.6, draws = "iid"})
  save(seen .. "_none", pi, {measure = "sum", baseline = "none", draws = "iid"})
  save(seen .. "_head", pi, {measure = "sum", head = 60})
end
""" % (K, S, SIGMA, SEED, STEP, T)

printed = {line.split()[0]: line.split()[1:] for line in run(DUMP).strip().split("\n")}
X, Y = read_lists("lists.txt")
beta = np.load("items.npy").astype(float)
N, (P, L) = len(X), beta.shape
x = np.array([beta[ids].mean(0) for ids in X])
x /= np.linalg.norm(x, axis=1, keepdims=True)
largest = np.argsort(-np.linalg.norm(beta, axis=1), kind="stable")


def normal(paired):
    """e [N, S, L] by Box and Muller, two pairs from the words of each block of four."""
    blocks = -(-L // 4)
    draw = np.arange(S)[None, :, None]
    index = (draw // 2 * 2 if paired else draw) * blocks + np.arange(blocks)[None, None, :]
    words = philox(SEED, SLATE, STEP, np.arange(N)[:, None, None], index)
    u = (words.astype(float) + 0.5) / 2 ** 32
    radius, angle = np.sqrt(-2 * np.log(u[..., 0::2])), 2 * np.pi * u[..., 1::2]
    z = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)
    z = z.reshape(N, S, 4 * blocks)[:, :, :L]
    return np.where((draw % 2 == 1) & paired, -z, z)


def oracle(masked, name):
    """The gradient by theta = 1, the mean reward, the share of slates that the norms prove, and the
    derivative by log sigma: of pairs, the mean of each is one draw of |e|^2."""
    paired = name not in ("look", "none")
    d = 0.6 ** np.arange(K) if name == "look" else 1 / np.log2(2 + np.arange(K))
    e, V, rewards, proven = normal(paired), np.zeros((N, L)), np.zeros((N, S)), 0
    by_sigma, n_draws = 0, S // 2 if paired else S
    head = np.zeros(P, bool)
    head[largest[:60] if name == "head" else slice(None)] = True
    for n in range(N):
        h = x[n] + SIGMA * e[n]
        f = h @ beta.T
        f[:, ~head] = -np.inf
        if masked:
            f[:, X[n]] = -np.inf
        ids = np.argsort(-f, axis=1, kind="stable")[:, :K]
        r = np.isin(ids, Y[n]).astype(float)
        reward = {"hit": r.max(1), "dcg": r @ d, "look": r @ d, "ndcg": r @ d}.get(name, r.sum(1))
        if name == "ndcg":
            reward /= d[:min(K, len(Y[n]))].sum()
        rewards[n] = reward
        c = reward / S if name == "none" else (reward - reward.mean()) / (S if paired else S - 1)
        V[n] = c @ e[n] / SIGMA
        square = (e[n] ** 2).sum(-1).reshape(n_draws, -1)[:, 0]
        earned = reward.reshape(n_draws, -1).mean(1)
        by_sigma += (earned @ (square - L) / n_draws if name == "none" else
                     (earned - earned.mean()) @ square / (n_draws - 1)) / N
        bound = np.linalg.norm(h, axis=1) * np.linalg.norm(beta, axis=1)[~head].max(initial=0)
        proven += (np.take_along_axis(f, ids, 1)[:, -1] > bound).sum()
    return x.T @ V / N, rewards.mean(), proven / (N * S), by_sigma


for masked in (True, False):
    for name in ("hit", "sum", "dcg", "ndcg", "look", "none", "head"):
        what = ("mask_" if masked else "keep_") + name
        G, mean, proven, by_sigma = oracle(masked, name)
        got, said = np.load(what + ".npy"), [float(v) for v in printed[what]]
        check(what + ": gradient", np.allclose(got, G, 1e-4, 1e-4 * np.abs(G).max()),
              np.abs(got - G).max(), np.abs(G).max())
        check(what + ": reward", abs(said[0] - mean) < 1e-5, said, mean)
        check(what + ": by log sigma", abs(said[2] - by_sigma) < 1e-5, said, by_sigma)
        check(what + ": what the norms prove", abs(said[1] - proven) < 1e-6, said, proven)
check("the norms prove some slates of a head, not all",
      0.02 < float(printed["keep_head"][1]) < 0.98, printed["keep_head"])

# Plackett and Luce: the mean over many draws against all slates of a small catalogue.
REPEATS, PLACES = 40, 3
lines = run("""
local fopo = require "fopo"
local items, x = fopo.array.randn(7, 4, 1), fopo.array.randn(2, 4, 2)
items:save("few.npy")
x:save("x.npy")
local pi = fopo.policy.linear{items = items, seen = "keep", temperature = 0.8}
pi:queries(x):save("q.npy")
local rw = fopo.reward.custom(function(ids)
  local values = fopo.array.zeros(ids.rows, ids.cols)
  for b = 1, ids.rows do
    for s = 1, ids.cols do values:set(b, s, ids:get(b, s) ^ 2 %% 5 / 4) end
  end
  return values
end)
for _, o in ipairs{{"leave-one-out"}, {"none"}, {"leave-one-out", 3}} do
  local g = fopo.gradient.plackett_luce{k = %d, samples = 400, measure = "dcg", baseline = o[1],
                                        head = o[2], tail = 4}
  for step = 1, %d do
    local G, stats = g:compute(pi, x, nil, rw, {step = step})
    local line = {stats.reward}
    for _, row in ipairs(G:totable()) do table.move(row, 1, #row, #line + 1, line) end
    print(table.concat(line, " "))
  end
end
""" % (PLACES, REPEATS)).strip().split("\n")
few, Q, x = (np.load(name + ".npy").astype(float) for name in ("few", "q", "x"))
got = np.array([line.split() for line in lines], float).reshape(3, REPEATS, -1)
earned, V, value = (np.arange(1, 8) ** 2 % 5) / 4, np.zeros((2, 4)), 0
for n in range(2):
    w = np.exp(few @ Q[n])
    for slate in itertools.permutations(range(7), PLACES):
        p, score, left = 1, 0, np.ones(7, bool)
        for a in slate:
            law = w * left / (w * left).sum()
            p, score, left[a] = p * law[a], score + few[a] - law @ few, False
        R = (earned[list(slate)] / np.log2(2 + np.arange(PLACES))).sum()
        V[n], value = V[n] + p * R * score, value + p * R / 2
want = np.concatenate([[value], (x.T @ V / (2 * 0.8)).ravel()])
for name, rows in zip(("leave-one-out", "none", "a head and the whole tail"), got):
    z = (rows.mean(0) - want) / (rows.std(0, ddof=1) / REPEATS ** 0.5)
    check("Plackett and Luce, %s: off all slates by 4 standard errors at most" % name,
          np.abs(z).max() < 4, z)
spread = got[:, :, 1:].std(1).mean(1)
check("the baseline lowers the variance", spread[0] < 0.8 * spread[1], spread)

# PL-Rank: the same sum over all slates of hits, masked and not, by every measure that is a sum.
CASES = [(seen, measure, valued) for seen in ("mask", "keep")
         for measure, valued in (("sum", True), ("dcg", True), ("ndcg", False))]
KINDS = ("place", "place without baseline", "place by a head and the whole tail", "slate")
lines = run("""
local fopo = require "fopo"
local s = fopo.data.synthetic{users = 40, items = 9, clusters = 2, mean_items = 5, seed = 3}
          :sessions{min_items = 4, seed = 2}
local items = fopo.embed.svd(s.train, {dim = 3})
local value = fopo.array.randn(1, 9, 4) ^ 2
write_lists(s.train, "few.txt")
items:save("few.npy")
value:save("value.npy")
local rows = {1, 2, 5, 7}
for _, seen in ipairs{"mask", "keep"} do
  local pi = fopo.policy.linear{items = items, seen = seen, temperature = 0.5}
  for _, m in ipairs{{"sum", value}, {"dcg", value}, {"ndcg"}} do
    local rw = fopo.reward.hits(s.train, m[2] and {value = m[2]})
    for _, o in ipairs{{"place"}, {"place", "none"}, {"place", nil, 4}, {"slate"}} do
      local g = fopo.gradient.plackett_luce{k = 3, samples = 200, measure = m[1], discount = 0.7,
                                            credit = o[1], baseline = o[2], head = o[3], tail = 5}
      for step = 1, %d do
        local G, stats = g:compute(pi, s.train, rows, rw, {step = step})
        local line = {stats.reward}
        for _, row in ipairs(G:totable()) do table.move(row, 1, #row, #line + 1, line) end
        print(table.concat(line, " "))
      end
    end
  end
end
""" % REPEATS).strip().split("\n")
few, value = (np.load(n + ".npy").astype(float) for n in ("few", "value"))
X, Y = read_lists("few.txt")
x = np.array([few[X[n]].mean(0) for n in (0, 1, 4, 6)])
x /= np.linalg.norm(x, axis=1, keepdims=True)
got = np.array([line.split() for line in lines], float).reshape(len(CASES), 4, REPEATS, -1)
ratios = []
for (seen, measure, valued), drawn in zip(CASES, got):
    V, mean, d = np.zeros((4, 3)), 0, np.ones(3) if measure == "sum" else 0.7 ** np.arange(3)
    for i, n in enumerate((0, 1, 4, 6)):
        allowed = [a for a in range(9) if seen == "keep" or a not in X[n]]
        w, r = np.zeros(9), np.zeros(9)
        w[allowed] = np.exp(few[allowed] @ x[i] / 0.5)
        r[Y[n]] = value[0, Y[n]] if valued else 1
        shown = np.intersect1d(Y[n], allowed).size
        ideal = d[:min(3, shown)].sum() if measure == "ndcg" and shown else 1
        for a in itertools.permutations(allowed, min(3, len(allowed))):
            p, score, left = 1, 0, np.ones(9, bool)
            for item in a:
                law = w * left / (w * left).sum()
                p, score, left[item] = p * law[item], score + few[item] - law @ few, False
            R = (r[list(a)] * d[:len(a)]).sum() / ideal
            V[i], mean = V[i] + p * R * score, mean + p * R / 4
    want = np.concatenate([[mean], (x.T @ V / (4 * 0.5)).ravel()])
    name = "PL-Rank, %s, %s: " % (seen, measure)
    for kind, rows in zip(KINDS[:3], drawn):
        z = (rows.mean(0) - want) / (rows.std(0, ddof=1) / REPEATS ** 0.5)
        check(name + kind + ", off all slates by 4 standard errors at most", np.abs(z).max() < 4, z)
    spread = drawn[:, :, 1:].std(1).mean(1)
    check(name + "the baseline lowers the variance", spread[0] < 0.9 * spread[1], spread)
    ratios.append(spread[0] / spread[3])
check("by place there is less variance than by slate", np.mean(ratios) < 0.95, ratios)
finish()
