"""make test-ranks: one rank and two, one thread each, with the same work for each rank. Two take at
most 1 / 0.85 of the time of one, and each holds its half of the items. The two take turns, and the
best of five counts."""
import os
import re
import subprocess
import sys
import time

from checks import check, failures

FOPO = os.environ.get("FOPO", os.path.abspath("build/release/fopo"))
HERE = os.path.dirname(os.path.abspath(__file__))
ENV = {**os.environ, "FOPO_THREADS": "1"}
TRIES, LEAST = 5, 0.85
HELD = 200000 * (64 * 4 + 10) / 2**20  # MB: rows, and the order of the ids


def idle_share(seconds=2.0):
    """The share of all cores' time in which nothing ran."""
    def read():
        times = [int(w) for w in open("/proc/stat").readline().split()[1:]]
        return times[3] + times[4], sum(times[:8])
    idle, every = read()
    time.sleep(seconds)
    return (read()[0] - idle) / max(1, read()[1] - every)


if os.cpu_count() < 2 or idle_share() < 0.9:
    print("skip: weak scaling (it needs two cores that have nothing else to do)")
    sys.exit(77)


def run(ranks, how):
    words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n",
             str(ranks), FOPO, HERE + "/ranks_scaling.lua", how]
    done = subprocess.run(words if ranks > 1 else words[7:], capture_output=True, text=True,
                          env=ENV, stdin=subprocess.DEVNULL)
    check(f"{ranks} ranks, {how}", done.returncode == 0, done.stdout, done.stderr)
    for mb in re.findall(r"held ([\d.]+)", done.stderr):
        check(f"{ranks} ranks: the items held", float(mb) < 1.1 * HELD, mb, HELD)
    return float(done.stdout.split()[1]), done.stdout.strip()


for how in ("contexts", "items"):
    best = {}
    for _ in range(TRIES):
        for ranks in (1, 2):
            best[ranks] = min(best.get(ranks, (1e9, "")), run(ranks, how))
    scaling = best[1][0] / best[2][0]
    print(f"  {how}: {scaling:.2f}\n    1 rank:  {best[1][1]}\n    2 ranks: {best[2][1]}")
    check(f"weak scaling of {how}", scaling >= LEAST, scaling)
sys.exit(1 if failures else 0)
