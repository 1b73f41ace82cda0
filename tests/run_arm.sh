#!/usr/bin/env bash
# Runs tests on arm64, as qemu-user emulates it: the programs in C that `make ARM=1` built, some of
# the tests in Lua, and trainings that this machine's fopo has made before. Two at a time they take
# some minutes. Left out, unless they are named: the emulated GPU, an emulation in an emulation, and
# test_prefilter, a quarter of an hour.
# usage: run_arm.sh BUILD_FOLDER FOPO_OF_THIS_MACHINE [name ...]
set -u
cd "$(dirname "$0")/.."
export OUT=$1 HERE=$2
shift 2
export LC_ALL=C.UTF-8 TERM=dumb FOPO_HISTORY=/dev/null FOPO_CUDA=none FOPO_THREADS=2
unset FOPO_ISA
export EMULATE="qemu-aarch64 -L $OUT/sysroot"
TOP=$(mktemp -d)
trap 'rm -rf "$TOP"' EXIT
export TOP

# Trainings by a set of kernels there, and by the set here that sums in the same order.
training() {
  mkdir -p "$TOP/$2" && FOPO_ISA=$2 $HERE tests/arm/training.lua "$TOP/$2" keep &&
    FOPO_ISA=$1 $EMULATE "$OUT/fopo" tests/arm/training.lua "$TOP/$2" compare
}

# one NAME: runs it and prints a line, and what it said if it failed.
one() {
  local status start=$SECONDS talk=$TOP/$1.talk
  case $1 in
    training_neon) training neon avx2 ;;
    training_portable) training portable portable ;;
    search) $EMULATE "$OUT/fopo" tests/arm/search.lua ;;
    *.lua) timeout -k 10 1800 $EMULATE "$OUT/fopo" "tests/lua/$1" ;;
    *) timeout -k 10 1800 $EMULATE "$OUT/$1" ;;
  esac </dev/null >"$talk" 2>&1
  status=$?
  if [[ $status == 0 ]]; then
    printf '  ok    %-28s %4d s\n' "$1" $((SECONDS - start))
  else
    printf '  FAIL  %-28s %4d s  (status %s)\n%s\n' "$1" $((SECONDS - start)) "$status" \
      "$(tail -n 200 "$talk" | sed 's/^/        /')"
  fi
  return "$status"
}
export -f one training

names=$*
if [[ -z $names ]]; then
  names='training_neon training_portable search test_index.lua test_native.lua test_formats.lua'
  for program in "$OUT"/test_*; do
    name=$(basename "$program")
    case $name in *.* | test_cuda* | test_prefilter) ;; *) names+=" $name" ;; esac
  done
fi
echo "$names" | tr ' ' '\n' | xargs -P "$(nproc)" -I{} bash -c 'one {}'
