"""Gradients of every objective against NumPy, with rewards that differ by item, with and without a
mask; the temperature that is chosen. Skipped without numpy."""
import os
import subprocess

from checks import check, finish, FOPO
from oracle import np, read_lists, run

STUDY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scripts/studies/value.lua")

DUMP = """
local fopo = require "fopo"
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
end
local chosen = fopo.policy.linear{items = items, seen = "mask", effective = 0.05}
print(chosen.temperature)
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


temperature = float(lines.pop())
for line in lines:
    which, objective, name, reward = line.split()
    value, G = oracle(which == "mask", objective)
    off = np.linalg.norm(np.load(f"{which}_{objective}_{name}.npy") - G) / np.linalg.norm(G)
    check(f"the gradient {line}", off < 2e-5, off)
    check(f"the value {line}", abs(float(reward) - value) < 1e-4 * max(1, abs(value)), value)

# The temperature is that at which theta = identity has 5 % of the items in effect, in the median of
# 16 contexts, evenly spread.
some = np.arange(16) * N // 16
for factor, below in ((0.99, True), (1.01, False)):
    q = softmax(np.where(seen, -np.inf, x @ beta.T / (temperature * factor)))[some]
    check("the temperature", (np.median(1 / (q ** 2).sum(1)) < 0.05 * P) == below, temperature)

done = subprocess.run([FOPO, STUDY, "quick"], capture_output=True, text=True,
                      stdin=subprocess.DEVNULL)
check("the study ends", done.returncode == 0 and "priced by value" in done.stdout, done.stdout,
      done.stderr)
finish()
