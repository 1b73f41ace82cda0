-- README's pictures: FOLDER/served-dark.svg and served-light.svg, what is served on public sets, of
-- the tables in docs/defaults.md, and view-dark.svg and view-light.svg, of the runs in
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

-- ---- what is served ----

-- {name, users, rewards by method, {difference from ease, half of its interval}} of the tables that
-- have item-kNN (cosine), EASE and policy.auto, but not of the made world.
local function served()
  local f <close> = assert(io.open("docs/defaults.md"))
  local sets, set = {}, nil
  for line in f:lines() do
    local name = line:match("^%*%*(.-)%*%*")
    if name then set = {name = name, users = line:match("of ([%d,]+) users"), reward = {}} end
    local method, reward, rest = line:match("^| (%l+) | ([%d.]+) | (.*)")
    if set and method then set.reward[method] = tonumber(reward) end
    if set and method == "auto" and set.users and set.reward.cosine then
      local off, half = rest:match("^([-+%d.]+) ± ([%d.]+)")
      set.off, set.half, sets[#sets + 1] = tonumber(off), tonumber(half), set
    end
  end
  return sets
end

local themes = {
  dark = {paper = "#1c1c1c", ink = "#e8e8e8", dim = "#a0a0a0", line = "#444444",
          cosine = "#7a7a7a", ease = "#56b4e9", auto = "#e69f00"},
  light = {paper = "#ffffff", ink = "#1c1c1c", dim = "#5a5a5a", line = "#d0d0d0",
           cosine = "#9a9a9a", ease = "#4a90c4", auto = "#c05a00"},
}
local methods = {{"cosine", "item-kNN"}, {"ease", "EASE"}, {"auto", "fopo: policy.auto"}}
local WIDTH, HEIGHT, BASE, TALL = 900, 452, 376, 190 -- BASE: y of 0; TALL: of the share 0.75

local function picture(sets, theme)
  local c, out = themes[theme], {}
  local function put(s, ...) out[#out + 1] = s:format(...) end
  local function say(x, y, size, colour, s, more)
    put('<text x="%g" y="%g" font-size="%d" fill="%s"%s>%s</text>', x, y, size, c[colour],
        more and " " .. more or "", s)
  end
  local function box(x, y, w, h, colour, round)
    put('<rect x="%g" y="%.1f" width="%g" height="%.1f" rx="%g" fill="%s"/>', x, y, w, h,
        round or 0, c[colour])
  end
  local middle = 'text-anchor="middle"'
  put('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
      .. 'font-family="DejaVu Sans, Helvetica, Arial, sans-serif">', WIDTH, HEIGHT, WIDTH, HEIGHT)
  put('<rect width="100%%" height="100%%" fill="%s"/>', c.paper)
  -- above: what a person took, the policy, the list
  for i = 0, 4 do box(40 + 30 * i, 30, 22, 22, "cosine", 4) end
  say(40, 76, 14, "dim", "what a person took")
  say(208, 48, 22, "dim", "→", middle)
  say(355, 49, 20, "ink", "a policy over all items", 'font-weight="bold" text-anchor="middle"')
  say(355, 76, 14, "dim", "learnt from what others took", middle)
  say(502, 48, 22, "dim", "→", middle)
  for i = 0, 2 do box(530 + 30 * i, 30, 22, 22, i == 0 and "auto" or "line", 4) end
  say(541, 46, 14, "paper", "1", middle)
  say(530, 76, 14, "dim", "what to show next")
  say(640, 47, 14, "ink", "Is the first one taken next?", 'font-weight="bold"')
  -- below: how often it is
  for i, m in ipairs(methods) do
    box(40 + (i == 1 and 0 or i == 2 and 110 or 190), 116, 12, 12, m[1], 2)
    say(58 + (i == 1 and 0 or i == 2 and 110 or 190), 127, 14, "ink", m[2])
  end
  say(WIDTH - 40, 127, 14, "dim", "how often it is, in %: people of whom no method has learnt",
      'text-anchor="end"')
  put('<path d="M40 %g H%g" stroke="%s"/>', BASE + 0.5, WIDTH - 40, c.line)
  local step = (WIDTH - 80) / #sets
  for i, set in ipairs(sets) do
    local left = 40 + (i - 1) * step + (step - 132) / 2
    for k, m in ipairs(methods) do
      local high, x = set.reward[m[1]] / 0.75 * TALL, left + (k - 1) * 46
      box(x, BASE - high, 40, high, m[1])
      local above = m[1] == "auto" and set.half / 0.75 * TALL or 0
      say(x + 20, BASE - high - above - 6, 13, k == 3 and "ink" or "dim",
          ("%.1f"):format(100 * set.reward[m[1]])
          .. (k == 3 and set.off > set.half and " *" or ""),
          middle .. (k == 3 and ' font-weight="bold"' or ""))
      if above > 0 then
        put('<path d="M%g %.1f V%.1f" stroke="%s" stroke-width="2"/>', x + 20, BASE - high - above,
            BASE - high + above, c.ink)
      end
    end
    say(left + 66, BASE + 20, 13, "ink", set.name, middle)
    say(left + 66, BASE + 37, 12, "dim", set.users .. " people", middle)
  end
  say(40, HEIGHT - 10, 12, "dim", "what a person has already taken is left out; line: 95 % of the "
      .. "difference from EASE, *: it excludes 0")
  put("</svg>")
  return table.concat(out, "\n") .. "\n"
end

local function front()
  local sets = served()
  for theme in pairs(themes) do
    local f <close> = assert(io.open(("%s/served-%s.svg"):format(folder, theme), "w"))
    f:write(picture(sets, theme))
  end
end

if word then record() end
front()
for _, theme in ipairs{"dark", "light"} do
  fopo.view.save(("%s/view-%s.svg"):format(folder, theme), runs .. "head_tail",
                 {rows = 24, cols = 109, glyphs = "braille", overlay = {runs .. "reinforce"},
                  axis = "seconds", theme = theme})
end
