"""A share, drawn by a seed, of tests/nightly/bits."""
import sys

import bits
from proof import Proof

if "asan" in bits.FOPO:
    print("skip: bits are compared in mode release")
    sys.exit(77)
p = Proof("the same bits for any threads and instruction sets of x86-64, stopped or not", seed=6)
found = bits.by_threads(p, 1, 8)
bits.by_sets(p, 1, 8, sets=("avx2", "avx512", "avx512vnni", "amx"))
bits.by_blas(p, 1, 8)
for name, at in (("stratified", [3]), ("adaptive", [5]), ("automatic", [1, 6]), ("items", [2])):
    bits.stops(p, 1, 8, found, name, at)
p.end()
