#!/usr/bin/env bash
# The first half hour on a machine with a GPU, step by step:
#
#   build      everything, for this card alone, by scripts/tools/gpu.sh if carried.tar.gz is here
#   ops        every operation and whole trainings against the CPU's (tests/c/test_cuda*.c)
#   curves     rewards of nine trainings beside the same trainings on the CPU
#   sanitizer  compute-sanitizer's memcheck, racecheck, synccheck and initcheck on a few tests
#   bench32, bench1024   medians of all methods at these batches, L = 10, 100, 1000
#   profile    where the time of a step goes
#   reward     seconds until 95 % of the mixture's reward, ours and PyTorch's on the same card
#
#   bash scripts/bench/gpu_first.sh [step ...]
#
#   OUT=folder      gets RESULTS.md and a log of each step, line by line, so that a cut loses
#                   nothing (default runs/gpu)
#   LIMIT=seconds   of this call (570); a step that would not fit is left to the next call
#   EMULATED=1      a rehearsal without a card: small sizes on the emulation of the tests
#   CUDA_ARCH=n     builds for cards of compute version n (default native: the card that is here)
#
# The same command goes on where the last one stopped: what is done is kept in build/gpu-first. Each
# step has its own time box and may fail or be cut without the others. Without a card each step that
# needs one says so. Four calls of ten minutes hold all of them.
set -u
cd "$(dirname "$0")/../.."
out=${OUT:-runs/gpu} limit=${LIMIT:-570} emulated=${EMULATED:-}
state=build/gpu-first${emulated:+-emulated}
mkdir -p "$out" "$state"
began=$SECONDS
export FOPO_HISTORY=/dev/null PYTHON=${PYTHON:-$(command -v python3 || echo python3)}
unset FOPO_CUDA

# The seconds that a step may take, and those below which it is not begun.
box() {
  case $1 in
    build) echo 300 100 ;;
    ops) echo 180 60 ;;
    curves) echo 240 90 ;;
    sanitizer) echo 240 80 ;;
    bench32 | bench1024) echo 270 120 ;;
    profile) echo 180 90 ;;
    reward) echo 270 120 ;;
  esac
}
all="build ops curves sanitizer bench32 bench1024 profile reward"

make_fopo() {
  if [[ -n $emulated ]]; then
    make CUDA= all build/release/test_cuda build/release/test_cuda_runs \
      build/release/emulated/fopo_cuda.so
  elif [[ -e carried.tar.gz ]]; then
    sh scripts/tools/gpu.sh make "$@"
  else
    make "$@"
  fi
}

card() {
  if [[ -n $emulated ]]; then
    echo "the emulation of a card: no time in it means anything"
  elif command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader 2>&1 | head -n 1
  else
    echo "no card: nvidia-smi is absent"
  fi
}

# ---- the steps ----

do_build() {
  make_fopo -j"$(nproc)" CUDA_ARCH="${CUDA_ARCH:-native}" all build/release/test_cuda \
    build/release/test_cuda_runs
}

# Runs tests, or programs, on the card: 77 says that there is none.
test_program() {
  local name=$1
  shift
  if [[ ! -x build/release/$name ]]; then
    echo "skip: build/release/$name is absent; the step build makes it"
    return 77
  fi
  [[ -n $emulated ]] || export FOPO_TEST_GPU=1
  "build/release/$name" "$@" 2>&1 | grep -v '^\[ RUN'
  local status=${PIPESTATUS[0]}
  unset FOPO_TEST_GPU
  return "$status"
}

do_ops() {
  local a b
  test_program test_cuda
  a=$?
  ((a != 77)) || return 77
  if [[ -n $emulated ]]; then return $a; fi # the other takes minutes there
  test_program test_cuda_runs
  b=$?
  return $((a != 0 || b != 0))
}

fopo() {
  if [[ ! -x build/release/fopo ]]; then
    echo "skip: build/release/fopo is absent; the step build makes it"
    return 77
  fi
  if [[ -n $emulated ]]; then
    FOPO_CUDA=$PWD/build/release/emulated/fopo_cuda.so build/release/fopo "$@"
  else
    build/release/fopo "$@"
  fi
}

do_curves() { fopo scripts/bench/gpu_curves.lua ${emulated:+scale=0.05 steps=8 batch=8 dim=16}; }

