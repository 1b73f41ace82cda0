"""README's session with each of its allocations refused: the program's, its libraries' and Lua's.
At each, the process that types the session forks, and the call fails in the child (seam.c). There
the entry must end with one sentence, or as it does without a fault; typed again it works, and then
1 + 1 is 2, no block is left over, and the file of the policy is whole or not there.

    readme.py [EVERY [OFFSET]]     one of so many, and which; all of them without"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import run  # noqa: E402

# The calls are README's, the data and the passes fewer.
SMALLER = (("epochs = 30, every = 100", "epochs = 2, every = 10"), ("dim = 64", "dim = 4"),
           ("seconds = 5", 'starts = {"cosine"}, held = 20, print = false'),
           ("datasets/sample.csv", "sample.csv"))
USERS, ITEMS = 200, 60
SETUP = """seam = assert(package.loadlib(os.getenv "SEAM", "luaopen_seam"))()
native = require "fopo.native"
function check()
  local f = io.open("policy.npz")
  if f then f:close() policy.load("policy.npz") end
  collectgarbage() collectgarbage()
  return seam.files(".", ".tmp."), native.memory().blocks, (seam.lost())
end
seam.every(%d, %d, [[
print("sum", 1 + 1)
%s, _, _1, _2 = nil
print("left", check())
]], %d)
"""
TIMED = re.compile(r"\(?[\d.,]+ (ms|s|us|steps/s)\)?|[\d.,]+/s|  +")


def session():
    """The entries of README's session, made smaller."""
    with open(os.path.join(run.ROOT, "README.md")) as f:
        typed = re.search(r"## A session\n\n```\n(.*?)```", f.read(), re.S)[1]
    entries = re.findall(r"^fopo> (.*)$", typed, re.M)
    for one, other in SMALLER:
        assert any(one in entry for entry in entries), one
        entries = [entry.replace(one, other) for entry in entries]
    return entries


def sample(path):
    """Some of the users of the sample, of items that are fewer: so they have items in common."""
    with open(os.path.join(run.ROOT, "datasets", "sample.csv")) as f:
        rows = [line.strip().split(",") for line in f][1:]
    users = sorted({user for user, _ in rows})[:USERS]
    kept = sorted({(user, int(item[4:]) % ITEMS) for user, item in rows if user in users})
    with open(path, "w") as f:
        f.write("user,item\n" + "".join("%s,item%03d\n" % row for row in kept))


def answers(pipe):
    """(entry, point, kind, status, caller, what was said) of each child."""
    while True:
        head = pipe.readline().decode()
        if not head:
            return
        entry, point, kind, status, length, caller = head.split(" ", 6)[1:]
        said = pipe.read(int(length)).decode(errors="replace")
        yield int(entry), int(point), kind, int(status), caller.strip(), said


def parts(said):
    """What the entry said, what it said the second time, what the checks gave."""
    found = re.split(r"^== (?:again|checks)\n", said, flags=re.M)
    return found if len(found) == 3 else None


def lines_of(text):
    """Without what differs from time to time."""
    return [line for line in TIMED.sub(" ", text).split("\n") if line.strip()]


def alike(again, without):
    """True if it is the answer but for its numbers, which depend on what was done before, and for
    what the end of a run says of them."""
    shapes = [{re.sub(r"-?[\d.]+|-(?= )", "N", line) for line in lines_of(text)
               if not line.startswith("note: ")} for text in (again, *without[:2])]
    return shapes[0] <= shapes[1] | shapes[2]


def wrong(status, said, without):
    """None, or what is wrong. without: the parts without a fault."""
    ways = parts(said)
    if ways is None or status != 0:
        return "ends with status %d" % status
    first, again, checks = ways
    usual, found = lines_of(without[0]), lines_of(first)
    more = [line for line in found if line not in usual]
    if found != usual and not more:
        return "it says nothing, and not what it says without a fault"
    if re.search("attempt to|bad argument|No error|^$|traceback", more[0] if more else "-"):
        return "no sentence"
    if not more and lines_of(again) != lines_of(without[1]) or not alike(again, without):
        return "another answer the second time"
    if "sum\t2\n" not in checks:
        return "1 + 1"
    if not re.search(r"left\t0\t", checks):
        return "a temporary file or a damaged one is left"
    left, normal = (list(map(int, re.search(r"left\t(.*)", text)[1].split()))
                    for text in (checks, without[2]))
    if left[1] > normal[1] or left[2] > normal[2]:
        return "%s blocks are left, not %s" % (left, normal)
    return None


def sweep(every=1, offset=0, say=None):
    """(faults, failures, lines that say what failed). say: is given each of them at once."""
    folder, entries, made, lines, without = tempfile.mkdtemp(), session(), 0, [], None
    sample(os.path.join(folder, "sample.csv"))
    reader, writer = os.pipe()
    names = sorted({name for entry in entries for name in re.findall(r"^(\w+) = ", entry)})
    typed = SETUP % (every, offset, ", ".join(names), writer) + "\n".join(entries) + "\n"
    environment = {**run.environment(folder, 1), "OPENBLAS_NUM_THREADS": "1", "HOME": folder}
    with open(reader, "rb") as pipe:
        process = subprocess.Popen([run.FOPO, "--no-init", "-i"], stdin=subprocess.PIPE, cwd=folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   text=True, env=environment, pass_fds=[writer])
        os.close(writer)
        process.stdin.write(typed)
        process.stdin.close()
        for entry, point, kind, status, caller, said in answers(pipe):
            if kind == "none":
                without = parts(said)
                assert status == 0 and without, said
                continue
            made += 1
            why = wrong(status, said, without)
            if why:
                lines.append("not so: %s: allocation %d, %s by %s: %s" %
                             (entries[entry - 1], point, kind, caller, why))
                lines += said.rstrip().split("\n")[-12:]
            if say and (why or made % 1000 == 0):
                say(*lines[-13:] if why else ["%d ..." % made], sep="\n", flush=True)
        if process.wait() != 0 or made == 0:
            lines += ["not so: the session itself ends with %d" % process.returncode]
    shutil.rmtree(folder)
    return made, sum(line.startswith("not so") for line in lines), lines


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:3]] + [1, 0][len(sys.argv[1:3]):]
    tried, failures, _ = sweep(*words, say=print)
    print("%d allocations of README's session refused, %d failures" % (tried, failures))
    sys.exit(failures > 0)
