-- help(x): what a function takes, does and returns, from its declaration.
local complete = require "fopo.prompt.complete"
local define = require "fopo.base.define"
local reading = require "fopo.base.entry"
local glossary = require "fopo.glossary"
local native = require "fopo.native"
local page = require "fopo.view.page"
local sealed = require "fopo.base.sealed"
local show = require "fopo.show"
local term = require "fopo.term"
local text = require "fopo.base.text"

local function room() return math.max(40, math.min(100, term.width())) end

-- Arguments or options below each other: name, default, what it is, what it may be.
local function rows(out, head, specs)
  if not specs or #specs == 0 then return end
  local width, wide = 0, 0
  for _, spec in ipairs(specs) do
    width = math.max(width, #spec[1])
    wide = math.max(wide, #reading.default(spec))
  end
  out[#out + 1] = "\n" .. head
  for _, spec in ipairs(specs) do
    local line, about = "  " .. text.pad(spec[1], width) .. "  ", spec[4] or ""
    if head == "Options" then
      line = line .. text.pad(reading.default(spec), wide) .. "  "
      about = about .. reading.choices(spec)
    end
    about = about .. reading.range(spec)
    local at = text.width(line)
    if room() - at < 25 then at = 6 end -- the text below the name if there is no space beside it
    local first = at == 6 and text.width(line) > 6 and line .. "\n" .. (" "):rep(6) or line
    out[#out + 1] = first .. text.fill(about, room() - at, ""):gsub("\n", "\n" .. (" "):rep(at))
  end
end

local function full(entry)
  local out = {reading.signature(entry) .. (entry.returns and "  ->  " .. entry.returns or ""), "",
               text.flow(entry.text, room())}
  rows(out, "Arguments", reading.arguments(entry))
  rows(out, "Options", entry.options)
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
      local width = math.min(46, room() * 45 // 100)
      local head = "  " .. text.pad(reading.signature(entry), width) .. " "
      lines[#lines + 1] = head .. text.cut((entry.text:gsub("%s+", " ")), room() - text.width(head))
    end
  end
  return lines
end

-- ---- values ----

-- What an object of fopo is, its fields and its methods.
local function of_object(x)
  local kind = define.kind(x)
  local out = {(show(x):match("^[^\n]*"))}
  local fields = type(x) == "userdata" and native.fields[kind] or
    type(x) == "table" and (rawget(debug.getmetatable(x), "fields")
                            or rawget(debug.getmetatable(x), "sealed"))
  local names = {}
  for name, value in pairs(fields or {}) do
    if type(value) ~= "function" then names[#names + 1] = name end
  end
  if type(x) == "table" and sealed.behind(x) ~= x then
    for name in pairs(x) do if not fields[name] then names[#names + 1] = name end end
  end
  table.sort(names)
  if #names > 0 then out[#out + 1] = "Fields: " .. table.concat(names, ", ") end
  local methods = list(kind .. ":")
  if #methods == 0 and #names == 0 then return nil end
  table.move(methods, 1, #methods, #out + 1, out)
  return table.concat(out, "\n")
end

-- The name of one of Lua's own functions, as "string.format"; nil for any other function.
local function lua_name(x)
  for name in ([[assert collectgarbage dofile error getmetatable ipairs load loadfile next pairs
  pcall print rawequal rawget rawlen rawset require select setmetatable tonumber tostring type warn
  xpcall]]):gmatch("%a+") do
    if rawequal(rawget(_G, name), x) then return name end
  end
  for _, name in ipairs{"string", "table", "math", "io", "os", "utf8", "coroutine", "debug"} do
    for key, value in pairs(package.loaded[name]) do
      if rawequal(value, x) then return name .. "." .. tostring(key) end
    end
  end
end

local function of_function(f)
  local name = lua_name(f)
  if name then
    return ("%s is Lua's own: see section 6 of its manual, lua.org/manual/5.4"):format(name)
  end
  local info = debug.getinfo(f, "Su")
  if info.what == "C" then return "a function written in C" end
  local names = {}
  for i = 1, info.nparams do names[i] = debug.getlocal(f, i) end
  if info.isvararg then names[#names + 1] = "..." end
  return ("function(%s), from %s:%d"):format(table.concat(names, ", "),
    (info.short_src:gsub("^prompt#%d+$", "prompt")), info.linedefined)
end

-- A module's functions, or the names in a table.
local function of_table(t)
  for name, module in pairs(package.loaded) do
    if rawequal(module, t) then
      local lines = name:find("^fopo") and list(name .. ".") or {}
      if #lines > 0 then return table.concat(lines, "\n") end
      return ("%s is a library of Lua's: see section 6 of its manual, lua.org/manual/5.4")
             :format(name)
    end
  end
  local n = 0
  for _ in next, t do n = n + 1 end
  return ("a table with %d entr%s\n%s"):format(n, n == 1 and "y" or "ies", show(t, {depth = 1}))
end

local help = {}

-- The entry of a name, with fopo. in front or without.
function help.entry(name) return define.entries[name] or define.entries["fopo." .. name] end

-- "index.hnsw", "index", "index:search", ...
local function short_names()
  local names, seen = {}, {}
  for _, known in ipairs(define.order) do
    local short = known:gsub("^fopo%.", "")
    for _, name in ipairs{short, short:match("^[^.:]+")} do
      if not seen[name] then names[#names + 1] = name end
      seen[name] = true
    end
  end
  return names
end

-- help"keys"; docs/tasks.md has the same.
local keys = {
  {"Tab", "names, methods, options inside {, what an option may be or files inside \""},
  {"Up, Down", "earlier entries that begin with what is typed; Ctrl-R searches them"},
  {"Return", "runs an entry that is complete; an open do, { or \" goes on"},
  {"t;", "a ; at the end keeps the value silent"},
  {"_, _1, _2", "the values of the entries before"},
  {"Ctrl-C", "stops what runs, in Lua or C; all variables are whole"},
  {"Ctrl-D", "leaves; asks once while a job trains"},
  {"Ctrl-Z", "to the shell; fg comes back"},
  {"?name", "help; name? and help\"name\" are the same"},
  {"!command", "of the shell"},
  {":save session.lua", "writes the entries that worked as a script"},
  {"time(f, ...)", "how long a call takes, by the clock and in CPU time"},
  {"jobs()", "what trains behind the prompt; view(job), job:stop()"},
}

local function columns(pairs_of, width)
  local lines = {}
  for i, one in ipairs(pairs_of) do
    lines[i] = ("  " .. text.pad(one[1], width) .. "  " .. one[2]):gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

local function of_string(name)
  if name == "keys" then return columns(keys, 17) end
  local entry = help.entry(name)
  if entry then return full(entry) end
  local lines = list("fopo." .. name .. ".")
  for _, line in ipairs(list(name .. ":")) do lines[#lines + 1] = line end
  local meaning = glossary.find(name)
  if meaning then table.insert(lines, 1, meaning .. (#lines > 0 and "\n" or "")) end
  if #lines == 0 then lines = list("fopo." .. name) end
  if #lines == 0 then lines = list(name) end
  if #lines > 0 then return table.concat(lines, "\n") end
  local near = define.nearest(name, define.order) or define.nearest(name, short_names())
               or glossary.nearest(name)
  return nil, ("there is no help on %q%s; help\"all\" lists everything"):format(name,
    near and ("; did you mean %q?"):format(near) or "")
end

-- The first steps, as lines to enter; the tests run them.
local first_steps = {
  {[[d = data.read("datasets/sample.csv")]], "your file, or this one"},
  {[[s = d:sessions{}]], "train, valid, test"},
  {[[items = embed.svd(s.train, {dim = 16});]], "items as vectors"},
  {[[pi = policy.linear{items = items}]], "a softmax over all items"},
  {[[t = trainer{policy = pi, data = s.train, valid = s.valid}]], ""},
  {[[t:run{epochs = 20}]], "learns; view = true shows it"},
  {[[evaluate(pi, s.test)]], "what it earns"},
  {[[pi:recommend("user001", 5)]], "the best items of a user"},
}

local ways = {
  {"fopo.demo()", "lessons, of five minutes each"},
  {"?data.read", "what a function takes and does; ?data lists a module"},
  {[[examples"data.read"]], "how it is used"},
  {"?ess", "what a word means; fopo.glossary() lists the words"},
  {"who()", "your variables; explain(t) says how a run stands"},
  {[[help"all"]], "every function, on a line each; ?keys: those of the prompt"},
}

local function modules()
  local names, seen = {}, {}
  for _, name in ipairs(define.order) do
    local module = name:match("^fopo%.([%w_]+)")
    if module and not seen[module] then names[#names + 1] = module end
    seen[module or ""] = true
  end
  table.sort(names)
  return text.fill("Modules and functions: " .. table.concat(names, " "), room() - 1, "  ")
end

local function beginning()
  return "The first steps, from a file to recommendations:\n" .. columns(first_steps, 43) .. "\n"
    .. columns(ways, 19) .. "\n" .. modules()
end

-- The text for x, a function of fopo, a name, or any value; nil and why if there is none.
function help.text(x)
  if x == nil then return beginning() end
  if x == "all" then return table.concat(list(""), "\n") end
  if define.of[x] then return full(define.of[x]) end
  for name, module in pairs(package.loaded) do -- fopo.plot, and others that are called
    if rawequal(module, x) and define.entries[name] then
      local lines = list(name .. ".")
      table.insert(lines, 1, full(define.entries[name]) .. (#lines > 0 and "\n" or ""))
      return table.concat(lines, "\n")
    end
  end
  if type(x) == "string" then return of_string(x) end
  local object = debug.getmetatable(x) and of_object(x)
  if object then return object end
  if type(x) == "function" then return of_function(x) end
  if type(x) == "table" then return of_table(x) end
  return ("%s: %s"):format(define.kind(x), show(x))
end

-- For ?name at the prompt: what has that name, declared or as a variable.
function help.ask(name)
  name = name:gsub("%(.*$", ""):match("^[%s\"']*(.-)[%s\"']*$")
  local found, why
  if name == "" then
    found = help.text()
  elseif help.entry(name) then
    found = help.text(name)
  else
    local owner, method = name:match("^(.*):([%w_]+)$")
    local object = owner and complete.resolve(owner)
    local declared = object ~= nil and help.entry(define.kind(object) .. ":" .. tostring(method))
    local value = complete.resolve(name)
    if declared then found = full(declared)
    elseif value ~= nil and type(value) ~= "string" then found = help.text(value)
    else found, why = help.text(name) end
  end
  page.out(found or why)
end

-- For object:name at the prompt, which is no expression: what it is.
function help.of_method(chain)
  local owner, name = chain:match("^(.*):([%w_]+)$")
  local object = complete.resolve(owner)
  if object == nil then define.fail("%s has no value", owner) end
  local kind = define.kind(object)
  local entry = define.entries[kind .. ":" .. name]
  if entry then
    local say = ("%s is a method of %s: %s. ?%s says more."):format(chain, define.a(object),
      reading.signature(entry), chain)
    print(text.fill(say, room(), ""))
  elseif complete.resolve(chain) ~= nil then
    print(("%s is called with brackets: %s(...)"):format(chain, chain))
  else
    define.fail("%s is %s, which has no method %s; ?%s lists those that it has", owner,
                define.a(object), name, owner)
  end
end

define.doc{name = "fopo.help", signature = "fopo.help(x)",
  text = [[Prints what a function takes, does and returns, or the fields and methods of an object. x
is a function, an object, any value, or a name in quotes ("index", "index.hnsw", "index:search");
without x the first steps are shown; help"all" lists everything. At the prompt ?index.hnsw and
index.hnsw? do the same.]],
  example = [[fopo.help("index.hnsw")]]}

return setmetatable(help, {__call = function(_, ...)
  local x = ...
  local found, why = help.text(x)
  if x == nil and select("#", ...) > 0 then found, why = nil, "nil: nothing has that name" end
  page.out(found or why)
end})
