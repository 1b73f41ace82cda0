"""Files outlive whatever ends their writing: kill -9 during training, kill -9 before each system
call of each writer, a disk that is full at each 4 KiB of each. The old file is whole, the next save
leaves no temporary, and a run that goes on comes to the bits of an undisturbed one.
tests/nightly/kills runs all of it, tests/test_kills.py a share."""
import concurrent.futures
import itertools
import math
import os
import random
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

from proof import Proof
from ranks import missing, MPIRUN
from terminal import children

HERE = os.path.dirname(os.path.abspath(__file__))
FOPO = os.path.abspath(os.environ.get("FOPO", "./fopo"))
WRITERS = os.path.join(HERE, "writers.lua")
PAGE = 4096
ENVIRONMENT = {**os.environ, "FOPO_HISTORY": "/dev/null", "FOPO_THREADS": "1"}
ENVIRONMENT.pop("FOPO_CHECK_SAVES", None)  # the calls that are counted are those of writing


def bytes_of(path):
    with open(path, "rb") as f:
        return f.read()


def temporaries(folder):
    return sorted(n for n in os.listdir(folder) if ".tmp." in n)


def writer_names():
    names = subprocess.run([FOPO, WRITERS, "names"], capture_output=True, text=True,
                           env=ENVIRONMENT, check=True).stdout.split()
    return sorted(n for n in names if n != "plot.svg" or shutil.which("gnuplot"))


def chosen(proof, most):
    """All writers, or some of them where only `most` tries are made."""
    names = writer_names()
    return names if most is None else sorted(proof.random.sample(names, 5))


class Server:
    """A process that writes on demand."""

    def __init__(self, **environment):
        self.process = subprocess.Popen([FOPO, WRITERS, "serve"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        env={**ENVIRONMENT, **environment})
        assert self.process.stdout.readline() == "ready\n"

    def write(self, name, path, version):
        """None, or the sentence of the failure."""
        self.process.stdin.write("%s %s %d\n" % (name, path, version))
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n")
        return None if answer == "ok" else answer or "the process has ended"

    def versions(self, name, folder):
        """The bytes of both versions; the first lies at the path that is returned with them."""
        path = os.path.join(folder, name)
        versions = []
        for version in (2, 1):
            why = self.write(name, path, version)
            assert why is None, why
            versions.append(bytes_of(path))
        return path, versions[1], versions[0]

    def limit(self, size):
        """The most bytes that a file of the process may have; None: no limit."""
        size = resource.RLIM_INFINITY if size is None else size
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---- kill -9 before each system call ----

def tracer(folder):
    """The program tests/c/kill_at.c, compiled; None and why it cannot be used."""
    program = os.path.join(folder, "kill_at")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        return None, "no C compiler for tests/c/kill_at.c"
    made = subprocess.run([compiler, "-std=c11", "-D_GNU_SOURCE", "-O1", "-o", program,
                           os.path.join(HERE, "c", "kill_at.c")], capture_output=True, text=True)
    if made.returncode != 0:
        return None, "tests/c/kill_at.c does not compile here: " + made.stderr
    tried = subprocess.run([program, "0", "true"], capture_output=True, text=True)
    if tried.returncode != 0 or "calls 0" not in tried.stderr:
        return None, "ptrace is not allowed here"
    return program, None


def at_each_call(proof, share, most=None):
    """Kills each writer before each of its calls, in an order by chance."""
    until = proof.until(share)
    folder = tempfile.mkdtemp()
    program, why = tracer(folder)
    if program is None:
        print("skip: a kill before each system call (%s)" % why)
        return
    server, work, places = Server(), {}, []
    for name in chosen(proof, most):
        path, old, new = server.versions(name, folder)
        command = [FOPO, WRITERS, "once", name, path, "2"]
        counted = subprocess.run([program, "0", *command], capture_output=True, text=True,
                                 env=ENVIRONMENT)
        found = re.search(r"calls (\d+)", counted.stderr)
        if not proof.tried(name + ": its calls", found and int(found.group(1)) > 5, counted.stderr):
            continue
        work[name] = path, old, new, command
        places += [(name, n) for n in range(1, int(found.group(1)) + 1)]
    proof.random.shuffle(places)
    for name, n in places[:most]:
        if time.monotonic() > until:
            print("%d of %d calls in this time" % (places.index((name, n)), len(places)))
            break
        path, old, new, command = work[name]
        with open(path, "wb") as f:
            f.write(old)
        ended = subprocess.run([program, str(n), *command], capture_output=True, text=True,
                               env=ENVIRONMENT)
        now = bytes_of(path)
        # the view's picture tells times, which differ from process to process
        is_new = now.endswith(b"</svg>\n") if name == "view.svg" else now == new
        proof.tried("%s, killed before call %d" % (name, n), ended.returncode in (0, 137)
                    and (now == old or is_new), ended.returncode, ended.stderr, len(now))
    for name, (path, _, _, _) in work.items():
        proof.tried(name + ": the next save", server.write(name, path, 1) is None)
    proof.tried("no temporary is left", temporaries(folder) == [], temporaries(folder))
    server.close()
    shutil.rmtree(folder)


# ---- a full disk at each 4 KiB ----

class Disk:
    """A file system in memory of which as much is free as is asked for."""

    def __init__(self, folder, size):
        self.folder = folder
        self.filler = os.path.join(folder, "filler")
        try:
            made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d" % size, "none", folder],
                                  capture_output=True, text=True)
            self.refused = made.stderr.strip() if made.returncode != 0 else None
        except FileNotFoundError:
            self.refused = "there is no mount"

    def leave(self, size):
        with open(self.filler, "wb") as f:
            free = os.statvfs(self.folder)
            room = free.f_bavail * free.f_frsize - size
            try:
                if room > 0:
                    os.posix_fallocate(f.fileno(), 0, room)
            except OSError:  # what is tested has written meanwhile
                pass

    def close(self):
        subprocess.run(["umount", "-l", self.folder], check=True)


