"""Endings by a signal: a run that keeps a checkpoint writes it first, and the terminal is as it
was. Output that nobody reads ends no training."""
import os
import shutil
import signal
import subprocess
import time

from checks import check, finish, folder, FOPO
from terminal import children, Program

os.chdir(folder)
os.environ["WORLD"] = WORLD = """
local s = data.synthetic{users = 400, items = 500, clusters = 8, seed = 3}:sessions{min_items = 10}
local items = embed.svd(s.train, {dim = 8})
function new() return trainer{policy = policy.linear{items = items}, data = s.train, batch = 16,
  seed = 7, valid = false} end
t = new()
"""


def script(code, *options):
    """A script that has begun: it prints "ready"."""
    p = subprocess.Popen([FOPO, "--no-init", *options, "-e", WORLD + code], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check("it begins", p.stdout.readline() == "ready\n")
    return p


def end(p, number):
    time.sleep(0.2)
    p.send_signal(number)
    begun = time.monotonic()
    out, err = p.communicate(timeout=60)
    return p.returncode, out, err, time.monotonic() - begun


def step_of(path):
    """The step of the checkpoint, after a check that it goes on with an unbroken run's bits."""
    code = WORLD + """
t:resume('%s')
local step, u = t.step, new()
t:run{steps = 20, view = false}
u:run{steps = step + 20, view = false}
assert(t.policy:theta():get(3, 4) == u.policy:theta():get(3, 4), 'other bits')
print(step)""" % path
    done = subprocess.run([FOPO, "--no-init", "-e", code], capture_output=True, text=True)
    check(path + ": goes on to the bit", done.returncode == 0, done.stderr)
    return int(done.stdout or 0)


READY = "io.write('ready\\n') io.flush() "
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU):
    p = script(READY + "t:run{seconds = 100, view = false, checkpoint = 'a.npz'}")
    code, out, err, seconds = end(p, number)
    check("128 + n", code == 128 + number, number, code, err)
    check("says where", "a.npz is the checkpoint of step" in err, err)
    check("in two lines", err.count("\n") == 2 and "interrupted after step" in err, err)
    check("goes on from there", step_of("a.npz") > 0)
    os.remove("a.npz")
p = script(READY + "t:run{seconds = 100, view = false}", "--checkpoint", "b.npz")
check("--checkpoint", end(p, signal.SIGTERM)[0] == 143 and step_of("b.npz") > 0)
p = script(READY + "t:run{seconds = 100, view = false, checkpoint = 'c.npz'}")
check("Ctrl-C keeps it too", end(p, signal.SIGINT)[0] == 130 and step_of("c.npz") > 0)
p = script(READY + "t:run{seconds = 100, view = false}")
check("no checkpoint: ended at once", end(p, signal.SIGTERM)[0] == -signal.SIGTERM)
p = script(READY + """
pcall(function() t:run{seconds = 100, view = false, checkpoint = 'd.npz'} end)
while true do pcall(function() while true do end end) end""")
code, out, err, seconds = end(p, signal.SIGTERM)
check("a script that goes on is ended all the same", code == 143, code, err)
p = script("j = t:start{seconds = 100, checkpoint = 'e.npz'} while t.step == 0 do end "
           + READY + "while true do end")
check("a job", end(p, signal.SIGTERM)[0] == 143 and step_of("e.npz") > 0)
def killed_with(path, code):
    """The step of a checkpoint that a run had written before kill -9."""
    p = script(READY + code)
    until = time.monotonic() + 30
    while not os.path.exists(path) and time.monotonic() < until:
        time.sleep(0.02)
    p.kill()
    p.communicate()
    check(path + ": written while it runs", os.path.exists(path))
    return step_of(path) if os.path.exists(path) else 0


check("every so often", killed_with("f.npz", "t:run{seconds = 100, view = false, "
      "every = 1 << 40, checkpoint = 'f.npz', every_seconds = 0.1}") > 0)
check("a job too", killed_with("k.npz", "t:start{seconds = 100, checkpoint = 'k.npz', "
      "every_seconds = 0.1}:wait()") > 0)
