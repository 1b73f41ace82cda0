"""Deliberate faults: each is put into a copy of the tree, built there and shown to the tests that
execute its line, the nearest and cheapest first, until one fails. What no test notices is a missing
test, or a fault that changes nothing: survivors.txt has those, with the reason.

  mutate.py list [PLACE ...]    how many faults there are, by file; all of src/, or of these folders
                                and files of it
  mutate.py check               every line of survivors.txt still stands in its file
  mutate.py map                 runs every test and keeps which lines it executes, by gcov
  mutate.py run [PLACE ...]     draws faults and tries them; what is known is not tried again
    --count N    so many (400)          --budget S   and not longer than so many seconds
    --limit S    of CPU a fault, 400    --seed N     which are drawn (1)
    --without "NAME ..."                tests that are not asked

operators.py says what is changed. The copy, the map and the results are below build/mutate; the
working tree is only read."""
import argparse
import collections
import concurrent.futures
import glob
import hashlib
import json
import math
import os
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


class Wrong(Exception):
    """A fault of the list of survivors, or a tree that does not build or pass without a fault."""


class NoTime(Exception):
    """The budget is spent before there is a map; what is done of it is kept."""


# ---- the faults ----

def sources(tree, places=()):
    """The files that are mutated: of these folders and files of src/, or of all. Of the headers
    those that are code: the rules of the objectives, and slates."""
    paths = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "src"], cwd=tree,
                           capture_output=True, text=True, check=True).stdout.split()
    return [path for path in sorted(paths)
            if path.endswith((".c", ".cc", ".cu"))
            or re.match("src/device/(objectives/.*|slate)[.]h", path)
            if not places or any((path + "/").startswith("src/%s/" % place) for place in places)]


def read(tree, path):
    with open(os.path.join(tree, path), encoding="utf-8") as f:
        return f.read()


def faults_of(tree, path):
    """Every fault of a file: dicts of name, what it does, file, line, its text, at, length, new.
    Of a line's places that are changed alike the second has " (2)" behind it."""
    text = read(tree, path)
    lines, faults, alike = text.split("\n"), [], collections.Counter()
    for operator, at, length, new in operators.found(text):
        line = text.count("\n", 0, at)
        kind = "%s: %s -> %s" % (operator, text[at:at + length].strip(), new or "nothing")
        alike[line, kind] += 1
        what = kind + " (%d)" % alike[line, kind] * (alike[line, kind] > 1)
        faults.append({"name": "%s:%d %s" % (path[4:], line + 1, what), "what": what,
                       "kind": kind, "file": path, "line": line + 1, "text": lines[line].strip(),
                       "at": at, "length": length, "new": new})
    return faults


def mutated(text, fault):
    """The file's text with the fault."""
    return text[:fault["at"]] + fault["new"] + text[fault["at"] + fault["length"]:]


def survivors(tree):
    """{(file, what, line's text): reason} of survivors.txt, four fields between " | "."""
    known, number = {}, 0
    for number, line in enumerate(read(tree, "tests/mutate/survivors.txt").split("\n"), 1):
        if not line or line.startswith("#"):
            continue
        fields = line.split(" | ")
        if len(fields) < 4:
            raise Wrong("survivors.txt:%d: not file | fault | line | reason" % number)
        known[fields[0], fields[1], " | ".join(fields[2:-1])] = fields[-1]
    return known


def complaints(tree):
    """What is wrong with survivors.txt: a sentence each."""
    said = []
    for (path, what, text), reason in survivors(tree).items():
        try:
            found = any(f["what"] == what and f["text"] == text for f in faults_of(tree, path))
        except OSError:
            found = False
        if not found:
            said.append("survivors.txt: %s has no fault \"%s\" in the line: %s"
                        % (path, what, text))
        if not reason:
            said.append("survivors.txt: %s: %s: no reason" % (path, text))
    return said


def tests_of(tree):
    """The tests by name, in the order of run.sh."""
    names = [os.path.basename(p)[:-2] for p in sorted(glob.glob(tree + "/tests/c/test_*.c"))]
    for pattern in ("lua/test_*.lua", "test_*.py", "test_*.sh"):
        names += [os.path.basename(p) for p in sorted(glob.glob(tree + "/tests/" + pattern))]
    return names


