"""make test-ranks: from a file of made rows to a policy that one process serves, on ranks of
little memory: 4 that are killed while they train, 5 that go on and are killed too, and 4 that end
(scripts/examples/ranks.lua). Prints the seconds of each stage and the most memory of a rank in it.

    python3 tests/ranks_killed.py [interactions [GB [folder]]]       1e6 1, and a new folder

GB is what ulimit -v leaves each process. The rows, 16 bytes each, are made where the folder has
none, and stay if a folder is named. A user has about 111 interactions, and there are nearly as many
items as users. 10^7 rows or 10^8 are the same with ten times the users and items."""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from checks import check, failures
from ranks import ALONE, FOPO, MPIRUN, missing

if missing():
    print("skip: ranks that are killed (" + missing() + ")")
    sys.exit(77)

ROWS = round(float(sys.argv[1])) if len(sys.argv) > 1 else 1000000
LIMIT = float(sys.argv[2]) if len(sys.argv) > 2 else 1
FOLDER = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else tempfile.mkdtemp()
EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scripts/examples/ranks.lua")
STEPS, SECONDS = 3000, 1      # a checkpoint every second
DIGITS = len(str(ROWS)) - 3   # of a name
USERS = 9 * 10**(DIGITS - 1)


def write_rows(path):
    """Names of DIGITS digits. Users come in passes, each user once in each, in runs of users whose
    last digits are in a random order. The last three digits of an item are PER times the pass, and
    less than PER more, so that no pair repeats; low digits are twice as likely as high ones before
    them, so that some items are popular."""
    chance, b = random.Random(1), min(4, DIGITS - 1)
    first = bytes(b"123456789"[i % 9] for i in range(256))
    low = bytes(b"011223344556789"[i % 15] for i in range(256))
    orders = [chance.sample(range(10**b), 10**b) for _ in range(50)]
    ends = [[bytes(48 + n // 10**k % 10 for n in order) for k in reversed(range(b))]
            for order in orders]
    width, run, written, PER = 2 * DIGITS + 2, 10**b, 0, 8
    rows = bytearray(width * run)
    rows[DIGITS::width], rows[width - 1::width] = b"," * run, b"\n" * run
    with open(path + ".new", "wb") as f:
        f.write(b"user,item\n")
        while written < ROWS:
            pass_, heads = written // USERS, list(range(10**(DIGITS - b - 1), 10**(DIGITS - b)))
            chance.shuffle(heads)
            last = [bytes(48 + (PER * pass_ + i % PER) // 10**k % 10 for i in range(256))
                    for k in (2, 1, 0)]
            for head in heads:
                digits = [bytes([c]) * run for c in str(head).encode()] + chance.choice(ends)
                own = chance.randbytes(run)
                digits += [chance.randbytes(run).translate(low if i else first)
                           for i in range(DIGITS - 3)] + [own.translate(t) for t in last]
                for i, column in enumerate(digits):
                    rows[i + (i >= DIGITS)::width] = column
                f.write(rows)
                written += run
                if written >= ROWS:
                    break
    os.rename(path + ".new", path)


# ---- a run, and what it takes ----

# What the example has printed last of all when a stage ends.
ENDS = ((r"ranks by ", "start"), (r"dataset ", "read"), (r"split: ", "split"),
        (r"array ", "items"), (r"sessions shared out", "contexts"), (r"resumed at", "resume"),
        (r"evaluation: ", "train, save, evaluate"))


def children(pid):
    """The fopo processes below a process."""
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in open(f"/proc/{pid}/task/{task}/children").read().split():
                own = open(f"/proc/{child}/comm").read() == "fopo\n"
                found += [int(child)] if own else children(child)
    except OSError:
        pass  # it has ended
    return found


def take_peak(pids):
    """GB that one of them has taken at most since the last look."""
    peaks = [0]
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status") as f:
                peaks += [int(w.split()[1]) * 1024e-9 for w in f if w.startswith("VmHWM")]
            with open(f"/proc/{pid}/clear_refs", "w") as f:
                f.write("5")
        except OSError:
            pass
    return max(peaks)


def limited(*words):
    return ["sh", "-c", f'ulimit -v {round(LIMIT * 1e6)}; exec "$@"', "sh", *words]


def changed(path):
    return os.stat(path).st_mtime_ns if os.path.exists(path) else 0


def run(ranks, killed):
    """The example on so many ranks; killed: one of them is, by SIGKILL, once it has written a
    checkpoint. Its code and what it said."""
    words = limited(FOPO, EXAMPLE, "rows.csv", "16", str(STEPS), ".", str(SECONDS))
    before, said, stage, peak = changed("checkpoint.npz"), "", 0, 0.0
    with open("said", "w") as f:
        process = subprocess.Popen(MPIRUN + ["-n", str(ranks), *words], env=ALONE, stdout=f,
                                   stderr=f, stdin=subprocess.DEVNULL)
    began = start = time.monotonic()
    with open("said") as f:
        while True:
            pids, ended = children(process.pid), process.poll() is not None
            peak, more = max(peak, take_peak(pids)), f.read()
            said += more
            for line in more.split("\n"):
                names = [name for word, name in ENDS if word in line]
                if names:
                    now = time.monotonic()
                    print(f"  {ranks:5}  {names[0]:22} {now - start:8.1f} {peak:8.2f}", flush=True)
                    start, peak = now, 0.0
            if ended:
                break
            if killed and "sessions shared out" in said and changed("checkpoint.npz") > before:
                os.kill(pids[-1], signal.SIGKILL)
                killed = False
                print(f"  {ranks:5}  {'until the kill':22} {time.monotonic() - start:8.1f} "
                      f"{peak:8.2f}", flush=True)
            time.sleep(0.1)
    start = time.monotonic()
    print(f"  {ranks:5}  {'in all':22} {start - began:8.1f}", flush=True)
    while pids and time.monotonic() < start + 30:  # one that is killed gives gigabytes back first
        pids = [p for p in pids if os.path.exists(f"/proc/{p}")]
        time.sleep(0.1)
    check(f"{ranks} ranks: nobody is left", not pids, pids)
    return process.returncode, said


os.chdir(FOLDER)
if not os.path.exists("rows.csv"):
    began = time.monotonic()
    write_rows("rows.csv")
    print(f"  {ROWS:,} rows made in {time.monotonic() - began:.0f} s")
print(f"  ranks  {'stage':22}  seconds  GB of a rank, at most")
steps = [0]
for ranks, killed in ((4, True), (5, True), (4, False)):
    code, said = run(ranks, killed)
    check(f"{ranks} ranks: {'killed' if killed else 'ended'}", (code != 0) == killed, code, said)
    found = re.search(r"resumed at step (\d+)", said)
    steps += [int(found.group(1))] if found else []
check("each went on from the one before", len(steps) == 3 and 0 < steps[1] < steps[2], steps)

# ---- one process serves the policy ----

SERVE = """
local began = fopo.clock()
local pi = fopo.policy.load("policy.npz")
local loaded, name = fopo.clock() - began, "%s"
local best = pi:recommend({items = {name}}, 3)
for _, one in ipairs(best) do io.write(one.name, " ") end
print(loaded, fopo.clock() - began - loaded, fopo.memory().peak / 1e9)"""
with open("rows.csv") as f:
    name = f.read(200).split("\n")[1].split(",")[1]
done = subprocess.run(limited(FOPO, "-e", SERVE % name), capture_output=True, text=True, env=ALONE,
                      stdin=subprocess.DEVNULL)
words = done.stdout.split()
check("one process serves it", done.returncode == 0 and len(words) == 6 and
      all(len(w) == DIGITS and w.isdigit() and w != name for w in words[:3]), done)
print(f"      1  {'load':22} {float(words[3]):8.1f} {float(words[5]):8.2f}\n"
      f"      1  {'recommend':22} {float(words[4]):8.1f}")
os.chdir("/")
if len(sys.argv) < 4:
    shutil.rmtree(FOLDER)
sys.exit(1 if failures else 0)
