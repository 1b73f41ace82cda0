"""Faults at the prompt: the nth allocation, read, write ... while an entry is typed and run, at a
terminal and from a pipe. Whatever fails, the prompt comes back and 1 + 1 is 2.

    prompt.py TRIES [SEED]"""
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)
import run  # noqa: E402
from terminal import Program  # noqa: E402

SEAM = 'seam = assert(package.loadlib(os.getenv "SEAM", "luaopen_seam"))()'
KINDS = "memory lua open read write status seek again short".split()
ENTRIES = ["x = {1, 2, {a = 3}}", "x", "1 +* 2", "error('no')", "error({})", "nil, 1, 'text'",
           "d = data.synthetic{users = 20, items = 10, clusters = 2}", "d", "help()",
           "trainer{polcy = 1}", "array.randn(3, 3, 1)", "fopo.array.load('none.npy')",
           "print(('x'):rep(3000))", "xs = {} for i = 1, 300 do xs[i] = {i} end", "xs", "who()",
           "require('fopo').isa()"]
TYPED = ENTRIES + ["data.sy\t{users = 20, items = 10, clusters = 2};",
                   "\x1b[200~for i = 1, 2 do\n  print(i)\nend\x1b[201~",
                   "\x1b[200~fopo> y = 1\nfopo> y\n1\x1b[201~"]
NEVER = 10 ** 9


class Terminal:
    """The prompt at a pseudo-terminal."""
    entries, share = TYPED, 0.9

    def __init__(self, folder):
        self.count, self.heard = 0, ""  # heard: what the entry has brought to the screen
        self.program = Program([run.FOPO, "--no-init", "-i", "-e", SEAM + COUNTS], 50, 150,
                               **{**run.environment(folder, 1), "HOME": folder,
                                  "FOPO_HISTORY": "/dev/null", "FOPO_THEME": "dark"})
        assert self.program.wait(self.back, 60), self.program.screen.text()

    @staticmethod
    def back(text):
        return text.rstrip().endswith("fopo>")

    def type(self, line):
        """The screen after the line, when the prompt is back."""
        self.heard += self.screen()
        self.program.screen.resize(50, 150)
        self.program.send(line + "\r")
        self.program.wait(lambda text: self.back(text) and "\n" in text, 20)
        return self.screen()

    def ask(self, code):
        """What the code gives. The fault ends when the prompt waits and nothing has been typed, so
        the code may have to be typed again."""
        for _ in range(20):
            self.count += 1
            text = self.type("io.write('<%d ', %s, ' >\\n')" % (self.count, code))
            found = re.search(r"^<%d (.*) >$" % self.count, text, re.M)
            if found or self.program.process.poll() is not None:
                return found and found[1]
            self.program.settle(0.1)
        return None

    def screen(self):
        return self.program.screen.text()

    def entry(self, arm, entry):
        """The answer to 1 + 1 after the entry, and how the process has ended, or None."""
        self.type(arm)
        self.heard, code, restored = "", None, True
        self.type(entry)
        answer = self.ask("1 + 1")
        if answer != "2" and self.program.process.poll() is not None:
            code, restored = self.program.ended(), self.program.restored()
        self.heard += self.screen()
        return answer, code, restored

    def close(self):
        self.program.close()


class Pipe:
    """The prompt with a pipe for its input, a process for each fault."""
    entries, share = ENTRIES, 0.1

    def __init__(self, folder):
        self.folder, self.said, self.heard = folder, "", ""

    def ask(self, code):
        return self.said

    def screen(self):
        return self.said

    def entry(self, arm, entry):
        lines = [arm, entry, "print('<', 1 + 1, '>')",
                 "print('{', counts(), '}')"]
        done = subprocess.run([run.FOPO, "--no-init", "-i", "-e", SEAM + COUNTS],
                              input="\n".join(lines), capture_output=True, text=True, timeout=60,
                              errors="replace", env=run.environment(self.folder, 1))
        self.heard = done.stderr
        answer = re.search(r"^<\t(.*)\t>$", done.stdout, re.M)
        counts = re.search(r"^{\t(.*)\t}$", done.stdout, re.M)
        self.said = counts and counts[1]
        answer = answer and answer[1]
        return answer, None if answer == "2" else done.returncode, True

    def close(self):
        pass


COUNTS = """ function counts() local n = {}
for i, kind in ipairs{%s} do n[i] = seam.calls(kind) end return table.concat(n, " ") end""" % \
    ", ".join(map(repr, KINDS))


def arm(kind, n, forever):
    return "seam.arm('%s', %d, %s, true)" % (kind, n, str(forever).lower())


def faults(prompt):
    """All that can be made: (entry, kind, n, forever)."""
    found = []
    for entry in prompt.entries:
        prompt.entry(arm("memory", NEVER, False), entry)
        counted = prompt.ask("counts()")
        assert counted, (entry, prompt.screen())
        counts = [int(x) for x in counted.split()]
        found += [(entry, kind, n, forever) for kind, most in zip(KINDS, counts)
                  for n in range(most) for forever in (False, True)]
    return found


def may_end(kind, code, restored, said):
    """An input that cannot be read ends the prompt: a sentence, code 1, the terminal as it was."""
    return kind == "read" and code == 1 and restored and "could not be read: " in said


def sweep(tries, seed=1, kinds=(Terminal, Pipe)):
    """(faults, failures, lines that say what failed)."""
    made, lines, dice = 0, [], random.Random(seed)
    for which in kinds:
        folder = tempfile.mkdtemp()
        prompt = which(folder)
        every = faults(prompt)
        # of each kind of call as many, as far as there are
        dice.shuffle(every)
        first = {}
        for fault in every:
            first.setdefault(fault[1], []).append(fault)
        first["read"] = first.get("read", [])[:tries // 20]  # each ends the process
        turns = sorted((i, kind) for kind, of in first.items() for i in range(len(of)))
        for i, kind in turns[:int(tries * which.share)]:
            entry, _, n, forever = first[kind][i]
            answer, code, restored = prompt.entry(arm(kind, n, forever), entry)
            made += 1
            ended = answer != "2"
            if ended and not may_end(kind, code, restored, prompt.heard):
                lines.append("not so: %s, %r: %s %d%s: %s, ends with %s" %
                             (which.__name__, entry, kind, n, " and all after" if forever else "",
                              answer, code))
                lines += (prompt.screen() or "").rstrip().split("\n")[-6:]
            if ended:
                prompt.close()
                prompt = which(folder)
        prompt.close()
        shutil.rmtree(folder)
    return made, sum(line.startswith("not so") for line in lines), lines


if __name__ == "__main__":
    tried, failures, talk = sweep(int(sys.argv[1]), *[int(x) for x in sys.argv[2:3]])
    print(*talk, "%d faults at the prompt, %d failures" % (tried, failures), sep="\n")
    sys.exit(failures > 0)
