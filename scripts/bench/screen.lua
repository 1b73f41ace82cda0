-- Section view: the live view's share of the CPU time at ten drawings a second, from view.lua.
local bench = require "bench"
local screen = {}

function screen.view()
  local p <close> = assert(io.popen(("%s %s rounds=3 seconds=%g"):format(bench.fopo,
    bench.path("view.lua"), 10 * bench.options.sample)))
  for line in p:lines() do
    local dim, size, own, drawn = line:match("^(%d+),([^,]*),([^,]*),([^,]*)$")
    if dim then
      bench.row{what = ("L = %s, terminal %s"):format(dim, size), unit = "%",
                mine = {100 * tonumber(own)}, against = "1 % of the CPU time", other = {1},
                target = 1}
      if tonumber(drawn) < 5 then bench.note("%s: only %s drawings a second", size, drawn) end
    else
      bench.note("%s", line)
    end
  end
end

return screen
