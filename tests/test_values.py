"""Rewards that differ by item against NumPy: gradients of every objective, evaluations, baselines
by value. Skipped without numpy."""
import os
import subprocess

from checks import check, finish, FOPO
from oracle import np, read_lists, run

STUDY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scripts/studies/value.lua")

DUMP = """
local fopo = require "fopo"
local paired = require "fopo.base.paired"
local s = fopo.data.synthetic{users = 300, items = 500, clusters = 12, seed = 7}
          :sessions{min_items = 8, seed = 2}
local items = fopo.embed.svd(s.train, {dim = 6})
write_lists(s.train, "lists.txt")
local value = fopo.array.zeros(1, 500)
for a = 1, 500 do value:set(1, a, a % 4 == 0 and 0 or a * a % 13 / 8) end
items:save("items.npy")
value:save("value.npy")
local rw = fopo.reward.hits(s.train, {value = value})
for _, seen in ipairs{"mask", "keep"} do
  local pi = fopo.policy.linear{items = items, seen = seen, temperature = 0.5, theta_scale = 1.3}
  pi:theta():save("theta.npy")
  for _, objective in ipairs{"reward", "likelihood", "log_reward"} do
    local function save(name, g)
      local G, stats = g:compute(pi, s.train, nil, rw)
      G:save(("%s_%s_%s.npy"):format(seen, objective, name))
      print(seen, objective, name, stats.reward)
    end
    save("exact", fopo.gradient.exact{objective = objective})
    save("shared", fopo.gradient.head_tail{objective = objective, head = 300, tail = 200})
    save("found", fopo.gradient.head_tail{objective = objective, index = fopo.index.exact(items),
                                          k = 100, tail = 400})
  end
  local e = fopo.evaluate(pi, s.train, {reward = rw, k = {1, 5, 20}, exclude = "none"})
  local plain = fopo.evaluate(pi, s.train, {k = {1, 5, 20}, exclude = "none"})
  assert(plain.reward == plain.hit[1] and not plain.value and e.hit[5] == plain.hit[5])
  print("E", seen, e.reward, e.low, e.high, e.expected, e.expected_se, e.likelihood,
        e.value[5], e.value[20], e.ndcg[5], e.ndcg[20], plain.ndcg[20])
end
for _, name in ipairs{"popular", "item_knn", "ease"} do
  local plain = fopo.baseline[name]{data = s.train}
  local ids, scores = plain:best(s.train, {k = 500, exclude = "seen"})
  ids:save(name .. "_ids.npy")
  scores:save(name .. "_scores.npy")
  local by_value = fopo.baseline[name]{data = s.train, value = value}
  ids, scores = by_value:best(s.train, {k = 10, exclude = "seen"})
  ids:save(name .. "_by_value_ids.npy")
  scores:save(name .. "_by_value_scores.npy")
  local e = fopo.evaluate(by_value, s.train, {reward = rw, exclude = "seen"})
  print("B", name, e.reward, e.low, e.high, e.expected or 0, e.expected_se or 0)
end
local popular = fopo.baseline.popular{data = s.train, value = rw}
local best = fopo.baseline.item_knn{data = s.train, value = rw}
local o = {reward = rw, exclude = "seen"}
print("D", paired.difference(fopo.evaluate(best, s.train, o), fopo.evaluate(popular, s.train, o)))
"""

lines = run(DUMP).strip().split("\n")
X, Y = read_lists("lists.txt")
beta, theta = np.load("items.npy").astype(float), np.load("theta.npy").astype(float)
worth = np.load("value.npy").astype(float)[0]
N, P = len(X), len(beta)
x = np.array([beta[ids].mean(0) for ids in X])
x /= np.linalg.norm(x, axis=1, keepdims=True)
seen, earns = np.zeros((N, P), bool), np.zeros((N, P))
for n in range(N):
    seen[n, X[n]] = True
    earns[n, Y[n]] = worth[Y[n]]


def softmax(f):
    w = np.exp(f - f.max(1, keepdims=True))
    return w / w.sum(1, keepdims=True)


def oracle(masked, objective):
    """The mean over the contexts of the objective, and its gradient."""
    f = x @ theta @ beta.T / 0.5
    pi = softmax(np.where(seen, -np.inf, f) if masked else f)
    r = np.where(seen & masked, 0, earns)
    R = (pi * r).sum(1, keepdims=True)
    if objective == "reward":
        value, c = R, pi * (r - R)
    elif objective == "log_reward":
        positive = R > 0
        value = np.log(np.maximum(R, 1e-6))
        c = np.where(positive, pi * (r - R) / np.where(positive, R, 1), 0)
    else:
        total = r.sum(1, keepdims=True)
        counts = total > 0
        share = r / np.where(counts, total, 1)
        with np.errstate(divide="ignore"):
            value = (share * np.where(share > 0, np.log(pi), 0)).sum(1, keepdims=True)
        c = np.where(counts, share - pi, 0)
    return value.mean(), x.T @ c @ beta / (N * 0.5)


