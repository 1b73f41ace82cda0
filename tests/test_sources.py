"""Where rows come from: folders and patterns, standard input, named pipes, commands, zstd, atomic
files of RecBole; and Parquet and Arrow, written by pyarrow with many options. Each gives the
dataset of the same rows in a CSV file, or one sentence."""
import gzip
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from checks import FOPO, LANDLOCK, check, finish, folder

LIST = """
local d = fopo.data.read(assert(load("return " .. arg[1]))(), assert(load("return " .. arg[2]))())
print(d.skipped)
for u = 1, d.n_users do
  local items, values, times = d:row(u)
  for i, item in ipairs(items:totable()[1]) do
    local time = times and ("%.17g"):format(times[i]) or "-"
    print(d:user_name(u), d:item_name(item), values and values[i] or 1, time)
  end
end
"""
with open(os.path.join(folder, "list.lua"), "w") as f:
    f.write('local fopo = require "fopo"\n' + LIST)


def command(files, options="{}", *flags):
    return [FOPO, *flags, os.path.join(folder, "list.lua"), files, options]


def said_by(done):
    """The lines that it printed; or the sentence of an error, after progress that is slow."""
    if done.returncode == 0:
        return done.stdout.splitlines()
    return next(line for line in done.stderr.split("\n") if not line.startswith("reading "))


def read(files, options="{}", *flags, **rest):
    return said_by(subprocess.run(command(files, options, *flags), capture_output=True, text=True,
                                  timeout=60, cwd=folder, **rest))


def same(name, seen, wanted):
    check(name, seen == wanted, seen if isinstance(seen, str) else seen[:5], wanted[:5])


