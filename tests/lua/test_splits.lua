-- Splits as users ask for them: options, words, errors, and the way from a split to an evaluation.
local lu = require "luaunit"
local fopo = require "fopo"
local origin = require "fopo.base.origin"

local function fails(part, f, ...) lu.assertErrorMsgContains(part, f, ...) end

local function write(text)
  local path = os.tmpname()
  local f <close> = assert(io.open(path, "w"))
  f:write(text)
  return path
end

-- 300 users with some 30 items each, over the year 2016: tastes by item modulo 5, items above 160
-- only from November on.
local function timed()
  local lines, x = {"user,item,date"}, 7
  local function below(n)
    x = (x * 1103515245 + 12345) % 2147483648
    return (x >> 8) % n
  end
  for user = 1, 300 do
    for _ = 1, 30 do
      local month = 1 + below(12)
      local item = below(month >= 11 and 40 or 32) * 5 + (below(10) == 0 and below(5) or user % 5)
      lines[#lines + 1] = ("%d,%d,2016-%02d-%02dT%02d:00:00Z"):format(user, item, month,
                                                                   1 + below(28), below(24))
    end
  end
  local path = write(table.concat(lines, "\n") .. "\n")
  local d = fopo.data.read(path)
  os.remove(path)
  return d
end

local d = timed()

TestSplits = {}

