"""Deliberate faults: each is put into a copy of the tree, built there and shown to the tests, those
nearest to it first, until one fails. What no test notices is a missing test.

  mutate.py check               every fault of the list applies: its text is found exactly once
  mutate.py list                names, files and properties
  mutate.py run [NAME ...]      all of them, or those named; what is known already is not run again
    --budget S   stops after so many seconds    --limit S  for one fault, 240
    --seed N     in a random order              --again    also what is known
    --near       only the tests that stand nearest

The list is *.txt beside this file; README.md there says how to read it. The copy and the results
are below build/mutate. The working tree is only read."""
import argparse
import glob
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
# Tests of the form, the documents and the making of packages: a fault's text need not be pretty.
NOT_ASKED = {"check_style", "check_layers", "test_mutate.py", "test_install.sh", "test_recipes.sh",
             "test_setup.sh", "test_device_abi.sh", "test_arm.sh", "test_datasets.py",
             "test_paper.py", "test_snippets.py"}
FIELDS = ("breaks", "lives")


class Wrong(Exception):
    """A fault of the list itself, or a tree that does not build or pass without a fault."""


# ---- the list ----

def read_list(path):
    """The faults of one file: dicts of name, file, breaks, near, lives, old, new, place."""
    faults, fault = [], None
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            place = "%s:%d" % (os.path.basename(path), number)
            if line.startswith("= "):
                name, file, near = (line[2:].split(None, 2) + ["", ""])[:3]
                fault = {"name": name, "file": file, "near": near.strip(), "place": place,
                         "breaks": "", "lives": "", "old": [], "new": []}
                faults.append(fault)
            elif not line.strip() or line.startswith("#"):
                continue
            elif fault is None:
                raise Wrong(place + ": a line before the first fault")
            elif line.startswith(("- ", "+ ")):
                fault["old" if line[0] == "-" else "new"].append(line[2:])
            elif line.split(None, 1)[0] in FIELDS:
                word, text = (line.split(None, 1) + [""])[:2]
                fault[word] = (fault[word] + " " + text).strip()
            else:
                raise Wrong(place + ": a line is none of = breaks lives - +")
    for fault in faults:
        fault["old"], fault["new"] = "\n".join(fault["old"]), "\n".join(fault["new"])
    return faults


def read_lists(folder):
    faults = []
    for path in sorted(glob.glob(os.path.join(folder, "*.txt"))):
        faults += read_list(path)
    return faults


def mutated(text, fault):
    """The file's text with the fault."""
    found = text.count(fault["old"])
    if found != 1:
        raise Wrong("%s: %s: the text is found %d times in %s; it must be found once"
                    % (fault["place"], fault["name"], found, fault["file"]))
    return text.replace(fault["old"], fault["new"])


def tests_of(tree):
    """The tests by name, in the order of run.sh."""
    names = [os.path.basename(p)[:-2] for p in sorted(glob.glob(tree + "/tests/c/test_*.c"))]
    for pattern in ("lua/test_*.lua", "test_*.py", "test_*.sh"):
        names += [os.path.basename(p) for p in sorted(glob.glob(tree + "/tests/" + pattern))]
    return names


def complaints(faults, tree):
    """What is wrong with the list: a sentence each."""
    said, seen, tests = [], set(), set(tests_of(tree))
    for fault in faults:
        where = "%s: %s: " % (fault["place"], fault["name"])
        for field in ("file", "breaks", "near", "old"):
            if not fault[field]:
                said.append(where + "has no " + field)
        if fault["name"] in seen:
            said.append(where + "the name is there twice")
        seen.add(fault["name"])
        if fault["old"] == fault["new"]:
            said.append(where + "changes nothing")
        said += [where + "there is no test " + t for t in fault["near"].split() if t not in tests]
        try:
            with open(os.path.join(tree, fault["file"]), encoding="utf-8") as f:
                mutated(f.read(), fault)
        except OSError as e:
            said.append(where + str(e))
        except Wrong as e:
            said.append(str(e))
    return said


# ---- the copy ----

