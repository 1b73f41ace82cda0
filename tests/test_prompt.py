"""The prompt in a pseudo-terminal: editing, history, completion, Ctrl-C, pasted blocks, endings."""
import os
import re
import signal
import subprocess
import time

from checks import check, finish, folder as home, FOPO
from terminal import children, Program

PROMPT = "fopo> "
history = os.path.join(home, "state", "fopo", "history")
os.environ.pop("FOPO_HISTORY", None)


class Prompt(Program):
    """A fopo at a terminal of its own, of which what it sends is looked at, not the screen."""

    def __init__(self, *args, term="xterm", **env):
        super().__init__([FOPO, *args], TERM=term, HOME=home, INPUTRC="/dev/null",
                         XDG_STATE_HOME=os.path.join(home, "state"),
                         XDG_CONFIG_HOME=os.path.join(home, "config"), **env)
        self.at = 0  # up to where `wait` has returned

    @property
    def seen(self):
        return self.raw[self.at:].decode(errors="replace")

    def wait(self, wanted, seconds=30):
        """What came up to and with `wanted` (after what earlier calls returned)."""
        end = time.monotonic() + seconds
        while wanted not in self.seen:
            if not self.read(0.05) and (time.monotonic() > end or self.process.poll() is not None):
                check("waiting for %r" % wanted, False, self.seen)
                break
        found = self.raw.find(wanted.encode(), self.at)
        at = len(self.raw) if found < 0 else found + len(wanted.encode())
        text, self.at = self.raw[self.at:at], at
        return text.decode(errors="replace")

    def enter(self, line):
        """Sends a line and returns what came until the next prompt, without the echo."""
        self.send(line + "\r")
        return plain(self.wait(PROMPT))

    def start(self, code):
        """Sends code that will run for long, and waits until it runs."""
        self.send("io.write('run', 'ning\\n') io.flush() " + code + "\r")
        self.wait("running")
        time.sleep(0.1)

    def end(self, code=0):
        self.send("\x04")
        check("exit code", self.ended() == code, self.process.returncode)
        check("the terminal is as it was", self.restored())
        self.close()


def plain(text):
    """Without escape sequences, carriage returns and the echo (the first line)."""
    text = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]|\x1b[=>]", "", text).replace("\r", "")
    return text.split("\n", 1)[1].removesuffix(PROMPT) if "\n" in text else text


def commands_of(program):
    """The command lines of the processes that it has started."""
    found = b""
    for child in children(program.process.pid):
        with open("/proc/%d/cmdline" % child, "rb") as f:
            found += f.read()
    return found


def body(text):
    return text.strip("\n")


# values, errors, several lines
p = Prompt()
greeting = p.wait(PROMPT)
check("greeting", "help() lists the first steps" in greeting and "Ctrl-D" in greeting, greeting)
check("1 + 1", body(p.enter("1 + 1")) == "2")
check("a statement", body(p.enter("x = {1, 2, y = 'z'}")) == "")
check("a table", body(p.enter("x")) == '{1, 2, y = "z"}')
check("silence", body(p.enter("x;")) == "")
check("_", body(p.enter("_.y")) == "z")
check("modules", body(p.enter("array.zeros(2, 3).cols")) == "3")
check("an error", body(p.enter("error('bad')")) == "prompt:1: bad")
check("still there", body(p.enter("x.y")) == "z")
p.send("for i = 1, 2 do\r")
p.wait(".. ")
p.send("print(i * 10)\r")
p.wait(".. ")
check("several lines", "10\n20" in p.enter("end"))
deep = p.enter("function f() error('deep') end function g() f() return 1 end") + p.enter("g()")
check("a traceback", "prompt:1: deep" in deep and "in function 'g'" in deep, deep)
check("without the host's frames", "[C]: in ?" not in deep and "fopo/" not in deep, deep)
hint = p.enter("local z = 1")
check("a hint about local", "a local variable ends" in hint, hint)
check("once", "local lives" not in p.enter("local z = 1"))
slow = p.enter("local t = os.clock() while os.clock() - t < 0.2 do end")
check("time", re.search(r"\(\d\.\d+ s\)", slow), slow)
check("no time for what is quick", "s)" not in p.enter("1"))

