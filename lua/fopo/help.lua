-- help(x): what a function takes, does and returns, from its declaration.
local define = require "fopo.define"

-- "fopo.index.hnsw(items, {M = 16, ...})"
local function signature(entry)
  if entry.signature then return entry.signature end
  local parts, name = {}, entry.name
  local first = 1
  if name:find(":", 1, true) then
    name, first = entry.args[1][1] .. name:match(":.*"), 2
  end
  for i = first, #entry.args do parts[#parts + 1] = entry.args[i][1] end
  if entry.options and #entry.options > 0 then
    if #parts == 0 then return name .. "{...}" end
    parts[#parts + 1] = "{...}"
  end
  return name .. "(" .. table.concat(parts, ", ") .. ")"
end

local function default(spec)
  local v = spec[3]
  if spec.required then return "needed" end
  if v == nil then return "-" end
  if type(v) == "table" then return "{" .. table.concat(v, ", ") .. "}" end
  return type(v) == "string" and ("%q"):format(v) or tostring(v)
end

local function full(entry)
  local out = {signature(entry) .. (entry.returns and "  ->  " .. entry.returns or ""), "", entry.text}
  local function rows(head, specs, first)
    if not specs or #specs < first then return end
    local width, dwidth = 0, 0
    for i = first, #specs do
      width = math.max(width, #specs[i][1])
      dwidth = math.max(dwidth, #default(specs[i]))
    end
    out[#out + 1] = ""
    out[#out + 1] = head
    for i = first, #specs do
      local spec = specs[i]
      local line = ("  %-" .. width .. "s  "):format(spec[1])
      if head == "Options" then line = line .. ("%-" .. dwidth .. "s  "):format(default(spec)) end
      out[#out + 1] = line .. (spec[4] or "") .. (spec.one_of and head == "Options" and
        (" (" .. table.concat(spec.one_of, ", ") .. ")") or "")
    end
  end
  rows("Arguments", entry.args, entry.name:find(":", 1, true) and 2 or 1)
  rows("Options", entry.options, 1)
  if entry.example then
    out[#out + 1] = "\nExample\n  " .. entry.example:gsub("\n", "\n  ")
  end
  return table.concat(out, "\n")
end

-- Everything whose name begins with `prefix`, one line each.
local function list(prefix)
  local lines = {}
  for _, name in ipairs(define.order) do
    if name:sub(1, #prefix) == prefix then
      local entry = define.entries[name]
      lines[#lines + 1] = ("  %-46s %s"):format(signature(entry),
        entry.text:match("^[^\n]*"):gsub("%s+$", ""))
    end
  end
  return lines
end

local help = {}

-- The text for x: a function of fopo, a name, or one of its objects; nil where there is none.
function help.text(x)
  if x == nil then
    return "help(f), help\"fopo.index.hnsw\" or help\"index\" say more.\n\n"
           .. table.concat(list(""), "\n")
  end
  if define.of[x] then return full(define.of[x]) end
  if type(x) == "string" then
    local entry = define.entries[x] or define.entries["fopo." .. x]
    if entry then return full(entry) end
    local lines = list("fopo." .. x)
    for _, line in ipairs(list(x)) do lines[#lines + 1] = line end
    if #lines > 0 then return table.concat(lines, "\n") end
    local near = define.nearest(x, define.order)
    return nil, ("there is no help on %q%s; help() lists everything"):format(x,
      near and ("; did you mean %q?"):format(near) or "")
  end
  local lines = list(define.kind(x) .. ":")
  if #lines > 0 then return table.concat(lines, "\n") end
  for name, module in pairs(package.loaded) do
    if module == x and name:find("^fopo%.") then return table.concat(list(name), "\n") end
  end
  return nil, "there is no help on this " .. define.kind(x) .. "; help() lists everything"
end

return setmetatable(help, {__call = function(_, x)
  local found, why = help.text(x)
  print(found or why)
end})
