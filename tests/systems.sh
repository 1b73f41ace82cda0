#!/usr/bin/env bash
# fopo on bare systems: for each, a chroot with the packages that Debian calls required, apt and
# make, in which the tarball of make dist is unpacked; then what follows at the end of this file,
# by an ordinary user where root is not needed. Prints a table in Markdown and leaves it, and what
# each step said, in build/systems. As root, with mmdebstrap; packages come from the mirror that
# apt has here, or from $MIRROR, as with MIRROR=http://host/ubuntu for a system of Ubuntu.
#
# usage: systems.sh TARBALL SYSTEM ...     SYSTEM: a code name, such as trixie
#        T="test ..." the tests of make test that run there; T=all: every one
set -u
cd "$(dirname "$0")/.."
tarball=$(realpath "$1")
shift
tests=${T:-test_setup.sh test_core test_kernels test_npz test_formats.lua test_index.lua \
  test_policy_file.lua test_serve.lua test_training.lua test_cli.py test_prompt.py test_safe.py}
[[ $tests == all ]] && tests=""
tests=$(echo $tests)
logs=$PWD/build/systems
folder=$(basename "$tarball" .tar.gz)
((EUID == 0)) || { echo "make systems needs root, for chroot" >&2; exit 77; }
command -v mmdebstrap >/dev/null ||
  { echo "make systems needs mmdebstrap: apt-get install mmdebstrap" >&2; exit 77; }
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sed 1q)}
mkdir -p "$logs"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
trap 'exit 130' INT TERM HUP

# inside USER COMMAND: by sh -ec in the chroot, with /proc and /dev; what it starts ends with it.
inside() {
  unshare --mount --pid --fork --kill-child bash -c '
    mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
    exec chroot --userspec="$1" "$0" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
      HOME=/home/fopo LC_ALL=C.UTF-8 TERM=dumb sh -ec "$2"' "$root" "$@"
}
by_root() { inside root "$1"; }
by_user() { inside 1000:1000 "cd /home/fopo/$folder; $1"; }

steps=() failed=0
declare -A cells
# step WHAT COMMAND...: one row of the table, for the system at hand.
step() {
  local what=$1 start=$SECONDS log status
  shift
  log=$logs/$system.$(tr -c 'a-z0-9\n' _ <<<"${what,,}").log
  [[ " ${steps[*]@Q} " == *" ${what@Q} "* ]] || steps+=("$what")
  "$@" >"$log" 2>&1 </dev/null
  status=$?
  cells[$system/$what]="yes, $((SECONDS - start)) s"
  if ((status != 0)); then
    failed=1
    cells[$system/$what]=no
    echo "$system: $what: status $status; the last lines of $log:"
    tail -n 15 "$log" | sed 's/^/    /'
  fi
  printf '%s: %s: %s\n' "$system" "$what" "${cells[$system/$what]}"
  return $status
}

