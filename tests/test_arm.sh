#!/usr/bin/env bash
# The kernels compile for arm64 without a warning, and agree with the portable ones on an emulated
# CPU. `make test-arm` does the same with the whole program.
set -eu
cd "$(dirname "$0")/.."
unset MAKEFLAGS MAKELEVEL MFLAGS
if [ "$(basename "$(dirname "$(readlink -f "$FOPO")")")" != release ]; then
  echo "skip: the kernels for arm64 are built once, in mode release"
  exit 77
fi
sh scripts/tools/arm.sh --found || exit 77
talk=$(mktemp)
trap 'rm -f "$talk"' EXIT

program=build/arm/kernels_alone
make ARM=1 V=0 $program >"$talk" 2>&1 || { cat "$talk"; exit 1; }
! grep -A5 'warning:' "$talk" || exit 1
qemu-aarch64 -L build/arm/sysroot $program >"$talk" 2>&1 || { cat "$talk"; exit 1; }
if grep -q '^neon: skipped, this CPU' "$talk"; then
  echo "the emulated CPU has no NEON, or the kernels do not find it"
  exit 1
fi
echo "arm64: $(grep -c ' OK ' "$talk") tests of the kernels passed"
