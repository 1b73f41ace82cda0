"""A share, drawn by a seed, of tests/nightly/interrupts; no times are asserted."""

import interrupts
from long_work import FACTS, IN_C, IN_LUA, WORLD
from proof import Proof

p = Proof("Ctrl-C gives the prompt back, and every ending the terminal", seed=24)
small = WORLD.split("lg, world")[0]  # what is there at once
here = [one for one in IN_C if one[0] in ("an SVD", "evaluation", "training", "neighbours",
                                          "exact gradients", "a custom reward")]
interrupts.interruptions(p, 1, 8, facts=FACTS[:3], work=(IN_LUA[:6], here), code=small)
interrupts.endings(p, 1, 6)
p.end()
