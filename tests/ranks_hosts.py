"""make test-ranks: several hosts (tests/hosts.py). The bits are those of one process over any
link; a host that is killed, cut off or has a full disk ends all, or costs a checkpoint, with a
sentence that names rank and host; signals leave a checkpoint. Then what a step sends, against what
the network card counts, and how its time grows with the latency."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from checks import check, failures
import hosts

FOPO = os.environ.get("FOPO", os.path.abspath("build/release/fopo"))
why = hosts.missing()
if not why and not os.access(os.path.join(os.path.dirname(os.path.realpath(FOPO)), "fopo_mpi.so"),
                             os.R_OK):
    why = "make has built no fopo_mpi.so"
if why:
    print("skip: several hosts (" + why + ")")
    sys.exit(77)

folder = tempfile.mkdtemp()
os.chdir(folder)
ENV = {**os.environ, "FOPO_THREADS": "1"}
WATCHED = ["--mca", "oob_tcp_keepalive_time", "3", "--mca", "oob_tcp_keepalive_intvl", "1",
           "--mca", "oob_tcp_keepalive_probes", "3"]  # docs/ranks.md


def end(process, limit=60):
    """Its code, outputs and how long they took."""
    began = time.monotonic()
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        return 124, "", "it does not end", time.monotonic() - began
    return process.returncode, out, err, time.monotonic() - began


def alone(code):
    return subprocess.run([FOPO, "-e", code], capture_output=True, text=True, env=ENV).stdout


WORLD = """
s = data.synthetic{users = 400, items = 500, clusters = 8, seed = 3}:sessions{min_items = 10}
items = embed.svd(s.train, {dim = 8})
function new(items, o)
  o = o or {}
  o.policy, o.data = policy.linear{items = items, theta = "identity", temperature = 0.3}, s.train
  o.contexts, o.valid, o.batch, o.seed = s.train:contexts(items), false, 13, 7
  o.gradient = gradient.head_tail{head = 64, tail = 16}
  return fopo.trainer(o)
end
"""

# ---- the same bits ----

SAME = WORLD + """
for _, it in ipairs{items, fopo.shard(items)} do
  local t = new(it)
  t:run{steps = 40, view = false}
  local e = fopo.evaluate(t.policy, s.test)
  print(("%.17g %.17g"):format(t.policy:theta():norm(), e.expected))
end
"""
truth = alone(SAME).split("\n")
answers = {}
for name, delay, loss in (("a bridge", None, 0.0), ("2 ms and 1 % loss", 0.002, 0.01)):
    with hosts.Hosts(3, delay, loss) as net:
        code, out, err, seconds = end(net.start(FOPO, "-e", SAME, env=ENV))
    print(f"  3 hosts, {name}: {seconds:.1f} s")
    check(f"{name}: it ends", code == 0, out, err)
    answers[name] = out.split("\n")
    check(f"{name}: the bits of one process", answers[name][0] == truth[0], out, truth)
    near = zip(*(map(float, a[1].split()) for a in (answers[name], truth))) if code == 0 else []
    check(f"{name}: dealt out", code == 0 and all(abs(a / b - 1) < 1e-6 for a, b in near), out,
          truth)
check("delay and loss change no bit", len(set(map(tuple, answers.values()))) == 1, answers)

# ---- what ends, or does not ----

LONG = WORLD + """
io.open("pid-" .. fopo.ranks().rank, "w"):write("begun"):close()
local it = SHARDED and fopo.shard(items) or items
new(it):run{steps = 1e7, every = 1e6, view = false, checkpoint = "CHECKPOINT", every_seconds = 0.3}
"""


def begin(net, name, sharded=False):
    """A run on all hosts that has written a checkpoint."""
    code = LONG.replace("CHECKPOINT", name).replace("SHARDED", str(sharded).lower())
    process, until = net.start(FOPO, "-e", code, more=WATCHED, env=ENV), time.monotonic() + 60
    while not os.path.exists(name) and time.monotonic() < until and process.poll() is None:
        time.sleep(0.05)
    time.sleep(0.5)
    return process


def whole(name):
    """Of a checkpoint: it can be resumed, and an unbroken run has its bits."""
    return alone(WORLD + f"""
t, u = new(items), new(items)
t:resume("{name}")
local step = t.step
u:run{{steps = step, view = false}}
t:run{{steps = 5, view = false}}
u:run{{steps = 5, view = false}}
print(step > 0, t.policy:theta():norm() == u.policy:theta():norm())""") == "true\ttrue\n"


def left(net, i):
    """The fopo processes of host i."""
    found = []
    for pid in net.processes(i):
        try:
            words = open(f"/proc/{pid}/cmdline").read().split("\0")
        except OSError:
            continue
        found += [pid] * (words[0] == FOPO)
    return found


for name in ("killed", "cut off"):
    for lost in (1, 3) if name == "killed" else (2,):
        file = f"{name.replace(' ', '-')}-{lost}.npz"
        with hosts.Hosts(3) as net:
            process = begin(net, file, sharded=lost == 3)
            if name == "killed":
                net.kill(lost)
            else:
                net.cut(lost)
            code, out, err, seconds = end(process)
            print(f"  host{lost} {name}: all ended after {seconds:.1f} s")
            until = time.monotonic() + 3  # the last one may still be leaving
            while any(left(net, i) for i in (1, 2, 3)) and time.monotonic() < until:
                time.sleep(0.1)
            check(f"host{lost} {name}: within 10 s", code != 0 and seconds < 10, code, err)
            check(f"host{lost} {name}: nobody is left", not any(left(net, i) for i in (1, 2, 3)))
            if lost > 1:  # with host1 the screen is lost
                said = f"has lost rank {lost - 1} on host{lost}: "
                check(f"host{lost} {name}: it is said", said in err, err)
        check(f"host{lost} {name}: the checkpoint is whole", lost == 3 or whole(file))
        check("no file half-written", [f for f in os.listdir(".") if f.startswith(file)] == [file],
              os.listdir("."))

with hosts.Hosts(3) as net:
    process = begin(net, "ended.npz")
    mpirun = [p for p in net.processes(1) if open(f"/proc/{p}/comm").read() == "mpirun\n"]
    os.kill(mpirun[0], signal.SIGINT)
    code, out, err, seconds = end(process)
    check("Ctrl-C at mpirun", code != 0 and seconds < 10 and
          err.count("ended.npz is the checkpoint of step") == 1 and "has lost" not in err and
          "has failed" not in err, code, err)
    check("its checkpoint", whole("ended.npz"))
    code, out, err, seconds = end(net.start(FOPO, "-e", WORLD + """
