#!/usr/bin/env bash
# The bench's own programs compile and its sections run, on a hundredth of the sizes; what they
# measure is not looked at.
set -u
bench=$(realpath "$(dirname "$0")/../scripts/bench/run.lua")
fopo=$(realpath "$FOPO")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
"$fopo" "$bench" steps norm hnsw arrays dims=10 scale=0.01 torch=no rounds=1 limit=1 sample=0.02 \
  settle=0 >talk 2>&1 || { cat talk; exit 1; }
grep -q 'L = 10: uniform .* roofline' talk && grep -q '^hnsw ' talk &&
  grep -Eq '^arrays .* NumPy|NumPy skipped' talk || { cat talk; exit 1; }
