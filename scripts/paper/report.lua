-- One report of the paper's experiments from the tables of results that they left: README.md, its
-- claims with a verdict for each world, why, and figures; results.md, all tables.
--
--   ./fopo scripts/paper/report.lua [FOLDER ...] [to=runs/paper/report] [notes=FILE] [figures=all]
--          [served=FILE] [against=docs/paper]
--
-- FOLDER is the out= of experiments (runs/paper/small if none is given), or has a results.csv that
-- this script wrote. Where two folders have the same experiment in the same world, the runs of the
-- first one count, and those that it lacks are added if their settings and L are the same. `to` has
-- results.csv with all rows that it shows, verdicts.csv, and the figures, too: all, or those named
-- (figures=twitch-1-rq1,served). The text of the file `notes` ends the page. `served` is the table
-- of scripts/served.lua, of several sets. What an experiment of a world measured is judged by the
-- rules of claims.lua, and only what it measured is said. At the end the verdicts are compared with
-- those of `against`.
local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. here .. "../tools/?.lua;" .. package.path
local claims = require "claims"
local csv = require "fopo.base.csv"
local kept = require "kept"
local native = require "fopo.native"
local reasons = require "reasons"
local script = require "script"
local shown = require "shown"
local tables = require "tables"
local text = require "fopo.base.text"
local worth = require "worth"

local o, folders = script.options{to = "runs/paper/report", notes = "", figures = {"all"},
                                  served = "", against = "docs/paper"}
if #folders == 0 then folders = {"runs/paper/small"} end

-- What the scripts say of their experiments.
local experiments = setmetatable({}, {__index = function(t, name)
  t[name] = dofile(here .. name .. ".lua")
  return t[name]
end})

