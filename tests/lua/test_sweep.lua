-- fopo.experiment.sweep: its runs, its rows on disk, its means, and what it says of errors.
local lu = require "luaunit"
local csv = require "fopo.base.csv"
local fopo = require "fopo"
local means = require "fopo.base.means"
local native = require "fopo.native"
local store = require "fopo.sweep.store"

local world = fopo.data.synthetic{users = 300, items = 400, clusters = 8}
local split = world:sessions{min_items = 10}
local other = world:sessions{min_items = 10, seed = 2}

local folder

local function read(name)
  local f <close> = io.open(folder .. "/" .. name)
  return f and f:read("a")
end

local function write(name, text)
  local f <close> = assert(io.open(folder .. "/" .. name, "w"))
  f:write(text)
end

local function sweep(o)
  o.out, o.view = folder, false
  if o.report == nil then o.report = false end
  return fopo.experiment.sweep(o)
end

TestSweep = {}

function TestSweep:setUp()
  folder = os.tmpname()
  os.remove(folder)
end

function TestSweep:tearDown() os.execute("rm -rf " .. folder) end

function TestSweep:test_csv()
  local columns = {"a", "b,c", "d", "e", "f", "g"}
  local row = {a = 0.1 + 0.2, ["b,c"] = 'say "a, b"', d = {1, 2.5, 1e-300}, f = -1 / 0, g = 3}
  local rows, names = csv.parse("# x\n" .. csv.head(columns) .. csv.line(columns, row))
  lu.assertEquals(names, columns)
  lu.assertEquals(#rows, 1)
  for _, name in ipairs(columns) do lu.assertEquals(csv.list(rows[1][name]), row[name], name) end
  lu.assertEquals(csv.list("1 a"), "1 a")
end

-- 97.5 % points of Student's t: published tables.
function TestSweep:test_interval()
  local mean, half = means.interval{1, 2, 3}
  lu.assertEquals(mean, 2)
  lu.assertAlmostEquals(half, 4.303 / math.sqrt(3), 1e-3)
  for n, t in pairs{[8] = 2.365, [11] = 2.228, [31] = 2.042} do
    local list, squares = {}, 0
    for i = 1, n do list[i] = i % 2 end
    mean, half = means.interval(list)
    for i = 1, n do squares = squares + (list[i] - mean) ^ 2 end
    lu.assertAlmostEquals(half, t * math.sqrt(squares / (n - 1) / n), 1e-3)
  end
  lu.assertEquals(select(2, means.interval{7}), 0)
end

-- Every combination once; a list of tables is their union, in which `seed` counts before seeds.
function TestSweep:test_plan()
  local made = {}
  local function run(c)
    made[#made + 1] = ("%s %s %d"):format(c.a, c.b, c.seed)
    return {value = 1}
  end
  sweep{over = {{a = {1, 2}, b = {x = "X", y = "Y"}}, {a = 2, b = {y = "Y"}}, {a = 3, seed = 9}},
        seeds = {4, 5}, run = run}
  lu.assertEquals(made, {"1 X 4", "1 Y 4", "2 X 4", "2 Y 4", "3 nil 9", "1 X 5", "1 Y 5", "2 X 5",
                         "2 Y 5"})
  lu.assertEquals(#sweep{over = {c = "z"}, seeds = 2, run = run}.rows, 2)
end

-- Numbers that are known: the mean is that of a and the seeds, the differences are exact.
function TestSweep:test_means()
  local noise = {0.1, -0.2, 0.4}
  local found = sweep{over = {a = {1, 2}}, seeds = 3, report = true, run = function(c)
    return {reward = c.a + noise[c.seed] + (c.a == 1 and c.seed / 100 or 0), time = 5}
  end}
  lu.assertEquals(found.best, {a = 2})
  lu.assertEquals(#found.rows, 6)
  local rows = csv.read(folder .. "/table.csv")
  lu.assertAlmostEquals(rows[1].reward, 1.12, 1e-12)
  lu.assertAlmostEquals(rows[2].reward, 2.1, 1e-12)
  -- the noise is that of the seed, so only c.seed / 100 is left in the pairs: 0.01, 0.02, 0.03
  lu.assertAlmostEquals(rows[1].against_best, -0.98, 1e-12)
  lu.assertAlmostEquals(rows[1].against_best_half, 4.303 * 0.01 / math.sqrt(3), 1e-5)
  lu.assertAlmostEquals(rows[2].reward_half, 4.303 * math.sqrt(0.18 / 2 / 3), 1e-3)
  lu.assertNil(rows[2].against_best)
  lu.assertStrContains(tostring(found), "1.12 +- 0.7")
  lu.assertStrContains(read "table.md", "**2.10 ± 0.75**")
  lu.assertStrContains(read "table.tex", "\\mathbf{2.10 \\pm 0.75}")
  lu.assertStrContains(read "table.tex", "a & reward & against the best & time & seconds \\\\")
  found = sweep{over = {a = {1, 2}}, seeds = 3, against = {a = 1}, run = error}
  lu.assertStrMatches(tostring(found), "(.*)against a 1(.*)%+0.980 %+%- 0.025(.*)")
end

-- The seeds of a split share it: the interval is that of the means by split.
function TestSweep:test_splits()
  local found = sweep{over = {a = 1}, seeds = 2, split = {split, other}, report = true,
                      run = function(c)
    return {v = (c.split == split and 0 or 1) + c.seed / 10}
  end}
  local row = csv.read(folder .. "/table.csv")[1]
  lu.assertAlmostEquals(row.v, 0.65, 1e-12)
  lu.assertEquals(row.v_n, 2)
  lu.assertAlmostEquals(row.v_half, 12.706 * math.sqrt(0.5) / math.sqrt(2), 1e-9)
  lu.assertStrMatches(found.rows[1].split, "1: 400 items; 216 train; 27 test; %x+")
  lu.assertNotEquals(found.rows[1].split:sub(3), found.rows[3].split:sub(3))
end

-- Rows that are there are not made again; a torn last line is; other settings stay.
function TestSweep:test_resumed()
  local made = 0
  local function run(c)
    made = made + 1
    return {v = c.a * c.seed, curve = {c.a, c.seed}, step = {1, 2}}
  end
  local first = sweep{over = {a = {1, 2}}, seeds = 2, run = run}
  lu.assertEquals(made, 4)
  local again = sweep{over = {a = {1, 2}}, seeds = 2, run = run}
  lu.assertEquals(made, 4)
  lu.assertEquals(again.rows, first.rows)
  lu.assertEquals(again.rows[2].curve, {2, 1})
  write("results.csv", (read("results.csv"):sub(1, -5)))
  again = sweep{over = {a = {1, 2}}, seeds = 2, run = run}
  lu.assertEquals(made, 5)
  lu.assertEquals(again.rows[4].v, 4)
  sweep{over = {a = {2, 3}, b = "x"}, seeds = 2, run = run}
  lu.assertEquals(made, 9)
  again = sweep{over = {a = {2, 3}, b = "x"}, seeds = 3, run = run}
  lu.assertEquals(made, 11)
  lu.assertEquals(#csv.read(folder .. "/results.csv"), 10)
  lu.assertEquals(#again.rows, 6)
  write("results.csv", "x,y\n1,2\n")
  lu.assertErrorMsgContains("has no column seed, so it is no table of a sweep", sweep,
                            {over = {a = 1}, run = run})
end

-- A failure is a row; the next call makes it again, and the last row counts.
function TestSweep:test_failed()
  local broken = true
  local function run(c)
    if c.a == 2 and broken then error("it went\nwrong, \"badly\"") end
    return {v = c.a}
  end
  local found = sweep{over = {a = {1, 2, 3}}, seeds = 1, run = run}
  lu.assertEquals(#found.failed, 1)
  lu.assertStrContains(found.failed[1].error, 'it went wrong, "badly"')
  lu.assertEquals(found.best, {a = 3})
  lu.assertStrContains(tostring(found), "failed: a 2, seed 1: ")
  lu.assertStrMatches(tostring(found), "(.*)2  +0 of 1(.*)")
  broken = false
  found = sweep{over = {a = {1, 2, 3}}, seeds = 1, run = run}
  lu.assertEquals(#found.failed, 0)
  lu.assertEquals(found.rows[2].v, 2)
  for _, bad in ipairs{
    {function() return {a = 1} end, "run returns a, which is the name of a setting"},
    {function() return {v = {1, "x"}} end, 'run returns v[2] = "x", not a number'},
    {function() return {v = {x = 1}} end, "run returns v = a table; a row holds numbers"},
    {function() return nil end, "run must return a table of numbers by name"},
  } do
    found = sweep{over = {a = 7, b = {bad[2]}}, seeds = 1, run = bad[1]}
    lu.assertStrContains(found.rows[1].error, bad[2])
  end
end

-- Processes give the rows of one process, but for the time; one that is killed is a row.
function TestSweep:test_jobs()
  local function rows(jobs, seeds)
    os.execute("rm -rf " .. folder)
    local over = {lr = {1e-3, 1e-1}, steps = 20, dim = 8, gradient = {"snis", "exact"}}
    local found = sweep{over = over, seeds = seeds, split = split, jobs = jobs}
    for _, row in ipairs(found.rows) do row.seconds, row.ms_step, row.machine = nil, nil, nil end
    return found.rows
  end
  local alone, three = rows(1, 2), rows(3, 2)
  lu.assertEquals(three, alone)
  lu.assertEquals(#alone, 8)
  lu.assertEquals(#alone[1].valid, #alone[1].step)
  local found = sweep{over = {a = {1, 2, 3}}, seeds = 1, jobs = 2, run = function(c)
    if c.a == 2 then os.execute("kill -9 $PPID") end
    return {v = c.a}
  end}
  lu.assertEquals(found.rows[2].error,
                  "its process ended with status 137; it was killed: was there enough memory?")
  lu.assertEquals(found.rows[3].v, 3)
end

function TestSweep:test_refused()
  local function refuses(sentence, o) lu.assertErrorMsgContains(sentence, sweep, o) end
  local run = function() return {v = 1} end
  refuses("over.g has a function; give it a name, as g = {NAME = ...}",
          {over = {g = run}, run = run})
  refuses("over.a has no value", {over = {a = {}}, run = run})
  refuses("over has split, which is the option split", {over = {split = 2}, run = run})
  refuses("no runs have the settings of against, a 2", {over = {a = 1}, run = run,
                                                       against = {a = 2}})
  refuses("needs the option split", {over = {lr = 1, steps = 2}})
  refuses("over has lrs, which the standard run does not use; did you mean",
          {over = {lrs = 1, steps = 2}, split = split})
  refuses("over needs the length of the runs", {over = {lr = 1}, split = split})
  refuses('over.gradient has "snips", which is none; did you mean "snis"?',
          {over = {gradient = "snips", steps = 2}, split = split})
  refuses("has a gradient, whose state would go from one run into the next",
          {over = {gradient = {own = fopo.gradient.exact{}}, steps = 2}, split = split})
  refuses("over has dim, but items are given",
          {over = {dim = 4, steps = 2}, split = split, items = fopo.array.randn(400, 4, 1)})
  native.make_folder(folder)
  local held <close> = store.open(folder, {names = {"seed"}, runs = {}, by_key = {}})
  refuses("is in use by another run", {over = {a = 1}, run = run})
  assert(held)
end

os.exit(lu.LuaUnit.run())
