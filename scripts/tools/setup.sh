#!/bin/sh
# Installs the packages that fopo is built and tested with, if they are missing.
#
#   sh scripts/tools/setup.sh           install what is missing, then say what was found
#   sh scripts/tools/setup.sh --build   for make: what the build needs, silent if nothing is missing
#   sh scripts/tools/setup.sh --quiet   for make test: what the tests need too, silent likewise
#   sh scripts/tools/setup.sh --lint    the same with the tools of make lint
#   sh scripts/tools/setup.sh --arm     the same with what make test-arm needs
#   sh scripts/tools/setup.sh --mpi     the same with what make MPI=1 needs
#   sh scripts/tools/setup.sh --found   install nothing, only say what was found
#
# Debian 12, Debian 13 and Ubuntu 24.04 have them under the same names (Ubuntu in "universe"); make
# systems tries the first two. The package database is asked each time, so nothing can go stale.
set -eu
quiet=false
case ${1:-} in --build | --quiet | --lint) quiet=true ;; esac

# package  why
build='
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
libzstd-dev              .zst files
'

tests='
libcmocka-dev            the tests in C
lua-unit                 the tests in Lua
gnuplot-nox              pictures: fopo.plot.save writes .svg and .png through it
python3-numpy            tests: NumPy reads what fopo writes
python3-scipy            tests: SciPy as an oracle for sparse files and SVD
'

# make lint needs version 14 of the clang tools: other versions format otherwise.
lint='
lua-check                make lint: luacheck
clang-format-14          make lint, make format
clang-tidy-14            make lint
cppcheck                 make lint
universal-ctags          make lint: circles of files by the functions they use
'

# The libraries for arm64 are unpacked below build/arm, from the packages of their headers.
arm='
gcc-aarch64-linux-gnu    make test-arm: the C compiler
g++-aarch64-linux-gnu    make test-arm: the C++ compiler
qemu-user                make test-arm: runs programs of arm64
'

# Several processes: the program opens OpenMPI if mpirun or Slurm starts it.
mpi='
libopenmpi-dev           many machines: mpicc builds fopo_mpi.so
openmpi-bin              many machines: mpirun
'

# "debian 12", "ubuntu 24.04", ...
system=$(. /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}") || system=unknown
case $system in
  'debian 13') lint=$(printf '%s\n' "$lint" | grep -v -e -14) ;; # it begins at version 17
esac
needed=$build$tests
libraries=$(printf '%s\n' "$needed" | awk '/^lib/ { print $1 }')
case ${1:-} in
  --build) needed=$build ;;
  --lint) needed="$needed$lint" ;;
  --arm) needed="$needed$arm" ;;
  --mpi) needed="$needed$mpi" ;;
esac

# missing_packages LIST: those of the list that are not installed.
missing_packages() {
  names=$(printf '%s\n' "$1" | awk 'NF { print $1 }')
  # shellcheck disable=SC2086
  dpkg-query -W -f '${Package} ${db:Status-Status}\n' $names 2>/dev/null | awk -v names="$names" '
    $2 == "installed" { have[$1] = 1 }
    END { n = split(names, name, "\n")
          for (i = 1; i <= n; i++) if (!(name[i] in have)) print name[i] }'
}

# What is missing of a list, in words.
say_missing() {
  n=$(missing_packages "$2" | wc -w)
  if [ "$n" = 0 ]; then printf '✓ %s' "$1"; else printf '✗ %s (%s missing: %s)' "$1" "$n" "$3"; fi
}

# One line: what the build can use. CUDA and MPI are optional.
say_found() {
  say_missing packages "$build" 'make setup'
  printf '  '
  say_missing 'for tests' "$tests" 'make test installs them'
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
  if [ -n "$nvcc" ]; then
    printf '  ✓ CUDA %s' "$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
  else printf '  ✗ CUDA (optional)'; fi
  if command -v mpicc >/dev/null; then printf '  ✓ MPI\n'
  else printf '  ✗ MPI (optional: make MPI=1)\n'; fi
}

# The end: what there is now.
finish() {
  $quiet || say_found
  # shellcheck disable=SC2086
  [ "${1:-}" != --arm ] || sh "$(dirname "$0")/arm.sh" libgomp1 libstdc++6 $libraries
  exit
}

# install [command in front]: apt's output goes to a file and is shown only if it fails. The lists
# of packages are fetched if apt cannot do without.
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
    case $system in ubuntu*)
      echo "setup: if it finds no such package, enable universe: add-apt-repository universe" >&2 ;;
    esac
    exit 1
  fi
}

if ! command -v dpkg-query >/dev/null; then
  case ${1:-} in
    --found) exit 0 ;;
    --build) [ ! -e build ] || exit 0 ;; # said before the first build
  esac
  echo "setup: this system has no Debian packages, so nothing was installed. fopo needs (by"
  echo "Debian's names, with headers; liblua5.4-dev is lua-devel on Fedora, for example):"
  printf '%s\n' "$needed" | sed 's/^./  &/'
  exit 0
fi

missing=$(missing_packages "$needed")
if [ "${1:-}" = --found ]; then say_found; exit 0; fi
[ -n "$missing" ] || finish "$@"

case ${1:-} in
  --build) whose='The build of fopo needs' ;;
  --lint) whose='make lint needs' ;;
  --arm) whose='make test-arm needs' ;;
  *) whose='fopo and its tests need' ;;
esac
echo "$whose these packages, which this system does not have yet:"
printf '%s\n' "$needed" | awk -v names="$missing" '
  BEGIN { n = split(names, name, "\n"); for (i = 1; i <= n; i++) wanted[name[i]] = 1 }
  $1 in wanted { print "  " $0 }'
case $system in
  'debian 12' | 'debian 13' | 'ubuntu 24.04') ;;
  *) echo "These are the names of Debian 12 and 13 and Ubuntu 24.04; on $system some may differ." ;;
esac

if [ "$(id -u)" = 0 ]; then
  echo 'apt-get installs them now, with what they depend on; its output is shown if it fails.'
  install ''
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
  echo 'sudo apt-get installs them now, with what they depend on; its output is shown if it fails.'
  [ -t 0 ] && sudo -v
  install sudo
else
  echo "setup: this needs root, and there is no sudo to ask; run as root, then start again:" >&2
  echo "  apt-get update && apt-get install -y --no-install-recommends $(echo $missing)" >&2
  # The same libraries may be here under other names; without a compiler nothing is.
  if [ "${1:-}" = --build ] && command -v gcc >/dev/null && command -v g++ >/dev/null; then
    echo 'setup: the build goes on without them' >&2
    exit 0
  fi
  exit 1
fi

missing=$(missing_packages "$needed")
if [ -n "$missing" ]; then
  echo "setup: still missing after apt-get: $(echo $missing)" >&2
  exit 1
fi
finish "$@"
