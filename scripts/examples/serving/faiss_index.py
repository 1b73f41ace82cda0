"""The policy served by FAISS: the items in a graph for inner products, users as queries.

    python3 faiss_index.py POLICY USERS [N [flat]]

flat searches all items, and is exact; without it the graph may miss some.
"""
import sys

import faiss
import numpy as np
from policy import Policy, read_users, without, write

if __name__ == "__main__":
    policy = Policy(sys.argv[1])
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    users = read_users(sys.argv[2], policy)
    items = np.ascontiguousarray(policy.items)
    if sys.argv[4:] == ["flat"]:
        index = faiss.IndexFlatIP(items.shape[1])
    else:
        index = faiss.IndexHNSWFlat(items.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = 200, 512
    index.add(items)
    lists = {}
    for user, ids in users.items():
        q = policy.queries(policy.context(ids)[None, :]).astype("float32")
        scores, found = index.search(q, min(n + len(set(ids)), len(items)))  # those taken, too
        lists[user] = without(found[0], scores[0], ids, n)
    write(policy, lists)
