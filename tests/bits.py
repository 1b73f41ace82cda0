"""The same seed gives the same bits: for any number of threads, for the instruction sets of
x86-64, and for a run that is stopped and resumed anywhere.
tests/nightly/bits tries it for many seeds, tests/test_bits.py for one."""
import os
import shutil
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FOPO = os.path.abspath(os.environ.get("FOPO", "./fopo"))
THREADS = (1, 2, 3, 4, 8)
# The sets of x86-64, whose sums have one order.
SETS = ("avx2", "avxvnni", "avx512", "avx512bf16", "avx512vnni", "amx")

# Kinds of CPU that OpenBLAS has kernels for, which run on every x86-64 CPU with AVX2.
KINDS = ("Haswell", "Sandybridge", "Nehalem")


def run(arguments, threads=2, isa=None, **more):
    """Lines of the form "NAME DIGEST", by name. more: the environment."""
    environment = {**os.environ, "FOPO_THREADS": str(threads), **more}
    if isa:
        environment["FOPO_ISA"] = isa
    done = subprocess.run([FOPO, os.path.join(HERE, "bits.lua"), *map(str, arguments)],
                          capture_output=True, text=True, env=environment)
    return dict(line.split("\t", 1) for line in done.stdout.splitlines()), done.stderr


def here(isa):
    """Whether this processor has the instruction set."""
    done = subprocess.run([FOPO, "-e", "print((fopo.isa()))"], capture_output=True, text=True,
                          env={**os.environ, "FOPO_ISA": isa})
    return done.stdout.strip() == isa


def compare(proof, what, wanted, found):
    lines, err = found
    proof.tried(what, len(lines) == len(wanted) > 10, err)
    for name, digest in wanted.items():
        proof.tried("%s, %s" % (what, name), lines.get(name) == digest, lines.get(name), digest)


def by_threads(proof, seed, steps, threads=THREADS):
    """All trainings of a seed; returns them."""
    wanted, err = run((seed, steps), threads[0])
    proof.tried("trainings", len(wanted) > 10, err)
    for n in threads[1:]:
        compare(proof, "seed %d, %d threads" % (seed, n), wanted, run((seed, steps), n))
    return wanted


def by_sets(proof, seed, steps, sets=SETS):
    """All trainings of a seed by every instruction set that this machine has."""
    known = [isa for isa in sets if here(isa)]
    if len(known) < len(sets):
        print("skip: %s (this machine has %s)" % (", ".join(sorted(set(sets) - set(known))),
                                                  ", ".join(known) or "none of them"))
    for isa in known:
        found = run((seed, steps), isa=isa)
        if isa == known[0]:
            wanted = found[0]
        compare(proof, "seed %d, %s" % (seed, isa), wanted, found)


def by_blas(proof, seed, steps, isa="avx2"):
    """All trainings of a seed over the same items, with OpenBLAS's kernels for several kinds of
    CPU. They round differently, but no sum of a training is theirs."""
    if not here(isa):
        print("skip: kinds of OpenBLAS (this machine lacks %s)" % isa)
        return
    folder = tempfile.mkdtemp()
    wanted = None
    for kind in KINDS:
        found = run((seed, steps), isa=isa, OPENBLAS_CORETYPE=kind,
                    BITS_ITEMS=os.path.join(folder, "items.npy"))
        wanted = wanted or found[0]
        compare(proof, "seed %d, OpenBLAS's %s" % (seed, kind), wanted, found)
    shutil.rmtree(folder)


def stops(proof, seed, steps, wanted, name, at):
    """One training that is stopped at these steps, each part in a process of its own with another
    number of threads and another instruction set of x86-64, if this machine has one."""
    sets = [isa for isa in SETS if here(isa)] or [None]
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "stopped.npz")
    for step in [*at, steps]:
        lines, err = run((seed, step, name, path), proof.random.choice(THREADS),
                         proof.random.choice(sets))
        if not proof.tried("seed %d, %s: a part" % (seed, name), name in lines, err):
            break
    proof.tried("seed %d, %s stopped at %s" % (seed, name, at), lines.get(name) == wanted[name],
                lines.get(name), wanted[name])
    shutil.rmtree(folder)


def rounds(proof, steps=40, points=50):
    """Seed by seed until the time is over: the trainings, then `points` stops over all of them."""
    seed = proof.random.randrange(1000)
    while proof.tries == 0 or time.monotonic() < proof.until(0.9):
        seed += 1
        wanted = by_threads(proof, seed, steps)
        by_sets(proof, seed, steps)
        by_blas(proof, seed, steps)
        done = 0
        while done < points and time.monotonic() < proof.until(1):
            n = proof.random.randint(1, 4)
            at = sorted(proof.random.sample(range(1, steps), n))
            name = proof.random.choice(sorted(wanted.keys() - {"dim"}))
            stops(proof, seed, steps, wanted, name, at)
            done += n
