-- fopo.view: screens of runs, on the terminal and as text.
local define = require "fopo.base.define"
local live = require "fopo.view.live"
local native = require "fopo.native"
local sources = require "fopo.view.sources"
local term = require "fopo.term"

local view = {}

local picture_options = {
  {"rows", "integer", 24, "lines", min = 1, max = 1000},
  {"cols", "integer", 80, "columns", min = 1, max = 1000},
  {"glyphs", "string", nil, "what curves are drawn with; as the terminal has them",
   one_of = {"braille", "block", "ascii"}},
  {"overlay", "table", nil, "earlier runs to draw behind: trainers or folders of logs"},
  {"axis", "string", "steps", "what lies below", one_of = {"steps", "seconds"}},
  {"logy", "boolean", false, "logarithmic rewards"},
  {"smoothing", "number", 0, "weight of the past in a moving average", min = 0, below = 1},
  {"theme", "string", nil, "the colours; those of fopo.theme if left out",
   one_of = {"dark", "light"}},
}

local function rendered(what, format, o)
  local source = sources.of_past(what)
  local v <close> = term.view{rows = o.rows, cols = o.cols}
  local c = live.new(v, source, {glyphs = o.glyphs, overlay = o.overlay})
  v:set{axis = o.axis, logy = o.logy, smoothing = o.smoothing}
  c:read_history(false)
  v:phases(source:phases())
  v:set(source:numbers())
  v:set{state = source.state}
  local before = term.theme()
  term.theme(o.theme)
  local shot = v:render(format)
  term.theme(before)
  return shot
end

view.text = define.fn{
  name = "fopo.view.text", returns = "string",
  args = {{"what", "trainer|string", nil, "a trainer, or the folder of a log"}},
  options = picture_options,
  text = "The screen of a run as text, without any terminal.",
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items = fopo.embed.svd(s.train, {dim = 8})
t = fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train,
                 gradient = fopo.gradient.snis{samples = 50}}
print(fopo.view.text(t:run{steps = 20, view = false}))]],
  call = function(what, o) return rendered(what, "text", o) end,
}

local formats = {txt = "text", ans = "ansi", svg = "svg"}

view.save = define.fn{
  name = "fopo.view.save",
  args = {{"path", "string", nil, ".txt, .ans (with ANSI colours) or .svg"},
          {"what", "trainer|string", nil, "a trainer, or the folder of a log"}},
  options = picture_options,
  text = "Writes the screen of a run to a file, without any terminal.",
  call = function(path, what, o)
    local format = formats[path:match("%.(%w+)$")]
    if not format then define.fail("fopo.view.save writes .txt, .ans and .svg, not %q", path) end
    local shot = rendered(what, format, o)
    local written, why = native.write_file(path, shot)
    if not written then define.fail("fopo.view.save: %s", why) end
  end,
}

define.doc{
  name = "fopo.view", signature = "fopo.view(what)",
  text = [[Shows a running job, the history of a trainer, or the folder of a log in the live view
until q is pressed; prints the screen if there is no terminal. ? lists the keys. t:run{view = true}
shows a run in progress: there + and - change the learning rate, [ and ] eps, k and K the
candidates; space pauses, n makes one step, e evaluates, s saves a checkpoint, S a screenshot, :
takes a line of Lua.]],
}

-- Shows a running job; q leaves the view and the job goes on.
local function show_job(j)
  if term.view_possible() then live.run(sources.of_job(j), {mono = not term.colour()}) end
  print(j)
end

return setmetatable(view, {__call = function(_, what)
  if define.kind(what) == "job" then return show_job(what) end
  local source = sources.of_past(what)
  if not term.view_possible() then
    io.write(rendered(what, "text", define.options(define.entries["fopo.view.text"], {})))
    return
  end
  local v <close> = term.view{terminal = true, colour = term.colour()}
  local c = live.new(v, source, {mono = not term.colour()})
  c:read_history(false)
  v:phases(source:phases())
  c:draw(true)
  while not c.left do
    c:take_keys(0.5)
    if not c.left then c:draw() end
  end
end})
