"""Attacks of scripts on the border of fopo --safe (tests/c/test_border.c has those of code that has
taken the process over). A script finds a secret beside its folder, and all of them run in one
process. An attack has succeeded if it returns true or a string with the secret in it, if a file
beside the folder has changed, if a program ran, or if the process did not live to the end."""
import hashlib
import os
import shutil
import subprocess

from checks import check, finish, folder as outside, FOPO, LANDLOCK, without_landlock

outside = os.path.realpath(outside)
here = os.path.join(outside, "here")
os.makedirs(os.path.join(here, "sub"))
os.makedirs(os.path.join(outside, "modules"))
os.chdir(here)
SECRET = "9b21f0c4"
if "asan" in FOPO:  # a leak is looked for by ptrace, which the border refuses; others do that
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0"


def run(code, *options, **how):
    return subprocess.run([FOPO, "--no-init", *options, "-e", code], capture_output=True, text=True,
                          timeout=120, **how)


if not LANDLOCK:
    print("skip: what Landlock holds (this kernel does not have it)")

# ---- what lies outside ----
for name, text in {"secret": SECRET, "secret.csv": "user,item\n1,%s\n2,3\n" % SECRET,
                   "modules/secret.lua": "return '%s'" % SECRET, "target": "old"}.items():
    with open(os.path.join(outside, name), "w") as f:
        f.write(text)
made = run("""array.randn(2, 2, 1):save('../secret.npy')
    d = data.synthetic{users = 200, items = 80, clusters = 4, seed = 1} d:save('../secret.npz')
    s = d:sessions{min_items = 4} items = embed.svd(s.train, {dim = 4})
    pi = policy.linear{items = items} pi:save('../policy.npz') index.norm(items):save('../i.npz')
    t = trainer{policy = pi, data = s.train, batch = 8} t:run{steps = 1, view = false}
    t:save('../t.npz')""")
check("made", made.returncode == 0, made.stderr)
os.symlink(outside, "link")
os.symlink(os.path.join(outside, "secret.npy"), "link.npy")
os.symlink(os.path.join(outside, "secret.csv"), "link.csv")
os.symlink(os.path.join(outside, "target"), "target.npy")
os.symlink("/proc/self/root", "root")


def state():
    """Everything below `outside` but for the script's folder."""
    found = {}
    for path, folders, files in os.walk(outside):
        if path == outside:
            folders.remove("here")
        for name in files:
            with open(os.path.join(path, name), "rb") as f:
                found[os.path.join(path, name)] = hashlib.sha256(f.read()).hexdigest()
        found[path] = ""
    return found


