-- Options of fopo.data.read, whoever reads the file.
local reading = {}

-- The checked options o as the readers in C take them; changes o.
function reading.options(o)
  if o.time == true then o.time = nil end
  if o.time == false then o.time = "" end
  for _, column in ipairs{"user", "item", "value", "time"} do
    if o[column] then o[column] = tostring(o[column]) end
  end
  if o.header ~= nil then o.header = o.header and "yes" or "no" end
  return o
end

return reading
