-- Small synthetic worlds to teach with: the presets of fopo.data.synthetic, and a picture of each.
local native = require "fopo.native"
local define = require "fopo.base.define"
local worlds, made = {}, setmetatable({}, {__mode = "k"}) -- world -> {data, preset, seed}

worlds.presets = {
  bandit = {users = 2000, items = 10, clusters = 1, tastes = 1, mean_items = 3, zipf = 0.7,
            noise = 0},
  geometry = {users = 2000, items = 120, clusters = 3, tastes = 1, mean_items = 15},
  popularity = {users = 2000, items = 1000, clusters = 20, tastes = 2, mean_items = 20,
                zipf = 1.3, appeal = 1.5},
  unit_norms = {users = 4000, items = 100, clusters = 5, tastes = 1, mean_items = 15,
                zipf = 0.001, noise = 0, spread = 0.2},
}

-- How many users took each item, as a list.
local function users_of(d)
  local count = {}
  for a = 1, d.n_items do count[a] = 0 end
  for u = 1, d.n_users do
    for _, a in ipairs(d:row(u):totable()[1]) do count[a] = count[a] + 1 end
  end
  return count
end

local function embedded(d, dim)
  return require("fopo.embed").svd(d:sessions{min_items = 2, valid = 0, test = 0.1}.train,
                                   {dim = dim})
end

local function falling(list)
  table.sort(list, function(x, y) return x > y end)
  return list
end

-- Each returns the series of a picture, with its options, of {data, world, seed}.
local pictures = {}

function pictures.bandit(d)
  local shares = users_of(d)
  for a, n in ipairs(shares) do shares[a] = n / d.n_users end
  return {{y = shares, name = "share of the users", style = "points"},
          title = "a bandit of ten arms", xlabel = "arm"}
end

function pictures.geometry(d, w)
  local items, list = embedded(d, 2), {title = "items: taste is a direction, popularity a norm"}
  for c = 1, w.clusters do
    list[c] = {x = {}, y = {}, name = ("taste %d"):format(c), style = "points"}
  end
  for a = 1, d.n_items do
    local of = list[w:cluster(a)]
    of.x[#of.x + 1], of.y[#of.y + 1] = items:get(a, 1), items:get(a, 2)
  end
  return list
end

function pictures.popularity(d)
  local count, list = falling(users_of(d)), {}
  for rank, n in ipairs(count) do if n > 0 then list[rank] = n end end
  return {{y = list, name = "users of an item", style = "points"}, title = "popularity",
          xlabel = "rank of the item", logx = true, logy = true}
end

function pictures.unit_norms(d, w, seed)
  local function norms(data)
    local list = {}
    for a, n in ipairs(embedded(data, w.clusters):norm("rows"):totable()) do list[a] = n[1] end
    return falling(list)
  end
  local options = {}
  for name, value in pairs(worlds.presets.unit_norms) do options[name] = value end
  options.zipf, options.seed, options.users, options.items = 1, seed, d.n_users, d.n_items
  return {{y = norms(d), name = "this world"},
          {y = norms((native.data_synthetic(options))), name = "zipf = 1"},
          title = "norms of the items", xlabel = "rank of the item"}
end

-- Notes what `world` was made of.
function worlds.note(world, d, o) made[world] = {d, o.preset or "popularity", o.seed} end

native.types.world.picture = define.fn{
  name = "world:picture", returns = "table",
  args = {{"w", "world", nil, "the world"},
          {"path", "string", nil, "an .svg or .png to write, by gnuplot; if left out the picture "
           .. "is printed", optional = true}},
  text = [[What a world looks like, and the series that fopo.plot draws it of. Of the presets of
fopo.data.synthetic: bandit, how many users took each arm; geometry, its items in the plane, by
taste; popularity, and worlds without a preset, the users of the items by rank; unit_norms, the
norms of its items beside those of a world of Zipf's law.]],
  example = [[d, world = fopo.data.synthetic{preset = "geometry"}
series = world:picture()
assert(#series == 3 and series[1].name == "taste 1")]],
  call = function(w, path)
    local d, preset, seed = table.unpack(made[w])
    local plot, series = require "fopo.plot", pictures[preset](d, w, seed)
    if path then plot.save(path, series) else plot(series) end
    return series
  end,
}

return worlds
