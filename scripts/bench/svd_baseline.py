"""Randomised SVD of sparse rows in NumPy and SciPy: the algorithm of Halko, Martinsson and Tropp
(2011) as embed.svd has it, product for product: a sketch on the smaller side, an orthonormal basis
after every product, and the SVD of the last triangle.

    svd_baseline.py MATRIX.npz DIM POWER_ITERATIONS LEAST OUT.npy

MATRIX is scipy's CSR; rows with fewer than LEAST entries are left out and values count 1. Writes
the singular values and prints "seconds,rows,columns,entries".
"""
import sys
import time

import numpy as np
import scipy.linalg
import scipy.sparse

OVERSAMPLE = 10


def qr(Y):
    return scipy.linalg.qr(Y, mode="economic", overwrite_a=True, check_finite=False)


def svd(A, At, dim, power_iterations):
    rng = np.random.default_rng(1)
    width, wide = dim + OVERSAMPLE, A.shape[0] < A.shape[1]
    sketch = rng.standard_normal((min(A.shape), width), dtype=np.float32)
    Y = qr(sketch if wide else A @ sketch)[0]
    for _ in range(power_iterations):
        Y = qr(At @ Y)[0]
        Y = qr(A @ Y)[0]
    W, R = qr(At @ Y)
    U, s, _ = scipy.linalg.svd(R)
    return s[:dim], W @ (U[:, :dim] * np.sqrt(s[:dim]))


def main():
    path, dim, power_iterations, least = sys.argv[1], *(int(a) for a in sys.argv[2:5])
    A = scipy.sparse.load_npz(path).tocsr()
    A = A[np.diff(A.indptr) >= least].astype(np.float32)
    A.data[:] = 1
    start = time.perf_counter()
    At = A.T.tocsr()
    s, _ = svd(A, At, dim, power_iterations)
    print(f"{time.perf_counter() - start:.6f},{A.shape[0]},{A.shape[1]},{A.nnz}", flush=True)
    np.save(sys.argv[5], s.reshape(1, -1).astype(np.float32))


main()
