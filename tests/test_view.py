"""The live view of a real run in a pseudo-terminal: what is on it, its keys, sizes, the output of
others, and the terminal after every ending."""
import json
import os
import random
import re
import signal
import subprocess
import time

from checks import check, finish, folder, FOPO
from terminal import Program

os.chdir(folder)
os.environ["FOPO_THREADS"] = "1"  # the screen is looked at; test_endings.py ends runs of several

WORLD = """
s = data.synthetic{users = 400, items = 500, clusters = 8, seed = 3}:sessions{min_items = 10}
items = embed.svd(s.train, {dim = 8})
ix = index.norm(items)
function new()
  return fopo.trainer{policy = policy.linear{items = items, seed = 1}, data = s.train, batch = 16,
    valid = s.valid, index = ix, seed = 7, gradient = gradient.snis{samples = 40,
    proposal = proposal.mixture{index = ix, k = 20}}}
end
t = new()
"""
RUN = "t:run{steps = 10000000, every = 500, view = true, keep_best = false}"


began = time.monotonic()


def lap(name):
    if os.environ.get("LAPS"):
        print("%6.1f s  %s" % (time.monotonic() - began, name))


def start(code, rows=24, cols=80, options=(), **env):
    return Program([FOPO, *options, "-e", WORLD + code], rows, cols, **env)


def step(text):
    found = re.search(r"step ([\d,]+)", text)
    return int(found.group(1).replace(",", "")) if found else -1


def running(p):
    """Waits until the run is well under way."""
    ok = p.wait(lambda text: step(text) > 0, 60)
    check("a run on the screen", ok, p.screen.text())
    return ok


# what is on it, and every key
p = start("t:run{steps = 10000000, every = 500, view = true, log = 'runs/a', keep_best = false, "
          "overlay = {new():run{steps = 100, view = false}}, "
          "on_record = function() print('a record') end} "
          "t.policy:theta():save('end.npy')", 30, 120)
running(p)
check("the whole screen", p.wait(lambda s: all(word in s for word in (
    "reward", "valid", "via index", "contexts", "ESS", "largest w", "eps", "in head", "|gradient|",
    "lr", "memory", "CPU", "ETA", "time", "search", "view costs", "a record", "? help", "running",
    "earlier"))), p.screen.text())
check("colours", p.screen.colours)
check("braille", re.search("[\u2801-\u28ff]", p.screen.text()), p.screen.text())
for key, wanted in (("+", "lr: 0.00125, was 0.001"), ("-", "lr: 0.001, was 0.00125"),
                    ("[", "epsilon: 0.75, was 0.8"), ("]", "epsilon: 0.8, was 0.75"),
                    ("K", "k: 40, was 20"), ("k", "k: 20, was 40"), ("[", "epsilon: 0.75"),
                    ("y", "reward, log"), ("w", "last 1000 steps"), ("x", "by seconds"),
                    ("?", "this page"), (" ", "paused")):
    p.send(key)
    check("key " + key, p.wait(wanted), p.screen.text())
p.send("q")
check("q leaves the page of help, not the run", p.wait(lambda s: "this page" not in s))
p.settle(0.4)
at = step(p.screen.text())
p.settle(0.4)
check("paused", step(p.screen.text()) == at)
p.send("n")
check("one step", p.wait(lambda s: step(s) == at + 1), at, p.screen.text())
p.send("e")
check("evaluated", p.wait("%s: valid 0." % format(at + 1, ",")), p.screen.text())
p.send("s")
check("saved", p.wait("runs/a/step-%d.npz" % (at + 1)), p.screen.text())
p.send("S")
check("screenshot", p.wait("screen-%d.txt" % (at + 1)), p.screen.text())
shot = open("runs/a/screen-%d.txt" % (at + 1)).read()
check("its text", "paused" in shot and len(shot.split("\n")) == 31, shot)
check("its others", "</svg>" in open("runs/a/screen-%d.svg" % (at + 1)).read()
      and "\x1b[" in open("runs/a/screen-%d.ans" % (at + 1)).read())
