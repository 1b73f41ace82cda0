-- A proposal in two stages: a cluster by its mass if all its items were its centre, then one of its
-- items, nearly evenly. Of a cluster the row of `members` names its items in turn, so q(a) =
-- p(cluster of a) times its share of that row: B x clusters scores a batch. A share of draws that
-- is even over the items keeps every density above 0.
local fopo = require "fopo"
local SHARE, MOST = 0.2, 32 -- items of a cluster; larger ones are cut

return function(items)
  local P, lists, open, group = items.rows, {}, {}, {}
  for a, c in ipairs(fopo.index.clusters(items):groups():reshape(1, P):totable()[1]) do
    if not open[c] or #lists[open[c]] == MOST then
      open[c] = #lists + 1
      lists[open[c]] = {}
    end
    group[a] = open[c]
    table.insert(lists[group[a]], a)
  end
  local of = fopo.array.ids(group)
  local n, width, all = #lists, 0, {}
  for _, list in ipairs(lists) do width = math.max(width, #list) end
  for g = 1, n do
    for j = 0, width - 1 do all[#all + 1] = lists[g][j % #lists[g] + 1] end
  end
  local members, ones = fopo.array.ids(all):reshape(n, width), fopo.array.zeros(P, 1) + 1
  local share = fopo.array.zeros(P, 1) -- [1, P] of an item in its cluster's row
  share:scatter_add(fopo.array.ids(all), fopo.array.zeros(n * width, 1) + 1 / width)
  share = share:transpose()
  local sizes = fopo.array.zeros(n, 1):scatter_add(of, ones)
  local centres = fopo.array.zeros(n, items.cols):scatter_add(of, items) / sizes
  sizes = sizes:transpose()

  return fopo.proposal.custom{draws = function(Q, _, S, seed, step)
    local p = (Q:matmul(centres, false, true) + sizes:log()):softmax("rows")
    p = p * (1 - SHARE) + sizes * (SHARE / P)
    local clusters = p:draw(S, seed, step)
    local places = (fopo.array.zeros(Q.rows, width) + 1):draw(S, seed ~ 1 << 32, step)
    local ids = members:rows_of(clusters:reshape(1, Q.rows * S))
                       :gather(places:reshape(Q.rows * S, 1)):reshape(Q.rows, S)
    return ids, (p:gather(clusters) * share:gather(ids:reshape(1, Q.rows * S))
                                          :reshape(Q.rows, S)):log()
  end}
end
