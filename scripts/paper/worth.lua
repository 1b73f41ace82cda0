-- What a learnt policy is worth beside what one would try first: the table of scripts/served.lua of
-- several sets, as a figure and a table.
local csv = require "fopo.base.csv"
local shown = require "shown"

local worth = {says = [[
Reward of the best item with seen items left out, as one serves, on users that no method has learnt
from. Popular, tuned item-kNN, EASE and tuned ALS are what one would try first; "the paper" is the
paper's policy (mixture, raw singular vectors, 62.5 steps x lr), "linear, masked" the same form from
this program's defaults, which leave out seen items in training, "neighbours" learnt weights between
items, "auto" the choice of `policy.auto`. The figure has the sets on which the paper's policy was
trained. Intervals are 95 %, over the test sessions of one split; where there are several splits the
mean of them is shown, which is known better.]]}

local methods = {{"popular", "popular"}, {"item-kNN", "cosine"}, {"EASE", "ease"}, {"ALS", "als"},
                 {"the paper", "paper"}, {"linear, masked", "linear"}, {"neighbours", "neighbours"},
                 {"auto", "auto"}}

-- The rows of a method in a set; neighbours by the better known of its starts.
local function rows_of(rows, method)
  local list = shown.where(rows, {method = method})
  if #list > 0 or method ~= "neighbours" then return list end
  return shown.where(rows, {method = "neighbours-cosine"})
end

-- The lines of the table and the bars of the figure.
function worth.of(path)
  local rows = assert((csv.read(path)))
  local head = {"set", "test sessions"}
  local lines, curves = {head}, {labels = {}, style = "bars", width = 1400, height = 560,
    title = "What is served: reward of the best item, seen items left out", ylabel = "reward"}
  for i, m in ipairs(methods) do
    head[i + 2] = m[1]
    curves[i] = {name = m[1], x = {}, y = {}, low = {}, high = {}}
  end
  curves[#curves] = nil -- auto is in the table alone
  for _, set in ipairs(shown.values(rows, "file")) do
    local those = shown.where(rows, {file = set})
    local line, drawn = {set, ("%d"):format(those[1].contexts)}, #rows_of(those, "paper") > 0
    if drawn then table.insert(curves.labels, set) end
    for i, m in ipairs(methods) do
      local p, c = shown.mean(rows_of(those, m[2]), "reward"), curves[i]
      local half = p and 1.96 * math.sqrt(p * (1 - p) / those[1].contexts)
      line[#line + 1] = p and ("%.3f ± %.3f"):format(p, half) or ""
      if p and c and drawn then
        local at = #c.x + 1
        c.x[at], c.y[at], c.low[at], c.high[at] = #curves.labels, p, p - half, p + half
      end
    end
    lines[#lines + 1] = line
  end
  for i = #curves, 1, -1 do
    if #curves[i].x == 0 then table.remove(curves, i) end
  end
  return lines, curves
end

return worth
