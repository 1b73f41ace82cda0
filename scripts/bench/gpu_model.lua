-- What a step on a GPU should take, as arithmetic (gpu_work.lua): a model of this source, not a
-- measurement; docs/gpu.md holds its table. Times are ranges, of the least and the most that the
-- guessed constants may be, and the bytes alone at the rate of a copy.
--
--   ./fopo scripts/bench/gpu_model.lua [name=value ...]
--
-- Options (defaults):
--   cards=H100,H200
--   dims=10,100,1000   L
--   batches=32,1024
--   constants=         a file of them that gpu_limits.cu has measured: one column, no range
--   parts=1            more: REINFORCE in so many products of bfloat16 in the place of each of
--                      float32
--   only=              shows the work of this method alone, line by line, for the first card
local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. here .. "../tools/?.lua;" .. package.path
local script = require "script"
local work = require "gpu_work"
local o = script.options{cards = {"H100", "H200"}, dims = {10, 100, 1000}, batches = {32, 1024},
                         constants = "", parts = 1, only = ""}
local measured = o.constants ~= "" and assert(loadfile(o.constants, "t", {}))() or nil
local cards = measured and {measured.card} or o.cards

local function step(name, L, B, card, which)
  local given = measured or {}
  given.parts = o.parts
  return work.step(name, L, B, work.constants(card, which, given))
end

-- "26" of a measured card, "20-33" of a guessed one.
local function us_of(name, L, B, card)
  if measured then return ("%.0f"):format(step(name, L, B, card).us) end
  return ("%.0f-%.0f"):format(step(name, L, B, card, 1).us, step(name, L, B, card, 3).us)
end

local head, rule = "| method | L | batch | launches | MB moved | processors filled |",
                   "| --- | ---: | ---: | ---: | ---: | ---: |"
for _, card in ipairs(cards) do
  head, rule = head .. (" %s, us | its bytes, us |"):format(card), rule .. " ---: | ---: |"
end
print(head)
print(rule)
for _, name in ipairs(work.methods) do
  for _, L in ipairs(o.dims) do
    for _, B in ipairs(o.batches) do
      local s = (o.only == "" or o.only == name) and step(name, L, B, cards[1])
      if s then
        if o.only ~= "" then
          for _, w in ipairs(s.work) do
            print(("  %-40s %5.2f %10.3f MB %5.0f %% %9.1f us"):format(w.name, w.launches,
              w.bytes / 1e6, 100 * w.fill, w.us))
          end
        end
        local line = ("| %s | %d | %d | %.0f | %.1f | %.0f %% |"):format(name, L, B, s.launches,
          s.bytes / 1e6, 100 * s.longest.fill)
        for _, card in ipairs(cards) do
          local memory = step(name, L, B, card).c.memory
          line = line .. (" %s | %.0f |"):format(us_of(name, L, B, card), 1e6 * s.bytes / memory)
        end
        print(line)
      end
    end
  end
end
