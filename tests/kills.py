"""Files outlive whatever ends their writing: kill -9 during training, kill -9 before each system
call of each writer, a disk that is full at each 4 KiB of each. The old file is whole, the next save
leaves no temporary, and a run that goes on comes to the bits of an undisturbed one.
tests/nightly/kills runs all of it, tests/test_kills.py a share."""
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import time

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
ENDS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def kept(folder, seed, *more):
    # a shell in the background hands on SIGINT ignored
    return subprocess.Popen([FOPO, KEPT, folder, str(seed), *more], text=True, env=CHECKING,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            stdin=subprocess.DEVNULL,
                            preexec_fn=lambda: signal.signal(signal.SIGINT,
                                                             signal.default_int_handler))


def to_its_end(folder, seed):
    """What a training ends with, and None or why it did not."""
    process = kept(folder, seed)
    out, err = process.communicate()
    lines = out.splitlines()[1:]  # without "ready" and its step
    return lines, None if process.returncode == 0 and lines else (process.returncode, err)


def different(lines, wanted):
    """The first line that differs, of both, cut."""
    for one, other in zip(lines, wanted):
        if one != other:
            return one[:400], other[:400]
    return len(lines), len(wanted)


def shared(proof, folder, seed, process):
    """A second run on the same log and checkpoint, while the process trains."""
    second = kept(folder, seed, "second")
    out, err = second.communicate()
    refused = [line for line in out.splitlines() if "is in use by another run, of process %d"
               % process.pid in line]
    free = out.splitlines().count("it is free")  # the run may have ended meanwhile
    return proof.tried("a second run, seed %d" % seed, second.returncode == 0 and
                       len(refused) + free == 2, out, err)


def drawn(proof, share, kills, each=10, first=1):
    """Draws trainings, ends each about `each` times, and compares what comes with the one that
    was not disturbed."""
    until, done, seed, differing = proof.until(share), 0, first, 0
    while done < kills and time.monotonic() < until:
        whole, folder = tempfile.mkdtemp(), tempfile.mkdtemp()
        begun = time.monotonic()
        wanted, why = to_its_end(whole, seed)
        took = time.monotonic() - begun
        shutil.rmtree(whole)
        if not proof.tried("undisturbed, seed %d" % seed, why is None, why):
            seed += 1
            continue
        for n in range(min(each, kills - done)):
            process = kept(folder, seed)
            first_line = process.stdout.readline()
            if n == 1 and each > 1:
                shared(proof, folder, seed, process)
            time.sleep(proof.random.uniform(0, 0.6 * took))
            how = proof.random.choice(ENDS)
            process.send_signal(how)
            out, err = process.stdout.read(), process.stderr.read()
            process.wait()
            done += 1
            if not proof.tried("ended by %s, seed %d" % (how.name, seed), first_line == "" or
                               process.returncode in (0, -how, 128 + how) or
                               (how == signal.SIGINT and process.returncode == 1 and
                                "interrupted" in err), process.returncode, err[-2000:]):
                break
        lines, why = to_its_end(folder, seed)
        same = why is None and lines == wanted
        differing += not same
        proof.tried("as if it had not been disturbed, seed %d" % seed, same,
                    why or different(lines, wanted), wanted[:1])
        shutil.rmtree(folder)
        seed += 1
    print("%d kills of %d drawn trainings, %d of them differ" % (done, seed - first, differing))


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
