"""Runs the fuzz targets (targets.c).

    run.py COUNT [SEED [TARGET ...]]   with the driver of drive.c

An input that ends the process is kept: `build/release/fuzz TARGET FILE` runs it again."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOPO = os.path.abspath(os.environ.get("FOPO", os.path.join(ROOT, "fopo")))
FUZZ = os.path.join(os.path.dirname(os.path.realpath(FOPO)), "fuzz")
LIBFUZZER = os.path.join(ROOT, "build", "fuzz", "fuzz")
BY_LUA = ("index", "policy", "checkpoint", "run_log")  # its state lives to the end: no leaks
SLOW = ("run_log", "gzip", "parts")  # fewer than 4,000 inputs a second


def targets():
    return subprocess.run([FUZZ, "--list"], capture_output=True, text=True).stdout.split()


def sanitizer(name):
    return {"ASAN_OPTIONS": "detect_leaks=%d" % (name not in BY_LUA)}


def drive(name, count, seed):
    """(inputs, what went wrong) of a target with the driver of its own."""
    done = subprocess.run([FUZZ, name, str(count), str(seed)], cwd=ROOT, capture_output=True,
                          text=True, errors="replace", env={**os.environ, **sanitizer(name)})
    if done.returncode == 0:
        return count, []
    said = [line for line in done.stderr.splitlines() if not line.startswith("fopo:")]
    return count, ["not so: %s ends with %d" % (name, done.returncode)] + said[-6:]


def libfuzz(name, seconds, most, seed, kept):
    """The same with libFuzzer and sanitizers, for so long or so many; kept: a folder for what ends
    the process."""
    corpus = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    subprocess.run([FUZZ, "--seeds", name, corpus], cwd=ROOT, check=True, capture_output=True)
    shutil.rmtree(os.path.join(corpus, ".log"), ignore_errors=True)
    done = subprocess.run([LIBFUZZER, "-max_total_time=%d" % max(1, seconds), "-runs=%d" % most,
                           "-seed=%d" % seed, "-max_len=32768", "-timeout=20",
                           "-rss_limit_mb=3000", "-detect_leaks=%d" % (name not in BY_LUA),
                           "-artifact_prefix=%s/%s-" % (kept, name), corpus],
                          cwd=ROOT, capture_output=True, text=True, errors="replace",
                          env={**os.environ, **sanitizer(name), "FUZZ": name,
                               "UBSAN_OPTIONS": "print_stacktrace=1"})
    shutil.rmtree(corpus)
    runs = re.findall(r"^Done (\d+) runs|^#(\d+)", done.stderr, re.M)
    made = max([int(a or b) for a, b in runs] + [0])
    if done.returncode == 0:
        return made, []
    why = re.findall(r"^.*(?:ERROR:|SUMMARY:|runtime error:|not so:|no sentence:).*$", done.stderr,
                     re.M)
    return made, ["not so: %s with libFuzzer, kept in %s" % (name, kept)] + why[:6]


def all_of(names, one, at_once=2):
    """(inputs, what went wrong) of all targets."""
    with ThreadPoolExecutor(at_once) as pool:
        done = list(pool.map(one, names))
    return sum(n for n, _ in done), [line for _, lines in done for line in lines]


if __name__ == "__main__":
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    tried, wrong = all_of(sys.argv[3:] or targets(),
                          lambda name: drive(name, int(sys.argv[1]), number))
    print(*wrong, "%d inputs" % tried, sep="\n")
    sys.exit(bool(wrong))
