"""Memory: what work says that it needs is what it takes, the smallest limit of the machine is seen,
and temporaries at the prompt stay bounded.
tests/nightly/memory runs all of it, tests/test_memory.py a share."""
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FOPO = os.path.abspath(os.environ.get("FOPO", "./fopo"))
ESTIMATES = os.path.join(HERE, "estimates.lua")
WITHIN = 0.10
SMALL = 8 << 20  # bytes that have no estimate: stacks, buffers of files and of BLAS, Lua's values
GB = 10 ** 9
ROOM = 1800 * 10 ** 6  # address space for temporaries: libraries and stacks of threads have a part


def names():
    return sorted(subprocess.run([FOPO, ESTIMATES, "names"], capture_output=True, text=True,
                                 check=True).stdout.split())


def estimate(proof, name, scale):
    """Compares what was asked for with the larger one of what fopo counted and of the process."""
    folder = tempfile.mkdtemp()
    done = subprocess.run([FOPO, ESTIMATES, name, str(scale), folder], capture_output=True,
                          text=True)
    shutil.rmtree(folder)
    found = re.search(r"^(\d+)\t(-?\d+)\t(-?\d+)\ttrue$", done.stdout, re.M)
    if not proof.tried(name + ": it runs", found, done.stdout, done.stderr):
        return
    foreseen, counted, process = (int(x) for x in found.groups())
    taken = max(counted, process)
    print("%-26s %7.1f MB foreseen, %7.1f MB taken: %+.1f %%" %
          (name, foreseen / 1e6, taken / 1e6, 100 * (foreseen / taken - 1)), flush=True)
    proof.tried(name + ": foreseen", abs(foreseen - taken) <= WITHIN * taken + SMALL, foreseen,
                counted, process)


# ---- limits ----

def run(code, before=None, **options):
    return subprocess.run([FOPO, "-e", code], capture_output=True, text=True, preexec_fn=before,
                          **options)


AVAILABLE = "print(fopo.memory().available) print(pcall(array.zeros, 1000000, 10000))"


def seen(proof, what, limit, done):
    """The limit is what the program takes for free memory, less what it has taken."""
    found = re.match(r"(\d+)\nfalse\t(.*)\n$", done.stdout)
    proof.tried(what + " is seen", found and 0.5 * limit < int(found.group(1)) <= limit,
                done.stdout, done.stderr)
    proof.tried(what + ": refused by a sentence", found and
                "the array needs 40.00 GB" in found.group(2), done.stdout, done.stderr)


def address_space(proof):
    limit = 2 * GB
    seen(proof, "RLIMIT_AS", limit, run(AVAILABLE, lambda: resource.setrlimit(
        resource.RLIMIT_AS, (limit, limit))))


def cgroup(proof, version, root, file):
    """Runs in a group of its own whose memory is limited."""
    limit, group = GB, os.path.join(root, "fopo-test-%d" % os.getpid())
    if not os.path.exists(os.path.join(root, file)) and version == 1:
        print("skip: cgroup v1 (no %s)" % os.path.join(root, file))
        return
    controllers = os.path.join(root, "cgroup.controllers")
    if version == 2 and "memory" not in (open(controllers).read().split()
                                         if os.path.exists(controllers) else []):
        print("skip: cgroup v2 (%s has no controller of memory)" % root)
        return
    try:
        os.mkdir(group)
    except OSError as why:
        print("skip: cgroup v%d (%s)" % (version, why))
        return
    try:
        with open(os.path.join(group, file), "w") as f:
            f.write(str(limit))

        def enter():
            with open(os.path.join(group, "cgroup.procs"), "w") as f:
                f.write(str(os.getpid()))
        seen(proof, "a cgroup of version %d" % version, limit, run(AVAILABLE, enter))
        deeper = os.path.join(group, "deeper")  # its own limit is larger: the parent's counts
        os.mkdir(deeper)

        def enter_deeper():
            with open(os.path.join(deeper, "cgroup.procs"), "w") as f:
                f.write(str(os.getpid()))
        seen(proof, "a parent's cgroup of version %d" % version, limit,
             run(AVAILABLE, enter_deeper))
        os.rmdir(deeper)
    except OSError as why:
        print("skip: cgroup v%d (%s)" % (version, why))
    os.rmdir(group)


def limits(proof):
    address_space(proof)
    cgroup(proof, 1, "/sys/fs/cgroup/memory", "memory.limit_in_bytes")
    cgroup(proof, 2, "/sys/fs/cgroup", "memory.max")
    done = subprocess.run([FOPO, "--max-memory", "500M", "-e", AVAILABLE], capture_output=True,
                          text=True)
    seen(proof, "--max-memory", GB // 2, done)


# ---- temporaries ----

TEMPORARIES = """
local s = data.synthetic{users = 4000, items = 3000, clusters = 4, seed = 1}:sessions{min_items = 4}
local items = array.randn(3000, 500, 1)
local makers = {
  arrays = function() return array.zeros(1000, 2000) end, -- 8 MB
  products = function() return items:matmul(array.zeros(500, 700)) end,
  contexts = function() return s.train:contexts(items) end,
  copies = function() return items:copy() end,
  policies = function() return policy.linear{items = items, rows = 'bfloat16'} end,
  worlds = function() return data.synthetic{users = 30000, items = 3000, mean_items = 40} end,
  indexes = function() return index.norm(items) end,
  strings = function() return ('x'):rep(8000000) end,
  trainers = function() return trainer{policy = policy.linear{items = items, train_items = true},
    data = s.train, valid = false, gradient = gradient.snis{}} end,
}
local name, n = '%s', %d
for i = 1, n do local _ = makers[name]() end
local f = io.open('/proc/self/status')
print(f:read('a'):match('VmHWM:%%s*(%%d+)'))
"""
MAKERS = "arrays products contexts copies policies worlds indexes strings trainers".split()


def temporaries(proof, maker, count):
    """So many temporaries of some MB each, one after the other, with little memory."""
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    done = run(TEMPORARIES % (maker, count), limited)
    found = re.match(r"(\d+)\n$", done.stdout)
    proof.tried("%d temporaries: %s" % (count, maker), found and
                int(found.group(1)) * 1024 < ROOM // 3, done.stdout, done.stderr)


def every_estimate(proof, share):
    """All at one size, then at sizes by chance while there is time."""
    until, first = proof.until(share), True
    while time.monotonic() < until:
        for name in names():
            if time.monotonic() < until:
                estimate(proof, name, 1 if first else proof.random.uniform(0.7, 3))
            elif first:
                print("not reached in this time: the estimate of", name)
        first = False
