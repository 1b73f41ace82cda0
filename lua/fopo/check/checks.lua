-- The checks of fopo.check, in the order of the report. Each is a function that adds rows to the
-- report. It uses the same calls as any script, and compares with numbers found another way:
-- differences in double, frequencies, exact search.
--
-- Their argument c holds: pi, x (all contexts), rows (those that are measured), picked (their
-- contexts), reward, gradients, seed, samples, repetitions, recall, index or nil, oracle (an exact
-- index), many (contexts for searches), and two functions: add(name, measured, bound, ok) and
-- skip(name, why). The first check adds the reference values that the others compare with.
local draws = require "fopo.check.draws"
local machine = require "fopo.check.machine"

return {
  require "fopo.check.differences",
  draws.frequencies,
  draws.densities,
  require "fopo.check.means",
  require "fopo.check.slates",
  require "fopo.check.search",
  machine.threads,
  machine.devices,
}