local where = shown.where
local order = {"rq0", "rq1", "rq2", "rq3", "rq4", "cost", "beyond", "alignment"}

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
                   experiments = {}, order = #worlds + 1}
    worlds[#worlds + 1] = worlds[key]
  end
  return worlds[key]
end

-- Adds an experiment of a table to its world.
local function add(worlds, e)
  e.source = short(e.source)
  local world = world_of(worlds, e.world, e.source)
  local first, known = world.experiments[e.experiment], {}
  world.items = math.max(world.items or 0, e.rows[1].items)
  world.experiments[e.experiment] = first or e
  if not first or first.settings ~= e.settings or first.rows[1].dim ~= e.rows[1].dim then return end
  for _, row in ipairs(first.rows) do known[kept.key(row)] = true end
  for _, row in ipairs(e.rows) do
    if not known[kept.key(row)] then table.insert(first.rows, row) end
  end
end

-- The experiments of a world, in their order.
local function shown_of(w)
  local list = {}
  for _, name in ipairs(order) do list[#list + 1] = w.experiments[name] end
  return list
end

-- The worlds of all tables, the one of the smallest catalogue first.
local function collect()
  local worlds = {}
  for _, folder in ipairs(folders) do
    local pipe <close> = io.popen(("ls '%s'/results.csv '%s'/*/results.csv 2>/dev/null"):format(
      folder, folder))
    for path in pipe:lines() do
      for _, e in ipairs(kept.groups(path)) do add(worlds, e) end
    end
  end
  table.sort(worlds, function(a, b)
    return a.items ~= b.items and a.items < b.items or a.items == b.items and a.order < b.order
  end)
  return worlds
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

-- The curves of a figure of a world: an experiment's own, or another look at rq2.
local function curves_of(w, name)
  if name == "fixed-time" then
    local curves = shown.curves(claims.fixed_time(w.experiments, "valid_expected"),
                                shown.by_epsilon, "time")
    curves.title, curves.xlabel = "For a fixed time, " .. w.title, "seconds, one thread"
    return curves
  end
  local of_test = name == "rq2-test"
  local e = w.experiments[of_test and "rq2" or name]
  if of_test then
    local curves = shown.curves(shown.tuned(e.rows, "valid_expected"), shown.by_epsilon, "epoch",
                                "reward")
    curves.title = "R_test, " .. w.title
    return curves
  end
  local experiment = experiments[name]
  if experiment.prepare then experiment.prepare(e.rows) end
  return (experiment.show(shown.tuned(e.rows, "valid_expected"), {}))
end

-- Draws the figures of a section that are wanted.
local function put_figures(figures)
  local wanted = {}
  for _, one in ipairs(o.figures) do wanted[one] = true end
  for _, f in ipairs(figures) do
    local w, name = f[1], f[2]
    local file = w.slug .. "-" .. name
    if (wanted.all or wanted[file]) and shown.figure(("%s/%s.svg"):format(o.to, file),
        experiments[name:match("^rq2") or name == "fixed-time" and "rq2" or name], w.title,
        curves_of(w, name)) then
      say("![%s, %s](%s.svg)\n", name, w.title, file)
    end
  end
end

-- ---- the parts of the page

local function verdict(j)
  if j.verdict == "not tested here" then return "" end
  if not j.certain then return j.verdict == "holds" and "open (+)" or "open (-)" end
  return j.verdict == "holds" and "holds" or "**does not hold**"
end

-- The verdicts by both rewards, as one where they are the same.
local function verdicts(j)
  local test, expected = verdict(j), j.expected and verdict(j.expected)
  if not expected or expected == test then return test end
  return ("R_test: %s; expected: %s"):format(test, expected)
end

local function judge_all(worlds)
  for _, w in ipairs(worlds) do
    w.verdicts = {}
    for _, claim in ipairs(claims.list) do
      w.verdicts[claim.id] = claims.judge(claim, w.experiments)
    end
  end
end

-- The paper's steps x lr: 50 epochs of batches of 32.
local function papers(w)
  return w.name == "goodreads" and 50 * 240000 / 32 * 5e-5 or 50 * 400000 / 32 * 1e-4
end

-- How far the trainings of RQ2 went, beside the paper's.
local function trained(worlds)
  local parts = {}
  for _, w in ipairs(worlds) do
    local rows = w.experiments.rq2 and w.experiments.rq2.rows
    if rows then
      local far = shown.values(shown.last(where(rows, {method = "uniform"})), "steps_lr")
      table.sort(far)
      for i, one in ipairs(far) do far[i] = ("%.3g"):format(one) end
      parts[#parts + 1] = ("%s %s (the paper %.4g; L = %d)"):format(w.title,
        table.concat(far, " or "), papers(w), rows[1].dim)
    end
  end
  return ([[How far a run is trained is steps x lr, which bounds how far Adam moves a parameter: in
the paper 62.5 on Twitch (50 epochs of 400,000 contexts, 32 a step, lr 1e-4). Here RQ2 goes to
%s. Where a world has several, a method has the lr that is best on its validation sessions by the
reward that is judged.]]):format(table.concat(parts, "; "))
end

local function put_claims(worlds)
  say "## The paper's claims\n"
  say("%s\n", filled[[A claim **holds** or **does not hold** where the 95 % interval is on one side
of its rule's bound; **open** says that the interval does not settle it, with the side of the mean:
(+) for the claim, (-) against it. An empty cell was not tested there. The paper reports R_test, the
reward of the best item; what is trained is the expected reward. Where the two verdicts differ both
are given. Intervals are over sessions, splits and seeds at once. Rewards after a time,
and times, but for which of two draws is the faster, are judged at the paper's P alone.
[results.md](results.md) has the rules, the numbers of each verdict, and what would settle those
that are open.]])
  local head, rows = {"claim", "the paper"}, {}
  for _, w in ipairs(worlds) do head[#head + 1] = w.title end
  rows[1] = head
  for _, claim in ipairs(claims.list) do
    local row = {claim.says, claim.paper}
    for _, w in ipairs(worlds) do row[#row + 1] = verdicts(w.verdicts[claim.id]) end
    rows[#rows + 1] = row
  end
  put_table(rows)
  say "What no experiment here judges:\n"
  rows = {{"claim", "state of the evidence"}}
  table.move(claims.others, 1, #claims.others, 2, rows)
  put_table(rows)
end

local function put_reasons(worlds)
  say "## Why\n"
  for _, one in ipairs(reasons.of(worlds)) do
    say("### %s\n\n%s\n", one.title, filled(one.text))
    put_figures(one.figures)
  end
end

-- The table of what is served is put into results.md.
local function put_worth()
  if o.served == "" then return {} end
  say "## What a learnt policy is worth\n"
  local rows, curves, sentence = worth.of(o.served)
  say("%s\n", filled(worth.says .. sentence))
  if shown.figure(o.to .. "/served.svg", nil, nil, curves) then
    say "![what is served](served.svg)\n"
  end
  return rows
end

local function put_notes()
  if o.notes == "" then return end
  local f <close> = assert(io.open(o.notes))
  say(f:read("a"))
end

-- ---- the tables of results.md

local function put_worlds(worlds)
  local rows = {{"world", "data", "items P", "experiments"}}
  for _, w in ipairs(worlds) do
    local list = {}
    for i, e in ipairs(shown_of(w)) do list[i] = e.experiment end
    rows[#rows + 1] = {w.title, w.source, tables.count(w.items), table.concat(list, ", ")}
  end
  put_table(rows)
  rows = {{"claim", "rule", "experiment"}}
  for i, claim in ipairs(claims.list) do
    rows[i + 1] = {claim.says, claim.rule, claim.experiment}
  end
  say "## Rules\n"
  put_table(rows)
  say("%s\n", filled[["least" in the tables of verdicts is the power of a cell: the smallest
difference from its bound that it would have seen four times in five, with its test sessions, splits
and seeds. "About n splits" is where the interval would leave the bound if mean and spread stay;
where the test users of all splits are too few for that, no number of them is enough: more users
would.]])
end

local function put_verdicts(w)
  local rows = {{"claim", "verdict", "measured, its 95 % interval, and the least it could show",
                 "would be settled by"}}
  for _, claim in ipairs(claims.list) do
    local j = w.verdicts[claim.id]
    local function put(what, one)
      if #one.figures > 0 then
        rows[#rows + 1] = {what, one.verdict == "not tested here" and "too few items"
                           or verdict(one), table.concat(one.figures, "; "), one.settled or ""}
      end
    end
    put(claim.says, j)
    if j.expected then put(claim.says .. ", by expected reward", j.expected) end
  end
  if #rows > 1 then put_table(rows) end
end

local function put_experiment(w, e)
  local first, seconds = e.rows[1], 0
  local experiment = experiments[e.experiment]
  local title = experiment.title:gsub("^%u%l", string.lower)
  if experiment.prepare then experiment.prepare(e.rows) end
  for _, row in ipairs(shown.last(e.rows)) do seconds = seconds + (row.seconds or 0) end
  say("### %s: %s\n", w.title, title)
  local about = ("%s items, %s training and %s test sessions; seeds %s; %s of training; %s; %s."):
    format(tables.count(first.items), tables.count(first.contexts), tables.count(first.test),
           table.concat(tables.seeds(e.rows), ", "), script.duration(seconds), e.machine,
           e.settings)
  say("%s\n", filled(about))
  put_table(tables.of(experiment, e.rows))
end

-- ---- files

-- Writes what was said.
local function flush(name)
  local said = table.concat(lines, "\n"):gsub("\n\n\n+", "\n\n")
  assert(native.write_file(o.to .. "/" .. name, said .. "\n"))
  lines = {}
  print(("written to %s/%s"):format(o.to, name))
end

-- Keeps the verdicts, and says which are others than those of o.against.
local function compare(worlds)
  local rows, known, same, others = {}, {}, 0, {}
  for _, row in ipairs((csv.read(o.against .. "/verdicts.csv")) or {}) do
    known[row.world .. "|" .. row.claim] = row.verdict
  end
  for _, w in ipairs(worlds) do
    for _, claim in ipairs(claims.list) do
      local v, key = verdicts(w.verdicts[claim.id]), w.title .. "|" .. claim.says
      if v ~= "" then
        rows[#rows + 1] = {world = w.title, claim = claim.says, verdict = v}
        if known[key] == v then same = same + 1 end
        if known[key] and known[key] ~= v then
          others[#others + 1] = ("%s, %s: %s, and there %s"):format(w.title, claim.says, v,
                                                                    known[key])
        end
      end
    end
  end
  script.csv(o.to .. "/verdicts.csv", {"world", "claim", "verdict"}, rows)
  print(("verdicts: %d as in %s, %d other than there, %d that are not there"):format(same,
    o.against, #others, #rows - same - #others))
  for _, line in ipairs(others) do print("  " .. line) end
end

-- "fopo 0.1.0", of the programs that made the runs.
local function programs(all)
  local list, known = {}, {}
  for _, e in ipairs(all) do
    local one = e.machine:match("^[^,]+")
    if not known[one] then known[one], list[#list + 1] = true, one end
  end
  table.sort(list)
  return table.concat(list, " and ")
end

local function write()
  local worlds, all = collect(), {}
  if #worlds == 0 then
    script.misuse("%s: no results.csv of an experiment", table.concat(folders, ", "))
  end
  for _, w in ipairs(worlds) do
    for _, e in ipairs(shown_of(w)) do all[#all + 1] = e end
  end
  kept.write(o.to .. "/results.csv", all)
  judge_all(worlds)
  compare(worlds)
  say "# The paper's experiments\n"
  say("%s\n", filled(([[Sakhi, Rohde and Gilotte, "Fast Offline Policy Optimization for Large Scale
Recommendation", AAAI 2023, measured again with %s.

The policy is a softmax over P items, of scores with L numbers an item: the items' numbers beta come
of an SVD and stay, a matrix theta is learnt. REINFORCE draws S items a context of the policy
itself, which takes all P scores. The paper draws them of a proposal and weights them: uniform (eps
1), or a mixture of uniform, with the share eps, and the K best candidates of a search. %s

`scripts/paper/` has the experiments, and `scripts/paper/report.lua` wrote this page from
[results.csv](results.csv), which has a line for each run.]]):format(programs(all),
    trained(worlds))))
  put_claims(worlds)
  put_reasons(worlds)
  local served = put_worth()
  put_notes()
  flush "README.md"
  say "# The paper's experiments: all tables\n"
  put_worlds(worlds)
  for _, w in ipairs(worlds) do
    say("## %s\n", w.title)
    put_verdicts(w)
    for _, e in ipairs(shown_of(w)) do put_experiment(w, e) end
  end
  if #served > 0 then
    say "## What is served\n"
    put_table(served)
  end
  flush "results.md"
end

write()
