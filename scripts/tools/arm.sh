#!/bin/sh
# The libraries of arm64 for `make ARM=1`: Debian's packages, unpacked into build/arm/sysroot.
# Nothing is installed: apt-get works in folders below build/arm, asks for no root, and this
# machine's list of packages and its architectures stay as they are.
#
#   sh scripts/tools/arm.sh --found          says what `make test-arm` lacks; fails if anything
#   sh scripts/tools/arm.sh PACKAGE ...      unpacks these and what they depend on
#
# scripts/tools/setup.sh --arm calls it, and installs the compiler and the emulator.
set -eu
arm=build/arm
sysroot=$arm/sysroot

if [ "${1:-}" = --found ]; then
  lacks=
  for tool in aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64; do
    command -v $tool >/dev/null || lacks="$lacks $tool"
  done
  for header in lua5.4/lua.h zip.h zstd.h; do
    [ -e $sysroot/usr/include/$header ] || { lacks="$lacks $sysroot"; break; }
  done
  [ -n "$lacks" ] || exit 0
  echo "skip: the tests for arm64 need$lacks: sh scripts/tools/setup.sh --arm brings them"
  exit 1
fi

here=$PWD/$arm/apt
rm -rf "$here" $sysroot.new
mkdir -p "$here/lists/partial" "$here/archives/partial"
: >"$here/status"
trap 'rm -rf "$here" $sysroot.new' EXIT

apt() {
  apt-get -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root \
    -o Dir::State="$here" -o Dir::State::lists="$here/lists" -o Dir::State::status="$here/status" \
    -o Dir::Cache="$here" "$@" >"$here/talk" 2>&1
}

# What update cannot reach may be a source that has nothing for arm64: the packages decide.
apt update || true
if ! apt install -y --no-install-recommends --download-only "$@"; then
  tail -n 5 "$here/talk" >&2
  echo "arm: apt-get could not fetch the packages of arm64; its last lines are above" >&2
  exit 1
fi

# /lib is /usr/lib, as on a machine. Programs, documents and static libraries are left out.
mkdir -p $sysroot.new/usr/lib $sysroot.new/usr/bin $sysroot.new/usr/sbin
for name in lib bin sbin; do ln -s usr/$name $sysroot.new/$name; done
for deb in "$here"/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar -x -C $sysroot.new --keep-directory-symlink \
    --exclude=./etc --exclude=./usr/share --exclude='./usr/*bin' --exclude='*.a'
done

# Links that begin at / begin at the new root, and OpenBLAS has the names that its installation
# would give it.
find $sysroot.new -type l -lname '/*' | while read -r link; do
  ln -sfr "$sysroot.new$(readlink "$link")" "$link"
done
for folder in lib include; do
  (cd $sysroot.new/usr/$folder/aarch64-linux-gnu && ln -sf openblas-pthread/*.* .)
done
rm -rf $sysroot
mv $sysroot.new $sysroot
echo "arm: $(du -sh $sysroot | cut -f 1) of libraries in $sysroot"