def full_at_each_page(proof, share, most=None):
    """What each writer does where only so many bytes fit, by a limit of the process and on a disk
    that is full."""
    until = proof.until(share)
    folder = tempfile.mkdtemp()
    disk = Disk(folder, 64 << 20)
    if disk.refused:
        print("skip: a disk that is full (%s)" % disk.refused)
    server, work, places = Server(TMPDIR=folder), {}, []
    ways = ["limit"] + ([] if disk.refused else ["disk"])
    for name in chosen(proof, most):
        path, old, new = server.versions(name, folder)
        work[name] = path, old, new
        pages = range(0, max(len(old), len(new)) + 2 * PAGE, PAGE)
        places += [(name, way, size) for way in ways for size in pages]
    proof.random.shuffle(places)
    for name, way, size in places[:most]:
        if time.monotonic() > until:
            print("%d places were not reached in this time" % len(places))
            break
        path, old, new = work[name]
        server.limit(size) if way == "limit" else disk.leave(size)
        why = server.write(name, path, 2)
        server.limit(None) if way == "limit" else disk.leave(63 << 20)
        # gnuplot's own files lie on the disk too
        fits = len(new) <= size and (name != "plot.svg" or why is None)
        now = bytes_of(path)
        proof.tried("%s, %s of %d bytes" % (name, way, size), now == (old if why else new) and
                    (why is None) == fits and (fits or "cannot write" in why
                                                   or "cannot be run" in why), why, len(now))
        proof.tried("%s, %s of %d bytes: no temporary" % (name, way, size),
                    temporaries(folder) == [], temporaries(folder))
        if why is None:
            with open(path, "wb") as f:
                f.write(old)
    for name in work:
        if name.endswith(".svg"):  # the ending of the name says what is drawn
            continue
        why = server.write(name, "/dev/full", 2)
        proof.tried(name + " to /dev/full", why and "regular file" in why and
                    stat.S_ISCHR(os.stat("/dev/full").st_mode), why)
    server.close()
    if not disk.refused:
        disk.close()
    shutil.rmtree(folder)


# ---- kill -9 during a training ----

