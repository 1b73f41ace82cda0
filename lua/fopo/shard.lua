-- fopo.shard: items dealt out to the ranks.
local native = require "fopo.native"
local define = require "fopo.base.define"
local origin = require "fopo.base.origin"

return define.fn{
  name = "fopo.shard", returns = "array",
  args = {{"items", "array", nil, "the embeddings [P, L], which every rank has"}},
  text = [[Deals the items out to the ranks of a run (fopo.ranks): each keeps P / size of them, and
what takes the result works on all ranks together. Items are dealt by norm, largest first, one to
each rank in turn. items.rows is P; items.part is {rank, size, rows} of what is here. Alone, one
rank holds all, in the order of the norms.
What takes it: s:contexts, fopo.policy.linear and mlp, fopo.index (each rank has one over its part;
a budget counts items of the part), t:run with gradient.head_tail (the default), snis and exact and
the rewards hits and ips, t:save and t:resume on any number of ranks, fopo.evaluate, pi:best and
pi:recommend. Draws are the same for any number of ranks, so the gradient is that of one process but
for the order of sums (relative 1e-6). A context sends 2 L + 10 numbers to the rank that joins its
sums, and L + 5 back to all; never rows of items.
What needs all items in one place (reinforce, rewards by a model or a function, items that are
learnt, fopo.ope, fopo.check, files of policies) says so.]],
  example = [[items = fopo.shard(fopo.array.randn(100, 4, 1))
assert(items.rows == 100 and items.part.size == fopo.ranks().size)
pi = fopo.policy.linear{items = items}]],
  call = function(items)
    local part = native.shard_array(items)
    origin.set(part, origin.of(items))
    return part
  end,
}
