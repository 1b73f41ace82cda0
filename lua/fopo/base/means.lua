-- Means over seeds, and their 95 % intervals.
local means = {}

-- The mean and its standard error, which is 0 for a single value.
function means.of(list)
  local n, sum, squares = #list, 0, 0
  for _, x in ipairs(list) do sum = sum + x end
  for _, x in ipairs(list) do squares = squares + (x - sum / n) ^ 2 end
  return sum / n, n > 1 and math.sqrt(squares / (n - 1) / n) or 0
end

-- The 97.5 % point of Student's t with so many degrees of freedom; from 6 on by the expansion of
-- Cornish and Fisher, right to three places.
local function student(freedom)
  local few = {12.706, 4.303, 3.182, 2.776, 2.571}
  local z, n = 1.95996, freedom
  return few[n] or z + (z ^ 3 + z) / (4 * n) + (5 * z ^ 5 + 16 * z ^ 3 + 3 * z) / (96 * n ^ 2)
                   + (3 * z ^ 7 + 19 * z ^ 5 + 17 * z ^ 3 - 15 * z) / (384 * n ^ 3)
end

-- The mean, and the half width of its 95 % interval by Student's t: 0 for a single value.
function means.interval(list)
  local mean, error = means.of(list)
  return mean, error > 0 and student(#list - 1) * error or 0
end

return means
