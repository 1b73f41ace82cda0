"""The policy served by hnswlib.

    python3 hnswlib_index.py POLICY USERS [N]
"""
import sys

import hnswlib
from policy import Policy, read_users, without, write

if __name__ == "__main__":
    policy = Policy(sys.argv[1])
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    users = read_users(sys.argv[2], policy)
    index = hnswlib.Index(space="ip", dim=policy.items.shape[1])
    index.init_index(max_elements=len(policy.items), M=32, ef_construction=200, random_seed=1)
    index.add_items(policy.items, num_threads=1)
    index.set_ef(min(512, len(policy.items)))
    lists = {}
    for user, ids in users.items():
        q = policy.queries(policy.context(ids)[None, :])
        # a distance is 1 - q . beta
        found, distances = index.knn_query(q, k=min(n + len(set(ids)), len(policy.items)))
        lists[user] = without(found[0], 1 - distances[0], ids, n)
    write(policy, lists)
