-- Sections svd, read and wide: embedding interactions, reading them, and finding who is similar.
local fopo = require "fopo"
local bench = require "bench"
local native = require "fopo.native"
local script = require "script"
local files = {}

-- Both find the 100 leading singular vectors of the same 0/1 matrix with two power iterations.
function files.svd()
  local path, out = bench.folder .. "/matrix.npz", bench.folder .. "/singular.npy"
  local sessions
  do
    local d = fopo.data.synthetic{users = bench.scaled(450000), items = bench.scaled(790000),
                                  clusters = 200, mean_items = 11.7, seed = 1}
    sessions = d:sessions{min_items = 2, valid = 0, test = 0, seed = 1}.train
    d:save(path)
  end
  collectgarbage()
  local ours, about
  local function mine(warm)
    if warm then return 0 end
    local seconds, _, singular = bench.time(function()
      return fopo.embed.svd(sessions, {dim = 100, power_iterations = 2})
    end)
    ours = singular
    collectgarbage()
    return seconds
  end
  local function peer(warm)
    if warm then return 0 end
    about = bench.values_of(("%s %s 100 2 2 %s"):format(bench.script("svd_baseline.py"), path, out))
    return about[1]
  end
  local s = bench.in_turn({{"mine", mine}, {"peer", peer}}, bench.options.limit)
  local what = ("embed.svd of %d x %d, %d entries, L = 100"):format(about[2], about[3], about[4])
  bench.row{what = what, unit = "s", mine = s.mine, against = "NumPy and SciPy", other = s.peer,
            faster = true, target = 3}
  local theirs, captured, of = fopo.array.load(out), 0, 0
  for i, value in ipairs(ours) do
    captured = captured + value ^ 2
    of = of + theirs:get(1, i) ^ 2
  end
  bench.note("squares of the singular values, ours over theirs: %.6f", captured / of)
  os.remove(path)
  os.remove(out)
end

function files.read()
  local rows = bench.scaled(20000000)
  local csv, npz = bench.folder .. "/pairs.csv", bench.folder .. "/pairs.npz"
  bench.run(("%s pairs %d 500000 800000 1 %s"):format(bench.program("world.c", "-lm"), rows, csv))
  local d, memory = nil, {}
  local function read(path, warm)
    d = nil
    collectgarbage()
    if warm and path == npz then fopo.data.read(csv):save(npz) end
    native.memory_mark()
    local before, seconds = fopo.memory().bytes, bench.time(function() d = fopo.data.read(path) end)
    if path == csv and not warm then memory[#memory + 1] = (fopo.memory().peak - before) / 1e9 end
    return seconds
  end
  local cases = {{"csv", function(warm) return read(csv, warm) end},
                 {"npz", function(warm) return read(npz, warm) end}}
  local peers = {}
  for _, program in ipairs{"pandas", "polars"} do
    local command = "%s -c 'import scipy, %s as p; print(p.__version__)' 2>/dev/null"
    local version = bench.line_of(command:format(script.python, program))
    if version then
      local peer = {name = program, version = version, dense = {}, memory = {}}
      peers[#peers + 1] = peer
      cases[#cases + 1] = {program, function(warm)
        local about = bench.values_of(("%s %s %s"):format(bench.script("read_baseline.py"), csv,
                                                          program))
        if not warm then peer.dense[#peer.dense + 1] = about[2] end
        if not warm then peer.memory[#peer.memory + 1] = about[6] end
        peer.rows = about[5]
        return about[1]
      end}
    else
      bench.note("%s skipped: %s does not have it", program, script.python)
    end
  end
  local s = bench.in_turn(cases, bench.options.limit)
  for _, peer in ipairs(peers) do
    local function row(ids, mine, other, unit, target)
      bench.row{what = ("csv of %d rows%s"):format(rows, unit == "GB" and ": memory" or ""),
                unit = unit, mine = mine, against = ("%s + SciPy%s"):format(peer.name, ids),
                other = other, faster = unit == "s", target = target}
    end
    row(", ids as they are", s.csv, s[peer.name], "s", peer.name == "pandas" and 3 or nil)
    row(", ids made dense", s.csv, peer.dense, "s")
    row("", memory, peer.memory, "GB")
    bench.note("%s %s: %d rows counted; ours %s", peer.name, peer.version, peer.rows, d:describe())
  end
  local parquet = bench.folder .. "/pairs.parquet"
  if bench.line_of(("%s %s %s 2>/dev/null"):format(bench.script("read_baseline.py"), csv, parquet))
     == "written" then
    local function columnar()
      return bench.values_of(bench.script("read_baseline.py") .. " " .. parquet)[1]
    end
    local p = bench.in_turn({{"mine", function() return read(parquet) end},
                             {"peer", columnar}}, bench.options.limit)
    bench.row{what = ("Parquet of %d rows"):format(rows), unit = "s", mine = p.mine,
              against = "pyarrow + SciPy", other = p.peer, faster = true, target = 1}
    os.remove(parquet)
  else
    bench.note("Parquet skipped: %s has no pyarrow", script.python)
  end
  bench.row{what = "the cached .npz", unit = "s", mine = s.npz, against = "the csv", other = s.csv,
            faster = true, target = 5}
  os.remove(csv)
  os.remove(npz)
end

-- Item-kNN of a file of pairs, and a policy over it, against reading the file. CPU time: the
-- threads wait for memory, and so for each other.
function files.wide()
  for _, size in ipairs{{users = 500000, items = 1000000}, {users = 1000000, items = 10000000}} do
    local rows, P = bench.scaled(20000000), bench.scaled(size.items)
    local csv, read, built = bench.folder .. "/wide.csv", {}, {}
    bench.run(("%s pairs %d %d %d 1 %s"):format(bench.program("world.c", "-lm"), rows,
                                                bench.scaled(size.users), P, csv))
    collectgarbage()
    native.memory_mark()
    local start = os.clock()
    local d = fopo.data.read(csv)
    read[1] = os.clock() - start
    local train = d:sessions{min_items = 2, valid = 0, test = 0, seed = 1}.train
    start = os.clock()
    local knn = fopo.baseline.item_knn{data = train}
    fopo.policy.neighbours{data = train, start = knn}
    built[1] = os.clock() - start
    bench.row{what = ("neighbours of %d items, %d rows"):format(P, rows), unit = "s", mine = built,
              against = "reading the file (CPU time)", other = read, target = 2}
    bench.note("%s: %.2f GB at the peak", d:describe(), fopo.memory().peak / 1e9)
    os.remove(csv)
  end
end

return files
