-- The manual, from the declarations that help() reads: FOLDER/fopo.1, manual.md and manual.html.
--
--   ./fopo scripts/tools/manual.lua FOLDER
--
-- make install installs the first and the last; make doc brings docs/manual.md up to date.
--
-- What stands here and nowhere else: the order of the sections, a sentence about each, and what the
-- command line reads (environment, files, exit codes). Options are read from `fopo -h`.
local fopo = require "fopo"
local define = require "fopo.base.define"
local native = require "fopo.native"
local reading = require "fopo.base.entry"
local remedy = require "fopo.base.remedy"
local text = require "fopo.base.text"

local folder = arg[1]
if not folder then
  io.stderr:write("usage: fopo scripts/tools/manual.lua FOLDER\n")
  os.exit(2)
end

-- ---- contents ----

local about = "learning softmax recommendation policies offline, over large catalogues"

local description = {
  [[fopo is an interactive terminal environment for one job: learning a recommendation policy
from recorded interactions, over catalogues of a million items. Lua 5.4 chooses the data, the
index, the estimator and the schedule; C computes, on threads or on an NVIDIA GPU.]],
  [[Options are given in one table with names, as in index.norm(items, {budget = 1000}). An unknown
option is an error that names the nearest known one. Ids of items, users and rows count from 1. At
the prompt, values print themselves, help(f) or ?f explains f, Tab completes, and Ctrl-C stops what
runs and gives the prompt back.]],
  [[At the prompt and in -e code the modules are globals (index, policy, ...). A script begins with
local fopo = require "fopo".]],
}

local environment = {
  {"FOPO_THREADS",
   "the number of threads; without it OMP_NUM_THREADS, without that all processors"},
  {"FOPO_ISA",
   "the instruction set of the kernels, as fopo -h lists them; without it the best one that "
   .. "the CPU has"},
  {"FOPO_CUDA", "the file to load as the CUDA device; none: no GPU is used"},
  {"FOPO_MPI", "the file to load as MPI, where several processes are started; none: each is alone"},
  {"FOPO_MPI_SILENCE", "seconds (6) after which a host that does not answer is lost; 0: never"},
  {"CUDA_VISIBLE_DEVICES", "which GPUs the driver shows; fopo takes the first"},
  {"FOPO_RECORD",
   "0: the operations of a step are launched one by one, not replayed as a CUDA graph"},
  {"FOPO_GPU_EARLY",
   "1: on a GPU of compute 9.0 and later the kernels of a small batch are launched before the one "
   .. "in front has ended, and wait for it; no card has tried it yet"},
  {"FOPO_GPU_PERSISTENT",
   "1 or 2: one kernel makes the steps that a CUDA graph would replay, where it can, with so many "
   .. "rows on their way; no card has tried it yet"},
  {"FOPO_GPU_SPLITS", "how many blocks of a GPU share the samples of a context, for measurements; "
   .. "without it what a rule takes for the best"},
  {"FOPO_GPU_PROFILE",
   "a file that gets the times of the GPU's work by its name, when the device is closed; steps are "
   .. "launched as with FOPO_RECORD=0"},
  {"FOPO_HISTORY", "the file of the lines typed at the prompt; /dev/null: none is kept"},
  {"FOPO_THEME, COLORFGBG",
   "colours for a dark or a light background: dark or light; else what the terminal says, as 0;15"},
  {"NO_COLOR", "if set, no colours"},
  {"PATH", "where gnuplot, sh and Python are looked for: in its absolute folders only"},
  {"PYTHON", "the Python whose pyarrow reads Parquet and Arrow files; without it python3"},
  {"TMPDIR", "the folder of temporary files; without it /tmp"},
  {"TERM", "dumb: no colours and no live view"},
  {"OPENBLAS_CORETYPE", "the kind of CPU whose kernels OpenBLAS uses; without it, fopo names one "
   .. "where OpenBLAS has chosen one without AVX2 and the CPU has it"},
  {"GOMP_SPINCOUNT, OMP_WAIT_POLICY",
   "how threads wait for each other; without both, fopo makes them wait briefly"},
  {"XDG_CONFIG_HOME, XDG_STATE_HOME",
   "the folders of settings and of history, without them ~/.config and ~/.local/state"},
}