p.send(":t.step + 10001, 'ö' .. 7\r")
check("a line of Lua", p.wait('%d  ö7' % (at + 10002)), p.screen.text())
p.send(":for i = 1, 2 do print('twice', i) end\r")
check("what it prints", p.wait("twice 2"), p.screen.text())
p.send(":error('bad')\r:x = = 1\r")
check("its errors", p.wait("view:1: bad") and p.wait("unexpected symbol"), p.screen.text())
p.send(":t.optim.lr = 9e-4\x1b[D\x1bOD\x1b[D\x7f5\r")  # edited: 5e-4
check("a knob by hand", p.wait("0.0005"), p.screen.text())
p.send(":nothing\x1b")
check("dropped", p.wait("? help"), p.screen.text())
p.send(":os.execute('echo said by a child; echo and to stderr >&2')\r")
check("a child's output is on the pane", p.wait("and to stderr"), p.screen.text())
p.send("\x0c")
p.send(" ")
check("on again", p.wait(lambda s: step(s) > at + 100), p.screen.text())
p.send("q")
check("q", p.ended() == 0, p.screen.text())
check("the terminal after q", p.restored())
check("what was said comes out", "twice" in p.screen.text() or b"twice 1" in p.raw)
check("and where it stands", "left at step" in p.screen.text(), p.screen.text())
p.close()
acts = [json.loads(line) for line in open("runs/a/actions.jsonl")]
check("actions are logged", [(a["what"], a["value"]) for a in acts if a["what"] != "lua"][:3] ==
      [("lr", 0.00125), ("lr", 0.001), ("epsilon", 0.75)] and
      any(a["what"] == "lr" and a["value"] == 5e-4 and a["before"] == 0.001 for a in acts), acts)
steps = [json.loads(line)["step"] for line in open("runs/a/history.jsonl")]
done = subprocess.run([FOPO, "-e", WORLD + """
    t:run{steps = %d, view = false, keep_best = false, replay = "runs/a"}
    a = t.policy:theta()
    b = array.load("end.npy")
    print(a:add(b, -1):norm())
""" % steps[-1]], capture_output=True, text=True)
check("the run again, to the bit", done.stdout.strip() in ("0", "0.0"), done.stdout, done.stderr)

lap('keys')
# any size, and storms of them
p = start(RUN, 1, 60)
check("one line", p.wait(lambda s: step(s) > 0 and "reward" in s), p.screen.text())
p.set_size(5, 20)
check("20 x 5", p.wait(lambda s: re.search(r"[\d,]{3,}  r 0\.\d", s) and "train" in s),
      p.screen.text())
p.set_size(50, 180)
check("180 x 50", p.wait(lambda s: "view costs" in s and "S screenshot" in s), p.screen.text())
for _ in range(3):  # to the same size again, before it is drawn
    p.set_size(2, 20)
    p.set_size(50, 180)
    p.settle()
    check("there and back", p.wait(lambda s: "view costs" in s and "S screenshot" in s),
          p.screen.text())
rng = random.Random(1)
for _ in range(150):
    p.set_size(rng.choice((1, 2, 3, 7, 8, 24, 60, 200)), rng.choice((1, 2, 5, 20, 39, 40, 80, 300)))
    p.read(0.01)
p.set_size(24, 80)
p.settle()
check("after a storm", p.process.poll() is None and p.wait(
    lambda s: "view costs" in s and "? help" in s), p.screen.text())
for _ in range(300):  # any keys, but for q and what writes files or waits for a line
    p.send(rng.choice("?+-[]kKe ywxmogn\x0c\x1b\r\t\x7fäzZ1"))
    p.read(0)
p.settle()
p.send("\x1b")
check("after many keys", p.process.poll() is None and p.wait(lambda s: step(s) > 0),
      p.screen.text())
p.send("q")
check("and q", p.ended() == 0 and p.restored(), p.screen.text())
p.close()

