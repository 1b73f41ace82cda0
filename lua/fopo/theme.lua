-- fopo.theme: colours for a dark or for a light background.
local define = require "fopo.base.define"
local term = require "fopo.term"

return define.fn{
  name = "fopo.theme", returns = "string",
  args = {{"name", "string", nil, "the theme to use from now on", optional = true,
           one_of = {"dark", "light"}}},
  text = [[The colours of the view, its pictures, plots and lessons: dark or light, after the
background. At the start it is that of the environment variable FOPO_THEME, else that of the
background that the terminal names in COLORFGBG, or when the prompt asks it, else dark. Returns the
theme in use.]],
  example = [[was = fopo.theme()
assert(fopo.theme("light") == "light")
fopo.theme(was)]],
  call = function(name) return term.theme(name) end,
}
