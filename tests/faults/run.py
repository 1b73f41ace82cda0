"""Runs the sweep of faults (sweep.lua) with the seam preloaded, and the faults at the prompt.

    run.py TRIES [SEED [PATTERN of the scenarios]]

A process that a fault has ended is reported with the fault, and the sweep goes on behind its
scenario in another one."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOPO = os.path.abspath(os.environ.get("FOPO", os.path.join(ROOT, "fopo")))
SEAM = os.path.join(os.path.dirname(os.path.realpath(FOPO)), "seam.so")


def environment(folder, threads):
    """Of a process with the seam. One thread makes the same calls in the same order each time. What
    is saved is not loaded again at once: the fault that is meant for the save would meet that."""
    kept = {k: v for k, v in os.environ.items() if k != "FOPO_CHECK_SAVES"}
    return {**kept, "SEAM": SEAM, "LD_PRELOAD": SEAM, "FOPO_THREADS": str(threads),
            "SEAM_LABEL": os.path.join(folder, "label"), "GOMP_SPINCOUNT": "2000",
            "TMPDIR": folder, "LUA_PATH": os.path.join(ROOT, "tests", "?.lua") + ";;",
            "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0", "FOPO_CUDA": "none"}


def label(folder):
    """(place of the scenario, faults before it, the fault) that a process was at."""
    with open(os.path.join(folder, "label"), "rb") as f:
        text = f.read().split(b"\n")[0].decode(errors="replace")
    place, begun, name = text.split(" ", 2)
    return int(place), int(begun), name


def ending(code):
    if code == -signal.SIGALRM:
        return "hangs"
    return "ends with " + (signal.Signals(-code).name if code < 0 else "code %d" % code)


def sweep(tries, seed=1, pattern="", threads=1, seconds=None):
    """(faults, failures, lines that say what failed)."""
    made, failed, lines, first = 0, 0, [], 1
    while True:
        folder = tempfile.mkdtemp()
        done = subprocess.run([FOPO, os.path.join(HERE, "sweep.lua"), folder, str(tries - made),
                               str(seed), str(first), pattern], cwd=ROOT, timeout=seconds,
                              capture_output=True, text=True, errors="replace",
                              env=environment(folder, threads))
        said = done.stdout.splitlines()
        lines += [line for line in said if line.startswith("not so")]
        failed += sum(line.startswith("not so") for line in said)
        end = re.match(r"\d+ scenarios, (\d+) faults.*; (\d+) failures$", said[-1] if said else "")
        if end:
            shutil.rmtree(folder)
            return made + int(end[1]), failed, lines + said[-1:]
        if not os.path.exists(os.path.join(folder, "label")):
            raise RuntimeError("the sweep has not begun:\n" + done.stdout + done.stderr)
        place, begun, name = label(folder)
        shutil.rmtree(folder)
        failed += 1
        lines += ["not so: %s: the process %s" % (name, ending(done.returncode))]
        lines += done.stderr.splitlines()[-5:]
        made, first = made + begun, place + 1


if __name__ == "__main__":
    faults, failures, talk = sweep(int(sys.argv[1]), *[int(x) for x in sys.argv[2:3]],
                                   *sys.argv[3:4])
    print(*talk, sep="\n")
    sys.exit(failures > 0)
