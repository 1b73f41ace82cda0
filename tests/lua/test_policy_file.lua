-- Policies as files: equal to the bit, and what is damaged or foreign gets a sentence.
local lu = require "luaunit"
local fopo = require "fopo"

local d = fopo.data.synthetic{users = 200, items = 120, clusters = 6, mean_items = 20, seed = 3}
local s = d:sessions{min_items = 5, seed = 1}
local items = fopo.embed.svd(s.train, {dim = 5})
local folder = os.tmpname()
os.remove(folder)
assert(require("fopo.native").make_folder(folder))
local path = folder .. "/policy.npz"

local function same(a, b) lu.assertEquals(a:totable(), b:totable()) end

local function refused(part, f, ...)
  local ok, why = pcall(f, ...)
  lu.assertFalse(ok, "an error was expected: " .. part)
  lu.assertStrContains(why, part)
  lu.assertStrContains(why, "test_policy_file.lua:")
  lu.assertNil(why:find("\n", 1, true), why)
end

local function bytes(name)
  local f <close> = assert(io.open(name, "rb"))
  return f:read("a")
end

local function write(name, content)
  local f <close> = assert(io.open(name, "wb"))
  f:write(content)
end

-- Runs a piece of Python on z, the members of a file, and writes them back, for each {path, code}
-- of the list; false if there is no NumPy.
local python = os.getenv("PYTHON") or "/usr/bin/python3"
local has_numpy = os.execute(python .. " -c 'import numpy' 2>/dev/null")
local function change(list)
  if not has_numpy then
    print("skip changed members: NumPy is not here")
    return false
  end
  local lines = {"import numpy as np"}
  for _, one in ipairs(list) do
    lines[#lines + 1] = ("z = dict(np.load(%q))\n%s\nnp.savez(%q, **z)"):format(
      one[1], one[2], one[1])
  end
  write(folder .. "/change.py", table.concat(lines, "\n") .. "\n")
  assert(os.execute(("%s %s/change.py"):format(python, folder)))
  return true
end

local makers = {
  linear = function()
    return fopo.policy.linear{items = items, theta = fopo.array.randn(5, 5, 2), contexts = "unit",
                              temperature = 0.1}
  end,
  features = function()
    return fopo.policy.linear{items = items, context_dim = 3, seed = 4, rows = "float16"}
  end,
  learnt = function()
    local pi = fopo.policy.linear{items = items, train_items = true, seed = 5}
    pi:set_items(fopo.array.randn(120, 5, 6))
    return pi
  end,
  network = function()
    return fopo.policy.mlp{items = items, hidden = {7, 3}, activation = "relu", contexts = "unit",
                           temperature = 1 / 3, seed = 8}
  end,
}

TestPolicyFile = {}

