"""Files read in parts: the bits of the whole read, whatever the number of parts; and a file on disk
that nothing leaves behind, that stays below the folder of --safe, and that may not fit."""
import os
import random
import signal
import subprocess
import sys
import time

from checks import check, finish, folder, FOPO, LANDLOCK
from kills import Disk

os.chdir(folder)
disk = os.path.join(folder, "disk")
os.mkdir(disk)
HERE = dict(os.environ, TMPDIR=disk)


def run(code, *options, env=HERE):
    done = subprocess.run([FOPO, *options, "-e", code], text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=120, env=env)
    return done.returncode, done.stdout, done.stderr


def write(name, lines, head="user,item,rating,time\n"):
    with open(name, "w") as f:
        f.write(head + "".join(line + "\n" for line in lines))


rng = random.Random(7)


def rows(n, user="%d", item="%d"):
    return ["%s,%s,%s,%d" % (user % int(n / 7 * rng.random() ** 3), item % rng.randrange(90),
                             rng.choice(["1", ".1", ".3", "2.7"]), rng.randrange(9999))
            for _ in range(n)]


write("integers.csv", rows(4000))
write("text.csv", rows(3000, "u%d", "item %d"))
write("late.csv", rows(200) + rows(9, "u%d") + rows(200))
write("malformed.csv", ["1", "x,,1,1"] + rows(300) + ["3,4,z,1"] + rows(40))
write("soon.csv", rows(900) + ["1,1,1,soon"])
write("ones.csv", ["%s,1,5" % row.rsplit(",", 2)[0] for row in rows(700)])
write("twice.csv", ["1,2", "8,1", "1,2"] + ["%d,%d" % (i, i % 9) for i in range(400)],
      "user,item\n")
write("once.csv", ["%d,%d" % (i % 50, i) for i in range(400)], "user,item\n")
write("one.csv", ["5,6"], "user,item\n")
write("one_user.csv", ["5,%d" % i for i in range(99)], "user,item\n")
with open("lists.txt", "w") as f:
    f.write("".join("%d %d %d %d\n" % (u, u % 7, u % 5 + 20, u % 31) for u in range(300)))
# of two blocks and more, in which users come again
write("blocks.csv", ["%d,%d,%d,%d" % (i * 7919 % 30011, i * i % 4001, i % 3 + 1,
                                      1500000000 + i % 999) for i in range(450000)])

CASES = [(["integers.csv"], ""), (["text.csv"], ""), (["integers.csv", "late.csv"], ""),
         (["malformed.csv", "malformed.csv"], "skip_errors = true, max_errors = 6"),
         (["integers.csv", "soon.csv"], ""), (["ones.csv"], ""), (["once.csv", "ones.csv"], ""),
         (["twice.csv"], ""), (["once.csv", "twice.csv"], ""), (["one.csv"], ""),
         (["one_user.csv"], ""), (["lists.txt"], ""), (["lists.txt", "text.csv"], ""),
         (["integers.csv"], 'where = "rating>=1"'), (["integers.csv"], 'value = "", time = ""'),
         (["blocks.csv"], "")]
SAME = """
local function facts(d, path)
  d:save(path)
  local f <close> = io.open(path, "rb")
  local s = d:sessions{min_items = 2, valid = 0.2, test = 0.2}
  return f:read("a"), table.concat({d.format, tostring(d.no_times), d.skipped, d.malformed,
    d.repeats, d.rows_read, d.users_seen, d.items_seen, s.kept or 0, s.train.n,
    table.concat(s.train:x(1):totable()[1], " ")}, "|")
end
for _, case in ipairs{%s} do
  local files, options = table.unpack(case)
  local whole = {pcall(facts, fopo.data.read(files, options), "whole.npz")}
  for _, parts in ipairs{1, 2, 7, 1024} do
    options.parts = parts
    local some = {pcall(facts, fopo.data.read(files, options), "some.npz")}
    for k = 1, 3 do
      if whole[k] ~= some[k] then print(files[1], parts, k, whole[3], some[3]) end
    end
  end
end
print("all are compared")
""" % ", ".join('{{"%s"}, {%s}}' % ('", "'.join(files), options) for files, options in CASES)
code, out, err = run(SAME)
check("the bits of the whole read", out == "all are compared\n", out, err)

