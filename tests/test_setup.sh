#!/usr/bin/env bash
# The set-up script on machines that are made up here: a folder of commands is all that it finds.
set -eu
cd "$(dirname "$0")/.."
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT

fail() {
  echo "$1"
  sed 's/^/  /' "$top/talk"
  exit 1
}

# machine NAME: a folder with the ordinary commands, for a PATH of its own.
machine() {
  mkdir "$top/$1"
  for tool in sh sed awk grep cat mktemp rm tail wc env; do
    ln -s "$(command -v $tool)" "$top/$1/$tool"
  done
}

# command_of MACHINE NAME: its text comes on stdin.
command_of() { { echo '#!/bin/sh'; cat; } >"$top/$1/$2" && chmod +x "$top/$1/$2"; }

setup() { PATH=$top/$1 /bin/sh scripts/tools/setup.sh ${2:+"$2"} >"$top/talk" 2>&1; }

# Without Debian packages: what is needed is listed, and that is no failure.
machine other
setup other || fail 'another system must not be a failure'
grep -q 'nothing was installed' "$top/talk" && grep -q liblua5.4-dev "$top/talk" ||
  fail 'another system is not told what to install'
setup other --found || fail '--found fails on another system'
bare=$top/bare
mkdir "$bare"
here=$PWD
in_bare() {
  (cd "$bare" && PATH=$top/other /bin/sh "$here/scripts/tools/setup.sh" --build) >"$top/talk" 2>&1
}
in_bare && grep -q libopenblas-dev "$top/talk" || fail 'the first build does not say what it needs'
! grep -q lua-unit "$top/talk" || fail 'the build does not need what the tests need'
mkdir "$bare/build"
in_bare && [ ! -s "$top/talk" ] || fail 'what the build needs is said at each build'

# With them: apt-get is asked for what is missing and for nothing else; then all is there.
machine debian
echo 'echo 0' | command_of debian id
command_of debian dpkg-query <<E2
for name; do
  case \$name in -*) ;; *Status*) ;; make) echo 'make installed' ;;
    *) [ ! -e "$top/asked" ] || echo "\$name installed" ;; esac
done
E2
command_of debian apt-get <<E2
echo "\$@" >"$top/asked"
E2
setup debian --build || fail 'set-up of the build fails'
grep -q 'install .*liblua5.4-dev' "$top/asked" || fail 'make does not install liblua5.4-dev'
! grep -q 'lua-unit' "$top/asked" || fail 'make installs what only tests need'
grep -q '^The build of fopo needs these packages' "$top/talk" ||
  fail 'make does not say what it installs'
grep -q 'liblua5.4-dev  *the Lua interpreter' "$top/talk" || fail 'nor why'
setup debian --build && [ ! -s "$top/talk" ] || fail '--build speaks though nothing is missing'
rm "$top/asked"
setup debian || fail 'set-up fails'
grep -q 'install .*liblua5.4-dev' "$top/asked" || fail 'liblua5.4-dev is not installed'
! grep -qE ' (make|lua-check)( |$)' "$top/asked" || fail 'more than what is missing is installed'
setup debian --quiet || fail 'the second run fails'
[ ! -s "$top/talk" ] || fail '--quiet speaks though nothing is missing'
rm "$top/asked"
setup debian --lint || fail 'set-up of make lint fails'
grep -q lua-check "$top/asked" || fail 'luacheck is not installed by --lint'

# For arm64: a compiler and an emulator, then libraries that apt-get must not install here.
rm "$top/asked"
for tool in mkdir dirname ls; do ln -s "$(command -v $tool)" "$top/debian/$tool"; done
(cd "$top" && ! PATH=$top/debian /bin/sh "$here/scripts/tools/setup.sh" --arm >"$top/talk" 2>&1) ||
  fail 'libraries of arm64 that are not there must be a failure'
grep -q 'install .*--download-only .*liblua5.4-dev' "$top/asked" || fail 'they are not fetched'
grep -q 'gcc-aarch64-linux-gnu' "$top/talk" || fail 'the compiler for arm64 is not named'
! (cd "$top" && PATH=$top/debian /bin/sh "$here/scripts/tools/arm.sh" --found >"$top/talk") &&
  grep -q '^skip: .*--arm brings them' "$top/talk" || fail 'what make test-arm lacks is not said'

# What apt-get cannot install is a failure that shows its last lines.
rm "$top/asked"
printf 'echo no such package\nexit 1\n' | command_of debian apt-get
! setup debian || fail 'a failure of apt-get is not one of set-up'
grep -q 'no such package' "$top/talk" || fail 'the words of apt-get are not shown'

# Without root and sudo, the command is said.
echo 'echo 1000' | command_of debian id
! setup debian || fail 'without root set-up must fail'
grep -q 'apt-get install' "$top/talk" || fail 'the command for root is not said'
! setup debian --build || fail 'without a compiler the build must not go on'
! grep -q 'goes on' "$top/talk" || fail 'the build goes on without a compiler'
for tool in gcc g++; do echo | command_of debian $tool; done
setup debian --build || fail 'with a compiler the build goes on'
rm -f "$top/asked"
setup debian --build || fail 'make must go on where the same may be there by another name'
grep -q 'the build goes on without them' "$top/talk" || fail 'that it goes on is not said'
echo "set-up: another system, missing packages, arm64, a failure of apt-get, no root"
