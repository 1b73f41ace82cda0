-- Writes datasets/sample.csv, a small synthetic world with names.
--
--   ./fopo datasets/make_sample.lua > datasets/sample.csv
local fopo = require "fopo"
local d = fopo.data.synthetic{users = 600, items = 800, clusters = 25, mean_items = 45, seed = 11}
print("user,item")
for u = 1, d.n_users do
  local items = d:row(u)
  for j = 1, items.cols do print(("user%03d,item%03d"):format(u, items:get(1, j))) end
end
