"""Mutated files of every format, the same ones each time, five thousand each: a result or a
sentence, no crash, no hang, no leak, and what was read is what it must be."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fuzz"))
import run  # noqa: E402

if not os.path.exists(run.FUZZ):
    print("make test-programs builds the fuzz targets,", run.FUZZ)
    sys.exit(77)
names = run.targets()
inputs, wrong = run.all_of(names, lambda name: run.drive(name, 5000, 1))
print(*wrong, "%d inputs of %d targets" % (inputs, len(names)), sep="\n")
sys.exit(bool(wrong) or len(names) < 15)
