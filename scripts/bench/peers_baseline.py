"""The pipeline around training by other programs, one thread; each call is a process of its own.

    peers_baseline.py CASE FOLDER [ARGUMENT ...]

FOLDER has items.npy [P, L], theta.npy, and of each part `train` and `test` the items of X and of Y:
PART_x_ids.npy, PART_x_counts.npy and so on, ids counted from 0. Prints "CPU seconds,GB that the
peak was above what had been read before,further numbers", or "absent,WHICH PACKAGE".

    als DIM ITERATIONS L2 ALPHA [MINE.npy]   implicit; recall@20 of its factors and of ours
    item_knn K                               implicit, cosine
    svd DIM                                  scikit-learn, two power iterations
    recommend K                              implicit: K unseen items of every training user
    evaluate K                               torch: recall@K, seen items left out
    save, load                               NumPy: items and theta
"""
import resource
import sys
import time

import numpy as np
import scipy.sparse

JUDGED = 500  # users, by whom factors are judged


def part(folder, name, which, P):
    ids, counts = (np.load(f"{folder}/{name}_{which}_{what}.npy").ravel().astype(np.int64)
                   for what in ("ids", "counts"))
    ones = np.ones(len(ids), dtype=np.float32)
    return scipy.sparse.csr_matrix((ones, ids, np.append(0, np.cumsum(counts))),
                                   shape=(len(counts), P))


def measured(f):
    """CPU seconds and GB of f(), and what it returns."""
    with open("/proc/self/statm") as statm:
        before = int(statm.read().split()[1]) * resource.getpagesize()
    start = time.process_time()
    out = f()
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return [seconds, max(peak - before, 0) / 1e9], out


def recall(lists, Y):
    return np.mean([len(np.intersect1d(ids, Y[u].indices)) / Y[u].nnz
                    for u, ids in enumerate(lists) if Y[u].nnz > 0])


def judge(F, X, Y, l2, alpha):
    """recall@20 of item factors: the users are solved for exactly, from X."""
    F = F.astype(np.float64)
    G, lists = F.T @ F + l2 * np.eye(F.shape[1]), []
    for u in range(min(JUDGED, X.shape[0])):
        seen = X[u].indices
        f = F @ np.linalg.solve(G + alpha * F[seen].T @ F[seen], (1 + alpha) * F[seen].sum(0))
        f[seen] = -np.inf
        lists.append(np.argpartition(-f, 20)[:20])
    return recall(lists, Y)


def als(folder, data, dim, iterations, l2, alpha, *mine):
    from implicit.cpu.als import AlternatingLeastSquares
    model = AlternatingLeastSquares(
        factors=int(dim), regularization=float(l2), alpha=1 + float(alpha),
        iterations=int(iterations), num_threads=1, random_state=1)
    row, _ = measured(lambda: model.fit(data.copy(), show_progress=False))
    for F in ([model.item_factors, np.load(mine[0])] if mine else []):
        row.append(judge(F, part(folder, "test", "x", data.shape[1]),
                         part(folder, "test", "y", data.shape[1]), float(l2), float(alpha)))
    return row


def item_knn(folder, data, K):
    from implicit.nearest_neighbours import CosineRecommender
    model = CosineRecommender(K=int(K) + 1, num_threads=1)  # it counts the item itself
    return measured(lambda: model.fit(data.tocsr(), show_progress=False))[0]


def svd(folder, data, dim):
    from sklearn.utils.extmath import randomized_svd
    return measured(lambda: randomized_svd(data, int(dim), n_iter=2, random_state=1,
                                           power_iteration_normalizer="QR"))[0]


def recommend(folder, data, K):
    from implicit.cpu.als import AlternatingLeastSquares
    items = np.load(f"{folder}/items.npy")
    model = AlternatingLeastSquares(factors=items.shape[1], num_threads=1)
    model.item_factors = items
    queries = data / np.maximum(data.sum(1), 1) @ items @ np.load(f"{folder}/theta.npy")
    model.user_factors = np.asarray(queries, dtype=np.float32)

    def all_users():
        ids, scores = model.recommend(np.arange(data.shape[0]), data, N=int(K))
        with open(f"{folder}/lists.csv", "w") as out:
            out.write("user,rank,item,score\n")
            for u, (row, values) in enumerate(zip(ids.tolist(), scores.tolist())):
                out.writelines(f"{u},{rank + 1},{a},{f:.6g}\n"
                               for rank, (a, f) in enumerate(zip(row, values)))
    return measured(all_users)[0]


def evaluate(folder, data, K):
    import torch
    torch.set_num_threads(1)
    P = data.shape[1]
    items, theta = (torch.from_numpy(np.load(f"{folder}/{name}.npy"))
                    for name in ("items", "theta"))
    X, Y = part(folder, "test", "x", P), part(folder, "test", "y", P)

    def lists():
        found = []
        for first in range(0, X.shape[0], 256):
            seen = X[first:first + 256]
            x = torch.from_numpy(np.asarray(seen / np.maximum(seen.sum(1), 1) @ items.numpy(),
                                            dtype=np.float32))
            f = x @ theta @ items.T
            rows = np.repeat(np.arange(seen.shape[0]), np.diff(seen.indptr))
            f[torch.from_numpy(rows), torch.from_numpy(seen.indices.astype(np.int64))] = -torch.inf
            found += torch.topk(f, int(K), dim=1).indices.tolist()
        return recall(found, Y)
    row, value = measured(lists)
    return row + [value]


def save(folder, data):
    arrays = {name: np.load(f"{folder}/{name}.npy") for name in ("items", "theta")}
    return measured(lambda: np.savez(f"{folder}/peer.npz", **arrays))[0]


def load(folder, data):
    def read():
        with np.load(f"{folder}/peer.npz") as z:
            return z["items"], z["theta"]
    return measured(read)[0]


def main():
    case, folder, *words = sys.argv[1:]
    P = np.load(f"{folder}/items.npy", mmap_mode="r").shape[0]
    data = (part(folder, "train", "x", P) + part(folder, "train", "y", P)).astype(np.float32)
    data.data[:] = 1
    try:
        print(",".join(f"{v:.9g}" for v in globals()[case](folder, data, *words)))
    except ImportError as error:
        print(f"absent,{error.name or 'torch'}")


main()