function TestPolicyFile:test_round_trip()
  for name, make in pairs(makers) do
    local pi = make()
    pi:save(path)
    local again = fopo.policy.load(path)
    for _, field in ipairs{"kind", "n_items", "dim", "context_dim", "n_params", "temperature",
                           "contexts", "train_items", "rows", "hidden", "activation"} do
      lu.assertEquals(again[field], pi[field], name .. "." .. field)
    end
    same(again:theta(), pi:theta())
    same(again:items(), pi:items())
    same(again:initial_items(), pi:initial_items())
    if name ~= "features" then
      local a, b = pi:recommend(7, 9), again:recommend(7, 9, {data = d})
      lu.assertEquals(#b, 9)
      for i = 1, 9 do lu.assertEquals(b[i], a[i]) end
      lu.assertEquals(again:recommend({items = {d:item_name(3)}}, 2)[1].name,
                      pi:recommend({items = {3}}, 2)[1].name)
    end
    local first = bytes(path)
    again:save(path)
    lu.assertEquals(bytes(path), first, name)
  end
end

function TestPolicyFile:test_names()
  local file = folder .. "/names.csv"
  write(file, 'user,item\nu,"Brazil, 1985"\nu,Alien\nv,Ünder\nv,Alien\n')
  local named = fopo.data.read(file)
  local pi = fopo.policy.linear{items = fopo.array.randn(3, 2), theta = "identity"}
  pi:save(path, {data = named})
  local again = fopo.policy.load(path)
  lu.assertEquals(again:recommend({items = {"Brazil, 1985"}}, 2, {exclude = {"Ünder"}})[2].item,
                  pi:recommend({items = {1}}, 2, {exclude = {3}})[2].item)
  lu.assertEquals(again:recommend("u", 1, {data = named})[1].name, "Ünder")
  refused('did you mean "Alien"', again.recommend, again, {items = {"alien"}}, 1)
  refused("knows no users", again.recommend, again, 1, 1)
  pi:save(path)
  refused("have no names", fopo.policy.load(path).recommend, fopo.policy.load(path),
          {items = {"Alien"}}, 1)
  refused("the data have 3 items but the policy has 120", makers.linear().save, makers.linear(),
          path, {data = named})
end

function TestPolicyFile:test_items_file()
  local file = folder .. "/items.npy"
  items:save(file)
  for _, name in ipairs{"linear", "learnt", "network"} do
    local pi = makers[name]()
    pi:save(path, {items = file})
    lu.assertTrue(#bytes(path) < 8000 or name == "learnt")
    for _, given in ipairs{false, file, items} do
      local again = fopo.policy.load(path, given and {items = given} or nil)
      same(again:initial_items(), items)
      same(again:items(), pi:items())
    end
  end
  local pi = makers.linear()
  pi:save(path, {items = file})
  local moved = folder .. "/moved"
  assert(require("fopo.native").make_folder(moved))
  os.rename(path, moved .. "/policy.npz")
  os.rename(file, moved .. "/items.npy")
  same(fopo.policy.load(moved .. "/policy.npz"):initial_items(), items)
  local other = items:copy()
  other:set(120, 5, 0.25)
  refused("their CRC differs", fopo.policy.load, moved .. "/policy.npz", {items = other})
  refused("[3, 5] but the policy was made with [120, 5]", fopo.policy.load,
          moved .. "/policy.npz", {items = fopo.array.randn(3, 5)})
  other:save(moved .. "/items.npy")
  refused("their CRC differs", fopo.policy.load, moved .. "/policy.npz")
  refused("does not hold the 120 x 5 items", pi.save, pi, path, {items = moved .. "/items.npy"})
  os.remove(moved .. "/items.npy")
  refused("which is not there; give items", fopo.policy.load, moved .. "/policy.npz")
  refused("cannot open", pi.save, pi, path, {items = moved .. "/items.npy"})
  makers.linear():save(path)
  refused("their CRC differs", fopo.policy.load, path, {items = other})
end

function TestPolicyFile:test_damage()
  makers.network():save(path)
  local whole = bytes(path)
  for _, n in ipairs{0, 1, 100, #whole // 2, #whole - 1} do
    write(path, whole:sub(1, n))
    refused(path, fopo.policy.load, path)
  end
  -- One byte of any member is noticed; bytes of the headers of a zip may mean nothing.
  local at = whole:find("NUMPY", 1, true)
  local seen = 0
  while at do
    local place = at + 127 -- the first bytes of the data
    write(path, whole:sub(1, place - 1) .. string.char(whole:byte(place) ~ 1) ..
          whole:sub(place + 1))
    lu.assertFalse((pcall(fopo.policy.load, path)), "byte " .. place)
    seen = seen + 1
    at = whole:find("NUMPY", at + 1, true)
  end
  lu.assertTrue(seen >= 12)
  local pi = makers.linear()
  write(path, "an old file")
  refused("there is no such folder", pi.save, pi, folder .. "/none/policy.npz")
  pi:theta()
  lu.assertEquals(bytes(path), "an old file")
end

function TestPolicyFile:test_foreign()
  d:save(path)
  refused("is a dataset, not a policy; fopo.data.read(path) reads it", fopo.policy.load, path)
  items:save(path)
  refused("holds no policy", fopo.policy.load, path)
  refused("holds no index", fopo.index.load, path, items)
  local t = fopo.trainer{policy = makers.linear(), data = s.train,
                         gradient = fopo.gradient.exact{}}
  refused("holds no checkpoint", t.resume, t, path)
  t:save(path)
  refused("is the checkpoint of a trainer", fopo.policy.load, path)
  refused("cannot open", fopo.policy.load, folder .. "/nothing")
end

function TestPolicyFile:test_members()
  local list = {}
  local function check(part, make, code)
    local one = {("%s/%d.npz"):format(folder, #list), code, part}
    make():save(one[1])
    list[#list + 1] = one
  end
  local linear, network, learnt = makers.linear, makers.network, makers.learnt
  check("another version of this program: its format is \"fopo policy 2\"", linear,
        'z["format"] = np.array(b"fopo policy 2")')
  check('its kind is "tree"', linear, 'z["kind"] = np.array(b"tree")')
  check("has no member 'kind'", linear, 'del z["kind"]')
  check("has no member 'theta'", linear, 'del z["theta"]')
  check("theta has nan at row 2, column 1", linear, 'z["theta"][1, 0] = np.nan')
  check("items has inf at row 120", linear, 'z["items"][119, 0] = np.inf')
  check("items is 120 x 4", linear, 'z["items"] = z["items"][:, :4]')
  check("theta is 0 x 5", linear, 'z["theta"] = z["theta"][:0]')
  check("'theta' has 1 dimensions", linear, 'z["theta"] = z["theta"][0]')
  check("its temperature is 0", linear, 'z["temperature"] = np.float32(0)')
  check("its temperature is nan", linear, 'z["temperature"] = np.float32("nan")')
  check('its contexts is "sum"', linear, 'z["contexts"] = np.array(b"sum")')
  check("the names of its items do not fit", linear,
        'z["items_numbers"] = np.arange(7)')
  check("has no member 'items_file'", linear, 'del z["items"]')
  check("do not name items of dimension 5", linear, 'del z["items"]; z["items_crc"] = 1; '
        .. 'z["items_file"] = np.array(b"x.npy"); z["items_shape"] = np.array([3, 4])')
  check("learnt_items is 119 x 5", learnt, 'z["learnt_items"] = z["learnt_items"][1:]')
  check("b2 is 2 x 1", network, 'z["b2"] = z["b2"][1:]')
  check("W2 is 6 x 3", network, 'z["W2"] = z["W2"][1:]')
  check("its network has 1 layers", network, 'del z["W2"]')
  check("items is 120 x 5", network, 'del z["W3"]')
  check("has no member 'b3'", network, 'del z["b3"]')
  check("more than 3 layers", network, 'z["W4"] = np.eye(5); z["b4"] = np.zeros(5)')
  check('its activation is "sin"', network, 'z["activation"] = np.array(b"sin")')
  local function of_nearest(n)
    return fopo.policy.neighbours{data = s.train, start = "cosine", n = n, held = 0}
  end
  local function neighbours() return of_nearest(5) end
  for _, code in ipairs{'z["weights_indptr"][0] = 1', 'z["weights_indptr"][-1] -= 1',
                        'z["weights_indptr"][3] += np.uint64(1 << 40)',
                        'z["weights_indptr"][3] = z["weights_indptr"][4] + np.uint64(1)',
                        'z["weights_indptr"] = z["weights_indptr"][:0]',
                        'z["weights_ids"][int(z["weights_indptr"][1]) - 1] = 120',
                        'z["weights_ids"][1] = z["weights_ids"][0]'} do
    check("its weights are not rows of items", neighbours, code)
  end
  -- rows of one item, of which one ends before it begins and no other is out of order
  check("its weights are not rows of items", function() return of_nearest(1) end,
        'i = z["weights_ids"].astype(int)\n'
        .. 'k = next(k for k in range(1, 99) if i[k - 1] < i[k] < i[k + 1])\n'
        .. 'z["weights_indptr"][k:k + 2] = k + 1, k')
  check("log_m has 119 numbers, but 120 belong", neighbours, 'z["log_m"] = z["log_m"][1:]')
  check("log_m has nan at row 1, column 3", neighbours, 'z["log_m"][2] = np.nan')
  check("weights has inf at row 1, column 5", neighbours, 'z["weights"][4] = np.inf')
  local function hybrid()
    local dense = fopo.policy.mlp{items = fopo.embed.svd(s.train, {dim = 4}), hidden = {3}}
    return fopo.policy.neighbours{data = s.train, start = "cosine", held = 0, dense = dense}
  end
  check("its dense part is no policy", hybrid,
        'z["dense_kind"] = np.array(b"neighbours")')
  check("its dense part is no policy", hybrid, 'z["dense_start"] = np.array(0.0)')
  check('its dense_kind is "sin"', hybrid, 'z["dense_kind"] = np.array(b"sin")')
  check("has no member 'b2'", hybrid, 'del z["b2"]')
  check('its activation is "sin"', hybrid, 'z["activation"] = np.array(b"sin")')
  check("its scored is", hybrid, 'z["scored"] = np.array(b"some")')
  if not change(list) then return end
  for _, one in ipairs(list) do
    local why = select(2, pcall(fopo.policy.load, one[1]))
    lu.assertStrContains(why, one[1])
    refused(one[3], fopo.policy.load, one[1])
  end
end

-- What later versions added may be missing, and numbers may be of other types.
function TestPolicyFile:test_old_file()
  local pi = makers.linear()
  pi:save(path)
  if not change{{path, 'del z["contexts"], z["rows"], z["items_numbers"]\n'
                       .. 'z["theta"] = z["theta"].astype("f8").T.copy().T'}} then return end
  local again = fopo.policy.load(path)
  lu.assertEquals({again.contexts, again.rows}, {"mean", "float32"})
  same(again:theta(), pi:theta())
end

-- What a policy was made of, as NumPy reads it, and as the policy that is loaded says it.
function TestPolicyFile:test_provenance()
  local csv = folder .. "/interactions.csv"
  write(csv, "user,item\n" .. ("1,1\n1,2\n1,3\n2,1\n2,3\n3,2\n3,3\n4,1\n4,2\n4,3\n"))
  local all = fopo.data.read(csv)
  local split = all:sessions{min_items = 2, valid = 0, test = 0.25}
  local pi = fopo.policy.linear{items = fopo.embed.svd(split.train, {dim = 2})}
  fopo.trainer{policy = pi, data = split.train, seed = 7, batch = 2, valid = false}
    :run{steps = 3, view = false}
  pi:save(path)
  lu.assertNil(tostring(fopo.policy.load(path)):find("reward 0"))
  local e = fopo.evaluate(pi, split.test, {k = 2})
  pi:save(path)
  local made = fopo.policy.load(path)
  local said = tostring(made):gsub("\n +", " ")
  for _, part in ipairs{"data: " .. csv .. ", 4 users, 3 items, 10 interactions", "split: 3 train",
                        "trained: 3 steps of 2 contexts, seed 7; gradient head and tail",
                        ("test, 1 contexts, X left out: reward %.4f (%.4f - %.4f)"):format(e.reward,
                         e.low, e.high)} do
    lu.assertStrContains(said, part)
  end
  made:save(path) -- it keeps what it knows, but no measures of other parameters
  lu.assertStrContains(tostring(fopo.policy.load(path)):gsub("\n +", " "), "test, 1 contexts")
  made:set_theta(fopo.array.randn(2, 2, 1))
  made:save(path)
  said = tostring(fopo.policy.load(path)):gsub("\n +", " ")
  lu.assertNil(said:find("test, 1 contexts", 1, true))
  lu.assertStrContains(said, "trained: 3 steps")
  pi:save(path)
  if not change{{path, 'import json; p = json.loads(z["provenance"].item()); '
                       .. 'assert p["training"]["seed"] == 7 and len(p["data"]["crc32"]) == 8; '
                       .. 'z["provenance"] = np.bytes_(b"[1")'}} then return end
  refused("its provenance is no JSON object", fopo.policy.load, path)
end

-- The checksum knows every interaction.
function TestPolicyFile:test_checksum()
  local crc, seen = require("fopo.native").dataset_crc, {}
  for _, rows in ipairs{"1,1\n1,2\n2,1\n", "1,1\n1,2\n2,2\n", "1,1\n2,1\n2,2\n"} do
    write(folder .. "/c.csv", rows)
    local sum = crc(fopo.data.read(folder .. "/c.csv", {header = false}))
    lu.assertEquals(sum, crc(fopo.data.read(folder .. "/c.csv", {header = false})))
    lu.assertNil(seen[sum])
    seen[sum] = true
  end
end

local status = lu.LuaUnit.run("-o", "text")
os.execute("rm -rf " .. folder)
os.exit(status, true)