# A few tests that between them launch every kernel, and finish under a sanitizer. One that is cut
# has found nothing so far, or it would have said so.
do_sanitizer() {
  local sanitizer tool failed=0 seen=0 status end=$((SECONDS + $1)) real=1
  [[ -z $emulated ]] || real=0
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  if [[ -z $sanitizer ]]; then
    echo "skip: compute-sanitizer is absent"
    return 77
  fi
  if ! FOPO_TEST_GPU=$real build/release/test_cuda test_clock; then
    echo "skip: no card opens"
    return 77
  fi
  for tool in memcheck racecheck synccheck initcheck; do
    for test in test_snis_edges test_again test_mixture test_tail test_topk_prefix test_snis_head \
      test_reinforce test_policy test_items test_totals test_start_batch test_outer_totals \
      test_head_drawn test_head_recorded; do
      ((SECONDS + 5 < end)) || continue
      FOPO_TEST_GPU=$real timeout $(((end - SECONDS) / 2 + 5)) "$sanitizer" --tool $tool \
        --error-exitcode 1 build/release/test_cuda $test >"$state/sanitizer.tmp" 2>&1
      status=$? seen=$((seen + 1))
      printf '%-10s %-20s %s\n' $tool $test "$(case $status in
        0) echo clean ;; 124) echo 'cut, nothing found so far' ;; *) echo "status $status" ;; esac)"
      if ((status != 0 && status != 124)); then
        failed=1
        tail -n 60 "$state/sanitizer.tmp"
      fi
    done
  done
  echo "$seen runs"
  return $failed
}

do_bench() {
  local small=
  if [[ -n $emulated ]]; then
    small="scale=0.003 dims=10 samples=100 rounds=1 sample=0.01 settle=0 limit=1"
    # 1,024 would not fit the box; the kernels and products of a large batch begin above 128
    (($1 <= 160)) || small+=" batches=160"
  fi
  fopo scripts/bench/run.lua gpu batches="$1" enough="$2" threads="$(nproc)" rounds=5 \
    $small || return
  ! grep -q '^gpu: skipped' "$out/bench$1.log" || return 77
}

# The tables go into the step's log as they come.
do_profile() {
  FOPO_GPU_PROFILE=$out/profile.log fopo scripts/bench/gpu_profile.lua \
    ${emulated:+scale=0.003 dims=10 batches=256 steps=2}
}

do_reward() {
  fopo scripts/bench/run.lua reward device=cuda files= large=no twin=0.05 seeds=1 limit=15 \
    ${emulated:+twin=0.003 steps=2 limit=2 test=100} || return
  ! grep -q '^reward: skipped' "$out/reward.log" || return 77
}

do_bench32() { do_bench 32 $(($1 - 60)); }
do_bench1024() { do_bench 1024 $(($1 - 60)); }

step() { "do_$1" "$2"; }

# ---- results ----

# RESULTS.md of all that was done so far, in this call or an earlier one.
report() {
  {
    printf '# fopo on a GPU\n\n%s, %s, fopo %s\n\n' "$(date -u '+%Y-%m-%d %H:%M UTC')" "$(card)" \
      "$(git describe --always --dirty 2>/dev/null || echo 'of no checkout')"
    printf '| step | result | seconds |\n| --- | --- | ---: |\n'
    for s in $all; do
      [[ -e $state/$s.row ]] && cat "$state/$s.row" || printf '| %s | not yet | |\n' "$s"
    done
    for s in $all; do
      [[ -e $state/$s.log ]] || continue
      [[ $s != build ]] || continue
      printf '\n## %s\n\n```\n' "$s"
      tail -n 250 "$state/$s.log"
      printf '```\n'
    done
  } >"$out/RESULTS.md.tmp" && mv "$out/RESULTS.md.tmp" "$out/RESULTS.md"
}

# Runs a step in its box, its output in $out as it comes.
run_step() {
  local name=$1 most least left seconds status start=$SECONDS word
  read -r most least <<<"$(box "$name")"
  left=$((limit - (SECONDS - began)))
  if ((left < least)); then
    echo "$name: left to the next call, for $left of $limit seconds remain"
    return 1
  fi
  seconds=$((left < most ? left : most))
  echo "$name, at most $seconds s ..."
  : >"$out/$name.log"
  export -f step do_build do_ops do_curves do_sanitizer do_bench do_bench32 do_bench1024 \
    do_profile do_reward test_program fopo make_fopo
  export state emulated out
  timeout -k 5 "$seconds" bash -c "step $name $seconds" </dev/null 2>&1 | tee -a "$out/$name.log"
  status=${PIPESTATUS[0]}
  cp "$out/$name.log" "$state/$name.log"
  case $status in
    0) word=ok ;;
    77) word="skipped: $(grep -m 1 -i 'skip' "$state/$name.log" | sed 's/^.*skip[a-z]*: //')" ;;
    124 | 137) word="cut after $seconds s" ;;
    *) word="failed, status $status" ;;
  esac
  printf '| %s | %s | %d |\n' "$name" "$word" $((SECONDS - start)) >"$state/$name.row"
  if ((status == 0)); then touch "$state/$name.done"; fi
  echo "$name: $word"
  report
}

for name in ${*:-$all}; do
  case " $all " in *" $name "*) ;; *) echo "there is no step $name but $all" >&2; exit 2 ;; esac
  if (($# == 0)) && [[ -e $state/$name.done ]]; then
    echo "$name: done before"
    continue
  fi
  run_step "$name" || break
done
report
