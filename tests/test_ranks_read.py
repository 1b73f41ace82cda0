"""Files that several ranks read together: the bits of one process that reads all, on every rank,
wherever the cuts fall; one error, of the first row that is wrong; and less memory for each."""
import gzip
import os
import random
import subprocess
import sys

from checks import check, finish, folder
from ranks import ALL, ALONE, FOPO, MPIRUN, or_skip, program

or_skip()
os.chdir(folder)
RANKS = (1, 2, 3, 4, 7) if ALL else (1, 2, 4)


def run(ranks, script, limit=120):
    """(exit status, stdout, stderr) of the script on so many ranks."""
    mpirun = MPIRUN + ["-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run(mpirun + [FOPO, "-e", script], text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=limit, env=ALONE)
    return done.returncode, done.stdout, done.stderr


def write(name, text, mode="w"):
    with (gzip.open(name, "wt") if name.endswith(".gz") else open(name, mode, newline="")) as f:
        f.write(text)


# What a dataset holds, to the bit; every rank writes it, of a dataset shared out too.
DIGEST = """
local function write_digest(name, d)
  local rank = fopo.ranks().rank
  local f <close> = assert(io.open(("%s.%d"):format(name, rank), "w"))
  f:write(("%s %d x %d, %d entries of %d, %d repeats, %d skipped, %d and %d seen\\n"):format(
    d.format, d.n_users, d.n_items, d.nnz, d.rows_read, d.repeats, d.skipped, d.users_seen,
    d.items_seen))
  f:write(("%s %s %s %s %s\\n"):format(d.has_values, d.has_times, d.first_time, d.last_time,
                                      d.no_times))
  for i = 1, d.n_items do f:write(d:item_name(i), "\\n") end
  for u = 1, d.n_users do
    f:write(d:user_name(u))
    local lists = {d:row(u)}
    for k, list in pairs(lists) do
      f:write(" |")
      if k == 1 then list = list:totable()[1] end
      for _, x in ipairs(list) do f:write((" %a"):format(x)) end
    end
    f:write("\\n")
  end
  return d.here
end
"""
READ = DIGEST + """
for _, case in ipairs(CASES) do
  local name, files, options = table.unpack(case)
  options.shard = SHARD
  local here = write_digest(name .. TAG, fopo.data.read(files, options))
  local f <close> = assert(io.open(("%s%s.here.%d"):format(name, TAG, fopo.ranks().rank), "w"))
  f:write(here)
end
print("done")
"""

# ---- files ----

rng = random.Random(5)


def rows(n, user="%d", item="%d"):
    return ["%s,%s,%s,%d" % (user % (rng.randrange(n // 9 + 2) ** 2 % (n // 8 + 1)),
                             item % rng.randrange(60), rng.choice(["1", ".1", ".3", "2.7"]),
                             rng.randrange(999)) for _ in range(n)]


HEAD = "user,item,rating,time\n"


def table(lines, head=HEAD, end="\n"):
    return head.replace("\n", end) + end.join(lines) + end


write("text.csv", table(rows(3000, "u%d", "item %d")))
write("whole.csv", table(rows(3000)))
write("crlf.csv", "\ufeff" + table(rows(500), end="\r\n").rstrip())
days = [rows(rng.choice([1, 3, 40, 300])) for _ in range(12)]
for i, day in enumerate(days):
    write("day%d.csv%s" % (i, ".gz" if i % 5 == 2 else ""), table(day))
write("late.csv", table(rows(200) + rows(3, "u%d") + rows(200)))
write("wide.csv", table(rows(100, "-%d", "9%d00000000000")))
write("x.json", "".join('{"item":"%s","user":%s,"rating":%s,"time":%s}\n' % (i, u, r, t)
                        for u, i, r, t in (row.replace(",.", ",0.").split(",")
                                           for row in rows(800))))
note = '"' + "9,9,9\n" * 40 + 'a ""b""\n"'
write("quoted.csv", "user,item,note\n" + "".join(
    "%d,%d,%s\n" % (i % 37, i % 11, note if i % 3 == 1 else "x") for i in range(120)))
write("one_row.csv", 'user,item,note\n1,2,"' + "5,6,7\n" * 900 + '"\n3,4,x\n')
BANNER = "%%MatrixMarket matrix coordinate real general\n"
write("small.mtx", BANNER + "70 90 3\n1 2 .1\n3 4 .2\n1 2 4\n")
write("large.mtx", BANNER + "40 99 400\n" + "".join(
    "%d %d %d\n" % (i % 40 + 1, i % 99 + 1, i % 7) for i in range(400)))
write("lists.txt", "".join("%d %d %d %d\n" % (u, u % 7, u % 5 + 20, u % 31) for u in range(300)))
write("tiny.csv", "user,item\nann,5\nbob,6")
write("head.csv", "user,item\n")
write("halves.csv", "user,item,rating\n" + "a,b,.5\na,c,.5\n" * 2)
write("ones.csv", "user,item,rating\n" + "a,b,1\nd,c,1\n" * 20)
write("untimed.csv", "user,item\n" + "u1,i2\n" * 30)
write("soon.csv", HEAD + "\n".join(rows(900)) + "\n1,1,1,soon\n")
write("malformed.csv", table(["1", "x,,1,1"] + rows(300) + ["3,4,z,1"] + rows(40)))

DAYS = ["day%d.csv%s" % (i, ".gz" if i % 5 == 2 else "") for i in range(12)]
CASES = [
    ("text", ["text.csv"], ""), ("integers", ["whole.csv"], ""), ("crlf", ["crlf.csv"], ""),
    ("days", DAYS, ""), ("late text", ["whole.csv", "late.csv", "day2.csv.gz"], ""),
    ("wide", ["wide.csv", "whole.csv"], ""), ("json", ["x.json", "whole.csv"], ""),
    ("quoted", ["quoted.csv"], ""), ("one row", ["one_row.csv"], ""),
    ("quoted files", ["quoted.csv", "one_row.csv", "quoted.csv"], ""),
    ("matrices", ["small.mtx", "large.mtx", "small.mtx"], ""),
    ("matrix and text", ["small.mtx", "tiny.csv", "lists.txt"], ""), ("lists", ["lists.txt"], ""),
    ("baskets", ["lists.txt"], 'format = "baskets"'), ("tiny", ["tiny.csv"], ""),
    ("tiny files", ["tiny.csv", "head.csv", "tiny.csv"], ""), ("halves", ["halves.csv"], ""),
    ("ones", ["ones.csv"], ""), ("untimed", ["text.csv", "untimed.csv"], ""),
    ("soon", ["whole.csv", "soon.csv"], ""), ("where", ["whole.csv"], 'where = "rating>=1"'),
    ("malformed", ["malformed.csv", "malformed.csv"], "skip_errors = true, max_errors = 6"),
    ("no values", ["text.csv"], 'value = "", time = ""')]
try: # row groups are what ranks share; some have a few rows, and a rank may have none
    import pyarrow
    import pyarrow.parquet
    import pyarrow.feather
    ALONE["PYTHON"] = sys.executable
    for i, each in enumerate((70, 3000)):
        cells = [[row.split(",")[k] for row in rows(900)] for k in range(4)]
        form = pyarrow.table({"user": cells[0], "item": [int(x) for x in cells[1]],
                              "rating": [float(x) for x in cells[2]],
                              "time": [int(x) for x in cells[3]]})
        pyarrow.parquet.write_table(form, "groups%d.parquet" % i, row_group_size=each)
        pyarrow.feather.write_feather(form, "groups%d.arrow" % i)
    CASES += [("row groups", ["groups0.parquet", "groups1.parquet"], 'where = "rating>=1"'),
              ("Parquet, Arrow and text", ["groups0.parquet", "text.csv", "groups1.arrow"], "")]
except ImportError:
    print("skip: Parquet and Arrow files, which need pyarrow")
names = [case[0] for case in CASES]
LUA = "CASES = {%s}\n" % ", ".join('{"%s", {"%s"}, {%s}}' % (name, '", "'.join(files), options)
                                   for name, files, options in CASES)
whole = run(1, LUA + "SHARD, TAG = false, ''\n" + READ)
check("one process reads all", whole[1] == "done\n", whole)


def digest(name):
    with open(name) as f:
        return f.read()


for n in RANKS:
    code, out, err = run(n, LUA + "SHARD, TAG = true, '-%d'\n" % n + READ)
    check(f"{n} ranks read", code == 0 and out == "done\n", out, err)
    if code != 0:
        continue
    for name in names:
        same = all(digest(f"{name}-{n}.{r}") == digest(f"{name}.0") for r in range(n))
        check(f"{n} ranks, {name}: the bits of one process", same, digest(f"{name}-{n}.0")[:600],
              digest(f"{name}.0")[:600])
        here = sum(int(digest(f"{name}-{n}.here.{r}")) for r in range(n))
        check(f"{n} ranks, {name}: each user is on one rank",
              here == int(digest(f"{name}.here.0")), here)
check("something was compared", len(digest("text.0")) > 20000)

# ---- many more files, and each rank in turn without memory ----

program("test_read_ranks", RANKS[1:] if ALL else (3,))

# ---- the same as a dataset that is whole and then shared out, for all that follows ----

SPLIT = """
local function parts(d)
  local s = d:sessions{min_items = 3, test = 0.3, seed = 2}
  local x = s.train:gather(1000)
  local out = {x.n}
  for i = 1, x.n do out[#out + 1] = table.concat(x:x(i):totable()[1], " ") end
  return table.concat(out, ",")
end
local read = fopo.data.read
assert(parts(read("text.csv", {shard = true})) == parts(read("text.csv"):share()))
assert(fopo.ranks().size == 1 or not pcall(function()
  read("text.csv", {shard = true}):save("no.npz") end))
print("equal")
"""
for n in (1, 3):
    done = run(n, SPLIT)
    check(f"{n} ranks, sessions", done[1] == "equal\n", done)

# ---- errors ----

write("wrong.csv", table(rows(1200) + ["7,8,bad,1"] + rows(900) + ["7,8,worse,1"] + rows(50)))
write("wrong_quotes.csv", digest("quoted.csv") + "5,,x\n" + digest("quoted.csv")[15:])
write("nothing.csv", "")
WRONG = [
    ("a row", '{"whole.csv", "wrong.csv"}', "", "wrong.csv, line 1202, column 3 (rating): "
     "'bad' is not a number", True),
    ("a row between quotes", '"wrong_quotes.csv"', "", None, True),
    ("a column", '"whole.csv"', 'user = "nobody"', "no such column", False),
    ("a file", '{"whole.csv", "absent.csv"}', "", "absent.csv", False),
    ("an empty file", '{"whole.csv", "nothing.csv"}', "", "nothing.csv is empty", False),
    ("no row", '"head.csv"', "", "head.csv holds no interaction", False),
    ("too many", '{"malformed.csv", "malformed.csv"}', "skip_errors = true, max_errors = 5",
     "there are 6 malformed rows, max_errors is 5", False),
    ("baskets", '{"lists.txt", "lists.txt"}', 'format = "baskets"', "line i is user i", False)]
# after each of them the ranks go on together
READ_WRONG = "for i, case in ipairs{%s} do" % ", ".join(
    "{%s, {%s}}" % (files, options) for _, files, options, _, _ in WRONG) + """
  local files, options = table.unpack(case)
  options.shard = SHARD
  local ok, why = pcall(fopo.data.read, files, options)
  local f <close> = assert(io.open(("why%d.%d"):format(i, fopo.ranks().rank), "w"))
  f:write(tostring(why))
  print(ok, fopo.data.read("text.csv", {shard = true}).nnz)
end
"""
done = run(1, "SHARD = false\n" + READ_WRONG)
alone = [digest("why%d.0" % i) for i in range(1, len(WRONG) + 1)]
code, out, err = run(4, "SHARD = true\n" + READ_WRONG)
check("all ranks go on", code == 0 and out == done[1] and out.count("false") == len(WRONG), out,
      err)
for i, (what, _, _, said, elsewhere) in enumerate(WRONG):
    check(f"{what}: one process", (said or "is not an id") in alone[i], alone[i])
    told = [digest("why%d.%d" % (i + 1, r)) for r in range(4)]
    sentence = alone[i].split(": ", 1)[-1]
    known = [(said or sentence) in t for t in told]
    others = ["has failed, and says why" in t for t in told]
    check(f"{what}: each rank is told", all(a or b for a, b in zip(known, others)) and any(known),
          told)
    check(f"{what}: the rank that found it says it", not elsewhere or sum(known) == 1, told)

# ---- memory ----

block = "".join("%d,%d\n" % (i * 7919 % 100003, i * 104729 % 50021) for i in range(1_000_000))
with open("large.csv", "w") as f:
    f.write("user,item\n" + 6 * block)
write("names.csv", "user,item\n" + "".join("%d,%d\n" % (i * 2654435761 % 999999999989,
                                                        i * 2654435783 % 999999999959)
                                           for i in range(1_000_000)))
PEAK = """
local d = fopo.data.read("FILE", {shard = SHARD})
local f <close> = assert(io.open("peak." .. fopo.ranks().rank, "w"))
for line in io.lines("/proc/self/status") do
  local kb = line:match("^VmHWM:%s+(%d+)")
  if kb then f:write(kb) end
end
"""
for what, file in (("6,000,000 rows", "large.csv"),
                   ("1,000,000 users and as many items", "names.csv")):
    run(1, PEAK.replace("FILE", file).replace("SHARD", "false"))
    one = int(digest("peak.0")) / 1024
    code, out, err = run(4, PEAK.replace("FILE", file).replace("SHARD", "true"))
    four = max(int(digest("peak.%d" % r)) for r in range(4)) / 1024
    print("%s: %.0f MB alone, at most %.0f MB on each of 4 ranks" % (what, one, four))
    check("4 ranks take less memory each", code == 0 and four < 0.65 * one, what, one, four, err)

finish()
