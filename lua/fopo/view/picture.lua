-- fopo.plot.save: writes series as a picture, drawn by gnuplot (src/term/picture.h).
local define = require "fopo.base.define"
local native = require "fopo.native"
local text = require "fopo.base.text"

local picture = {}
local finite = text.finite

picture.options = {
  {"title", "string", nil, "above the plot"},
  {"xlabel", "string", nil, "below it"},
  {"ylabel", "string", nil, "beside it"},
  {"xunit", "string", nil, "put in brackets behind xlabel"},
  {"yunit", "string", nil, "put in brackets behind ylabel"},
  {"labels", "table", nil, "of bars: what stands below x = 1, 2, ...; bars of several series stand "
   .. "beside each other"},
  {"logx", "boolean", nil, "logarithmic; values <= 0 are left out"},
  {"logy", "boolean", nil, "the same for y"},
  {"width", "integer", 900, "pixels", min = 200, max = 10000},
  {"height", "integer", 540, "pixels", min = 150, max = 10000},
  {"style", "string", "lines", "how series are drawn that say nothing",
   one_of = {"lines", "points", "bars"}},
  {"intervals", "string", nil, "how the intervals of lines are drawn: as bands, or as bars, the "
   .. "default of more than four", one_of = {"bands", "bars"}},
}

local kinds = {svg = true, png = true}

local function with_unit(s, unit)
  if not unit then return s end
  return s and ("%s (%s)"):format(s, unit) or unit
end

-- How a whole picture ends.
local ends = {svg = "</svg>%s*$", png = "IEND\xAE\x42\x60\x82$"}

local function labels_of(o)
  local labels = o.labels and {}
  for i, label in ipairs(o.labels or {}) do labels[i] = tostring(label) end
  return labels
end

-- The picture. gnuplot does not say when its output does not fit on the disk.
local function drawn(kind, series, o)
  local code, shot, words = native.draw_picture({
    kind = kind, width = o.width, height = o.height, logx = o.logx, logy = o.logy,
    title = o.title and text.fill(o.title, o.width // 9, ""), labels = labels_of(o),
    xlabel = with_unit(o.xlabel, o.xunit), ylabel = with_unit(o.ylabel, o.yunit),
    intervals = o.intervals or "few",
  }, series)
  if not code then
    define.fail("fopo.plot.save draws with gnuplot, but %s (apt-get install gnuplot-nox); "
                .. "fopo.plot draws in the terminal without it", shot)
  end
  if words:find("^%s*line %d+:") or code ~= 0 and words ~= "" then
    define.fail("fopo.plot.save: gnuplot refused: %s",
                (words:gsub("^%s+", ""):gsub("%s*\n.*", "")))
  end
  if code ~= 0 or not shot:find(ends[kind]) then
    define.fail("fopo.plot.save cannot write the picture: gnuplot stopped after %d bytes%s; is "
                .. "there room in %s?", #shot,
                code ~= 0 and (" with status %d"):format(code) or "",
                os.getenv("TMPDIR") or "/tmp")
  end
  return shot
end

-- gnuplot's groups that draw nothing are left out, and each of the others is one line.
local function slim(svg)
  svg = svg:gsub("<g [^>]*>%s*</g>%s*", ""):gsub(">%s*\n%s*<", "><"):gsub("%s*\n%s*", " ")
  return (svg:gsub("<g fill", "\n%0")) .. "\n"
end

-- series: list of {x =, y =, low =, high =, name =, style =} of lists of numbers.
function picture.save(path, series, o)
  local kind = path:match("%.(%w+)$")
  if not kinds[kind] then
    define.fail("fopo.plot.save writes .svg and .png, not %q", path)
  end
  local shown = 0
  for _, s in ipairs(series) do
    s.style = s.style or o.style
    for i, y in ipairs(s.y) do
      if finite(y) and finite(s.x[i]) then shown = shown + 1 end
    end
  end
  if shown == 0 then define.fail("fopo.plot.save: there is nothing to plot: no value is finite") end
  local shot = drawn(kind, series, o)
  local written, why = native.write_file(path, kind == "svg" and slim(shot) or shot)
  if not written then define.fail("fopo.plot.save: %s", why) end
end

return picture
