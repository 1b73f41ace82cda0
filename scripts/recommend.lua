-- Recommends to every user of a file: a saved policy and a file of interactions in, a CSV out.
--
--   ./fopo scripts/recommend.lua POLICY USERS OUT [name=value ...]
--
-- POLICY is what pi:save wrote. USERS is a file of interactions, as fopo.data.read takes them; one
-- interaction a line with the lines of each user together is read some users at a time, so that
-- memory does not grow with the file. OUT gets user,rank,item,score; - is standard output.
-- Options (defaults): n (10) items for each user; exclude (seen | none); index (exact | norm | hnsw
-- | hybrid); probability (no | yes); users at a time: batch (4096); and those of fopo.data.read by
-- which the training data was read: format, user, item, value, time, where, separator, header,
-- skip_errors, max_errors, as in where='rating>=4' skip_errors=true.
-- Cost: some seconds for a hundred thousand users of a small catalogue.
local fopo = require "fopo"

local function misuse(...)
  io.stderr:write("fopo scripts/recommend.lua: ", string.format(...), "\n")
  os.exit(2)
end

local o = {n = 10, exclude = "seen", index = "exact", probability = "no", batch = 4096}
local function as_given(value) return value end
local function boolean(value, name)
  local truth = ({["true"] = true, ["false"] = false})[value]
  if truth == nil then misuse("%s=%s is neither true nor false", name, value) end
  return truth
end
local function integer(value, name)
  return math.tointeger(tonumber(value)) or misuse("%s=%s is no integer", name, value)
end
local reading = {format = as_given, user = as_given, item = as_given, value = as_given,
                 time = as_given, where = as_given, separator = as_given, header = boolean,
                 skip_errors = boolean, max_errors = integer}
local words, read = {}, {}
for _, word in ipairs(arg) do
  local name, value = word:match("^([%a_]+)=(.*)$")
  if name and reading[name] then
    read[name] = reading[name](value, name)
  elseif name and o[name] then
    o[name] = type(o[name]) == "number" and integer(value, name) or value
  elseif name and #words >= 3 then
    misuse("there is no option %s; it takes n, exclude, index, probability, batch, format, user, "
           .. "item, value, time, where, separator, header, skip_errors, max_errors", name)
  else
    words[#words + 1] = word
  end
end
if #words ~= 3 then
  misuse("usage: POLICY USERS OUT [n=10] [exclude=seen|none] [index=exact|norm|hnsw|hybrid] "
         .. "[probability=yes] [where='rating>=4']")
end
local kinds = {exact = true, norm = true, hnsw = true, hybrid = true}
if not kinds[o.index] then misuse("index=%s is none of exact, norm, hnsw, hybrid", o.index) end
if o.probability ~= "yes" and o.probability ~= "no" then
  misuse("probability=%s is neither yes nor no", o.probability)
end

local pi = fopo.policy.load(words[1])
io.stderr:write(pi:describe(), "\n")
local index = o.index ~= "exact" and fopo.index[o.index](pi:items()) or nil
if index then io.stderr:write(index:describe(), "\n") end
local r = pi:recommend_file(words[2], words[3], {
  n = o.n, exclude = o.exclude, index = index, probability = o.probability == "yes",
  batch = o.batch, read = read})
io.stderr:write(r:describe(), "\n")
