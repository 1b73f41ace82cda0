"""fopo without a terminal: options, exit codes, scripts, standard input, no escape sequence."""
import os
import shutil
import signal
import subprocess
import sys
import time

from checks import check, finish, folder, FOPO


def run(*args, stdin="", env=None):
    done = subprocess.run([FOPO, *args], input=stdin, capture_output=True, text=True, timeout=60,
                          env={**os.environ, **(env or {})})
    return done.returncode, done.stdout, done.stderr


def expect(name, got, code=0, out=None, err=None):
    """out: the whole of stdout; err: a part of stderr."""
    check(name + ": exit code", got[0] == code, got)
    if out is not None:
        check(name + ": stdout", got[1] == out, got)
    if err is not None:
        check(name + ": stderr", err in got[2], got)
    check(name + ": no escape sequence", "\x1b" not in got[1] + got[2], got)


script, top = os.path.join(folder, "script.lua"), os.getcwd()


def write(text):
    with open(script, "w") as f:
        f.write(text)


# options and exit codes
expect("-h", run("-h"), 0)
check("-h tells", "usage: fopo" in run("-h")[1])
expect("-v", run("-v"), 0)
check("-v tells", run("-v")[1].startswith("fopo 0.") and "Lua 5.4" in run("-v")[1])
expect("its name in ps", run("-e", 'io.write((io.open("/proc/self/comm"):read()))'), 0, "fopo")
expect("unknown option", run("-x"), 2, "", "unknown option -x")
expect("-e without code", run("-e"), 2, "", "-e needs code")
expect("-e twice", run("-e", "x = 1", "-e", "print(x + 1)"), 0, "2\n")
expect("-e has the modules", run("-e", "print(array == fopo.array, index ~= nil, table.concat{1})"),
       0, "true\ttrue\t1\n")
expect("an error", run("-e", "error('no such luck')"), 1, "", "no such luck")
expect("wrong syntax", run("-e", "x ="), 1, "", "unexpected symbol")
expect("missing script", run("/nonexistent.lua"), 1, "", "/nonexistent.lua")
expect("os.exit(3)", run("-e", "os.exit(3)"), 3, "")
expect("os.exit(false)", run("-e", "os.exit(false)"), 1, "")
expect("os.exit in a coroutine", run("-e", "coroutine.wrap(function() os.exit(4) end)()"), 4, "")
expect("os.exit runs finalisers",
       run("-e", "setmetatable({}, {__gc = function() print 'closed' end}) os.exit(true)"), 0,
       "closed\n")
expect("numbers stay as they are", run("-e", "print(os.setlocale('C.UTF-8'), tonumber('1.5'))"), 0,
       "nil\t1.5\n")

# scripts
write("print(#arg, arg[0] ~= nil, arg[1], ...)")
expect("arguments", run(script, "a", "-e"), 0, "2\ttrue\ta\ta\t-e\n")
expect("after --", run("--", script, "b"), 0, "1\ttrue\tb\tb\n")
write("#!/usr/bin/env fopo\nlocal fopo = require 'fopo'\nprint(fopo.version ~= nil, array)")
expect("require in a script", run(script), 0, "true\tnil\n")
write("local function f() error('deep') end\nlocal function g() f() end\ng()")
got = run(script)
expect("traceback", got, 1, "", "script.lua:1: deep")
check("traceback names the frames", "in local 'g'" in got[2] and "script.lua:3" in got[2], got)
check("no frames of the host's", "[C]: in ?" not in got[2] and "fopo/" not in got[2], got)
write("local fopo = require 'fopo'\nfopo.index.hnsw(1)")
got = run(script)
expect("an error of the library", got, 1, "", "script.lua:2: ")
expect("errors that are tables", run("-e", "error({})"), 1, "", "a table value")
expect("errors that say",
       run("-e", "error(setmetatable({}, {__tostring = function() return 'I' end}))"), 1, "", "I\n")
write("\x1bLua")
expect("bytecode is refused", run(script), 1, "")
expect("bytecode is refused by load", run("-e", "print(load(string.dump(function() end)))"), 0)
check("by load, with words", "nil\t" in run("-e", "print(load(string.dump(function() end)))")[1])

# standard input
expect("standard input", run(stdin="print(1 + 1)"), 0, "2\n")
expect("- and arguments", run("-", "x", stdin="print(...)"), 0, "x\n")
expect("error on standard input", run(stdin="error('x')"), 1, "", "stdin:1: x")

# the prompt without a terminal: values, no prompt, no escapes
expect("-i", run("-i", stdin="1 + 1\nx = 2;\nx;\n_\nfor i = 1, 2 do\n  print(i)\nend\n'a', 2\n"), 0,
       "2\n2\n1\n2\na\t2\n")
expect("-i after an error", run("-i", stdin="error('x')\n'alive'\n"), 0, "alive\n", "prompt:1: x")
expect("-i and wrong syntax", run("-i", stdin="foo bar\n'abc\n1 +* 2\n7\n"), 0, "7\n",
       "unexpected symbol near '*'")
