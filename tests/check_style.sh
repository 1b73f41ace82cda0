#!/usr/bin/env bash
# The form of the source: clang-format 14, luacheck, lines of at most 100 characters, and no file at
# the top of the tree that does not belong there; with --tidy the checks of .clang-tidy and those of
# cppcheck 2.10, but for what .cppcheck names. A tool that is missing, or has another version, is
# skipped by name. The checks are themselves checked: planted faults must be found.
#
#   bash tests/check_style.sh           what `make test` runs: some seconds
#   bash tests/check_style.sh --tidy    what `make lint` runs: under a minute
#   bash tests/check_style.sh --fix     what `make format` runs: clang-format rewrites the files
set -u
cd "$(dirname "$0")/.."
here=$PWD # holds .clang-format, .clang-tidy and .luacheckrc
export LC_ALL=C.UTF-8 # a line is measured in characters
folders='src lua scripts tests datasets'

# files ROOT ENDING...: the source files below ROOT with one of these endings.
files() {
  local root=$1 endings=${*:2}
  (cd "$root" && find $folders -type f 2>/dev/null | grep -E "\.(${endings// /|})\$" | sort)
}

c_files() { files "$1" c h cc cu cuh; }

# version_14 TOOL: the command that runs version 14 of it.
version_14() {
  local name
  for name in "$1-14" "$1"; do
    "$name" --version 2>/dev/null | grep -q 'version 14\.' && echo "$name" && return
  done
}

# Each check prints one line per finding: FILE:LINE: what is wrong.
check_format() {
  c_files "$1" |
    (cd "$1" && xargs "$clang_format" --style="file:$here/.clang-format" --dry-run 2>&1) |
    sed -n 's/:[0-9]*:[0-9]*: warning: code should be .*/: `make format` changes it/p' | sort -u
}

# In C a line of a long text, "...", may be longer: the text is as wide as help prints it.
check_length() {
  (cd "$1" && { c_files .; files . lua sh py; ls Makefile .ci/run; } 2>/dev/null |
    xargs grep -nHE '.{101,}' |
    grep -vE '^[^:]*\.[ch]:[0-9]+:( *|  *\.(text|example) = )".*"[,)]?$' |
    sed 's/^\([^:]*:[0-9]*\):.*/\1: more than 100 characters/')
}

check_lua() {
  files "$1" lua | (cd "$1" && xargs luacheck --config "$here/.luacheckrc" --formatter plain)
}

# The top of the tree holds nothing else; of a checkout, what git knows of it is looked at.
top='Makefile README.md LICENSE CHANGELOG.md CONTRIBUTING.md SECURITY.md docs src lua scripts tests
datasets build fopo runs carried carried.tar.gz'
check_top() {
  (cd "$1" && { git ls-files 2>/dev/null || ls -A; }) | cut -d / -f 1 | sort -u | grep -v '^\.' |
    grep -vxF "${top// /$'\n'}" | sed 's/$/: does not belong at the top of the tree/'
}

check_layers() { bash tests/check_layers.sh | grep -v '^layers: '; }

# A file of src/kernels is read with the flags of its instruction set, which its first line has.
# Version 14 does not know the names of some CPU features that the dispatch asks for.
tidy_files() { # FLAGS: the names come on stdin
  xargs -r -P "$(nproc)" -n 1 sh -c '
    isa=$(sed -n "1s|^/\* flags x86_64: \(.*\) \*/\$|\1|p" "$2")
    "$0" --quiet --config-file=.clang-tidy --header-filter="(src|tests)/.*" "$2" -- $1 $isa' \
    "$clang_tidy" "$1 -Itests/c" 2>/dev/null
}
check_tidy() {
  { c_files "$1" | grep -E '^(src|tests/c)/.*\.c$' | grep -v 'fopo_mpi.c$' |
      (cd "$1" && tidy_files "$CFLAGS")
    c_files "$1" | grep -E '^src/.*\.cc$' | (cd "$1" && tidy_files "$CXXFLAGS")
  } | grep -E ': (warning|error): ' | grep -v 'invalid cpu feature string' |
    sed "s|^$here/||" | sort -u
}

check_cppcheck() {
  (cd "$1" && cppcheck -j "$(nproc)" --quiet --std=c11 --enable=warning,performance,portability \
    --library=posix --suppressions-list="$here/.cppcheck" -D__x86_64__ -Isrc \
    --template='{file}:{line}: {message} [{id}]' src 2>&1)
}

clang_format=$(version_14 clang-format)
clang_tidy=$(version_14 clang-tidy)

if [ "${1:-}" = --fix ]; then
  [ -n "$clang_format" ] || { echo 'make format needs clang-format 14'; exit 1; }
  c_files . | xargs "$clang_format" -i
  exit
fi

checks='check_length check_top'
[ "${1:-}" = --tidy ] && checks+=' check_layers'
if [ -n "$clang_format" ]; then checks+=' check_format'
else echo 'skip: clang-format 14 is not here'; fi
if command -v luacheck >/dev/null; then checks+=' check_lua'
else echo 'skip: luacheck is not here'; fi
if [ "${1:-}" = --tidy ]; then
  if [ -n "$clang_tidy" ]; then checks+=' check_tidy'
  else echo 'skip: clang-tidy 14 is not here'; fi
  if cppcheck --version 2>/dev/null | grep -q ' 2\.10'; then checks+=' check_cppcheck'
  else echo 'skip: cppcheck 2.10 is not here'; fi
  : "${CFLAGS:=-std=c11 -Isrc -I/usr/include/lua5.4 -D_GNU_SOURCE -fopenmp}"
  : "${CXXFLAGS:=-std=c++17 -Isrc -fopenmp}"
fi

found=0
for check in $checks; do
  findings=$($check .)
  [ -z "$findings" ] && continue
  printf '%s\n' "$findings"
  found=1
done
[ $found = 0 ] || exit 1

# A folder with one fault for each check.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted/src"
echo 'int  x;' >"$planted/src/format.c"
printf '# %0100d\n' 0 >"$planted/src/length.sh"
echo 'x = 1' >"$planted/src/global.lua"
touch "$planted/saved"
cp .clang-tidy "$planted"
echo 'int same(int x) { return x == x; }' >"$planted/src/tidy.c"
printf '%s\n' '#include <dirent.h>' '' 'struct dirent *next(DIR *d) {' '  return readdir(d);' '}' \
  >"$planted/src/portable.c"
for check in $checks; do
  [ "$check" = check_layers ] && continue # it plants faults of its own
  [ "$($check "$planted" | wc -l)" = 1 ] || { echo "$check misses its planted fault"; exit 1; }
done
echo "style: $(c_files . | wc -l) C files, $(files . lua | wc -l) Lua files;$(printf ' %s' $checks)"