# Ctrl-C: while typing, in Lua, in C
p.send("this is nothing")
p.send("\x03")
check("a line dropped", "^C" in p.wait(PROMPT))
check("nothing left of it", body(p.enter("2 + 2")) == "4")
p.send("x = {\r")
p.wait(".. ")
p.send("\x03")
p.wait(PROMPT)
check("an entry dropped", body(p.enter("5")) == "5")
p.enter("a = array.randn(1500, 1500, 1)")
for code in ("while true do end",
             "while true do pcall(function() while true do end end) end",
             "coroutine.wrap(function() while true do end end)()",
             "while true do a:matmul(a) end"):
    p.start(code)
    p.send("\x03")
    check("Ctrl-C in " + code, "interrupted" in p.wait(PROMPT))
    check("and the prompt works", body(p.enter("6 * 7")) == "42")
whole = p.enter("a:get(9, 9) == array.randn(1500, 1500, 1):get(9, 9)")
check("objects are whole", body(whole).startswith("true"), whole)
p.enter("debug.sethook(function() end, '', 1000000)")
p.start("while true do end")
p.send("\x03")
p.wait("interrupted")
p.wait(PROMPT)
check("a hook of the user's is back", "1000000" in p.enter("debug.gethook()"))
p.enter("debug.sethook()")

# completion
p.send("array.zer\t")
check("a field", "array.zeros" in p.wait("array.zeros"))
p.send("(3, 4):fin\x15")  # Ctrl-U clears the line
p.send("a:finit\t()\r")
check("a method", "true" in plain(p.wait(PROMPT)))
with open(os.path.join(home, "some-data.csv"), "w") as f:
    f.write("x")
p.send('io.open("%s/some-d\t):close()\r' % home)
check("a file in a string", "true" in plain(p.wait(PROMPT)))

p.send("g = gradient.snis{fault = 'no_\t")
check("what an option may be", "no_q'" in p.wait("no_q'"))
p.send("\x15help('index.hns\t")
check("what help knows", "index.hnsw'" in p.wait("index.hnsw'"))
p.send("\x15")

# earlier values, the shell, a session that is kept
check("_1 and _2", p.enter("11") + p.enter("12") + p.enter("_1 * 100 + _") == "11\n12\n1112\n")
check("_2", body(p.enter("_2")) == "11")
check("the shell", body(p.enter("!echo $((6 * 7)); exit 3")) == "42\n(status 3)")
p.send("!exec sleep 100\r")
while b"sleep\x00100" not in commands_of(p): # before that, sh may lose the signal
    time.sleep(0.02)
p.send("\x03")
check("Ctrl-C ends a command", "signal 2" in p.wait(PROMPT))
check("no command", "behind \"!\"" in p.enter("!"))
check("not a command", "\":fetch\" is no command" in p.enter(":fetch x"))
kept = os.path.join(home, "session.lua")
q = Prompt()
q.wait(PROMPT)
for line in ("n = 6; n", "n * 7", "no_such()", "?ess", "!true", "local m = n; m", "_1 + 1", "n;"):
    q.enter(line)
check("it needs a name", "needs a name" in q.enter(":save"))
check("it is written", "5 entries" in q.enter(":save " + kept))
q.end()
again = subprocess.run([FOPO, kept], capture_output=True, text=True, env={**os.environ})
check("a session that is kept runs again", again.stdout == "6\n42\n6\n43\n", again)

# pasted blocks are one entry, or lines where they make no whole; copied prompts go
p.send("\x1b[200~b = 1\nprint(b,\n'pasted')\x1b[201~\r")
check("a pasted block", "1\tpasted" in p.wait(PROMPT).replace("\r", "").replace("       ", "\t"))
p.send("\x1b[200~fopo> c = {7,\n   .. 8}\nfopo> c\nfopo> error('stop')\nfopo> c[3]\x1b[201~\r")
p.wait("{7, 8}")
p.wait("stop\r\n")
p.wait(PROMPT)
check("what follows an error is not run", body(p.enter("9")) == "9")
p.end()

