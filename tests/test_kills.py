"""A share, drawn by a seed, of tests/nightly/kills."""
import sys

import kills
from proof import Proof

if "asan" in kills.FOPO:
    print("skip: a process under the sanitizer starts slowly; its saves are in test_files.py")
    sys.exit(77)
p = Proof("files are whole and runs go on, through kill -9 and full disks", seed=18)
kills.at_each_call(p, 1, most=8)
kills.full_at_each_page(p, 1, most=50)
kills.during_training(p, 1, kills=5, steps=60)
kills.drawn(p, 1, kills=100, each=6)
kills.drawn(p, 1, kills=6, each=3, ranks=True)
p.end()
