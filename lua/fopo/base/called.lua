-- Functions of the user that are called for whole batches: an error in one says which function it
-- was and the shapes of what it was given. The run stops, with the state of its last whole step.
local define = require "fopo.base.define"
local term = require "fopo.term"

local function shape(v)
  local kind = define.kind(v)
  return kind == "array" and ("[%d, %d]"):format(v.rows, v.cols)
         or kind == "sessions" and ("of %d sessions"):format(v.n)
         or kind == "integer" and ("%d"):format(v) or kind
end

-- f with such errors; name: "coefficients of gradient.custom"; parts: the names of its arguments.
return function(name, f, parts)
  local function raise(why, ...)
    if type(why) ~= "string" then error(why, 0) end
    local given = {}
    for i, part in ipairs(parts) do given[i] = part .. " " .. shape((select(i, ...))) end
    error(("%s; in %s, given %s"):format(why, name, table.concat(given, ", ")), 0)
  end
  return term.divisible(function(...)
    local ok, result, more = pcall(f, ...)
    if not ok then raise(result, ...) end
    return result, more
  end)
end
