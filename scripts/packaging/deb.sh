#!/bin/sh
# A Debian package of the tarball that make dist wrote, in the folder OUT; lintian must find neither
# errors nor warnings in it. Needs what the build needs, and build-essential, debhelper, lintian and
# libopenmpi-dev.
#
# usage: DEBEMAIL=you@host sh scripts/packaging/deb.sh TARBALL OUT
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tarball=$(realpath "$1")
out=$(mkdir -p "$2" && cd "$2" && pwd)
by="${DEBFULLNAME:-fopo} <${DEBEMAIL:?is the address of who makes the package}>"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
tar -xzf "$tarball" -C "$tree"
cd "$tree"/fopo-*
version=$(basename "$PWD")
version=${version#fopo-}
cp -R "$here/debian" .
sed -i "s|@MAINTAINER@|$by|" debian/control
sed -n '/^Permission/,$s/^/ /p' LICENSE | sed 's/^ $/ ./' >license
sed -i -e '/^@LICENSE@/{r license' -e 'd}' debian/copyright
rm license
day=$(date -R -d "@$(stat -c %Y Makefile)")
printf 'fopo (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' \
  "$version" "$by" "$day" >debian/changelog
dpkg-buildpackage -b -us -uc
find .. -maxdepth 1 -type f -exec mv {} "$out" \;
lintian --fail-on error,warning "$out"/fopo_"$version"_*.changes