lap('sizes')
# endings
for name, code, how, wanted, said in (
        ("the end", "t:run{steps = 300, view = true}", None, 0, "step"),
        ("Ctrl-C", RUN, "\x03", 130, "interrupted"),
        ("an error", RUN.replace("view", "on_record = function() error('oh') end, view"), None, 1,
         "oh"),
        ("os.exit", RUN.replace("view", "on_record = function() os.exit(3) end, view"), None, 3,
         None),
        ("os.exit from the line", RUN, ":os.exit(4)\r", 4, None),
        ("Ctrl-C when paused", RUN, " \x03", 130, "interrupted"),
        ("SIGTERM", RUN, signal.SIGTERM, -signal.SIGTERM, None),
        ("SIGHUP", RUN, signal.SIGHUP, -signal.SIGHUP, None),
        ("SIGQUIT", RUN, signal.SIGQUIT, -signal.SIGQUIT, None),
        ("SIGUSR1", RUN, signal.SIGUSR1, -signal.SIGUSR1, None),
        ("a crash", RUN, signal.SIGSEGV, -signal.SIGSEGV, None),
        ("abort", RUN, signal.SIGABRT, -signal.SIGABRT, None)):
    p = start(code)
    if how is not None:
        running(p)
        if isinstance(how, str):
            for c in how:
                p.send(c)
                p.settle(0.15)
        else:
            p.process.send_signal(how)
    code = p.ended(60)
    if "asan" in FOPO and name in ("a crash", "abort"):
        code = wanted  # the sanitizer reports these and exits in its own way
    check("exit code after " + name, code == wanted, code, p.screen.text())
    check("the terminal after " + name, p.restored(), p.raw[-200:])
    if said:
        check("words after " + name, said in p.screen.text(), p.screen.text())
    p.close()

lap('endings')
# Ctrl-Z and back
p = start(RUN)
running(p)
p.send("\x1a")
pid, status = os.waitpid(p.process.pid, os.WUNTRACED)
p.settle(0.2)
check("stopped", os.WIFSTOPPED(status) and p.restored(), status)
p.process.send_signal(signal.SIGCONT)
check("goes on", p.wait(lambda s: p.screen.alternate and "view costs" in s), p.screen.text())
p.send("q")
check("and ends", p.ended() == 0 and p.restored())
p.close()

lap('stop')
# the prompt goes on from there; the view of what has been
p = Program([FOPO, "--no-init", "-i", "-e", WORLD], HOME=folder)
p.wait("fopo>")
p.send(RUN + ";\r")
running(p)
p.send("q")
check("back at the prompt", p.wait(lambda s: "left at step" in s and s.rstrip().endswith("fopo>")),
      p.screen.text())
p.send("t:run{steps = 10, view = false}.step > 10\r")
check("and on", p.wait("true"), p.screen.text())
p.send("view(t)\r")
check("view(t)", p.wait(lambda s: "ended" in s and "? help" in s), p.screen.text())
p.send("+")
check("nothing to steer", p.wait("no lr to change"), p.screen.text())
p.send("q")
check("and back", p.wait(lambda s: s.rstrip().endswith("fopo>")), p.screen.text())
p.close()

lap('prompt')
# terminals that cannot, or should not
p = start("t:run{steps = 20, view = true}", TERM="dumb")
check("TERM=dumb", p.ended() == 0 and b"\x1b" not in p.raw and b"step" in p.raw, p.raw)
p.close()
p = start("print(pcall(t.run, t, {steps = 20, view = 'curses'}))", TERM="no-such-terminal")
check("an unknown TERM",
      p.ended() == 0 and b"terminfo does not know" in p.raw and p.restored(), p.raw)
p.close()
p = start(RUN, NO_COLOR="1")
running(p)
p.settle()
check("NO_COLOR", not p.screen.colours)
p.close()
p = start(RUN, LC_ALL="C")
running(p)
p.settle()
check("ASCII where it is no UTF-8", re.search(rb"[\x80-\xff]", p.raw) is None, p.raw[-300:])
p.close()
p = start(RUN, TERM="vt100")
check("vt100", running(p))
p.close()
done = subprocess.run([FOPO, "-e", WORLD + "t:run{steps = 20, view = true}"], capture_output=True)
steps = [line for line in done.stdout.splitlines() if line.startswith(b"step ")]
check("a pipe gets lines", done.returncode == 0 and b"\x1b" not in done.stdout and
      len(steps) == 20, done.stdout, done.stderr)

lap("terminals")
finish()
