-- How a declaration of define.lua reads, for help() and for the manual that is made from it.
local entry = {}

-- "fopo.index.hnsw(items, {...})"
function entry.signature(e)
  if e.signature then return e.signature end
  local parts, name = {}, e.name
  local first = 1
  if name:find(":", 1, true) then
    name, first = e.args[1][1] .. name:match(":.*"), 2
  end
  for i = first, #e.args do parts[#parts + 1] = e.args[i][1] end
  if e.options and #e.options > 0 then
    if #parts == 0 then return name .. "{...}" end
    parts[#parts + 1] = "{...}"
  end
  return name .. "(" .. table.concat(parts, ", ") .. ")"
end

-- The arguments inside the brackets: those of a method without the object itself.
function entry.arguments(e)
  return table.move(e.args, e.name:find(":", 1, true) and 2 or 1, #e.args, 1, {})
end

-- An option's default as one would type it; "needed" if there is none, "-" if it may be left out.
function entry.default(spec)
  local v = spec[3]
  if spec.required then return "needed" end
  if v == nil then return "-" end
  if type(v) == "table" then return "{" .. table.concat(v, ", ") .. "}" end
  return type(v) == "string" and ("%q"):format(v) or tostring(v)
end

-- " (2 to 128)", " (more than 0)": the numbers that are accepted, "" if all are.
function entry.range(spec)
  local least = spec.min and ("%s or more"):format(spec.min) or
    spec.above and ("more than %s"):format(spec.above)
  local most = spec.max and ("at most %s"):format(spec.max) or
    spec.below and ("less than %s"):format(spec.below)
  if spec.min and spec.max then return (" (%s to %s)"):format(spec.min, spec.max) end
  if least and most then return (" (%s, %s)"):format(least, most) end
  return least and (" (%s)"):format(least) or most and (" (%s)"):format(most) or ""
end

-- " (auto, cpu, cuda)": the strings that are accepted, "" if all are.
function entry.choices(spec)
  return spec.one_of and (" (%s)"):format(table.concat(spec.one_of, ", ")) or ""
end

return entry