# ---- the copy ----

MOST = (16 << 30, 16 << 30)  # bytes that can be written: a fault may ask for memory without end
RUNNING = set()  # process groups that this one has started


def ended(number, _):
    """SIGTERM: what was started ends too."""
    for group in list(RUNNING):
        os.killpg(group, signal.SIGKILL)
    os._exit(128 + number)


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
        self.make("all")

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

    def call(self, command, limit, **environment):
        """Status and output; a command that runs too long is ended with all that it started."""
        environment = {**os.environ, **environment}
        for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
            environment.pop(name, None)
        p = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                             errors="replace", start_new_session=True,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, MOST))
        RUNNING.add(p.pid)
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
        RUNNING.discard(p.pid)
        with open(self.log, "a", encoding="utf-8") as f:
            f.write("$ %s\n%s\nstatus %d\n" % (" ".join(command), said, status))
        return status, said

    def make(self, *targets, limit=900):
        status, said = self.call(["make", "-s", "CUDA=", *targets], limit)
        if status == 124:
            raise NoTime("make has not ended in %.0f s" % limit)
        if status != 0:
            raise Wrong("make %s: %s" % (" ".join(targets), said[-2000:]))

    def build(self, tests, *settings, limit=3600):
        """What these tests need: their programs, or fopo and what it opens."""
        self.make("test-programs", "ONLY=" + " ".join(tests), *settings, limit=limit,
                  *["all"][:any("." in t for t in tests)])

    def fails(self, test, limit):
        """Whether a test, which is built, fails or runs longer than `limit` seconds."""
        _, said = self.call(["bash", "tests/run.sh", self.out, test], limit + 60,
                            FOPO_TEST_LIMIT=str(int(limit)))
        if not re.search(r"^  (ok|skip|FAIL)  ", said, re.M):
            raise Wrong("tests/run.sh %s: %s" % (test, said[-2000:]))
        return "  FAIL  " in said

    def objects(self, file, out):
        """What is compiled of the file, by what the compiler says of each object."""
        of_file, found = re.compile(r"(?<!\S)%s(?!\S)" % re.escape(file)), []
        for path in sorted(glob.glob("%s/%s/**/*.d" % (self.folder, out), recursive=True)):
            with open(path, encoding="utf-8") as f:
                if of_file.search(f.read()):
                    found += [path[:-2] + end for end in (".o", ".gch")
                              if os.path.exists(path[:-2] + end)]
        return found


def gcov(file, data):
    """(path of the counts, what they say of the file) where they have instructions of it."""
    if data:
        said = subprocess.run(["gcov", "--json-format", "--stdout", *data], capture_output=True,
                              text=True, check=True).stdout
        for one in map(json.loads, said.splitlines()):
            for of in one["files"]:
                if os.path.normpath(of["file"]) == file and of["lines"]:
                    yield one["data_file"], of


