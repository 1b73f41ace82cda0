-- fopo.data: interactions, sessions, synthetic worlds.
local native = require "fopo.native"
local define = require "fopo.define"
local text = require "fopo.text"
local fn, doc = define.fn, define.doc
local data = {}
local dataset, sessions, world = native.types.dataset, native.types.sessions, native.types.world

data.read = fn{
  name = "fopo.data.read", returns = "dataset",
  args = {{"path", "string", nil, "the file; .gz is read as it is"}},
  options = {
    {"format", "string", "auto", "what the file is", one_of = {"auto", "pairs", "movielens",
      "lists", "twitch", "goodreads", "npz", "mtx"}},
    {"user", "string|integer", nil, "column of the user: its name, or its number from 1"},
    {"item", "string|integer", nil, "column of the item"},
    {"value", "string|integer", nil, "column of the value; \"\": every interaction counts 1"},
    {"where", "string", nil, "keep only rows that satisfy it, as \"is_read=1\" or \"rating>=4\""},
    {"separator", "string", nil, "between columns: \",\" \"\\t\" \"::\" ..."},
    {"header", "boolean", nil, "whether the first line names the columns; recognised if left out"},
    {"skip_errors", "boolean", false, "count malformed rows instead of stopping at the first"},
    {"max_errors", "integer", 1000, "stop all the same after so many of them", min = 0},
  },
  text = [[Reads who took what. Recognised without any option: pairs with or without a header
(MovieLens csv, ::, TAB; Twitch; GoodReads, of which rows with is_read = 1; user:item), lists
("user item item ..." a line), scipy's sparse .npz, MatrixMarket; all of them gzipped, too.
Pairs that repeat are summed. Ids of pairs become 1 .. n of those that occur, the names are kept
(d:item_name(j)); ids of lists and matrices stay as they stand.
A malformed row is an error with file, line, column and the text.]],
  example = [[path = os.tmpname()
f = io.open(path, "w"); f:write("user,item\n7,apple\n7,pear\n9,apple\n"); f:close()
d = fopo.data.read(path)
assert(d.n_users == 2 and d.n_items == 2 and d.nnz == 3)
os.remove(path)]],
  call = function(path, o)
    for _, column in ipairs{"user", "item", "value"} do
      if o[column] then o[column] = tostring(o[column]) end
    end
    if o.header ~= nil then o.header = o.header and "yes" or "no" end
    return native.data_read(path, o)
  end,
}

data.synthetic = fn{
  name = "fopo.data.synthetic", returns = "dataset, world",
  options = {
    {"users", "integer", 20000, "number of users", min = 1},
    {"items", "integer", 100000, "size P of the catalogue", min = 2},
    {"clusters", "integer", 300, "clusters of taste", min = 1},
    {"mean_items", "number", 40, "mean number of meetings of a user (log-normal), repeats counted", min = 2},
    {"zipf", "number", 1.0, "exponent of popularity inside a cluster", above = 0},
    {"noise", "number", 0.05, "share of interactions that are uniform", min = 0, below = 1},
    {"tastes", "integer", 2, "clusters that a user likes", min = 1},
    {"seed", "integer", 1, "the world is a function of the options and the seed"},
  },
  text = [[A made-up world whose best policy is known: users like a few clusters of items, items are
Zipf-popular inside their cluster, sessions have log-normal lengths, a few per cent is noise.
world:best(sessions) gives the reward of the policy that knows all of it: an upper bound.]],
  example = [[d, world = fopo.data.synthetic{users = 200, items = 500, clusters = 10, seed = 3}
assert(d.n_users == 200 and d.n_items == 500)]],
  call = native.data_synthetic,
}

dataset.sessions = fn{
  name = "dataset:sessions", returns = "table",
  args = {{"d", "dataset", nil, "the dataset"}},
  options = {
    {"min_items", "integer", 20, "keep users with at least so many different items", min = 2},
    {"max_users", "integer", nil, "keep only the first so many of them", min = 1},
    {"valid", "number", 0.1, "share of users for validation", min = 0, below = 1},
    {"test", "number", 0.1, "share of users for the test", min = 0, below = 1},
    {"seed", "integer", 1, "of the shuffles"},
  },
  text = [[Cuts every user's items at random into X (observed, floor(n/2) of them) and Y (to be
found), and the users into s.train, s.valid and s.test (nil for a share of 0). Repeats count once.
This is the split of the paper's authors. s.kept and s.dropped count users.]],
  example = [[s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
assert(s.train.n > s.test.n)]],
  call = function(d, o)
    local train, valid, test, kept, dropped = native.data_split(d, o)
    return setmetatable({train = train, valid = valid, test = test, kept = kept,
                         dropped = dropped}, {__name = "fopo.split", __index = {
      describe = function(s)
        local function n(part) return part and text.count(part.n) or "no" end
        return ("split: %s train, %s valid, %s test contexts; %s users had too few items")
          :format(n(s.train), n(s.valid), n(s.test), text.count(s.dropped))
      end}})
  end,
}

sessions.batch = fn{
  name = "sessions:batch", returns = "array",
  args = {{"s", "sessions", nil, "the sessions"}},
  options = {
    {"size", "integer", 32, "contexts a step", min = 1},
    {"seed", "integer", 1, "of the order"},
    {"step", "integer", nil, "which step, from 0", min = 0, required = true},
  },
  text = [[The contexts that step `step` of a trainer with this batch and seed takes, as ids [1, B]: for a
loop of your own.]],
  example = [[s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
assert(s.train:batch{size = 8, seed = 1, step = 0}.cols == 8)]],
  call = function(s, o) return native.trainer_batch(s.n, o.size, o.seed, o.step) end,
}

function dataset.describe(d)
  return ("dataset (%s): %s users x %s items, %s interactions%s%s"):format(d.format,
    text.count(d.n_users), text.count(d.n_items), text.count(d.nnz),
    d.items_seen < d.n_items and (", %s items seen"):format(text.count(d.items_seen)) or "",
    d.skipped > 0 and (", %s rows left out"):format(text.count(d.skipped)) or "")
end
function sessions.describe(s)
  return ("sessions: %s contexts over %s items"):format(text.count(s.n), text.count(s.n_items))
end
function world.describe() return "synthetic world; world:best(sessions) is its upper bound" end

doc{name = "dataset:save", signature = "d:save(path)",
    text = "Writes an .npz that fopo.data.read and scipy.sparse.load_npz read; names included."}
for _, side in ipairs{"item", "user"} do
  doc{name = "dataset:" .. side .. "_name", signature = ("d:%s_name(i)"):format(side),
      returns = "string", text = ("The id that %s i had in the file."):format(side)}
  doc{name = "dataset:find_" .. side, signature = ("d:find_%s(name)"):format(side),
      returns = "integer", text = ("The %s of that name, or nil."):format(side)}
end
doc{name = "dataset:row", signature = "d:row(i)", returns = "array, table",
    text = "The items of user i, and their values."}
doc{name = "sessions:contexts", signature = "s:contexts(items)", returns = "array",
    text = "[N, L]: the mean embedding of the items in each X (the paper's x^emb)."}
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
    text = "The expected reward of the best possible policy, and what it achieves on these sessions."}

return data
