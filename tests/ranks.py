"""What tests of several processes have in common: mpirun, and programs in C that it starts."""
import os
import shutil
import subprocess
import sys

from checks import check

FOPO = os.environ.get("FOPO", os.path.abspath("build/release/fopo"))
BUILD = os.path.dirname(os.path.realpath(FOPO))
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
          "--mca", "mpi_yield_when_idle", "1"]  # other tests run beside these
ALONE = {**os.environ, "FOPO_THREADS": "1"}
ALL = os.environ.get("FOPO_RANKS") == "all"  # make test-ranks


def missing():
    """Why processes cannot be started, or None."""
    if not (os.access(os.path.join(BUILD, "fopo_mpi.so"), os.R_OK) and shutil.which("mpirun")):
        return "make builds fopo_mpi.so where mpicc is: make MPI=1"
    return "MPI's own leaks would be reported" if "asan" in FOPO else None


def or_skip():
    """Ends the test, skipped by name, where processes cannot be started."""
    why = missing()
    if why:
        print("skip: several processes (%s)" % why)
        sys.exit(77)


def program(name, sizes):
    """Checks a test program on each number of ranks."""
    path = os.path.join(BUILD, name)
    if not os.access(path, os.X_OK):
        print("skip: %s on several ranks (make test-programs builds it)" % name)
        return
    for n in sizes:
        words = MPIRUN + ["-n", str(n), path]
        try:
            done = subprocess.run(words, capture_output=True, text=True, env=ALONE, timeout=240,
                                  stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as late:
            done = late
        check("%s on %d ranks" % (name, n), getattr(done, "returncode", 124) == 0, done.stdout,
              done.stderr)