class Training:
    """A training that saves all the time, in a folder of its own."""

    def __init__(self, place, steps, seed, *more):
        self.folder = tempfile.mkdtemp(dir=place)
        self.arguments = [FOPO, os.path.join(HERE, "killed.lua"), self.folder, str(steps),
                          str(seed), *more]

    def start(self):
        return subprocess.Popen(self.arguments, text=True, env=ENVIRONMENT,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def close(self):
        shutil.rmtree(self.folder)


def undisturbed(steps, seed):
    t = Training(None, steps, seed)
    out, err = t.start().communicate()
    t.close()
    assert "theta " in out, err
    return out.splitlines()[-1]


def kill(process, after):
    """Kills it so long after it is ready; its exit code, its last line, its errors."""
    first = process.stdout.readline()
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    # not communicate(), which does not see what came with the first line
    out, err = process.stdout.read(), process.stderr.read()
    process.wait()
    return process.returncode, (out or first).splitlines()[-1:], err


def during_training(proof, share, kills, steps=300):
    until = proof.until(share)
    places = [None] + (["/dev/shm"] if os.access("/dev/shm", os.W_OK) else [])
    done, chains = 0, 0
    while done < kills and time.monotonic() < until:
        seed, place = chains % 4, places[chains % len(places)]
        wanted = undisturbed(steps, seed)
        t, chains, code = Training(place, steps, seed), chains + 1, None
        while code != 0:
            if done < kills and time.monotonic() < until:
                code, last, err = kill(t.start(), proof.random.uniform(0, 0.3))
                done += 1
                if not proof.tried("killed in training", code in (0, -signal.SIGKILL), code, err):
                    break
            else:  # to its end
                process = t.start()
                out, err = process.communicate()
                code, last = process.returncode, out.splitlines()[-1:]
                if not proof.tried("goes on", code == 0, code, err):
                    break
        proof.tried("the bits of an undisturbed training", last == [wanted],
                    [line[:300] for line in last])
        proof.tried("at most what the last kill left", len(temporaries(t.folder)) <= 4,
                    temporaries(t.folder))
        t.close()
    print("%d kills in %d trainings" % (done, chains))


# ---- kill -9 and signals during trainings of all kinds ----

KEPT = os.path.join(HERE, "kept.lua")
CHECKING = {**ENVIRONMENT, "FOPO_CHECK_SAVES": "1"}
ENDS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT,
        signal.SIGXCPU)
LIMIT = 120  # seconds: a process that takes longer hangs


