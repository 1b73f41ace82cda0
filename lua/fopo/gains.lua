-- fopo.report.groups and fopo.report.coverage: who gains by a policy, and what it shows.
local define = require "fopo.base.define"
local lists = require "fopo.base.lists"
local proportion = require "fopo.base.proportion"
local seen = require "fopo.base.seen"
local text = require "fopo.base.text"
local gains = {}

local function check(name, given)
  for i, one in ipairs(given) do
    local kind = type(one) == "table" and type(one[1]) == "string" and define.kind(one[2])
    if kind ~= "policy" and kind ~= "baseline" then
      define.fail("%s: entry %d is %s, not {name, policy or baseline}", name, i,
                  define.shown(one))
    end
  end
  if #given == 0 then define.fail("%s: the list is empty; give {{name, policy}, ...}", name) end
end

-- The lists of everybody, as tables of ids.
local function all_lists(given, sessions, o)
  local made = {}
  for i, one in ipairs(given) do
    made[i] = lists.of(one[2], sessions, {k = math.min(o.k, sessions.n_items), exclude = o.exclude})
              :totable()
  end
  return made
end

-- Cuts values into `parts` groups of about as many each, equal ones in the same: of each value the
-- number of its group, and {low, high} of each group.
local function cut(values, parts)
  local sorted, edges = table.move(values, 1, #values, 1, {}), {}
  table.sort(sorted)
  for p = 1, parts do
    local edge = sorted[math.max(1, #sorted * p // parts)]
    if edge ~= edges[#edges] then edges[#edges + 1] = edge end
  end
  local group, ranges = {}, {}
  for i, v in ipairs(values) do
    local g = 1
    while v > edges[g] do g = g + 1 end
    ranges[g] = ranges[g] or {low = v, high = v}
    ranges[g].low, ranges[g].high = math.min(ranges[g].low, v), math.max(ranges[g].high, v)
    group[i] = g
  end
  return group, ranges
end

local function set_of(list)
  local is = {}
  for _, id in ipairs(list) do is[id] = true end
  return is
end

-- What is judged: {value, found = {whether list i of everybody finds it}} of each context, or of
-- each item of Y.
local judge = {}

function judge.activity(sessions, made)
  local cases = {}
  for n = 1, sessions.n do
    local case = {value = sessions:x(n).cols, found = {}}
    for i, ids in ipairs(made) do
      case.found[i] = ids[n][1] and ids[n][1] > 0 and sessions:hits(n, ids[n][1])
    end
    cases[n] = case
  end
  return cases
end

function judge.popularity(sessions, made, o)
  local weights, cases = o.data:item_weights("degree"):totable()[1], {}
  for n = 1, sessions.n do
    local shown = {}
    for i, ids in ipairs(made) do shown[i] = set_of(ids[n]) end
    for _, a in ipairs(sessions:y(n):totable()[1] or {}) do
      local case = {value = math.floor(1 / weights[a] + 0.5), found = {}}
      for i in ipairs(made) do case.found[i] = shown[i][a] == true end
      cases[#cases + 1] = case
    end
  end
  return cases
end

local titles = {
  activity = {"items in X", "contexts", "reward by activity: the best item is in Y"},
  popularity = {"users of item", "items of Y", "recall by popularity: an item of Y is in the list"},
}

local function describe(r)
  local rows = {{titles[r.by][1], titles[r.by][2], table.unpack(r.names)}}
  for i, g in ipairs(r) do
    rows[i + 1] = {g.low == g.high and tostring(g.low) or ("%d - %d"):format(g.low, g.high),
                   text.count(g.n)}
    for k in ipairs(r.names) do
      rows[i + 1][k + 2] = ("%.4f (%.3f-%.3f)"):format(g[k], table.unpack(g.interval[k]))
    end
  end
  return text.table(rows) .. "\n" .. titles[r.by][3]
end

local groups = {describe = describe, __tostring = describe}

gains.groups = define.fn{
  name = "fopo.report.groups", returns = "table",
  args = {{"list", "table", nil, "{{name, policy or baseline}, ...}"},
          {"sessions", "sessions", nil, "as s.test"}},
  options = {
    {"by", "string", "activity", "activity: groups of contexts by the number of items in X; "
     .. "popularity: groups of items by the number of training users who took them",
     one_of = {"activity", "popularity"}},
    {"data", "sessions", nil, "popularity: the training sessions, s.train"},
    {"parts", "integer", 5, "groups of about as many each", min = 1},
    {"k", "integer", 20, "popularity: items of a list", min = 1},
    seen.option("as of fopo.evaluate"),
  },
  text = [[Who gains by a policy: the reward (the best item is in Y) of users who took few items and
of those who took many, or how many of the items that users took next are among the first k, of
items that few took and of those that all take. With Wilson's 95 % interval; items of one user are
not independent, so by popularity it is too narrow. The result prints as a table and is one: r[i] is
a group, with low, high, n, r[i][j] of entry j of the list and r[i].interval[j].]],
  example = [[
s = fopo.data.synthetic{users = 400, items = 300, clusters = 8}:sessions{min_items = 10}
pi = fopo.policy.linear{items = fopo.embed.svd(s.train, {dim = 8})}
popular = fopo.baseline.popular{data = s.train}
r = fopo.report.groups({{"popular", popular}, {"svd", pi}}, s.test,
                       {by = "popularity", data = s.train, parts = 3})
print(r)
assert(r[1][2] > r[1][1]) -- of rare items popular finds fewer]],
  call = function(given, sessions, o)
    check("fopo.report.groups", given)
    if o.by == "popularity" and not o.data then
      define.fail("fopo.report.groups: by = \"popularity\" needs data = s.train, whose users say "
                  .. "how popular an item is")
    end
    local made = all_lists(given, sessions, {k = o.by == "activity" and 1 or o.k,
                                             exclude = o.exclude})
    local cases, values = judge[o.by](sessions, made, o), {}
    for i, case in ipairs(cases) do values[i] = case.value end
    if #values == 0 then define.fail("fopo.report.groups: there is nothing to find in Y") end
    local group, r = cut(values, o.parts)
    for _, g in ipairs(r) do
      g.n, g.interval = 0, {}
      for k = 1, #given do g[k] = 0 end
    end
    for i, case in ipairs(cases) do
      local g = r[group[i]]
      g.n = g.n + 1
      for k = 1, #given do g[k] = g[k] + (case.found[k] and 1 or 0) end
    end
    for _, g in ipairs(r) do
      for k = 1, #given do
        g[k] = g[k] / g.n
        g.interval[k] = {proportion.wilson(g[k], g.n)}
      end
    end
    r.by, r.names = o.by, {}
    for k, one in ipairs(given) do r.names[k] = one[1] end
    return setmetatable(r, groups)
  end,
}

local function draw(r) return (require "fopo.plot".text(r)) end

local curves = {describe = draw, __tostring = draw} -- without a name: a table for fopo.plot

gains.coverage = define.fn{
  name = "fopo.report.coverage", returns = "table",
  args = {{"list", "table", nil, "{{name, policy or baseline}, ...}"},
          {"sessions", "sessions", nil, "as s.test"}},
  options = {{"k", "integer", 50, "the longest list", min = 1},
             seen.option("as of fopo.evaluate")},
  text = [[The coverage curve: the share of the catalogue that the first k items of all sessions
show, over k, a series for each entry. The result prints as a plot and is a table for fopo.plot and
fopo.plot.save.]],
  example = [[
s = fopo.data.synthetic{users = 400, items = 300, clusters = 8}:sessions{min_items = 10}
pi = fopo.policy.linear{items = fopo.embed.svd(s.train, {dim = 8})}
r = fopo.report.coverage({{"popular", fopo.baseline.popular{data = s.train}}, {"svd", pi}}, s.test)
print(r)
assert(r[2].y[20] == fopo.evaluate(pi, s.test).coverage[20])]],
  call = function(given, sessions, o)
    check("fopo.report.coverage", given)
    local r = setmetatable({title = "items that lists show", xlabel = "items of a list",
                            ylabel = "share of the catalogue"}, curves)
    for i, all in ipairs(all_lists(given, sessions, o)) do
      local shown, n, series = {}, 0, {x = {}, y = {}, name = given[i][1]}
      for k = 1, math.min(o.k, sessions.n_items) do
        for _, ids in ipairs(all) do
          local id = ids[k]
          if id and id > 0 and not shown[id] then shown[id], n = true, n + 1 end
        end
        series.x[k], series.y[k] = k, n / sessions.n_items
      end
      r[i] = series
    end
    return r
  end,
}

return gains
