-- Numbers, lines and tables as text.
local native = require "fopo.native"
local term = require "fopo.term"

local text = {}

text.keywords = {"and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto",
                 "if", "in", "local", "nil", "not", "or", "repeat", "return", "then", "true",
                 "until", "while"}

-- False for NaN, infinities and nil, which are not shown.
function text.finite(v) return v ~= nil and v == v and v ~= math.huge and v ~= -math.huge end

-- 1234567 -> "1,234,567"
function text.count(n)
  local s = ("%d"):format(math.floor(n))
  local sign, digits = s:match("^(%-?)(%d+)$")
  return sign .. digits:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", "")
end

-- bytes -> "3.2 MB"
function text.bytes(n)
  local units, i = {"B", "kB", "MB", "GB", "TB"}, 1
  while n >= 999.5 and i < #units do n, i = n / 1000, i + 1 end
  return (i == 1 and "%d %s" or "%.3g %s"):format(n, units[i])
end

-- seconds -> "340 us", "12.3 ms", "4.56 s", "3 min 20 s"; of 999.6 ms three digits are a second
function text.seconds(s)
  if s < 0.9995e-3 then return ("%.3g us"):format(s * 1e6) end
  if s < 0.9995 then return ("%.3g ms"):format(s * 1e3) end
  if s < 60 then return ("%.3g s"):format(s) end
  if s < 3600 then return ("%.0f min %.0f s"):format(s // 60, s // 1 % 60) end
  return ("%.0f h %.0f min"):format(s // 3600, s % 3600 // 60)
end

-- The number of characters of UTF-8 text.
function text.width(s) return utf8.len(s) or #s end

-- The words of s in lines of at most `width` characters; all lines but the first begin with
-- `indent`.
function text.fill(s, width, indent)
  local lines, line = {}, nil
  for word in s:gmatch("%S+") do
    if line and text.width(line) + 1 + text.width(word) <= width then line = line .. " " .. word
    else
      lines[#lines + 1] = line
      line = (line and indent or "") .. word
    end
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

-- The same in the columns of the terminal, at most 100.
function text.page(s, indent) return text.fill(s, math.min(100, term.width()), indent) end

-- Whether the terminal is as wide as a table, whose lines are all as wide as its first.
function text.fits(rows) return text.width(rows:match("^[^\n]*")) <= term.width() end

local FAR = 8 -- blanks of a line that can go on with the one above

-- "  name   " of "  name   text", or the blanks at the beginning.
local function head_of(line) return line:match("^%s*%S.-%s%s+") or line:match("^%s*") end

-- An indented line in at most `width` characters. In "  name   text" the text goes on below itself.
local function hang(line, width)
  if text.width(line) <= width then return line end
  local indent = #line:match("^%s*")
  local head = head_of(line)
  local at = width - #head >= 20 and #head or indent + 2
  local space = "\n" .. (" "):rep(at)
  local name = head:match("^.*%S") -- nil if there is no name
  local first = at == #head and head or name and name .. space or (" "):rep(at)
  return first .. text.fill(line:sub(#head + 1), width - at, ""):gsub("\n", space)
end

-- Text written in lines of up to a hundred characters, filled again to lines of at most `width`.
-- A line of less than 75 characters ends its paragraph; an indented line remains a line. A line
-- that begins with "- " begins an item of a list, to which the lines behind it that are indented by
-- two belong. A line below the text of "  name   text" goes on with it.
function text.flow(s, width)
  local out, open, hung = {}, nil, nil
  local function close()
    if open then out[#out + 1] = text.fill(open, width, open:find("^%- ") and "  " or "") end
    open = nil
  end
  for line in (s .. "\n"):gmatch("(.-)\n") do
    local in_item, begins_item = open and open:find("^%- "), line:find("^%- ")
    if in_item and line:find("^  %S") then
      open = open .. line:sub(2)
    elseif line:find("^%s") or line == "" then
      close()
      local indent = #line:match("^%s*")
      if hung and text.width(hung) > width and indent >= FAR and indent == #head_of(hung) then
        hung = hung .. " " .. line:sub(indent + 1)
        out[#out] = hang(hung, width)
      else
        hung, out[#out + 1] = line, hang(line, width)
      end
    else
      if in_item or begins_item then close() end
      open = open and open .. " " .. line or line
      if text.width(line) < 75 and not begins_item then close() end
    end
  end
  close()
  return table.concat(out, "\n")
end

-- s with \x1b for each control character but line ends and TAB: what comes from a file must not
-- steer the terminal.
text.plain = native.plain

-- s, or its beginning and "...", in at most `width` characters.
function text.cut(s, width)
  if text.width(s) <= width then return s end
  return s:sub(1, (utf8.offset(s, math.max(1, width - 2)) or 1) - 1) .. "..."
end

-- s on one line, cut to `width` characters: whatever a file has as a name.
function text.line(s, width) return text.cut(text.plain((s:gsub("[\t\n]", " "))), width) end

-- s with spaces after it, or before it if `right`, to `width` characters.
function text.pad(s, width, right)
  local spaces = (" "):rep(math.max(0, width - text.width(s)))
  return right and spaces .. s or s .. spaces
end

-- rows: lists of strings, the first is the head. A column is set to the right if every cell below
-- its head begins like a number.
function text.table(rows)
  local widths, numeric = {}, {}
  for i, row in ipairs(rows) do
    for j, cell in ipairs(row) do
      cell = text.plain(cell)
      row[j] = cell
      widths[j] = math.max(widths[j] or 0, text.width(cell))
      if numeric[j] == nil then numeric[j] = true end
      if i > 1 and cell ~= "" and not cell:find("^[%-+]?[%d.]") and cell ~= "-" then
        numeric[j] = false
      end
    end
  end
  local lines = {}
  for i, row in ipairs(rows) do
    local cells = {}
    for j, cell in ipairs(row) do cells[j] = text.pad(cell, widths[j], numeric[j]) end
    lines[#lines + 1] = (table.concat(cells, "  "):gsub("%s+$", ""))
    if i == 1 then
      local rules = {}
      for j = 1, #row do rules[j] = ("-"):rep(widths[j]) end
      lines[#lines + 1] = table.concat(rules, "  ")
    end
  end
  return table.concat(lines, "\n")
end

-- The same rows in Markdown.
function text.markdown(rows)
  local lines = {}
  for i, row in ipairs(rows) do
    lines[#lines + 1] = "| " .. table.concat(row, " | ") .. " |"
    if i == 1 then lines[#lines + 1] = "|" .. ("---|"):rep(#row) end
  end
  return table.concat(lines, "\n") .. "\n"
end

return text