HANGS = 60  # seconds after which a test hangs


def time_of_one(limit):
    """The seconds that one test may take, of `limit` for all."""
    return max(5, min(150, int(limit) - 20))


class Copy:
    """A tree of its own with what the working tree has built, so that one object is compiled."""

    def __init__(self, tree, folder, out="build/release"):
        self.tree, self.folder, self.out = tree, os.path.join(folder, "tree"), out
        self.log = os.path.join(folder, "log.txt")

    def renew(self):
        """Makes the copy equal to the working tree; what is the same keeps its times."""
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=self.tree,
                                capture_output=True, text=True, check=True).stdout.split("\n")
        kept = {name for name in listed if name and os.path.isfile(os.path.join(self.tree, name))}
        for name in kept:
            self.take(name)
        for top in ("src", "lua", "tests"):  # a file that is gone in the tree
            for folder, _, files in os.walk(os.path.join(self.folder, top)):
                for name in files:
                    path = os.path.relpath(os.path.join(folder, name), self.folder)
                    if path not in kept and "__pycache__" not in path:
                        os.remove(os.path.join(self.folder, path))
        built = os.path.join(self.folder, self.out)
        if not os.path.isdir(built) and os.path.isdir(os.path.join(self.tree, self.out)):
            shutil.copytree(os.path.join(self.tree, self.out), built, symlinks=True)
        self.make("all", "test-programs")

    def take(self, name):
        source, target = os.path.join(self.tree, name), os.path.join(self.folder, name)
        try:
            a, b = os.stat(source), os.stat(target)
            if a.st_mtime_ns == b.st_mtime_ns and a.st_size == b.st_size:
                return
            with open(source, "rb") as f, open(target, "rb") as g:
                if f.read() == g.read():
                    return
        except OSError:
            os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(source, target)
        if name.startswith(("src/", "lua/", "tests/")):
            os.utime(target)  # newer than the objects, whenever it was written

    def call(self, command, limit):
        """Status and output; a command that runs too long is ended with all that it started."""
        one = time_of_one(limit)
        environment = {**os.environ, "TESTS_AT_ONCE": "2", "FOPO_TEST_LIMIT": str(one)}
        for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
            environment.pop(name, None)
        p = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                             errors="replace", start_new_session=True)
        try:
            said, _ = p.communicate(timeout=limit)
            status = p.returncode
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGTERM)  # run.sh ends its tests
            try:
                said, _ = p.communicate(timeout=15)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                said, _ = p.communicate()
            status = 124
        with open(self.log, "a", encoding="utf-8") as f:
            f.write("$ %s\n%s\nstatus %d\n" % (" ".join(command), said, status))
        return status, said

    def make(self, *targets, limit=900):
        status, said = self.call(["make", "-s", "CUDA=", *targets], limit)
        if status != 0:
            raise Wrong("make %s: %s" % (" ".join(targets), said[-2000:]))

    def program(self, test):
        """What is to be built for a test: its program, or fopo and what it opens."""
        return "%s/%s" % (self.out, test) if "." not in test else "all"

    def run_tests(self, names, limit):
        """Those of the tests that fail, and how many were not skipped. None: no time."""
        begun = time.monotonic()
        self.make(*sorted({self.program(t) for t in names} | self.emulated(names)))
        left = limit - (time.monotonic() - begun)
        if left < 1:
            return None
        status, said = self.call(["bash", "tests/run.sh", self.out, *names], left)
        short = time_of_one(left) < HANGS  # then a test that was stopped was perhaps only slow
        failed = [name for name, of_time in
                  re.findall(r"^  FAIL  (\S+)(.*\(status 124\))?", said, re.M)
                  if not (of_time and short)]
        if not failed and "(status 124)" in said:
            return None
        if not failed and status == 124:
            return None
        end = re.search(r"(\d+) passed, (\d+) failed, (\d+) skipped", said, re.M)
        if not end or (not failed and status != 0 and int(end[1]) > 0):
            raise Wrong("tests/run.sh %s: %s" % (" ".join(names), said[-2000:]))
        return failed, int(end[1]) + int(end[2])

    def emulated(self, names):
        asks = any("cuda" in t or t == "test_sparse_scores" for t in names)
        return {self.out + "/emulated/fopo_cuda.so"} if asks else set()

    @staticmethod
    def names(rules, file):
        with open(rules, encoding="utf-8") as f:
            return file in f.read().split()

    def objects(self, file):
        """What is compiled of the file; of a header, what includes it."""
        stem, ending = os.path.splitext(file)
        if ending in (".h", ".def", ".cuh"):
            return [d[:-2] + ".o" for d in glob.glob(
                os.path.join(self.folder, self.out, "**/*.d"), recursive=True)
                if os.path.exists(d[:-2] + ".o") and self.names(d, file)]
        paths = [os.path.join(self.folder, self.out, p)
                 for p in (stem + ".o", "emulated/%s%s.o" % (stem, ending), stem + ".cu.o")]
        return [p for p in paths if os.path.exists(p)]


