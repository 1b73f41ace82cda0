"""Deliberate faults: each is put into a copy of the tree, built there and shown to the tests, those
nearest to it first, until one fails. What no test notices is a missing test, or a fault that
changes nothing: survivors.txt has those, with the reason.

  mutate.py list [FOLDER ...]   how many places there are, by file; all of src/, or of these folders
  mutate.py check               every line of survivors.txt still stands in its file
  mutate.py run [FOLDER ...]    draws places and tries them; what is known is not tried again
    --count N    so many (400)          --budget S   and not longer than so many seconds
    --limit S    for one fault, 400     --seed N     which are drawn (1)
    --near       only the tests that stand nearest

operators.py says what is changed. The copy and the results are below build/mutate; the working tree
is only read."""
import argparse
import glob
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import operators

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
# Tests of the form, the documents and the making of packages: a fault's text need not be pretty.
NOT_ASKED = {"check_style", "check_layers", "test_mutate.py", "test_install.sh", "test_recipes.sh",
             "test_setup.sh", "test_device_abi.sh", "test_arm.sh", "test_datasets.py",
             "test_paper.py", "test_snippets.py"}
# The tests that stand nearest to a folder of src/. Before them come those that have noticed a fault
# of the same file, and those with a word of its name.
NEAR = {
    "bind": "test_bind test_plain.lua test_remedies.lua test_nasty.lua test_surface.lua",
    "comm": "test_several test_parts test_ranks.py",
    "contexts": "test_halves.lua test_sessions test_judged.py test_training.lua",
    "core": "test_core test_numbers test_npz test_svd test_rng test_order",
    "data": "test_sessions test_splits test_judged.py test_read test_twins test_logs "
            "test_times test_files.py",
    "device": "test_device test_kernels test_cuda test_gradient test_scores test_sparse_scores",
    "judge": "test_measures test_ope test_baselines test_evaluate.lua test_judged.py test_ope.lua "
             "test_rewards",
    "kernels": "test_kernels test_rows test_prefilter test_core",
    "learn": "test_gradient test_estimators test_rewards test_check test_trainer test_values.py",
    "mips": "test_index test_order test_scores test_index.lua",
    "plan": "test_mass test_candidate_cache test_head test_automatic.lua test_trainer",
    "policy": "test_params test_scores test_mask test_judged.py "
              "test_neighbours.py test_starts.py",
    "ranks": "test_parts test_shares test_read_ranks test_ranks.py",
    "term": "test_plot test_view.lua test_screens.py test_prompt.py test_cli.py",
    "train": "test_trainer test_optim test_checkpoint test_job test_training.lua",
}


class Wrong(Exception):
    """A fault of the list of survivors, or a tree that does not build or pass without a fault."""


# ---- the faults ----

def sources(tree, folders=()):
    """The files that are mutated: of these folders of src/, or of all."""
    paths = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "src"], cwd=tree,
                           capture_output=True, text=True, check=True).stdout.split()
    return [path for path in sorted(paths) if path.endswith((".c", ".cc", ".cu")) and
            (not folders or path.split("/")[1] in folders)]


def read(tree, path):
    with open(os.path.join(tree, path), encoding="utf-8") as f:
        return f.read()


def faults_of(tree, path):
    """Every fault of a file: dicts of name, file, operator, text (the line's), at, length, new."""
    text = read(tree, path)
    lines, faults = text.split("\n"), []
    for operator, at, length, new in operators.found(text):
        line = text.count("\n", 0, at)
        old = text[at:at + length].strip()
        faults.append({"name": "%s:%d %s: %s -> %s" % (path[4:], line + 1, operator, old,
                                                       new or "nothing"),
                       "file": path, "operator": operator, "text": lines[line].strip(), "at": at,
                       "length": length, "new": new})
    return faults


def mutated(text, fault):
    """The file's text with the fault."""
    return text[:fault["at"]] + fault["new"] + text[fault["at"] + fault["length"]:]


def survivors(tree):
    """{(file, operator, line's text): reason} of survivors.txt, four fields between " | "."""
    known, number = {}, 0
    for number, line in enumerate(read(tree, "tests/mutate/survivors.txt").split("\n"), 1):
        if not line or line.startswith("#"):
            continue
        fields = line.split(" | ")
        if len(fields) < 4:
            raise Wrong("survivors.txt:%d: not file | operator | line | reason" % number)
        known[fields[0], fields[1], " | ".join(fields[2:-1])] = fields[-1]
    return known


def complaints(tree):
    """What is wrong with survivors.txt: a sentence each."""
    said = []
    for (path, operator, text), reason in survivors(tree).items():
        try:
            found = any(f["operator"] == operator and f["text"] == text
                        for f in faults_of(tree, path))
        except OSError:
            found = False
        if not found:
            said.append("survivors.txt: %s has no fault \"%s\" in the line: %s"
                        % (path, operator, text))
        if not reason:
            said.append("survivors.txt: %s: %s: no reason" % (path, text))
    return said


def tests_of(tree):
    """The tests by name, in the order of run.sh."""
    names = [os.path.basename(p)[:-2] for p in sorted(glob.glob(tree + "/tests/c/test_*.c"))]
    for pattern in ("lua/test_*.lua", "test_*.py", "test_*.sh"):
        names += [os.path.basename(p) for p in sorted(glob.glob(tree + "/tests/" + pattern))]
    return names


