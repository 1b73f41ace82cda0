-- RQ4: what does the number S of draws change? Reward by epoch of the mixture for S in
-- {50, 200, 500, 1000}: the right of the paper's last figure. The paper finds that more draws end
-- at a higher reward and cost little more time on a GPU.
--
--   ./fopo scripts/paper/rq4.lua [FILE ...] [scale=small|full|tiny] [data=DIR] [name=value ...]
--
-- Cost: half a minute at scale=small on two cores.
--
-- Options (at full, the paper's; scripts/paper/common.lua has those of all experiments):
--   draws=50,200,500,1000 epsilon=0.8 k=256 dim=1000 epochs=50 every=1
--   exact=no                the exact gradient beside them, which sums over all items: what the
--                           estimates come near to
local paper = dofile((arg[0]:match("^(.*/)") or "./") .. "common.lua")

local function plan(own) return paper.mixtures(own, {"samples", own.draws}) end

local function label(row) return row.samples and ("S %d"):format(row.samples) or row.method end

return paper.experiment{
  name = "rq4", title = "RQ4, S",
  full = {draws = {50, 200, 500, 1000}, dim = 1000, epochs = 50, every = 1, exact = false},
  small = {dim = 50, epochs = 20, every = 4},
  tiny = {draws = {20, 100}, dim = 8, epochs = 2, exact = true},
  whole = true, settings = {"epochs", "every"},
  keys = {paper.tables.key("S", "samples", "%d", "exact")},
  plan = plan, show = paper.by_epoch(label),
}
