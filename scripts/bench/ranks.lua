-- Section ranks: training over items that are dealt out to processes of this machine.
local bench = require "bench"
local ranks = {}

local function number_of(command) return tonumber(bench.line_of(command) or "") end

-- Why the section cannot run here, or nil. The items go through the page cache, which gives way.
local function lacking(bytes, start)
  if not bench.line_of("command -v mpirun") then return "there is no mpirun" end
  if number_of(start .. " -e 'print(fopo.ranks().size)' 2>/dev/null") ~= bench.options.ranks then
    return "mpirun does not start fopo here (make builds fopo_mpi.so where mpicc is)"
  end
  local gb = (number_of("awk '/MemAvailable/ {print $2}' /proc/meminfo") or 0) * 1024 / 1e9
  local free = (number_of(("df -Pk %s | awk 'NR == 2 {print $4}'"):format(bench.folder)) or 0)
    * 1024 / 1e9
  if gb < 1.3 * bytes / 1e9 then
    return ("%.1f GB of memory are needed, %.1f are free"):format(1.3 * bytes / 1e9, gb)
  elseif free < 1.1 * bytes / 1e9 then
    return ("%.1f GB of disk are needed in %s, %.1f are free"):format(1.1 * bytes / 1e9,
                                                                      bench.folder, free)
  end
end

-- A table of the numbers of each rank's line "rank 0 held 12 ...".
local function run(command)
  local list = {}
  local p <close> = assert(io.popen(command, "r"))
  for line in p:lines() do
    local one = {}
    for name, value in line:gmatch("(%a+) ([%d.]+)") do one[name] = tonumber(value) end
    if one.rank then list[#list + 1] = one end
  end
  return list
end

function ranks.ranks()
  local R, P, L = bench.options.ranks, bench.scaled(20000000), 64
  local start = ("FOPO_THREADS=%d OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun "
    .. "-n %d --oversubscribe --bind-to none %s"):format(
      math.max(1, bench.options.threads // R), R, bench.fopo)
  local why = lacking(P * L * 4, start)
  if why then
    bench.note("skipped: %s", why)
    return
  end
  local path = bench.items_file(P, L)
  local list = run(("%s %s %s"):format(start, bench.path("../../tests/ranks_large.lua"), path))
  bench.forget(path)
  if #list ~= R then error(("%d of %d ranks have answered"):format(#list, R), 0) end
  local peaks, steps, work = {}, {}, {}
  for i, one in ipairs(list) do
    peaks[i], steps[i] = one.peak * 2 ^ 20 / 1e9, one.ms / 1e3
    work[i] = (one.ms - one.waiting) / 1e3
  end
  local what = ("%d x %d on %d ranks"):format(P, L, R)
  bench.row{what = what .. ", peak of one", unit = "GB", mine = peaks, against = "its part",
            other = {P * (4 * L + 10) / R / 1e9}, target = 1.25}
  bench.row{what = what .. ", a step", unit = "s", mine = steps, against = "its work outside MPI",
            other = work}
  bench.row{what = what .. ", sent by one", unit = "kB", mine = {list[1].bytes / 1e3},
            against = "v and sums of 32 contexts", other = {32 * (12 * L + 60) / 1e3},
            target = 1}
end

return ranks
