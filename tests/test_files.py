"""Files that the program writes: whole or not at all, from C and from Lua; through links; beside
the temporaries of killed processes. And that nothing lying in a folder is ever run."""
import os
import re
import shutil
import signal
import subprocess
import sys

from checks import check, finish, folder, FOPO

HERE = os.path.dirname(os.path.abspath(__file__))
os.chdir(folder)


def run(code, limit=None, **environment):
    """The finished process of a line of code; limit: the most bytes that a file may have."""
    def limited():
        import resource
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return subprocess.run([FOPO, "--no-init", "-e", code], capture_output=True, text=True,
                          timeout=120, env={**os.environ, **environment}, preexec_fn=limited)


def bytes_of(path):
    with open(path, "rb") as f:
        return f.read()


# ---- no file is opened for writing but by core/replace.c ----
for place, _, names in os.walk(os.path.join(HERE, "..", "lua")):
    for name in names:
        with open(os.path.join(place, name), encoding="utf-8") as f:
            text = re.sub(r"example = \[\[.*?\]\]", "", f.read(), flags=re.S)
        found = re.findall(r"io\.open\([^\n]*[\"']r?[w+]b?[\"']\)", text)
        check("%s opens no file for writing; native.write_file replaces it whole" % name,
              not found, found)

# ---- what each writer writes: the old file stays whole where the new one does not fit ----
WORLD = """
local s = data.synthetic{users = 200, items = 80, clusters = 4, seed = 1}:sessions{min_items = 4}
local items = embed.svd(s.train, {dim = 8})
local pi = policy.linear{items = items}
local t = trainer{batch = 8, policy = pi, data = s.train, valid = false}
t:run{steps = 3, view = false}
"""
WRITERS = {
    "array.npy": "items:save('array.npy')",
    "data.npz": "data.synthetic{users = 60, items = 80, clusters = 4, seed = 1}:save('data.npz')",
    "policy.npz": "pi:save('policy.npz')",
    "trainer.npz": "t:save('trainer.npz')",
    "index.npz": "index.norm(items):save('index.npz')",
    "view.svg": "fopo.view.save('view.svg', t)",
    "out.csv": "io.open('u.csv', 'a'):write('user,item\\n1,1\\n'):close()"
               " pi:recommend_file('u.csv', 'out.csv', {n = 80, quiet = true})",
}
if shutil.which("gnuplot"):
    WRITERS["plot.svg"] = "fopo.plot.save('plot.svg', {y = {1, 4, 9}})"
else:
    print("skip: plot.save (gnuplot-nox is not installed)")
whole = run(WORLD + "\n".join(WRITERS.values()))
check("all is written", whole.returncode == 0, whole.stderr)
if os.path.exists("u.csv"):
    os.remove("u.csv")