def near(fault, tests, noticed):
    """The names of the nearest tests; `noticed`: those that noticed faults of this file before."""
    folders = fault["file"].split("/")[1:-1] or ["term"]
    words = set(re.split(r"[_.]", os.path.basename(fault["file"]))) - {"c", "cc", "cu"}
    named = [t for t in tests if words & set(re.split(r"[_.]", t)[1:])]
    chosen = noticed + named[:6] + NEAR.get(folders[0], "").split()
    return [t for t in dict.fromkeys(chosen) if t in tests and t not in NOT_ASKED]


# ---- the copy ----

MOST = (16 << 30, 16 << 30)  # bytes of addresses: a fault may ask for memory without end
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
                             errors="replace", start_new_session=True,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, MOST))
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

    def objects(self, file):
        """What is compiled of the file."""
        stem, ending = os.path.splitext(file)
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

class DoesNotBuild(Exception):
    """The fault is no program: another one is drawn."""


def judge(copy, fault, limit, noticed, near_only):
    """Who notices: a name, "" for nobody, and the number of tests asked; None if there was no time
    for all of the nearest, or if they are all skipped here."""
    begun = time.monotonic()
    tests = tests_of(copy.tree)
    first = near(fault, tests, noticed)
    rest = [t for t in tests if t not in first and t not in NOT_ASKED]
    groups = [first[i:i + 2] for i in range(0, len(first), 2)]
    groups += [] if near_only else [rest[i:i + 12] for i in range(0, len(rest), 12)]
    asked, nearest = 0, [0, 0]  # of the nearest: those that ran, and those that were asked
    with Applied(copy, fault):
        try:
            for path in copy.objects(fault["file"])[:1]:
                copy.make(os.path.relpath(path, copy.folder))
        except Wrong:
            raise DoesNotBuild() from None
        for group in groups:
            left = limit - (time.monotonic() - begun)
            got = copy.run_tests(group, left) if left >= 5 else None
            if got is None:
                break
            failed, ran = got
            asked += ran
            if set(group) <= set(first):
                nearest = [nearest[0] + ran, nearest[1] + len(group)]
            if failed:
                return failed[0], asked
    return None if nearest[0] == 0 or nearest[1] < len(first) else "", asked


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
        return digest(fault["name"], read(self.tree, fault["file"]))

    def noticed(self, path):
        """The tests that noticed faults of the file, the most successful first."""
        by = [row["by"] for row in self.known.values() if row["file"] == path and row["by"]]
        return sorted(set(by), key=lambda name: -by.count(name))[:3]

    def get(self, fault):
        row = self.known.get(self.key(fault))
        return row if row and (row["by"] or row["tests"] == self.tests) else None

    def put(self, fault, by, asked, seconds):
        row = {"key": self.key(fault), "name": fault["name"], "file": fault["file"], "by": by,
               "asked": asked, "seconds": round(seconds, 1), "tests": self.tests}
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


def show(row, again):
    print("  %6.1f s  %-70s  %s%s" % (
        row["seconds"], row["name"], "noticed by " + row["by"] if row["by"]
        else "LIVES, %d tests asked" % row["asked"], " (known)" if again else ""), flush=True)


def run(tree, folder, options):
    """Draws faults and tries them; returns (tried, the names of those that live)."""
    begun = time.monotonic()
    os.makedirs(folder, exist_ok=True)
    results = Results(os.path.join(folder, "results.jsonl"), tree)
    spared = survivors(tree)
    faults = [f for path in sources(tree, options.folders) for f in faults_of(tree, path)
              if (path, f["operator"], f["text"]) not in spared]
    random.Random(options.seed).shuffle(faults)
    copy = Copy(tree, folder)
    open(copy.log, "w").close()
    ready, tried, lives = False, 0, []
    for fault in faults:
        if tried == options.count:
            break
        row = results.get(fault)
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
            try:
                by, asked = judge(copy, fault, min(options.limit, left),
                                  results.noticed(fault["file"]), options.near)
            except DoesNotBuild:
                continue
            if by is None:
                print("  not decided, no time or tests that are skipped: " + fault["name"],
                      flush=True)
                continue
            if by:
                results.check_passes(copy, by)
            row = results.put(fault, by, asked, time.monotonic() - start)
        show(row, known)
        tried += 1
        if not row["by"]:
            lives.append(row["name"])
    return tried, lives


LEAST = 0.95  # of the faults that were tried, a test notices


def main(arguments):
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("what", choices=["check", "list", "run"])
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--budget", type=float, default=1e9)
    parser.add_argument("--limit", type=float, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--near", action="store_true")
    parser.add_argument("--nightly", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--tree", default=TREE, help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args(arguments)
    tree = os.path.abspath(options.tree)
    try:
        unknown = [f for f in options.folders if not os.path.isdir(os.path.join(tree, "src", f))]
        if unknown:
            raise Wrong("src/ has no folder " + ", ".join(unknown))
        said = complaints(tree)
        if said:
            raise Wrong("\n".join(said))
        if options.what == "list":
            for path in sources(tree, options.folders):
                print("%-44s %6d" % (path, len(faults_of(tree, path))))
            return 0
        if options.what == "check":
            return 0
        tried, lives = run(tree, os.path.join(tree, "build/mutate"), options)
    except Wrong as e:
        print(e)
        return 1
    for name in lives:
        print("lives: " + name)
    enough = len(lives) <= (1 - LEAST) * tried
    if options.nightly:
        print("of the faults drawn in src/ a test notices 95 %% | %d | %d" % (tried, len(lives)))
        return 77 if not tried else 0 if enough else 1
    print("%d faults tried, %d noticed, %d live" % (tried, tried - len(lives), len(lives)))
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
