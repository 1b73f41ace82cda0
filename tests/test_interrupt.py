"""Ctrl-C at a terminal in every long piece of work: the prompt is back soon, says so, and what was
there before gives the same results as where nobody pressed a key. Jobs at the prompt: Ctrl-C is not
for them, their failures and records are told, leaving the program ends them."""
import os
import re
import sys
import time

from checks import check, finish, folder, FOPO
from interrupts import Prompt
from long_work import FACTS, IN_C, IN_LUA, WORLD, write_file
from terminal import Program

SOON = 4.0  # room for a loaded machine; 0.01 s in Lua and 0.1 s in C are usual (-v prints them)
os.chdir(folder)


def interrupt(name, code, after=0.1):
    """Runs code, which takes long, presses Ctrl-C and waits for the prompt."""
    seconds = p.interrupt(code, after)
    check(name + ": the prompt is back", seconds is not None, p.screen.text())
    check(name + ": soon", seconds is not None and seconds < SOON, seconds)
    if "-v" in sys.argv:
        print("%-34s %.3f s" % (name, seconds))


write_file()

p = Prompt(folder, WORLD)
undisturbed = [p.ask(line) for line in FACTS]
for name, code in IN_LUA + IN_C:
    interrupt(name, code)
disturbed = [p.ask(line) for line in FACTS]
for was, now in zip(undisturbed, disturbed):
    check("the same as undisturbed", was == now and re.search(r"\d", was), was, now)

# runs that were interrupted go on to where the same runs undisturbed are
for t, g in (("t1", ""), ("t2", "gradient.exact{}"), ("t3", "gradient.reinforce{samples = 50}")):
    same = p.ask("local u = new(%s) local n = %s.step + 7 %s:run{steps = 7, view = false, "
               "keep_best = false} u:run{steps = n, view = false, keep_best = false} "
               "io.write(tostring(u.step == %s.step and u.policy:theta():add("
               "%s.policy:theta(), -1):norm() == 0))" % (g, t, t, t, t), 120)
    check(t + " goes on to the bit", same == "true", same)

# whatever Ctrl-C comes in the middle of, each step that was made is in the history and in the log
def whole(name, t, folder):
    """Every column of the history is a list without holes, its steps are all steps, and the log has
    the same ones."""
    found = p.ask("local n = #%s.history.step for _, list in pairs(%s.history) do for i = 1, n do "
                "if type(list[i]) ~= 'number' then n = 'a hole' break end end if n == 'a hole' or "
                "#list ~= n then n = 'a hole' break end end for i = 2, n == 'a hole' and 0 or n do "
                "if %s.history.step[i] ~= %s.history.step[i - 1] + 1 then n = 'steps lost' break "
                "end end io.write(n, ' ', %s.history.step[1], ' ', %s.step)" % ((t,) * 6))
    check(name + ": every step is in the history", re.fullmatch(r"(\d+) 1 \1", found), found)
    rows = open(folder + "/history.csv").read().split("\n")[1:-1]
    logged = [int(row.split(",")[0]) for row in rows]
    check(name + ": and in the log", logged == list(range(1, len(logged) + 1)) and
          str(len(logged)) == found.split(" ")[0], logged[-1:], found)


p.ask("n = 0 f = require('fopo.term').atomic(function() local begun = os.clock() "
    "while os.clock() - begun < 0.4 do end n = n + 1 end)")
interrupt("what is atomic", "f() n = n + 2")
check("is not cut in two, and interrupted behind", p.ask("io.write(n)") == "1")

p.ask("t5 = new() going = {steps = 100000000, every = 1, view = false, log = 'runs/by_steps'}")
for _ in range(12):
    interrupt("a record a step", "t5:run(going)", 0.02)
whole("a run", "t5", "runs/by_steps")

# ---- jobs ----

p.ask("t6 = new() job = t6:start{steps = 100000000, every = 1, log = 'runs/by_steps_too'}")
for _ in range(12):
    interrupt("looking at a job", "while true do local _ = job.step end", 0.02)
p.ask("job:stop()")
whole("a job", "t6", "runs/by_steps_too")

