-- TensorBoard's event files: one TFRecord an event, each of them
--
--   uint64 length | uint32 masked CRC32C of the length | bytes | uint32 masked CRC32C of the bytes
--
-- (little endian; tensorflow/core/lib/io/record_writer.h), the bytes a protocol buffer `Event`:
-- 1 double wall_time, 2 int64 step, 3 string file_version, 5 Summary{1 Value{1 string tag,
-- 2 float simple_value}} (tensorflow/core/util/event.proto, framework/summary.proto).
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
  local file, why = io.open(path, "ab")
  if not file then return nil, why end
  local e = setmetatable({file = file, path = path}, events)
  local ok
  ok, why = file:write(event(time, 0, field(3, "brain.Event:2")))
  if not ok then return nil, why end
  return e
end

-- values: list of {tag, number}; what is not finite is left out.
function events:add(step, values)
  local body = {}
  for _, value in ipairs(values) do
    local v = value[2]
    if v == v and v ~= math.huge and v ~= -math.huge then
      body[#body + 1] = field(1, field(1, value[1]) .. "\x15" .. ("<f"):pack(v))
    end
  end
  if #body == 0 then return true end
  local ok, why = self.file:write(event(os.time(), step, field(5, table.concat(body))))
  if ok then ok, why = self.file:flush() end
  return ok, why
end

function events:close()
  self.file:close()
end

return events