class Kept:
    """A process of a training that is drawn by a seed, or mpirun of several."""

    def __init__(self, folder, seed, ranks, how=""):
        words = [FOPO, KEPT, folder, str(seed), "ranks" if ranks else "alone", how]
        if ranks:
            words = MPIRUN + ["-n", str(ranks)] + words
        # a shell in the background hands on SIGINT ignored
        self.process = subprocess.Popen(
            words, text=True, env=CHECKING, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
        self.ranks, self.lines, self.hangs = ranks, [], False
        self.errors = []
        self.reader = threading.Thread(target=self.errors.extend, args=(self.process.stderr,))
        self.reader.start()
        self.watch = threading.Timer(LIMIT, self.hang)
        self.watch.start()

    def hang(self):
        self.hangs = True
        for pid in [*self.pids(), self.process.pid]:
            os.kill(pid, signal.SIGKILL)

    def line(self):
        self.lines.append(self.process.stdout.readline().rstrip("\n"))
        return self.lines[-1]

    def pids(self):
        """The processes of fopo."""
        if not self.ranks:
            return [self.process.pid]
        try:
            return children(self.process.pid)
        except OSError:
            return []

    def end(self, how, dice):
        """Sends the signal: to a process, to mpirun, to one of its ranks, or to all of them."""
        pids = [self.process.pid]
        if self.ranks:
            ranks = self.pids()
            pids = dice.choice([[dice.choice(ranks)] if ranks else [], [self.process.pid],
                                [*ranks, self.process.pid]])
        for pid in pids:
            try:
                os.kill(pid, how)
            except ProcessLookupError:
                pass

    def wait(self):
        """Its exit code, its lines and its errors, when nothing is left of it."""
        left = self.pids() if self.ranks else []
        self.lines += self.process.stdout.read().splitlines()
        code = self.process.wait()
        self.reader.join()
        self.process.stdin.close()
        while any(os.path.exists("/proc/%d" % pid) for pid in left) and not self.hangs:
            time.sleep(0.005)
        self.watch.cancel()
        return "hangs" if self.hangs else code, self.lines, "".join(self.errors)[-2000:]


def to_its_end(folder, seed, ranks):
    """What a training ends with, and None or why it did not; seconds before it began, and then."""
    begun = time.monotonic()
    process = Kept(folder, seed, ranks)
    process.line()
    ready = time.monotonic()
    code, lines, err = process.wait()
    lines = lines[1:]  # without "ready" and its step
    return (lines, None if code == 0 and lines else (code, err), ready - begun,
            time.monotonic() - ready)


def different(lines, wanted):
    """The first line that differs, of both, cut."""
    for one, other in zip(lines, wanted):
        if one != other:
            return one[:400], other[:400]
    return len(lines), len(wanted)


def near(lines, wanted):
    """True if numbers agree but for what sums in another order make."""
    for one, other in zip(lines, wanted):
        for a, b in zip(one.split(), other.split()):
            if a != b and abs(as_number(a) - as_number(b)) > 1e-4 * max(1, abs(as_number(b))):
                return False
    return len(lines) == len(wanted)


def as_number(word):
    try:
        return float.fromhex(word) if "0x" in word else float(word)
    except ValueError:
        return math.inf


class Drawn:
    """One training, ended about `kills` times, and compared with one that was not disturbed."""

    def __init__(self, seed, kills, ranks):
        self.seed, self.kills, self.dice = seed, kills, random.Random(seed)
        self.ranks = self.dice.choice((2, 2, 4)) if ranks else 0
        self.folder, self.whole = tempfile.mkdtemp(), tempfile.mkdtemp()
        self.tries, self.done, self.differs = [], 0, False

    def tried(self, what, condition, *seen):
        name = "%s, seed %d%s" % (what, self.seed, ", %d ranks" % self.ranks if self.ranks else "")
        self.tries.append((name, condition, *seen))
        return condition

    def second(self, first):
        """A second run on the log and the checkpoint of one that waits meanwhile."""
        while first.lines[-1] not in ("begun", ""):
            first.line()
        if first.lines[-1] == "":
            return
        pids = first.pids()
        second = Kept(self.folder, self.seed, 0 if self.ranks == 0 else 1, "second")
        code, lines, err = second.wait()
        refused = [line for line in lines if any("is in use by another run, of process %d " % pid
                                                 in line for pid in pids)]
        self.tried("a second run", code == 0 and len(refused) == 2, lines, err)
        first.process.stdin.write("\n")
        first.process.stdin.flush()

    def end_once(self, hold, before, during):
        """Starts it, and ends it at a moment by chance; True if it may be started again."""
        process = Kept(self.folder, self.seed, self.ranks, "hold" if hold else "")
        if hold:
            process.line()
            self.second(process)
        elif self.dice.random() < 0.1:
            during = before
        else:
            process.line()
        time.sleep(self.dice.uniform(0, during))
        how = self.dice.choice(ENDS)
        process.end(how, self.dice)
        if how != signal.SIGKILL and self.dice.random() < 0.3:  # while it writes its last state
            time.sleep(self.dice.uniform(0, 0.005))
            process.end(signal.SIGKILL, self.dice)
        code, lines, err = process.wait()
        ended = code in (-how, -signal.SIGKILL, 128 + how) or \
            how == signal.SIGINT and code == 1 and "interrupted" in err or \
            self.ranks > 0 and code not in (0, "hangs")
        self.done += ended
        if not self.tried("ended by %s" % how.name, ended or code == 0, code, err):
            return False
        if code == 0:  # the signal came late
            self.kills = 0
        return True

    def on_another_number(self, wanted):
        """The checkpoint goes on with another number of ranks."""
        other = self.dice.choice([n for n in (1, 2, 4) if n != self.ranks])
        copy = tempfile.mkdtemp()
        shutil.rmtree(copy)
        shutil.copytree(self.folder, copy)
        lines, why, _, _ = to_its_end(copy, self.seed, other)
        exact = not any("shared items" in line for line in wanted[:2])
        self.tried("goes on with %d ranks" % other, why is None and
                   (lines == wanted if exact else near(lines, wanted)),
                   why or different(lines, wanted))
        shutil.rmtree(copy)

    def run(self):
        wanted, why, before, during = to_its_end(self.whole, self.seed, self.ranks)
        if self.tried("undisturbed", why is None, why):
            each = 1.3 * during / self.kills
            while self.done < self.kills and \
                    self.end_once(self.done == 1, before, each):
                if self.ranks and self.done == self.kills // 2 > 0:
                    self.on_another_number(wanted)
            lines, why, _, _ = to_its_end(self.folder, self.seed, self.ranks)
            self.differs = not self.tried("as if it had not been disturbed", why is None and
                                          lines == wanted, why or different(lines, wanted),
                                          wanted[1:2])
        shutil.rmtree(self.whole)
        shutil.rmtree(self.folder)
        return self


def drawn(proof, share, kills, each=10, first=1, ranks=False, at_once=1, file=None):
    """Draws trainings, ends each about `each` times, and compares what comes with the one that was
    not disturbed. file: has a line for each that is done, so that another call goes on behind it.
    The seeds of those that differ are said at the end."""
    until, known, differ, seeds = proof.until(share), {}, [], itertools.count(first)
    if ranks and missing():
        print("skip: kills of several processes (%s)" % missing())
        return
    if file and os.path.exists(file):
        with open(file) as f:
            known = {int(words[0]): words[1:] for words in map(str.split, f)}
    done, trainings = sum(int(k[0]) for k in known.values()), len(known)
    differ = [seed for seed, k in known.items() if k[1] == "differs"]

    def one(seed):
        return Drawn(seed, each, ranks).run()

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        running = set()
        while running or done < kills and time.monotonic() < until:
            while len(running) < at_once and done < kills and time.monotonic() < until:
                seed = next(seed for seed in seeds if seed not in known)
                running.add(pool.submit(one, seed))
            ended, running = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED)
            for training in (future.result() for future in ended):
                for name, condition, *seen in training.tries:
                    proof.tried(name, condition, *seen)
                done, trainings = done + training.done, trainings + 1
                differ += [training.seed] * training.differs
                if file:
                    with open(file, "a") as f:
                        f.write("%d %d %s\n" % (training.seed, training.done,
                                                "differs" if training.differs else "same"))
    print("%d kills of %d trainings%s, %d of them differ%s" %
          (done, trainings, " on several processes" if ranks else "", len(differ),
           ": seeds %s" % sorted(differ) if differ else ""), flush=True)