p.ask("u = new() job = u:start{steps = 100000000, every = 1000, log = 'runs/job', view = true}")
check("a line by itself", p.wait("reward 0."), p.screen.text())
p.send("6 * ")
at = p.screen.text()
check("lines stand above what is typed", p.wait(lambda s: s != at and re.search(
    r"/s  [^\n]*\n[^>]*fopo> 6 \*$", s.rstrip()), 30), p.screen.text())
p.send("7\r")
check("which is whole", p.wait("\n42"), p.screen.text())
interrupt("a loop beside a job", "while true do end")
interrupt("evaluation beside a job", "while true do fopo.evaluate(pi, s.test, {index = ix}) end")
interrupt("waiting for a job", "job:wait()")
p.send("\x03\x03")
p.settle(0.2)
check("the job goes on", p.ask("io.write(job.state)") == "training")
before = int(p.ask("io.write(job.step)"))
later = before
for _ in range(100):  # it may be validating
    p.settle(0.1)
    later = int(p.ask("io.write(job.step)"))
    if later > before:
        break
check("and on", later > before, before, later)
check("rests", p.ask("job:pause() io.write(job.state)") == "paused")
check("is changed", p.ask("job.lr = 5e-4 job.epsilon = 0.5 io.write(job.lr, ' ', job.epsilon)")
      == "0.0005 0.5")
check("may go on by hand",
      p.ask("u:run{steps = 3, view = false} io.write(u.step - job.step)") == "3")
check("goes on", p.ask("job:resume() io.write(job.state)") == "training")
p.send("view(job)\r")
check("its view", p.wait(lambda s: "view costs" not in s and "job, snis" in s and "? help" in s),
      p.screen.text())
p.send(" ")
check("rests there", p.wait("paused"), p.screen.text())
p.send("s")
check("a checkpoint", p.wait(r"runs/job/step-"), p.screen.text())
p.send("q")
check("left", p.wait(lambda s: s.rstrip().endswith("fopo>")), p.screen.text())
check("rests still", p.ask("io.write(job.state)") == "paused")
p.send("view(job)\r")
check("seen again", p.wait(lambda s: "paused" in s and "? help" in s), p.screen.text())
p.send(" ")
check("goes on there", p.wait("running"), p.screen.text())
p.send("q")
p.wait(lambda s: s.rstrip().endswith("fopo>"))
p.ask("v = new() v.optim.lr = 1e38 bad = v:start{steps = 1000000}")
check("a failure is told", p.wait("the job has failed:"), p.screen.text())
check("the other goes on", p.ask("io.write(job.state, ' ', bad.state)") == "training failed")
p.ask("w = new() w:start{steps = 100, on_record = function() error('of the callback') end}")
check("an error of on_record is told", p.wait("of the callback"), p.screen.text())
check("a job stops", p.ask("job:stop() io.write(job.state)") == "stopped")
rows = open("runs/job/history.csv").read().strip().split("\n")
check("its log", len(rows) > 2 and rows[-1].split(",")[0] == p.ask("io.write(job.step)"), rows[-1])
p.ask("new():start{steps = 100000000} new():start{steps = 100000000}")
check("jobs that nobody holds", p.ask("io.write(#jobs(), jobs()[#jobs()].state)")[-8:]
      == "training")
p.send("\x04")
check("Ctrl-D asks", p.wait("jobs have not ended: Ctrl-D again stops them and leaves; jobs() "),
      p.screen.text())
check("an entry takes it back", p.ask("io.write(6 * 7)") == "42")
p.send("\x04")
check("and asks again", p.wait(
    lambda s: "jobs have not ended" in s.rsplit(">%d>" % p.count, 1)[-1]), p.screen.text())
p.wait(lambda s: s.rstrip().endswith("fopo>"))
begun = time.monotonic()
p.send("\x04")
check("leaving ends jobs", p.ended(60) == 0 and p.restored(), p.screen.text())
check("soon", time.monotonic() - begun < 2 * SOON)
p.close()

# other endings while a job works
BEGIN = " ".join(WORLD.split("lg, world")[0].split("\n")) + " job = new():start{steps = 100000000} "
for name, code, wanted in (("the end of a script", "", 0), ("os.exit", "os.exit(3)", 3),
                           ("an error", "error('oh')", 1)):
    p = Program([FOPO, "-e", BEGIN + code], 24, 80, HOME=folder)
    check(name + " beside a job", p.ended(60) == wanted and p.restored(), p.screen.text())
    p.close()

finish()