# history: kept, entries of several lines whole, repeats once
p = Prompt()
p.wait(PROMPT)
for line in ("11", "22", "11"):
    p.enter(line)
p.send("for i = 7, 7 do\r")
p.wait(".. ")
p.send("print(i)\r")
p.wait(".. ")
p.enter("end")
p.end()
p = Prompt()
p.wait(PROMPT)
p.send("\x10\r")  # Ctrl-P
check("a whole block again", "7\n" in plain(p.wait(PROMPT)))
p.send("\x10\x10\r")
check("before it", "11" in p.wait(PROMPT))
p.send("\x12x.y\r")  # Ctrl-R
p.wait("attempt to index a nil value (global 'x')")
p.wait(PROMPT)
p.end()
with open(history) as f:
    lines = [line for line in f.read().split("\n") if line and not re.match(r"#\d", line)]
check("the file", lines.count("22") == 1 and "for i = 7, 7 do" in lines, lines)
mode = os.stat(history).st_mode
check("only the user may read it", mode & 0o077 == 0, oct(mode))
p = Prompt()
p.wait(PROMPT)
with open(history) as f:
    check("11 once, after loading", f.read().split("\n").count("11") == 1)
p.end()

# no escape sequence to a dumb terminal
p = Prompt(term="dumb")
text = p.wait(PROMPT)
p.send("1 + 1\r")
text += p.wait(PROMPT)
check("TERM=dumb", "\x1b" not in text, text)
p.end()
p = Prompt(NO_COLOR="1")
p.wait(PROMPT)
p.send("plot{1, 4, 9, height = 3}\r")
check("NO_COLOR", "\x1b[3" not in p.wait(PROMPT))
p.end()

# colours where there is a terminal, the progress bar, and its end
p = Prompt()
p.wait(PROMPT)
p.send("plot{{1, 4, 9}, {3, 2, 1}, height = 3}\r")
check("colours", "\x1b[3" in p.wait(PROMPT))
rows = 3000 if "coverage" in FOPO else 20000  # -O0 is slow enough for a bar
p.send("index.hnsw(array.randn(%d, 32, 1), {ef_construction = 100});\r" % rows)
text = p.wait(PROMPT, 120)
check("a bar", re.search(r"\[#+\.*\] +\d+ %", text), text[:300])
check("it goes away", re.search(r"\r +\r", text), text[-200:])
p.end()

# the terminal after other endings
p = Prompt("-i", "-e", "print 'begun'")
check("-e before the prompt", "begun" in p.wait(PROMPT))
p.send("os.exit(5)\r")
check("os.exit", p.ended() == 5 and p.restored(), p.seen)
p = Prompt()
p.wait(PROMPT)
p.process.send_signal(signal.SIGTERM)
check("SIGTERM", p.ended() == -signal.SIGTERM and p.restored(), p.seen)

# a function of Lua's library that never ends: the second Ctrl-C says so, the third ends the program
for code in ("table.move({}, 1, 10^14, 2)", "string.find(('a'):rep(50), ('.-'):rep(40) .. 'b')"):
    p = Prompt()
    p.wait(PROMPT)
    p.start(code)
    for _ in range(20):  # on a loaded machine the first may arrive late
        p.send("\x03")
        p.settle(1.2)
        if "next Ctrl-C ends the program" in p.seen:
            break
    p.send("\x03")
    check("ended: " + code, p.ended() == -signal.SIGINT and p.restored(), p.seen)

# one that takes seconds: the interruption is raised when it returns
p = Prompt()
p.wait(PROMPT)
p.start("n = 0 for i = 1, 100 do string.find(('a'):rep(34), ('.-'):rep(6) .. 'b') n = i end")
time.sleep(0.3)
p.send("\x03")
check("a pattern is interrupted behind", "interrupted" in p.wait(PROMPT), p.seen[-300:])
check("and not at the end of the loop", "true" in p.enter("n < 100"))
p.end()

finish()
