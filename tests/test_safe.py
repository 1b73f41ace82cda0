"""fopo --safe: each thing that is forbidden is refused by a sentence that names the option, what is
allowed works, the limits of time and memory hold, and so does the parent. tests/test_attacks.py
and tests/c/test_border.c have the attacks."""
import os
import shutil
import signal
import subprocess
import time

from checks import check, finish, folder as outside, FOPO, LANDLOCK, without_landlock
from terminal import children, Program

folder = os.path.join(outside, "here")
os.mkdir(folder)
os.chdir(folder)


if "asan" in FOPO:  # a leak is looked for by ptrace, which the border refuses
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0"
if not LANDLOCK:
    print("skip: what Landlock holds (this kernel does not have it)")
SAFE = ["--safe"] if LANDLOCK else ["--safe", "--without-border"]


def run(code, *options, safe=True, **how):
    return subprocess.run([FOPO, "--no-init", *(SAFE if safe else []), *options, "-e", code],
                          capture_output=True, text=True, timeout=120, **how)


# what cannot be interrupted: a pattern that backtracks without end, a finaliser that is no Lua
# function; their ends are checked under "time"
ENDLESS = [subprocess.Popen([FOPO, "--no-init", *SAFE, "--max-seconds", "2", "-e", code],
                            stderr=subprocess.PIPE, text=True)
           for code in ("string.find(('a'):rep(50), ('.-'):rep(40) .. 'b')",
                        "setmetatable({}, {__gc = setmetatable({}, {__call = function() "
                        "while true do end end})})")]

# ---- the standard libraries: every function that is there without --safe ----
KEPT = {"io": "write flush stdout stderr type", "debug": "traceback",
        "os": "clock date difftime exit getenv setlocale time",
        "package": "config loaded path preload searchers searchpath cpath"}
LIST = """for _, library in ipairs{'io', 'debug', 'os', 'package'} do
  for name, value in pairs(_G[library]) do print(library, name, type(value)) end end"""
TRY = """for line in ([[%s]]):gmatch('[^\\n]+') do
  local library, name, kind = line:match('(%%S+)\\t(%%S+)\\t(%%S+)')
  local now = _G[library][name]
  local why = now ~= nil and kind == 'function' and name ~= 'exit' and
    select(2, pcall(now, '', ''))
  print(library, name, kind, type(now), why) end"""
tried = run(TRY % run(LIST, safe=False).stdout).stdout.splitlines()
check("all are tried", len(tried) > 40, tried)
for line in tried:
    library, name, kind, now, why = line.split("\t")
    what = "%s.%s" % (library, name)
    if name in KEPT[library].split():
        check(what + " is kept", now == kind and "--safe" not in why, line)
    elif kind == "function":
        check(what + " is refused", why.startswith(what + " is refused by --safe: "), line)
    else:
        check(what + " is away", now == "nil", line)
done = run("print(pcall(package.loaded.os.execute, 'touch x')) local f = require('os').remove "
           "print(pcall(f, 'x')) print(pcall(require('io').open, 'x', 'w'))")
check("there is no other way to them", done.stdout.count("false") == 3 and
      done.stdout.count("by --safe") == 3 and os.listdir(".") == [], done.stdout, done.stderr)
with open("libc_here.so", "w") as f:
    f.write("no library")
done = run("package.cpath = './?.so' require 'libc_here'")
check("no library in C", done.returncode == 1 and "libc_here.so" not in done.stderr, done.stderr)
done = run("local f = load('return io.open') f()('x', 'w')")
check("nor from load", "io.open is refused by --safe" in done.stderr, done.stderr)

# ---- files ----
os.symlink(outside, "link")
os.symlink(os.path.join(outside, "target.npy"), "link.npy")
os.mkdir("sub")
PATHS = ["../x.npy", outside + "/x.npy", "link/x.npy", "link.npy", "no/../../x.npy",
         folder + "er/x.npy", "sub/../../x.npy"]
done = run("local a = array.randn(2, 2, 1) for _, path in ipairs{'%s'} do print(pcall(a.save, a, "
           "path)) end" % "', '".join(PATHS))