class Map:
    """Which tests execute a line, and how long each takes: counts of gcov in a folder for each
    test, and the sources of that time. It serves while most of the sources are as they were.
    Tests that were run before the budget was spent are not run again."""
    OUT = "build/coverage"

    def __init__(self, copy, folder, results, without):
        self.copy, self.results, self.without = copy, results, without
        self.folder = os.path.join(folder, "map")
        self.times, self.of_file = os.path.join(self.folder, "seconds.json"), {}
        self.begun = os.path.join(self.folder, "begun.json")

    def tests(self):
        return [t for t in tests_of(self.copy.tree) if t not in NOT_ASKED and t not in self.without]

    def load(self, until=math.inf):
        """The times; the map is made if there is none, or a third of the sources has changed."""
        now = sources(self.copy.tree)
        fits = 3 * sum(not self.same(p) for p in now) <= len(now)
        if not fits or not os.path.exists(self.times):
            self.make(until, fits)
        self.seconds = self.read(self.times)

    @staticmethod
    def read(path):
        with open(path, encoding="utf-8") as f:
            return json.load(f)

    def make(self, until=math.inf, goes_on=False):
        tests = self.tests()
        if not goes_on:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder, exist_ok=True)
        self.copy.build(tests, "OUT=" + self.OUT, "FLAGS_release=-O2 -g -DNDEBUG --coverage",
                        limit=min(3600, max(1, until - time.monotonic())))
        if not os.path.exists(self.begun):
            shutil.copytree(self.copy.folder + "/src", self.folder + "/src", dirs_exist_ok=True)
        seconds = self.read(self.begun) if os.path.exists(self.begun) else {}
        left = [t for t in tests if t not in seconds]
        print("  %d tests are run with counts; this takes longer than make test" % len(left),
              flush=True)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            tried = {pool.submit(self.seconds_of, t, until): t for t in left}
            for one in concurrent.futures.as_completed(tried):
                if one.result() is not False:
                    seconds[tried[one]] = one.result()
                    self.write(self.begun, seconds)
        if len(seconds) < len(tests):
            raise NoTime("%d of %d tests were run with counts; the others the next time"
                         % (len(seconds), len(tests)))
        os.replace(self.begun, self.times)

    @staticmethod
    def write(path, seconds):
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump(seconds, f, indent=0)
        os.replace(path + ".new", path)

    def seconds_of(self, test, until):
        """Runs a test with counts. None: it was skipped; False: there is no time."""
        if time.monotonic() > until:
            return False
        depth = len(os.path.join(self.copy.folder, self.OUT).strip("/").split("/"))
        _, said = self.copy.call(["bash", "tests/run.sh", self.OUT, test], 1900,
                                 GCOV_PREFIX=os.path.join(self.folder, test),
                                 GCOV_PREFIX_STRIP=str(depth))
        m = re.search(r"^  (ok|FAIL)  +\S+ +([\d.]+) s", said, re.M)
        if m and m[1] == "ok":
            self.results.passes(test)
        return float(m[2]) if m else None

    def same(self, file):
        """Whether a file is today as it was when the map was made."""
        try:
            return read(self.folder, file) == read(self.copy.tree, file)
        except OSError:
            return False

    def counts(self, file):
        """{test: {line: count}} of a file, {} where it executes none; the functions' lines; and the
        objects that have its instructions: of a header few of those that include it."""
        if file in self.of_file:
            return self.of_file[file]
        counts, spans, users = collections.defaultdict(collections.Counter), set(), []
        for path in self.copy.objects(file, self.OUT):
            name = os.path.relpath(path[:-2], os.path.join(self.copy.folder, self.OUT))
            data = {os.path.join(self.folder, t, name + ".gcda"): t
                    for t, seconds in self.seconds.items() if seconds is not None}
            data = {p: t for p, t in data.items() if os.path.exists(p)}
            for p in data:  # gcov looks for the notes beside the counts
                if not os.path.lexists(p[:-4] + "gcno"):
                    os.symlink(path[:-2] + ".gcno", p[:-4] + "gcno")
            if not list(gcov(file, list(data)[:1])):
                continue
            users.append(name)
            for path, of in gcov(file, data):
                spans |= {(f["start_line"], f["end_line"]) for f in of["functions"]}
                for line in of["lines"]:
                    counts[data[path]][line["line_number"]] += line["count"]
        self.of_file[file] = counts, sorted(spans), users
        return self.of_file[file]

    def reaching(self, fault, noticed):
        """The tests that execute the fault's line, the nearest and cheapest first: `noticed`, those
        that noticed others of the file, then by time and by how much of the file they execute. A
        line that holds no instruction stands for the one before it, one outside of functions or of
        a file that has changed for the file, and a file that is new for any. At the end those that
        the map does not know; of a new file they come first, as its own tests may be among them."""
        counts, spans, _ = self.counts(fault["file"])
        reached = {t: sum(c > 0 for c in lines.values()) for t, lines in counts.items()}
        is_new = not os.path.exists(os.path.join(self.folder, fault["file"]))
        if is_new:
            reached = {t: 1 for t, seconds in self.seconds.items() if seconds is not None}
        inside = [s for s, e in spans if s <= fault["line"] <= e]
        if inside and self.same(fault["file"]):
            held = max([n for lines in counts.values() for n in lines
                        if inside[-1] <= n <= fault["line"]], default=inside[-1])
            reached = {t: n for t, n in reached.items() if counts[t][held] > 0}
        words = set(re.split(r"[_./]", fault["file"])) - {"src", "c", "cc", "cu"}

        def cost(test):
            named = bool(words & set(re.split(r"[_.]", test)[1:]))
            return test not in noticed, (self.seconds[test] + 3) / reached[test] / (1 + 2 * named)
        known = sorted([t for t in self.tests() if reached.get(t)], key=cost)
        others = [t for t in self.tests() if t not in self.seconds]
        return sorted(others + known, key=lambda t: t not in noticed) if is_new else known + others


