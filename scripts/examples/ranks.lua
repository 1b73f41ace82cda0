-- From a file of interactions to a trained policy, on several processes: none has all interactions,
-- all items, or the contexts of all users.
--
--   mpirun -n 2 --bind-to none ./fopo scripts/examples/ranks.lua FILE [dim [steps [folder [s]]]]
--   ./fopo scripts/examples/ranks.lua FILE            the same on one
--
-- Cost: some seconds for datasets/sample.csv. Quick: datasets/sample.csv 8 50
-- Options (defaults): dim (64) of the embeddings, steps (2000), folder of the results (none),
-- seconds between two checkpoints (600).
-- Every process runs the whole script and makes the same calls; what is printed, the first prints.
-- ranks.slurm, ranks.sh and ranks.mpijob.yaml beside it start it as a job of Slurm, on a list of
-- machines, and on Kubernetes. One process loads the policy that they leave: fopo.policy.load.
local fopo = require "fopo"
local path = arg[1]
if not path then
  io.stderr:write("usage: ./fopo scripts/examples/ranks.lua FILE [dim [steps [folder [s]]]]\n")
  os.exit(2)
end
local dim, steps, folder = tonumber(arg[2]) or 64, tonumber(arg[3]) or 2000, arg[4]
local here = fopo.ranks()
print(("%d ranks by %s on %s"):format(here.size, here.by, table.concat(here.hosts, ", ")))

local d = fopo.data.read(path, {shard = true})
print(d:describe())
local s = d:sessions{min_items = 10, valid = 0.1, test = 0.1, seed = 1}
print(s:describe())

-- Whether an earlier run has left this file.
local function is_there(name)
  local f = name and io.open(name)
  return f and f:close()
end

-- The embeddings are found in parts, and stay dealt out. A run that is started again reads them.
local kept, checkpoint
if folder then kept, checkpoint = folder .. "/items.npy", folder .. "/checkpoint.npz" end
local items
if is_there(kept) then
  items = fopo.shard(kept)
else
  items = fopo.embed.svd(s.train, {dim = dim, shard = true})
  if kept then items:save(kept) end
end
print(items:describe())
local pi = fopo.policy.linear{items = items, data = s.train}
local t = fopo.trainer{policy = pi, data = s.train:share(pi), valid = s.valid:gather(1000),
                       seed = 1}
print(t.data:describe())

-- The run writes its checkpoint every so many seconds, at its end, and when a signal stops it. Any
-- number of processes goes on from there.
if is_there(checkpoint) then
  t:resume(checkpoint)
  print("resumed at step " .. t.step)
end
if t.step < steps then
  t:run{steps = steps - t.step, checkpoint = checkpoint, every_seconds = tonumber(arg[5])}
end
if folder then pi:save(folder .. "/policy.npz", {items = kept, data = d}) end
print(fopo.evaluate(pi, s.test:gather(1000)):describe())

local after = fopo.ranks()
print(("rank 0 gave %.1f MB in %d calls; %.1f s in them"):format(after.bytes / 1e6, after.calls,
                                                               after.seconds))
