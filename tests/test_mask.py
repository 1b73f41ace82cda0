"""A policy that masks X against NumPy: dense softmaxes without the items of X. Skipped without
numpy."""
from checks import check, finish
from oracle import np, read_lists, run

DUMP = """
local fopo = require "fopo"
local s = fopo.data.synthetic{users = 300, items = 500, clusters = 12, seed = 7}
          :sessions{min_items = 8, seed = 2}
local items = fopo.embed.svd(s.train, {dim = 6})
write_lists(s.train, "lists.txt")
local pi = fopo.policy.linear{items = items, seen = "mask", temperature = 0.5, theta_scale = 1.3}
items:save("items.npy")
pi:theta():save("theta.npy")
local hits = fopo.reward.hits(s.train)
fopo.gradient.exact{}:compute(pi, s.train, nil, hits):save("exact.npy")
fopo.gradient.head_tail{head = 300, tail = 200}:compute(pi, s.train, nil, hits):save("all.npy")
local chosen = fopo.policy.linear{items = items, seen = "mask", effective = 0.05}
local e = fopo.evaluate(pi, s.train)
print(e.expected, e.reward, e.effective, e.likelihood, chosen.temperature)
local r = pi:recommend(s.train, 4, {exclude = "none"})
local best = {}
for n = 1, #r do
  for i = 1, 4 do best[#best + 1] = ("%d:%.9g"):format(r[n][i].item, r[n][i].probability) end
end
print(table.concat(best, " "))
"""

first, second = run(DUMP).strip().split("\n")
expected, reward, effective, likelihood, temperature = map(float, first.split())

X, Y = read_lists("lists.txt")
beta, theta = np.load("items.npy").astype(float), np.load("theta.npy").astype(float)
N, P = len(X), len(beta)
x = np.array([beta[ids].mean(0) for ids in X])
x /= np.linalg.norm(x, axis=1, keepdims=True)
seen, hit = np.zeros((N, P), bool), np.zeros((N, P))
for n in range(N):
    seen[n, X[n]] = True
    hit[n, Y[n]] = 1


def softmax(f):
    f = np.where(seen, -np.inf, f)
    w = np.exp(f - f.max(1, keepdims=True))
    return w / w.sum(1, keepdims=True)


pi = softmax(x @ theta @ beta.T / 0.5)
value = (pi * hit).sum(1, keepdims=True)
G = x.T @ (pi * (hit - value)) @ beta / (N * 0.5)


def off(name):
    return np.linalg.norm(np.load(name) - G) / np.linalg.norm(G)


check("the exact gradient", off("exact.npy") < 1e-5, off("exact.npy"))
check("a head and a tail in full", off("all.npy") < 1e-5, off("all.npy"))
check("the expected reward", abs(expected - value.mean()) < 1e-5, expected, value.mean())
check("the reward", abs(reward - np.mean(hit[np.arange(N), pi.argmax(1)])) < 1e-9, reward)
check("the effective number",
      abs(effective / np.median(1 / (pi ** 2).sum(1)) - 1) < 1e-3, effective)
logs = np.mean([np.log(pi[n, Y[n]]).mean() for n in range(N)])
check("the likelihood", abs(likelihood - logs) < 1e-4, likelihood, logs)

pairs = [word.split(":") for word in second.split()]
ids = np.array([int(a) - 1 for a, _ in pairs]).reshape(N, 4)
p = np.array([float(b) for _, b in pairs]).reshape(N, 4)
check("recommendations", np.allclose(np.take_along_axis(pi, ids, 1), p, 1e-3) and
      np.allclose(-np.sort(-pi, 1)[:, :4], p, 1e-3))

# The temperature is that at which theta = identity has 5 % of the items in effect, in the median of
# 16 contexts, evenly spread.
some = np.arange(16) * N // 16
for factor, below in ((0.99, True), (1.01, False)):
    q = softmax(x @ beta.T / (temperature * factor))[some]
    check("the temperature", (np.median(1 / (q ** 2).sum(1)) < 0.05 * P) == below, temperature)
finish()