def write(name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(text)
    return path


rng = random.Random(5)
rows = [(rng.randrange(40), f"i{rng.randrange(30)}", rng.randrange(1, 11) / 2,
         1_700_000_000 + 3600 * k) for k in range(3000)]
HEAD = "user_id,item_id,rating,time\n"


def csv(part, head=HEAD):
    return (head + "".join(",".join(map(str, row)) + "\n" for row in part)).encode()


whole = write("all.csv", csv(rows))
wanted = read('"all.csv"')
check("the rows are read", len(wanted) > 500 and wanted[0] == "0", wanted[:3])

# ---- folders and patterns ----

for k in range(3):
    write(f"days/2026-11-0{k + 1}/part.csv", csv(rows[1000 * k:1000 * k + 1000]))
write("days/_SUCCESS", b"")
write("days/.hidden", b"no rows")
same("a folder", read('"days"'), wanted)
same("a pattern", read('"days/2026-*/*.csv"'), wanted)
same("in a list", read('{"days/2026-11-01", "days/2026-11-0[23]/*"}'), wanted)
os.makedirs(os.path.join(folder, "void"))
for files, said in (('"days/2027*"', "no file matches days/2027*"),
                    ('"void"', "void holds no file"), ('{"all.csv", 3}', "a list with 2 = 3"),
                    ('"\\1ls"', "not a list with 1")):
    check(f"refused: {files}", said in read(files), read(files))

# ---- streams ----

with open(whole, "rb") as text:
    same("standard input", read('"-"', stdin=text), wanted)
same("a pipe of gzip", read('"/dev/stdin"', input=None, stdin=subprocess.Popen(
    ["gzip", "-c", whole], stdout=subprocess.PIPE).stdout), wanted)
same("a command", read('{command = "cat all.csv | cat"}'), wanted)
same("commands in a list", read('{{command = "head -n 1001 all.csv"}, '
                                '{command = "head -n 1 all.csv; tail -n 2000 all.csv"}}'), wanted)
same("a named pipe", subprocess.run(
    ["bash", "-c", 'mkfifo pipe && { sleep .2; cat all.csv > pipe; } & sleep .1; "$@"', "-",
     *command('"pipe"')], capture_output=True, text=True, cwd=folder).stdout.splitlines(), wanted)
for files, said in (('{command = "cat all.csv; echo gone >&2; exit 1"}', "gone"),
                    ('{command = "cat all.csv; exit 3"}', "'cat all.csv; exit 3' ended with 3"),
                    ('{command = "true"}', "the command 'true' is empty"),
                    ('"-"', "standard input is empty")):
    seen = read(files, stdin=subprocess.DEVNULL)
    check(f"refused: {files}", said in seen, seen)
if LANDLOCK:
    seen = read('{command = "cat all.csv"}', "{}", "--safe")
    check("no command under --safe", "--safe starts no program" in seen, seen)

# Ctrl-C while a command is silent ends both; the program's end is seen by the lock that it holds.
busy = subprocess.Popen(command('{command = "exec 9> held; flock 9; echo ready > told; sleep 60"}'),
                        cwd=folder, stderr=subprocess.PIPE, text=True)
while not os.path.exists(os.path.join(folder, "told")) and busy.poll() is None:
    time.sleep(0.02)
busy.send_signal(signal.SIGINT)
said = busy.communicate(timeout=30)[1]
check("Ctrl-C", "interrupted while reading the command" in said, said)
check("the command has ended", subprocess.run(["flock", "-w", "20", os.path.join(folder, "held"),
                                               "true"]).returncode == 0)

# ---- logs, which are tables that are read twice, or lines that are read once ----

LOGS = '''
local lg = fopo.data.logs(assert(load("return " .. arg[1]))(), {standardise = "none"})
print(lg.format, lg.n, lg.dim)
for _, a in ipairs{lg:contexts(), lg:rewards(), lg:propensities()} do
  for _, row in ipairs(a:totable()) do print(("%a "):rep(#row):format(table.unpack(row))) end
end
for i, a in ipairs(lg:actions():totable()[1]) do print(lg:action_name(a)) end
'''
write("logs.lua", ('local fopo = require "fopo"\n' + LOGS).encode())


def log(files, *flags, **rest):
    return said_by(subprocess.run([FOPO, *flags, os.path.join(folder, "logs.lua"), files],
                                  text=True, capture_output=True, timeout=60, cwd=folder, **rest))


events = [(rng.randrange(18, 80), rng.choice(["fr", "be", "d,e"]), rng.randrange(5), k % 2,
           rng.choice([0.5, 0.25])) for k in range(2000)]
HEADER = "age,country,action,reward,propensity\n"
text = HEADER + "".join('%d,"%s",%d,%d,%s\n' % e for e in events)
write("log.csv", text.encode())
write("log.csv.gz", gzip.compress(text.encode()))
logged = log('"log.csv"')
check("a log", logged[0] == "csv\t2000\t4" and len(logged) > 4000, logged[:3], len(logged))
for name, files in (("a command", '{command = "cat log.csv"}'),
                    ("a command, packed", '{command = "cat log.csv.gz"}')):
    same("a log by " + name, log(files), logged)
with open(os.path.join(folder, "log.csv.gz"), "rb") as packed:
    same("a log by standard input", log('"-"', stdin=packed), logged)
same("a log by a named pipe", subprocess.run(
    ["bash", "-c", 'mkfifo logpipe && { sleep .2; cat log.csv > logpipe; } & sleep .1; "$@"', "-",
     FOPO, "logs.lua", '"logpipe"'], capture_output=True, text=True,
    cwd=folder).stdout.splitlines(), logged)
write("log.vw", b"1:-1:0.5 | a b\n2:0:0.25 | a\n")
same("lines by a command", log('{command = "cat log.vw"}'), log('"log.vw"'))
for files, said in (
        ('{command = "sed 7s/,[^,]*$/,2/ log.csv"}',
         "log.csv', line 7, column 5: '2' is not a propensity: it is above 1"),
        ('{command = "cat log.csv; exit 3"}', "log.csv; exit 3' ended with 3"),
        ('{command = "head -n 1 log.csv"}', "log.csv' holds no event"),
        ('{"log.csv", "log.csv"}', "log.csv and 1 more: a log is one file")):
    seen = log(files)
    check(f"a log refused: {files}", said in seen, seen)
if LANDLOCK:
    with open(os.path.join(folder, "log.csv"), "rb") as plain:
        same("a log by a pipe under --safe", log('"-"', "--safe", stdin=plain), logged)

# ---- zstd ----

if shutil.which("zstd"):
    half = len(csv(rows)) // 2
    for name, text in (("a", csv(rows)[:half]), ("b", csv(rows)[half:])):
        subprocess.run(["zstd", "-q", "-o", os.path.join(folder, name + ".zst")], input=text,
                       check=True)
    frames = b"".join(open(os.path.join(folder, n + ".zst"), "rb").read() for n in "ab")
    write("two.csv.zst", frames)
    same("zstd, two frames", read('"two.csv.zst"'), wanted)
    write("cut.zst", frames[:-9])
    seen = read('"cut.zst"')
    check("zstd that is cut", "cut.zst: the zstd data is damaged: it is cut short" in seen, seen)
else:
    print("skip: zstd, whose program is not here")

# ---- RecBole's atomic files ----

atomic = csv(rows, "user_id:token,item_id:token,rating:float,timestamp:float\n")
write("set.inter", atomic.replace(b",", b"\t"))
same("an atomic file", read('"set.inter"'), wanted)
same("its columns by name", read('"set.inter"', '{user = "user_id", value = "rating"}'), wanted)

# ---- Parquet and Arrow ----

try:
    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as parquet
except ImportError:
    write("x.parquet", b"PAR1" + bytes(8))
    seen = read('"x.parquet"')
    check("without pyarrow the sentence says how to get it", "pip install" in seen, seen)
    print("skip: Parquet and Arrow files, which need pyarrow")
    finish()

env = {**os.environ, "PYTHON": sys.executable}
users, items, values, times = map(list, zip(*rows))
stamps = pa.array(times, pa.timestamp("s"))
table = pa.table({"user_id": users, "item_id": items, "rating": values, "time": stamps})
forms = {"as it is": table}
for user, item, value, unit in (
        (pa.int16(), pa.large_string(), pa.float32(), pa.timestamp("ms", tz="Europe/Rome")),
        (pa.uint64(), pa.binary(), pa.decimal128(5, 1), pa.timestamp("us")),
        (pa.float64(), pa.dictionary(pa.int32(), pa.string()), pa.float64(), pa.timestamp("ns")),
        (pa.string(), pa.string(), pa.float16(), pa.int64())):
    forms[f"{user}, {item}, {value}, {unit}"] = pa.table(
        {"tags": [["a"]] * len(rows), "user_id": pa.array(users).cast(user),
         "item_id": pa.array(items).cast(item),
         "rating": pa.array(values).cast(pa.float32()).cast(value), "time": stamps.cast(unit)})
for name, form in forms.items():
    parquet.write_table(form, os.path.join(folder, "x.parquet"), row_group_size=700)
    same("Parquet: " + name, read('"x.parquet"', env=env), wanted)
for compression in ("zstd", "none"):
    parquet.write_table(table, os.path.join(folder, "x.parquet"), compression=compression,
                        use_dictionary=compression == "none", data_page_version="2.0")
    same("Parquet, packed by " + compression, read('"x.parquet"', env=env), wanted)
feather.write_feather(table, os.path.join(folder, "x.arrow"))
same("Arrow", read('"x.arrow"', env=env), wanted)
for k in range(3):
    os.makedirs(os.path.join(folder, f"parts/k={k}"))
    part = os.path.join(folder, f"parts/k={k}/a.parquet")
    parquet.write_table(table.slice(1000 * k, 1000), part)
write("parts/_SUCCESS", b"")
same("a folder of part files", read('"parts"', env=env), wanted)
same("Parquet beside CSV", read('{"parts/k=0/a.parquet", "days/2026-11-02", "days/2026-11-03"}',
                                env=env), wanted)
for options in ('{where = "rating>=3"}', '{where = "item_id=i3", value = ""}', "{time = false}",
                '{user = "item_id", item = "user_id"}',
                '{user = 1, item = 2, value = "", time = 4}'):
    of_csv = read('"all.csv"', options)
    same("options: " + options, read('"parts"', options, env=env), of_csv)
    same("by way of the disk: " + options,
         read('"parts"', options[:-1] + ", parts = 3}", env=env), of_csv)

# numbers of every kind keep their bits
drawn = [0.001, -0.001, 0.999, 1.05, -0.5, 5e-324, 1e300, 0.1 + 0.2, 2.0**53, -7.0]
for _ in range(300):
    drawn += [rng.randrange(1, 9999) / 1000, rng.gauss(0, 1), rng.gauss(0, 1e13)]
parquet.write_table(pa.table({"user_id": range(len(drawn)), "item_id": [1] * len(drawn),
                              "time": drawn}), os.path.join(folder, "drawn.parquet"))
seen = [float(row.split("\t")[3]) for row in read('"drawn.parquet"', env=env)[1:]]
same("the bits of numbers", seen, drawn)

# a field with a comma and quotes, and one that is missing
odd = pa.table({"user": ["a,b", 'c"d', None], "item": ["x", "y", "z"], "odd": [[1], [2], []]})
parquet.write_table(odd, os.path.join(folder, "odd.parquet"))
same("quotes, and a row left out", read('"odd.parquet"', "{skip_errors = true}", env=env),
     ["1", "a,b\tx\t1\t-", 'c"d\ty\t1\t-'])
for files, options, said in (
        ('"odd.parquet"', "{}", "odd.parquet, line 4, column 1 (user): '' is not an id"),
        ('"odd.parquet"', '{item = "odd"}', "column odd holds list<"),
        ('"odd.parquet"', '{item = "none"}', "has no such column; it has 2 columns: user, item"),
        ('{"x.arrow", "odd.parquet"}', "{}", "odd.parquet, line 4")):
    seen = read(files, options, env=env)
    check(f"refused: {files} {options}", said in seen, seen)
data = open(os.path.join(folder, "x.parquet"), "rb").read()
write("cut.parquet", data[:len(data) // 2])
seen = read('"cut.parquet"', env=env)
check("a file that is cut", "cut.parquet: " in seen and "magic bytes" in seen, seen)
write("gz.csv.gz", gzip.compress(csv(rows)))
form = pa.table(dict(zip(HEADER.strip().split(","), map(list, zip(*events)))))
parquet.write_table(form, os.path.join(folder, "log.parquet"), row_group_size=300)
same("a log in Parquet", log('"log.parquet"', env=env), logged)
for k in range(2):
    os.makedirs(os.path.join(folder, f"logparts/k={k}"))
    parquet.write_table(form.slice(1000 * k, 1000),
                        os.path.join(folder, f"logparts/k={k}/a.parquet"))
same("a log in a folder of part files", log('"logparts"', env=env), logged)
parquet.write_table(form.set_column(4, "propensity", [[2.0] * 2000]),
                    os.path.join(folder, "wrong.parquet"))
seen = log('"wrong.parquet"', env=env)
check("a log in Parquet refused", "wrong.parquet, line 2, column 5: '2' is not" in seen, seen)
thrice = read('{"all.csv", "all.csv", "all.csv"}', '{value = ""}')
for name, options in (("", '{value = ""}'), (", by way of the disk", '{value = "", parts = 3}')):
    same("all kinds in one list" + name,
         read('{"gz.csv.gz", "x.arrow", "x.parquet"}', options, env=env), thrice)
finish()
