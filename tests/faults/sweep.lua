-- Fails the calls of each scenario, one kind and one place at a time, once and from there on.
--   fopo sweep.lua FOLDER TRIES SEED [FIRST [PATTERN]]
-- from scenario FIRST on, of those whose names have the pattern.
-- TRIES faults are drawn from all that can be made, at least one of each kind of each scenario.
-- Those of what reads and writes files are all made once besides, except those of Lua's memory.
-- Started with the seam preloaded (tests/faults/run.py). After each fault:
--   it is an error with a sentence, or the result is the same as without a fault;
--   the file that was to be replaced is whole, old or new;
--   1 + 1 is 2; every so often the scenario gives the same as ever;
--   no block, descriptor or thread is left over.
local seam = assert(package.loadlib(os.getenv "SEAM", "luaopen_seam"))()
local fopo = require "fopo"
local native = require "fopo.native"
local job = require "fopo.run.job"
local scenarios = require "faults.scenarios"

local folder, tries, seed = arg[1], tonumber(arg[2]), tonumber(arg[3])
local first, wanted = tonumber(arg[4] or 1), arg[5]
local LIMIT = 20 -- seconds for one fault: longer is a hang
local AGAIN = 8  -- after so many faults the scenario runs without one

-- ---- what a scenario gives, as text ----

