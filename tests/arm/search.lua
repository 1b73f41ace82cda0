-- The prefilters of arm64 give the bits of scores in float32. tests/c/test_prefilter.c says so of
-- every case, in a quarter of an hour on the emulation.
local fopo = require "fopo"
local items = fopo.array.randn(20000, 33, 1)
for i = 1, items.rows do
  local size = i ^ -0.4
  for j = 1, items.cols do items:set(i, j, items:get(i, j) * size) end
end
local queries = fopo.array.randn(40, 33, 2)

local expected
for _, isa in ipairs{"neon", "neonbf16", "neondot"} do
  fopo.isa(isa)
  local answers = {}
  for _, index in ipairs{fopo.index.exact(items), fopo.index.norm(items)} do
    local ids, scores = index:search(queries, 50)
    for i = 1, ids.rows do
      for j = 1, ids.cols do
        answers[#answers + 1] = ("%d %a"):format(ids:get(i, j), scores:get(i, j))
      end
    end
  end
  local text = table.concat(answers, "\n")
  expected = expected or text
  assert(text == expected, isa .. " finds other items or scores")
end
print "the same items and scores by neon, neonbf16 and neondot"
