-- policy:recommend_file: a file of users to a file of their recommendations, some users at a time,
-- so that memory does not grow with the file.
local native = require "fopo.native"
local define = require "fopo.base.define"
local cache = require "fopo.base.cache"
local csv = require "fopo.base.csv"
local data = require "fopo.data"
local reading = require "fopo.base.reading"
local sealed = require "fopo.base.sealed"
local term = require "fopo.term"
local text = require "fopo.base.text"
local who = require "fopo.serve.who"

local NAME = "policy:recommend_file"
local EVERY = 5 -- seconds between two lines of progress

-- ---- the users, as a function that returns the next sessions and the names of their users ----

-- Reads the file once, from its beginning to its end; nil if its format is no table. The rows of a
-- user must stand together: next_users returns nil and a sentence where they do not.
local function in_order(path, pi, catalogue, o)
  local checked = define.options(define.entries["fopo.data.read"], o.read)
  if checked.shard then
    define.fail("%s: every rank reads the file of users; leave shard out of read", NAME)
  end
  local stream = native.stream_open(path, reading.options(checked), pi.n_items, catalogue)
  if not stream then return nil end
  return function() return native.stream_next(stream, o.batch) end,
         function() return native.stream_about(stream) end
end

-- Reads the whole file into memory first.
local function as_a_whole(path, pi, catalogue, o)
  if not catalogue then
    define.fail("%s: %s cannot be read user by user, and the items of this policy have no names to "
                .. "match the file's with; save the policy with data = the dataset", NAME, path)
  end
  local d = data.read(path, o.read)
  local at, about = 0, {users = 0, rows = 0, unknown = 0, skipped = d.skipped, taken = 0,
                        size = d.n_users, example = ""}
  local function next_users()
    local rows, names = {}, {}
    while at < d.n_users and #rows < o.batch do
      at = at + 1
      if d:row(at).cols > 0 then rows[#rows + 1], names[#rows + 1] = at, d:user_name(at) end
    end
    if #rows == 0 then return nil end
    local sessions, unknown = native.histories(d, rows, pi.n_items, catalogue)
    about.users, about.taken = about.users + #rows, at
    about.rows, about.unknown = d.nnz, about.unknown + unknown
    return sessions, names
  end
  return next_users, function() return about end
end

-- ---- the output ----

-- What is written to a file, which takes the old one's place at close(true); "-" is stdout. share:
-- of all the lines, with these.
local function output(path)
  if path == "-" then
    return {
      write = function(s) io.stdout:write(s) end,
      close = function(is_whole)
        io.stdout:flush()
        if is_whole then native.share("") end
      end,
    }
  end
  local function check(ok, why)
    if not ok then define.fail("%s: %s", NAME, why) end
    return ok
  end
  local file = check(native.replacement(path))
  return {
    write = function(s, share) check(file:write(s, share)) end,
    close = function(is_whole)
      if not is_whole then return file:cancel() end
      local done, why = file:finish()
      native.share(done and "" or why)
      check(done, why)
    end,
  }
end

-- The same on a rank that is not the first: it waits until the file is there.
local function output_elsewhere()
  return {
    write = function() end,
    close = function(is_whole)
      local why = is_whole and native.share() or ""
      if why ~= "" then define.fail("%s: %s", NAME, why) end
    end,
  }
end

-- The lines of one batch: ids and scores [N, n], log_z a list or nil.
local function lines_of(names, ids, scores, log_z, name_of)
  local lines = {}
  for i, row in ipairs(ids) do
    local user = csv.quoted(names[i])
    for j, id in ipairs(row) do
      if id == 0 then break end
      local score = scores[i][j]
      lines[#lines + 1] = log_z
        and ("%s,%d,%s,%.6g,%.6g\n"):format(user, j, name_of[id], score, math.exp(score - log_z[i]))
        or ("%s,%d,%s,%.6g\n"):format(user, j, name_of[id], score)
    end
  end
  return table.concat(lines)
end

-- ---- progress ----

-- A function that says, every few seconds, how far it is and how long it will take.
local function progress(path, quiet)
  local began, last = native.clock(), native.clock()
  return function(about)
    local now = native.clock()
    if quiet or now - last < EVERY or about.taken == 0 then return end
    last = now
    local share, seconds = about.taken / math.max(1, about.size), now - began
    io.stderr:write(("%s users, %.0f %% of %s, %s users/s, %s left\n"):format(
      text.count(about.users), 100 * share, path, text.count(about.users / seconds),
      text.seconds(seconds * (1 / share - 1))))
  end
end

local report = {__name = "fopo.recommended"}

function report.describe(r)
  local parts = {("%s users in %s, %s a second: %s recommendations"):format(
    text.count(r.users), text.seconds(r.seconds), text.count(r.users / math.max(r.seconds, 1e-9)),
    text.count(r.rows))}
  if r.without > 0 then
    parts[#parts + 1] = ("%s of them have no item that the policy knows, and get none"):format(
      text.count(r.without))
  end
  if r.unknown > 0 then
    parts[#parts + 1] = ("%s of %s interactions are with items that the policy does not know%s")
      :format(text.count(r.unknown), text.count(r.interactions),
              r.example ~= "" and (", such as %q"):format(r.example) or "")
  end
  if r.skipped > 0 then
    local is = r.skipped == 1 and " row was" or " rows were"
    parts[#parts + 1] = text.count(r.skipped) .. is .. " left out"
  end
  return table.concat(parts, "\n")
end
report.__tostring = report.describe
sealed.kind(report, {
  what = "report of pi:recommend_file", letter = "r",
  remedy = "it says what was written; pi:recommend_file(users, out, {...}) writes anew",
  known = {"example"},
})

-- ---- the call ----

-- The lines for the users of one batch, how many they are, and how many users have none.
local function batch(pi, sessions, names, o, fixed)
  local x, rows, without = sessions:contexts(pi), 0, 0
  local ids, scores, log_z = native.recommend(pi, x, fixed.index, o.n, {
    seen = (o.exclude == "seen" or pi.seen == "mask") and sessions or nil,
    normalised = o.probability, may_be_short = true})
  ids, scores = ids:totable(), scores:totable()
  for i, row in ipairs(ids) do
    if sessions:x(i).cols == 0 then ids[i], without = {}, without + 1
    else
      for _, id in ipairs(row) do rows = rows + (id > 0 and 1 or 0) end
    end
  end
  return lines_of(names, ids, scores, log_z, fixed.name_of), rows, without
end

-- Calls f, which returns nil or a sentence, and then close(whether f is done): also after an error
-- or an interruption.
local guarded = term.atomic(function(f, close)
  local ok, why = pcall(term.divisible(f))
  close(ok and not why)
  if not ok then error(why, 0) end
  return why
end)

-- Recommends to all users; nil and a sentence if they cannot be read one after the other.
local function recommend_to(next_users, about, pi, users, out, o, catalogue)
  local fixed = {
    index = o.index or cache.exact_of(pi),
    name_of = setmetatable({}, {__index = function(t, id)
      t[id] = catalogue and csv.quoted(catalogue:item_name(id)) or tostring(id)
      return t[id]
    end}),
  }
  local first = native.ranks() == 0
  local began, say, file = native.clock(), progress(users, o.quiet or not first),
    first and output(out) or output_elsewhere()
  local r = {rows = 0, without = 0}
  local why = guarded(function()
    file.write(o.probability and "user,rank,item,score,probability\n" or "user,rank,item,score\n")
    local sessions, names = next_users()
    while sessions do
      local lines, rows, without = batch(pi, sessions, names, o, fixed)
      local a = about()
      file.write(lines, a.taken / math.max(1, a.size))
      r.rows, r.without = r.rows + rows, r.without + without
      say(a)
      sessions, names = next_users()
    end
    return names -- a sentence, or nil at the end
  end, file.close)
  if why then return nil, why end
  local a = about()
  r.users, r.interactions, r.unknown, r.example = a.users, a.rows, a.unknown, a.example
  r.skipped, r.seconds = a.skipped, native.clock() - began
  return sealed.new(report, r)
end

return define.fn{
  name = NAME, returns = "table",
  args = {
    {"pi", "policy", nil, "the policy"},
    {"users", "string", nil, "a file of interactions, as fopo.data.read takes them"},
    {"out", "string", nil, "the CSV to write; \"-\": standard output"},
  },
  options = {
    {"n", "integer", 10, "how many items for each user", min = 1},
    {"exclude", "string", "seen", "what is not recommended", one_of = {"seen", "none"}},
    {"index", "index", nil, "the index to search; exact search if left out"},
    {"probability", "boolean", false, "a column of exact probabilities; each user costs a product "
     .. "with all items"},
    {"read", "table", {}, "options of fopo.data.read: {user = \"who\", where = \"rating>=4\"}"},
    {"batch", "integer", 4096, "users at a time", min = 1},
    {"quiet", "boolean", false, "say nothing on the way"},
  },
  text = [[Recommends to all users of a file: lines of user,rank,item,score, the item by its name.
Items are matched with the policy's names; those that it does not know are counted and left out of
the context, and a user without any known item gets no line. Of a policy whose items have no names,
the file's items are their numbers from 1 on.
A table of one interaction a line whose rows stand together for each user (as a file sorted by user
has them) is read some users at a time, and memory does not grow with the file. Any other file is
read as a whole first. The output has another name until it is whole. Returns r.users, r.rows,
r.without (users without a known item), r.interactions, r.unknown, r.skipped and r.seconds.]],
  example = [[d = fopo.data.synthetic{users = 300, items = 400, clusters = 8}
items = fopo.embed.svd(d:sessions{min_items = 10}.train, {dim = 8})
pi = fopo.policy.linear{items = items, theta = "identity"}
users, out = os.tmpname(), os.tmpname()
f = io.open(users, "w")
f:write("user,item\nann,3\nann,14\nbob,7\n")
f:close()
r = pi:recommend_file(users, out, {n = 2})
assert(r.users == 2 and r.rows == 4)
os.remove(users) os.remove(out)]],
  call = function(pi, users, out, o)
    if o.n > pi.n_items then
      define.fail("%s: n is %d, but the policy has %s items", NAME, o.n, text.count(pi.n_items))
    end
    local catalogue, r, why = who.catalogue(pi), nil, nil
    catalogue = catalogue and native.whole_names(catalogue, "item")
    local next_users, about = in_order(users, pi, catalogue, o)
    if next_users then
      r, why = recommend_to(next_users, about, pi, users, out, o, catalogue)
    end
    if r then return r end
    if why and out == "-" then define.fail("%s: %s", NAME, why) end
    if why and not o.quiet and native.ranks() == 0 then
      io.stderr:write(why, "; now it is read as a whole\n")
    end
    next_users, about = as_a_whole(users, pi, catalogue, o)
    return recommend_to(next_users, about, pi, users, out, o, catalogue)
  end,
}
