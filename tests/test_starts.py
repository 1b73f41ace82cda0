"""Item embeddings and weighted contexts against NumPy and SciPy. Skipped without them."""
import sys

from checks import check, failures, finish
from oracle import np, ones, read_lists, run

try:
    import scipy.sparse
    from scipy.sparse.linalg import svds
except ImportError:
    print("skip: scipy is not here")
    sys.exit(77)

L = 8
KINDS = ("degree", "sqrt_degree", "idf")

MAKE = """
fopo = require "fopo"
local d = fopo.data.synthetic{users = 260, items = 150, clusters = 6, mean_items = 12, seed = 5}
local s = d:sessions{min_items = 6, seed = 2}
for _, part in ipairs{"train", "test"} do
  write_lists(s[part], part .. ".txt")
end
local items, singular
for name, o in pairs{sqrt = {scale = "sqrt"}, sigma = {scale = "sigma"}, quarter = {power = 0.25},
                     degree = {normalise = "degree", power = 0},
                     degree_sqrt = {normalise = "degree"}, degree_third = {normalise = "degree",
                     power = 0.33}, degree_none = {normalise = "degree", scale = "none"}} do
  o.dim, o.power_iterations = %d, 20
  local made, s = fopo.embed.svd(s.train, o)
  made:save(name .. ".items.npy")
  fopo.array.from{s}:save(name .. ".singular.npy")
end
local items = fopo.embed.svd(s.train, {dim = %d})
items:save("items.npy")
for _, kind in ipairs{"degree", "sqrt_degree", "idf"} do
  s.train:item_weights(kind):save(kind .. ".weights.npy")
  s.test:contexts(items, {scale = kind}):save(kind .. ".contexts.npy")
  local pi = fopo.policy.linear{items = items, contexts = kind, seen = "mask"}
  pi:save(kind .. ".npz")
  local again = fopo.policy.load(kind .. ".npz")
  for name, one in pairs{made = pi, loaded = again} do
    local ids, scores = one:best(s.test, {k = 5})
    ids:save(("%%s.%%s.ids.npy"):format(kind, name))
    scores:save(("%%s.%%s.scores.npy"):format(kind, name))
  end
end
for name, alpha in pairs{als = 3, als_plain = 0} do
  local als = fopo.baseline.als{data = s.train, dim = 6, l2 = 2, alpha = alpha, iterations = 4}
  als:items():save(name .. ".items.npy")
  als:theta():save(name .. ".theta.npy")
  als:best(s.test, {k = 5, exclude = "seen"}):save(name .. ".best.npy")
  local pi = fopo.policy.linear{items = als:items(), theta = als:theta(), seen = "mask"}
  pi:best(s.test, {k = 5}):save(name .. ".policy.npy")
end
local wide = fopo.policy.linear{items = fopo.array.randn(d.n_items, 1000, 3), data = s.train,
                                contexts = "idf", seen = "mask"}
local before = fopo.evaluate(wide, s.train).expected
fopo.trainer{policy = wide, data = s.train, valid = false}:run{steps = 30, view = false}
print(before < fopo.evaluate(wide, s.train).expected)
wide:save("wide.npz")
select(2, wide:best(s.test, {k = 5})):save("wide.scores.npy")
""" % (L, L)

# The power, whether the mean squared norm is 1, and whether by degree.
EMBEDDINGS = {"sqrt": (0.5, True, False), "sigma": (1, False, False),
              "quarter": (0.25, True, False), "degree": (0, True, True),
              "degree_sqrt": (0.5, True, True), "degree_third": (0.33, True, True),
              "degree_none": (0, False, True)}


def close(a, b, tolerance):
    return a.shape == b.shape and np.abs(a - b).max() <= tolerance * max(1e-30, np.abs(b).max())


