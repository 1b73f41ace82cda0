#!/usr/bin/env bash
# The folder is the layer, and includes point to lower layers only:
#
#   core < comm < kernels < device < mips < data < contexts < ranks < policy < plan < learn < judge
#     < train < term < bind < main
#
# Lua's headers are seen by bind/, term/ and main.c alone; src/mips/index_hnsw.cc is the only C++.
# The check is itself checked: violations planted in a copy must be found.
# usage: check_layers.sh [folder that holds src]
set -eu
cd "${1:-$(dirname "$0")/..}"

# check FOLDER: one line per violation.
check() {
  find "$1/src" -name '*.cc' -o -name '*.cpp' -o -name '*.cxx' -o -name '*.hpp' |
    sed "s|^$1/||" | { grep -vx 'src/mips/index_hnsw.cc' || true; } |
    sed 's/$/: C++ outside the one shim/'
  find "$1/src" \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
    xargs -0 awk -v root="$1/src/" '
      BEGIN {
        n = split("core comm kernels device mips data contexts ranks policy plan learn judge " \
                  "train term bind main", layer, " ")
        for (i = 1; i <= n; i++) rank[layer[i]] = i
      }
      FNR == 1 {
        file = substr(FILENAME, length(root) + 1)
        own = (file == "main.c") ? "main" : file; sub("/.*", "", own)
        if (!(own in rank)) print "src/" file ": no layer of this name"
      }
      /^[ \t]*#[ \t]*include[ \t]*"/ {
        split($0, part, "\""); target = part[2]; folder = target; sub("/.*", "", folder)
        if (target !~ "/" || !(folder in rank))
          print "src/" file ":" FNR ": \"" target "\" is not written as \"layer/name.h\""
        else if (rank[folder] > rank[own])
          print "src/" file ":" FNR ": " own " includes \"" target "\" of a higher layer"
      }
      /^[ \t]*#[ \t]*include[ \t]*[<"](lua|lauxlib|lualib|luaconf)\.h/ && rank[own] < rank["term"] {
        print "src/" file ":" FNR ": Lua below term/"
      }'
}

# planted FILE LINE: the number of violations that the line adds in a copy.
planted() {
  local copy
  copy=$(mktemp -d)
  cp -r src "$copy/src"
  mkdir -p "$copy/$(dirname "$1")"
  printf '%s\n' "$2" >>"$copy/$1"
  check "$copy" | wc -l
  rm -rf "$copy"
}

violations=$(check .)
if [ -n "$violations" ]; then
  printf '%s\n' "$violations"
  exit 1
fi
for plant in 'src/core/status.h #include "policy/policy.h"' \
             'src/data/read/readers.h #include <lua.h>' \
             'src/train/trainer.h #include "bind/bind.h"' 'src/core/x.cc int x;' \
             'src/core/status.h #include "memory.h"'; do
  if [ "$(planted "${plant%% *}" "${plant#* }")" != 1 ]; then
    echo "check_layers.sh does not see: $plant"
    exit 1
  fi
done
echo "layers: $(find src -type f | wc -l) files, every include points down; 5 planted faults found"
