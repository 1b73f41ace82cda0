"""fopo.experiment.sweep from outside: kill -9 and Ctrl-C, what it says of rows that are there, the
event files of TensorBoard by their description, and the bars of its pictures."""
import csv
import os
import re
import shutil
import signal
import subprocess
import time
import xml.etree.ElementTree as xml

from checks import check, finish, folder, FOPO, LANDLOCK
from events import fields, records

SCRIPT = """
local s = data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
print(experiment.sweep{over = {lr = {1e-3, 1e-2}, steps = %d, dim = 8, gradient = {"snis"%s}},
                       split = s, out = "%s", seeds = %d, jobs = %d, measures = {"reward"},
                       report = %s})
"""


def script(out, steps=20, seeds=2, jobs=1, report="false", more=""):
    return SCRIPT % (steps, more, out, seeds, jobs, report)


def run(*arguments, **options):
    return subprocess.run([FOPO, "-e", script(*arguments, **options)], capture_output=True,
                          text=True, cwd=folder, env={**os.environ, "FOPO_THREADS": "1"})


def rows(out):
    """The rows without what a run takes."""
    with open(os.path.join(folder, out, "results.csv"), encoding="utf-8") as f:
        return sorted(tuple((k, v) for k, v in row.items()
                            if k not in ("seconds", "ms_step", "machine"))
                      for row in csv.DictReader(f))


