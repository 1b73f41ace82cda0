-- One report of the paper's experiments: its claims with a verdict for each world, tables, figures,
-- machine, versions, seeds and time, from the tables of results that the experiments left.
--
--   ./fopo scripts/paper/report.lua [FOLDER ...] [to=runs/paper/report] [notes=FILE] [figures=all]
--
-- FOLDER is the out= of experiments (runs/paper/small if none is given), or has a results.csv that
-- this script wrote. Where two folders have
-- the same experiment in the same world, the first one is judged; one of another L is shown
-- below it. `to` gets README.md, results.csv with all rows that it shows, and the figures: all,
-- or those named (figures=twitch-1-rq1,gowalla-ngcf-budget), and of the others the command that
-- draws them. The text of the file `notes` is put in before the tables. What an experiment of a
-- world measured is judged by the rules of claims.lua, and only what it measured is said.
local fopo = require "fopo"
local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. here .. "../tools/?.lua;" .. package.path
local claims = require "claims"
local kept = require "kept"
local reasons = require "reasons"
local script = require "script"
local shown = require "shown"
local tables = require "tables"
local text = require "fopo.base.text"

local o, folders = script.options{to = "runs/paper/report", notes = "", figures = {"all"}}
if #folders == 0 then folders = {"runs/paper/small"} end

-- What the scripts say of their experiments.
local experiments = setmetatable({}, {__index = function(t, name)
  t[name] = dofile(here .. name .. ".lua")
  return t[name]
end})

local order = {"rq0", "rq1", "rq2", "budget", "rq3", "rq4", "cost", "beyond", "settings",
               "alignment", "baselines"}

-- ---- what there is

-- Of a path of data the last two names count, as the folders of two machines differ.
local function short(source) return (source:gsub("^.*/([^/]+/[^/]+)$", "%1")) end

