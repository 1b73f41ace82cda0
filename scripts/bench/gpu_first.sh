#!/usr/bin/env bash
# The first minutes on a machine with a GPU, step by step, in the order of what they decide:
#
#   open       the programs, from carried.tar.gz (scripts/tools/gpu.sh pack) or build/release, and
#              the card
#   probes     the constants of gpu_model.lua, measured (gpu_limits.cu)
#   ops        every operation and whole trainings against the CPU's (tests/c/test_cuda*.c)
#   steps      seconds a step at eight shapes beside what the model says with those constants
#   curves     rewards of ten trainings beside the same trainings on the CPU
#   sweep      the same step with each switch: graphs or none, one kernel for many steps, kernels
#              launched early, how many blocks share a context
#   profile    where the time of a step goes, by name; with ncu, three kernels' counters
#   sanitizer  compute-sanitizer's memcheck, racecheck, synccheck and initcheck on a few tests
#   torch      a step beside PyTorch's on the same card
#   reward     seconds until 95 % of the mixture's reward, ours and PyTorch's on the same card
#
#   bash scripts/bench/gpu_first.sh [step ...]
#
#   OUT=folder      gets RESULTS.md, log.txt, state.txt, constants.lua, profile.txt, sanitizer.txt,
#                   line by line, so that a cut loses nothing (default runs/gpu)
#   FROM=folder     goes on from what an earlier call has left there (default OUT)
#   LIMIT=seconds   of this call (570); a step that would not fit is left to the next call
#   EMULATED=1      a rehearsal without a card: small sizes on the emulation of the tests, whose
#                   programs must have been built (tests/nightly/lease)
#
# Each step has its own time box and may fail or be cut without the others; it is tried again by the
# next call unless it was done. Without a card each step that needs one says so. docs/gpu.md says
# how it is used where machines are lent for minutes.
set -u
cd "$(dirname "$0")/../.."
out=${OUT:-runs/gpu} limit=${LIMIT:-570} emulated=${EMULATED:-} began=$SECONDS
from=${FROM:-$out}
mkdir -p "$out"
out=$(realpath "$out")
if [[ -d $from && $(realpath "$from") != "$out" ]]; then cp -f "$from"/* "$out/"; fi
touch "$out/state.txt" "$out/log.txt" "$out/sanitizer.txt"
bin=$PWD/build/release
[[ ! -e carried.tar.gz || -n $emulated ]] || bin=$PWD/carried/release
part=$bin/fopo_cuda.so
[[ -z $emulated ]] || part=$bin/emulated/fopo_cuda.so
export FOPO_HISTORY=/dev/null PYTHON=${PYTHON:-$(command -v python3 || echo python3)}
unset FOPO_CUDA

all="open probes ops steps curves sweep profile sanitizer torch reward"

# The seconds that a step may take, and those below which it is not begun.
box() {
  case $1 in
    open) echo 60 5 ;;
    probes) echo 60 20 ;;
    ops) echo 100 40 ;;
    steps) echo 120 60 ;;
    curves) echo 100 50 ;;
    sweep) echo 90 30 ;;
    profile) echo 90 30 ;;
    sanitizer) echo 150 30 ;;
    torch) echo 90 50 ;;
    reward) echo 120 60 ;;
  esac
}

card() {
  if [[ -n $emulated ]]; then
    echo "the emulation of a card: no time in it means anything"
  elif command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,memory.total,driver_version,clocks.sm,clocks.mem,clocks.max.sm \
      --format=csv,noheader 2>&1 | head -n 1
  else
    echo "no card: nvidia-smi is absent"
  fi
}

# ---- the steps ----

# Where carried programs find cuBLAS, if not where the toolkit that built them had it.
cublas() {
  [[ -e $part && -z $emulated ]] || return 0
  ldd "$part" | grep -q 'libcublas.*not found' || return 0
  local name
  name=$(ldd "$part" | awk '/libcublas\.so.*not found/ { print $1 }')
  find /usr/local /opt /usr/lib -name "$name" 2>/dev/null | head -n 1 | xargs -r dirname
}

do_open() {
  if [[ -e carried.tar.gz && -z $emulated ]]; then
    sh scripts/tools/gpu.sh unpack && echo "carried: $(cat carried/version)" || return
  fi
  [[ -x $bin/fopo ]] || { echo "$bin/fopo is absent; make, or carry carried.tar.gz"; return 1; }
  card
  nproc
  local lib
  lib=$(cublas)
  [[ -z $lib ]] || { echo "cuBLAS: $lib"; export LD_LIBRARY_PATH=$lib; }
  ldd "$bin/fopo" | grep 'not found' && return 1
  fopo -e 'print(fopo.version); print(require("fopo.native").device("cuda").name)'
  local status=$?
  ((status == 0)) && return 0
  [[ -e $part ]] && return 0 # each step says that there is no card
  echo "$part is absent: no nvcc was there"
}

do_probes() {
  local program=$bin/gpu_limits status
  [[ -z $emulated ]] || program=$bin/emulated/gpu_limits
  [[ -x $program ]] || { echo "skip: $program is absent"; return 77; }
  "$program" constants "$out/constants.tmp"
  status=$?
  ((status == 0)) && mv "$out/constants.tmp" "$out/constants.lua" || rm -f "$out/constants.tmp"
  [[ -n $emulated ]] || { command -v nvidia-smi >/dev/null && nvidia-smi -q -d CLOCK | head -n 30; }
  return $status
}

# Runs tests on the card: 77 says that there is none.
test_program() {
  [[ -x $bin/$1 ]] || { echo "skip: $bin/$1 is absent"; return 77; }
  FOPO_TEST_GPU=$([[ -n $emulated ]] || echo 1) "$bin/$1" "${@:2}" 2>&1 | grep -v '^\[ RUN'
  return "${PIPESTATUS[0]}"
}

do_ops() {
  local name status failed=0
  for name in test_cuda test_sparse_scores test_cuda_runs; do
    test_program $name ${emulated:+test_products}
    status=$?
    ((status != 77)) || return 77
    ((status == 0)) || failed=1
    if [[ -n $emulated ]]; then break; fi # the others take minutes there
  done
  return $failed
}

fopo() {
  [[ -x $bin/fopo ]] || { echo "skip: $bin/fopo is absent"; return 77; }
  if [[ -n $emulated ]]; then FOPO_CUDA=$part "$bin/fopo" "$@"; else "$bin/fopo" "$@"; fi
}

# bench SECONDS NAME=VALUE...: section gpu of the benchmarks.
bench() {
  local constants=
  [[ ! -e $out/constants.lua ]] || constants=constants=$out/constants.lua
  fopo scripts/bench/run.lua gpu dims=100 enough="$1" threads="$(nproc)" rounds=5 $constants \
    "${@:2}" ${emulated:+scale=0.003 dims=10 samples=20 rounds=1 sample=0.01 settle=0 limit=1 \
    batches=32 cases=uniform} >"$out/bench.tmp"
  local status=$?
  cat "$out/bench.tmp"
  if grep -qE '^gpu: (skipped|.*PyTorch skipped)' "$out/bench.tmp"; then status=77; fi
  rm -f "$out/bench.tmp"
  return $status
}

do_steps() {
  bench $(($1 - 20)) torch=no batches=32,1024 \
    cases="uniform/mixture/mixture, kept/shared head 512 + 64, bfloat16/REINFORCE"
}
do_torch() { bench $(($1 - 20)) batches=32 cases="REINFORCE/uniform/mixture"; }

do_curves() {
  fopo scripts/bench/gpu_curves.lua ${emulated:+scale=0.05 steps=8 batch=2 dim=16 apart=1}
}

do_sweep() {
  local set talk case
  for set in "" FOPO_RECORD=0 FOPO_GPU_PERSISTENT={1,2} FOPO_GPU_EARLY=1 \
    FOPO_GPU_SPLITS={2,4,8,16,32} head FOPO_GPU_PERSISTENT=2,head; do
    [[ -z $emulated || $set == FOPO_RECORD=0 ]] || continue
    case=uniform
    [[ $set != *head ]] || case="shared head 512 + 64, bfloat16"
    talk=$(
      [[ $set != *=* ]] || export "${set%,head}"
      bench 10 torch=no scale=0.3 batches=32 rounds=3 cases="$case" 2>&1
    )
    grep '^gpu: skipped' <<<"$talk" && return 77
    printf '%-27s %s\n' "${set:-as it is}" "$(grep -oE "${case/+/.} [0-9.]+ us" <<<"$talk")"
  done
  [[ -z $emulated ]] || return 0
  FOPO_GPU_EARLY=1 test_program test_cuda_runs "test_re*" && # recorded steps, against the CPU's
    test_program test_cuda_runs "test_persistent*"
}

do_profile() {
  local ncu kernel
  FOPO_GPU_PROFILE=$out/profile.txt fopo scripts/bench/gpu_profile.lua methods=2,8,14 \
    ${emulated:+scale=0.003 dims=10 batches=8 steps=2 methods=2} || return
  tail -n 80 "$out/profile.txt"
  ncu=$(command -v ncu) && [[ -z $emulated ]] || { echo "ncu is absent"; return 0; }
  for kernel in snis_kernel outer_kernel adam_kernel; do
    FOPO_RECORD=0 timeout 30 "$ncu" --clock-control none --kernel-name "regex:$kernel" \
      --launch-skip 5 --launch-count 2 "$bin/fopo" scripts/bench/run.lua gpu torch=no dims=100 \
      scale=0.3 batches=32 cases=uniform rounds=1 sample=0.001 2>&1 |
      grep -E 'rror|_kernel|Duration|Throughput|Registers Per|Occupancy|No kernels'
  done
  return 0
}

# A few tests that between them launch every kernel, and finish under a sanitizer. What is clean is
# kept in sanitizer.txt, and the next call goes on behind it. One that is cut may have found nothing
# so far.
do_sanitizer() {
  local sanitizer tool test status left=0 failed=0 end=$((SECONDS + $1 - 5)) real=1
  [[ -z $emulated ]] || real=0
  sanitizer=${SANITIZER:-$(command -v compute-sanitizer ||
    ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)}
  [[ -n $sanitizer ]] || { echo "skip: compute-sanitizer is absent"; return 77; }
  FOPO_TEST_GPU=$real "$bin/test_cuda" test_clock || { echo "skip: no card opens"; return 77; }
  for tool in memcheck racecheck synccheck initcheck; do
    for test in test_snis_edges test_slates test_mixture test_tail test_topk_prefix test_snis_head \
      test_reinforce test_policy test_items test_totals test_start_batch test_outer_totals \
      test_head_drawn test_head_recorded; do
      ! grep -qx "$tool $test clean" "$out/sanitizer.txt" || continue
      ((SECONDS + 5 < end)) || { left=$((left + 1)); continue; }
      FOPO_TEST_GPU=$real timeout $(((end - SECONDS) / 2 + 5)) "$sanitizer" --tool $tool \
        --error-exitcode 1 "$bin/test_cuda" $test >"$out/sanitizer.tmp" 2>&1
      status=$?
      if ((status == 124)) &&
        grep '^=========' "$out/sanitizer.tmp" | grep -qv COMPUTE-SANITIZER; then
        status=1
      fi
      case $status in
        0) echo "$tool $test clean" ;;
        124) echo "$tool $test cut, nothing found so far" ;;
        *) echo "$tool $test status $status"; failed=1 && tail -n 60 "$out/sanitizer.tmp" ;;
      esac | tee -a "$out/sanitizer.txt"
      ((status == 0 || status == 124)) || failed=1
      rm -f "$out/sanitizer.tmp"
    done
  done
  echo "$(grep -c 'clean$' "$out/sanitizer.txt") runs are clean, $left are left"
  ((failed == 0)) || return 1
  ((left == 0)) || return 124
}

do_reward() {
  fopo scripts/bench/run.lua reward device=cuda files= large=no twin=0.05 seeds=1 limit=15 \
    ${emulated:+twin=0.003 steps=2 limit=2 test=100} | tee "$out/reward.tmp"
  local status=${PIPESTATUS[0]}
  if grep -q '^reward: skipped' "$out/reward.tmp"; then status=77; fi
  rm -f "$out/reward.tmp"
  return "$status"
}

# ---- results ----

# RESULTS.md of all that was done so far, in this call or an earlier one.
report() {
  {
    printf '# fopo on a GPU\n\n%s, %s, fopo %s\n\n' "$(date -u '+%Y-%m-%d %H:%M UTC')" "$about" \
      "$(cat carried/version 2>/dev/null || git describe --always --dirty 2>/dev/null)"
    printf '| step | result | seconds |\n| --- | --- | ---: |\n'
    for s in $all; do
      grep "^| $s |" "$out/state.txt" || printf '| %s | not yet | |\n' "$s"
    done
    printf '\n```\n'
    cat "$out/constants.lua" 2>/dev/null
    cat "$out/log.txt"
    printf '```\n'
  } >"$out/RESULTS.tmp" && mv "$out/RESULTS.tmp" "$out/RESULTS.md"
}

# Runs a step in its box, its output in the log as it comes.
run_step() {
  local name=$1 most least left seconds status start=$SECONDS word
  read -r most least <<<"$(box "$name")"
  left=$((limit - (SECONDS - began)))
  if ((left < least)); then
    echo "$name: left to the next call, for $left of $limit seconds remain"
    return
  fi
  seconds=$((left < most ? left : most))
  printf '\n## %s, at most %d s\n' "$name" "$seconds" | tee -a "$out/log.txt"
  timeout -k 5 "$seconds" bash -c '"do_$0" "$1"' "$name" "$seconds" </dev/null 2>&1 |
    tee -a "$out/log.txt"
  status=${PIPESTATUS[0]}
  case $status in
    0) word=ok ;;
    77) word="skipped: $(grep -i 'skip' "$out/log.txt" | tail -n 1 | sed 's/^.*skip[a-z]*: //')" ;;
    124 | 137) word="cut after $seconds s" ;;
    *) word="failed, status $status" ;;
  esac
  sed -i "/^| $name |/d" "$out/state.txt"
  printf '| %s | %s | %d |\n' "$name" "$word" $((SECONDS - start)) >>"$out/state.txt"
  echo "$name: $word"
  report
}

export -f card cublas test_program fopo bench
for name in $all; do export -f "do_$name"; done
export bin part emulated out
about=$(card)
for name in ${*:-$all}; do
  case " $all " in *" $name "*) ;; *) echo "there is no step $name but $all" >&2; exit 2 ;; esac
  if (($# == 0)) && [[ $name != open ]] && grep -q "^| $name | ok" "$out/state.txt"; then
    echo "$name: done before"
    continue
  fi
  run_step "$name"
  if [[ $name == open && -z ${LD_LIBRARY_PATH:-} ]]; then
    lib=$(cublas)
    [[ -z $lib ]] || export LD_LIBRARY_PATH=$lib
  fi
done
report
rm -f "$out"/*.tmp