class Applied:
    """The fault in the copy. make is told by the objects that are gone, not by the source's time,
    as most objects do not need what a header says. Afterwards source and objects are as before,
    with their times; the programs are newer and are removed, so that make links them again."""

    def __init__(self, copy, fault, users):
        self.copy, self.fault = copy, fault
        self.path = os.path.join(copy.folder, fault["file"])
        out = os.path.join(copy.folder, copy.out)
        self.objects = [p for p in copy.objects(fault["file"], copy.out)
                        if not users or os.path.splitext(os.path.relpath(p, out))[0] in users]

    def __enter__(self):
        with open(self.path, encoding="utf-8") as f:
            text = mutated(f.read(), self.fault)
        shutil.copy2(self.path, self.path + ".kept")
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(text)
        shutil.copystat(self.path + ".kept", self.path)
        for path in self.objects:
            os.replace(path, path + ".kept")

    def __exit__(self, *_):
        for path in [self.path, *self.objects]:
            os.replace(path + ".kept", path)
        out = os.path.join(self.copy.folder, self.copy.out)
        for path in glob.glob(out + "/test_*") + glob.glob(out + "/fopo*") + \
                glob.glob(out + "/emulated/*.so"):
            if os.path.isfile(path) and not path.endswith((".o", ".d")):
                os.remove(path)


# ---- a fault, and all of them ----

HANGS = 20  # seconds, and five times its own, after which a test hangs


class DoesNotBuild(Exception):
    """The fault is no program: another one is drawn."""


def spent():
    """Seconds of CPU of all that was started and has ended: others may keep the machine busy."""
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def judge(copy, reached, fault, limit, until, noticed):
    """Who notices: a name, "" for nobody; how many tests were asked, and of how many."""
    tests, asked = reached.reaching(fault, noticed), 0
    users, begun = reached.counts(fault["file"])[2], spent()
    with Applied(copy, fault, users):
        while asked < len(tests) and spent() - begun < limit and time.monotonic() < until:
            test = tests[asked]
            try:
                if asked % 6 == 0:
                    copy.build(tests[asked:asked + 6])
            except (Wrong, NoTime):
                raise DoesNotBuild() from None
            asked += 1
            hangs = HANGS + 5 * reached.seconds.get(test, 60)
            if copy.fails(test, hangs) and copy.fails(test, hangs):  # not by a busy machine
                return test, asked, len(tests)
    return "", asked, len(tests)


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

    def __init__(self, path, tree, without):
        self.path, self.tree = path, tree
        tests = folder_digest(tree, "tests")
        self.tests, self.state = digest(tests, without), digest(tests, folder_digest(tree, "src"))
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

    def put(self, fault, by, asked, of, seconds):
        row = {"key": self.key(fault), "name": fault["name"], "file": fault["file"], "by": by,
               "asked": asked, "of": of, "seconds": round(seconds, 1), "tests": self.tests}
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
        copy.build([test])
        if copy.fails(test, 600):
            raise Wrong("%s fails without a fault: see %s" % (test, copy.log))
        self.passes(test)

    def passes(self, test):
        self.passing.add((test, self.state))
        self.write({"passes": test, "state": self.state})


def show(row, again):
    print("  %6.1f s  %-70s  %s%s" % (
        row["seconds"], row["name"], "noticed by " + row["by"] if row["by"]
        else "LIVES, %d of %d tests asked" % (row["asked"], row["of"]) if row["of"]
        else "LIVES, not executed", " (known)" if again else ""), flush=True)