for path, line in zip(PATHS, done.stdout.splitlines() + PATHS):
    check(path, line.startswith("false") and line.endswith(
        ": --safe lets scripts write below %s alone" % os.path.realpath(".")), line, done.stderr)
if shutil.which("gnuplot"):
    PLOT = "plot.save('../x.svg', {y = {1, 2}})"
else:
    PLOT = "view.save('../y.svg', t)"
    print("skip: plot.save (gnuplot-nox is not installed)")
SAVES = [PLOT, "view.save('../x.svg', t)", "t:save('../x.npz')", "pi:save('../x.npz')",
         "t:run{steps = 1, log = '../log'}", "d:save('../x.npz')",
         "index.norm(items):save('../x.npz')"]
WORLD = """d = data.synthetic{users = 200, items = 80, clusters = 4, seed = 1}
s = d:sessions{min_items = 4} items = embed.svd(s.train, {dim = 4})
pi = policy.linear{items = items} t = trainer{policy = pi, data = s.train, batch = 8}
t:run{steps = 1, view = false} """
done = run(WORLD + " ".join("print(pcall(function() %s end))" % code for code in SAVES))
for code, line in zip(SAVES, done.stdout.splitlines() + SAVES):
    check(code, line.startswith("false") and "--safe lets scripts write below" in line, line,
          done.stderr)
check("nothing was written there", os.listdir(outside) == ["here"], os.listdir(outside))
os.makedirs(os.path.join(outside, "data"))
run("array.randn(2, 2, 1):save('../data/a.npy')", safe=False)
done = run("array.load('../data/a.npy'):save('sub/b.npy') io.write('read ') print('and written') "
           + WORLD + "t:run{steps = 2, log = true, view = false, checkpoint = 'c.npz'}", "--read",
           "../data")
check("what is allowed", done.returncode == 0 and done.stdout == "read and written\n" and
      os.path.exists("sub/b.npy") and os.path.exists("runs") and os.path.exists("c.npz"),
      done.stdout, done.stderr)
with open("rows.csv", "w") as f:
    f.write("user,item\n1,2\n2,3\n")
with open("script.lua", "w") as f:
    f.write("local fopo = require 'fopo' print(#arg, arg[1], fopo.version ~= nil) os.exit(7)")
done = subprocess.run([FOPO, *SAFE, "script.lua", "--safe"], capture_output=True, text=True)
check("a script", done.returncode == 7 and done.stdout == "1\t--safe\ttrue\n", done.stdout)

# ---- what may be read ----
SENTENCE = "--safe reads below the current folder, and what --read PATH names"
if LANDLOCK:
    done = run("print(pcall(array.load, '../data/a.npy'))")
    check("not beside the folder", done.stdout.startswith("false") and SENTENCE in done.stdout,
          done.stdout)
done = run("print(array.load('../data/a.npy').rows)", "--read", "../data/a.npy")
check("a file", done.stdout == "2\n", done.stderr)
done = run("a = array.load('../data/a.npy') print(pcall(a.save, a, '../data/a.npy'))",
           "--read", "..")
check("what is read is not written", "lets scripts write below" in done.stdout, done.stdout)
done = run("", "--read", "../nothing")
check("nothing there", done.returncode == 1 and "--read ../nothing: No such" in done.stderr,
      done.stderr)
os.chmod("sub/b.npy", 0o600)
done = run("array.zeros(1, 1):save('sub/b.npy')")
check("a private file stays private", os.stat("sub/b.npy").st_mode & 0o777 == 0o600, done.stderr)
done = subprocess.run(["bash", "-c", "'%s' %s <(echo 'print(3)'); echo 'print(4)' | '%s' %s -; "
                       "'%s' %s -e 'print(data.read(\"/dev/stdin\").n_users)' < rows.csv" %
                       ((FOPO, " ".join(SAFE)) * 3)], capture_output=True, text=True)
check("scripts of all kinds", done.stdout.startswith("3\n4\n") and "2\n" in done.stdout,
      done.stdout, done.stderr)

# ---- what it needs ----
for there, env in ((".", {"HOME": folder}), ("/", {})):
    done = run("", cwd=there, env={**os.environ, **env})
    check("not in " + there, done.returncode == 1 and "go to a folder of the script's own first" in
          done.stderr, done.stderr)