# ---- a disk that fills up while a training goes on ----

def filling_disk(proof, share, rounds, steps=300):
    until = proof.until(share)
    wanted = undisturbed(steps, 1)
    for _ in range(rounds):
        if time.monotonic() > until:
            break
        t = Training(None, steps, 1, "a full disk costs the log")
        disk = Disk(t.folder, 4 << 20)
        if disk.refused:
            print("skip: a disk that fills up during a training (%s)" % disk.refused)
            t.close()
            return
        process = t.start()
        process.stdout.readline()
        while process.poll() is None:
            disk.leave(proof.random.choice((0, PAGE, 3 * PAGE, 9 * PAGE, 3 << 20)))
            time.sleep(proof.random.uniform(0, 0.05))
        out, err = process.communicate()
        # saves by the script's own hand raise; what the run keeps does not
        proof.tried("a disk that fills up: a sentence, or theta's bits",
                    out.splitlines()[-1:] == [wanted] if process.returncode == 0 else
                    process.returncode == 1 and "cannot write" in err, process.returncode, err)
        disk.leave(3 << 20)
        proof.tried("no temporary on the full disk", temporaries(t.folder) == [],
                    temporaries(t.folder))
        again = t.start()
        out, err = again.communicate()
        proof.tried("goes on to the bits", out.splitlines()[-1:] == [wanted], err)
        disk.close()
        t.close()


if __name__ == "__main__":  # kills.py KILLS [FIRST SEED [FILE ["ranks"]]]
    kills, first = int(sys.argv[1]), int((sys.argv[2:] or ["1"])[0])
    trial = Proof("trainings go on through whatever ends them", seconds=math.inf)
    drawn(trial, 1, kills, first=first, file=(sys.argv[3:] or [None])[0],
          ranks=sys.argv[4:] == ["ranks"])
    trial.end()