for path, code in WRITERS.items():
    before = bytes_of(path)
    done = run(WORLD + code, limit=min(len(before) // 2, 300))
    check(path + ": a failure", done.returncode == 1, done.returncode, done.stderr)
    check(path + ": says why", "File too large" in done.stderr or "cannot write" in done.stderr,
          done.stderr)
    check(path + ": the old file is whole", bytes_of(path) == before)
    if os.path.exists("u.csv"):
        os.remove("u.csv")
check("no temporary is left", not [n for n in os.listdir(".") if ".tmp" in n], os.listdir("."))

# ---- links ----
os.mkdir("far")
os.symlink("far/a.npy", "link.npy")  # a link to a file that is not there yet
os.symlink("link.npy", "chain.npy")
done = run("fopo.array.from{{1, 2}}:save('chain.npy')")
check("a link's target is replaced", done.returncode == 0 and os.path.islink("chain.npy") and
      os.path.islink("link.npy") and bytes_of("far/a.npy")[:6] == b"\x93NUMPY", done.stderr)
os.symlink("round.npy", "round.npy")
done = run("fopo.array.from{{1, 2}}:save('round.npy')")
check("a link to itself", done.returncode == 1 and "symbolic links" in done.stderr, done.stderr)

# ---- pipes are refused, and do not wait for a writer; readers of rows take them (test_sources.py)
os.mkfifo("pipe")
for code in ("fopo.array.load('pipe')", "policy.load('pipe')",
             "index.load('pipe', fopo.array.randn(2, 2, 1))",
             "fopo.array.randn(2, 2, 1):save('pipe')"):
    done = run(code)
    check(code, done.returncode == 1 and "not a regular file" in done.stderr, done.stderr)

# ---- temporaries of killed processes ----
dead = subprocess.Popen(["true"])
dead.wait()
left, other = "array.npy.tmp.%d.0" % dead.pid, "array.npy.tmp.mine"
for name in (left, other):
    with open(name, "w") as f:
        f.write("half")
holder = subprocess.Popen([sys.executable, "-c", "import fcntl, sys, time\n"
                           "f = open('array.npy.tmp.1.0', 'w'); fcntl.flock(f, fcntl.LOCK_EX)\n"
                           "print('held', flush=True); time.sleep(60)"], stdout=subprocess.PIPE)
holder.stdout.readline()
done = run("fopo.array.from{{1, 2}}:save('array.npy')")
check("removed, and said", not os.path.exists(left) and left in done.stderr, done.stderr)
check("a user's own file stays", os.path.exists(other))
check("a file that is being written stays", os.path.exists("array.npy.tmp.1.0"), done.stderr)
holder.send_signal(signal.SIGKILL)
holder.wait()

# ---- several processes save one file, as the ranks of a job do: each succeeds ----
MANY = "a = fopo.array.from{1, 2, 3} for i = 1, 400 do a:save('shared.npy') end"
writers = [subprocess.Popen([FOPO, "--no-init", "-e", MANY], stderr=subprocess.PIPE, text=True)
           for _ in range(4)]
for writer in writers:
    said = writer.communicate(timeout=120)[1]
    check("a save beside others", writer.returncode == 0 and not said, said)
check("nothing of them is left", [n for n in os.listdir(".") if n.startswith("shared.npy")]
      == ["shared.npy"], os.listdir("."))

# ---- names in a file do not steer the terminal ----
NAMES = """
import numpy as np
file = dict(np.load("named.npz"))
text = file["items_text"].tobytes().replace(b"item", b"\\x1b[2J")
file["items_text"] = np.frombuffer(text, dtype=file["items_text"].dtype)
np.savez("named.npz", **file)
"""
SAMPLE = os.path.join(HERE, "..", "datasets", "sample.csv")
run("local s = data.read('%s'):sessions{min_items = 10} policy.linear{items = embed.svd(s.train, "
    "{dim = 4})}:save('named.npz')" % SAMPLE)
python = os.environ.get("PYTHON", "/usr/bin/python3")
if subprocess.run([python, "-c", NAMES], capture_output=True).returncode == 0:
    done = run("print(policy.load('named.npz'):recommend({items = {3}}, 5))")
    check("names are shown plain", "\\x1b[2J" in done.stdout and "\x1b" not in done.stdout,
          done.stdout, done.stderr)
    # ---- and counts of steps that no run has made are refused by their name ----
    for field in ("step", "optim_t"):
        subprocess.run([python, "-c", "import numpy as np\nfile = dict(np.load('trainer.npz'))\n"
                        "file['%s'] = np.uint64(2 ** 64 - 1)\nnp.savez('far.npz', **file)" % field],
                       check=True)
        done = run(WORLD + "t:resume('far.npz')")
        check(field, done.returncode == 1 and "its %s is 18446744073709551615" % field
              in done.stderr, done.stderr)
else:
    print("skip: names in a file (Python has no numpy)")

# ---- nothing that lies in a folder is run ----
os.mkdir("trap")
os.chdir("trap")
with open("gnuplot", "w") as f:
    f.write("#!/bin/sh\ntouch ../sprung\n")
os.chmod("gnuplot", 0o755)
done = run("fopo.plot.save('x.svg', {y = {1, 2}})", PATH=":.:bin")
check("gnuplot of the folder is not run", not os.path.exists("../sprung") and
      "apt-get install gnuplot-nox" in done.stderr, done.stderr)
if shutil.which("git"):
    def git(*words):
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
                              capture_output=True, text=True, check=True).stdout.strip()
    with open("hook", "w") as f:
        f.write("#!/bin/sh\ntouch ../sprung\n")
    os.chmod("hook", 0o755)
    git("init", "-q")
    git("add", "hook")
    git("commit", "-q", "-m", "one")
    commit = git("rev-parse", "HEAD")
    git("config", "core.fsmonitor", os.path.abspath("hook"))
    LOGGED = WORLD + "t:run{steps = 1, view = false, log = '%s'}"
    done = run(LOGGED % "a")
    check("no hook is run", done.returncode == 0 and not os.path.exists("../sprung"), done.stderr)
    check("the commit is logged", commit in open("a/config.json").read())
    git("config", "core.fsmonitor", "false")
    git("pack-refs", "--all")
    git("worktree", "add", "-q", "../linked")
    os.makedirs("../linked/deeper")
    os.chdir("../linked/deeper")
    run(LOGGED % "b")
    check("in a linked work tree too", commit in open("b/config.json").read())

finish()
