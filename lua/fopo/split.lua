-- Splits of datasets into sessions for training, validation and test: d:sessions{} and
-- fopo.data.sessions{}.
local native = require "fopo.native"
local define = require "fopo.base.define"
local origin = require "fopo.base.origin"
local moment = require "fopo.base.moment"
local sealed = require "fopo.base.sealed"
local text = require "fopo.base.text"
local dataset = native.types.dataset
local split = {}

-- ---- what a split says of itself

local function part_line(s)
  local function n(part) return part and text.count(part.n) or "no" end
  return ("split: %s train, %s valid, %s test contexts; %s users %s"):format(n(s.train), n(s.valid),
    n(s.test), text.count(s.dropped), s.kind == "users" and "had too few items" or "in no part")
end

-- "; 12 users of the others have no session in test".
local function missing(s)
  local parts = {}
  for _, name in ipairs{"train", "valid", "test"} do
    if s[name] and s.without[name] > 0 then
      parts[#parts + 1] = ("%s in %s"):format(text.count(s.without[name]), name)
    end
  end
  return #parts > 0 and "; of the others, without a session: " .. table.concat(parts, ", ") or ""
end

local function describe(s) return part_line(s) .. missing(s) .. "; " .. s.split end

local meta = sealed.kind({__name = "fopo.split", __tostring = describe, describe = describe}, {
  what = "split", letter = "s",
  remedy = "a split says how its parts were made; d:sessions{...} makes another one",
  known = {"train", "valid", "test", "valid_from", "test_from", "new_users", "new_items", "split"},
})

local function halves(o)
  local share = o.observed == 0.5 and "half" or ("%.3g"):format(o.observed)
  return o.order == "time" and ("X is the earlier %s of a session"):format(share)
         or ("X is a random %s of a session"):format(share)
end

local function seen_words(o)
  return o.seen == "keep" and "; items of X taken again are in Y too" or ""
end

-- How the parts were made, in words.
local words = {
  users = function(o) return "users at random; " .. halves(o) .. seen_words(o) end,
  time = function(o, s, d)
    local cuts = {}
    if s.valid then cuts[1] = "valid from " .. moment.words(s.valid_from, d) end
    if s.test then cuts[#cuts + 1] = "test from " .. moment.words(s.test_from, d) end
    return ("by time, %s on; in train, %s%s"):format(
      #cuts > 0 and table.concat(cuts, ", ") or "from the beginning", halves(o), seen_words(o))
  end,
  last = function(o, s)
    local last = "the last item of each user is "
    local what = s.test and last .. "test" .. (s.valid and ", the one before it valid" or "")
                 or s.valid and last .. "valid" or "no item is left out"
    return ("%s, %s; in train, %s%s"):format(what,
      o.order == "time" and "by time" or "at random, not by time", halves(o), seen_words(o))
  end,
  files = function(o, s)
    local new = {}
    for _, name in ipairs{"valid", "test"} do
      local users, items = s.new_users[name], s.new_items[name]
      if users + items > 0 then
        new[#new + 1] = ("%s users and %s items of %s are not in train"):format(
          text.count(users), text.count(items), name)
      end
    end
    return ("given files; in train, %s%s%s"):format(halves(o), seen_words(o),
      #new > 0 and "; " .. table.concat(new, "; ") or "")
  end,
}

-- What users get, parts, counts, and how it was made; and the table behind it.
local function result(kind, d, o, train, valid, test, kept, dropped, about)
  local s = {train = train, valid = valid, test = test, kept = kept, dropped = dropped, kind = kind,
             dataset = d, without = {}, order = o.order}
  for i, name in ipairs{"train", "valid", "test"} do s.without[name] = about.without[i] end
  if kind == "time" then
    s.valid_from, s.test_from = valid and about.from[1], test and about.from[2]
  end
  local made = sealed.new(meta, s)
  for _, part in pairs{train, valid or nil, test or nil} do
    origin.set(part, {dataset = d, split = made})
  end
  return made, s
end

-- ---- options

local observed = {"observed", "number", 0.5, "share of a session's items in X, rounded down, at "
                  .. "least one", above = 0, below = 1}
local seen = {"seen", "string", "drop", "an item of X that is taken again in the window of Y: "
              .. "drop: it is not in Y, keep: it is, and finding it counts",
              one_of = {"drop", "keep"}}
local max_users = {"max_users", "integer", nil, "keep only the first max_users of them", min = 1}
local seed = {"seed", "integer", 1, "of the shuffles"}

-- order and seen as C takes them.
local function plan(o)
  o.by_time, o.keep_seen = o.order == "time", o.seen == "keep"
  return o
end

-- What has no meaning together is refused.
local function check_options(name, o)
  if o.split ~= "time" and (o.valid_from or o.test_from) then
    define.fail("%s: valid_from and test_from cut by time; say split = \"time\"", name)
  end
  if o.seen == "keep" and o.order == "random" and o.split ~= "time" then
    define.fail("%s: seen = \"keep\" needs to know what came later; say order = \"time\"", name)
  end
end

dataset.sessions = define.fn{
  name = "dataset:sessions", returns = "table",
  args = {{"d", "dataset", nil, "the dataset"}},
  options = {
    {"split", "string", "users", "what is held out: users: some users; time: what happened after a "
     .. "time; last: the last item of each user", one_of = {"users", "time", "last"}},
    {"order", "string", nil, "time: X is what a user took first, Y what came later; random: X and "
     .. "Y at random. random with users; time with time, and with last if there are times",
     one_of = {"random", "time"}},
    observed,
    {"min_items", "integer", 20, "keep users with at least so many different items", min = 2},
    max_users,
    {"valid", "number", 0.1, "validation's share of the users, with time of the pairs; with last, "
     .. "0 leaves it out", min = 0, below = 1},
    {"test", "number", 0.1, "the test's share", min = 0, below = 1},
    {"valid_from", "number|string", nil, "with time: where valid begins, a time or a date such as "
     .. "2016-05-09; by its share if left out"},
    {"test_from", "number|string", nil, "with time: where test begins"},
    seen, seed,
  },
  text = [[Makes sessions, X (observed) and Y (to be found), for training, validation and test:
s.train, s.valid and s.test (nil for a share of 0). Repeats count once. print(s) says what was done.

- users: users at random, each in one part; each user's items at random in X, floor(n/2) of them,
  and Y. This is the split of the paper's authors. It asks: how good is the policy for users it has
  never seen?
- time: all that happened before one time is for training, between two times for validation, after
  that for the test. X of test is what a user took before that time, Y what the user took
  afterwards. It asks: how good would the policy have been, trained on that day? Items that are new
  after the cut have no embedding and cannot be found; they stay in Y, as they would in service.
- last: the last item of each user is Y of test, with all earlier ones as X; the one before it is Y
  of valid; the rest is for training. It asks: what comes next, for users that are known? Training
  sees what other users did later. Without times the last items are chosen at random.

In time and last a user may be in all three parts, and s.train holds nothing of what is to be found
in the others, so embeddings of s.train know nothing of it either. There, the sessions of train are
the items of the training window, divided in X and Y by order. A pair that repeats counts at its
first time. With seen = "keep" it counts at its last time, too: then Y may hold items of X, and a
reward for recommending what was seen is real.

Equal times are ordered at random. Sessions of train that are in order keep it, 4 bytes an item, for
training on prefixes (resplit of fopo.trainer). s.kept and s.dropped count the users in some part
and in none, but for those that max_users leaves out, s.without[part] those of s.kept without a
session there (with one item, or nothing after the cut). s.kind, s.split, s.valid_from and
s.test_from say how the split was made.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
assert(s.train.n > s.test.n and s.kind == "users")]],
  call = function(d, o)
    local name = "dataset:sessions"
    local by_time = o.split == "time" or o.split == "last" and d.has_times
    o.order = o.order or (by_time and "time" or "random")
    check_options(name, o)
    for _, cut in ipairs{"valid_from", "test_from"} do
      if o[cut] then o[cut] = moment.of(name .. ": " .. cut, o[cut], d) end
    end
    o.kind = o.split
    local function finish(...)
      local made, s = result(o.split, d, o, ...)
      s.split = words[o.split](o, s, d)
      return made
    end
    return finish(native.data_split(d, plan(o)))
  end,
}

local function as_dataset(d)
  if type(d) ~= "string" then return d end
  return require("fopo.data").read(d)
end

split.files = define.fn{
  name = "fopo.data.sessions", returns = "table",
  options = {
    {"train", "dataset|string", nil, "the interactions to learn from: a dataset, or a file to read",
     required = true},
    {"test", "dataset|string", nil, "those to find in the test"},
    {"valid", "dataset|string", nil, "those to find in validation"},
    {"order", "string", "random", "how the sessions of train are divided in X and Y",
     one_of = {"random", "time"}},
    observed,
    {"min_items", "integer", 2, "keep users with at least so many different items in all files",
     min = 2},
    max_users, seen, seed,
  },
  text = [[Makes sessions of files that are split already, such as train.txt and test.txt of
LightGCN. X of test is what a user has in train (and valid), Y what the user has in test; X of valid
is train, Y valid. The sessions of train are the user's items there, divided in X and Y.
Users and items of the same name are the same; those of lists, which have no names, of the same
index. Items that only test has are in the catalogue, behind those of train: they have no embedding
and cannot be found. s.new_items and s.new_users count them for each file, and print(s) says it.
A pair that is in train and in test is in X alone, unless seen = "keep". s.dataset has all
interactions, with the names.]],
  example = [[train, test = os.tmpname(), os.tmpname()
f = io.open(train, "w"):write("user,item\n7,apple\n7,pear\n9,apple\n9,fig\n"); f:close()
f = io.open(test, "w"):write("user,item\n9,pear\n"); f:close()
s = fopo.data.sessions{train = train, test = test}
assert(s.train.n == 2 and s.test.n == 1 and s.dataset:item_name(s.test:y(1):get(1, 1)) == "pear")
os.remove(train); os.remove(test)]],
  call = function(o)
    if not (o.test or o.valid) then
      define.fail("fopo.data.sessions needs test, valid or both; d:sessions{} splits one dataset")
    end
    local d = {as_dataset(o.train), o.valid and as_dataset(o.valid), o.test and as_dataset(o.test)}
    o.valid, o.test = o.valid and 0.5 or 0, o.test and 0.5 or 0 -- wanted or not
    local function finish(train, valid, test, kept, dropped, about, joined, new)
      local made, s = result("files", joined, o, train, valid, test, kept, dropped, about)
      s.new_users = {valid = new.users[2], test = new.users[3]}
      s.new_items = {valid = new.items[2], test = new.items[3]}
      s.split = words.files(o, s)
      return made
    end
    return finish(native.data_split_files(d[1], d[2] or nil, d[3] or nil, plan(o)))
  end,
}

return split
