-- What a learnt policy is worth beside what one would try first: the table of scripts/served.lua of
-- several sets, as a figure and a table.
local csv = require "fopo.base.csv"
local shown = require "shown"

local worth = {says = [[
Reward of the best item with seen items left out, as one serves, on users that no method has learnt
from. Popular, tuned item-kNN, EASE and tuned ALS are what one would try first; "the paper" is the
paper's policy (mixture, raw singular vectors, 62.5 steps x lr), "masked linear" the same form from
this program's defaults, which leave out seen items in training, "neighbours" learnt weights between
items, "auto" the choice of `policy.auto`. The figure has the sets on which the paper's policy was
trained. The methods of a set have the same splits; intervals are 95 %, over the test sessions of
one, and known better where the mean of several is shown. [results.md](results.md#what-is-served)
has the numbers, also of sets without that policy.]]}

local TRIED = 4 -- methods that one would try first
local methods = {{"popular", "popular"}, {"item-kNN", "cosine"}, {"EASE", "ease"}, {"ALS", "als"},
                 {"the paper", "paper"}, {"masked linear", "linear"}, {"neighbours", "neighbours"},
                 {"auto", "auto"}}

-- The rows of a set, of the splits that all its methods have.
local function rows_of_set(rows, set)
  local those, list = shown.where(rows, {file = set}), {}
  for _, row in ipairs(those) do
    local n = #shown.where(those, {seed = row.seed})
    if n == #shown.values(those, "method") then list[#list + 1] = row end
  end
  return list
end

-- The rows of a method in a set; neighbours by the better known of its starts.
local function rows_of(rows, method)
  local list = shown.where(rows, {method = method})
  if #list > 0 or method ~= "neighbours" then return list end
  return shown.where(rows, {method = "neighbours-cosine"})
end

-- The lines of the table, the bars of the figure, and a sentence of what they say.
function worth.of(path)
  local rows = assert((csv.read(path)))
  local head = {"set", "test sessions"}
  local lines, shares = {head}, {}
  local curves = {labels = {}, style = "bars", width = 1500, height = 560, ylabel = "reward",
                  title = "What is served: reward of the best item, seen items left out"}
  for i, m in ipairs(methods) do
    head[i + 2] = m[1]
    curves[i] = {name = m[1], x = {}, y = {}, low = {}, high = {}}
  end
  curves[#curves] = nil -- auto is in the table alone
  for _, set in ipairs(shown.values(rows, "file")) do
    local those = rows_of_set(rows, set)
    local line, drawn = {set, ("%d"):format(those[1].contexts)}, #rows_of(those, "paper") > 0
    local best = 0 -- of what one would try first
    if drawn then table.insert(curves.labels, set) end
    for i, m in ipairs(methods) do
      local p, c = shown.mean(rows_of(those, m[2]), "reward"), curves[i]
      local half = p and 1.96 * math.sqrt(p * (1 - p) / those[1].contexts)
      line[#line + 1] = p and ("%.3f ± %.3f"):format(p, half) or ""
      if p and c and drawn then
        local at = #c.x + 1
        c.x[at], c.y[at], c.low[at], c.high[at] = #curves.labels, p, p - half, p + half
        best = i <= TRIED and math.max(best, p) or best
        local of = shares[i] or {least = 1 / 0, most = 0}
        shares[i] = {least = math.min(of.least, p / best), most = math.max(of.most, p / best)}
      end
    end
    lines[#lines + 1] = line
  end
  for i = #curves, 1, -1 do
    if #curves[i].x == 0 then table.remove(curves, i) end
  end
  local parts = {}
  for i = TRIED + 1, #methods do
    local of = shares[i]
    parts[#parts + 1] = of and ("%s %.0f to %.0f %%"):format(methods[i][1], 100 * of.least,
                                                             100 * of.most)
  end
  local says = "\n\nOf what the best of these four earns, set by set: %s."
  return lines, curves, #parts > 0 and says:format(shown.listed(parts)) or ""
end

return worth
