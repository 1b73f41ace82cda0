-- A proposal in two stages: a cluster by its mass if all its items were its centre, then one of its
-- items with equal chances. q(a) = p(cluster of a) / its size, for B x clusters scores a batch. A
-- share of uniform draws keeps every density above 0.
local fopo = require "fopo"
local SHARE = 0.2 -- of uniform draws

return function(items)
  local group_of = fopo.index.clusters(items):groups():reshape(1, items.rows)
  local members, of = {}, group_of:totable()[1]
  for a, g in ipairs(of) do
    members[g] = members[g] or {}
    table.insert(members[g], a)
  end
  local n, P = #members, items.rows
  local sizes = fopo.array.zeros(n, 1):scatter_add(group_of, fopo.array.zeros(P, 1) + 1)
  local centres = fopo.array.zeros(n, items.cols):scatter_add(group_of, items) / sizes
  local one = sizes:transpose() -- [1, n]

  return fopo.proposal.custom{draws = function(Q, _, S, seed, step)
    local p = (Q:matmul(centres, false, true) + one:log()):softmax("rows")
    p = p * (1 - SHARE) + one * (SHARE / P) -- of a cluster
    local groups, density = p:draw(S, seed, step), (p / one):log()
    local place = fopo.array.randn(Q.rows, S, seed + step) -- any numbers will do for the second
    local ids = {}
    for b, row in ipairs(groups:totable()) do
      ids[b] = {}
      for s, g in ipairs(row) do
        local among = members[g]
        ids[b][s] = among[math.floor(math.abs(place:get(b, s)) * 1e4) % #among + 1]
      end
    end
    return ids, density:gather(groups)
  end}
end
