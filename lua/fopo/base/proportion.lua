-- Intervals of proportions, and of their difference.
local proportion = {}

local z = 1.959963984540054 -- 97.5 % point of the normal distribution

-- The normal 95 % interval of a mean between 0 and `most`.
function proportion.normal(mean, se, most)
  return math.max(0.0, mean - z * se), math.min(most or 1.0, mean + z * se)
end

-- The normal 95 % interval of a.reward - b.reward, means with their own normal ones.
function proportion.difference_of_means(a, b)
  local half = math.sqrt((a.high - a.reward) ^ 2 + (b.high - b.reward) ^ 2)
  return a.reward - b.reward - half, a.reward - b.reward + half
end

-- Wilson's 95 % interval of a proportion p of n trials (Wilson 1927).
function proportion.wilson(p, n)
  local centre = (p + z * z / (2 * n)) / (1 + z * z / n)
  local half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
  return math.max(0, centre - half), math.min(1, centre + half)
end

-- Newcombe's 95 % interval of p - q, proportions of n and m trials (Newcombe 1998, method 10).
function proportion.difference(p, n, q, m)
  local pl, ph = proportion.wilson(p, n)
  local ql, qh = proportion.wilson(q, m)
  return p - q - math.sqrt((p - pl) ^ 2 + (qh - q) ^ 2),
         p - q + math.sqrt((ph - p) ^ 2 + (q - ql) ^ 2)
end

return proportion
