"""What a run leaves on disk, read by others: Python's json and csv, a reader of TensorBoard's event
files written from their description, an XML parser, and the header of a PNG."""
import csv
import json
import math
import os
import re
import resource
import shutil
import struct
import subprocess
import xml.etree.ElementTree as xml

from checks import check, finish, folder, FOPO
from events import crc32c, fields, records


def fopo(code, *args, limit=None, **env):
    """Runs the code in the folder, where no file may have more bytes than the limit; its output and
    its messages. A write beyond the limit is cut there, and fails, as on a full disk."""
    def tighten():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    done = subprocess.run([FOPO, *args, "-e", code], capture_output=True, text=True, cwd=folder,
                          env={**os.environ, **env}, restore_signals=limit is None,
                          preexec_fn=limit and tighten)
    return done.stdout, done.stderr, done.returncode


def scalars(path):
    """{tag: [(step, value)]} of an event file."""
    seen = {}
    for n, body in enumerate(records(path)):
        event = dict(fields(body))
        check("a time", 1.5e9 < event[1] < 1e10, event)
        if n == 0:
            check("the version comes first", event[3] == b"brain.Event:2", event)
            continue
        for number, value in fields(event[5]):
            value = dict(fields(value))
            seen.setdefault(value[1].decode(), []).append((event[2], value[2]))
    return seen


check("CRC32C of the standard's vector", crc32c(b"123456789") == 0xE3069283)

WORLD = """
s = data.synthetic{users = 400, items = 500, clusters = 8, seed = 3}:sessions{min_items = 10}
items = embed.svd(s.train, {dim = 8})
ix = index.norm(items)
function new(o)
  return fopo.trainer{policy = policy.linear{items = items, seed = 1}, data = s.train, batch = 16,
    valid = o and s.valid or false, index = o and ix, seed = 7,
    gradient = gradient.snis{samples = 40, proposal = proposal.mixture{index = ix, k = 20}}}
end
"""

# one run, gone on with, in one folder
out, err, code = fopo(WORLD + """
t = new(true)
t:run{steps = 20, every = 4, log = "runs/one"}
t:run{steps = 10, every = 5, log = true, view = false}
assert(t.log_folder == "runs/one")
""")
check("it runs", code == 0, err)
lines = [line for line in out.splitlines() if not line.startswith("note: ")]
check("a line a record", len(lines) == 5 and out.startswith("step"), out)
run = os.path.join(folder, "runs/one")
config = json.load(open(os.path.join(run, "config.json")))
check("config", config["seed"] == 7 and config["batch"] == 16 and config["run"]["steps"] == 20
      and config["gradient"]["epsilon"] == 0.8 and config["gradient"]["k"] == 20
      and config["versions"]["fopo"] and config["machine"]["cores"] > 0 and config["machine"]["cpu"]
      and "CPU" in config["device"]["name"] and config["first_step"] == 0, config)
check("config of the second part",
      json.load(open(os.path.join(run, "config-20.json")))["run"]["steps"] == 10)


def no_constants(word):
    raise ValueError(word)  # NaN and Infinity are no JSON


rows = [json.loads(line, parse_constant=no_constants)
        for line in open(os.path.join(run, "history.jsonl"))]
check("records", [row["step"] for row in rows] == [4, 8, 12, 16, 20, 25, 30], rows)
check("what a record has", all(row["valid"] >= 0 and row["ess"] > 1 and row["lr"] == 1e-3
                               for row in rows), rows[0])
table = list(csv.DictReader(open(os.path.join(run, "history.csv"))))
check("csv and json agree", len(table) == len(rows) and all(
    (float(cells[name]) if cells[name] else None) == row[name]
    for cells, row in zip(table, rows) for name in row))
files = sorted(name for name in os.listdir(run) if name.startswith("events.out.tfevents."))
check("an event file a part", len(files) == 2, files)
seen = {}
for name in files:
    for tag, points in scalars(os.path.join(run, name)).items():
        seen.setdefault(tag, []).extend(points)
check("TensorBoard has the same", [step for step, _ in seen["reward/train"]] ==
      [row["step"] for row in rows] and all(
          math.isclose(value, row["reward"], rel_tol=1e-6)
          for (_, value), row in zip(seen["reward/train"], rows)), seen.keys())

# without validation: null, empty, absent
out, err, code = fopo(WORLD +
                      "t = new() t:run{steps = 4, every = 2, log = 'runs/two', json = true}")
printed = [json.loads(line, parse_constant=no_constants) for line in out.splitlines()]
two = os.path.join(folder, "runs/two")
rows = [json.loads(line) for line in open(os.path.join(two, "history.jsonl"))]
check("null", rows[0]["valid"] is None and printed == rows, out)
check("empty", [r["valid"] for r in csv.DictReader(open(os.path.join(two, "history.csv")))] ==
      ["", ""])
