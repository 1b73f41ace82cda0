#!/usr/bin/env bash
# Registers, shared memory and spills of the kernels, as ptxas told them when the CUDA part was
# built (tests/cuda/resources.py); and a make with an nvcc that is too old.
set -u
cd "$(dirname "$0")/.."
out=$(dirname "${FOPO:-build/release/fopo}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

printf '#!/bin/sh\necho "Cuda compilation tools, release 11.8, V11.8.89"\n' >"$folder/nvcc"
chmod +x "$folder/nvcc"
said=$(make -n CUDA="$folder/nvcc" all 2>&1)
if ! grep -qF "is of CUDA 11.8; the part for GPUs needs 12.0 or later and is left out" <<<"$said" ||
  grep -qF "fopo_cuda.so" <<<"$said"; then
  echo "make with the nvcc of CUDA 11.8 says:"
  head -5 <<<"$said"
  exit 1
fi

"${PYTHON:-/usr/bin/python3}" tests/cuda/resources.py "$out"