# ---- the attacks: Lua code, one a line, which indented lines continue ----
# OUT is the folder above the script's; `d` and so on are as `made` has them.
ATTACKS = {"the standard library": r"""
return io.open(OUT .. '/secret'):read 'a'
for line in io.lines(OUT .. '/secret') do return line end
return io.popen('cat ' .. OUT .. '/secret'):read 'a'
io.input(OUT .. '/secret') return io.read 'a'
io.output(OUT .. '/a1') io.write 'x'
return io.tmpfile() ~= nil
return os.execute('touch ' .. OUT .. '/a2')
return os.remove(OUT .. '/target')
return os.rename(OUT .. '/target', 'taken')
return io.open(os.tmpname(), 'w') ~= nil
return getmetatable(io.stdout).__index.open(OUT .. '/secret'):read 'a'
return io.stdout.lines(OUT .. '/secret')()
return getmetatable(io.stdout).__name.open(OUT .. '/secret')
return package.loadlib('libc.so.6', '*')
return package.loadlib('libc.so.6', 'system') ~= nil
return debug.getregistry() ~= nil
return debug.getinfo(1) ~= nil
return debug.getupvalue(fopo.plot.save, 1) ~= nil
return debug.getlocal(1, 1) ~= nil
return debug.getmetatable(array.zeros(1, 1)).__index ~= nil
return debug.setmetatable(1, {}) ~= nil
return debug.getuservalue(array.zeros(1, 1), 1) ~= nil
return debug.setupvalue(print, 1, 2) ~= nil
return debug.upvalueid(fopo.plot.save, 1) ~= nil
debug.sethook(function() end, '', 1) return true
return debug.gethook() ~= nil
return package.loaded.debug.getinfo(1) ~= nil
return package.loaded._G.io.open('x', 'w') ~= nil
return package.loaded.os.execute 'true'
return _G._G.os.execute 'true'
return require 'os'.execute 'true'
return require 'io'.popen 'true' ~= nil
return rawget(os, 'execute')('touch ' .. OUT .. '/a3')
return string.dump(function() end, true) and load(string.dump(function() return true end))()
return load(string.dump(function() return true end), 'x', 'b')()
return load('\27Lua' .. ('x'):rep(100), 'x', 'bt') ~= nil
return select(2, load('return io.open', 'x', 't', {io = io}))
""", "modules": r"""
return dofile(OUT .. '/modules/secret.lua')
return loadfile(OUT .. '/modules/secret.lua')()
return loadfile('link/modules/secret.lua', 't', {})()
package.path = OUT .. '/modules/?.lua' return require 'secret'
package.path = '../modules/?.lua' return require 'secret'
return package.searchpath('secret', OUT .. '/modules/?.lua') ~= nil
return package.searchers[3]('secret') == nil
return package.searchers[4] ~= nil
package.cpath = '/usr/lib/x86_64-linux-gnu/?.so.6' return require 'libm' ~= nil
return require 'fopo.native' ~= nil
return require 'fopo.term' ~= nil
return package.loaded['fopo.native'] ~= nil
return package.preload['fopo.native'] ~= nil
return package.searchers[1]('fopo.native')()
return type(package.searchers[2]('fopo.native')) == 'function'
return require 'fopo/native' ~= nil
return require 'fopo.native\0' ~= nil
package.preload['fopo.native'] = function() return {} end return require
  'fopo.view.picture'.native ~= nil
return require('fopo.base.define').native ~= nil
local found, seen = false, {}
  local function walk(v)
    if type(v) ~= 'table' and type(v) ~= 'userdata' or seen[v] then return end
    seen[v] = true
    walk(getmetatable(v))
    if type(v) ~= 'table' then return end
    local native = rawget(v, 'write_file') and rawget(v, 'make_folder')
    if rawget(v, 'draw_picture') or native then found = true end
    for key, value in next, v do walk(key) walk(value) end
  end
  for name in ([[check data embed explain plot policy report run.job run.run view.picture
      base.define base.cache base.entry trainer array index show prompt.complete prompt.explain
      serve.file]]):gmatch '%S+' do
    pcall(require, 'fopo.' .. name)
  end
  walk(_G) walk(package) walk(getmetatable '')
  for _, f in pairs(fopo) do walk(getmetatable(f)) end
  return found
local found = false
  local function look(...)
    for i = 1, select('#', ...) do
      local v = select(i, ...)
      if type(v) == 'table' and rawget(v, 'draw_picture') then found = true end
    end
  end
  for name, f in pairs(string) do string[name] = function(...) look(...) return f(...) end end
  pcall(plot.save, 'p.svg', {{y = {1, 2}, name = 'x'}})
  pcall(data.read, 'no.csv')
  return found
""", "reading": r"""
return array.load('link.npy').rows > 0
return data.read('link.csv') ~= nil
return policy.load(OUT .. '/policy.npz') ~= nil
return index.load('../i.npz') ~= nil
t:resume('../t.npz') return true
return fopo.logs(OUT .. '/secret.csv') ~= nil
return data.read('/etc/passwd') ~= nil
return data.read('/proc/self/environ') ~= nil
return data.read('/proc/1/cmdline') ~= nil
return loadfile('/etc/hostname') == nil and dofile '/etc/hostname'
""", "writing": r"""
array.zeros(1, 1):save('target.npy') return true
d:save('../a.npz') return true
pi:save('../b.npz') return true
t:save('../c.npz') return true
index.norm(items):save('../d.npz') return true
view.save('../a.svg', t) return true
t:run{steps = 1, log = '../log', view = false} return true
t:run{steps = 1, log = OUT .. '/log/more', view = false} return true
t:run{steps = 1, checkpoint = '../e.npz', view = false}
local n = 0 for _ in pairs(t.history) do n = n + 1 end t:save('link/f.npz') return true
pi:save('/dev/shm/fopo.npz') return true
pi:save('/tmp/fopo-attack.npz') return true
pi:save(os.getenv 'HOME' .. '/.bashrc') return true
array.zeros(1, 1):save('/proc/self/oom_score_adj') return true
array.zeros(1, 1):save('/dev/null') return true
""", "pictures": r"""
plot.save('a;touch ran.svg', {1, 2})
plot.save('../p.svg', {1, 2}) return true
plot.save('|touch ran.svg', {1, 2}) return os.rename ~= nil and false
plot.save('p.svg', {{y = {1, 2}, style = 'lines; system "touch ran"'}}) return true
plot.save('p.svg', {1, 2, width = '1; system "touch ran"'}) return true
""", "the interpreter": r"""
local function f() return f() + 1 end f()
return ('x'):rep(1 << 40)
return ('x'):rep(-1 >> 1, 'y')
return #table.concat({('x'):rep(1e6)}, 'y', 1, 1 << 40)
return ('%99999d'):format(1)
return ('%s'):rep(1e5):format(1)
return ('('):rep(1e5):find(('('):rep(1e5))
return string.pack('!17 i', 1)
return string.unpack('s8', ('\255'):rep(8))
return utf8.char(-1)
return utf8.codepoint(('\255'):rep(9), 1, -1)
table.sort({3, 1, 2, 5, 4, 9, 8, 7, 6}, function() return true end)
table.move({}, 1, math.maxinteger, 2)
return table.unpack({}, 1, 1e8)
local t = setmetatable({}, {__index = function(t, k) return t[k] end}) return t[1]
local co co = coroutine.wrap(function() co() end) co()
for i = 1, 3 do local co = coroutine.wrap(function() error(setmetatable({}, {__gc = error}))
  end) pcall(co) end
load(('a='):rep(300) .. '1')()
load(('('):rep(500) .. '1' .. (')'):rep(500))()
local t = {} for i = 1, 70000 do t[i] = i .. ',' end load('return ' .. table.concat(t) .. '1')
error(setmetatable({}, {__tostring = function() error 'x' end}))
setmetatable(_G, {__index = function() error 'x' end}) local x = undefined
goto done do local x <close> = setmetatable({}, {__close = function() error 'x' end}) end ::done::
""", "fopo's objects": r"""
array.zeros(1 << 30, 1 << 30)
array.zeros(-1, 2)
array.zeros(2, 2):get(3, 1)
array.zeros(2, 2):set(1, 0, 1)
array.zeros(2, 2).rows = 5
array.zeros(2, 2):close() return items:close()
pi:recommend(-1, 1 << 40)
t:run{steps = 1 << 62, view = false, batch = -1}
getmetatable(items).__gc(items)
getmetatable(items).__index(1, 2)
policy.load('sub')
data.read('sub')
array.load(('x'):rep(5000))
array.load('a\0b')
"""}
TRIES = []  # [kind, code]
for kind, text in ATTACKS.items():
    for line in text.strip("\n").split("\n"):
        if line.startswith("  "):
            TRIES[-1][1] += "\n" + line
        else:
            TRIES.append([kind, line])

