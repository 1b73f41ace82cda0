#!/usr/bin/env bash
# make install, the installed program, make uninstall, make dist, in a temporary folder.
# $FOPO is the program as built: build/MODE/fopo.
set -eu
cd "$(dirname "$0")/.."
here=$PWD
mode=$(basename "$(dirname "$(readlink -f "$FOPO")")")
unset MAKEFLAGS MAKELEVEL MFLAGS
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT

fail() {
  echo "$1"
  [ -z "${2:-}" ] || printf '%s\n' "$2"
  exit 1
}

# What is built stays: the build itself is not under test; nvcc and mpicc are not asked for.
make_here() { make -s -o all CUDA= MPI= MODE="$mode" "$@" >"$top/talk" 2>&1; }

# install_and_check PREFIX VARIABLE...: the tree below $top/root as it must be.
install_and_check() {
  local prefix=$1 program
  shift
  make_here install DESTDIR="$top/root" "$@" || fail 'make install failed' "$(cat "$top/talk")"
  program=$top/root$prefix/bin/fopo
  for file in bin/fopo share/man/man1/fopo.1 share/doc/fopo/manual.html share/doc/fopo/LICENSE \
              share/fopo/examples/quickstart.lua share/fopo/examples/recommend.lua \
              share/fopo/examples/serving/policy.py share/doc/fopo/serving.md \
              share/fopo/datasets/sample.csv; do
    [ -s "$top/root$prefix/$file" ] || fail "make install left out $prefix/$file"
  done
  [ -x "$program" ] || fail "$program cannot be run"
  mkdir -p "$top/elsewhere"
  cd "$top/elsewhere"
  "$program" -v | grep -q '^fopo 0\.' || fail 'the installed fopo -v'
  [ "$("$program" -e 'print(index.norm ~= nil)')" = true ] || fail 'the installed fopo -e'
  "$program" -e 'fopo.demo()' | grep -q 'fopo.demo(11)' || fail 'the installed lessons'
  cd "$here"
}

uninstall_and_check() {
  make_here uninstall DESTDIR="$top/root" "$@" || fail 'make uninstall failed' "$(cat "$top/talk")"
  left=$(find "$top/root" ! -type d -o -name '*fopo*')
  [ -z "$left" ] || fail 'make uninstall left' "$left"
}

install_and_check /opt/x PREFIX=/opt/x
share=$top/root/opt/x/share/fopo
head -n 1200 "$share/datasets/sample.csv" >"$top/some.csv" # test_snippets.py takes all of it
(cd "$top/elsewhere" && ../root/opt/x/bin/fopo "$share/examples/quickstart.lua" ../some.csv 8 5) \
  >"$top/talk" 2>&1 ||
  fail 'the installed example' "$(cat "$top/talk")"

# The CUDA part is found in ../lib/fopo beside the program's folder. Its stand-in is the emulation,
# and an empty library is the driver, without which the part is not even opened.
emulated=$(dirname "$FOPO")/emulated/fopo_cuda.so
if [ -e "$emulated" ] && [ "$mode" != asan ]; then
  mkdir -p "$top/root/opt/x/lib/fopo" "$top/driver"
  cp "$emulated" "$top/root/opt/x/lib/fopo/"
  echo 'int nothing;' | gcc -shared -fPIC -o "$top/driver/libcuda.so.1" -x c -
  found=$(env -u FOPO_CUDA LD_LIBRARY_PATH="$top/driver" "$top/root/opt/x/bin/fopo" \
            -e 'print(fopo.device().cards[1])' 2>&1)
  case $found in 'emulated GPU'*) ;; *) fail 'the installed CUDA part is not found' "$found" ;; esac
else
  echo "skip the installed CUDA part: $emulated is not here"
fi
uninstall_and_check PREFIX=/opt/x

# The names that GNU uses, for a package.
install_and_check /usr prefix=/usr
[ -e "$top/root/usr/bin/fopo" ] || fail 'prefix=/usr'
uninstall_and_check prefix=/usr

# The same commit gives the same bytes, with every tracked file.
if git rev-parse -q --verify HEAD >/dev/null 2>&1; then
  make_here dist || fail 'make dist failed' "$(cat "$top/talk")"
  archive=$(ls -t build/fopo-*.tar.gz | head -n 1) # an older version's may lie beside it
  cp "$archive" "$top/first.tar.gz"
  make_here dist
  cmp "$archive" "$top/first.tar.gz" || fail 'two runs of make dist differ'
  tar -tzf "$archive" | grep -v '/$' | sed 's|^[^/]*/||' | LC_ALL=C sort >"$top/packed"
  git ls-tree -r --name-only HEAD | LC_ALL=C sort >"$top/tracked"
  cmp "$top/packed" "$top/tracked" || fail 'make dist does not hold what git tracks'
else
  echo 'skip make dist: this is no git checkout'
fi
echo "installed, used and uninstalled under two prefixes; packed twice"
