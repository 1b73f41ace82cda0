-- The screen of a lesson: headings, prose, code, questions and their answers.
-- Plain text of any width, with colours if the terminal shows them.
local interrupt = require "fopo.base.interrupt"
local term = require "fopo.term"
local text = require "fopo.base.text"

local page = {}
page.__index = page

-- SGR parameters, of each theme.
local themes = {
  dark = {title = "1", rule = "38;5;244", comment = "38;5;244", string = "38;5;36",
          keyword = "38;5;74", question = "1", right = "38;5;36", wrong = "38;5;214"},
  light = {title = "1", rule = "38;5;241", comment = "38;5;241", string = "38;5;29",
           keyword = "38;5;25", question = "1", right = "38;5;29", wrong = "38;5;130"},
}
page.themes = themes

local function paint(what, s)
  return term.colour() and ("\27[%sm%s\27[0m"):format(themes[term.theme()][what], s) or s
end

-- asks: whether questions are asked; nil: if standard input and output are terminals.
function page.new(asks)
  if asks == nil then asks = term.asks() end
  return setmetatable({asks = asks, rows = 0}, page)
end

-- ---- text ----

local function width() return math.max(20, math.min(80, term.width()) - 1) end

local function split(s)
  local lines = {}
  for line in (s .. "\n"):gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
  return lines
end

-- Words of one paragraph in lines of at most `columns` columns.
local function lines_of(paragraph, columns) return split(text.fill(paragraph, columns, "")) end

-- The token that begins at position `at` of the code: its kind and its last position.
local function token(code, at)
  for _, pattern in ipairs{{"comment", "^%-%-[^\n]*"}, {"string", '^"[^"\n]*"'},
                           {"word", "^[%a_][%w_]*"}} do
    local _, last = code:find(pattern[2], at)
    if last then return pattern[1], last end
  end
  return "other", at
end

