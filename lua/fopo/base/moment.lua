-- Times of a dataset, as people read and write them. Datasets hold times as their file has them:
-- often seconds or milliseconds since 1970, but any number may be a time.
local native = require "fopo.native"
local define = require "fopo.base.define"
local moment = {}

-- Units in a second, where the number can be a time of 1973 to 2105; else nil.
local function units(t)
  if t >= 1e8 and t < 4.3e9 then return 1 end
  if t >= 1e11 and t < 4.3e12 then return 1000 end
end

-- Units in a second of all times of the dataset; nil if they are no such times.
local function units_of(d)
  local first, last = units(d.first_time), units(d.last_time)
  return first == last and first or nil
end

-- A time as a day if the dataset's times are such, else as a number.
function moment.words(t, d)
  local n = units_of(d)
  if not n or t < d.first_time or t > d.last_time then return ("%.14g"):format(t) end
  return os.date("!%Y-%m-%d", math.floor(t / n))
end

-- A number as it is, or a date in the units of the dataset.
function moment.of(name, given, d)
  if type(given) == "number" then return given end
  local seconds = native.data_date(given)
  if not seconds then
    define.fail("%s = %q is not a date such as 2016-05-09 or 2016-05-09T10:51:09Z", name, given)
  end
  local n = d.has_times and units_of(d)
  if not n then
    define.fail("%s: the times of this dataset are no dates; give a number%s", name, d.has_times and
      (" from %.14g to %.14g"):format(d.first_time, d.last_time) or "")
  end
  return seconds * n
end

return moment