done = subprocess.run([FOPO, "--no-init", "-e", WORLD + """
t:start{seconds = 0.3, checkpoint = 'g.npz'}:wait()
local u = new()
u:run{steps = t.step, view = false}
assert(u.policy:theta():get(1, 2) == t.policy:theta():get(1, 2), 'other bits')
print(t.step)"""], capture_output=True, text=True)
check("at the end", done.returncode == 0
      and step_of("g.npz") == int(done.stdout), done.stdout, done.stderr)
done = subprocess.run([FOPO, "--no-init", "-e", WORLD + """
t:run{steps = 500, view = false, checkpoint = '/proc/no.npz', every_seconds = 0.001}
assert(t.step == 500)"""], capture_output=True, text=True)
check("a checkpoint that cannot be written costs no training", done.returncode == 0 and
      done.stderr.count("no checkpoint at step") == 1, done.stderr)

# ---- output that nobody reads ----
with open("train.lua", "w") as f:
    f.write("fopo = require 'fopo' data, embed, trainer, policy = fopo.data, fopo.embed, "
            "fopo.trainer, fopo.policy" + WORLD +
            "for i = 1, 9000 do print('a line that is long enough to fill the pipe', i) end "
            "t:run{steps = 5, every = 1} t:save('saved.npz')")
done = subprocess.run("%s train.lua | head -1" % FOPO, shell=True, capture_output=True, text=True)
check("a closed pipe ends no training", step_of("saved.npz") == 5 and
      done.stderr.count("\n") == 1 and "standard output could not be written" in done.stderr,
      done.stderr)

# ---- the terminal ----
def prompt(code=""):
    p = Program([FOPO, "--no-init", "-i", "-e", code], 50, 150, HOME=folder,
                FOPO_HISTORY="/dev/null")
    check("a prompt", p.wait("fopo>", 60), p.screen.text())
    p.settle(0.1)
    return p


for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGUSR1, signal.SIGXCPU, signal.SIGTERM,
               signal.SIGVTALRM, signal.SIGPROF, signal.SIGPOLL, signal.SIGSYS):
    p = prompt()
    check("readline has changed the terminal", not p.restored())
    p.process.send_signal(number)
    code = p.ended(20)
    if "asan" not in FOPO or number not in (signal.SIGSEGV, signal.SIGABRT):
        check("ends by the signal", code == -number, number)  # the sanitizer exits in its own way
    check("the terminal is as it was", p.restored(), number)
    check("and marks no pastes", p.raw.rfind(b"\x1b[?2004l") > p.raw.rfind(b"\x1b[?2004h"), number)
    p.close()
p = prompt(WORLD + "j = t:start{seconds = 100, checkpoint = 'h.npz'}")
p.settle(0.3)
p.process.send_signal(signal.SIGHUP)
check("a job at the prompt", p.ended(20) == 129 and step_of("h.npz") > 0, p.screen.text())
check("the terminal is as it was", p.restored())
p.close()
p = prompt(WORLD)
p.send("t:run{seconds = 100, view = true, checkpoint = 'i.npz'}\r")
check("a view", p.wait("contexts/s by steps"), p.screen.text())
p.settle(0.5)
p.process.send_signal(signal.SIGTERM)
check("in the view", p.ended(20) == 143 and step_of("i.npz") > 0, p.screen.text())
check("the terminal is as it was", p.restored())
p.close()

# ---- kill -9 ----
def soon(what, seconds=20):
    until = time.monotonic() + seconds
    while not what() and time.monotonic() < until:
        time.sleep(0.02)
    return what()


def gone(pid):
    return not os.path.exists("/proc/%d" % pid)


def viewed(p):
    p.send("t:run{seconds = 100, view = true}\r")
    check("a view", p.wait("contexts/s by steps"), p.screen.text())
    p.settle(0.3)