def drawn(tree, options):
    """All faults in the order of the seed, which a change elsewhere leaves as it is."""
    faults = [f for path in sources(tree, options.places) for f in faults_of(tree, path)]
    return sorted(faults, key=lambda f: (digest(str(options.seed), f["file"], f["kind"], f["text"]),
                                         f["at"]))


def opened(tree, folder, options):
    """The copy, the results and the map."""
    os.makedirs(folder, exist_ok=True)
    copy = Copy(tree, folder)
    open(copy.log, "w").close()
    results = Results(os.path.join(folder, "results.jsonl"), tree, options.without)
    return copy, results, Map(copy, folder, results, options.without.split())


def run(tree, folder, options):
    """Draws faults and tries them; returns {area: [noticed, known to change nothing, names of those
    that live]}."""
    begun = time.monotonic()
    spared = survivors(tree)
    copy, results, reached = opened(tree, folder, options)
    ready, areas = False, collections.defaultdict(lambda: [0, 0, []])
    for fault in drawn(tree, options):
        if sum(a + b + len(c) for a, b, c in areas.values()) == options.count:
            break
        area = areas[fault["file"].split("/")[1]]
        if (fault["file"], fault["what"], fault["text"]) in spared:
            area[1] += 1
            continue
        row = results.get(fault)
        known = row is not None
        if not known:
            until = begun + options.budget
            if time.monotonic() > until - 10:
                print("  the budget is spent")
                break
            if not ready:
                copy.renew()
                reached.load(until)
                ready = True
            start = time.monotonic()
            try:
                by, asked, of = judge(copy, reached, fault, options.limit, until,
                                      results.noticed(fault["file"]))
            except DoesNotBuild:
                continue
            if not by and asked < of and time.monotonic() > until:
                print("  not decided, no time: " + fault["name"], flush=True)
                continue
            if by:
                results.check_passes(copy, by)
            row = results.put(fault, by, asked, of, time.monotonic() - start)
        show(row, known)
        if row["by"]:
            area[0] += 1
        else:
            area[2].append(row["name"])
    return areas


LEAST = 0.95  # of the faults that change something, a test notices


def report(areas, nightly):
    """Says what was noticed; the exit status."""
    for name in (name for area in areas.values() for name in area[2]):
        print("lives: " + name)
    rows = [(name, a, b, len(c)) for name, (a, b, c) in sorted(areas.items())]
    noticed, spared, lives = (sum(row[i] for row in rows) for i in (1, 2, 3))
    enough = lives <= (1 - LEAST) * (noticed + lives)
    if nightly and noticed + lives == 0:
        print("no fault was tried in this time")
        return 77
    if nightly:
        print("of the faults drawn in src/ a test notices 95 %% | %d | %d"
              % (noticed + lives, lives))
        return 0 if enough else 1
    for name, *row in rows + [("all", noticed, spared, lives)]:
        print("%-10s %4d drawn, %4d noticed, %3d change nothing, %3d live" % (name, sum(row), *row))
    return 0 if enough else 1


def main(arguments):
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("what", choices=["check", "list", "map", "run"])
    parser.add_argument("places", nargs="*")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--budget", type=float, default=1e9)
    parser.add_argument("--limit", type=float, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", default="")
    parser.add_argument("--nightly", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--tree", default=TREE, help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args(arguments)
    tree = os.path.abspath(options.tree)
    folder = os.path.join(tree, "build/mutate")
    try:
        unknown = [p for p in options.places if not os.path.exists(os.path.join(tree, "src", p))]
        if unknown:
            raise Wrong("src/ has no " + ", ".join(unknown))
        said = complaints(tree)
        if said:
            raise Wrong("\n".join(said))
        if options.what == "list":
            for path in sources(tree, options.places):
                print("%-44s %6d" % (path, len(faults_of(tree, path))))
        elif options.what == "map":
            copy, _, reached = opened(tree, folder, options)
            copy.renew()
            reached.make()
        elif options.what == "run":
            return report(run(tree, folder, options), options.nightly)
    except NoTime as e:
        print(e)
        return 77
    except Wrong as e:
        print(e)
        return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, ended)
    sys.exit(main(sys.argv[1:]))
