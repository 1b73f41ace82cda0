-- TensorBoard's event files: one TFRecord an event, each of them
--
--   uint64 length | uint32 masked CRC32C of the length | bytes | uint32 masked CRC32C of the bytes
--
-- (little endian; tensorflow/core/lib/io/record_writer.h), the bytes a protocol buffer `Event`:
-- 1 double wall_time, 2 int64 step, 3 string file_version, 5 Summary{1 Value{1 string tag,
-- 2 float simple_value}} (tensorflow/core/util/event.proto, framework/summary.proto). What the page
-- HPARAMS reads is a Value of its own with 9 SummaryMetadata{1 PluginData{1 string plugin_name,
-- 2 bytes content}}, the content an HParamsPluginData (plugin_data.proto and api.proto in
-- tensorboard/plugins/hparams).
local native = require "fopo.native"

local events = {}
events.__index = events

-- CRC32C (Castagnoli): the reflected polynomial 0x82F63B78, a byte at a time.
local crc_of = {}
for byte = 0, 255 do
  local crc = byte
  for _ = 1, 8 do crc = crc & 1 == 1 and crc >> 1 ~ 0x82F63B78 or crc >> 1 end
  crc_of[byte] = crc
end

function events.crc32c(s)
  local crc = 0xFFFFFFFF
  for i = 1, #s do crc = crc >> 8 ~ crc_of[(crc ~ s:byte(i)) & 0xFF] end
  return crc ~ 0xFFFFFFFF
end

-- The rotation and sum keep a CRC of data that holds CRCs from being trivial.
local function masked(s)
  local crc = events.crc32c(s)
  return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
end

local function record(bytes)
  local length = ("<I8"):pack(#bytes)
  return length .. ("<I4"):pack(masked(length)) .. bytes .. ("<I4"):pack(masked(bytes))
end

local function varint(n)
  local bytes = {}
  repeat
    local low = n & 0x7F
    n = n >> 7
    bytes[#bytes + 1] = string.char(n ~= 0 and low | 0x80 or low)
  until n == 0
  return table.concat(bytes)
end

-- Field `number` of wire type 2: its length, then its bytes.
local function field(number, bytes) return varint(number << 3 | 2) .. varint(#bytes) .. bytes end

local function event(time, step, body)
  return record("\x09" .. ("<d"):pack(time) .. "\x10" .. varint(step) .. body)
end

-- A fresh file in the folder; nil and why where that cannot be.
function events.open(folder, host)
  local time = os.time()
  local path
  for n = 0, 999 do -- several in one second
    path = ("%s/events.out.tfevents.%010d.%s.%d"):format(folder, time, host, n)
    local there = io.open(path, "r")
    if not there then break end
    there:close()
  end
  local made, why = native.append_file(path, events.head(time))
  return made and setmetatable({path = path}, events), why
end

-- The events of a file's beginning, and of values, a list of {tag, number}, as bytes; what is not
-- finite is left out, and of nothing else it is nil.
function events.head(time) return event(time, 0, field(3, "brain.Event:2")) end

function events.scalars(time, step, values)
  local body = {}
  for _, value in ipairs(values) do
    local v = value[2]
    if v == v and v ~= math.huge and v ~= -math.huge then
      body[#body + 1] = field(1, field(1, value[1]) .. "\x15" .. ("<f"):pack(v))
    end
  end
  return #body > 0 and event(time, step, field(5, table.concat(body))) or nil
end

function events:add(step, values)
  local bytes = events.scalars(os.time(), step, values)
  if not bytes then return true end
  return native.append_file(self.path, bytes)
end

-- ---- settings of a run ----

local function double(number, v) return varint(number << 3 | 1) .. ("<d"):pack(v) end
local function whole(number, v) return varint(number << 3) .. varint(v) end

-- A google.protobuf.Value: 2 number_value, 3 string_value, 4 bool_value.
local function value_of(v)
  if type(v) == "number" then return double(2, v) end
  if type(v) == "boolean" then return whole(4, v and 1 or 0) end
  return field(3, tostring(v))
end

-- The event that has an HParamsPluginData.
local function plugin(time, what, content)
  local data = field(1, "hparams") .. field(2, content)
  return event(time, 0, field(5, field(1, field(1, "_hparams_/" .. what)
                                          .. field(9, field(1, data)))))
end

local SUCCESS, FAILURE = 1, 2

-- Events of a run: settings, values by name; group, what runs that differ in their seed alone
-- share. The first goes before the run's values, the second after them.
function events.session(time, o)
  local names, hparams = {}, {}
  for name in pairs(o.settings) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do -- SessionStartInfo: 1 map hparams, 4 group_name, 5 start
    hparams[i] = field(1, field(1, name) .. field(2, value_of(o.settings[name])))
  end
  return plugin(time, "session_start_info",
                field(3, table.concat(hparams) .. field(4, o.group) .. double(5, time))),
         plugin(time, "session_end_info",
                field(4, whole(1, o.failed and FAILURE or SUCCESS) .. double(2, time)))
end

return events
