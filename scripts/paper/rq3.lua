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
local paper = dofile((arg[0]:match("^(.*/)") or "./") .. "common.lua")

local o = paper.options(
  {ks = {32, 64, 128, 256, 512}, dim = 1000, epochs = 50, every = 1},
  {dim = 50, epochs = 20, every = 2},
  {ks = {5, 20}, dim = 8, epochs = 2})

local function plan(own)
  return paper.grid(own, {"seed", own.seeds}, {"k", own.ks}, {"method", {"mixture"}})
end

paper.run({name = "rq3", title = "RQ3, K", settings = {"epochs", "every"}, plan = plan,
           show = paper.by_epoch(function(row) return ("K %d"):format(row.k) end)}, o)