event = [name for name in os.listdir(two) if name.startswith("events")][0]
check("absent", "reward/valid" not in scalars(os.path.join(two, event)))
out, err, code = fopo(WORLD + "new():run{steps = 1}", "--json")
check("fopo --json", json.loads(out)["step"] == 1, out)

# a config.json that no run wrote
config = json.load(open(os.path.join(two, "config.json")))
for change, words in ((("batch", "32"), "batch must be a number"),
                      (("gradient", 5), "gradient must be an object"),
                      (("gradient", {"about": 7}), "gradient.about must be a string"),
                      (None, "it is no object")):
    os.makedirs(os.path.join(folder, "runs/odd"), exist_ok=True)
    shutil.copy(os.path.join(two, "history.jsonl"), os.path.join(folder, "runs/odd"))
    with open(os.path.join(folder, "runs/odd/config.json"), "w") as f:
        json.dump({**config, change[0]: change[1]} if change else 7, f)
    out, err, code = fopo('print(select(2, pcall(fopo.view.text, "runs/odd")))')
    check("refused: " + words, "config.json: " + words in out, out, err)

# a history.jsonl that no run wrote
shutil.copy(os.path.join(two, "config.json"), os.path.join(folder, "runs/odd"))
for change, shown in (({"head": "5"}, "runs/odd/history.jsonl, line 2: head must be a number"),
                      ({"reward": {}}, "runs/odd/history.jsonl, line 2: reward must be a number"),
                      ({"head": 2048, "held": 0.5}, "reward"),
                      ({"head": 2048.7, "held": 0.5}, "reward"),
                      ({"head": 2048, "held": None}, "reward")):
    with open(os.path.join(folder, "runs/odd/history.jsonl"), "w") as f:
        for row in (rows[0], {**rows[1], **change}):
            f.write(json.dumps(row) + "\n")
    out, err, code = fopo('print(select(2, pcall(fopo.view.text, "runs/odd")))')
    check("history with %s" % change, shown in out and "bad argument" not in out, out, err)

# a run that goes on in a folder without config.json, for which the disk had no room
out, err, code = fopo(WORLD + """
t = new() t:run{steps = 1, log = "runs/roomless", view = false} t:save("roomless.npz")
os.remove("runs/roomless/config.json")
t = new():resume("roomless.npz") t:run{steps = 1, log = "runs/roomless", view = false}
r = require("fopo.run.log").read("runs/roomless")
print(r.config.first_step, #r.history.step)
""")
check("config.json again", out.split()[-2:] == ["1", "2"], out, err)

# a checkpoint of before the first step, as after a kill: the log that is ahead is cut back
out, err, code = fopo(WORLD + """
new():save("zero.npz")
for _ = 1, 2 do
  new():resume("zero.npz"):run{steps = 20, every = 10, log = "runs/zero", view = false}
end
print(table.concat(require("fopo.run.log").read("runs/zero").history.step, " "))
""")
check("from step 0 again", out.split() == ["10", "20"], out, err)

# folders: a fresh one each, none mixed, a disk that is full
out, err, code = fopo(WORLD + """
a, b = new(), new()
a:run{steps = 1, log = true, view = false}
b:run{steps = 1, log = true, view = false}
print(a.log_folder, b.log_folder)
print(select(2, pcall(b.run, new(), {steps = 1, log = "runs/one", view = false})))
print(select(2, pcall(b.run, new(), {steps = 1, log = "/proc/no/such", view = false})))
""")
lines = out.splitlines()
names = lines[0].split("\t")
check("two folders", names[0] != names[1] and all(os.path.isfile(
    os.path.join(folder, name, "config.json")) for name in names), names)
check("not mixed", "holds a run that is at step 30" in lines[1], lines)
check("cannot be made", "cannot be made" in lines[2], lines)

# a run that was killed: its log is ahead of its checkpoint, is cut back and then goes on
out, err, code = fopo(WORLD + """
t = new() t:run{steps = 20, every = 5, view = false, log = "runs/ahead"}
t:save("ahead.npz")
t.optim.lr = 2e-3 -- an action at step 20, which stays
t:run{steps = 5, every = 5, view = false, log = "runs/ahead"}
t.optim.lr = 1e-3
t:run{steps = 5, every = 5, view = false, log = "runs/ahead"}
other = new() other:run{steps = 20, every = 4, view = false}
print(select(2, pcall(other.run, other, {steps = 1, log = "runs/ahead", view = false})))
t = new():resume("ahead.npz") t:run{steps = 15, every = 5, view = false, log = "runs/ahead"}
print(t.step, #t.history.step)
""")
ahead = os.path.join(folder, "runs/ahead")
check("another run's log is refused", "would be mixed" in out.splitlines()[0], out, err)
check("a log that was ahead", code == 0 and err.count("(records: 2, actions: 1)") == 1, err)
for name, step in (("history.csv", lambda line: line.split(",")[0]),
                   ("history.jsonl", lambda line: str(json.loads(line)["step"]))):
    steps = [step(line) for line in open(os.path.join(ahead, name)) if line[:4] != "step"]
    check("is cut back and goes on: " + name, steps == "5 10 15 20 25 30 35".split(), steps)
