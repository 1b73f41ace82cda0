-- fopo.embed: item embeddings.
local native = require "fopo.native"
local define = require "fopo.base.define"
local origin = require "fopo.base.origin"
local embed = {}

embed.svd = define.fn{
  name = "fopo.embed.svd", returns = "array, table",
  args = {{"sessions", "sessions", nil, "training sessions: X + Y of each user, 0/1"}},
  options = {
    {"dim", "integer", 100, "L, singular vectors kept", min = 1},
    {"scale", "string", "sqrt", "how singular values scale the columns: none is the paper's",
     one_of = {"none", "sqrt", "sigma"}},
    {"power_iterations", "integer", 4, "passes that sharpen the subspace", min = 0, max = 20},
    {"oversample", "integer", 10, "extra columns of the sketch", min = 0},
    {"seed", "integer", 1, "of the sketch"},
    {"shard", "boolean", false, "deal the items out to the ranks (fopo.shard), none of which ever "
     .. "has all of them; nor all users, and the sessions may be shared out, as of d:share()"},
  },
  presets = {paper = {scale = "none"}},
  text = [[items [P, L]: the right singular vectors of the training interactions by randomised SVD
(Halko, Martinsson and Tropp 2011), and a table of the L singular values. With scale = "none" the
norms are tiny and heavy-tailed, as in the paper; with "sqrt" reward rises in the first epoch.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items, singular = fopo.embed.svd(s.train, {dim = 8})
assert(items.rows == 400 and items.cols == 8 and singular[1] >= singular[8])]],
  call = function(sessions, o)
    local items, singular = native.embed_svd(sessions, o)
    origin.set(items, {sessions = sessions})
    return items, singular
  end,
}

return embed
