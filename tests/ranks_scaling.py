"""make test-ranks: one rank and two, one thread each, with the same work for each rank. Two take at
most 1 / 0.85 of the time of one, and each holds its half of the items. The two take turns, and the
best of five counts.

    python3 tests/ranks_scaling.py 10gbit 1gbit

measures weak and strong scaling of 1, 2 and 4 ranks on a host each (tests/hosts.py), of which each
sends at most so much, and checks nothing. The hosts share the cores of this machine."""
import os
import re
import subprocess
import sys
import time

from checks import check, failures
import hosts

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


RATES = sys.argv[1:]
if RATES and hosts.missing():
    print("skip: scaling over hosts (" + hosts.missing() + ")")
    sys.exit(77)
if not RATES and (os.cpu_count() < 2 or idle_share() < 0.9):
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


# What is scaled, and whether the work of all ranks together is the same for any number of them.
HOW = {"contexts": False, "items": False, "fixed": True, "svd": True}


def best_of(net, how, ranks):
    """Milliseconds, those in MPI, and bytes of a rank: the best of three."""
    lines = []
    for _ in range(3):
        out, err = net.start(FOPO, HERE + "/ranks_scaling.lua", how, ranks=ranks,
                             env=ENV).communicate(timeout=120)
        found = re.search(r"ms .*", out)
        check(f"{how} on {ranks} hosts", found, out, err)
        lines += [[float(w) for w in found.group().split()[1:6:2]]] if found else []
    return min(lines, default=[1e9, 0, 0])


def over_hosts():
    alone = {}
    for rate in RATES:
        with hosts.Hosts(4, rate=rate) as net:
            for how, is_strong in HOW.items():
                for ranks in (1, 2, 4):
                    if ranks == 1 and how in alone:
                        continue
                    ms, waiting, sent = best_of(net, how, ranks)
                    alone.setdefault(how, ms)
                    worth = alone[how] / ms / (ranks if is_strong else 1)
                    print(f"  {rate if ranks > 1 else '-':7} {how:9} {ranks:5} {ms:10.3f} "
                          f"{waiting:10.3f} {sent / 1e3:10.1f} {worth:10.2f}", flush=True)


if RATES:
    print(f"  {os.cpu_count()} cores, {idle_share():.0%} of them idle\n"
          "  rate    what      ranks         ms     in MPI  kB a rank efficiency")
    over_hosts()
    sys.exit(1 if failures else 0)
for how in ("contexts", "items"):
    best = {}
    for _ in range(TRIES):
        for ranks in (1, 2):
            best[ranks] = min(best.get(ranks, (1e9, "")), run(ranks, how))
    scaling = best[1][0] / best[2][0]
    print(f"  {how}: {scaling:.2f}\n    1 rank:  {best[1][1]}\n    2 ranks: {best[2][1]}")
    check(f"weak scaling of {how}", scaling >= LEAST, scaling)
sys.exit(1 if failures else 0)