done = run("", env={**os.environ, "OMPI_COMM_WORLD_SIZE": "2"})
check("not by mpirun", done.returncode == 2 and "--safe holds one process" in done.stderr,
      done.stderr)
for option in (["--read", "x"], ["--without-border"]):
    done = run("", *option, safe=False)
    check(option[0] + " alone", done.returncode == 2 and "belongs to --safe" in done.stderr)
done = subprocess.run([FOPO, "--safe", "-e", "print 'ran'"], capture_output=True, text=True,
                      preexec_fn=without_landlock)
check("a kernel without Landlock", done.returncode == 1 and done.stdout == "" and
      "--safe needs Landlock, which this kernel does not have" in done.stderr, done.stderr)
done = subprocess.run([FOPO, "--safe", "--without-border", "-e",
                       "print(pcall(os.execute, 'true'))"], capture_output=True, text=True,
                      preexec_fn=without_landlock)
check("unless asked", done.returncode == 0 and "os.execute is refused" in done.stdout and
      "this kernel has no Landlock" in done.stderr, done.stdout, done.stderr)

# ---- the three processes ----


def field(pid, name):
    with open("/proc/%d/status" % pid) as f:
        return next(line.split()[1] for line in f if line.startswith(name + ":"))


def begun(code, *options):
    p = subprocess.Popen([FOPO, "--no-init", *SAFE, *options, "-e",
                          "print 'ready' io.flush() " + code], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    check("it begins", p.stdout.readline() == "ready\n")
    return p, children(p.pid)[-1]


os.environ["WORLD"] = WORLD
ENDLESS_LOOP = "while true do end"
p, script = begun("array.randn(300, 300, 1):matmul(array.randn(300, 300, 1)) " + ENDLESS_LOOP,
                  "--max-memory", "1G")
threads = [int(n) for n in os.listdir("/proc/%d/task" % script)]
check("all threads are behind the border", {field(n, "Seccomp") for n in threads} == {"2"}
      and {field(n, "NoNewPrivs") for n in threads} == {"1"}, len(threads))
with open("/proc/%d/limits" % script) as f:
    limits = {line[:25].strip(): line[26:46].strip() for line in f}
check("backstops", limits["Max cpu time"] != "unlimited" and
      ("asan" in FOPO or limits["Max address space"] != "unlimited"), limits)
everyone = [p.pid, *children(p.pid)]
check("a parent, a drawer and a script", len(everyone) == 3)
p.kill()
p.communicate(timeout=60)


def gone(pid):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            if field(pid, "State") in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


check("a killed parent takes them along", all(gone(pid) for pid in everyone[1:]), everyone)
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGVTALRM):
    p, script = begun(ENDLESS_LOOP)
    p.send_signal(number)
    p.communicate(timeout=60)
    check("ends as the script does", p.returncode == -number and gone(script), p.returncode)
p, script = begun(ENDLESS_LOOP)
p.send_signal(signal.SIGINT)
check("an interruption is handed on", "interrupted" in p.communicate(timeout=60)[1] and
      p.returncode == 130, p.returncode)
p, script = begun(ENDLESS_LOOP)
os.kill(script, signal.SIGKILL)
p.communicate(timeout=60)
check("kill -9 of the script", p.returncode == -signal.SIGKILL, p.returncode)


def at_terminal(view):
    p = Program([FOPO, "--no-init", *SAFE, "-i", "-e", WORLD], 50, 150, HOME=outside)
    check("a prompt", p.wait("fopo>", 60), p.screen.text())
    p.settle(0.1)
    if view:
        p.send("t:run{seconds = 100, view = true}\r")
        check("a view", p.wait("contexts/s by steps"), p.screen.text())
        p.settle(0.3)
    check("the terminal has changed", not p.restored())
    return p, children(p.process.pid)[-1]


for view in (False, True):
    p, script = at_terminal(view)
    os.kill(script, signal.SIGKILL)
    check("the parent ends by the signal", p.ended(20) == -signal.SIGKILL)
    check("and gives the terminal back", p.restored(), view)
    p.close()
