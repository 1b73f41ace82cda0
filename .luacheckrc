-- What `make lint` asks of luacheck: Lua 5.4, no warnings left.
std = "lua54"
codes = true
max_line_length = false -- tests/check_style.sh measures lines, in characters
self = false -- a method that does not use its object is still a method

-- luaunit finds suites by the names of globals. What a test prints is captured by replacing print
-- and io.write.
files["tests/lua"] = {
  allow_defined_top = true,
  globals = { "print", io = { fields = { write = { read_only = false } } } },
}
