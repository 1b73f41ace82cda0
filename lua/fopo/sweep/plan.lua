-- The runs of a sweep: every combination of the values of its settings, for every split and seed.
local csv = require "fopo.base.csv"
local define = require "fopo.base.define"
local events = require "fopo.run.events"

local plan = {}

local plain = {number = true, integer = true, string = true, boolean = true}

local function refuse(name, value)
  define.fail("fopo.experiment.sweep: over.%s has %s; give it a name, as %s = {NAME = ...}, for "
              .. "the rows and the tables", name, define.a(value), name)
end

-- {word, value} of each value of a setting: a number, a string or a boolean alone, a list of them,
-- or a table of anything by name.
local function values_of(name, given)
  if plain[define.kind(given)] then return {{given, given}} end
  if type(given) ~= "table" or getmetatable(given) then refuse(name, given) end
  local list = {}
  for i, value in ipairs(given) do
    if not plain[define.kind(value)] then refuse(name, value) end
    list[i] = {value, value}
  end
  for _, word in ipairs(#given == 0 and define.names_in(given) or {}) do
    list[#list + 1] = {word, given[word]}
  end
  if #list == 0 then define.fail("fopo.experiment.sweep: over.%s has no value", name) end
  return list
end

-- The combinations of a grid, {words = by name, values = by name}. The last name changes fastest.
local function combinations(grid)
  local list = {{words = {}, values = {}}}
  for _, name in ipairs(define.names_in(grid)) do
    local longer = {}
    for _, one in ipairs(list) do
      for _, pair in ipairs(values_of(name, grid[name])) do
        local more = {words = {}, values = {}}
        for key, word in pairs(one.words) do
          more.words[key], more.values[key] = word, one.values[key]
        end
        more.words[name], more.values[name] = table.unpack(pair)
        longer[#longer + 1] = more
      end
    end
    list = longer
  end
  return list
end

-- The text that tells a run from others: the settings of a row, without those that it lacks.
function plan.key(row, names)
  local parts = {}
  for i, name in ipairs(names) do
    local v = row[name]
    if type(v) == "number" then v = ("%.9g"):format(v) end
    parts[i] = v ~= nil and name .. "=" .. csv.field(v) or ""
  end
  table.sort(parts)
  return (table.concat(parts, "|"):gsub("^|+", ""))
end

-- What a split is in a row: its place in the list, its sizes, and a number of its test users, which
-- differ where another seed split the data.
local function split_word(split, i)
  local users = {}
  for n = 1, math.min(100, split.test.n) do users[n] = split.test:user(n) end
  return ("%d: %d items; %d train; %d test; %08x"):format(i, split.train.n_items, split.train.n,
    split.test.n, events.crc32c(table.concat(users, " ")))
end

-- The seeds and the splits of a grid that has none of its own.
local function repeats(o)
  local seeds, list, words = o.seeds, {}, {}
  if type(seeds) == "number" then
    seeds = {}
    for i = 1, o.seeds do seeds[i] = i end
  end
  for i, split in ipairs(o.splits or {}) do words[i] = split_word(split, i) end
  for i = 1, math.max(1, #words) do
    for _, seed in ipairs(seeds) do list[#list + 1] = {seed = seed, split = i, word = words[i]} end
  end
  return list
end

local reserved = {split = "which is the option split", error = "a column of what went wrong",
                  machine = "a column of what a run was made on"}

-- {runs = {{row =, settings =, key =, group =}, ...}, names = of the settings, seed the last}: the
-- rows have words for what the settings have as values; runs that differ in seed and split alone
-- have one group. o: over, a grid or a list of them, seeds, and splits,
-- a list or nil. Seeds change slowest, so that what has ended of a sweep is comparable.
function plan.of(o)
  local grids, names, known = #o.over > 0 and o.over or {o.over}, {}, {seed = true, split = true}
  local p, have = {runs = {}}, {}
  for _, grid in ipairs(grids) do
    if type(grid) ~= "table" then
      define.fail("fopo.experiment.sweep: over is a table of settings, {lr = {1e-3, 1e-2}}, or a "
                  .. "list of such tables, not a list with %s", define.a(grid))
    end
    for _, name in ipairs(define.names_in(grid)) do
      if reserved[name] then
        define.fail("fopo.experiment.sweep: over has %s, %s", name, reserved[name])
      end
      if not known[name] then names[#names + 1], known[name] = name, true end
    end
  end
  table.sort(names)
  local settings = table.move(names, 1, #names, 1, {})
  if o.splits then names[#names + 1] = "split" end
  names[#names + 1] = "seed"
  p.names = names
  local function add(one, again)
    local run = {row = {}, settings = {}}
    for name, word in pairs(one.words) do
      run.row[name], run.settings[name] = word, one.values[name]
    end
    run.row.seed = one.words.seed or again.seed
    run.row.split = again.word
    run.settings.seed, run.settings.split = run.row.seed, o.splits and o.splits[again.split]
    run.key, run.group = plan.key(run.row, names), plan.key(run.row, settings)
    if have[run.key] then return end
    have[run.key], p.runs[#p.runs + 1] = run, run
  end
  for _, again in ipairs(repeats(o)) do
    for _, grid in ipairs(grids) do
      for _, one in ipairs(combinations(grid)) do add(one, again) end
    end
  end
  p.by_key = have
  return p
end

-- The settings of the runs that have more than one word, without seed and split.
function plan.varied(runs, names)
  local list = {}
  for _, name in ipairs(names) do
    local first, differs = runs[1] and runs[1].row[name], false
    for _, run in ipairs(runs) do differs = differs or run.row[name] ~= first end
    if differs and name ~= "seed" and name ~= "split" then list[#list + 1] = name end
  end
  return list
end

-- "lr 0.01, samples 50" of a row.
function plan.words(row, names)
  local parts = {}
  for _, name in ipairs(names) do
    if row[name] ~= nil then parts[#parts + 1] = name .. " " .. csv.field(row[name]) end
  end
  return table.concat(parts, ", ")
end

return plan
