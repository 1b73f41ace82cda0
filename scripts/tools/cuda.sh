#!/bin/sh
# The folder of the CUDA toolkit that an nvcc belongs to:
#
#   sh scripts/tools/cuda.sh NVCC
#
# nvcc itself is asked, since it may be a wrapper such as ccache's; if it does not say, its own path
# does.
set -eu
top=$("$1" --dryrun -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')
realpath "${top:-$(dirname "$(readlink -f "$(command -v "$1")")")/..}"
