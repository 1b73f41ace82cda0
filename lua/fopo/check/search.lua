-- The indexes against exact search: recall, scores, order.

-- The ids that the index returned for row b, how many, and the largest error of its scores relative
-- to the largest inner product: infinite if an item is there twice or the order is wrong.
local function answers(Q, items, ids, scores, b)
  local list, seen, worst = {}, {}, 0
  for j = 1, ids.cols do
    local id = ids:get(b, j)
    if not id then break end
    if seen[id] or (j > 1 and scores:get(b, j) > scores:get(b, j - 1)) then worst = math.huge end
    list[j], seen[id] = id, true
  end
  if #list == 0 then return seen, 0, worst end
  local f = items:rows_of(list):matmul(Q:rows_of{b}, false, true)
  local scale = math.max(math.abs(f:max()), math.abs(f:min()), 1e-30)
  for j = 1, #list do
    worst = math.max(worst, math.abs(f:get(j, 1) - scores:get(b, j)) / scale)
  end
  return seen, #list, worst
end

local function check_index(c, ix, k)
  local items, about = c.pi:items(), ix:about()
  local Q = c.pi:queries(c.many)
  local ids, scores, short = ix:search(Q, k)
  local truth, best = c.oracle:search(Q, k)
  local worst, found, wanted = 0, 0, 0
  for b = 1, Q.rows do
    local seen, n, off = answers(Q, items, ids, scores, b)
    worst = math.max(worst, off)
    -- items of equal scores are interchangeable
    local last, scale = best:get(b, k), math.max(math.abs(best:get(b, 1)), 1e-30)
    for j = 1, k do
      local id = truth:get(b, j)
      found = found + ((seen[id] or (n == k and best:get(b, j) - last < 1e-5 * scale)) and 1 or 0)
      wanted = wanted + 1
    end
  end
  local recall = found / wanted
  local least = about.exact and 1 or c.recall
  c.add("index " .. about.kind, ("recall@%d %.4f, %d short rows of %d, scores off by %.1e")
        :format(k, recall, short, Q.rows, worst),
        least > 0 and ("recall %g"):format(least) or "scores 1e-04",
        recall >= least and worst < 1e-4 and (not about.exact or short == 0))
end

return function(c)
  local done = {}
  local function once(ix, k)
    if not ix then return end
    local about = ix:about()
    local key = ("%s %g %d %d"):format(about.kind, about.build_seconds, about.n_items, k)
    if done[key] then return end
    done[key] = true
    check_index(c, ix, k)
  end
  for _, g in ipairs(c.gradients) do
    local q = g.proposal
    if q and q.kind ~= "uniform" then once(q.index, q.k) end
  end
  once(c.index, math.min(100, c.pi.n_items))
end