local function text(v, out)
  out = out or {}
  if type(v) == "number" then
    out[#out + 1] = ("%.17g"):format(v)
  elseif type(v) == "table" then
    local keys = {}
    for k in pairs(v) do keys[#keys + 1] = k end
    table.sort(keys, function(a, b)
      return type(a) == type(b) and a < b or type(a) ~= type(b) and type(a) == "number"
    end)
    for _, k in ipairs(keys) do
      out[#out + 1] = tostring(k)
      text(v[k], out)
    end
  else
    out[#out + 1] = tostring(v)
  end
  return out
end

local function digest(...) return table.concat(text{...}, "\n") end

local function bytes(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read("a")
end

-- What the scenario's file holds.
local function held(s) return s.read and digest(s.read()) or bytes(s.file) end

-- ---- one fault ----

-- A job needs nobody to hold it, and ends when it is looked at.
local function collect(s)
  local until_when = fopo.clock() + 5
  repeat
    job.idle()
  until not s.threads or seam.threads() == s.threads or fopo.clock() > until_when
  job.idle() -- settles one whose thread has ended meanwhile
  collectgarbage()
  if not s.blocks or seam.lost() > s.kept or native.memory().blocks ~= s.blocks then
    collectgarbage() -- what a finaliser has held
  end
end

local failures, of_libraries, say = {}, 0, print
local function wrong(what, ...)
  failures[#failures + 1] = what
  say("not so: " .. what, ...)
  if #failures >= 40 then os.exit(1) end
end

-- What an error says: about Lua's own lack of memory, Lua says it.
local function is_sentence(why, kind)
  if type(why) ~= "string" or why == "" then return false end
  if kind == "lua" then
    return why:find("memory", 1, true) or why:find("stack overflow", 1, true)
  end
  return not why:find("attempt to", 1, true) and not why:find("bad argument", 1, true)
end

local forgiving = {again = true, short = true} -- after these the work is done all the same

local function keep(s) s.got = table.pack(s.run()) end

-- Runs one fault of the scenario; c: {kind, n, forever}.
local function try(s, c)
  local name = ("%s: %s %d%s"):format(s.name, c.kind, c.n, c.forever and " and all after" or "")
  seam.label(("%d %d %s"):format(s.place, s.begun, name), LIMIT)
  seam.watch()
  seam.arm(c.kind, c.n, c.forever)
  local ok, why = pcall(keep, s)
  local hits = seam.disarm()
  if not ok and hits == 0 then wrong(name .. ": an error without a fault", why) end
  if not ok and not is_sentence(why, c.kind) then wrong(name .. ": no sentence", why) end
  if not ok and forgiving[c.kind] then wrong(name .. ": must go on", why) end
  if ok and digest(table.unpack(s.got)) ~= s.expected then
    wrong(name .. ": another result, and no error")
  end
  s.got = false
  collect(s)
  if load("return 1 + 1")() ~= 2 then wrong(name .. ": 1 + 1") end
  local blocks, careless, callers = seam.lost()
  if c.kind ~= "memory" then blocks = blocks + careless
  elseif careless > 0 then of_libraries = of_libraries + 1 end
  if blocks > s.kept then
    wrong(("%s: %d blocks are left over"):format(name, blocks - s.kept), callers)
  end
  local now = native.memory().blocks
  if now ~= s.blocks then
    wrong(("%s: %d blocks of the core are left over"):format(name, now - s.blocks))
    s.blocks = now
  end
  if seam.descriptors() ~= s.descriptors then
    wrong(name .. ": descriptors", s.descriptors, seam.descriptors())
    s.descriptors = seam.descriptors()
  end
  if seam.threads() ~= s.threads then
    wrong(name .. ": threads", s.threads, seam.threads())
    s.threads = seam.threads()
  end
  if s.file then
    local read, found = pcall(held, s)
    if not read or found ~= s.held then wrong(name .. ": the file is not whole", found) end
  end
  return hits
end

-- Runs the scenario without a fault.
local function try_without(s, after)
  local got = table.pack(pcall(s.run))
  if not got[1] or digest(table.unpack(got, 2)) ~= s.expected then
    wrong(s.name .. ": not as before, after " .. after, got[2])
  end
end

-- ---- the faults that can be made ----

-- Runs the scenario until it is warm, then counts its calls: list of {kind, n, forever}.
local function prepare(s, place)
  seam.label(("%d %d %s: without a fault"):format(s.place, s.begun, s.name), 60)
  s.run, s.file, s.read = s.make(place)
  s.expected = digest(s.run())
  if digest(s.run()) ~= s.expected then wrong(s.name .. ": two results without a fault") end
  collect(s)
  s.held = s.file and held(s)
  seam.watch()
  local _ = digest(s.run())
  seam.disarm()
  local all = {}
  for _, kind in ipairs(seam.kinds) do
    for n = 0, seam.calls(kind) - 1 do
      all[#all + 1] = {kind = kind, n = n, forever = false}
      all[#all + 1] = {kind = kind, n = n, forever = true}
    end
  end
  collect(s)
  s.kept = seam.lost()
  s.blocks, s.descriptors, s.threads = native.memory().blocks, seam.descriptors(), seam.threads()
  return all
end

-- A number in [0, 1) of its own for each fault.
local function draw(s, i)
  local h = seed * 0x9e3779b97f4a7c15 + i * 0x2545f4914f6cdd1d
  for k = 1, #s.name do h = (h ~ s.name:byte(k)) * 0x100000001b3 end
  h = (h ~ (h >> 29)) * 0x94d049bb133111eb
  return ((h ~ (h >> 32)) & 0xffffff) / 0x1000000
end

-- Of all faults of a scenario: `share` of them, with at least one of each kind, and what is made in
-- any case. The list, and how many were drawn.
local function chosen(s, all, share)
  local seen, list, drawn = {}, {}, 0
  for i, c in ipairs(all) do
    c.order = draw(s, i)
  end
  table.sort(all, function(a, b) return a.order < b.order end)
  for i, c in ipairs(all) do
    local is_drawn = i <= share or not seen[c.kind]
    if is_drawn or s.files and c.kind ~= "lua" and not c.forever then list[#list + 1] = c end
    if is_drawn then drawn = drawn + 1 end
    seen[c.kind] = true
  end
  return list, drawn
end

-- ---- the sweep ----

local has_gnuplot = os.execute("command -v gnuplot >/dev/null")
local run = {}
for _, s in ipairs(scenarios) do
  if (not s.gnuplot or has_gnuplot) and (not wanted or s.name:find(wanted)) then
    run[#run + 1] = s
  end
end

local print_all, silent = print, function() end
print(("%d scenarios"):format(#run)) -- the buffer of stdout is made now
local sum, made, raised = 0, 0, 0
for i = first, #run do
  local s = run[i]
  if s.quiet then print = silent end -- luacheck: ignore
  s.place, s.begun, s.got = i, sum, false
  -- of tens of thousands those that are made stay alone: every collection marks them
  local fine, possible, list, drawn = xpcall(function()
    local all = prepare(s, folder)
    return #all, chosen(s, all, (tries - sum) / (#run - i + 1))
  end, debug.traceback)
  if not fine then
    wrong(s.name .. ": " .. possible)
    list, drawn = {}, 0
  end
  print = print_all -- luacheck: ignore
  for k, c in ipairs(list) do
    raised = raised + (try(s, c) > 0 and 1 or 0)
    if k % AGAIN == 0 then try_without(s, c.kind .. " " .. c.n) end
  end
  sum, made = sum + drawn, made + #list
  if os.getenv "SWEEP_TALK" then print(s.name, possible, #list) end
end
print(("%d scenarios, %d faults, %d of them met a call; libzip lost blocks of its own %d times; "
       .. "%d failures"):format(#run, made, raised, of_libraries, #failures))
os.exit(#failures == 0)