cut = [json.loads(line) for line in open(os.path.join(ahead, "cut-20.jsonl"))]
check("what was cut", [(one["step"], one.get("what")) for one in cut] ==
      [(25, None), (30, None), (25, "lr")], cut)
kept = [json.loads(line)["step"] for line in open(os.path.join(ahead, "actions.jsonl"))]
check("actions that stay", kept == [20], kept)

# killed between the two files of a record
out, err, code = fopo(WORLD + """
t = new() t:run{steps = 10, every = 5, view = false, log = "runs/between"}
t:save("between.npz")
t:run{steps = 5, every = 5, view = false, log = "runs/between"}
""")
between = os.path.join(folder, "runs/between")
with open(os.path.join(between, "history.jsonl")) as f:
    first = f.readlines()[:2]
with open(os.path.join(between, "history.jsonl"), "w") as f:
    f.writelines(first)
out, err, code = fopo(WORLD + """
t = new():resume("between.npz") t:run{steps = 10, every = 5, view = false, log = "runs/between"}
""")
check("a table that was ahead", code == 0 and "(records: 0, actions: 0)" in err, err)
steps = [json.loads(line)["step"] for line in open(os.path.join(between, "history.jsonl"))]
check("records once each", steps == [5, 10, 15, 20], steps)
with open(os.path.join(between, "history.csv")) as f:
    steps = [line.split(",")[0] for line in f.readlines()[1:]]
check("lines once each", steps == ["5", "10", "15", "20"], steps)

full = os.path.join(folder, "full")
os.mkdir(full)
os.symlink("/dev/full", os.path.join(full, "history.jsonl"))
out, err, code = fopo(WORLD + "t = new() t:run{steps = 4, every = 1, log = 'full'} "
                      "assert(t.step == 4)")
check("a full disk costs the log only", code == 0 and err.count("ends without a record") == 1, err)
with open(os.path.join(full, "history.csv")) as f:
    check("the table is written first", [line.split(",")[0] for line in f] == ["step", "1"])

# no room in the middle of a record: at four fifths of the largest file
LONG = WORLD + "t = new():run{steps = 200, every = 1, view = false, log = '%s'}"
fopo(LONG % "roomy")
room = os.path.getsize(os.path.join(folder, "roomy/history.jsonl")) * 4 // 5
out, err, code = fopo(LONG % "tight", limit=room)
path = os.path.join(folder, "tight/history.jsonl")
said = re.fullmatch(r"fopo: the log in tight ends with the record of step (\d+): cannot write "
                    r"tight/history.jsonl: File too large; the training goes on\n", err)
check("the sentence names the file and the last whole record", code == 0 and said, err)
last = int(said[1])
with open(path) as f:
    steps = [json.loads(line)["step"] for line in f]
check("whole lines to the record of the sentence", steps == list(range(1, last + 1)), steps[-2:])

# actions made again: from a list and from the folder of a log, to the bit
out, err, code = fopo(WORLD + """
function same(a, b) return a.policy:theta():add(b.policy:theta(), -1):norm() == 0 end
plan = {{step = 6, what = "epsilon", value = 0.25}, {step = 3, what = "lr", value = 0.01},
        {step = 6, what = "k", value = 5}}
a = new():run{steps = 10, view = false, replay = plan, log = "runs/three"}
b = new():run{steps = 10, view = false, replay = "runs/three"}
c = new():run{steps = 10, view = false, replay = a.actions}
d = new():run{steps = 3, view = false}
d.optim.lr = 0.01 d:run{steps = 3, view = false}
d.gradient:set{epsilon = 0.25, k = 5} d:run{steps = 4, view = false}
print(same(a, b), same(a, c), same(a, d), same(a, new():run{steps = 10, view = false}))
print(#a.actions, a.actions[1].step, a.actions[1].what, a.actions[1].before, a.gradient.k)
print(select(2, pcall(a.run, a, {steps = 1, replay = plan})))
""")
lines = out.splitlines()
check("replay", lines[0] == "true\ttrue\ttrue\tfalse", out, err)
check("actions", lines[1] == "3\t3\tlr\t0.001\t5", lines)
check("too late", "belongs to step" in lines[2], lines)
acts = [json.loads(line) for line in open(os.path.join(folder, "runs/three/actions.jsonl"))]
check("actions.jsonl", [(a["step"], a["what"], a["value"]) for a in acts] ==
      [(3, "lr", 0.01), (6, "epsilon", 0.25), (6, "k", 5)] and acts[0]["before"] == 0.001, acts)