function TestSplits:test_read()
  lu.assertTrue(d.has_times)
  lu.assertEquals(d.no_times, nil)
  lu.assertStrContains(d:describe(), "times 2016-01-01 to 2016-12-28")
  local items, values, first, last = d:row(1)
  lu.assertEquals(#first, items.cols)
  lu.assertEquals(#last, items.cols)
  lu.assertTrue(values == nil or #values == items.cols)
  lu.assertEquals(math.type(first[1]), "integer")
  for k = 1, #first do lu.assertTrue(first[k] <= last[k] and first[k] >= d.first_time) end
end

function TestSplits:test_options_of_time()
  local path = write("user,item,date,rating\n1,1,2016-05-09,3\n1,2,soon,4\n")
  local given_up = fopo.data.read(path)
  lu.assertFalse(given_up.has_times)
  lu.assertStrContains(given_up.no_times, "line 3, column 3 (date): 'soon' is not a date")
  lu.assertStrContains(given_up:describe(), "times left out (line 3")
  fails("the dataset has no times: line 3, column 3", given_up.sessions, given_up,
        {split = "time", min_items = 2})
  lu.assertEquals(given_up.first_time, nil)
  local long = write("user,item,date\n1,1,2016-05-09\n1,2," .. ("x"):rep(41) .. "\n")
  lu.assertStrContains(fopo.data.read(long).no_times, "'" .. ("x"):rep(40) .. "'")
  os.remove(long)
  fails("line 3, column 3 (date): 'soon' is not a date", fopo.data.read, path, {time = "date"})
  fails("; skip_errors = true leaves such a row out", fopo.data.read, path, {time = "date"})
  lu.assertEquals(fopo.data.read(path, {time = "date", skip_errors = true}).skipped, 1)
  fails("line 3, column 3 (date): 'soon' is not a date", fopo.data.read, path, {time = 3})
  lu.assertEquals(fopo.data.read(path, {time = false}).no_times, nil)
  local own = write("user,item,price,bought_at\n1,1,3,2016-05-09\n1,2,4,2016-05-10\n")
  local unread = 'column bought_at seems to hold them; time = "bought_at" reads it'
  lu.assertStrContains(fopo.data.read(own):describe(), "times left out (" .. unread .. ")")
  fails("the dataset has no times: " .. unread, function()
    fopo.data.read(own):sessions{split = "time", min_items = 2}
  end)
  lu.assertTrue(fopo.data.read(own, {time = "bought_at"}).has_times)
  lu.assertEquals(fopo.data.read(own, {time = false}).no_times, nil)
  lu.assertEquals(fopo.data.read({own, own}).no_times, unread)
  os.remove(own)
  lu.assertEquals(select("#", given_up:row(1)), 2)
  lu.assertEquals(fopo.data.read(path, {time = "rating", value = ""}).last_time, 4)
  lu.assertEquals({select(2, fopo.data.read(path, {time = 4, value = ""}):row(1))},
                  {nil, {3, 4}})
  os.remove(path)
end

-- The paper's split is the default, whatever the data has.
function TestSplits:test_default()
  local s = d:sessions{min_items = 10}
  local same = d:sessions{min_items = 10, split = "users", order = "random", observed = 0.5}
  lu.assertEquals({s.kind, s.order}, {"users", "random"})
  for i = 1, s.train.n, 10 do lu.assertEquals(s.train:x(i):totable(), same.train:x(i):totable()) end
  lu.assertEquals(tostring(s), s:describe())
  lu.assertStrContains(tostring(s), "240 train, 30 valid, 30 test contexts; 0 users had too few")
  lu.assertStrContains(tostring(s), "users at random; X is a random half of a session")
  lu.assertStrContains(tostring(d:sessions{order = "time", observed = 0.75}),
                       "X is the earlier 0.75 of a session")
end

function TestSplits:test_by_time()
  local s = d:sessions{split = "time", valid_from = "2016-10-01", test_from = "2016-11-01"}
  local october, november = 1475280000, 1477958400
  lu.assertEquals({s.valid_from, s.test_from, s.kind, s.order}, {october, november, "time", "time"})
  lu.assertStrContains(tostring(s), "by time, valid from 2016-10-01, test from 2016-11-01 on")
  lu.assertStrContains(tostring(d:sessions{split = "time", valid = 0, test_from = 1477958400}),
                       "no valid")
end

-- Items that are new after the cut have no embedding: training knows nothing of them.
function TestSplits:test_nothing_of_the_future()
  local s = d:sessions{split = "time", valid = 0, test_from = "2016-11-01"}
  local items = fopo.embed.svd(s.train, {dim = 6})
  local zero, new = 0, 0
  local seen = {}
  for i = 1, s.train.n do
    for _, half in ipairs{s.train:x(i), s.train:y(i)} do
      for k = 1, half.cols do seen[half:get(1, k)] = true end
    end
  end
  for a = 1, d.n_items do
    local empty = items:rows_of{a}:norm() == 0
    lu.assertEquals(empty, not seen[a])
    zero = zero + (empty and 1 or 0)
  end
  for i = 1, s.test.n do
    local y = s.test:y(i)
    for k = 1, y.cols do new = new + (seen[y:get(1, k)] and 0 or 1) end
  end
  lu.assertTrue(zero > 20 and new > 100) -- they stay in Y
end

function TestSplits:test_last()
  local s = d:sessions{split = "last", min_items = 10}
  lu.assertEquals({s.train.n, s.valid.n, s.test.n, s.kept, s.order}, {300, 300, 300, 300, "time"})
  lu.assertStrContains(tostring(s), "the last item of each user is test, the one before it valid, "
                       .. "by time")
  local synthetic = fopo.data.synthetic{users = 300, items = 400, clusters = 8}
  lu.assertStrContains(tostring(synthetic:sessions{split = "last", min_items = 10}),
                       "at random, not by time")
  lu.assertEquals(d:sessions{split = "last", valid = 0}.valid, nil)
end

function TestSplits:test_seen()
  local function both(s)
    local n = 0
    for i = 1, s.test.n do
      local x = s.test:x(i)
      for k = 1, x.cols do n = n + (s.test:hits(i, x:get(1, k)) and 1 or 0) end
    end
    return n
  end
  local drop = d:sessions{split = "time", seen = "drop"}
  local keep = d:sessions{split = "time", seen = "keep"}
  lu.assertEquals(both(drop), 0)
  lu.assertTrue(both(keep) > 50)
  lu.assertStrContains(tostring(keep), "items of X taken again are in Y too")
  -- The reward is 1 for what is in Y, seen or not.
  local rw, rows, hit, miss = fopo.reward.hits(keep.test), {}, nil, nil
  for i = 1, keep.test.n do
    local x = keep.test:x(i)
    for k = 1, x.cols do
      if keep.test:hits(i, x:get(1, k)) then hit = hit or {i, x:get(1, k)}
      else miss = miss or {i, x:get(1, k)} end
    end
  end
  for k, one in ipairs{hit, miss} do
    rows[k] = rw:value(fopo.array.ids{one[2]}, fopo.array.ids{one[1]}):get(1, 1)
  end
  lu.assertEquals(rows, {1, 0})
end

function TestSplits:test_refusals()
  fails('say split = "time"', d.sessions, d, {test_from = "2016-10-01"})
  fails('say order = "time"', d.sessions, d, {seen = "keep"})
  fails('say order = "time"', d.sessions, d, {split = "last", order = "random", seen = "keep"})
  fails('test_from = "2016" is not a date', d.sessions, d, {split = "time", test_from = "2016"})
  fails("test would be empty", d.sessions, d, {split = "time", test_from = "2017-10-01"})
  fails("train would be empty", d.sessions, d, {split = "time", test_from = "2015-10-01"})
  fails("observed must be less than 1", d.sessions, d, {observed = 1})
  fails('did you mean "time"', d.sessions, d, {split = "times"})
  local synthetic = fopo.data.synthetic{users = 300, items = 400, clusters = 8}
  fails("the dataset has no times; read it with", synthetic.sessions, synthetic, {split = "time"})
  fails("the dataset has no times", synthetic.sessions, synthetic, {order = "time"})
  fails("no dates; give a number", synthetic.sessions, synthetic,
        {split = "time", test_from = "2016-10-01"})
  fails("needs test, valid or both", fopo.data.sessions, {train = d})
  fails("needs the option train", fopo.data.sessions, {test = d})
end

-- Milliseconds are cut by dates too.
function TestSplits:test_milliseconds()
  local path = write("user,item,time\n1,1,1462752000000\n1,2,1462838400000\n1,3,1462924800000\n"
                     .. "1,4,1462924800001\n")
  local t = fopo.data.read(path)
  local s = t:sessions{split = "time", valid = 0, min_items = 2, test_from = "2016-05-11"}
  lu.assertEquals(s.test_from, 1462924800000)
  lu.assertEquals(s.test:y(1):totable(), {{3, 4}})
  os.remove(path)
end

function TestSplits:test_files()
  local train = write("user,item\nann,apple\nann,pear\nbob,apple\nbob,plum\nbob,fig\n")
  local test = write("user,item\nbob,pear\nbob,date\nbob,fig\neve,pear\n")
  local s = fopo.data.sessions{train = train, test = test}
  local names = {}
  for _, a in ipairs(s.test:y(1):totable()[1]) do names[#names + 1] = s.dataset:item_name(a) end
  table.sort(names)
  lu.assertEquals(names, {"date", "pear"})
  lu.assertEquals(s.dataset:user_name(s.test:user(1)), "bob")
  lu.assertEquals({s.train.n, s.valid, s.test.n, s.kept, s.dropped, s.kind},
                  {2, nil, 1, 2, 1, "files"})
  lu.assertEquals({s.new_users.test, s.new_items.test}, {1, 1})
  lu.assertStrContains(tostring(s), "1 users and 1 items of test are not in train")
  lu.assertEquals(s.train.n_items, 5)
  lu.assertIs(origin.dataset(s.test), s.dataset)
  s = fopo.data.sessions{train = fopo.data.read(train), test = test, seen = "keep"}
  lu.assertEquals(s.test:y(1).cols, 3)
  os.remove(train)
  os.remove(test)
end

-- From each split to an evaluation: embed, train with validation, evaluate, check.
function TestSplits:test_all_the_way()
  local train, test = os.tmpname(), os.tmpname()
  d:save(train)
  d:save(test)
  local splits = {
    d:sessions{split = "time"}, d:sessions{split = "time", seen = "keep"},
    d:sessions{split = "last"}, d:sessions{order = "time"},
    fopo.data.sessions{train = train, valid = d, test = test, seen = "keep"},
    fopo.data.synthetic{users = 300, items = 200, clusters = 8}:sessions{split = "last"}}
  for k, s in ipairs(splits) do
    local items = fopo.embed.svd(s.train, {dim = 8})
    local pi = fopo.policy.linear{items = items}
    local t = fopo.trainer{policy = pi, data = s.train, valid = s.valid, batch = 16, seed = 1,
                           gradient = fopo.gradient.exact{}, optim = fopo.optim.adam{lr = 1e-3}}
    t:run{steps = 20, every = 10}
    local e = fopo.evaluate(t.policy, s.test)
    lu.assertEquals(e.contexts, s.test.n)
    lu.assertTrue(e.reward >= 0 and e.reward <= 1)
    lu.assertEquals(s.valid:contexts(items).rows, s.valid.n)
    lu.assertIs(origin.dataset(items), s.dataset)
    if k == 2 or k == 6 then
      local r = fopo.check{policy = pi, data = s.train, contexts = 2, repetitions = 40,
                           print = false}
      lu.assertTrue(r.ok, r.first)
    end
  end
  os.remove(train)
  os.remove(test)
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