# apt's way to the mirror, as it is set here, but for the lists that it fetches.
bare() {
  rm -rf "${root:?}"/*
  mmdebstrap --quiet --variant=minbase --include=make --format=directory \
    --aptopt=<(apt-config dump | grep -E '^Acquire::(http|https|ftp|Check-|Retries)') \
    "$system" "$root" "$mirror" &&
    by_root 'useradd -u 1000 -m fopo' &&
    tar -xzf "$tarball" -C "$root/home/fopo" && chown -R 1000:1000 "$root/home/fopo"
}

# What make says to a user who may install nothing, then what root is told to do.
setup() {
  ! by_user make || return 1
  by_root "cd /home/fopo/$folder; make setup"
}

# In a folder with another name, with a space in it.
same_bytes() {
  tar -xzf "$tarball" -C "$root/tmp" && mv "$root/tmp/$folder" "$root/home/fopo/another place" &&
    chown -R 1000:1000 "$root/home/fopo/another place" &&
    by_user 'cd "../another place"; make all; cmp build/release/fopo "$OLDPWD/build/release/fopo"'
}

# Both prefixes are as before when all is uninstalled.
installs() {
  by_root "cd /home/fopo/$folder
    find /usr/local /opt >/tmp/before
    for prefix in /usr/local /opt/of/fopo; do
      make -o all install PREFIX=\$prefix
      [ \"\$(cd / && \$prefix/bin/fopo -e 'print(1 + 1)')\" = 2 ]
      make -o all uninstall PREFIX=\$prefix
    done
    rmdir /opt/of; find /usr/local /opt | diff /tmp/before -"
}

ranks() {
  by_root "cd /home/fopo/$folder; sh scripts/tools/setup.sh --mpi" &&
    by_user 'make all
      mpirun -n 2 --oversubscribe --bind-to none ./fopo scripts/examples/ranks.lua \
        datasets/sample.csv 8 50'
}

# add PACKAGE...
add() { by_root "DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $*"; }

# Built by a user, looked at by lintian, installed, run, removed.
deb() {
  add build-essential debhelper lintian libopenmpi-dev &&
    cp "$tarball" "$root/home/fopo/" &&
    by_user "DEBEMAIL=fopo@example.org sh scripts/packaging/deb.sh ../$folder.tar.gz ../deb" &&
    add '/home/fopo/deb/fopo_*.deb' &&
    by_user '[ "$(fopo -e "print(1 + 1)")" = 2 ] && [ -e /usr/share/man/man1/fopo.1.gz ]' &&
    by_root 'apt-get remove -qy fopo; ! command -v fopo'
}

# The files that ask for Linux are built with what they have for other systems.
not_linux() {
  by_user 'cd "../another place"
    touch $(grep -rlE "core/platform.h|__linux__" src --include="*.c")
    make all ABI="-U__linux__ -DFOPO_DEVICE_ABI=1u"
    ./fopo scripts/examples/quickstart.lua datasets/sample.csv 8 5'
}

# Another compiler builds in the second folder, whose objects are no longer needed.
by_clang() {
  add clang libomp-dev &&
    by_user 'cd "../another place"; make all CC=clang CXX=clang++
      ./fopo scripts/examples/quickstart.lua datasets/sample.csv 8 5'
}

# musl-gcc has no libraries to link with: each file is compiled, with the headers of the libraries.
by_musl() {
  add musl-tools &&
    by_user 'mkdir -p build/musl/include
      dpkg -L $(sed -n "/^build=/,/^.$/s/^\([a-z0-9.-]*-dev\) .*/\1/p" scripts/tools/setup.sh |
        grep -v ^libc6) liblapack-dev linux-libc-dev | sed -n "s|^/usr/include/||p" |
      while read -r f; do
        to=build/musl/include/${f#*-linux-gnu/}
        [ -d "/usr/include/$f" ] || { mkdir -p "$(dirname "$to")"; ln -sf "/usr/include/$f" "$to"; }
      done
      for f in $(find src -name "*.c" ! -path "*/mpi/*"); do
        echo "$f"
        musl-gcc -std=c11 -D_GNU_SOURCE -fopenmp -Isrc -isystem build/musl/include/lua5.4 \
          -isystem build/musl/include/openblas-pthread -isystem build/musl/include \
          $(sed -n "1s|^/\* flags $(gcc -dumpmachine | cut -d- -f1): \(.*\) \*/$|\1|p" "$f") \
          -Werror=implicit-function-declaration -c -o build/musl/object.o "$f"
      done'
}

for system; do
  step 'From nothing: `make`, apt and the tarball' bare || continue
  step '`make setup`' setup || continue
  step '`make`' by_user make || continue
  step 'The same bytes from another folder' same_bytes
  step '`make install`, `make uninstall`: nothing is left' installs
  ((${QUICK:-0} == 0)) || continue
  step '`make demo`' by_user 'make demo'
  step "\`make test T=\"${tests:-}\"\`" by_user "make test T='$tests'"
  step 'Open MPI: two ranks' ranks
  step 'A .deb: built, lintian clean, installed, removed' deb
  step 'What stands for Linux elsewhere: `-U__linux__`' not_linux
  step 'Built by clang' by_clang
  step 'C compiled by musl-gcc' by_musl
done

table() {
  local what system
  printf '| |'
  printf ' %s |' "$@"
  printf '\n|---|'
  printf -- '---|%.0s' "$@"
  for what in "${steps[@]}"; do
    printf '\n| %s |' "$what"
    for system; do printf ' %s |' "${cells[$system/$what]:--}"; done
  done
  echo
}
table "$@" | tee "$logs/table.md"
exit $failed
