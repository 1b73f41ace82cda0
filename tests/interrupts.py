"""Ctrl-C at random moments gives the prompt back, from Lua and from C, with all objects whole; and
whatever signal ends the program, wherever it is, the terminal is as it was.
tests/nightly/interrupts tries it often and measures; tests/test_interrupts.py tries a share."""
import os
import re
import shutil
import signal
import tempfile
import termios
import time

from checks import FOPO
from long_work import FACTS, IN_C, IN_LUA, WORLD, write_file
from terminal import Program


class Prompt(Program):
    def __init__(self, folder, code=""):
        super().__init__([FOPO, "--no-init", "-i", "-e", code], 50, 150, HOME=folder,
                         FOPO_HISTORY="/dev/null")
        self.count = 0
        assert self.wait("fopo>", 120), self.screen.text()

    def back(self, text):
        return text.rstrip().endswith("fopo>")

    def ask(self, line, seconds=60):
        """What the line writes."""
        self.count += 1
        n = self.count
        self.screen.resize(50, 150)
        self.send("io.write('<', %d, '<') %s io.write('>', %d, '>\\n')\r" % (n, line, n))
        self.wait(lambda text: ">%d>" % n in text and self.back(text), seconds)
        found = re.search(r"<%d<(.*?)>%d>" % (n, n), self.screen.text(), re.S)
        return found.group(1).split("\n")[-1] if found else self.screen.text()

    def interrupt(self, code, after):
        """Runs code that takes long and presses Ctrl-C so long after it began. The seconds until
        the prompt is back; None if it did not come back, or if the code had ended before."""
        self.count += 1
        n = self.count
        self.screen.resize(50, 150)
        self.send("io.write('go', %d, '\\n') io.flush() do %s end io.write('end', %d)\r" %
                  (n, code, n))
        if not self.wait("go%d\n" % n, 60):
            return None
        self.settle(after)
        if "end%d\n" % n in self.screen.text() or self.back(self.screen.text()):
            return None
        begun = time.monotonic()
        self.send("\x03")
        if not self.wait(lambda text: "interrupted" in text and self.back(text), 20):
            return None
        return time.monotonic() - begun


def quantile(list_, q):
    return sorted(list_)[min(len(list_) - 1, int(q * len(list_)))]


def load():
    """How much slower a loaded machine is: processes that want a processor, for each processor."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def interruptions(proof, share, count, measured=False, facts=FACTS, work=(IN_LUA, IN_C),
                  code=WORLD):
    until = proof.until(share)
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    if "big.csv" in str(work):
        write_file()
    p = Prompt(folder, code)
    undisturbed = [p.ask(line) for line in facts]
    seconds = {"Lua": [], "C": []}
    for i in range(count):
        if time.monotonic() > until:
            break
        kind = "Lua" if i % 4 == 0 else "C"
        name, piece = proof.random.choice(work[0 if kind == "Lua" else 1])
        took = p.interrupt(piece, proof.random.uniform(0.01, 0.5))
        if proof.tried(name + ": Ctrl-C gives the prompt back", took is not None,
                       p.screen.text()):
            seconds[kind].append(took)
        else:
            p.close()
            p = Prompt(folder, code)
        if i % 25 == 24 or i == count - 1:
            now = [p.ask(line) for line in facts]
            for line, was, is_now in zip(facts, undisturbed, now):
                proof.tried("as undisturbed: " + line, was == is_now and re.search(r"\d", was), was,
                            is_now)
    for kind, limit in (("Lua", 0.1), ("C", 0.5)):
        if measured and seconds[kind]:
            p99, factor = quantile(seconds[kind], 0.99), load()
            print("%d times in %s: median %.3f s, p99 %.3f s, longest %.3f s; load %.1f" %
                  (len(seconds[kind]), kind, quantile(seconds[kind], 0.5), p99,
                   max(seconds[kind]), factor))
            proof.tried("p99 in %s is at most %.1f s times the load" % (kind, limit),
                        p99 <= limit * factor, p99, factor)
    p.close()
    os.chdir("/")
    shutil.rmtree(folder)


# ---- endings ----

SMALL = """
local s = data.synthetic{users = 400, items = 500, clusters = 8, seed = 3}:sessions{min_items = 10}
items = embed.svd(s.train, {dim = 8})
t = trainer{policy = policy.linear{items = items}, data = s.train, batch = 16, seed = 7,
  valid = false}
"""
SIGNALS = [getattr(signal, "SIG" + name) for name in
           "TERM HUP QUIT SEGV ABRT BUS FPE ILL XCPU USR1 USR2 ALRM".split()]
# name, what is typed, what shows that it is there, what is typed then
PLACES = (
    ("at the prompt", "", "fopo>", ""),
    ("while a line is typed", "local x = 6 * ", "6 *", ""),
    ("while a line is searched", "x = 12345\r\x12", "search", "x ="),
    ("in a loop", "print('gone') while true do end\r", "\ngone", ""),
    ("in a run", "t:run{seconds = 100, every = 10}\r", "reward", ""),
    ("in the view", "t:run{seconds = 100, view = true}\r", "contexts/s", ""),
    ("in the view's help", "t:run{seconds = 100, view = true}\r", "contexts/s", "?"),
    ("in the view, paused", "t:run{seconds = 100, view = true}\r", "contexts/s", " "),
    ("in the view, with a checkpoint", "t:run{seconds = 100, view = true, checkpoint = 'c.npz'}\r",
     "contexts/s", ""),
    ("beside a job", "job = t:start{seconds = 100}\r", "fopo>", ""),
    ("in a job's view", "job = t:start{seconds = 100} view(job)\r", "? help", ""),
    ("in a lesson", "fopo.demo(1, {scale = 'small'})\r", "Return", ""),
    ("after Ctrl-Z is typed", "\x1a", "fopo>", ""),
)


def ending(proof, folder, place, number):
    name, typed, shown, then = place
    p = Program([FOPO, "--no-init", "-i", "-e", SMALL], 24, 80, HOME=folder,
                FOPO_HISTORY="/dev/null")
    what = "%s %s" % (signal.Signals(number).name, name)
    here = p.wait("fopo>", 60)
    p.send(typed)
    here = here and p.wait(shown, 30)
    p.send(then)
    p.settle(proof.random.uniform(0, 0.2))
    if proof.tried(what + ": it is there", here and p.process.poll() is None, p.screen.text()):
        p.process.send_signal(number)
        code = p.ended(30)
        proof.tried(what + ": ended by it", code in (-number, 128 + number), code)
        proof.tried(what + ": the terminal is as it was", p.restored(), p.before,
                    termios.tcgetattr(p.slave), p.screen.alternate, p.screen.cursor_shown)
    p.close()


def endings(proof, share, count):
    until = proof.until(share)
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    for i in range(count):
        if time.monotonic() > until:
            print("%d of %d endings in this time" % (i, count))
            break
        ending(proof, folder, proof.random.choice(PLACES), proof.random.choice(SIGNALS))
    os.chdir("/")
    shutil.rmtree(folder)
