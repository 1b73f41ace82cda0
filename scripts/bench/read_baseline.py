"""Pairs "user,item" from a CSV into a sparse matrix with pandas or polars and SciPy, or from a
Parquet file with pyarrow and SciPy.

    read_baseline.py FILE.csv pandas|polars
    read_baseline.py FILE.csv FILE.parquet    only writes the one as the other
    read_baseline.py FILE.parquet

Prints "seconds,seconds with ids made dense,rows,columns,sum,GB of the first at its peak": the first
takes the numbers of the file as they stand as places in the matrix, the second numbers the users
and items that occur, as names of any kind need.
"""
import resource
import sys
import time

import numpy as np
import scipy.sparse


def matrix(users, items):
    ones = np.ones(len(users), dtype=np.float32)
    A = scipy.sparse.coo_matrix((ones, (users, items))).tocsr()
    A.sum_duplicates()
    return A


def columnar(path):
    """The same of a Parquet file, whose ids are numbered in any case; first the seconds."""
    import pyarrow.parquet as parquet
    start = time.perf_counter()
    table = parquet.read_table(path, columns=["user", "item"])
    ids = [table.column(name).combine_chunks().dictionary_encode().indices.to_numpy()
           for name in ("user", "item")]
    A = matrix(*ids)
    seconds = time.perf_counter() - start
    return [seconds, seconds, *A.shape, int(A.data.sum(dtype=np.float64))]


if sys.argv[1].endswith(".parquet"):
    print(",".join(map(str, columnar(sys.argv[1]))))
    sys.exit(0)
if sys.argv[2].endswith(".parquet"):
    from pyarrow import csv, parquet
    parquet.write_table(csv.read_csv(sys.argv[1]), sys.argv[2])
    print("written")
    sys.exit(0)

if sys.argv[2] == "polars":
    import polars

    def dense_ids(column):
        return column.rank("dense").to_numpy() - 1
    read_csv = polars.read_csv
else:
    import pandas

    def dense_ids(column):
        return pandas.factorize(column)[0]
    read_csv = pandas.read_csv


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


before, start = peak(), time.perf_counter()
frame = read_csv(sys.argv[1])
read = time.perf_counter()
A = matrix(frame["user"].to_numpy(), frame["item"].to_numpy())
as_is, gigabytes = time.perf_counter(), peak() - before
del A
again = time.perf_counter()
A = matrix(dense_ids(frame["user"]), dense_ids(frame["item"]))
dense = time.perf_counter()
print(f"{as_is - start:.6f},{read - start + dense - again:.6f},{A.shape[0]},{A.shape[1]},"
      f"{int(A.data.sum(dtype=np.float64))},{gigabytes:.3f}", flush=True)
