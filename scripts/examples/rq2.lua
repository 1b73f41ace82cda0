-- The paper's RQ2 as one sweep: what does the mixture's eps change, beside REINFORCE? eps = 1 draws
-- uniformly. Stopped by Ctrl-C or killed, the same command goes on.
--
--   ./fopo scripts/examples/rq2.lua [fraction [epochs [jobs]]]
--
-- Cost: two minutes of one core. Quick: 0.0008 2
-- Options (defaults): fraction (0.01) of the size of the paper's Twitch, epochs (20), jobs (1).
-- runs/rq2/ gets a row a run, tables, pictures and TensorBoard's files.
local fopo = require "fopo"
local fraction, epochs, jobs = tonumber(arg[1]) or 0.01, tonumber(arg[2]) or 20, tonumber(arg[3])

local s = fopo.data.synthetic{like = "twitch", fraction = fraction}:sessions{min_items = 20}
local items = fopo.embed.svd(s.train, {dim = 50, scale = "none"})
local index, k = fopo.index.norm(items), math.min(256, items.rows)
local function snis(q) return fopo.gradient.snis{samples = 1000, proposal = q} end

local gradient = {REINFORCE = function() return fopo.gradient.reinforce{samples = 1000} end,
                  ["eps 1"] = function() return snis(fopo.proposal.uniform()) end}
for _, epsilon in ipairs{0.2, 0.5, 0.8} do
  gradient["eps " .. epsilon] = function()
    return snis(fopo.proposal.mixture{index = index, k = k, epsilon = epsilon})
  end
end
print(fopo.experiment.sweep{
  over = {gradient = gradient, lr = 1e-3, weight_decay = 1e-10, epochs = epochs, preset = "paper"},
  seeds = 3, split = s, items = items, out = "runs/rq2", jobs = jobs,
  measures = {"reward", "expected", "effective", "ms_step"}})
