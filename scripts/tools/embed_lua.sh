#!/bin/sh
# Prints a C file that holds the given Lua files: { "fopo/help.lua", text, bytes } ... { 0, 0, 0 }.
# usage: embed_lua.sh lua/a.lua lua/b/c.lua > lua_files.c
set -eu
echo '#include <stddef.h>'
n=0
for f in "$@"; do
  printf 'static const unsigned char file_%d[] = {' "$n"
  od -An -v -tu1 "$f" | sed 's/[0-9][0-9]*/&,/g'
  printf '0};\n'
  n=$((n + 1))
done
echo 'const struct { const char *name; const unsigned char *text; size_t bytes; }'
echo 'fopo_lua_files[] = {'
n=0
for f in "$@"; do
  printf '  {"%s", file_%d, sizeof file_%d - 1},\n' "${f#lua/}" "$n" "$n"
  n=$((n + 1))
done
echo '  {0, 0, 0}};'