class Applied:
    """The fault in the copy. Afterwards source and objects are as before, with their times; the
    programs are newer and are removed, so that make links them again."""

    def __init__(self, copy, fault):
        self.copy, self.fault = copy, fault
        self.path = os.path.join(copy.folder, fault["file"])

    def __enter__(self):
        self.kept = [(p, p + ".kept") for p in [self.path] + self.copy.objects(self.fault["file"])]
        with open(self.path, encoding="utf-8") as f:
            text = mutated(f.read(), self.fault)
        for path, kept in self.kept:
            shutil.copy2(path, kept)
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(text)

    def __exit__(self, *_):
        for path, kept in self.kept:
            os.replace(kept, path)
        out = os.path.join(self.copy.folder, self.copy.out)
        for path in glob.glob(out + "/test_*") + glob.glob(out + "/fopo*") + \
                glob.glob(out + "/emulated/*.so"):
            if os.path.isfile(path) and not path.endswith((".o", ".d")):
                os.remove(path)


# ---- a fault, and all of them ----

def judge(copy, fault, limit, near_only):
    """Who notices: a name, "" for nobody, and the number of tests asked; None if not even the
    nearest could all be asked, as there was no time or they are skipped here."""
    begun = time.monotonic()
    near = fault["near"].split()
    rest = [t for t in tests_of(copy.tree) if t not in near and t not in NOT_ASKED]
    groups = [near] + ([] if near_only else [rest[i:i + 8] for i in range(0, len(rest), 8)])
    asked, skipped = 0, 0
    with Applied(copy, fault):
        for group in groups:
            left = limit - (time.monotonic() - begun)
            got = copy.run_tests(group, left) if left >= 5 else None
            if got is None:
                break
            failed, ran = got
            asked += ran
            skipped += len(group) - ran if group is near else 0
            if failed:
                return failed[0], asked
    return None if skipped or asked < len(near) else "", asked


def digest(*parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def folder_digest(tree, top):
    text = []
    for folder, _, files in sorted(os.walk(os.path.join(tree, top))):
        if "mutate" not in folder and "__pycache__" not in folder:
            for name in sorted(files):
                with open(os.path.join(folder, name), "rb") as f:
                    text.append(name + hashlib.sha256(f.read()).hexdigest())
    return digest(*text)


class Results:
    """What is known: one line of JSON a fault. A fault that was noticed stays so while its text and
    its file are the same; one that lives is tried again when the tests change."""

    def __init__(self, path, tree):
        self.path, self.tree, self.tests = path, tree, folder_digest(tree, "tests")
        self.state = digest(self.tests, folder_digest(tree, "src"))
        self.known, self.passing = {}, set()
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                for line in f:
                    if line.endswith("\n"):
                        row = json.loads(line)
                        if row.get("passes"):
                            self.passing.add((row["passes"], row["state"]))
                        else:
                            self.known[row["key"]] = row

    def key(self, fault):
        with open(os.path.join(self.tree, fault["file"]), encoding="utf-8") as f:
            return digest(fault["name"], fault["old"], fault["new"], f.read())

    def get(self, fault):
        row = self.known.get(self.key(fault))
        return row if row and (row["by"] or row["tests"] == self.tests) else None

    def put(self, fault, by, asked, seconds):
        row = {"key": self.key(fault), "name": fault["name"], "by": by, "asked": asked,
               "seconds": round(seconds, 1), "tests": self.tests}
        self.known[row["key"]] = row
        self.write(row)
        return row

    def write(self, row):
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps(row) + "\n")

    def check_passes(self, copy, test):
        """Whoever notices a fault must pass without it; tried once for the same sources."""
        if (test, self.state) in self.passing:
            return
        failed, _ = copy.run_tests([test], 600) or ([test], 0)
        if failed:
            raise Wrong("%s fails without a fault: see %s" % (test, copy.log))
        self.passing.add((test, self.state))
        self.write({"passes": test, "state": self.state})


