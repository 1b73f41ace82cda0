-- README's pictures of the view: FOLDER/view-dark.svg and view-light.svg, of the runs in
-- docs/pictures.
--
--   ./fopo scripts/tools/pictures.lua FOLDER            (make pictures writes docs/)
--   ./fopo scripts/tools/pictures.lua FOLDER record     first makes the runs anew: 15 seconds
--
-- The runs are those of `make demo`, REINFORCE and the default head and tail, from the same start.
-- Only the files of a log that the view reads are kept.
local fopo = require "fopo"
local json = require "fopo.base.json"

local folder, word = arg[1], arg[2]
if not folder or word and word ~= "record" then
  io.stderr:write("usage: fopo scripts/tools/pictures.lua FOLDER [record]\n")
  os.exit(2)
end
local runs = "docs/pictures/"

-- Of a log, leaves what the view reads.
local function prune(run)
  assert(os.execute(("cd %s && rm -f events* history.csv notes.txt"):format(run)))
  local path, kept = run .. "/config.json", {}
  local f = assert(io.open(path))
  local config = json.decode(f:read("a"))
  f:close()
  for _, name in ipairs{"batch", "device", "gradient", "optim"} do kept[name] = config[name] end
  f = assert(io.open(path, "w"))
  f:write(json.encode(kept), "\n")
  f:close()
end

local function record()
  local d = fopo.data.synthetic{users = 20000, items = 100000, seed = 1}
  local s = d:sessions{min_items = 20, seed = 1}
  local items = fopo.embed.svd(s.train, {dim = 64})
  for name, gradient in pairs{
    reinforce = fopo.gradient.reinforce{samples = 1000, baseline = "mean"},
    head_tail = fopo.gradient.head_tail{},
  } do
    assert(os.execute("rm -rf " .. runs .. name))
    local t = fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train,
                           gradient = gradient, optim = fopo.optim.adam{lr = 1e-2},
                           device = "cpu"}
    t:run{steps = 600, every = 10, log = runs .. name, view = false}
    prune(runs .. name)
  end
end

if word then record() end
for _, theme in ipairs{"dark", "light"} do
  fopo.view.save(("%s/view-%s.svg"):format(folder, theme), runs .. "head_tail",
                 {rows = 24, cols = 109, glyphs = "braille", overlay = {runs .. "reinforce"},
                  axis = "seconds", theme = theme})
end
