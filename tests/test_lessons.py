"""A lesson at a terminal: Return, predictions, exercises, back, leaving by q, Ctrl-C and Ctrl-D,
and pipes."""
import re
import subprocess

from checks import check, finish, FOPO
from terminal import Program


def start(rows=24, cols=80, **env):
    p = Program([FOPO, "--no-init"], rows, cols, FOPO_HISTORY="/dev/null", **env)
    check("the prompt", p.wait("fopo>"), p.screen.text())
    return p


def send(p, typed, wanted):
    """Types a line and waits for what it brings."""
    p.screen.resize(p.screen.rows, p.screen.cols)
    p.send(typed)
    check("%r brings %r" % (typed, wanted), p.wait(wanted), p.screen.text())


def leave(p, name):
    """Ctrl-D at the prompt, when it is there."""
    p.wait(lambda text: text.rstrip().endswith("fopo>"))
    p.send("\x04")
    check("the end " + name, p.ended() == 0, p.screen.text())


def question(p):
    """On to the question of the step, by as many Returns as the window needs."""
    for _ in range(9):
        p.settle(0.1)
        if "Your prediction:" in p.screen.text():
            return
        send(p, "\r", ":")
    check("a question", False, p.screen.text())


def begin(p):
    send(p, 'fopo.demo(1, {scale = "small"})\r', "Return ")
    question(p)


# through two steps with a prediction, back, a wrong key, and out by q
p = start()
begin(p)
send(p, "7\r", "a number from 1 to 2")
send(p, "1\r", "Return goes on, b goes back, q leaves:")
check("the prediction is compared", "You said 1: more. It is 2: less." in p.screen.text(),
      p.screen.text())
check("the whole answer fits", "pi(a)" in p.screen.text(), p.screen.text())
check("colours", p.screen.colours)
send(p, "\r", "2 of 7")
send(p, "\r", "Your prediction:")
send(p, "b\r", "1 of 7")
send(p, "\r", "Your prediction:")
send(p, "2\r", "as you said")
p.settle()
send(p, "q\r", "left at step 1 of 7, 0 of 1 predictions right")  # the first prediction counts
check("what is left is said", "Left for you: Z, blind, earned" in p.screen.text(), p.screen.text())
send(p, "pays[7]\r", "0.95")

# Ctrl-C at a question, and while the code runs
send(p, "fopo.demo(1, {from = 2})\r", "Return shows the code:")
send(p, "\x03", "left at step 2 of 7")
check("no error", "interrupted" not in p.screen.text(), p.screen.text())
send(p, "prob[7] < 1\r", "true")
send(p, "kept, fopo.reward.custom = fopo.reward.custom, function() while true do end end\r",
     "fopo>")
send(p, "fopo.demo(1, {from = 2})\r", "Return shows the code:")
send(p, "\r", "Your prediction:")
send(p, "\r", "")
p.settle()
send(p, "\x03", "left at step 2 of 7")
send(p, "fopo.reward.custom = kept\r", "fopo>")

# Ctrl-D, and the end
send(p, "fopo.demo(1, {from = 2})\r", "Return shows the code:")
send(p, "\x04", "left at step 2 of 7")
send(p, "1 + 1\r", "2")
leave(p, "of the first one")
check("the terminal is as it was", p.restored())
p.close()

# small and plain terminals
for env, cols in (({"TERM": "dumb"}, 80), ({"NO_COLOR": "1"}, 80), ({}, 40), ({}, 24)):
    p = start(24, cols, **env)
    begin(p)
    send(p, "2\r", "q leaves:" if cols > 24 else "ack, q leaves:")
    check("a word in a line of %d" % cols, "less" in p.screen.text(), p.screen.text())
    lesson = p.raw[p.raw.find(b"Lesson 1"):]
    if env:
        check("no colour with %s" % env, b"\x1b[1m" not in lesson and b"\x1b[38" not in lesson,
              lesson)
    p.send("q\r")
    leave(p, "at %d columns" % cols)
    p.close()

STOP = re.compile(r"(Your prediction: |In place of ___: |Return [^:\n]*: |fopo> )$")


def play(number, answers, cols):
    """A lesson to its end at 24 rows, each exercise first with a wrong answer. No line is longer
    than the screen is wide, and at 80 columns what is printed between two stops fits on it."""
    p = start(24, cols)
    p.raw, answers, typed = b"", list(answers), 0
    p.send('fopo.demo(%d, {scale = "small"})\r' % number)
    while True:
        seen = len(p.raw)
        p.wait(lambda _: len(p.raw) > seen and STOP.search(plain(p)))
        shown = plain(p)
        stop = STOP.search(shown).group(1)
        lines = shown.split("\n")[1:]  # without what was typed
        check("the lines of lesson %d in %d columns" % (number, cols),
              max(map(len, lines)) <= cols, max(lines, key=len))
        check("a screen at a time, not %d rows" % len(lines), cols < 80 or len(lines) <= 24, shown)
        if stop == "fopo> ":
            break
        p.raw = b""
        if stop.startswith("In place"):
            typed += 1
            p.send("0 --\r" if typed % 2 else answers.pop(0) + "\r")
        else:
            p.send("1\r" if stop.startswith("Your") else "\r")
    check("lesson %d is done" % number, re.search(
        r"lesson %d, [^:]*: done, \d of \d predictions right, 0 of 2 exercises" % number,
        " ".join(shown.split())), shown)
    p.send("\x04")
    p.ended()
    p.close()


def plain(p):
    """What was printed since p.raw was emptied, without colours."""
    return re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", p.raw.decode("utf-8", "replace")).replace("\r", "")


play(1, ("prob[a] * (pays[a] - earned)", "math.exp(f) / q"), 60)  # its formulas are long
for number, answers in (
        (9, ("(P - H) / U * math.exp(f)", "2000")),
        (10, ("earned / weight", "math.log(1 + lambda * w * r) / lambda")),
        (11, ("p[a] / (1 - taken)", "v / math.log(1 + j, 2)"))):
    for cols in (80, 60):
        play(number, answers, cols)


# without a terminal: to the end; with ask = true the answers may come through a pipe
def piped(code, typed):
    return subprocess.run([FOPO, "-e", code], input=typed, capture_output=True, text=True,
                          timeout=60)


done = piped('r = fopo.demo(1, {scale = "small"}) print(r.done, #r.claims > 5)', "")
check("without a keyboard", done.returncode == 0 and done.stdout.endswith("true\ttrue\n"), done)
check("no escape sequences", "\x1b" not in done.stdout and done.stderr == "", done.stderr)
check("all steps", all("%d of 7" % n in done.stdout for n in range(1, 8)), done.stdout)
answers = piped('r = fopo.demo(1, {scale = "small", ask = true}) print(r.answers[1].given, r.at)',
                "\n1\n\n\n3\nq\n")
check("answers through a pipe", re.search(r"1\t2\n$", answers.stdout), answers.stdout)

finish()