def check_items(name, R, power, is_sized, by_degree):
    """Against scipy.sparse.linalg.svds of the matrix of interactions R, or that by degree."""
    users, n = R.sum(1), R.sum(0)
    root = np.sqrt(n)
    M = R / np.sqrt(users)[:, None] / np.maximum(root, 1) if by_degree else R
    _, s, Vt = svds(scipy.sparse.csr_matrix(M), k=L + 1)
    order = np.argsort(-s)[:L]
    s, V = s[order], Vt[order].T
    V *= np.sign(V[np.abs(V).argmax(0), np.arange(L)])
    truth = V * s ** power * (root[:, None] if by_degree else 1)
    if is_sized:
        truth /= np.sqrt((truth ** 2).sum() / (n > 0).sum())
    found = np.load(name + ".items.npy")
    check(name + ": singular values", close(np.load(name + ".singular.npy")[0], s, 1e-4))
    check(name + ": items", close(found, truth, 2e-3), np.abs(found - truth).max())


def check_contexts(kind, items, train, X):
    users = np.maximum(train.sum(0), 1)
    N = len(train)
    truth = {"degree": 1 / users, "sqrt_degree": users ** -0.5, "idf": np.log(N / users)}[kind]
    weights = np.load(kind + ".weights.npy")
    check(kind + ": weights", close(weights[0], truth, 1e-6), weights[0][:5], truth[:5])
    x = X @ (truth[:, None] * items)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    check(kind + ": contexts", close(np.load(kind + ".contexts.npy"), x, 1e-5))
    z = np.load(kind + ".npz")
    check(kind + ": weights in the file", z["contexts"].item().decode() == kind and
          np.array_equal(z["item_weights"], weights[0]))
    scores = x @ z["theta"] @ items.T / z["temperature"]
    scores[X > 0] = -np.inf
    best = -np.sort(-scores, axis=1)[:, :5]
    for name in ("made", "loaded"):
        ids, found = (np.load("%s.%s.%s.npy" % (kind, name, what)) for what in ("ids", "scores"))
        check("%s: the scores of the policy that is %s" % (kind, name), close(found, best, 1e-4))
        own = np.take_along_axis(scores, ids.astype(int), 1)
        check("%s: the items of the policy that is %s" % (kind, name), close(own, best, 1e-4))


def check_als():
    for name in ("als", "als_plain"):
        Y = np.load(name + ".items.npy").astype(np.float64)
        G = Y.T @ Y + 2 * np.eye(6)
        truth = np.linalg.inv(G) * np.linalg.norm(G) / np.sqrt(6)
        check(name + ": theta", close(np.load(name + ".theta.npy"), truth, 1e-5))
        same = np.load(name + ".best.npy") == np.load(name + ".policy.npy")
        least = 1 if name == "als_plain" else 0.3
        check(name + ": the ranking of the policy", same.mean() >= least, same.mean())


def check_wide(X):
    """A policy of L = 1000 that has learnt, by its file."""
    z = np.load("wide.npz")
    check("a theta of 1000 x 1000 has learnt", made == "true\n" and
          z["theta"].shape == (1000, 1000) and not np.array_equal(z["theta"], np.eye(1000)))
    x = X @ (z["item_weights"][:, None] * z["items"].astype(np.float64))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    scores = x @ z["theta"] @ z["items"].T / z["temperature"]
    scores[X > 0] = -np.inf
    best = -np.sort(-scores, axis=1)[:, :5]
    check("L = 1000: scores", close(np.load("wide.scores.npy"), best, 1e-4))


made = run(MAKE)
if not failures:
    items = np.load("items.npy").astype(np.float64)
    X, Y = (ones(lists, len(items)) for lists in read_lists("train.txt"))
    test = ones(read_lists("test.txt")[0], len(items))
    for name, kind in EMBEDDINGS.items():
        check_items(name, X + Y, *kind)
    check_als()
    check_wide(test)
    for kind in KINDS:
        check_contexts(kind, items, X + Y, test)
finish()