# compare: from folders and trainers, intervals by another formula's code
out, err, code = fopo(WORLD + """
t = new(true):run{steps = 8, view = false}
r = compare{"runs/one", "runs/two/", t, {name = "mine", trainer = t}}
for _, s in ipairs(r) do print(s.name, s.best, s.low, s.high, s.contexts) end
print(select(2, pcall(compare, {"nowhere"})))
""")
lines = out.splitlines()
check("a table within 80 columns", lines[0].startswith("run") and max(map(len, lines[:6])) <= 80
      and lines[6] == "1: one" and any(line.startswith("4: mine; against 1: ") for line in lines),
      out, err)
name, p, low, high, n = next(line for line in lines if line.startswith("one\t")).split("\t")
p, low, high, n, z = float(p), float(low), float(high), int(n), 1.959963984540054
for end in (low, high):  # Wilson's ends are where |p - q| = z sqrt(q (1 - q) / n)
    check("Wilson", math.isclose(abs(p - end), z * math.sqrt(end * (1 - end) / n), abs_tol=1e-9),
          p, end, n)
check("no folder", "config.json" in lines[-1], lines[-1])

# pictures
if shutil.which("gnuplot") is None:
    print("skip: pictures (gnuplot-nox is not installed)")
else:
    out, err, code = fopo("""
        plot.save("x.svg", {{x = {1, 2, 3, 4}, y = {1, 4, 0/0, 16}, low = {0, 3, 0/0, 15},
                  high = {2, 5, 0/0, 17}, name = "it's a_b & <c>"},
                  {y = {3, 2, 1}, style = "points"}, title = "the title", xlabel = "time",
                  xunit = "s", ylabel = "reward", logy = true})
        plot.save("x.png", {1, 4, 9, style = "bars", width = 400, height = 300})
        print(select(2, pcall(plot.save, "x.gif", {1})))
        print(select(2, pcall(plot.save, "x.svg", {{y = {1, 2}, low = {1}, high = {1, 2}}})))
        print(select(2, pcall(plot.save, "x.svg", {0/0})))
        print(select(2, pcall(plot.save, "no/x.svg", {1})))
    """)
    tree = xml.parse(os.path.join(folder, "x.svg"))
    words = " ".join(t.strip() for t in tree.getroot().itertext() if t.strip())
    for word in ("it's a_b & <c>", "the title", "time (s)", "reward", "95 % intervals"):
        check("the SVG says " + word, word in words, words)
    check("SVG", tree.getroot().tag.endswith("svg"))
    head = open(os.path.join(folder, "x.png"), "rb").read(24)
    check("PNG", head[:16] == b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" and
          struct.unpack(">II", head[16:]) == (400, 300), head)
    for part, line in zip((".svg and .png", "low and high", "nothing to plot", "cannot write"),
                          out.splitlines()):
        check(part, part in line, line)
    check("nothing is left", not [name for name in os.listdir(folder) if "tmp" in name])
    WORDS = ["'abc' x", "''", "it's", '"q"', "a\\b\\", "`touch sprung`", "$(touch sprung)", "@x",
             "50 %d %%", "\\0475", "{/*5 big}", "a_b^2", "<b>&amp;", "#", "EOD", "漢 é 3",
             "x', system('touch sprung'), '", '"; system "touch sprung"; "', "w" * 511]
    SAVE = "plot.save('w%d.svg', {{y = {1, 2}, name = w}, title = w, xlabel = w, ylabel = w}) "
    calls = "".join("w = [==[%s]==] %s" % (w, SAVE % i) for i, w in enumerate(WORDS))
    out, err, code = fopo(calls + "print(pcall(plot.save, 'x.svg', {1, title = ('w'):rep(512)}))")
    check("too long", "title has 512 bytes; the words of a picture have at most 511" in out, out,
          err)
    for i, word in enumerate(WORDS):
        tree = xml.parse(os.path.join(folder, "w%d.svg" % i))
        texts = [t.text for t in tree.iter() if t.tag.endswith("text")]
        check("the words are as they were given", texts.count(word) == 4, word, texts)
    check("no word is a command", not os.path.exists(os.path.join(folder, "sprung")))
out, err, code = fopo("print(select(2, pcall(plot.save, 'y.svg', {1, 2})))", PATH="/nowhere")
check("no gnuplot", "apt-get install gnuplot-nox" in out, out, err)

finish()
