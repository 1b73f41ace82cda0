#!/bin/sh
# Installs the Debian packages that fopo is built and tested with, where they are missing.
#
#   sh scripts/tools/setup.sh           install what is missing, then say what was found
#   sh scripts/tools/setup.sh --quiet   the same, silent when nothing is missing (make test, make demo)
#   sh scripts/tools/setup.sh --found   install nothing, only say what was found
#
# The packages themselves are asked for each time, so nothing can go stale.
set -eu

# package  why
needed='
gcc                      the C compiler
g++                      the C++ compiler, for the one file that wraps hnswlib
make                     the build
libc6-dev                the C library
liblua5.4-dev            the Lua interpreter that fopo embeds
libopenblas-dev          matrix products
libopenblas-pthread-dev  the variant of OpenBLAS with POSIX threads
liblapacke-dev           QR and SVD of small dense matrices
libhnswlib-dev           the graph index
libncurses-dev           the terminal
libreadline-dev          line editing at the prompt
librandom123-dev         Philox, the random numbers
libzip-dev               .npz files
zlib1g-dev               .gz files
libcmocka-dev            the tests in C
lua-unit                 the tests in Lua
gnuplot-nox              pictures: fopo.plot.save writes .svg and .png through it
lua-check                make lint: luacheck
clang-format             make lint, make format: version 14, as in Debian 12
clang-tidy               make lint
python3-numpy            tests: NumPy reads what fopo writes
python3-scipy            tests: SciPy as an oracle for sparse files and SVD
'

names=$(printf '%s\n' "$needed" | awk 'NF { print $1 }')

missing_packages() {
  # shellcheck disable=SC2086
  dpkg-query -W -f '${Package} ${db:Status-Status}\n' $names 2>/dev/null | awk -v names="$names" '
    $2 == "installed" { have[$1] = 1 }
    END { n = split(names, name, "\n")
          for (i = 1; i <= n; i++) if (!(name[i] in have)) print name[i] }'
}

# One line: what the build can use. CUDA and MPI are optional.
say_found() {
  if [ -z "$missing" ]; then printf '✓ Debian packages'
  else printf '✗ Debian packages (%s missing: make setup)' "$(echo "$missing" | wc -w)"; fi
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
  if [ -n "$nvcc" ]; then
    printf '  ✓ CUDA %s' "$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
  else printf '  ✗ CUDA (optional)'; fi
  if command -v mpicc >/dev/null; then printf '  ✓ MPI (make MPI=1)\n'
  else printf '  ✗ MPI (optional: libopenmpi-dev)\n'; fi
}

# install [command in front]: apt's talk goes to a file and is shown only when it fails. The lists
# of packages are fetched when apt cannot do without.
install() {
  talk=$(mktemp)
  apt="$1 env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300"
  get="$apt install -y --no-install-recommends"
  # shellcheck disable=SC2086
  if $get $missing >"$talk" 2>&1 ||
     { $apt update >"$talk" 2>&1 && $get $missing >>"$talk" 2>&1; }
  then rm -f "$talk"
  else
    tail -n 15 "$talk" >&2
    rm -f "$talk"
    echo "setup: apt-get could not install the packages; its last lines are above" >&2
    exit 1
  fi
}

if ! command -v dpkg-query >/dev/null; then
  [ "${1:-}" = --found ] && exit 0
  echo "setup: this is not Debian; these libraries are needed under their names here:"
  printf '%s\n' "$needed" | sed 's/^./  &/'
  exit 0
fi

missing=$(missing_packages)
if [ "${1:-}" = --found ]; then say_found; exit 0; fi
if [ -z "$missing" ]; then
  [ "${1:-}" = --quiet ] || say_found
  exit 0
fi

echo "setup: Debian packages to install"
printf '%s\n' "$needed" | awk -v names="$missing" '
  BEGIN { n = split(names, name, "\n"); for (i = 1; i <= n; i++) wanted[name[i]] = 1 }
  $1 in wanted { print "  " $0 }'

if [ "$(id -u)" = 0 ]; then
  install ''
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
  [ -t 0 ] && sudo -v
  install sudo
else
  echo "setup: this needs root, and there is no sudo to ask; run as root, then start again:" >&2
  echo "  apt-get update && apt-get install -y --no-install-recommends $(echo $missing)" >&2
  exit 1
fi

missing=$(missing_packages)
if [ -n "$missing" ]; then
  echo "setup: still missing after apt-get: $(echo $missing)" >&2
  exit 1
fi
[ "${1:-}" = --quiet ] || say_found