unreadable = os.open(folder, os.O_RDONLY)  # a read of a folder fails
done = subprocess.run([FOPO, "-i"], stdin=unreadable, capture_output=True, text=True, timeout=60)
os.close(unreadable)
expect("-i and an input that cannot be read", (done.returncode, done.stdout, done.stderr), 1, "",
       "fopo: a line of the input could not be read: Is a directory\n")
expect("-i and an open entry", run("-i", stdin="x = {"), 0, "", "near <eof>")
expect("-i after a script", run("-i", script, stdin="2\n"), 0, "2\n")
expect("-i and nil", run("-i", stdin="nil\nprint(nil)\n(function() end)()\nnil, nil\n"), 0,
       "nil\nnil\nnil\tnil\n")
expect("a value that cannot be shown",
       run("-i", stdin="setmetatable({}, {__tostring = function() error('oops') end})\n3\n"), 0,
       "3\n", "oops")
init = os.path.join(folder, "fopo")
os.mkdir(init)
with open(os.path.join(init, "init.lua"), "w") as f:
    f.write("greeting = 'hello'")
expect("init.lua", run("-i", stdin="greeting\n", env={"XDG_CONFIG_HOME": folder}), 0, "hello\n")
expect("--no-init", run("-i", "--no-init", stdin="greeting\n", env={"XDG_CONFIG_HOME": folder}), 0,
       "nil\n")
with open(os.path.join(init, "init.lua"), "w") as f:
    f.write("error('bad start')")
expect("a bad init.lua", run("-i", stdin="5\n", env={"XDG_CONFIG_HOME": folder}), 0, "5\n",
       "bad start")

# an OpenBLAS that does not know this CPU and computes as on a Prescott, unless it is told
def as_unknown(*args, **env):
    return run(*args, "-e", "print(os.getenv('OPENBLAS_CORETYPE'))",
               env={"LD_PRELOAD": unknown, **env})


flags = open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""
compiler, unknown = shutil.which("cc") or shutil.which("gcc"), os.path.join(folder, "unknown.so")
if compiler is None or " avx2 " not in flags or "build/release/" not in os.path.realpath(FOPO):
    print("skip: an OpenBLAS that does not know the CPU (needs AVX2, the release, a compiler)")
else:
    subprocess.run([compiler, "-shared", "-fPIC", "-xc", "-", "-o", unknown], check=True, text=True,
                   input="""#include <stdlib.h>
        const char *openblas_get_corename(void) {
          const char *told = getenv("OPENBLAS_CORETYPE");
          return told != NULL ? told : "Prescott";
        }""")
    wide = all(" avx512" + part + " " in flags for part in ("f", "bw", "vl", "dq"))
    right = "SkylakeX" if wide else "Haswell"
    code, out, err = as_unknown("-v")
    check("told of the CPU", code == 0 and out.split("\n")[0].endswith(", OpenBLAS as on " + right)
          and out.endswith("\n%s\n" % right), out, err)
    expect("told beside OpenMP's settings", as_unknown(GOMP_SPINCOUNT="9"), 0, right + "\n")
    expect("not told by a user", as_unknown(OPENBLAS_CORETYPE="Nehalem"), 0, "Nehalem\n")
    os.chdir(folder)
    expect("told before --safe", as_unknown("--safe", "--without-border"), 0, right + "\n")
    os.chdir(top)
    for settings, starts in (({}, 2), ({"GOMP_SPINCOUNT": "9"}, 2),
                             ({"GOMP_SPINCOUNT": "9", "OPENBLAS_CORETYPE": "Haswell"}, 1)):
        loader = as_unknown(LD_DEBUG="statistics", **settings)[2]
        check("starts", loader.count("total startup time") == starts, settings, loader)

# threads that are none, and an address space that is too small for them
expect("FOPO_THREADS=2x", run("-e", "print(fopo.threads() > 0)", env={"FOPO_THREADS": "2x"}), 0,
       "true\n", 'FOPO_THREADS is "2x"')
expect("FOPO_THREADS=abc", run("-e", "print(fopo.threads() > 0)", env={"FOPO_THREADS": "abc"}), 0,
       "true\n", "is no number of threads")


def small_space():
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))


if "asan" not in FOPO:  # the sanitizer takes terabytes of it
    # with less than about 300 MB the start of OpenBLAS 0.3.29, before main, does not end
    done = subprocess.run([FOPO, "-e", "print(1)"], preexec_fn=small_space, capture_output=True,
                          text=True, timeout=60, env={**os.environ, "FOPO_THREADS": "4"})
    check("ulimit -v", done.returncode == 1 and "MB of address space" in done.stderr, done)


# threads that the system does not start: of another user, whose number of processes is limited
def with_threads(code, most, threads):
    import resource

    def other_user():
        os.setgid(65534)
        os.setuid(61234)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    program = os.path.join(folder, "for-all")
    shutil.copy(os.path.realpath(FOPO), program)
    os.chmod(folder, 0o755)
    counts = os.path.join(folder, "counts")  # of a build by gcov: the user cannot write in its own
    os.makedirs(counts, exist_ok=True)
    os.chmod(counts, 0o777)
    return subprocess.run([program, "-e", code], preexec_fn=other_user, capture_output=True,
                          text=True, timeout=60, cwd="/",
                          env={**os.environ, "FOPO_THREADS": str(threads), "FOPO_CUDA": "none",
                               "GCOV_PREFIX": counts, "OPENBLAS_NUM_THREADS": "1"})


