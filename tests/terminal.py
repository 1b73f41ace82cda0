"""A terminal for tests: a program in a pseudo-terminal, and the screen that it draws. It knows the
commands of xterm that ncurses uses."""
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

COMMAND = re.compile(r"\x1b\[([?>=!]?)([0-9;]*)([ -/]*)([@-~])|\x1b[()*+].|"
                     r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[=>78cDEHMNOZ]")


def children(pid):
    """The processes that it has started."""
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(n) for n in f.read().split()]


class Coloured(str):
    """A character on the screen that is not plain: bold or not, and a colour (SGR: "36",
    "38;5;74") or ""."""
    bold, colour = False, ""


class Screen:
    def __init__(self, rows, cols):
        self.alternate, self.cursor_shown, self.colours = False, True, False
        self.rest = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.bold, self.colour = False, ""
        self.resize(rows, cols)

    def resize(self, rows, cols):
        self.rows, self.cols = rows, cols
        self.cells = [[" "] * cols for _ in range(rows)]
        self.row = self.col = 0
        self.top, self.bottom = 0, rows - 1
        self.last = " "

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.cells)

    def feed(self, data):
        text = self.rest + self.decoder.decode(data)
        self.rest = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = COMMAND.match(text, at)
                if found:
                    if found.group(4):
                        self.command(*found.group(1, 2, 4))
                    at = found.end()
                    continue
                if len(text) - at < 32:  # the rest has not come yet
                    self.rest = text[at:]
                    return
            self.put(text[at])
            at += 1

    def put(self, c):
        if c == "\r":
            self.col = 0
        elif c == "\n":
            if self.row == self.bottom:
                self.scroll(1)
            else:
                self.row = min(self.rows - 1, self.row + 1)
        elif c == "\b":
            self.col = max(0, self.col - 1)
        elif c == "\t":
            self.col = min(self.cols - 1, self.col // 8 * 8 + 8)
        elif c >= " ":
            if self.col >= self.cols:
                self.col = 0
                self.put("\n")
            if self.bold or self.colour:
                c = Coloured(c)
                c.bold, c.colour = self.bold, self.colour
            self.cells[self.row][self.col] = self.last = c
            self.col += 1

    def scroll(self, n):
        region = self.cells[self.top:self.bottom + 1]
        blank = [[" "] * self.cols for _ in range(abs(n))]
        region = (region + blank)[n:] if n > 0 else (blank + region)[:n]
        self.cells[self.top:self.bottom + 1] = region[:self.bottom + 1 - self.top]

    def command(self, private, numbers, final):
        n = [int(x) if x else 0 for x in numbers.split(";")]
        one = max(1, n[0])
        line = self.cells[self.row]
        if private == "?":
            if final in "hl" and n[0] in (1049, 47):
                self.alternate = final == "h"
                self.cells = [[" "] * self.cols for _ in range(self.rows)]
            if final in "hl" and n[0] == 25:
                self.cursor_shown = final == "h"
        elif final in "Hf":
            self.row = min(self.rows, max(1, n[0])) - 1
            self.col = min(self.cols, max(1, n[1] if len(n) > 1 else 1)) - 1
        elif final == "A":
            self.row = max(0, self.row - one)
        elif final == "B":
            self.row = min(self.rows - 1, self.row + one)
        elif final == "C":
            self.col = min(self.cols - 1, self.col + one)
        elif final == "D":
            self.col = max(0, self.col - one)
        elif final == "G":
            self.col = min(self.cols, one) - 1
        elif final == "d":
            self.row = min(self.rows, one) - 1
        elif final == "J":
            first = self.row + 1 if n[0] == 0 else 0
            last = self.row if n[0] == 1 else self.rows
            for row in range(first, last):
                self.cells[row] = [" "] * self.cols
            if n[0] < 2:
                self.command("", numbers, "K")
        elif final == "K":
            first, last = (self.col, self.cols) if n[0] == 0 else (0, self.col + 1) if n[0] == 1 \
                else (0, self.cols)
            line[first:last] = [" "] * (min(last, self.cols) - first)
        elif final == "X":
            for col in range(self.col, min(self.cols, self.col + one)):
                line[col] = " "
        elif final == "b":
            for _ in range(one):
                self.put(self.last)
        elif final == "@":
            line[self.col:] = ([" "] * one + line[self.col:])[:self.cols - self.col]
        elif final == "P":
            line[self.col:] = (line[self.col:] + [" "] * one)[one:][:self.cols - self.col]
        elif final in "LM":
            top, self.top = self.top, self.row
            self.scroll(-one if final == "L" else one)
            self.top = top
        elif final in "ST":
            self.scroll(one if final == "S" else -one)
        elif final == "r":
            self.top = max(1, n[0]) - 1
            self.bottom = (n[1] if len(n) > 1 and n[1] else self.rows) - 1
            self.row = self.col = 0
        elif final == "m":
            self.colours = self.colours or any(30 <= x <= 37 or x == 38 for x in n)
            self.set_look(n)

    def set_look(self, n):
        while n:
            x = n.pop(0)
            if x in (0, 22):
                self.bold = False
            if x in (0, 39):
                self.colour = ""
            if x == 1:
                self.bold = True
            elif x == 38 and n[:1] == [5]:
                self.colour = "38;5;%d" % n[1]
                del n[:2]
            elif 30 <= x <= 37:
                self.colour = str(x)


class Program:
    """A program at a terminal of its own."""

    def __init__(self, command, rows=24, cols=80, **env):
        self.master, self.slave = pty.openpty()
        self.before = termios.tcgetattr(self.slave)
        self.screen = Screen(rows, cols)
        self.raw = b""
        self.set_size(rows, cols)
        environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **env}
        for name in ("LINES", "COLUMNS"):
            environment.pop(name, None)
        self.process = subprocess.Popen(command, stdin=self.slave, stdout=self.slave,
                                        stderr=self.slave, env=environment,
                                        start_new_session=True, preexec_fn=self.own_terminal)

    @staticmethod
    def own_terminal():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def set_size(self, rows, cols):
        """Tells the terminal's size, as a window does when it is drawn larger or smaller."""
        self.screen.resize(rows, cols)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def send(self, text):
        os.write(self.master, text.encode())

    def read(self, seconds):
        """Reads what comes for so long; whether something came."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.raw += data
        self.screen.feed(data)
        return True

    def wait(self, wanted, seconds=30):
        """Until the screen satisfies `wanted`, a string on it or a function of its text."""
        end = time.monotonic() + seconds
        while True:
            text = self.screen.text()
            if wanted(text) if callable(wanted) else wanted in text:
                return True
            if time.monotonic() > end:
                return False
            if not self.read(0.05) and self.process.poll() is not None:
                while self.read(0):
                    pass
                text = self.screen.text()
                return bool(wanted(text) if callable(wanted) else wanted in text)

    def settle(self, seconds=0.3):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.05)

    def ended(self, seconds=30):
        """Reads to the end of the program; its exit code."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.05)
        while self.read(0):
            pass
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            return "it did not end"
        return self.process.returncode

    def restored(self):
        """Whether the terminal is as it was: its modes, the screen, the cursor."""
        return (termios.tcgetattr(self.slave) == self.before and not self.screen.alternate
                and self.screen.cursor_shown)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.slave)
        os.close(self.master)
