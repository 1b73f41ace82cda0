-- fopo.plot.save: writes series as a picture, drawn by gnuplot from a script with the data in it.
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
  {"logx", "boolean", nil, "logarithmic; values <= 0 are left out"},
  {"logy", "boolean", nil, "the same for y"},
  {"width", "integer", 900, "pixels", min = 200, max = 10000},
  {"height", "integer", 540, "pixels", min = 150, max = 10000},
  {"style", "string", "lines", "how series are drawn that say nothing",
   one_of = {"lines", "points", "bars"}},
  {"intervals", "string", nil, "how the intervals of lines are drawn: as bands, or as bars, the "
   .. "default of more than four", one_of = {"bands", "bars"}},
}

-- Colours that can be told apart with any colour vision (Okabe and Ito).
local palette = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"}
local terminals = {svg = "svg size %d,%d dynamic enhanced background rgb 'white' font 'sans,13'",
                   png = "pngcairo size %d,%d font 'sans,11'"}

local FEW = 4 -- series whose bands can be told apart, and whose names leave room for the curves

-- A string in gnuplot's single quotes, where nothing is special but the quote itself.
local function quoted(s)
  return "'" .. s:gsub("[%c]", " "):gsub("'", "''") .. "'"
end

-- A label without sub- and superscripts.
local function label(s) return quoted(s) .. " noenhanced" end

local function with_unit(s, unit)
  if not unit then return s end
  return s and ("%s (%s)"):format(s, unit) or unit
end

-- The data of a series, x, y, low, high; a missing y makes a gap.
local function data(n, s)
  local lines = {("$s%d << EOD"):format(n)}
  for i, x in ipairs(s.x) do
    local y, low, high = s.y[i], s.low and s.low[i] or 0 / 0, s.high and s.high[i] or 0 / 0
    if finite(x) and finite(y) then
      if not (finite(low) and finite(high)) then low, high = y, y end
      lines[#lines + 1] = ("%.9g %.9g %.9g %.9g"):format(x, y, low, high)
    elseif s.style == "lines" then
      lines[#lines + 1] = "" -- a gap in the line
    end
  end
  lines[#lines + 1] = "EOD"
  return table.concat(lines, "\n")
end

-- Adds the plot elements of a series to the list: its interval, then the series. Series beyond the
-- palette are dashed.
local function elements(n, s, list, bands)
  local colour = palette[(n - 1) % #palette + 1]
  local dash = n > #palette and " dt 2" or ""
  local title = s.name and ("title %s noenhanced"):format(quoted(s.name)) or "notitle"
  local from = ("$s%d using "):format(n)
  if s.style == "bars" then
    list[#list + 1] = ("%s1:2 with boxes lc rgb '%s' fs solid 0.6 %s"):format(from, colour, title)
  elseif s.low and s.style == "lines" and bands then
    local band = "%s1:3:4 with filledcurves lc rgb '%s' fs transparent solid 0.18 notitle"
    list[#list + 1] = band:format(from, colour)
  end
  if s.low and not (s.style == "lines" and bands) then
    local bars = "%s1:2:3:4 with yerrorbars lc rgb '%s' pt 7 ps 0.4 notitle"
    list[#list + 1] = bars:format(from, colour)
  end
  if s.style ~= "bars" then
    list[#list + 1] = ("%s1:2 with %s lc rgb '%s' %s %s"):format(from, s.style, colour,
      s.style == "lines" and "lw 2" .. dash or "pt 7 ps 0.6", title)
  end
end

local function script(kind, series, o)
  local lines = {
    "set encoding utf8", "set terminal " .. terminals[kind]:format(o.width, o.height),
    "set grid lc rgb '#dddddd'", "set border 3",
    "set tics nomirror", "set boxwidth 0.8 relative",
    ("set key %s Left reverse noenhanced"):format(#series > FEW and "outside right top"
                                                  or "top left"),
  }
  local function set(what, words)
    if words then lines[#lines + 1] = ("set %s %s"):format(what, label(words)) end
  end
  set("title", o.title)
  set("xlabel", with_unit(o.xlabel, o.xunit))
  set("ylabel", with_unit(o.ylabel, o.yunit))
  if o.logx then lines[#lines + 1] = "set logscale x" end
  if o.logy then lines[#lines + 1] = "set logscale y" end
  local list, interval = {}, nil
  local bands = o.intervals == "bands" or not o.intervals and #series <= FEW
  for n, s in ipairs(series) do
    if s.style == "bars" and not o.logy then lines[#lines + 1] = "set yrange [*<0:*]" end
    lines[#lines + 1] = data(n, s)
    elements(n, s, list, bands)
    interval = s.low and (s.style == "lines" and bands and "bands" or "bars") or interval
  end
  set("label 1 at graph 0.995,0.015 right font ',9'", interval and interval .. ": 95 % intervals")
  lines[#lines + 1] = "plot " .. table.concat(list, ", \\\n  ")
  return table.concat(lines, "\n") .. "\n"
end

-- How a whole picture ends.
local ends = {svg = "</svg>%s*$", png = "IEND\xAE\x42\x60\x82$"}

-- The picture that gnuplot draws by the commands. --default-settings: no file of commands that lies
-- in the home folder or in the folder at hand is run. gnuplot does not say when its output does not
-- fit on the disk.
local function drawn(kind, commands)
  local code, shot, words = native.run_program(commands, "gnuplot", "--default-settings")
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
  if not terminals[kind] then
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
  local shot = drawn(kind, script(kind, series, o))
  local written, why = native.write_file(path, kind == "svg" and slim(shot) or shot)
  if not written then define.fail("fopo.plot.save: %s", why) end
end

return picture