MANY = """x = array.randn(5000, 64, 1) print(index.exact(x):search(array.randn(8, 64, 2), 4).rows)
print(fopo.threads(), (pcall(fopo.threads, 40)), fopo.threads())
s = data.synthetic{users = 400, items = 500, clusters = 8, seed = 3}:sessions{min_items = 10}
t = trainer{policy = policy.linear{items = embed.svd(s.train, {dim = 8})}, data = s.train,
            batch = 8, valid = false}
print(select(2, pcall(t.start, t, {steps = 20})))
t:run{steps = 10, view = false}
print(t.step)"""
if "asan" in FOPO or "clang" in FOPO or os.getuid() != 0:
    print("skip: threads that are refused (by gcc's OpenMP, to another user than root)")
else:
    done = with_threads(MANY, 3, 8)
    check("threads that are refused", done.returncode == 0 and done.stdout.startswith("8\n3\tfalse")
          and "3 more threads are needed, and the system starts 0" in done.stdout
          and done.stdout.endswith("\n10\n") and done.stderr.count("\n") == 1
          and "the system starts 3 of 8 threads" in done.stderr, done)
    done = with_threads("t = fopo.threads() print(t, fopo.threads(2))", 3, 2)
    check("threads that are not refused", done.stdout == "2\t2\n" and done.stderr == "", done)

    def large_stacks():
        import resource
        resource.setrlimit(resource.RLIMIT_STACK, (512 << 20, 512 << 20))
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

    for threads, said in ((8, "MB of address space"), (3, "")):
        done = subprocess.run([FOPO, "-e", MANY], preexec_fn=large_stacks, capture_output=True,
                              text=True, timeout=60,
                              env={**os.environ, "FOPO_THREADS": str(threads)})
        check("large stacks", said in done.stderr and done.returncode == (said != "")
              and done.stdout.endswith("\n10\n") == (said == ""), done)
    check("a job's large stacks", "MB of address space" in done.stdout, done)

# output that cannot be written is a failure
if os.path.exists("/dev/full"):
    with open("/dev/full", "w") as full:
        done = subprocess.run([FOPO, "-e", "print(1)"], stdout=full, stderr=subprocess.PIPE)
    check("/dev/full", done.returncode == 1, done)


def interrupted(name, code):
    """SIGINT soon after the script says that it is ready: exit code 130, and soon (the limit has
    room for a loaded machine under a sanitizer; 0.01 s in Lua and 0.1 s in C are usual)."""
    process = subprocess.Popen([FOPO, "-e", "io.write('ready\\n') io.flush() " + code],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    process.stdout.readline()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    try:
        _, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        err = "it went on"
    check(name + ": 130", process.returncode == 130, process.returncode, err)
    check(name + ": says so", "interrupted" in err, err)
    check(name + ": soon", time.monotonic() - begun < 5, time.monotonic() - begun)
    if "-v" in sys.argv:
        print("%-28s %.3f s" % (name, time.monotonic() - begun))


interrupted("a loop", "while true do end")
interrupted("a loop of pcall", "while true do pcall(function() while true do end end) end")
interrupted("pcall around all", "pcall(function() while true do end end) while true do end")
interrupted("a loop in xpcall's handler",
            "xpcall(function() error('x') end, function() while true do end end)")
interrupted("xpcall around a loop",
            "xpcall(function() while true do end end, function() while true do end end)")
interrupted("a coroutine", "coroutine.wrap(function() while true do end end)()")
interrupted("pcall in a coroutine",
            "local function f() while true do pcall(error) end end "
            "while true do pcall(coroutine.wrap(f)) end")
interrupted("coroutines in coroutines",
            "local function f(n) if n == 0 then while true do end end "
            "return coroutine.wrap(f)(n - 1) end f(20)")
interrupted("resume in a loop",
            "while true do local co = coroutine.create(function() while true do end end) "
            "coroutine.resume(co) end")
interrupted("closing a coroutine",
            "local co = coroutine.create(function() local x <close> = setmetatable({}, "
            "{__close = function() while true do end end}) coroutine.yield() end) "
            "coroutine.resume(co) coroutine.close(co)")
interrupted("a user's hook", "debug.sethook(function() end, 'l') while true do end")
interrupted("hooks set in the loop", "while true do debug.sethook() pcall(error) end")
interrupted("xpcall with a handler",
            "while true do xpcall(function() while true do end end, function(e) return e end) end")
interrupted("C: a product of matrices",
            "local a = array.randn(2500, 2500, 1) for i = 1, 1000 do a:matmul(a) end")
interrupted("C: an index", "index.hnsw(array.randn(200000, 32, 1))")
interrupted("C: an SVD", "while true do local d = data.synthetic{users = 20000, items = 20000} "
            "pcall(embed.svd, d:sessions{}.train, {dim = 100}) end")

finish()
