"""X and Y drawn anew each epoch, against NumPy: Philox, the choice of X, the contexts and the
gradient written again here. A batch is all contexts, so an epoch is one step of the exact gradient.
Skipped without numpy."""
from checks import check, finish
from oracle import below, np, philox, read_lists, run

EPOCHS, SEED, RATE, STREAM = 4, 11, 0.5, 14

DUMP = """
local fopo = require "fopo"
local s = fopo.data.synthetic{users = 150, items = 120, clusters = 6, seed = 7}
          :sessions{min_items = 5, seed = 2, observed = %s}
local items = fopo.embed.svd(s.train, {dim = 5})
write_lists(s.train, "lists.txt")
local pi = fopo.policy.linear{items = items, seen = "%s", temperature = 0.5, contexts = "unit"}
items:save("items.npy")
pi:theta():save("theta0.npy")
local t = fopo.trainer{policy = pi, data = s.train, valid = false, gradient = fopo.gradient.exact{},
                       optim = fopo.optim.sgd{lr = %g}, batch = s.train.n, seed = %d}
for epoch = 1, %d do
  t:run{steps = 1, view = false}
  pi:theta():save(("theta%%d.npy"):format(epoch))
end
"""


def drawn(x, y, epoch, row):
    items, m, X, Y = sorted(x + y), len(x), [], []
    k = np.arange(len(items))
    words = philox(SEED, STREAM, epoch, row, k // 4)[k, k % 4]
    for item, number in zip(items, below(len(items) - k, words, SEED, epoch, row, k)):
        (X if number < m - len(X) else Y).append(item)
    return X, Y


def gradient(theta, beta, X, Y, masked):
    N, P = len(X), len(beta)
    x = np.array([beta[ids].mean(0) for ids in X])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    hit, f = np.zeros((N, P)), x @ theta @ beta.T / 0.5
    for n in range(N):
        hit[n, Y[n]] = 1
        if masked:
            f[n, X[n]] = -np.inf
    w = np.exp(f - f.max(1, keepdims=True))
    pi = w / w.sum(1, keepdims=True)
    return x.T @ (pi * (hit - (pi * hit).sum(1, keepdims=True))) @ beta / (N * 0.5)


check("a published vector", list(philox(0, 0, 0, 0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C,
                                                            0x9B00DBD8])
for observed, seen in ((0.5, "mask"), (0.3, "keep")):
    run(DUMP % (observed, seen, RATE, SEED, EPOCHS))
    X, Y = read_lists("lists.txt")
    for x, y in zip(X, Y):
        check("the rule of the split", len(x) == max(1, int(observed * (len(x) + len(y)))))
    beta, theta = np.load("items.npy").astype(float), np.load("theta0.npy").astype(float)
    start = theta
    for epoch in range(EPOCHS):
        both = [drawn(x, y, epoch, n) if epoch else (x, y) for n, (x, y) in enumerate(zip(X, Y))]
        step = RATE * gradient(theta, beta, [b[0] for b in both], [b[1] for b in both],
                               seen == "mask")
        got = np.load(f"theta{epoch + 1}.npy")
        off = np.abs(theta + step - got).max() / np.abs(step).max()
        check(f"theta of epoch {epoch}, seen = {seen}", off < 1e-4, off)
        theta = got.astype(float)
    check("it has moved", np.abs(theta - start).max() > 1e-3)
finish()
