"""The prompt asks the terminal for its background: terminals that answer at once, late, amid a line
or never, keys typed meanwhile, and terminals and pipes that are not asked."""
import os
import subprocess

from checks import check, finish, FOPO
from terminal import Program

ASKED = b"\x1b]11;?\x1b\\"
WHITE = "\x1b]11;rgb:ffff/ffff/dddd\x1b\\"
BLACK = "\x1b]11;rgb:1e/1e/2e\x07"


def start(**env):
    env = {"TERM": "xterm-256color", "COLORFGBG": "", "FOPO_THEME": "", "NO_COLOR": "",
           "FOPO_HISTORY": "/dev/null", **env}
    p = Program([FOPO, "--no-init"], 24, 80, **env)
    check("the prompt", p.wait("fopo>"), p.screen.text())
    p.settle(0.1)
    return p


def says(p, name, typed, wanted):
    p.send(typed)
    check(name, p.wait(lambda text: any(line == wanted for line in text.split("\n"))), wanted,
          p.screen.text())


def prompted(p):
    """While a command runs the terminal itself echoes what it is sent; at the prompt fopo reads."""
    return p.wait(lambda text: text.rstrip().endswith("fopo>"))


def leave(p, name):
    check(name + ": nothing of the answer is shown", "rgb" not in p.screen.text()
          and "]11" not in p.screen.text(), p.screen.text())
    prompted(p)
    p.send("\x04")
    check(name + ": the end", p.ended() == 0, p.screen.text())
    check(name + ": the terminal is as it was", p.restored())
    p.close()


for name, answer, wanted in (("light", WHITE, "light"), ("dark", BLACK, "dark"),
                             ("one digit", "\x1b]11;rgb:f/f/f\x07", "light"),
                             ("with transparency", "\x1b]11;rgba:ffff/ffff/ffff/8000\x07", "light"),
                             ("of no colour", "\x1b]11;none\x07", "dark")):
    p = start()
    check(name + ": asked once", p.raw.count(ASKED) == 1, p.raw)
    p.send(answer)
    p.settle(0.1)
    says(p, name, "print(theme())\r", wanted)
    leave(p, name)

# no answer, ever: keys with ESC are keys, and the theme is dark
p = start()
says(p, "no answer", "12\x1b[D\x1b[D3\r", "312")
says(p, "no answer, still", "print(theme())\r", "dark")
leave(p, "no answer")

# a line that is sent before the answer sees it, and so does one that is being typed
p = start()
p.send("print(theme())\r")
p.settle(0.05)
says(p, "a line before the answer", WHITE, "light")
leave(p, "a line before the answer")
p = start()
p.send("print('a' .. ")
p.settle(0.2)
p.send(WHITE)
says(p, "an answer within a line", "theme())\r", "alight")
leave(p, "an answer within a line")

# an answer that comes after the first lines
p = start()
says(p, "the first line", "x = 40; print(x + 1)\r", "41")
check("the prompt is there again", prompted(p), p.screen.text())
p.settle(0.5)
p.send(WHITE)
says(p, "a late answer", "print(x + 2, theme())\r", "42\tlight".expandtabs(8))
leave(p, "a late answer")

# what the user has named is not overruled, and such terminals are not asked
for env in ({"TERM": "linux"}, {"TERM": "dumb"}, {"TERM": "vt100"}, {"FOPO_THEME": "dark"},
            {"FOPO_THEME": "light"}, {"COLORFGBG": "0;15"}, {"NO_COLOR": "1"}):
    p = start(**env)
    check("not asked with %s" % env, ASKED[:5] not in p.raw, p.raw)
    p.close()
p = start()
says(p, "a theme by hand", "theme('dark'); print(theme() .. 1)\r", "dark1")
check("the prompt is back", prompted(p), p.screen.text())
p.send(WHITE)
says(p, "stays", "print(theme() .. 2)\r", "dark2")
leave(p, "a theme by hand")

# through a pipe
for command, typed in (([FOPO], "print(1)\n"), ([FOPO, "-e", "print(1)"], "")):
    done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "TERM": "xterm-256color"})
    check("no question in a pipe", done.stdout == "1\n" and done.stderr == "", done)

finish()
