-- Files of users to files of recommendations: the same as pi:recommend gives for each user, in any
-- number of users at a time.
local lu = require "luaunit"
local fopo = require "fopo"

local folder = os.tmpname()
os.remove(folder)
assert(require("fopo.native").make_folder(folder))
local users, out = folder .. "/users.csv", folder .. "/out.csv"

local function write(path, content)
  local f <close> = assert(io.open(path, "wb"))
  f:write(content)
  return path
end

local function read(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read("a")
end

local function refused(part, f, ...)
  local ok, why = pcall(f, ...)
  lu.assertFalse(ok, "an error was expected: " .. part)
  lu.assertStrContains(why, part)
  lu.assertStrContains(why, "test_recommend_file.lua:")
end

-- The fields of a line of CSV: quotes inside a quoted field are doubled.
local function fields(line)
  local list, field, inside = {}, "", false
  for c in (line:gsub('""', "\1") .. ","):gmatch(".") do
    if c == '"' then inside = not inside
    elseif c == "," and not inside then
      list[#list + 1] = (field:gsub("\1", '"'))
      field = ""
    else
      field = field .. c
    end
  end
  return list
end

-- {user = {{item, score}, ...}} of a file of recommendations.
local function by_user(path)
  local found, first = {}, true
  for line in io.lines(path) do
    local f = fields(line)
    if not first then
      found[f[1]] = found[f[1]] or {}
      lu.assertEquals(tonumber(f[2]), #found[f[1]] + 1)
      table.insert(found[f[1]], {f[3], tonumber(f[4]), tonumber(f[5])})
    end
    first = false
  end
  return found
end

-- A world with names: users "u 1", .. of which one needs quotes; items "i,1" ..
local d = fopo.data.synthetic{users = 120, items = 90, clusters = 5, mean_items = 14, seed = 2}
local function user_name(u) return u == 7 and 'the "seventh", really' or "u " .. u end
local function item_name(a) return a % 10 == 0 and "i," .. a or "i" .. a end
local function quoted(s) return s:find('[,"]') and '"' .. s:gsub('"', '""') .. '"' or s end
local lines = {}
for u = 1, d.n_users do
  for _, a in ipairs(d:row(u):totable()[1]) do
    lines[#lines + 1] = quoted(user_name(u)) .. "," .. quoted(item_name(a)) .. ",5\n"
  end
end
local grouped = "who,item,rating\n" .. table.concat(lines)
write(users, grouped)
local named = fopo.data.read(users, {user = "who"})
local s = named:sessions{min_items = 4, valid = 0, test = 0}
local items = fopo.embed.svd(s.train, {dim = 5})
local pi = fopo.policy.linear{items = items, theta = "identity", contexts = "unit",
                              temperature = 0.3}
local quiet = {quiet = true, read = {user = "who"}}
local function options(more)
  local o = {}
  for _, t in ipairs{quiet, more or {}} do
    for name, value in pairs(t) do o[name] = value end
  end
  return o
end

-- What the file must hold for each user.
local function check(found, o)
  local n = 0
  for name, list in pairs(found) do
    local r = pi:recommend(name, o.n, {exclude = o.exclude, data = named})
    lu.assertEquals(#list, o.n)
    for i = 1, o.n do
      lu.assertEquals(list[i][1], r[i].name)
      lu.assertAlmostEquals(list[i][2], r[i].score, 1e-5 * math.abs(r[i].score) + 1e-6)
      if o.probability then
        lu.assertAlmostEquals(list[i][3] / r[i].probability, 1, 1e-4)
      else
        lu.assertNil(list[i][3])
      end
    end
    n = n + 1
  end
  lu.assertEquals(n, named.n_users)
end

TestFile = {}

function TestFile:test_as_recommend()
  for _, exclude in ipairs{"seen", "none"} do
    for _, probability in ipairs{true, false} do
      local o = options{n = 4, exclude = exclude, probability = probability}
      local r = pi:recommend_file(users, out, o)
      check(by_user(out), o)
      lu.assertEquals({r.users, r.rows, r.without, r.unknown}, {120, 480, 0, 0})
      lu.assertEquals(r.interactions, #lines)
    end
  end
end

function TestFile:test_batches()
  pi:recommend_file(users, out, options{n = 3})
  local whole = read(out)
  for _, n in ipairs{1, 7, 119, 120, 121} do
    pi:recommend_file(users, out, options{n = 3, batch = n})
    lu.assertEquals(read(out), whole)
  end
  local graph = fopo.index.hnsw(items, {M = 16, ef = 90, deterministic = true})
  pi:recommend_file(users, out, options{n = 3, index = graph})
  lu.assertEquals(read(out), whole)
  assert(os.execute("gzip -k " .. users))
  pi:recommend_file(users .. ".gz", out, options{n = 3})
  lu.assertEquals(read(out), whole)
  os.remove(users .. ".gz")
end

-- Rows in another order, and a format that is no table: the file is read as a whole.
function TestFile:test_as_a_whole()
  local o = options{n = 3}
  local order = {}
  for i, line in ipairs(lines) do order[(i * 7) % #lines + 1] = line end
  lu.assertEquals(#order, #lines)
  local mixed = write(folder .. "/mixed.csv", "who,item,rating\n" .. table.concat(order))
  local r = pi:recommend_file(mixed, out, o)
  check(by_user(out), o)
  lu.assertEquals(r.users, 120)
  named:save(folder .. "/users.npz")
  pi:recommend_file(folder .. "/users.npz", out, {n = 3, batch = 11})
  check(by_user(out), o)
  refused("stood further up too; sort the file by user", pi.recommend_file, pi, mixed, "-", o)
end

function TestFile:test_unknown_items()
  write(users, "user,item\na,i1\na,nothing\nb,nothing\nb,else\nc,i2\nc,i3\nc,i3\n")
  local r = pi:recommend_file(users, out, {n = 2, quiet = true})
  local found = by_user(out)
  lu.assertEquals({r.users, r.without, r.unknown, r.interactions, r.example},
                  {3, 1, 3, 7, "nothing"})
  lu.assertNil(found.b)
  local a = pi:recommend({items = {"i1"}}, 2)
  lu.assertEquals(found.a[2][1], a[2].name)
  local c = pi:recommend({items = {"i2", "i3"}}, 2)
  lu.assertEquals(found.c[1][1], c[1].name)
  lu.assertStrContains(r:describe(), "1 of them have no item")
  lu.assertStrContains(r:describe(), '3 of 7 interactions are with items that the policy does not '
                                     .. 'know, such as "nothing"')
  write(users, grouped)
end

function TestFile:test_where_and_short_lists()
  write(users, "user,item,rating\na,i1,5\na,i2,1\nb,i3,1\nc,i4,4\n")
  local r = pi:recommend_file(users, out, {n = 2, quiet = true, read = {where = "rating>=4"}})
  local found = by_user(out)
  lu.assertEquals(found.a[1][1], pi:recommend({items = {"i1"}}, 1)[1].name)
  lu.assertEquals({r.users, r.skipped}, {2, 2})
  local all = {"user,item"}
  for a = 1, named.n_items - 2 do all[#all + 1] = "z," .. quoted(named:item_name(a)) end
  write(users, table.concat(all, "\n"))
  r = pi:recommend_file(users, out, {n = 10, quiet = true}) -- two items are left
  lu.assertEquals({r.rows, #by_user(out).z}, {2, 2})
  write(users, grouped)
end

-- Options of fopo.data.read that are no strings there, for either way of reading.
function TestFile:test_read_options()
  write(users, "ann,i1,12\nann,i2,24\nbob,i3,12\n")
  local mixed = write(folder .. "/mixed.csv", "ann,i1,12\nbob,i3,12\nann,i2,24\n")
  for _, path in ipairs{users, mixed} do
    for _, time in ipairs{false, true, "", 3} do
      local r = pi:recommend_file(path, out, {n = 2, quiet = true,
        read = {user = 1, item = 2, time = time, header = false}})
      lu.assertEquals({r.users, r.rows, r.unknown, r.skipped}, {2, 4, 0, 0})
    end
  end
  write(users, grouped)
end

-- Items without names are numbers.
function TestFile:test_numbers()
  local bare = fopo.policy.linear{items = fopo.array.randn(6, 3, 1), theta = "identity"}
  write(users, "user,item\na,1\na,6\nb,7\nb,0\nc,2\n")
  local r = bare:recommend_file(users, out, {n = 2, quiet = true})
  lu.assertEquals({r.users, r.without, r.unknown}, {3, 1, 2})
  lu.assertEquals(by_user(out).a[2][1], tostring(bare:recommend({items = {1, 6}}, 2)[2].item))
  write(users, "user,item\na,1\nb,2\na,3\n")
  refused("have no names", bare.recommend_file, bare, users, out, {n = 1, quiet = true})
  write(users, grouped)
end

-- A failure leaves the old file and no other.
function TestFile:test_failures()
  write(out, "old")
  refused("n is 91, but the policy has 90 items", pi.recommend_file, pi, users, out,
          options{n = 91})
  refused("cannot open", pi.recommend_file, pi, folder .. "/nothing.csv", out)
  refused("cannot write", pi.recommend_file, pi, users, folder .. "/none/out.csv", quiet)
  write(users, "user,item\na,i1\nb,i2\nc\n")
  refused("line 4", pi.recommend_file, pi, users, out, {batch = 1, quiet = true})
  write(users, grouped)
  refused('has no option "usr"', pi.recommend_file, pi, users, out, {read = {usr = "who"}})
  lu.assertEquals(read(out), "old")
  local list = io.popen("ls -a " .. folder)
  for name in list:lines() do lu.assertNil(name:find("tmp", 1, true), name) end
  list:close()
end

-- Ctrl-C after half a second leaves the old file and no other.
function TestFile:test_interruption()
  local rows = {"user,item"}
  for u = 1, 60000 do rows[#rows + 1] = ("p%d,i%d"):format(u, u % 89 + 1) end
  write(folder .. "/many.csv", table.concat(rows, "\n"))
  write(out, "old")
  pi:save(folder .. "/pi.npz")
  local command = "timeout -s INT 0.5 %s scripts/recommend.lua %s/pi.npz %s/many.csv %s batch=1"
  local f = io.popen((command .. " 2>&1; ls %s"):format(os.getenv("FOPO"), folder, folder, out,
                                                        folder))
  local said = f:read("a")
  f:close()
  lu.assertStrContains(said, "interrupted")
  lu.assertNil(said:find("tmp.", 1, true), said)
  lu.assertEquals(read(out), "old")
end

-- The memory does not grow with the file, once it is larger than the reader's buffer: three times
-- the users take 32 bytes for each more.
function TestFile:test_memory()
  local function peak(n)
    local rows = {"user,item"}
    for u = 1, n do
      for k = 1, 5 do rows[#rows + 1] = ("p%d,i%d"):format(u, (u * 31 + k * 7) % 89 + 1) end
    end
    write(users, table.concat(rows, "\n"))
    local code = ([[pi = policy.load("%s/pi.npz") r = pi:recommend_file("%s", "%s", {quiet = true,
      n = 2, batch = 256}) print(r.users, fopo.memory().peak)]]):format(folder, users, out)
    local f = io.popen(("%s -e '%s'"):format(os.getenv("FOPO"), code))
    local said = f:read("a")
    f:close()
    local count, bytes = said:match("(%d+)%s+(%d+)")
    lu.assertEquals(tonumber(count), n, said)
    return tonumber(bytes)
  end
  pi:save(folder .. "/pi.npz")
  local few, many = peak(25000), peak(75000)
  write(users, grouped)
  lu.assertTrue(many - few < 64 * 50000, ("%d and %d bytes"):format(few, many))
end

function TestFile:test_script()
  pi:save(folder .. "/pi.npz")
  local function run(arguments)
    local f = io.popen(("%s scripts/recommend.lua %s 2>&1"):format(os.getenv("FOPO"), arguments))
    local said = f:read("a")
    return said, select(3, f:close())
  end
  local said, code = run(("%s/pi.npz %s %s n=4 user=who probability=yes index=norm batch=50")
                         :format(folder, users, out))
  lu.assertEquals(code, 0, said)
  lu.assertStrContains(said, "120 users in")
  check(by_user(out), {n = 4, probability = true})
  said = run(("%s/pi.npz %s - n=1 user=who"):format(folder, users))
  lu.assertStrContains(said, "user,rank,item,score\n")
  lu.assertStrContains(said, '\n"the ""seventh"", really",1,')
  local f = assert(io.open(users, "a"))
  f:write("nobody\n")
  f:close()
  local skip = "%s/pi.npz %s - n=1 user=who skip_errors=true max_errors=1"
  said = run(skip:format(folder, users))
  lu.assertStrContains(said, "1 row was left out")
  for _, wrong in ipairs{"a b", "a b c k=3", "a b c skip_errors=1", "a b c max_errors=x",
                        "a b c n=x", "a b c index=z", "a b c probability=true"} do
    said, code = run(wrong)
    lu.assertEquals(code, 2, said)
  end
  said, code = run(("%s %s %s"):format(users, users, out))
  lu.assertEquals(code, 1)
  lu.assertStrContains(said, "users.csv")
end

local status = lu.LuaUnit.run("-o", "text")
os.execute("rm -rf " .. folder)
os.exit(status, true)