run('''for path, parts in pairs{["whole.npy"] = {}, ["parts.npy"] = {parts = 3}} do
  local s = fopo.data.read("blocks.csv", parts):sessions{min_items = 2}
  fopo.embed.svd(s.train, {dim = 8}):save(path)
end''')
embedded = [open(path, "rb").read() for path in ("whole.npy", "parts.npy")]
check("the embeddings have the bits of the whole read", embedded[0] == embedded[1]
      and len(embedded[0]) > 2000 * 8 * 4, *map(len, embedded))

# ---- errors are those of the whole read ----

for files, options in (("{'malformed.csv'}", ""), ("{'integers.csv', 'malformed.csv'}", ""),
                       ("'malformed.csv'", "skip_errors = true, max_errors = 1"),
                       ("'integers.csv'", "where = 'rating>9'"), ("'missing.csv'", "")):
    whole, some = (run("fopo.data.read(%s, {%s %s})" % (files, parts, options))
                   for parts in ("", "parts = 3,"))
    check("an error of " + files + options, whole[0] == 1 and whole == some, whole, some)
several = run("fopo.data.read('one.csv', {parts = 2, shard = true})")
check("parts or ranks", several[0] == 1 and "ranks" in several[2], several)
check("nothing is left", os.listdir(disk) == [], os.listdir(disk))

# ---- a kill ----

TAKEN = "cat blocks.csv; sleep 60"
child = subprocess.Popen([FOPO, "-e", "fopo.data.read({command = '%s'}, {parts = 2})" % TAKEN],
                         env=HERE, stdin=subprocess.DEVNULL, start_new_session=True)
held, end = [], time.monotonic() + 60
while not held and time.monotonic() < end and child.poll() is None:
    fds = "/proc/%d/fd" % child.pid
    held = [link for link in (os.readlink(os.path.join(fds, fd)) for fd in os.listdir(fds)
                              if os.path.lexists(os.path.join(fds, fd)))
            if link.startswith(disk) and link.endswith("(deleted)")]
    time.sleep(0.01)
check("while it reads, the file has no name", held and os.listdir(disk) == [], os.listdir(disk))
os.killpg(child.pid, signal.SIGKILL)
child.wait()
check("a kill leaves nothing", os.listdir(disk) == [], os.listdir(disk))

# ---- --safe writes in its folder alone ----

if LANDLOCK:
    safe = run("print(fopo.data.read('integers.csv', {parts = 2}).rows_read)", "--safe",
               env=dict(os.environ, TMPDIR="/proc"))
    check("--safe", safe[:2] == (0, "4000\n"), safe)
wrong = run("fopo.data.read('one.csv', {parts = 2})", env=dict(os.environ, TMPDIR="nowhere"))
check("a folder that is not there", wrong[0] == 1 and "in nowhere: No such file or directory; set "
      "TMPDIR" in wrong[2], wrong)

# ---- a full disk ----

small = Disk(disk, 2 << 20)
if small.refused:
    print("skip: a disk that is full (%s)" % small.refused)
else:
    known = run("fopo.data.read('blocks.csv', {parts = 2})")
    check("a disk that is too small is seen before", known[0] == 1 and "blocks.csv in parts needs "
          in known[2] and "2.1 MB are free; set TMPDIR" in known[2], known)
    full = run("fopo.data.read({command = 'cat blocks.csv'}, {parts = 2})")
    check("a disk that is full", full[0] == 1 and "needs more than the 2.1 MB that %s has; set "
          "TMPDIR" % disk in full[2], full)
    small.close()
finish()