# Ways to a file NAME outside.
for path in ("OUT .. '/NAME'", "'../NAME'", "'sub/../../NAME'", "'link/NAME'", "'no/../../NAME'",
             "'/proc/self/cwd/../NAME'", "'/proc/self/root' .. OUT .. '/NAME'",
             "'root' .. OUT .. '/NAME'", "'//' .. OUT .. '//NAME'"):
    for kind, name, code in (("reading", "secret.npy", "return array.load(%s).rows > 0"),
                             ("reading", "secret.csv", "return data.read(%s) ~= nil"),
                             ("writing", "a.npy", "array.zeros(1, 1):save(%s) return true")):
        TRIES.append([kind, code % path.replace("NAME", name)])

# Words that would run a program if they became commands of gnuplot or of a shell.
for word in ("`RUN`", "$(RUN)", "'; system 'RUN'; '", '"; system "RUN"; "', "\n!RUN\n", "@RUN",
             '\nEOD\nsystem "RUN"\n', "|RUN", '\\"; system \\"RUN', "' . system('RUN') . '",
             "x\0\nsystem 'RUN'", "\\"):
    word = word.replace("RUN", "touch %s/ran" % outside).encode()
    TRIES.append(["pictures", """local w = "%s"
        plot.save('p.svg', {{y = {1, 2}, name = w}, title = w, xlabel = w, ylabel = w, yunit = w})
        """ % "".join("\\%03d" % c for c in word)])