said = {}
for line in lines:
    if line[0] in "EBD":
        words = line.split()
        said[tuple(words[:2])] = [float(word) for word in words[1 if line[0] == "D" else 2:]]
        continue
    which, objective, name, reward = line.split()
    value, G = oracle(which == "mask", objective)
    off = np.linalg.norm(np.load(f"{which}_{objective}_{name}.npy") - G) / np.linalg.norm(G)
    check(f"the gradient {line}", off < 2e-5, off)
    check(f"the value {line}", abs(float(reward) - value) < 1e-4 * max(1, abs(value)), value)


# ---- evaluations


def near(name, got, want, bound=1e-5):
    check(name, np.allclose(got, want, rtol=bound, atol=bound), got, want)


def interval(earned):
    """The mean and its normal 95 % interval, from 0 on."""
    mean, half = earned.mean(), 1.959963984540054 * earned.std(ddof=1) / np.sqrt(len(earned))
    return mean, max(mean - half, 0), mean + half


hit = np.zeros((N, P))
for n in range(N):
    hit[n, Y[n]] = 1
discount = 1 / np.log2(2 + np.arange(P))


def ndcg(order, gains, k):
    got = (np.take_along_axis(gains, order, 1) * discount)[:, :k].sum(1)
    best = (-np.sort(-gains, 1) * discount)[:, :k].sum(1)
    return np.where(best > 0, got / np.where(best > 0, best, 1), 0).mean()


for which in "mask", "keep":
    f = x @ theta @ beta.T / 0.5
    f = np.where(seen, -np.inf, f) if which == "mask" else f
    pi, order = softmax(f), np.argsort(-f, 1)
    gained = np.take_along_axis(earns, order, 1)
    expected = (pi * earns).sum(1)
    logs = np.where(earns > 0, earns * np.log(np.where(earns > 0, pi, 1)), 0).sum(1)
    total = earns.sum(1)
    wanted = [*interval(gained[:, 0]), expected.mean(), expected.std(ddof=1) / np.sqrt(N),
              (logs[total > 0] / total[total > 0]).mean(),
              gained[:, :5].sum(1).mean(), gained[:, :20].sum(1).mean(),
              ndcg(order, earns, 5), ndcg(order, earns, 20), ndcg(order, hit, 20)]
    near(f"the evaluation, {which}", said["E", which], wanted, 2e-5)

# ---- baselines by value: scores times value, ranked

earned = {}
for name in "popular", "item_knn", "ease":
    ids = np.load(name + "_ids.npy").astype(int)
    listed = np.load(name + "_scores.npy").astype(float)
    scores = np.full((N, P), -np.inf)
    for n in range(N):
        some = np.isfinite(listed[n])
        scores[n, ids[n, some]] = (listed[n, some] * worth[ids[n, some]]).astype(np.float32)
    got = np.load(name + "_by_value_ids.npy").astype(int)
    top = -np.sort(-scores, 1)[:, :10]
    near(f"the scores of {name}", np.load(name + "_by_value_scores.npy"), top)
    near(f"the items of {name}", np.take_along_axis(scores, got, 1), top)
    earned[name] = earns[np.arange(N), got[:, 0]]
    wanted = [*interval(earned[name]), 0, 0]
    if name == "popular":
        p = np.where(seen, 0, hit.sum(0) + seen.sum(0)) * worth
        p = (p / p.sum(1, keepdims=True) * earns).sum(1)
        wanted[3:] = p.mean(), p.std(ddof=1) / np.sqrt(N)
    near(f"the value of {name}", said["B", name], wanted)
difference = earned["item_knn"] - earned["popular"]
half = 1.959963984540054 * difference.std(ddof=1) / np.sqrt(N)
done = subprocess.run([FOPO, STUDY, "quick"], capture_output=True, text=True,
                      stdin=subprocess.DEVNULL)
check("the study ends", done.returncode == 0 and "priced by value" in done.stdout, done.stdout,
      done.stderr)
near("a paired difference", list(said.values())[-1], [difference.mean() - half,
                                                      difference.mean() + half])
finish()
