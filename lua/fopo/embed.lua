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
    {"normalise", "string", "none", "degree: of the matrix in which the entry of user u and item a "
     .. "is 1 / sqrt(n_u n_a), n their interactions", one_of = {"none", "degree"}},
    {"scale", "string", "sqrt", "how singular values scale the columns: none is the paper's",
     one_of = {"none", "sqrt", "sigma"}},
    {"power", "number", nil, "in place of scale: the power of the singular values; 0.5 is sqrt",
     min = 0, max = 10},
    {"power_iterations", "integer", 4, "passes that sharpen the subspace", min = 0, max = 20},
    {"oversample", "integer", 10, "extra columns of the sketch", min = 0},
    {"seed", "integer", 1, "of the sketch"},
    {"shard", "boolean", false, "deal the items out to the ranks (fopo.shard), none of which ever "
     .. "has all of them; nor all users, and the sessions may be shared out, as of d:share()"},
  },
  presets = {paper = {scale = "none"}},
  text = [[items [P, L]: the right singular vectors of the training interactions by randomised SVD
(Halko, Martinsson and Tropp 2011), and a table of the L singular values. With scale = "none" the
norms are tiny and heavy-tailed, as in the paper; with "sqrt" reward rises in the first epoch.
With R the interactions as 0/1 entries [users, P], V and s their right singular vectors and singular
values, scale = "none" gives V, "sigma" V diag(s), and "sqrt" or a power c V diag(s^power), with c
such that the items that occur have a mean squared norm of 1.
normalise = "degree" takes V and s of D_u^-1/2 R D_i^-1/2, D_u and D_i the interactions of each user
and item, and item a is c n_a^1/2 V_a diag(s^power). With contexts = "degree", sums of beta_b / n_b,
the scores of a policy whose theta is the identity are then those of the normalised matrix smoothed,
R D_i^-1/2 V diag(s^2 power) V^T D_i^1/2. power = 0 takes the L largest directions as they are.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items, singular = fopo.embed.svd(s.train, {dim = 8})
assert(items.rows == 400 and items.cols == 8 and singular[1] >= singular[8])
items, singular = fopo.embed.svd(s.train, {dim = 8, normalise = "degree", power = 0})
pi = fopo.policy.linear{items = items, contexts = "degree", seen = "mask"}
assert(math.abs(singular[1] - 1) < 1e-3)]],
  call = function(sessions, o)
    o.by_degree = o.normalise == "degree"
    local items, singular = native.embed_svd(sessions, o)
    origin.set(items, {sessions = sessions})
    return items, singular
  end,
}

return embed
