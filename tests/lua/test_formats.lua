-- The tables of readers as Lua sees them: names that work, help, and advice that can be followed.
local lu = require "luaunit"
local fopo = require "fopo"
local native = require "fopo.native"
local define = require "fopo.base.define"

local function fails(part, f, ...) lu.assertErrorMsgContains(part, f, ...) end

local function names_of(list)
  local names = {auto = true}
  for i = 1, #list, 2 do names[list[i]] = true end
  return names
end

local function choices(name)
  for _, option in ipairs(define.entries[name].options) do
    if option[1] == "format" then return option.one_of end
  end
end

TestFormats = {}

function TestFormats:test_help_and_choices_are_the_table()
  for name, list in pairs{["fopo.data.read"] = native.data_formats(),
                          ["fopo.data.logs"] = native.logs_formats()} do
    local one_of = choices(name)
    lu.assertEquals(one_of[1], "auto")
    lu.assertEquals(#one_of, 1 + #list / 2)
    for i = 1, #list, 2 do
      lu.assertEquals(one_of[1 + (i + 1) // 2], list[i])
      lu.assertStrContains(define.entries[name].text, "  " .. list[i] .. " ")
      lu.assertStrContains(define.entries[name].text, list[i + 1])
    end
  end
end

-- One file for each format of interactions, read by its name.
function TestFormats:test_every_name_reads()
  local pairs_file, mtx, npz = os.tmpname(), os.tmpname(), os.tmpname()
  local function write(path, s)
    local f <close> = assert(io.open(path, "w"))
    f:write(s)
  end
  write(pairs_file, "1,2\n1,3\n2,3\n")
  write(mtx, "%%MatrixMarket matrix coordinate pattern general\n2 3 3\n1 2\n1 3\n2 3\n")
  fopo.data.read(pairs_file):save(npz)
  local files = {
    npz = npz, mtx = mtx, lists = "tests/fixtures/kgat.txt", pairs = pairs_file,
    counted = "tests/fixtures/citeulike.dat", baskets = "tests/fixtures/fimi.dat",
    goodreads = "tests/fixtures/goodreads.csv", movielens = "tests/fixtures/ratings_ml1m.dat"}
  local twitch = os.tmpname()
  write(twitch, "1,33842865744,mithzz,154,156\n1,33846768288,alptv,166,169\n")
  files.twitch = twitch
  for name, file in pairs(files) do
    local d = fopo.data.read(file, {format = name})
    lu.assertEquals(d.format, name)
    lu.assertTrue(d.nnz > 0)
  end
  for _, path in ipairs{pairs_file, mtx, npz, twitch} do os.remove(path) end
end

-- Baskets look like lists. The advice of the sentence, followed, reads them.
function TestFormats:test_baskets_and_counted()
  local path = "tests/fixtures/fimi.dat"
  fails('say format = "baskets"', fopo.data.read, path)
  local d = fopo.data.read(path, {format = "baskets"})
  lu.assertEquals({d.format, d.n_users, d.n_items, d.nnz}, {"baskets", 3, 6, 9})
  lu.assertEquals(d:row(3):totable(), {{1, 3, 6}})
  d = fopo.data.read("tests/fixtures/citeulike.dat", {format = "counted"})
  lu.assertEquals({d.format, d.n_users, d.n_items, d.nnz}, {"counted", 4, 8, 6})
  lu.assertEquals(fopo.data.read("tests/fixtures/citeulike.dat").format, "counted")
  fails("options of pairs", fopo.data.read, path, {format = "baskets", user = 1})
  fails('did you mean "baskets"', fopo.data.read, path, {format = "basket"})
  fails("none of auto, npz", native.data_read, path, {format = "basket"})
end

-- A list of files is one dataset; what is no list of paths is refused before anything is read.
function TestFormats:test_list_of_files()
  local path = os.tmpname()
  local f = io.open(path, "w")
  f:write("user,item\nann,4\nbob,5\n")
  f:close()
  local d = fopo.data.read({path, "tests/fixtures/kgat.txt", path})
  lu.assertEquals(d.format, "mixed")
  local alone = fopo.data.read("tests/fixtures/kgat.txt")
  lu.assertEquals({d:find_user("ann"), d:find_user("bob"), d.repeats}, {1, 2, 2 + alone.repeats})
  local _, values = d:row(1)
  lu.assertEquals(values, {2})
  lu.assertEquals(fopo.data.read({path}).format, "pairs")
  fails("the list of files is empty", fopo.data.read, {})
  fails("not a list with 2 = true", fopo.data.read, {path, true})
  fails('not a list with format = "pairs"', fopo.data.read, {path, format = "pairs"})
  fails("has 3 fields where", fopo.data.read, {path, "tests/fixtures/kgat.txt"}, {format = "pairs"})
  fails("line i is user i", fopo.data.read, {path, "tests/fixtures/citeulike.dat"})
  fails("the list of files is empty", native.data_read, {}, {})
  fails("path must be a string", native.data_read, {path, 1}, {})
  os.remove(path)
end

-- No sentence and no text of help names a format that does not exist.
function TestFormats:test_advice_names_formats_that_exist()
  local known = names_of(native.data_formats())
  for name in pairs(names_of(native.logs_formats())) do known[name] = true end
  local found = 0
  local files <close> = assert(io.popen(
    "find src/data src/bind lua README.md -type f \\( -name '*.[ch]' -o -name '*.def' "
    .. "-o -name '*.lua' -o -name '*.md' \\)"))
  for path in files:lines() do
    local f <close> = assert(io.open(path))
    for name in f:read("a"):gmatch('format%s*=%s*"?%s*"?\\?"?([%l%d_]+)\\?"') do
      found = found + 1
      lu.assertTrue(known[name], ("%s names the format %q"):format(path, name))
    end
  end
  lu.assertTrue(found >= 8)
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
