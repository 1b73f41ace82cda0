"""What a newcomer does at the prompt, on a terminal of 80 x 24: pastes a session, asks, recalls,
stops the program and goes on, leaves."""
import re

from checks import check, finish, folder as home, FOPO
from terminal import Program

PROMPT = "fopo>"
UP, DOWN = "\x1b[A", "\x1b[B"


def start(*args, rows=24, cols=80, **env):
    p = Program([FOPO, *args], rows=rows, cols=cols, HOME=home, INPUTRC="/dev/null",
                FOPO_HISTORY="/dev/null", XDG_CONFIG_HOME=home, **env)
    check("a prompt", p.wait(lambda _: last_line(p) == PROMPT, 10), p.screen.text())
    return p


def last_line(p):
    return p.screen.text().rstrip().split("\n")[-1]


def enter(p, line, wanted, seconds=20):
    """Enters a line; the screen's lines below it, which must come to hold `wanted` and a prompt."""
    p.send("\x0c" + line + "\r")  # Ctrl-L: the line is the first of the screen

    def there(text):
        lines = text.rstrip().split("\n")
        return (lines[0][:70] == (PROMPT + " " + line)[:70] and lines[-1] == PROMPT
                and wanted in "\n".join(lines[1:]))
    check("%r after %r" % (wanted, line), p.wait(there, seconds), p.screen.text())
    return "\n".join(p.screen.text().rstrip().split("\n")[1:-1])


# values
p = start()
check("the value of the last expression", enter(p, "x = 1; x", "1") == "1")
check("silence", enter(p, "x = 1; x;", "") == "")
check("strings and tables with ;", enter(p, "y = 'a;b' z = {1; 2}", "") == "")
check("a loop runs to its end", enter(p, "n = 0 for i = 1, 3 do n = n + i; (type)(n) end; n", "6")
      == "6")
check("NaN", enter(p, "0/0", "nan") == "nan")
check("infinities", enter(p, "{1/0, -1/0, -(0/0)}", "inf") == "{inf, -inf, nan}")
enter(p, "pi = policy.linear{items = array.randn(50, 4, 1)};", "")
check("a method without a call", "pi:best is a method of a policy: pi:best(x, {...})" in
      enter(p, "pi:best", "method"))
enter(p, "pi:bets", "pi is a policy, which has no method bets")
enter(p, "nobody:best", "nobody has no value")
enter(p, "?pi:best", "ids and scores [N, k]")
wide = enter(p, "error(('word '):rep(30))", "word")
check("an error is broken between words", wide.count("word") == 30, wide)
listed = enter(p, "who()", "policy")
check("who", re.search(r"(?m)^pi +policy +linear: 50 items", listed), listed)
check("who leaves out what is fopo's", "array " not in listed and "help" not in listed, listed)
p.send("exit\r")
check("exit", p.ended() == 0)
for word in ("exit()", "quit", "quit();"):
    p = start()
    p.send(word + "\r")
    check(word, p.ended() == 0)
p = start()
enter(p, "quit = 'mine'", "")
check("a variable of that name is no word that leaves", enter(p, "quit", "mine") == "mine")
p.close()


# pasted sessions: what stands on a screen (test_snippets.py pastes README's)
def paste(p, text):
    p.send("\x1b[200~" + text.rstrip("\n") + "\x1b[201~\r")


p = start(rows=60)
paste(p, "$ ./fopo\nfopo 0.2.0, avx2, 2 threads.\n> a = {3,\n>> 4}\n> a\n{3, 4}\n> #a * 10\n20")
check("a session of Lua's own marks", p.wait("\n20\n"), p.screen.text())
check("what is left out is said", p.wait("(3 lines without a prompt left out, as output)"),
      p.screen.text())
enter(p, "> 6 * 7", "42")
p.send("> for i = 8, 8 do\r>> print(i * 8)\r... end\r")
check("typed with marks", p.wait("\n64\n"), p.screen.text())
paste(p, "b = {9,\n8}\n#b * 50")
check("a pasted block gives its last value", p.wait("\n100\n"), p.screen.text())
p.close()

# at 80 x 24: help() stays on the screen and its first steps work; lists stop at each full screen
p = start()
shown = enter(p, "help()", "Modules and functions")
check("help() fits", p.screen.text().startswith(PROMPT + " help()"), p.screen.text())
steps = [re.split("  +", line.strip())[0] for line in
         re.search(r"recommendations:\n(.*?)  fopo.demo", shown, re.S).group(1).split("\n")]
check("first steps", len(steps) > 6 and "evaluate(pi, s.test)" in steps, steps)
p.close()
p = start(rows=50)
for line in filter(None, steps):
    seen = enter(p, line, "", 60)
    check(line, not re.search("nil value|has no|needs", seen), seen)
