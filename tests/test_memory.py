"""A share of tests/nightly/memory."""
import sys

import memory
from proof import Proof

if "asan" in memory.FOPO:
    print("skip: the sanitizer has a memory of its own")
    sys.exit(77)
p = Proof("work takes the memory that it foresees, and limits are seen")
memory.limits(p)
for name in ("array_load", "svd", "item_knn"):
    memory.estimate(p, name, 0.4)
for maker in ("arrays", "policies"):
    memory.temporaries(p, maker, 200)
p.end()
