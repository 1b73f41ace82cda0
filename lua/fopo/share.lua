-- What is shared out to the ranks of a run: datasets by users, sessions, and contexts to train on.
local native = require "fopo.native"
local define = require "fopo.base.define"
local origin = require "fopo.base.origin"
local text = require "fopo.base.text"
local fn = define.fn
local dataset, sessions = native.types.dataset, native.types.sessions
local shared = native.types.shared_sessions

dataset.share = fn{
  name = "dataset:share", returns = "dataset",
  args = {{"d", "dataset", nil, "the dataset, which every rank has whole"}},
  text = [[
This rank's share of a dataset, of a run of several (fopo.ranks): the interactions of one range of
the users. Names and counts are those of all: d.n_users, d.nnz; d.here are the users of this rank.
For data that are made or read whole; the whole takes no memory any more once nothing holds it.
d:sessions{} of it makes the parts that the whole would give, to the bit, and each rank keeps its
range of each: s.train.n are the contexts of all ranks, s.train.here those of this one.
What takes them: fopo.embed.svd(s.train, {shard = true}), fopo.policy, s.train:share(pi), on which
to train, and fopo.baseline.popular, random, als and ease. s.valid:gather(n) puts n of the contexts
on every rank, for validation, fopo.evaluate and all else; what needs all in one place says so.
A script with shared data runs on one process, too.]],
  example = [[
d = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:share()
s = d:sessions{min_items = 10}
items = fopo.embed.svd(s.train, {dim = 8, shard = true})
pi = fopo.policy.linear{items = items}
t = fopo.trainer{policy = pi, data = s.train:share(pi), valid = s.valid:gather(1000)}
t:run{steps = 10, view = false}
e = fopo.evaluate(pi, s.test:gather(1000))
assert(e.contexts == s.test.n and s.train.shared and not s.test:gather(5).shared)]],
  call = native.share_dataset,
}

sessions.gather = fn{
  name = "sessions:gather", returns = "sessions",
  args = {{"s", "sessions", nil, "the sessions"},
          {"n", "integer", nil, "how many; all, if there are no more", min = 1}},
  text = [[
n of the sessions, evenly spread and always the same, whole on every rank: those that a validation
of at most n contexts judges. A session takes 4 bytes an item of X and Y, and 20. Sessions that are
not shared out give n of them, too. Evaluations are compared as pairs (fopo.report) if they are of
the same object: gather once, test = s.test:gather(1000).]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
assert(s.train:gather(10).n == 10 and s.test:gather(1000).n == s.test.n)]],
  call = function(s, n)
    local some = native.gather_sessions(s, n)
    origin.set(some, {dataset = origin.dataset(s)})
    return some
  end,
}

sessions.share = fn{
  name = "sessions:share", returns = "shared_sessions",
  args = {{"s", "sessions", nil, "the sessions"}, {"pi", "policy", nil, "what will be trained"}},
  text = [[
The sessions shared out to the ranks of a run (fopo.ranks): each keeps one range of the contexts,
made for this policy, and of their Y. What is returned is for fopo.trainer{data = ...} alone; it has
n, the contexts of all ranks, and here, those of this one. At every step the ranks that have the
contexts of the batch send them, with their Y, to all, so the run has the bits of one process; with
items that are dealt out those of fopo.shard.
The sessions may be whole on every rank, or shared out already, as those of d:share() are. They are
not needed any more, and take no memory once nothing else holds them: s, its dataset, or items,
which remember the sessions that fopo.embed.svd made them of (items that are saved and loaded do
not).]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
pi = fopo.policy.linear{items = fopo.embed.svd(s.train, {dim = 8})}
t = fopo.trainer{policy = pi, data = s.train:share(pi), valid = s.valid}
t:run{steps = 10, view = false}]],
  call = function(s, pi)
    return native.share_sessions(s, pi:initial_items(), pi.contexts, pi.seen == "mask",
                                 pi:item_weights())
  end,
}

function shared.describe(s)
  return ("sessions shared out: %s contexts over %s items, %s of them here"):format(
    text.count(s.n), text.count(s.n_items), text.count(s.here))
end