p = Program(["bash", "--norc", "-i"], 50, 150, HOME=outside, PS1="shell$ ")
p.send("%s --no-init %s -i -e \"$WORLD\"\r" % (FOPO, " ".join(SAFE)))
check("a prompt", p.wait("fopo>", 60), p.screen.text())
p.send("t:run{seconds = 100, view = true}\r")
check("a view", p.wait("contexts/s by steps"), p.screen.text())
p.send("\x1a")  # Ctrl-Z
check("it stops", p.wait("Stopped", 60), p.screen.text())
p.send("fg\r")
check("and goes on", p.wait("contexts/s by steps"), p.screen.text())
p.close()

# ---- time ----
for code in ("while true do end", "while true do pcall(function() while true do end end) end",
              "local co = coroutine.wrap(function() while true do coroutine.yield() end end) "
             "while true do co() end",
             "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) "
             "while true do pcall(function() return t[1] end) end",
             "while true do array.randn(300, 300, 1):matmul(array.randn(300, 300, 1)) end",
             "pcall(function() while true do end end)"):
    begun = time.monotonic()
    done = run(code, "--max-seconds", "0.2")
    check(code, done.returncode == 142 and "the time of --max-seconds is over" in done.stderr,
          done.returncode, done.stderr)
    check("soon", 0.2 <= time.monotonic() - begun < 8, time.monotonic() - begun)
done = run(WORLD + "t:run{seconds = 100, view = false, checkpoint = 'timed.npz'}",
           "--max-seconds", "0.7")
check("a checkpoint is kept", done.returncode == 142 and "timed.npz is the checkpoint of step" in
      done.stderr and os.path.exists("timed.npz"), done.stderr)
done = run("local begun = os.clock() while os.clock() < begun + 0.2 do end print 'done'",
           "--max-seconds", "0")
check("0 is no limit", done.returncode == 0 and done.stdout == "done\n", done.stderr)
done = run("while true do end", "--max-seconds", "0.2", safe=False)
check("without --safe too", done.returncode == 142, done.stderr)
for p in ENDLESS:
    check("what cannot be interrupted is ended by the signal", "did not stop when its time was "
          "over" in p.communicate(timeout=60)[1] and p.returncode == -signal.SIGALRM, p.args[-1],
          p.returncode)

# ---- memory ----
for code, sentence in (
        ("local t = {} while true do t[#t + 1] = ('x'):rep(10000) .. #t end", "--max-memory"),
        ("local s = 'x' while true do s = s .. s end", "--max-memory"),
        ("local t = {} while true do t[#t + 1] = array.zeros(500, 500) end", "--max-memory"),
        ("array.randn(1000000, 1000, 1)", "are free"),
        ("local function f() return 1 + f() end f()", "stack overflow"),
        ("data.synthetic{users = 3000000, items = 300000, mean_items = 100}", "are free")):
    done = subprocess.run(["/usr/bin/env", "time", "-f", "%M kB"] * bool(shutil.which("time")) +
                          [FOPO, *SAFE, "--max-memory", "100M", "-e", code],
                          capture_output=True, text=True, timeout=120)
    check(code, done.returncode == 1 and sentence in done.stderr, done.returncode, done.stderr)
    if done.stderr.endswith("kB\n") and "asan" not in FOPO:  # which keeps what is freed
        check("within it", int(done.stderr.split()[-2]) < 250000, done.stderr)
done = run("local t = {} for i = 1, 600 do t[i % 10] = array.zeros(500, 500) end "
           "for i = 1, 300 do local s = ('x'):rep(1000000) end", "--max-memory", "100M")
check("what is not held is not counted", done.returncode == 0, done.stderr)
done = run("local t = {} for i = 1, 100 do t[i] = ('x'):rep(1000000) .. i end t = nil "
           "local ok = pcall(function() local s = 'x' while true do s = s .. s end end) "
           "print(ok, 1 + 1)", "--max-memory", "200M")
check("and a script may go on", done.stdout == "false\t2\n", done.stdout, done.stderr)
for words in (("--max-memory", "5X"), ("--max-memory", "-1"), ("--max-memory", "1GB"),
              ("--max-seconds", "soon"), ("--max-seconds", "nan"), ("--max-seconds",)):
    done = subprocess.run([FOPO, *words], capture_output=True, text=True)
    check(words, done.returncode == 2 and "needs a" in done.stderr, done.stderr)

finish()