t = new(items)
t:run{steps = 50, view = false}
if fopo.ranks().rank == 2 then error("of the third") end
t:run{steps = 1e7, view = false}""", env=ENV))
    check("an error on one host", code != 0 and seconds < 15 and
          "rank 2 of 3 on host3 has failed" in err and "of the third" in err, seconds, err)

# A full disk: where the checkpoint is written it costs the checkpoint, and is said; where a part of
# the items is, it is an error of that rank.
os.mkdir("disk")
FULL = WORLD + """
t = new(items)
t:run{steps = 300, view = false, checkpoint = "disk/c.npz", every_seconds = 1e-3}
print(t.step)
local ok, why = pcall(items.save, fopo.shard(items), "disk/beta.parts")
io.stderr:write(("rank %d: %s\\n"):format(fopo.ranks().rank, ok and "saved" or why))
"""
for lost in (1, 3):
    with hosts.Hosts(3, full={lost: ("disk", 4096)}) as net:
        code, out, err, seconds = end(net.start(FOPO, "-e", FULL, env=ENV))
    check(f"host{lost} is full: the training goes on", code == 0 and out == "300\n", code, out, err)
    missed = [line for line in err.split("\n") if "no checkpoint at step" in line]
    check("the checkpoint is missed on host1 alone", len(missed) == (1 if lost == 1 else 0) and
          all("by rank 0 (host1)" in line and "cannot write disk/c.npz" in line for line in missed),
          err)
    check("who has failed", f"rank {lost - 1}: " in err and "cannot write disk/beta" in err and
          err.count(f"rank {lost - 1} (host{lost}) has failed") == 2, err)

# ---- what a step sends ----

STEPS = WORLD + """
items = embed.svd(s.train, {dim = 32})
if SHARDED then items = fopo.shard(items) end
t = new(items)
t:run{steps = 50, view = false}
if not NUMBER then return end
local a, least = fopo.ranks(), math.huge
for _ = 1, 5 do -- other work on the machine delays some of them
  local began = fopo.clock()
  t:run{steps = NUMBER // 5, every = NUMBER // 5, view = false}
  least = math.min(least, (fopo.clock() - began) / (NUMBER // 5))
end
local b = fopo.ranks()
print((b.bytes - a.bytes) / NUMBER, (b.calls - a.calls) / NUMBER,
      (b.messages - a.messages) / NUMBER, least * 1e3)
"""


def steps(net, ranks, sharded, number):
    """Bytes, calls, messages and ms of a step as the program counts; packets and bytes of the
    network card of host2 in all."""
    code = STEPS.replace("SHARDED", str(sharded).lower()).replace("NUMBER", str(number))
    before = net.sent(2)
    status, out, err, _ = end(net.start(FOPO, "-e", code, ranks=ranks, env=ENV), 120)
    check(f"{ranks} ranks, {number} steps", status == 0, out, err)
    counted = [float(w) for w in out.split()] if number else []
    return counted + [now - then for now, then in zip(net.sent(2), before)]


print("  ranks dealt-out delay | bytes, calls, messages, ms a step | packets, bytes of the card")
slopes = {}
for delay in (None, 0.001, 0.003):
    with hosts.Hosts(3, delay) as net:
        for ranks in (2, 3):
            for sharded in (False, True):
                n = 2000 if delay is None else 100
                base = steps(net, ranks, sharded, 0 or "nil") if delay is None else [0, 0]
                row = steps(net, ranks, sharded, n)
                packets, size = ((row[-2] - base[-2]) / n, (row[-1] - base[-1]) / n)
                slopes.setdefault((ranks, sharded), []).append(row[3])
                print("  %d %-5s %4.1f ms | %6.0f %4.2f %5.2f %7.3f | %5.1f %7.0f" % (
                    ranks, sharded, (delay or 0) * 1e3, *row[:4], packets, size))
                if delay is None:
                    # a packet a message, and acknowledgements; MPI's headers are below 100
                    check("messages", row[2] <= packets < 4 * row[2] + 4, row, packets)
                    check("bytes", row[0] * 0.9 < size < (ranks - 1) * row[0] + 170 * packets, row,
                          size)
for (ranks, sharded), ms in slopes.items():
    latencies = (ms[2] - ms[1]) / 2
    print(f"  {ranks} ranks, dealt out {sharded}: a step takes {latencies:.1f} latencies")
    if ranks == 2:  # three share the cores of two
        check("latencies of a step", 1.2 < latencies < (14 if sharded else 9), ms)

os.chdir("/")
shutil.rmtree(folder)
sys.exit(1 if failures else 0)
