-- RQ3: what does the number K of candidates change? Reward by epoch of the mixture for K in
-- {32, 64, 128, 256, 512}: the left of the paper's last figure. The paper finds no difference as
-- long as K is large enough, neither in reward nor in time.
--
--   ./fopo scripts/paper/rq3.lua [FILE ...] [scale=small|full|tiny] [data=DIR] [name=value ...]
--
-- Cost: half a minute at scale=small on two cores.
--
-- Options (at full, the paper's; scripts/paper/common.lua has those of all experiments):
--   ks=32,64,128,256,512 epsilon=0.8 samples=1000 dim=1000 epochs=50 every=1
--   exact=no                the exact gradient beside them, which sums over all items: what the
--                           estimates come near to
local paper = dofile((arg[0]:match("^(.*/)") or "./") .. "common.lua")

local function plan(own) return paper.mixtures(own, {"k", own.ks}) end

local function label(row) return row.k and ("K %d"):format(row.k) or row.method end

return paper.experiment{
  name = "rq3", title = "RQ3, K",
  full = {ks = {32, 64, 128, 256, 512}, dim = 1000, epochs = 50, every = 1, exact = false},
  small = {dim = 50, epochs = 20, every = 4},
  tiny = {ks = {5, 20}, dim = 8, epochs = 2, exact = true},
  whole = true, settings = {"epochs", "every"},
  keys = {paper.tables.key("K", "k", "%d", "exact")},
  plan = plan, show = paper.by_epoch(label),
}