-- A line of code, or of a formula, in lines of at most `columns` columns, which are the same to
-- Lua: it is broken at blanks, but not inside a string or a comment.
local function folded(line, columns)
  local out, indent = {}, line:match("^ *") .. "    "
  while #line > columns do
    local at, cut = #line:match("^ *") + 1, nil
    while at <= columns + 1 do
      local _, last = token(line, at)
      if line:sub(at, at) == " " then cut = at end
      at = last + 1
    end
    if not cut then break end
    out[#out + 1] = line:sub(1, cut):match("^(.-)%s*$")
    line = indent .. line:sub(cut + 1)
  end
  out[#out + 1] = line
  return out
end

-- Paragraphs are separated by empty lines; lines that begin with four blanks are not joined.
local function wrapped(prose, columns)
  local out, open = {}, {}
  local function close()
    for _, line in ipairs(#open > 0 and lines_of(table.concat(open, " "), columns) or {}) do
      out[#out + 1] = line
    end
    open = {}
  end
  for _, line in ipairs(split(prose)) do
    if line:find("^    ") or line == "" then
      close()
      for _, part in ipairs(folded(line, columns)) do out[#out + 1] = part end
    else
      open[#open + 1] = line
    end
  end
  close()
  return out
end

-- Prints a line, and counts the rows that it takes since the last stop.
local function put(self, line)
  print(line)
  local cells = text.width((line:gsub("\27%[[%d;]*m", "")))
  self.rows = self.rows + math.max(1, math.ceil(cells / term.width()))
end

-- Prints an empty line and `lines`. Stops first if the lines would scroll text since the last stop
-- off the screen, and again after each full screen. Returns "back" or "leave" if that was typed.
local function block(self, lines, why)
  local height = math.max(10, term.height())
  local full = self.rows > 2 and self.rows + #lines + 4 > height
  for i = 0, #lines do
    if self.asks and (full and i == 0 or self.rows > height - 5 and i > 1 and #lines - i > 2) then
      local _, where = self:read(i == 0 and why or "Return shows the rest: ")
      if where then return where end
    end
    put(self, lines[i] or "")
  end
end

function page:say(s) put(self, s) end

function page:prose(s) block(self, wrapped(s, width()), "Return goes on: ") end

function page:head(title, about, source)
  local lines = wrapped(about .. ".\nIn the paper: " .. source .. ".", width())
  table.insert(lines, 1, paint("title", title))
  block(self, lines)
end

function page:title(where, title)
  local head = ("-- %s -- "):format(where)
  local rest = width() - text.width(head) - text.width(title) - 1
  block(self, {paint("rule", head) .. paint("title", title) .. " " ..
               paint("rule", ("-"):rep(math.max(2, rest)))})
end

-- Prints text a screen at a time if a person can be asked, else as it is.
function page.out(s)
  local self, full = page.new(), math.max(10, term.height()) - 3
  local lines = split(s)
  for i, line in ipairs(lines) do
    if self.asks and self.rows >= full and #lines - i > 1 then
      local _, where = self:read("Return shows more, q leaves: ")
      if where then return end
    end
    put(self, line)
  end
end

-- An entry of a list: the call, the title, and its subject behind them.
function page:entry(call, title, about)
  local head = (" "):rep(#call + 2)
  for i, line in ipairs(lines_of(title .. ". " .. about, width() - #head)) do
    if i == 1 then line = line:gsub("^" .. title:gsub("%p", "%%%0"), paint("title", title), 1) end
    put(self, i == 1 and call .. "  " .. line or head .. line)
  end
end

-- ---- code ----

local keywords = {}
for _, word in ipairs(text.keywords) do keywords[word] = true end

local function highlighted(code)
  local out, at = {}, 1
  while at <= #code do
    local kind, last = token(code, at)
    local s = code:sub(at, last)
    if kind == "word" then kind = keywords[s] and "keyword" or "other" end
    out[#out + 1] = themes.dark[kind] and paint(kind, s) or s
    at = last + 1
  end
  return table.concat(out)
end

-- Prints the code and the question on it. Returns "back" or "leave" if that was typed at a stop.
function page:code(code, question, choices)
  local lines = {}
  for _, line in ipairs(code and split(code) or {}) do
    for _, part in ipairs(folded(line, math.max(20, term.width() - 3))) do
      lines[#lines + 1] = part == "" and part or "  " .. highlighted(part)
    end
  end
  if not question then return block(self, lines, "Return shows the code: ") end
  if code then lines[#lines + 1] = "" end
  for _, line in ipairs(wrapped(question, width())) do
    lines[#lines + 1] = paint("question", line)
  end
  for i, choice in ipairs(choices or {}) do
    for k, line in ipairs(lines_of(choice, width() - 5)) do
      lines[#lines + 1] = k == 1 and ("  %d  %s"):format(i, line) or "     " .. line
    end
  end
  return block(self, lines, "Return shows the code: ")
end

-- Says how long the code took if that was noticeable, and discards keys typed meanwhile, which
-- would answer the next question.
function page:took(seconds)
  if seconds >= 0.5 then term.forget_typed() end
  if seconds >= 0.5 then put(self, paint("comment", ("(%s)"):format(text.seconds(seconds)))) end
end

-- ---- questions ----

-- right: true, false, or nil if no answer was given.
function page:verdict(sentence, right)
  local what = right and "right" or right == false and "wrong" or "title"
  put(self, "")
  for _, line in ipairs(lines_of(sentence, width())) do put(self, paint(what, line)) end
end

-- The answer without blanks around it; or nil and "back" or "leave". The end of the input means
-- "leave".
function page:read(prompt)
  io.write("\n", prompt)
  io.flush()
  self.rows = 0
  local typed = io.read("l")
  if not typed then
    print()
    return nil, "leave"
  end
  typed = typed:match("^%s*(.-)%s*$")
  if typed:lower() == "b" then return nil, "back" end
  if typed:lower() == "q" then return nil, "leave" end
  return typed
end

-- Calls f. If questions are asked, Ctrl-C leaves like q; otherwise it raises as usual.
function page:guarded(f)
  if not self.asks then return f() end
  if interrupt.ended(f) then print() end
end

return page