def stopped(out, number, when, **options):
    """Ends a sweep by the signal when the condition holds; its status and what it printed."""
    with subprocess.Popen([FOPO, "-e", script(out, **options)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, cwd=folder,
                          env={**os.environ, "FOPO_THREADS": "1"}) as p:
        limit = time.monotonic() + 60
        while not when(os.path.join(folder, out)) and time.monotonic() < limit:
            time.sleep(0.005)
        p.send_signal(number)
        printed, said = p.communicate()
    return p.returncode, printed, said


def has_rows(n):
    def when(path):
        path += "/results.csv"
        return os.path.exists(path) and open(path, encoding="utf-8").read().count("\n") > n
    return when


STEPS = 400
check("undisturbed", run("whole", STEPS).returncode == 0)
for jobs in 1, 2:
    out = "out%d" % jobs
    status, _, said = stopped(out, signal.SIGKILL, has_rows(1), steps=STEPS, jobs=jobs)
    check("killed", status == -signal.SIGKILL, said)
    check("rows of a sweep that was killed", 1 <= len(rows(out)) < 4, rows(out))
    status, printed, said = stopped(out, signal.SIGINT, has_rows(2), steps=STEPS, jobs=jobs)
    check("Ctrl-C leaves what is done", status == 0 and
          ("stopped; the same call goes on from here" in printed or len(rows(out)) == 4) and
          len(rows(out)) >= 2, status, printed, said)
    done = run(out, STEPS, jobs=jobs)
    check("goes on", done.returncode == 0 and re.search(r"4 runs, [23] of them kept", done.stderr),
          done.stderr)
    check("the rows of the undisturbed sweep", rows(out) == rows("whole"), rows(out))
    check("nothing unfinished is left", os.listdir(os.path.join(folder, out)) == ["results.csv"],
          os.listdir(os.path.join(folder, out)))

# what is said of rows that are there
with open(os.path.join(folder, "out1/results.csv"), "r+", encoding="utf-8") as f:
    f.truncate(len(f.read()) - 5)
done = run("out1", STEPS)
check("a torn line", re.search(r"ended in a torn line of \d+ bytes, which is taken away: its run "
                               "is made again", done.stderr), done.stderr)
check("is made again", rows("out1") == rows("whole"), rows("out1"))
done = run("out1", 5, 1)
check("other settings", "4 rows of other settings (steps 400" in done.stderr, done.stderr)
check("a line a run", re.search(r"sweep 2 of 2: lr 0.01, seed 1: reward 0\.\d+, ", done.stderr),
      done.stderr)

# TensorBoard
done = run("board", report="true", more=', "exact"')
check("with a report", done.returncode == 0, done.stderr)
boards = os.path.join(folder, "board/tensorboard")
check("a folder a run", sorted(os.listdir(boards))[0] == "gradient-exact-lr-0.001-seed-1" and
      len(os.listdir(boards)) == 8, os.listdir(boards))
seen, plugins = {}, {}
for body in records(boards + "/gradient-snis-lr-0.01-seed-2/events.out.tfevents.sweep"):
    event = dict(fields(body))
    for _, value in fields(event.get(5, b"")):
        value = dict(fields(value))
        tag = value[1].decode()
        if 9 in value:
            plugin = dict(fields(dict(fields(value[9]))[1]))
            check("the plugin", plugin[1] == b"hparams", plugin)
            plugins[tag] = list(fields(plugin[2]))
        else:
            seen.setdefault(tag, []).append((event[2], value[2]))
row = [r for r in map(dict, rows("board"))
       if (r["gradient"], r["lr"], r["seed"]) == ("snis", "0.01", "2")][0]
check("its reward", abs(seen["reward"][0][1] - float(row["reward"])) < 1e-6 and
      seen["reward"][0][0] == 20, seen["reward"])
check("its curve", [s for s, _ in seen["valid"]] == [int(x) for x in row["step"].split()], seen)
start = list(fields(dict(plugins["_hparams_/session_start_info"])[3]))
settings = {}
for number, entry in start:
    if number == 1:
        entry = dict(fields(entry))
        settings[entry[1].decode()] = next(fields(entry[2]))
check("hparams", settings["lr"] == (2, 0.01) and settings["gradient"] == (3, b"snis") and
      settings["seed"] == (2, 2), settings)
check("the group of other seeds", dict(start)[4] == b"gradient snis, lr 0.01", start)
end = dict(fields(dict(plugins["_hparams_/session_end_info"])[4]))
check("it ended well", end[1] == 1, end)

# pictures
if shutil.which("gnuplot") is None:
    print("skip: pictures (gnuplot-nox is not installed)")
else:
    have = {name for name in os.listdir(os.path.join(folder, "board")) if name.endswith(".svg")}
    check("pictures", have == {"reward.svg", "valid-curves.svg", "valid_expected-curves.svg"}, have)
    if LANDLOCK:
        os.remove(os.path.join(folder, "board", "reward.svg"))
        safe = subprocess.run([FOPO, "--safe", "-e", script("board", report="true")], cwd=folder,
                              capture_output=True, text=True)
        check("they are drawn under --safe",
              os.path.exists(os.path.join(folder, "board", "reward.svg")), safe.stderr)
    code = """plot.save("bars.svg", {{y = {1, 2, -1}, name = "one"}, {y = {2, 1, 3}, name = "two"},
              style = "bars", labels = {"first label", "50 % of it", "c_d"}})"""
    subprocess.run([FOPO, "-e", code], cwd=folder, check=True)
    tree = xml.parse(os.path.join(folder, "bars.svg"))
    words = " ".join(t.strip() for t in tree.getroot().itertext() if t.strip())
    for word in "first label", "50 % of it", "c_d", "one", "two":
        check("says " + word, word in words, words)
    boxes = []  # (left, right) of the filled shapes of each colour, but for those of the legend
    for path in tree.iter("{http://www.w3.org/2000/svg}polygon"):
        points = [tuple(map(float, p.split(","))) for p in path.get("points").split()]
        xs = [x for x, _ in points]
        boxes.append((min(xs), max(xs)))
    boxes = sorted(set(boxes))[:6]
    check("six bars", len(boxes) == 6, boxes)
    check("none over another", all(a[1] <= b[0] + 0.2 for a, b in zip(boxes, boxes[1:])), boxes)
    shutil.rmtree(os.path.join(folder, "board"))
finish()
