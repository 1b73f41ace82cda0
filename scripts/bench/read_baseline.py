"""Pairs "user,item" from a CSV into a sparse matrix with pandas and SciPy.

    read_baseline.py FILE.csv

Prints "seconds,seconds with ids made dense,rows,columns,sum": the first takes the numbers of the
file as they stand as places in the matrix, the second numbers the users and items that occur, as
names of any kind need.
"""
import sys
import time

import numpy as np
import pandas
import scipy.sparse


def matrix(users, items):
    ones = np.ones(len(users), dtype=np.float32)
    A = scipy.sparse.coo_matrix((ones, (users, items))).tocsr()
    A.sum_duplicates()
    return A


start = time.perf_counter()
frame = pandas.read_csv(sys.argv[1])
read = time.perf_counter()
A = matrix(frame["user"].to_numpy(), frame["item"].to_numpy())
as_is = time.perf_counter()
del A
again = time.perf_counter()
A = matrix(pandas.factorize(frame["user"])[0], pandas.factorize(frame["item"])[0])
dense = time.perf_counter()
print(f"{as_is - start:.6f},{read - start + dense - again:.6f},{A.shape[0]},{A.shape[1]},"
      f"{int(A.data.sum(dtype=np.float64))}", flush=True)