def show(fault, row, again):
    if row["by"]:
        said = "noticed by " + row["by"]
    else:
        said = "LIVES, %d tests asked" % row["asked"]
        said += ": " + fault["lives"] if fault["lives"] else ""
    print("  %-34s %6.1f s  %s%s" % (fault["name"], row["seconds"], said,
                                     " (known)" if again else ""), flush=True)


def run(faults, tree, folder, options):
    """Runs the faults; returns (tried, lives, lives without a reason)."""
    begun = time.monotonic()
    os.makedirs(folder, exist_ok=True)
    results = Results(os.path.join(folder, "results.jsonl"), tree)
    copy = Copy(tree, folder)
    open(copy.log, "w").close()
    if options.seed is not None:
        random.Random(options.seed).shuffle(faults)
    ready, tried, lives, missing = False, 0, [], []
    for fault in faults:
        row = None if options.again else results.get(fault)
        known = row is not None
        if not known:
            left = options.budget - (time.monotonic() - begun)
            if left < 10:
                print("  the budget is spent")
                break
            if not ready:
                copy.renew()
                ready = True
            start = time.monotonic()
            by, asked = judge(copy, fault, min(options.limit, left), options.near)
            if by is None:
                print("  %-34s not decided: no time, or tests that are skipped" % fault["name"],
                      flush=True)
                continue
            if by:
                results.check_passes(copy, by)
            row = results.put(fault, by, asked, time.monotonic() - start)
        show(fault, row, known)
        tried += 1
        if not row["by"]:
            lives.append(fault["name"])
            if not fault["lives"]:
                missing.append(fault["name"])
    return tried, lives, missing


def main(arguments):
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("what", choices=["check", "list", "run"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--budget", type=float, default=1e9)
    parser.add_argument("--limit", type=float, default=240)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--near", action="store_true")
    parser.add_argument("--nightly", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--tree", default=TREE, help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args(arguments)
    tree = os.path.abspath(options.tree)
    try:
        faults = read_lists(os.path.join(tree, "tests/mutate"))
        said = complaints(faults, tree)
        if said:
            print("\n".join(said))
            return 1
        if options.what == "check":
            print("faults: %d, every one applies" % len(faults))
            return 0
        if options.what == "list":
            for fault in faults:
                print("%-34s %-36s %s" % (fault["name"], fault["file"], fault["breaks"]))
            return 0
        unknown = set(options.names) - {fault["name"] for fault in faults}
        if unknown:
            print("the list has no " + ", ".join(sorted(unknown)))
            return 1
        faults = [f for f in faults if not options.names or f["name"] in options.names]
        tried, lives, missing = run(faults, tree, os.path.join(tree, "build/mutate"), options)
    except Wrong as e:
        print(e)
        return 1
    if options.nightly:
        print("a fault planted in src/ is noticed by a test | %d | %d" % (tried, len(missing)))
        return 1 if missing else 0 if tried else 77
    print("%d of %d faults tried, %d noticed, %d live, %d of these without a reason"
          % (tried, len(faults), tried - len(lives), len(lives), len(missing)))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
