"""Worlds that are hard for a head of large norms (scripts/studies/worlds.lua), small: what is said
of the head, and what the default and an adaptive proposal earn there beside the exact gradient."""
import csv
import os
import subprocess
import tempfile

from checks import check, finish

FOPO, HERE = os.environ["FOPO"], os.path.dirname(os.path.abspath(__file__))
STUDY = os.path.join(HERE, "../scripts/studies/worlds.lua")


def rows(world, **options):
    """{method: row} of one world."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([FOPO, STUDY, "quick", f"worlds={world}",
                               *(f"{k}={v}" for k, v in options.items())],
                              cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        check("the study ends", done.returncode == 0, done.stdout, done.stderr)
        with open(os.path.join(folder, f"runs/worlds_quick/{world}/results.csv")) as f:
            words = "method", "options", "machine"
            return {r["method"]: {k: float(v) for k, v in r.items() if k not in words and v != ""}
                    for r in csv.DictReader(f)}


# 256 of 9,000 items of a uniform softmax hold 0.03 to 0.1 of it, and the run says so
flat = rows("flat", items=9000, users=600, steps=20, methods="head_tail")["head_tail"]
check("what a flat policy's head holds", flat["head"] == 256 and 0.02 < flat["held"] < 0.1, flat)
check("the history's head mass agrees", abs(flat["held"] - flat["head_mass"]) < 0.02, flat)
check("it is said", flat["said"] >= 1, flat)

# items of unit norm: all of them hold the mass, and clusters find it
unit = rows("unit", items=9000, users=600, steps=200, methods="exact,head_tail")
check("no norms hold the mass", unit["head_tail"]["head"] == 9000, unit)
check("clusters hold it", unit["head_tail"]["head_mass"] > 0.7, unit)
check("the default earns what the exact gradient earns",
      unit["head_tail"]["expected"] > 0.98 * unit["exact"]["expected"], unit)

# the start looks at decoys, which are one in 2,500 of uniform draws: chance is 0.0005, the start is
# below it, and it gets out, which takes draws of both kinds
rotate = rows("rotate", items=20000, decoys=200, users=5000, steps=1000,
              methods="adaptive")["adaptive"]
check("an adaptive proposal gets out", rotate["expected"] > 0.02, rotate)
finish()
