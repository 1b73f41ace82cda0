"""A thousand of the faults that tests/faults can make, the same ones each time: whatever fails, the
process goes on, nothing is lost, and no result is wrong without an error."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "faults"))
import run  # noqa: E402

if not os.path.exists(run.SEAM):
    print("make test-programs builds the seam,", run.SEAM)
    sys.exit(77)
faults, failures, talk = run.sweep(1000)
print(*talk, sep="\n")
sys.exit(failures > 0 or faults < 900)