local files = {
  {"~/.config/fopo/init.lua", "run before the prompt; not with --no-init"},
  {"~/.local/state/fopo/history", "the lines typed at the prompt"},
  {"runs/", "logs of runs with log = true, in the current folder"},
  {"PREFIX/lib/fopo/fopo_cuda.so",
   "the CUDA device, looked for beside the program, then in ../lib/fopo from there"},
  {"PREFIX/share/fopo/examples/",
   "scripts: demo.lua, quickstart.lua and own_loop.lua to begin with, recommend.lua and serving/ "
   .. "to serve"},
  {"PREFIX/share/fopo/datasets/sample.csv", "a small set of interactions to try"},
  {"PREFIX/share/doc/fopo/", "manual.html, the design, how to extend fopo"},
}

local codes = {
  {"0", "all went well"},
  {"1", "a script or a piece of code failed, or the input could not be read"},
  {"2", "the command line is wrong"}, {"130", "interrupted by Ctrl-C"},
  {"142", "ended by --max-seconds"},
}

-- Title, what it holds, and the entries by prefix: "x:" the methods of an x, "x." the functions of
-- a module, "x" that function and those below it.
local sections = {
  {"Arrays", "Dense float32 matrices and lists of ids.", {"fopo.array.", "array:"}},
  {"Data", "Interactions, sessions, bandit logs and synthetic worlds.",
   {"fopo.data.", "dataset:", "sessions:", "logs:", "world:", "log_world:"}},
  {"Embeddings", "Items as vectors.", {"fopo.embed.", "fopo.shard"}},
  {"Indexes", "Maximum inner product search over the items.", {"fopo.index.", "index:"}},
  {"Policies", "The softmax over the catalogue.", {"fopo.policy.", "policy:"}},
  {"Proposals", "The distributions that self-normalised importance sampling draws from.",
   {"fopo.proposal.", "proposal:"}},
  {"Rewards", "Estimators of the reward of showing item a in context x.",
   {"fopo.reward.", "reward:"}},
  {"Gradients", "Estimators of the gradient of the expected reward, or of another objective.",
   {"fopo.gradient.", "gradient:", "fopo.objective.", "objective:"}},
  {"Optimisers", "Steps up the gradient, for the objective is a reward, and their learning rates.",
   {"fopo.optim.", "optim:", "fopo.schedule.", "schedule:"}},
  {"Training", "Runs in the foreground and jobs behind the prompt.",
   {"fopo.trainer", "trainer:", "job:", "fopo.jobs", "fopo.tune"}},
  {"Judging",
   "The worth of a policy on sessions and logs that it has not seen, what to compare it with, and "
   .. "checks of the program.",
   {"fopo.evaluate", "fopo.baseline.", "baseline:", "fopo.ope", "fopo.check"}},
  {"Experiments and reports", "Several runs under the same conditions, side by side.",
   {"fopo.experiment.", "fopo.compare", "fopo.report."}},
  {"Pictures", "Curves and the live view, in the terminal and in files.",
   {"fopo.plot", "fopo.view", "fopo.theme"}},
  {"Help and lessons", "",
   {"fopo.help", "fopo.glossary", "fopo.who", "fopo.explain", "fopo.examples", "fopo.demo",
    "fopo.check_answer", "fopo.show", "fopo.strict"}},
  {"The machine", "", {"fopo.clock", "fopo.time", "fopo.memory", "fopo.threads", "fopo.isa",
                       "fopo.device", "fopo.ranks", "fopo.network"}},
}

