#!/bin/sh
# The number by which fopo and fopo_cuda.so know that they were built from the same declarations: a
# checksum, without comments, of the headers by which they call each other and of every header that
# those include.
# usage: device_abi.sh COMPILER ...   (from the folder that holds src/)
set -eu
cc=$*
headers="src/device/cuda/cuda.h src/core/memory.h src/core/progress.h src/core/rng.h
src/core/status.h"
strip="$cc -w -fpreprocessed -dD -E -P -x c -"
echo | $strip >/dev/null 2>&1 || strip=cat # clang has no such option: comments count, too
$cc -MM -Isrc $headers | tr -d '\\' | tr ' ' '\n' | grep '^src/' | LC_ALL=C sort -u | xargs cat |
  $strip | cksum | cut -d ' ' -f 1