check("the last of them recommends", "rank  item" in seen, seen)
p.close()
p = start()
p.send('\x0chelp"all"\r')
check("a full screen", p.wait("Return shows more, q leaves:"), p.screen.text())
check("its beginning is on it", p.screen.text().startswith(PROMPT), p.screen.text())
p.send("\r")
p.settle(0.2)
p.send("q\r")
p.wait(lambda _: last_line(p) == PROMPT)
check("q leaves", enter(p, "3 * 3", "9") == "9")
shown = enter(p, "fopo.demo()", "fopo.demo(11)")
check("the lessons fit", "The lessons run offline" in shown, shown)
enter(p, "d = data.synthetic{users = 200, items = 90, clusters = 4}; s = d:sessions{}", "")
for code in ("array.randn(30, 300, 1)", "array.randn(9, 9, 1):scale(1e-9)", "s"):
    shown = enter(p, code, "")
    check("%s within 80 columns" % code, not re.search(r"(?m)^\S{1,3}$|^\w+\|$", shown), shown)
enter(p, "r = {} for i = 1, 99 do r[i] = {i, x = {i}} end; r", "more")
check("a long table fits", p.screen.text().startswith(PROMPT), p.screen.text())
p.close()

# the view keeps its last screen until a key, and the keys do not reach the prompt
p = start()
enter(p, "s = data.synthetic{users = 300, items = 90, clusters = 4}:sessions{min_items = 5};", "")
enter(p, "items = embed.svd(s.train, {dim = 4});", "")
enter(p, "t = trainer{policy = policy.linear{items = items}, data = s.train};", "")
for key in ("\r", "\x03"):
    p.send("t:run{steps = 50, view = true};\r")
    check("the end is said", p.wait("the run has ended; a key closes the view"), p.screen.text())
    check("the last screen stays", "ended" in p.screen.text() and p.screen.alternate)
    p.send("xyz" + key if key == "\r" else key)
    check("a key closes it", p.wait(lambda _: last_line(p) == PROMPT and not p.screen.alternate),
          p.screen.text())
    check("nothing is left of the keys", enter(p, "4 * 4", "16") == "16")
p.close()

# what is typed straight after Ctrl-C; Ctrl-Z; Up and Down
p = start()
for before in ("abc", "x = {\r"):
    p.send(before)
    p.settle(0.2)
    p.send("\x0320 + 3\r")
    check("typed after Ctrl-C", p.wait("\n23\n"), p.screen.text())
    enter(p, "1", "1")
for line in ("a1 = 1", "b2 = 2", "a3 = 3", "b4 = 4"):
    enter(p, line, "")
for keys, shown in (("a", "a"), (UP, "a3 = 3"), (UP, "a1 = 1"), (UP, "a1 = 1"), (DOWN, "a3 = 3"),
                    (DOWN, "a"), ("\x15" + UP, "b4 = 4"), (UP + UP, "b2 = 2"),
                    ("\x05" + DOWN, "a3 = 3"), (UP, "b2 = 2"), ("\r", ""),
                    (DOWN, "a3 = 3"), (DOWN, "b4 = 4")):
    p.send(keys)
    check("%r shows %s" % (keys, shown),
          p.wait(lambda _: last_line(p) == (PROMPT + " " + shown).rstrip(), 5), p.screen.text())
p.close()
p = Program(["bash", "--norc", "-i"], HOME=home, INPUTRC="/dev/null", FOPO_HISTORY="/dev/null",
            PS1="shell ")
p.wait("shell")
p.send("FOPO_HISTORY=/dev/null %s --no-init\r" % FOPO)
p.wait(PROMPT)
p.send("6 * 7")
p.settle(0.2)
p.send("\x1a")
check("Ctrl-Z", p.wait("Stopped"), p.screen.text())
p.send("fg\r")
check("fg draws the line again", p.wait(lambda _: last_line(p) == PROMPT + " 6 * 7"),
      p.screen.text())
p.send("\r")
check("and it runs", p.wait("\n42\n"), p.screen.text())
p.close()

# a lesson keeps what the user has under the same names
p = start(rows=50)
enter(p, "theta = 5", "")
p.send('fopo.demo(1, {scale = "small"})\r')
check("it says so", p.wait("table mine: mine.theta") and p.wait("q leaves:"),
      p.screen.text())
p.send("q\r")
p.wait(lambda _: last_line(p) == PROMPT)
check("nothing is lost by leaving", enter(p, "theta", "5") == "5")
p.send('fopo.demo(1, {scale = "small"})\r')
p.wait("q leaves:")
p.send("\r")
p.wait("Your prediction")
p.send("q\r")
p.wait(lambda _: last_line(p) == PROMPT)
check("nor by going on", enter(p, "mine.theta", "5") == "5")
p.send('fopo.demo(1, {scale = "small"})\r')
check("a lesson's own variables are no one's", p.wait("Your prediction"), p.screen.text())
p.close()

finish()
