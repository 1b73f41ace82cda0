-- What the checks share: labels, lists, running means, the bound in standard errors.
local native = require "fopo.native"

local common, tools = native.gradient_common, {}

tools.errors_bound = 5 -- standard errors: exceeded by chance once in a million

-- A short name of an estimator for the table.
function tools.label(g)
  local kind, fault = common(g, "kind"), common(g, "fault")
  fault = fault and (" (FAULT %s)"):format(fault) or ""
  if kind == "reinforce" then return "reinforce, baseline " .. g.baseline end
  if kind == "head_tail" then
    local products = g.head and g.products ~= "auto" and ", " .. g.products or ""
    return ("head and tail, %s %d%s"):format(g.head and "H" or "K", g.head or g.k, products)
  end
  if kind ~= "snis" and kind ~= "custom" then return kind .. fault end
  local q = g.proposal
  if not q.k then return ("%s, %s%s"):format(kind, q.kind, fault) end
  return ("%s, %s, K %d, eps %g%s"):format(kind, q.draws or q.kind, q.k, q.epsilon, fault)
end

-- {1, 2, .., n}
function tools.list_of_rows(n)
  local rows = {}
  for i = 1, n do rows[i] = i end
  return rows
end

-- A value for <close>: calls restore() when its block ends, also by an error or by Ctrl-C.
function tools.afterwards(restore) return setmetatable({}, {__close = restore}) end

-- Running means of several numbers: put(s, {..}) adds one of each, mean_and_error(s, k) gives the
-- mean of the k-th and its standard error.
function tools.series() return {n = 0, sum = {}, squares = {}} end

function tools.put(s, values)
  s.n = s.n + 1
  for k, v in ipairs(values) do
    s.sum[k] = (s.sum[k] or 0) + v
    s.squares[k] = (s.squares[k] or 0) + v * v
  end
end

function tools.mean_and_error(s, k)
  local mean = s.sum[k] / s.n
  return mean, math.sqrt(math.max(0, s.squares[k] / s.n - mean * mean) / (s.n - 1))
end

return tools