-- A world is named by its data: "twitch" of the twin at 1 % and at full size are two worlds.
local function world_of(worlds, name, source)
  local key = name .. " " .. source
  if not worlds[key] then
    local share = source:match("^twin, fraction (.+)$")
    worlds[key] = {name = name, source = source, slug = name .. (share and "-" .. share or ""),
                   title = share and ("%s twin, %g %%"):format(name, 100 * share) or name,
                   experiments = {}, others = {}, order = #worlds + 1}
    worlds[#worlds + 1] = worlds[key]
  end
  return worlds[key]
end

-- Adds an experiment of a table to its world. Returns whether it is shown.
local function add(worlds, e)
  e.source = short(e.source)
  local world = world_of(worlds, e.world, e.source)
  local first, dim = world.experiments[e.experiment], e.rows[1].dim
  world.items = math.max(world.items or 0, e.rows[1].items)
  if not first then
    world.experiments[e.experiment] = e
  elseif first.rows[1].dim ~= dim then
    e.dim = dim
    world.others[#world.others + 1] = e
  else
    return false
  end
  return true
end

-- The worlds of all tables, the one of the smallest catalogue first, and the experiments shown.
local function collect()
  local worlds, all = {}, {}
  for _, folder in ipairs(folders) do
    local pipe <close> = io.popen(("ls '%s'/results.csv '%s'/*/results.csv 2>/dev/null"):format(
      folder, folder))
    for path in pipe:lines() do
      for _, e in ipairs(kept.groups(path)) do
        if add(worlds, e) then all[#all + 1] = e end
      end
    end
  end
  table.sort(worlds, function(a, b)
    return a.items ~= b.items and a.items < b.items or a.items == b.items and a.order < b.order
  end)
  return worlds, all
end

-- ---- Markdown

local lines = {}
local function say(form, ...)
  lines[#lines + 1] = select("#", ...) > 0 and form:format(...) or form
end

-- Prose in lines of at most 100 characters; an empty line ends a paragraph, "- " begins a point.
local function filled(prose)
  local parts = {}
  for part in (prose:gsub("([^\n])\n%- ", "%1\n\n\0- ") .. "\n\n"):gmatch("(.-)\n\n") do
    parts[#parts + 1] = text.fill(part, 100, "")
  end
  return (table.concat(parts, "\n\n"):gsub("\n\n\0", "\n"))
end

local function put_table(rows)
  say(text.markdown(rows))
end

-- Draws the figure of an experiment by its script's own rules, where it is one of those wanted.
local function drawn(w, e, name)
  local wanted = {}
  for _, one in ipairs(o.figures) do wanted[one] = true end
  if not (wanted.all or wanted[name]) then return false end
  local own = {}
  for setting, value in e.settings:gmatch("(%S+)=(%S+)") do own[setting] = tonumber(value) end
  local experiment = experiments[e.experiment]
  return shown.figure(("%s/%s.svg"):format(o.to, name), experiment, w.title,
                      (experiment.show(e.rows, own)))
end

local words = {holds = "holds", ["does not hold"] = "**does not hold**",
               ["not tested here"] = "not tested here"}

local function verdict(j)
  local open = j.verdict ~= "not tested here" and not j.certain and " (open)" or ""
  return words[j.verdict] .. open
end

-- ---- the parts of the report

local function judge_all(worlds)
  for _, w in ipairs(worlds) do
    w.verdicts = {}
    for _, claim in ipairs(claims.list) do
      local e = w.experiments[claim.experiment]
      w.verdicts[claim.id] = claims.judge(claim, e and e.rows)
    end
  end
end

local function put_claims(worlds)
  say "## The paper's claims\n"
  say(("%s\n"):format(table.concat({
    "Each verdict follows from the results by the rule beside the claim. A claim holds if the",
    "mean over the seeds is on the right side everywhere that the rule looks; \"open\" says",
    "that the 95 % interval does not settle it: that over the seeds, or with one seed that",
    "over the test sessions. What each verdict rests on stands below, world by world. Rewards",
    "are R_test, of the best item, as in the paper; \"expected\" is the verdict by the",
    "expected reward, which is what is trained. Steps x lr, in the tables, bounds how far",
    "Adam moves a parameter. In the paper it is 62.5 on Twitch (50 epochs of 400,000",
    "contexts, 32 a step, lr 1e-4) and 18.75 on GoodReads (240,000 contexts, lr 5e-5)."}, "\n")))
  local head = {"claim", "rule"}
  for _, w in ipairs(worlds) do head[#head + 1] = w.title end
  local rows = {head}
  for _, claim in ipairs(claims.list) do
    local row = {claim.says, claim.rule .. " (" .. claim.experiment .. ")"}
    for _, w in ipairs(worlds) do
      local j = w.verdicts[claim.id]
      row[#row + 1] = verdict(j) .. (j.expected and "; expected: " .. verdict(j.expected) or "")
    end
    rows[#rows + 1] = row
  end
  put_table(rows)
end

local function put_worlds(worlds)
  say "## Worlds\n"
  local rows = {{"world", "data", "items P", "experiments"}}
  for _, w in ipairs(worlds) do
    local list = {}
    for _, name in ipairs(order) do
      if w.experiments[name] then list[#list + 1] = name end
    end
    rows[#rows + 1] = {w.title, w.source, tables.count(w.items), table.concat(list, ", ")}
  end
  put_table(rows)
  say [[
Twins are synthetic (`docs/data.md` says what of them is published and what is assumed), so their
rewards say nothing about the reward on the real sets; sizes, lengths and popularity, which decide
the time of a step, are the real ones. Data are prepared as the paper's authors do: users with at
least `min_items` items, half of a user's items as X and half as Y, 80 / 10 / 10 % of the users for
training, validation and test.
]]
end

local function put_verdicts(w)
  local rows = {{"claim", "verdict", "measured, with its 95 % interval"}}
  for _, claim in ipairs(claims.list) do
    local j = w.verdicts[claim.id]
    if j.verdict ~= "not tested here" then
      rows[#rows + 1] = {claim.says, verdict(j), table.concat(j.figures, "; ")}
      if j.expected then
        rows[#rows + 1] = {claim.says .. ", by expected reward", verdict(j.expected),
                           table.concat(j.expected.figures, "; ")}
      end
    end
  end
  if #rows > 1 then put_table(rows) end
end

local function put_experiment(w, e)
  local name, first, seconds = e.experiment, e.rows[1], 0
  local experiment = experiments[name]
  local title = experiment.title:gsub("^%u%l", string.lower)
                .. (e.dim and (" at L = %d"):format(e.dim) or "")
  if experiment.prepare then experiment.prepare(e.rows) end
  local figure = w.slug .. "-" .. name .. (e.dim and ("-%d"):format(e.dim) or "")
  for _, row in ipairs(shown.last(e.rows)) do seconds = seconds + (row.seconds or 0) end
  say("### %s: %s\n", w.title, title)
  local about = ("%s items, %s training and %s test sessions; seeds %s; %s of training; %s; %s."):
    format(tables.count(first.items), tables.count(first.contexts), tables.count(first.test),
           table.concat(tables.seeds(e.rows), ", "), script.duration(seconds), e.machine,
           e.settings)
  say("%s\n", filled(about))
  put_table(tables.of(experiment, e.rows))
  if drawn(w, e, figure) then
    say("![%s, %s](%s.svg)\n", title, w.title, figure)
  else
    say("Figure: `./fopo scripts/paper/report.lua docs/paper to=FOLDER figures=%s`\n", figure)
  end
end

local function put_reasons(worlds)
  local list = reasons.of(worlds, claims.list)
  if #list == 0 then return end
  say "## Where a claim does not hold, and why\n"
  for _, one in ipairs(list) do
    say("### %s\n\n%s\n", one.title, filled(one.text))
    if one.rows then put_table(one.rows) end
  end
end

local function put_worth(worlds)
  local rows = tables.worth(worlds)
  if not rows then return end
  say "## Is the policy any good?\n"
  say [[
What a recommender engineer would try first, beside the best of the learnt policies, on the same
test sessions. R_test is the paper's measure: items of X may be recommended, and earn nothing. A
learnt policy is linear in the mean of fixed embeddings; "the start" has learnt nothing.
]]
  put_table(rows)
end

local function put_notes()
  if o.notes == "" then return end
  local f <close> = assert(io.open(o.notes))
  say(f:read("a"))
end

local function write()
  local worlds, all = collect()
  if #worlds == 0 then
    script.misuse("%s: no results.csv of an experiment", table.concat(folders, ", "))
  end
  kept.write(o.to .. "/results.csv", all)
  judge_all(worlds)
  say "# The paper's experiments\n"
  say(("%s\n"):format(table.concat({
    "Sakhi, Rohde and Gilotte, \"Fast Offline Policy Optimization for Large Scale",
    "Recommendation\", AAAI 2023, measured again with fopo %s. `scripts/paper/` has the",
    "experiments, and `scripts/paper/report.lua` wrote this page from [results.csv](results.csv),",
    "which has a line for each run (`scripts/paper/common.lua` describes it). A figure that is not",
    "here is drawn by `./fopo scripts/paper/report.lua docs/paper to=FOLDER figures=NAME`."},
    "\n"):format(fopo.version)))
  put_claims(worlds)
  put_notes()
  put_reasons(worlds)
  put_worth(worlds)
  put_worlds(worlds)
  for _, w in ipairs(worlds) do
    say("## %s\n", w.title)
    put_verdicts(w)
    for _, name in ipairs(order) do
      if w.experiments[name] then put_experiment(w, w.experiments[name]) end
      for _, e in ipairs(w.others) do
        if e.experiment == name then put_experiment(w, e) end
      end
    end
  end
  local path = o.to .. "/README.md"
  local f = assert(io.open(path .. ".tmp", "w"))
  f:write((table.concat(lines, "\n"):gsub("\n\n\n+", "\n\n")), "\n")
  assert(f:close())
  assert(os.rename(path .. ".tmp", path))
  print("written to " .. path)
end

write()
