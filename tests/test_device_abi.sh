#!/usr/bin/env bash
# The number by which fopo and fopo_cuda.so know each other, in a copy of the headers: it changes
# with every declaration that both see, and with no comment.
set -eu
cd "$(dirname "$0")/.."
here=$PWD
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT

cp -r src "$top/src"

# number FILE SED: with the file edited so; the next edit finds it as it was.
number() {
  sed "$2" "$1" >"$top/$1"
  (cd "$top" && sh "$here/scripts/tools/device_abi.sh" "${CC:-gcc}")
  cp "$1" "$top/$1"
}

# changes WANTED FILE SED: the number is (1) or is not (0) another after the edit.
changes() {
  local found=0
  cmp -s "$2" <(sed "$3" "$2") && { echo "$2: the edit $3 edits nothing"; exit 1; }
  [[ $(number "$2" "$3") == "$base" ]] || found=1
  [[ $found == "$1" ]] || { echo "$2: $3: the number changes: $found instead of $1"; exit 1; }
}

base=$(number src/device/ops.def '')
[[ $base -gt 0 ]]
changes 0 src/device/ops.def 's|^/\* ---- memory|/* ---- space|'
changes 0 src/device/ops.h 's|, best first|, from the best on|'
changes 1 src/device/ops.def 's|^FOPO_OP(topk, CUDA,|FOPO_OP(topk, EVERY,|'
changes 1 src/device/ops.def 's|, size_t L)$|, size_t L, int more)|'
changes 1 src/device/ops.h 's|  float \*r;|  double *r;|'
changes 1 src/device/network.h 's|FOPO_LAYERS = 3|FOPO_LAYERS = 4|'
changes 1 src/kernels/rows.h 's|FOPO_FLOAT16,|FOPO_FLOAT16 = 5,|'
changes 1 src/core/csr.h 's|uint32_t \*ids|uint64_t *ids|'
changes 1 src/core/status.h 's|FOPO_OK = 0|FOPO_OK = 1|'

# Every header that the CUDA sources include counts, however they come to it.
for header in $(sed -n 's|^#include "\(.*\)"|src/\1|p' src/device/cuda/*.cu src/device/cuda/*.cuh |
                LC_ALL=C sort -u); do
  case $header in *.cuh) ;; *) changes 1 "$header" '$a int one_more(void);' ;; esac
done
