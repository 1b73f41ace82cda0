"""fopo --safe: each thing that is forbidden is refused by a sentence that names the option, what is
allowed works, and the limits of time and memory hold."""
import os
import shutil
import signal
import subprocess
import time

from checks import check, finish, folder as outside, FOPO

folder = os.path.join(outside, "here")
os.mkdir(folder)
os.chdir(folder)


def run(code, *options, safe=True):
    return subprocess.run([FOPO, "--no-init", *(["--safe"] if safe else []), *options, "-e", code],
                          capture_output=True, text=True, timeout=120)


# what cannot be interrupted: a pattern that backtracks without end, a finaliser that is no Lua
# function; their ends are checked under "time"
ENDLESS = [subprocess.Popen([FOPO, "--no-init", "--safe", "--max-seconds", "2", "-e", code],
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
           + WORLD + "t:run{steps = 2, log = true, view = false, checkpoint = 'c.npz'}")
check("what is allowed", done.returncode == 0 and done.stdout == "read and written\n" and
      os.path.exists("sub/b.npy") and os.path.exists("runs") and os.path.exists("c.npz"),
      done.stdout, done.stderr)
with open("script.lua", "w") as f:
    f.write("local fopo = require 'fopo' print(#arg, arg[1], fopo.version ~= nil) os.exit(7)")
done = subprocess.run([FOPO, "--safe", "script.lua", "--safe"], capture_output=True, text=True)
check("a script", done.returncode == 7 and done.stdout == "1\t--safe\ttrue\n", done.stdout)

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
                          [FOPO, "--safe", "--max-memory", "100M", "-e", code],
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
