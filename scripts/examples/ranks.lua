-- From a file of interactions to a trained policy, on several processes: none has all interactions,
-- all items, or the contexts of all users.
--
--   mpirun -n 2 --bind-to none ./fopo scripts/examples/ranks.lua FILE [dim [steps [folder]]]
--   ./fopo scripts/examples/ranks.lua FILE            the same on one
--
-- Cost: some seconds for datasets/sample.csv. Quick: datasets/sample.csv 8 50
-- Options (defaults): dim (64) of the embeddings, steps (2000), folder of the results (none).
-- Every process runs the whole script and makes the same calls; what is printed, the first prints.
-- ranks.slurm, ranks.sh and ranks.mpijob.yaml beside it start it as a job of Slurm, on a list of
-- machines, and on Kubernetes. One process loads the policy that they leave: fopo.policy.load.
local fopo = require "fopo"
local path = arg[1]
if not path then
  io.stderr:write("usage: ./fopo scripts/examples/ranks.lua FILE [dim [steps [folder]]]\n")
  os.exit(2)
end
local dim, steps, folder = tonumber(arg[2]) or 64, tonumber(arg[3]) or 2000, arg[4]
local here = fopo.ranks()
print(("%d ranks by %s on %s"):format(here.size, here.by, table.concat(here.hosts, ", ")))

local d = fopo.data.read(path, {shard = true})
local s = d:sessions{min_items = 10, valid = 0.1, test = 0.1, seed = 1}
print(s:describe())

-- The embeddings are found in parts, and stay dealt out.
local items = fopo.embed.svd(s.train, {dim = dim, shard = true})
print(items:describe())
local pi = fopo.policy.linear{items = items}
local t = fopo.trainer{policy = pi, data = s.train:share(pi), valid = s.valid:gather(1000),
                       seed = 1}

-- The run writes its checkpoint every ten minutes, at its end, and when a signal stops it. Any
-- number of processes goes on from there.
local checkpoint = folder and folder .. "/checkpoint.npz"
local f = checkpoint and io.open(checkpoint)
if f then
  f:close()
  t:resume(checkpoint)
  print("resumed at step " .. t.step)
end
if t.step < steps then t:run{steps = steps - t.step, checkpoint = checkpoint} end
if folder then pi:save(folder .. "/policy.npz", {items = folder .. "/items.npy"}) end
print(fopo.evaluate(pi, s.test:gather(1000)):describe())

local after = fopo.ranks()
print(("rank 0 gave %.1f MB in %d calls; %.1f s in them"):format(after.bytes / 1e6, after.calls,
                                                               after.seconds))
