-- Rank 0 does it, and all ranks fail if it fails.
local native = require "fopo.native"

return function(f, ...)
  local ok, why = true, nil
  if native.ranks() == 0 then ok, why = pcall(f, ...) end
  local failed = native.share(ok and "" or tostring(why))
  if failed ~= "" then error(failed, 0) end
end
