"""X and Y drawn anew each epoch, against NumPy: Philox, the choice of X, the contexts and the
gradient written again here. A batch is all contexts, so an epoch is one step of the exact gradient.
Skipped without numpy."""
import os
import subprocess
import sys

try:
    import numpy as np
except ImportError:
    print("skip: numpy is not here")
    sys.exit(77)

from checks import check, finish, folder, FOPO

os.chdir(folder)
EPOCHS, SEED, RATE, STREAM, AGAIN = 4, 11, 0.5, 14, 2

DUMP = """
local fopo = require "fopo"
local s = fopo.data.synthetic{users = 150, items = 120, clusters = 6, seed = 7}
          :sessions{min_items = 5, seed = 2, observed = %s}
local items = fopo.embed.svd(s.train, {dim = 5})
local f = io.open("lists.txt", "w")
for n = 1, s.train.n do
  for _, side in ipairs{"x", "y"} do
    f:write(table.concat(s.train[side](s.train, n):totable()[1], " "), "\\n")
  end
end
f:close()
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


def philox(seed, stream, step, row, index):
    """Philox4x32-10 of Salmon et al., SC 2011."""
    c, k = [index, row, step, stream], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def below(n, word, epoch, row, k):
    """Uniform below n, without the few words that would favour a number (Lemire)."""
    product, retry = word * n, 0
    while product & 0xFFFFFFFF < 2 ** 32 % n:
        product = philox(SEED, AGAIN + (retry << 8), epoch, row, k)[0] * n
        retry += 1
    return product >> 32


def drawn(x, y, epoch, row):
    items, m, X, Y = sorted(x + y), len(x), [], []
    for k, item in enumerate(items):
        word = philox(SEED, STREAM, epoch, row, k // 4)[k % 4]
        chosen = below(len(items) - k, word, epoch, row, k) < m - len(X)
        (X if chosen else Y).append(item)
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


check("a published vector", philox(0, 0, 0, 0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C,
                                                      0x9B00DBD8])
for observed, seen in ((0.5, "mask"), (0.3, "keep")):
    done = subprocess.run([FOPO, "-e", DUMP % (observed, seen, RATE, SEED, EPOCHS)],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    check("fopo ends", done.returncode == 0, done.stdout, done.stderr)
    lists = [[int(word) - 1 for word in line.split()] for line in open("lists.txt")]
    X, Y = lists[0::2], lists[1::2]
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
