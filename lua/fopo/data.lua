-- fopo.data: interactions, sessions, and the synthetic world they can come from.
local native = require "fopo.native"
local worlds = require "fopo.worlds"
local define = require "fopo.base.define"
local cache = require "fopo.base.cache"
local origin = require "fopo.base.origin"
local moment = require "fopo.base.moment"
local reading = require "fopo.base.reading"
local rows = require "fopo.base.rows"
local saves = require "fopo.base.saves"
local text = require "fopo.base.text"
local fn, doc = define.fn, define.doc
local data = {}
local dataset, sessions, world = native.types.dataset, native.types.sessions, native.types.world

local formats, format_lines = reading.formats(native.data_formats())

data.read = fn{
  name = "fopo.data.read", returns = "dataset",
  args = {{"files", "string|table", nil, "the file, a folder, a pattern, or a list of them; .gz "
           .. "and .zst are read as they are; \"-\" is standard input, {command = \"...\"} the "
           .. "output of a command"}},
  options = {
    {"format", "string", "auto", "what the file is", one_of = formats},
    {"user", "string|integer", nil, "column of the user: its name, or its number from 1"},
    {"item", "string|integer", nil, "column of the item"},
    {"value", "string|integer", nil, "column of the value; \"\": every interaction counts 1"},
    {"time", "string|integer|boolean", nil, "column of the time; \"\" or false: times are left "
     .. "out. If it is named, a malformed time is a malformed row"},
    {"where", "string", nil, "keep only rows that meet a condition: \"is_read=1\", \"rating>=4\""},
    {"separator", "string", nil, "between columns: \",\" \"\\t\" \"::\" ..."},
    {"header", "boolean", nil, "whether the first line names the columns; recognised if left out"},
    {"skip_errors", "boolean", false, "count malformed rows instead of stopping at the first"},
    {"max_errors", "integer", 1000, "stop all the same after so many of them", min = 0},
    {"shard", "boolean", false, "of a run of several ranks: each reads its part of the files and "
     .. "keeps the interactions of its range of the users"},
    {"parts", "integer", nil, "to read more than memory would hold: the interactions wait on disk, "
     .. "and are sorted in so many parts, one after the other", min = 1, max = 1024},
  },
  text = [[
Reads interactions: which user took which item. The format is recognised by the first lines of the
file, gzipped or not, or named by an option:

]] .. format_lines .. [[


Columns are found by their names, and so are the keys of JSON lines, where true counts as 1 and
false as 0; a used key that holds an object or a list is an error. Pairs that repeat are summed. Ids
of pairs become 1 .. n of those that occur, and the names are kept (d:item_name(j)); ids of lists,
baskets and matrices are indices as they stand.
A malformed row is an error with file, line, column and the text; with skip_errors fopo.explain(d)
shows the first three. d.skipped is how many rows were left out, d.malformed how many of these for
that, the others by a condition; d.repeats how many pairs came again.

Times are numbers as they stand, or dates (2019-11-24 00:03:13+00:00,
2014-04-07T10:51:09.277Z, 2016-05-09) in seconds since 1970 UTC. They are kept if a column is known
to hold them: by its name in the header (timestamp, time, date, ...), without a header by what it
holds, and column 4 of twitch. A pair that repeats keeps its earliest and its latest time; d:row(i)
gives both. If a recognised column turns out to hold something else, d.no_times says where, and the
dataset has no times. d.first_time and d.last_time are those of all pairs.

A folder stands for the files in it and in its folders, but for names that begin with . or _; a
pattern such as "logs/2026-*/*.csv.gz" for the files that match it; both in the order of the names.
What comes through a pipe, "-", a named pipe or {command = "zcat a.gz | grep view"}, is read once,
as it comes; a command that ends with another code than 0 is an error. --safe starts no command.

Parquet and Arrow (Feather) files are read by pyarrow (pip install pyarrow), which must be there for
the Python that $PYTHON names, python3 if it names none. It sends those of their columns that are
named or known, and what is said of CSV holds for them; row i is line i + 1. Times become seconds
since 1970 UTC, true and false 1 and 0. Several such files, or a folder of them, are one table.

A list of files is read as if they stood one after the other, each with a header of its own or none,
gzipped or not, in one format or several: users and items of the same name are the same, and so are
those of lists and matrices with the same index. Names of a side are integers if all files have only
integers there. Times are kept if every file has them. Where line i is user i (baskets, counted),
several files cannot be one.

shard = true is for several ranks (fopo.ranks), which make this call together: no rank holds all
interactions. The bytes of all files are shared out evenly; tables (pairs, JSON lines and what else
has columns) are cut anywhere between two rows, and what is gzipped, lists and matrices go whole to
one rank each. Each interaction is then sent to the rank that has its user. The dataset is as
fopo.data.read(files):share() makes it, bit by bit, for any number of ranks: names, counts and d:row
are those of all, each rank has the users of one range (d.here of them). docs/ranks.md says what it
takes. Alone, it is read as without shard.

parts = n reads the same dataset, bit by bit, with less memory: the interactions are kept in files
without names in $TMPDIR (/var/tmp if that is not set; with --safe the current folder): 8 bytes
each, 4 more with values and 8 with times, and the arrays of the dataset, 8 bytes, 24 with times.
When all are read, the users are taken in n parts of about as many interactions, and memory holds
one part twice. Of the arrays it holds what the system has room for. Lists, matrices and .npz
files are held whole until they are there; tables are not.]],
  example = [[path = os.tmpname()
f = io.open(path, "w")
f:write("user,item,time\n7,apple,2016-05-09\n7,pear,2016-05-10\n9,apple,2016-05-08\n"); f:close()
d = fopo.data.read(path)
assert(d.n_users == 2 and d.n_items == 2 and d.nnz == 3)
items, values, times = d:row(1)
assert(times[2] - times[1] == 86400)
d = fopo.data.read({path, path}) -- as a list: here every pair twice
assert(d.nnz == 3 and d.repeats == 3)
assert(fopo.data.read(path, {parts = 2}).nnz == 3)
d = fopo.data.read(path, {shard = true})
assert(d.n_users == 2 and d.shared == (fopo.ranks().size > 1))
os.remove(path)]],
  call = function(files, o)
    if o.parts and o.shard then
      define.fail("fopo.data.read: parts is for one process and shard for several ranks; give one")
    end
    local d = native.data_read(reading.files("fopo.data.read", files), reading.options(o))
    origin.set(d, {files = files})
    return d
  end,
}