if shutil.which("gnuplot") is None:
    print("skip: pictures (gnuplot-nox is not installed)")
    TRIES = [x for x in TRIES if x[0] != "pictures"]

HARNESS = """
local OUT = %r
fopo = require 'fopo'
for k, v in pairs(fopo) do if _G[k] == nil then _G[k] = v end end
d = data.synthetic{users = 200, items = 80, clusters = 4, seed = 1}
s = d:sessions{min_items = 4} items = embed.svd(s.train, {dim = 4})
pi = policy.linear{items = items} t = trainer{policy = pi, data = s.train, batch = 8}
local G, L = {}, {}
for k, v in pairs(_G) do G[k] = v end
for _, name in ipairs{'string', 'os', 'io', 'table', 'package'} do
  L[name] = {} for k, v in pairs(_G[name]) do L[name][k] = v end
end
local function restore()
  setmetatable(_G, nil)
  for k, v in G.pairs(G) do _G[k] = v end
  for name, copy in G.pairs(L) do for k, v in G.pairs(copy) do _G[name][k] = v end end
end
local print, find, type, tostring = print, string.find, type, tostring
local function attack(n, code)
  local f, why = load(code, '=attack', 't')
  if not f then print('broken', n, why) return end
  local ok, loot = pcall(f)
  restore()
  local won = ok and (loot == true or type(loot) == 'string' and find(loot, %r, 1, true))
  local why = ok and 'returned ' .. type(loot) or select(2, pcall(tostring, loot))
  print(won and 'won' or 'held', n, why)
end
"""


def lua_string(text):
    return '"' + "".join("\\%03d" % c for c in text.encode()) + '"'


with open("attacks.lua", "w") as f:
    f.write(HARNESS % (outside, SECRET))
    for i, (kind, code) in enumerate(TRIES):
        f.write("attack(%d, %s)\n" % (i, lua_string("local OUT = %r " % outside + code)))
    f.write("print 'the end'\n")
before = state()


def play(options, **how):
    """The numbers of the attacks that won."""
    done = subprocess.run([FOPO, *options, "--max-seconds", "60", "--max-memory", "1G",
                           "attacks.lua"], capture_output=True, text=True, timeout=150,
                          stdin=subprocess.DEVNULL,
                          env={**os.environ, "HOME": outside}, **how)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    check("the process lives to the end",
          done.stdout.endswith("the end\n") and done.returncode == 0, done.returncode,
          done.stdout[-2000:], done.stderr[-2000:])
    check("no attack is broken", not [x for x in lines if x[0] == "broken"],
          [x for x in lines if x[0] == "broken"])
    check("all are tried", len([x for x in lines if x[0] in ("held", "won")]) == len(TRIES))
    return [int(x[1]) for x in lines if x[0] == "won"]


def reads(i):
    kind, code = TRIES[i]
    return kind == "reading" or kind == "modules" and "secret" in code


def nothing_has_happened():
    after = state()
    check("nothing beside the folder has changed", after == before,
          set(after.items()) ^ set(before.items()))
    check("no program ran", "ran" not in os.listdir(here))
    check("nothing in /tmp", not os.path.exists("/tmp/fopo-attack.npz") and
          not os.path.exists("/dev/shm/fopo.npz"))


if LANDLOCK:
    won = play(["--safe"])
    check("the border holds", not won, [TRIES[i] for i in won])
    nothing_has_happened()
won = play(["--safe", "--without-border"], preexec_fn=without_landlock)
check("fopo's own checks hold writers", not [i for i in won if not reads(i)],
      [TRIES[i] for i in won])
nothing_has_happened()
won = play([])  # most of them are attacks, or they show nothing
check("without --safe many succeed", len(won) > 60, [TRIES[i] for i in won])
print("%d attacks of scripts, %d of which succeed without --safe" % (len(TRIES), len(won)))
finish()
