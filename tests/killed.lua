-- A training that saves all the time, for tests/kills.py to kill:
--
--   fopo killed.lua FOLDER STEPS SEED [REASON]     why the log may lack records
--
-- It goes on from the checkpoint of the folder, after a look at every file there: each must be
-- whole. At the end the log must be the history of the whole run, and it prints theta's digits.
local fopo = require "fopo"
local folder, steps, seed = arg[1], math.tointeger(arg[2]), math.tointeger(arg[3])
local has_gnuplot = os.execute("command -v gnuplot >/dev/null")

local function exists(name)
  local f <close> = io.open(folder .. "/" .. name)
  return f ~= nil
end
local function path(name) return folder .. "/" .. name end

local s = fopo.data.synthetic{users = 400, items = 500, clusters = 8, seed = 3}
  :sessions{min_items = 10}
local items = fopo.embed.svd(s.train, {dim = 8})
local t = fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train, batch = 16,
                       seed = seed, valid = false}

-- The files that are written beside the checkpoint.
if exists("step.npy") then
  local a = fopo.array.load(path "step.npy")
  local most, least = a:get(1, 1), a:get(1, 1)
  for i = 1, a.rows do most, least = math.max(most, a:get(i, 1)), math.min(least, a:get(i, 1)) end
  assert(a.rows == 2000 and most == least, "step.npy is mixed of two versions")
end
if exists("policy.npz") then fopo.policy.load(path "policy.npz") end
if exists("index.npz") then fopo.index.load(path "index.npz", items) end
if exists("run.svg") then
  local f <close> = io.open(path "run.svg")
  assert(f:read("a"):find("</svg>\n$"), "run.svg is cut off")
end
if exists("plot.svg") then
  local f <close> = io.open(path "plot.svg")
  assert(f:read("a"):find("</svg>%s*$"), "plot.svg is cut off")
end
-- All parts of the run have one log. What it has after the checkpoint is taken away and made again.
if exists("log/config.json") and exists("log/history.jsonl") then
  require("fopo.run.log").read(path "log")
end
if exists("checkpoint.npz") then
  t:resume(path "checkpoint.npz")
else
  os.execute("rm -rf '" .. path "log" .. "'") -- killed before there was a state to go on from
end

io.write("ready ", t.step, "\n")
io.flush()
if t.step < steps then
  t:run{steps = steps - t.step, every = 5, view = false, checkpoint = path "checkpoint.npz",
        every_seconds = 0.001, log = path "log", on_record = function()
    local rows = {}
    for i = 1, 2000 do rows[i] = {t.step} end
    fopo.array.from(rows):save(path "step.npy")
    t.policy:save(path "policy.npz")
    if t.step % 15 == 0 then fopo.index.norm(items):save(path "index.npz") end
    if t.step % 40 == 0 then fopo.view.save(path "run.svg", t) end
    if has_gnuplot and t.step % 60 == 0 then fopo.plot.save(path "plot.svg", {y = {1, t.step}}) end
  end}
end
local record, all = 0, require("fopo.run.log").read(path "log").history.step
for i, step in ipairs(arg[4] and {} or all) do
  assert(step > record and step - record <= 5, "the log lacks records, or has them twice")
  assert(step == t.history.step[i], "the log is not the history")
  record = step
end
assert(arg[4] or record == t.step, "the log ends early")
local theta, digits = t.policy:theta(), {}
for i = 1, theta.rows do
  for j = 1, theta.cols do digits[#digits + 1] = ("%a"):format(theta:get(i, j)) end
end
print("theta " .. table.concat(digits, " "))
