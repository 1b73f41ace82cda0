#!/bin/sh
# The number by which fopo and fopo_cuda.so know that they were built from the same declarations: a
# checksum, without comments, of the headers by which they call each other and of every header that
# those include.
# usage: device_abi.sh COMPILER ...   (from the folder that holds src/)
set -eu
cc=$*
headers="src/device/cuda/cuda.h src/core/memory.h src/core/progress.h src/core/rng.h
src/core/status.h"
$cc -MM -Isrc $headers | tr -d '\\' | tr ' ' '\n' | grep '^src/' | LC_ALL=C sort -u | xargs cat |
  $cc -w -fpreprocessed -dD -E -P -x c - | cksum | cut -d ' ' -f 1
