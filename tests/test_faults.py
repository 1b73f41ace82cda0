"""A thousand of the faults that tests/faults can make, the same ones each time, all that what reads
and writes files can meet once, two hundred at the prompt, and each hundredth allocation of README's
session: whatever fails, the process goes on, nothing is lost, and no result is wrong without an
error."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "faults"))
import prompt  # noqa: E402
import readme  # noqa: E402
import run  # noqa: E402

if not os.path.exists(run.SEAM):
    print("make test-programs builds the seam,", run.SEAM)
    sys.exit(77)
if "clang" in run.FOPO:
    print("skip: clang's OpenMP ends the program where it gets no memory")
    sys.exit(77)
faults, failures, talk = run.sweep(1000)
print(*talk, sep="\n")
if "asan" in run.FOPO:
    print("skip: faults at the prompt (a process under the sanitizer starts slowly)")
    sys.exit(failures > 0 or faults < 900)
typed, wrong, talk = prompt.sweep(200)
print(*talk, "%d faults at the prompt, %d failures" % (typed, wrong), sep="\n")
refused, lost, talk = readme.sweep(100)
print(*talk, "%d allocations of README's session refused, %d failures" % (refused, lost), sep="\n")
sys.exit(failures + wrong + lost > 0 or faults < 900 or typed < 180 or refused < 150)