local function belongs(name, prefix)
  return name == prefix or prefix:find("[.:]$") and name:sub(1, #prefix) == prefix
         or not prefix:find("[.:]$") and name:sub(1, #prefix + 1) == prefix .. "."
end

local function section_of(name)
  for _, section in ipairs(sections) do
    for _, prefix in ipairs(section[3]) do
      if belongs(name, prefix) then return section end
    end
  end
  error(name .. " is in no section of the manual: add it to scripts/tools/manual.lua", 0)
end

for _, section in ipairs(sections) do section.entries = {} end
for _, name in ipairs(define.order) do
  table.insert(section_of(name).entries, define.entries[name])
end

-- "Fields of an index: budget, dim, ..." for the objects whose methods are in the section.
for _, section in ipairs(sections) do
  section.fields = {}
  for _, prefix in ipairs(section[3]) do
    local kind, names = prefix:match("^([%w_]+):$"), {}
    for field in pairs(kind and kind ~= "trainer" and native.fields[kind] or {}) do
      names[#names + 1] = field
    end
    table.sort(names)
    if #names > 0 then
      section.fields[#section.fields + 1] = {kind, table.concat(names, ", ")}
    end
  end
end

-- {{"-e code", "run code first ..."}, ...} and the line of usage, from fopo -h.
local function command_line()
  local pipe <close> = assert(io.popen(("'%s' -h"):format(arg[-1]:gsub("'", "'\\''"))))
  local options, usage = {}, nil
  for line in pipe:lines() do
    usage = usage or line:match("^usage: (.*)")
    local option, what = line:match("^  (%S.-)%s%s+(.+)$")
    if option then options[#options + 1] = {option, what} end
  end
  assert(usage and #options >= 5, "fopo -h does not read as a list of options")
  return usage, options
end
local usage, options = command_line()
local keys = require("fopo.help").text("keys")

-- ---- what the three forms share ----

-- A text as blocks: {false, paragraph} or {true, lines that keep their form}.
local function blocks(s)
  local list = {}
  for line in (text.flow(s, math.huge) .. "\n"):gmatch("(.-)\n") do
    local last = list[#list]
    if line:find("^%s") and last and last[1] then last[2] = last[2] .. "\n" .. line
    elseif line:find("%S") then list[#list + 1] = {line:find("^%s") ~= nil, line} end
  end
  return list
end

local function head(e) return reading.signature(e) .. (e.returns and " -> " .. e.returns or "") end

-- What an argument or option may be: its type by name, its text, choices and range.
local function meaning(spec)
  return (spec[4] or "") .. reading.choices(spec) .. reading.range(spec)
end

local function kind(spec) return (spec[2]:gsub("|", " or ")) end

-- The first sentence, whole: it ends at a full stop behind a word, and before the list that follows
-- a colon.
local function first_sentence(s)
  s = s:gsub(":%s*\n%s*%- .*", "."):gsub(":%s*\n  .*", "."):gsub("%s+", " ")
  local at = 1
  while true do
    local stop = s:find("[%w%)%]}\"']%.%s", at)
    if not stop then return (s:gsub("%s*$", "")) end
    if not s:sub(1, stop):find("%f[%w]e%.g$") then return s:sub(1, stop + 1) end
    at = stop + 1
  end
end

-- The tasks of docs/tasks.md: {title, {entries that its code names}}.
local function read_tasks()
  local f <close> = assert(io.open(arg[0]:gsub("[^/]*$", "") .. "../../docs/tasks.md"))
  local list, methods = {}, {}
  for _, name in ipairs(define.order) do -- by how examples call them: "pi:recommend"
    local owner, method = name:match("^([%l_]+):([%l_]+)$")
    local letter = owner and (remedy.letter[owner] or owner)
    if letter then methods[letter .. ":" .. method] = define.entries[name] end
  end
  for part in f:read("a"):gsub("\n## ", "\0"):gmatch("\0([^\0]+)") do
    local title, body = part:match("^([^\n]+)(.*)")
    local task, known = {title, {}}, {}
    for name, called in body:gmatch("([%a_][%w_.:]*)([({]?)") do
      local e = methods[name] or define.entries["fopo." .. name:gsub("^fopo%.", "")]
      if e and not known[e] and (called ~= "" or name:find("[.:]")) then
        known[e] = true
        table.insert(task[2], e)
      end
    end
    list[#list + 1] = task
  end
  return list
end
local tasks = read_tasks()

local function write(name, lines)
  local path = folder .. "/" .. name
  local f <close> = assert(io.open(path, "w"))
  assert(f:write(table.concat(lines, "\n"), "\n"))
end

-- ---- the man page ----

-- Ready for roff: no line begins with a control character, hyphens of code stay hyphens.
local function roff(s)
  s = s:gsub("\\", "\\e"):gsub("%-", "\\-")
  return (s:gsub("\n([.'])", "\n\\&%1"):gsub("^([.'])", "\\&%1"))
end

local function man()
  local out = {}
  local function put(s, ...) out[#out + 1] = select("#", ...) > 0 and s:format(...) or s end
  local function list(title, rows)
    put(".SH %s", title)
    for _, row in ipairs(rows) do
      put(".TP")
      put(".B %s", roff(row[1]))
      put("%s", roff(row[2]))
    end
  end
  put('.\\" Made by scripts/tools/manual.lua: make doc')
  put('.TH FOPO 1 "" "fopo %s" "User Commands"\n.ad l', roff(fopo.version))
  put(".SH NAME")
  put("fopo \\- %s", roff(about))
  put(".SH SYNOPSIS")
  put(".B fopo")
  put("%s", roff(usage:gsub("^fopo%s*", "")))
  put(".SH DESCRIPTION")
  for i, paragraph in ipairs(description) do
    if i > 1 then put(".PP") end
    put("%s", roff(paragraph))
  end
  list("OPTIONS", options)
  put(".SH FUNCTIONS")
  put(".B help(name)")
  put("at the prompt says all about a function; the whole manual is in manual.html.")
  for _, section in ipairs(sections) do
    put(".SS %s", roff(section[1]))
    for _, e in ipairs(section.entries) do
      put(".TP")
      put(".B %s", roff(head(e)))
      put("%s", roff(first_sentence(e.text)))
    end
  end
  put(".SH THE PROMPT\n.nf\n%s\n.fi", roff(keys))
  list("ENVIRONMENT", environment)
  list("FILES", files)
  list("EXIT STATUS", codes)
  put(".SH EXAMPLES")
  put(".nf")
  for _, line in ipairs{"fopo", "fopo PREFIX/share/fopo/examples/quickstart.lua clicks.csv.gz",
                        "fopo -e 'fopo.demo(1)'"} do
    put("%s", roff(line))
  end
  put(".fi")
  put(".SH SEE ALSO")
  put("manual.html, design.md and extending.md in PREFIX/share/doc/fopo;")
  put(".BR lua (1).")
  put(".PP")
  put("The method: O. Sakhi, D. Rohde and A. Gilotte,")
  put("Fast Offline Policy Optimization for Large Scale Recommendation, AAAI 2023.")
  write("fopo.1", out)
end

-- ---- Markdown ----

-- Ready for Markdown outside of code.
local function md(s) return (s:gsub("[\\*_<>|%[%]`#]", "\\%0")) end

local function md_code(s) return s == "" and "" or "`" .. s:gsub("|", "\\|") .. "`" end

local function anchor(s) return (s:lower():gsub("[^%w]+", "-"):gsub("%-$", "")) end

local function markdown()
  local out = {}
  local function put(s, ...) out[#out + 1] = select("#", ...) > 0 and s:format(...) or s end
  local function list(title, left, rows)
    put("## %s\n\n| %s | |\n|---|---|", title, left)
    for _, row in ipairs(rows) do put("| %s | %s |", md_code(row[1]), md(row[2])) end
    put("")
  end
  local function specs(titles, rows, cells)
    if not rows or #rows == 0 then return end
    put("| %s | |\n|%s---|", titles, ("---|"):rep(#cells))
    for _, spec in ipairs(rows) do
      local row = {}
      for i, cell in ipairs(cells) do row[i] = cell(spec) end
      put("| %s | %s |", table.concat(row, " | "), md(meaning(spec)))
    end
    put("")
  end
  local function name(spec) return md_code(spec[1]) end
  local function default(spec)
    local v = reading.default(spec)
    return (v == "-" or v == "needed") and v or md_code(v)
  end
  local function one(e)
    put('### <a id="%s"></a>%s\n', anchor(e.name), md_code(head(e)))
    for _, block in ipairs(blocks(e.text)) do
      put(block[1] and "```\n%s\n```\n" or "%s\n", block[1] and block[2] or md(block[2]))
    end
    specs("argument | type", reading.arguments(e), {name, kind})
    specs("option | type | default", e.options, {name, kind, default})
    if e.example then put("```lua\n%s\n```\n", e.example) end
  end
  put("<!-- Made by scripts/tools/manual.lua: make doc -->")
  put("# The manual of fopo %s\n", fopo.version)
  for _, paragraph in ipairs(description) do put("%s\n", md(paragraph)) end
  for _, section in ipairs(sections) do
    local names = {}
    for i, e in ipairs(section.entries) do
      names[i] = ("[%s](#%s)"):format(md(e.name), anchor(e.name))
    end
    put("- **[%s](#%s)**: %s", section[1], anchor(section[1]), table.concat(names, ", "))
  end
  put("\nBy task, as in [tasks.md](tasks.md):\n")
  for _, task in ipairs(tasks) do
    local names = {}
    for i, e in ipairs(task[2]) do names[i] = ("[%s](#%s)"):format(md(e.name), anchor(e.name)) end
    if #names > 0 then put("- **%s**: %s", task[1], table.concat(names, ", ")) end
  end
  put("\n## The prompt\n\n```\n%s\n```", keys)
  put("\n## The command line\n\n```\n%s\n```\n", usage)
  list("Options of the command line", "option", options)
  list("Environment", "variable", environment)
  list("Files", "file", files)
  list("Exit codes", "code", codes)
  for _, section in ipairs(sections) do
    put('## <a id="%s"></a>%s\n', anchor(section[1]), section[1])
    if section[2] ~= "" then put("%s\n", md(section[2])) end
    for _, row in ipairs(section.fields) do put("Fields of `%s`: %s.\n", row[1], md(row[2])) end
    for _, e in ipairs(section.entries) do one(e) end
  end
  write("manual.md", out)
end

-- ---- HTML ----

local function beside(name)
  local f <close> = assert(io.open(arg[0]:match("^(.*/)") .. name))
  return f:read("a")
end

local function html_text(s)
  return (s:gsub("[&<>\"]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}))
end

local head_of_page = [[
<!DOCTYPE html>
<!-- Made by scripts/tools/manual.lua: make doc -->
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>The manual of fopo $version</title>
<style>
$style</style>
</head>
<body>
<nav>]]

-- Names of functions become links to them; `own` is the entry that the text belongs to.
local function linked(s, own)
  return (html_text(s):gsub("%f[%w]fopo%.[%w_.]*[%w_]", function(name)
    if define.entries[name] and name ~= own then
      return ('<a href="#%s">%s</a>'):format(anchor(name), name)
    end
  end))
end

local function html()
  local out = {}
  local function put(s, ...) out[#out + 1] = select("#", ...) > 0 and s:format(...) or s end
  local function grid(titles, rows)
    put('<div class="scroll"><table>')
    if #titles > 0 then put("<tr><th>%s</th></tr>", table.concat(titles, "</th><th>")) end
    for _, row in ipairs(rows) do put("<tr><td>%s</td></tr>", table.concat(row, "</td><td>")) end
    put("</table></div>")
  end
  local function code(s) return "<code>" .. html_text(s) .. "</code>" end
  local function list(title, rows)
    put('<h2 id="%s">%s</h2>', anchor(title), title)
    local cells = {}
    for i, row in ipairs(rows) do cells[i] = {code(row[1]), html_text(row[2])} end
    grid({}, cells)
  end
  local function specs(titles, rows, with_default, own)
    if not rows or #rows == 0 then return end
    local cells = {}
    for i, spec in ipairs(rows) do
      local row = {code(spec[1]), html_text(kind(spec))}
      if with_default then
        local v = reading.default(spec)
        row[3] = (v == "-" or v == "needed") and v or code(v)
      end
      row[#row + 1] = linked(meaning(spec), own)
      cells[i] = row
    end
    grid(titles, cells)
  end
  local function one(e)
    put('<section id="%s"><h3>%s%s</h3>', anchor(e.name), html_text(reading.signature(e)),
        e.returns and (" <span>&rarr; %s</span>"):format(html_text(e.returns)) or "")
    for _, block in ipairs(blocks(e.text)) do
      if block[1] then put("<pre>%s</pre>", html_text(block[2]))
      else put("<p>%s</p>", linked(block[2], e.name)) end
    end
    specs({"argument", "type", ""}, reading.arguments(e), false, e.name)
    specs({"option", "type", "default", ""}, e.options, true, e.name)
    if e.example then put("<pre>%s</pre>", html_text(e.example)) end
    put("</section>")
  end
  local function links(title, entries)
    put('<details><summary>%s</summary><ul>', html_text(title))
    for _, e in ipairs(entries) do
      put('<li><a href="#%s">%s</a></li>', anchor(e.name), html_text((e.name:gsub("^fopo%.", ""))))
    end
    put("</ul></details>")
  end
  local program = {{"Options of the command line", options}, {"Environment", environment},
                   {"Files", files}, {"Exit codes", codes}}
  put((head_of_page:gsub("%$(%l+)", {version = fopo.version, style = beside("manual.css")})))
  put('<p><a href="#top"><strong>fopo %s</strong></a></p>', fopo.version)
  for _, part in ipairs(program) do
    put('<div><a href="#%s">%s</a></div>', anchor(part[1]), part[1])
  end
  put('<p><input id="search" type="search" placeholder="search: /" aria-label="search"></p>')
  put('<ul id="found"></ul>\n<div><a href="#the-prompt">The prompt</a></div>')
  for _, section in ipairs(sections) do links(section[1], section.entries) end
  put("<p>By task</p>")
  for _, task in ipairs(tasks) do
    if #task[2] > 0 then links(task[1], task[2]) end
  end
  put('</nav>\n<main id="top">\n<h1>The manual of fopo %s</h1>', fopo.version)
  for _, paragraph in ipairs(description) do put("<p>%s</p>", linked(paragraph)) end
  put('<h2 id="the-prompt">The prompt</h2>\n<pre>%s</pre>', html_text(keys))
  put("<pre>%s</pre>", html_text(usage))
  for _, part in ipairs(program) do list(part[1], part[2]) end
  for _, section in ipairs(sections) do
    put('<h2 id="%s">%s</h2>', anchor(section[1]), section[1])
    if section[2] ~= "" then put("<p>%s</p>", section[2]) end
    for _, row in ipairs(section.fields) do
      put("<p>Fields of <code>%s</code>: %s.</p>", row[1], html_text(row[2]))
    end
    for _, e in ipairs(section.entries) do one(e) end
  end
  put("</main>\n<script>\n%s</script>\n</body>\n</html>", beside("manual.js"))
  write("manual.html", out)
end

man()
markdown()
html()