local logs = require "fopo.logs"
data.logs, data.synthetic_logs = logs.read, logs.synthetic

local CLUSTERS = 300 -- of taste, if nothing is said

data.synthetic = fn{
  name = "fopo.data.synthetic", returns = "dataset, world", presets = worlds.presets,
  options = {
    {"like", "string", nil, "a set of the paper: the defaults below become those of its twin",
     one_of = native.data_twins()},
    {"fraction", "number", 1.0, "with like: the share of its users and items", above = 0, max = 1},
    {"users", "integer", 20000, "number of users", min = 1},
    {"items", "integer", 100000, "size P of the catalogue", min = 2},
    {"clusters", "integer", CLUSTERS, "clusters of taste; if left out, at most a tenth of "
     .. "the items where those are fewer than 300", min = 1},
    {"mean_items", "number", 40, "mean interactions of a user (log-normal), repeats included",
     min = 2},
    {"zipf", "number", 1.0, "exponent of popularity inside a cluster", above = 0},
    {"noise", "number", 0.05, "share of interactions that are uniform", min = 0, below = 1},
    {"tastes", "integer", 2, "clusters that a user likes", min = 1},
    {"appeal", "number", 0, "exponent of the clusters' own popularity; 0: all alike", min = 0,
     max = 10},
    {"spread", "number", 0.7, "standard deviation of the logarithm of a user's mean", above = 0,
     max = 3},
    {"least_items", "integer", 2, "different items of a user; those with fewer are replaced",
     min = 2},
    {"repeats", "boolean", true, "whether an interaction that repeats counts; false: every value "
     .. "is 1"},
    {"seed", "integer", 1, "the world is a function of the options and the seed"},
  },
  -- What is wrong with an option is said by its check, which follows.
  defaults = function(given)
    local known, options = pcall(native.data_twin, given.like, given.fraction or 1.0)
    if known then return options end
    local few = math.type(given.items) == "integer" and given.items < CLUSTERS
    return {clusters = few and math.max(1, given.items // 10) or nil}
  end,
  text = [[A made-up world whose best policy is known: users like a few clusters of items, items are
Zipf-popular inside their cluster, sessions have log-normal lengths, a few per cent is noise.
world:best(sessions) gives the reward of the policy that knows all of it: an upper bound.

like = "twitch" or "goodreads" makes a twin of a set of the paper as it is after the authors'
preparation: 500,000 users and 790,000 items, or 300,000 and 2,330,000; users with 20 items or more;
lengths of sessions, repeats and the shares of the most popular items as published. What nobody
published, such as the clusters, is assumed: docs/data.md says which is which. fraction = 0.01 makes
a small one, of sessions of the same lengths.

preset is a small world to teach with, which world:picture() shows. bandit: ten arms, and users
who are all alike, so contexts say nothing. geometry: three tastes, so that embeddings of two
dimensions show the paper's setting, where taste is a direction and popularity a norm. popularity:
few items and tastes have most of the users, and recommending the same to everybody is hard to beat.
unit_norms: items that are equally popular, so their norms are nearly equal, and searches by norm
gain nothing.]],
  example = [[d, world = fopo.data.synthetic{users = 200, items = 500, clusters = 10, seed = 3}
assert(d.n_users == 200 and d.n_items == 500)
assert(fopo.data.synthetic{users = 200, items = 100}.n_items == 100)
twin = fopo.data.synthetic{like = "twitch", fraction = 0.002}
assert(twin.n_users == 1000 and twin.n_items == 1580)]],
  call = function(o)
    if o.fraction ~= 1 and not o.like then
      define.fail("fopo.data.synthetic: fraction is the share of a twin; say which, as in like = "
                  .. "\"twitch\"")
    elseif o.preset and o.like then
      define.fail("fopo.data.synthetic: like is a twin and preset a world to teach with; give one")
    end
    o.ones = not o.repeats
    local d, w = native.data_synthetic(o)
    worlds.note(w, d, o)
    return d, w
  end,
}

dataset.item_values = fn{
  name = "dataset:item_values", returns = "array",
  args = {{"d", "dataset", nil, "the dataset"},
          {"files", "string|table", nil, "a file with a row for each item, or a list of files"}},
  options = {
    {"item", "string|integer", 1, "column of the item, by the names that d has"},
    {"value", "string|integer", 2, "column of what it is worth: a price, a margin, minutes"},
    {"missing", "number", nil, "the value of items that the file lacks; an error if left out"},
    {"separator", "string", nil, "as of fopo.data.read"},
    {"header", "boolean", nil, "as of fopo.data.read"},
  },
  text = [[What the items are worth, an array [1, P] for fopo.reward.hits{value = ...}, from a table
with a column of items and one of numbers, of any format of fopo.data.read that has columns. Rows of
items that the dataset lacks are left out; an item that stands in two rows is an error.]],
  example = [[path = os.tmpname()
f = io.open(path, "w")
f:write("item,price\napple,2.5\npear,4\n"); f:close()
d = fopo.data.read(path, {user = "item", item = "item", value = ""})
assert(d:item_values(path):get(1, d:find_item("pear")) == 4)
os.remove(path)]],
  call = function(d, files, o)
    local item = o.item
    local file = native.data_read(reading.files("dataset:item_values", files), reading.options{
      format = "auto", user = item, item = item, value = o.value, time = false,
      separator = o.separator, header = o.header, skip_errors = false, max_errors = 1000})
    if file.repeats > 0 then
      define.fail("dataset:item_values: some items stand in several rows (rows too many: %s); keep "
                  .. "one row for each item", text.count(file.repeats))
    end
    local value, lacking, first = native.item_values(native.whole_names(d, "item"), file,
                                                      o.missing or 0)
    if lacking > 0 and not o.missing then
      define.fail("dataset:item_values: %s of the %s items have no value in the file, the first is "
                  .. "%s; give theirs as missing = 0", text.count(lacking), text.count(d.n_items),
                  d:item_name(first))
    end
    return value
  end,
}

data.sessions = require("fopo.split").files
require "fopo.share"

sessions.batch = fn{
  name = "sessions:batch", returns = "array",
  args = {{"s", "sessions", nil, "the sessions"}},
  options = {
    {"size", "integer", 32, "contexts a step", min = 1},
    {"seed", "integer", 1, "of the order"},
    {"step", "integer", nil, "which step, from 0", min = 0, required = true},
  },
  text = [[
The contexts that step `step` of a trainer with this batch and seed takes, as ids [1, B]: for a loop
of your own.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
assert(s.train:batch{size = 8, seed = 1, step = 0}.cols == 8)]],
  call = function(s, o) return native.trainer_batch(s.n, o.size, o.seed, o.step) end,
}

local encoders, about_encoders = rows.names(native.encoders())

sessions.contexts = fn{
  name = "sessions:contexts", returns = "array",
  args = {{"s", "sessions", nil, "the sessions"},
          {"items", "array|policy", nil, "[P, L] embeddings; or a policy, for the contexts that it "
           .. "makes"}},
  options = {
    {"scale", "string", encoders[1], about_encoders, one_of = encoders},
    {"item_weights", "array", nil, "[1, P], of those that weigh items; if left out, s:item_weights "
     .. "of the sessions that the items were embedded from"},
  },
  text = [[[N, L], a context for each session. The mean of many items is short and that of a few
is long, so the softmax over means is sharp for short sessions and flat for long ones; with contexts
of unit length one temperature fits all. A policy says in pi.contexts which of them it learns with,
and in pi:item_weights() what each item weighs.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items = fopo.embed.svd(s.train, {dim = 8})
x = s.test:contexts(items, {scale = "unit"})
assert(math.abs(x:rows_of{1}:norm() - 1) < 1e-6)]],
  call = function(s, items, o)
    if define.kind(items) == "policy" then
      return native.contexts(s, items:initial_items(), items.contexts, items:item_weights())
    end
    local w = o.item_weights or cache.weights_for("sessions:contexts", items, o.scale)
    return native.contexts(s, items, o.scale, w)
  end,
}

sessions.item_weights = fn{
  name = "sessions:item_weights", returns = "array",
  args = {{"s", "sessions", nil, "training sessions"},
          {"contexts", "string", nil, "the kind of contexts, as degree or idf", one_of = encoders}},
  text = [[
What each item weighs in contexts of this kind, [1, P], from n_b, the sessions that have item b in X
or in Y; 1 for an item that is in none. nil if contexts of the kind weigh no items. Of sessions that
are shared out all ranks make this call together, and each gets all weights.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
w = s.train:item_weights("degree")
assert(w.cols == 400 and w:get(1, 1) <= 1 and s.train:item_weights("unit") == nil)]],
  call = cache.weights,
}

-- ", 7 rows left out (5 by a condition, 2 malformed), 1 pair repeated"
local function uncounted(d)
  local parts, out = {}, d.skipped - d.malformed
  if out > 0 then parts[1] = text.count(out) .. " by a condition" end
  if d.malformed > 0 then parts[#parts + 1] = text.count(d.malformed) .. " malformed" end
  local left = d.skipped > 0 and (", %s row%s left out (%s)"):format(text.count(d.skipped),
    d.skipped == 1 and "" or "s", table.concat(parts, ", ")) or ""
  if d.repeats == 0 then return left end
  return ("%s, %s pair%s repeated"):format(left, text.count(d.repeats),
                                           d.repeats == 1 and "" or "s")
end

function dataset.describe(d)
  return ("dataset (%s): %s users x %s items, %s interactions%s%s%s%s"):format(d.format,
    text.count(d.n_users), text.count(d.n_items), text.count(d.nnz),
    d.shared and (", shared out: %s users here"):format(text.count(d.here)) or "",
    d.items_seen < d.n_items and (", %s items seen"):format(text.count(d.items_seen)) or "",
    d.has_times and (", times %s to %s"):format(moment.words(d.first_time, d),
                                                moment.words(d.last_time, d))
    or d.no_times and (", times left out (%s)"):format(d.no_times) or "", uncounted(d))
end
function sessions.describe(s)
  return ("sessions: %s contexts over %s items%s"):format(text.count(s.n), text.count(s.n_items),
    s.shared and (", shared out: %s of them here"):format(text.count(s.here)) or "")
end

function world.describe() return "synthetic world; world:best(sessions) is its upper bound" end

dataset.save = saves("dataset", dataset.save, function(_, path) data.read(path) end)
doc{name = "dataset:save", signature = "d:save(path)",
    text = [[
Writes an .npz that fopo.data.read and scipy.sparse.load_npz read; names and times included (the
members times and last_times, in the order of the entries).]]}
for _, side in ipairs{"item", "user"} do
  doc{name = "dataset:" .. side .. "_name", signature = ("d:%s_name(i)"):format(side),
      returns = "string", text = ("The id that %s i had in the file. Of a dataset that is shared "
        .. "out all ranks make this call, and find_%s, together."):format(side, side)}
  doc{name = "dataset:find_" .. side, signature = ("d:find_%s(name)"):format(side),
      returns = "integer", text = ("The %s of that name, or nil."):format(side)}
end
doc{name = "dataset:row", signature = "d:row(i)", returns = "array, table, table, table",
    text = [[
The items of user i, their values (nil if all are 1), and where the dataset has times the first time
of each pair and, if some pair repeats, the last. Of a dataset that is shared out all ranks make
this call together.]]}
doc{name = "sessions:x", signature = "s:x(n)", returns = "array",
    text = "The observed items of context n, as ids."}
doc{name = "sessions:y", signature = "s:y(n)", returns = "array",
    text = "The items of context n that are to be found, as ids."}
doc{name = "sessions:user", signature = "s:user(n)", returns = "integer",
    text = "The user of the dataset that context n comes from."}
doc{name = "sessions:hits", signature = "s:hits(n, item)", returns = "boolean",
    text = "Whether the item stands in Y of context n."}
doc{name = "world:cluster", signature = "world:cluster(item)", returns = "integer",
    text = "The cluster that the item belongs to."}
doc{name = "world:best", signature = "world:best(sessions)", returns = "expected, achieved",
    text = "The expected reward of the best possible policy, and its reward on these sessions."}

return data