for view in (False, True):
    p = prompt(WORLD)
    if view:
        viewed(p)
    check("the terminal has changed", not p.restored())
    watcher, = children(p.process.pid)
    p.process.kill()
    check("ends by the signal", p.ended(20) == -signal.SIGKILL)
    check("the watcher ends", soon(lambda: gone(watcher)))
    p.settle(0.1)
    check("kill -9: the terminal is as it was", p.restored(), view)
    check("and marks no pastes", p.raw.rfind(b"\x1b[?2004l") > p.raw.rfind(b"\x1b[?2004h"), view)
    p.close()

# A shell has its own modes, before the watcher or after it, or between the watcher's question whose
# terminal it is and its answer, which takes long here.
slow, compiler = os.path.join(folder, "slow.so"), shutil.which("cc") or shutil.which("gcc")
if compiler is None or "build/release/" not in os.path.realpath(FOPO):
    print("skip: a shell that comes between (needs the release, a compiler)")
else:
    subprocess.run([compiler, "-shared", "-fPIC", "-xc", "-", "-o", slow, "-ldl"], check=True,
                   text=True, input="""#define _GNU_SOURCE
        #include <dlfcn.h>
        #include <unistd.h>
        pid_t tcgetpgrp(int fd) {
          pid_t owner = ((pid_t (*)(int))dlsym(RTLD_NEXT, "tcgetpgrp"))(fd);
          if (!isatty(2)) usleep(300000);
          return owner;
        }""")
p = Program(["bash", "--norc", "-i"], 50, 150, HOME=folder, PS1="shell$ ", FOPO_HISTORY="/dev/null")
slow = slow if os.path.exists(slow) else ""
p.send("LD_PRELOAD=%s %s --no-init -i -e \"$WORLD\"\r" % (slow, FOPO))
check("a prompt", p.wait("fopo>", 60), p.screen.text())
for way in ("runs", "was stopped"):
    viewed(p)
    fopo, = children(p.process.pid)
    watcher, = children(fopo)
    if way == "was stopped":
        p.send("\x1a")
        check("Ctrl-Z stops it", p.wait("Stopped", 60), p.screen.text())
        check("the watcher writes nothing", not p.screen.alternate)
        p.send("fg\r")
        check("and goes on", p.wait("contexts/s by steps"), p.screen.text())
        p.send("\x1a")
        check("again", p.wait("Stopped", 60), p.screen.text())
    before = len(p.raw)
    os.kill(fopo, signal.SIGKILL)
    check("the watcher ends", soon(lambda: gone(watcher)))
    if way == "was stopped":
        p.send("jobs\r")
    # only its prompt says that the shell reads keys by itself, without the terminal's echo
    check("the shell says so", p.wait(lambda _: b"shell$" in p.raw[before:].partition(b"Killed")[2],
                                      20), p.screen.text())
    p.settle(0.2)
    check("the screen is the shell's", not p.screen.alternate and p.screen.cursor_shown, way)
    if way == "was stopped":
        check("no byte of the watcher's", b"1049" not in p.raw[before:], p.raw[before:])
    p.send("echo $((6*7))x\r")
    check("the shell edits as ever", p.wait("\n42x"), p.screen.text())
    p.settle(0.1)
    check("and shows each key once", p.screen.text().count("echo $((6*7))x") == 1, p.screen.text())
    if way == "runs":
        p.send("clear; %s --no-init -i -e \"$WORLD\"\r" % FOPO)
        check("a prompt", p.wait("fopo>", 60), p.screen.text())
p.close()

# A script has a watcher as long as its view lasts; a program without a terminal has none.
p = Program([FOPO, "--no-init", "-e", WORLD + "t:run{seconds = 2, view = true} io.read()"], 50, 150,
            HOME=folder)
check("a view of a script", p.wait("contexts/s by steps", 60), p.screen.text())
check("is watched", len(children(p.process.pid)) == 1)
check("while it lasts", soon(lambda: (p.settle(0.05), not children(p.process.pid))[1]))
p.close()
p = script(READY + "io.read()")
check("no terminal, no watcher", children(p.pid) == [])
p.kill()
p.communicate(timeout=60)

finish()
