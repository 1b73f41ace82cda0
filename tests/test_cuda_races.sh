#!/usr/bin/env bash
# The kernels with each access watched (tests/cuda/races.cc), and the watcher itself: of the kernels
# of tests/cuda/planted.cu each fault must be told, in any schedule, and nothing of the sound ones.
# Then operations of test_cuda, each in a schedule of its own; with FOPO_RACES=all, all of them, and
# every schedule.
set -u
cd "$(dirname "$0")/.."
out=$(dirname "${FOPO:-build/release/fopo}")
[[ -x $out/races/planted ]] || { echo "the build of this mode has no watched kernels"; exit 77; }
ulimit -c 0
failed=0
talk=$(mktemp)
trap 'rm -f "$talk"' EXIT

# planted NAME SAID SEED
planted() {
  FOPO_EMULATION_SEED=$3 timeout 20 "$out/races/planted" "$1" >"$talk" 2>&1
  local status=$?
  if [[ -z $2 && $status == 0 ]]; then return; fi
  if [[ -n $2 && $status != 0 ]] && grep -qF "$2" "$talk"; then return; fi
  echo "planted $1, schedule $3: status $status, not \"$2\":"
  cat "$talk"
  failed=1
}

# operations OBJECT PROGRAM PATTERN SEED
operations() {
  FOPO_TEST_OBJECT=$out/$1/fopo_cuda.so FOPO_EMULATION_SEED=$4 timeout 500 "$out/$2" "$3" \
    >"$talk" 2>&1 && return
  echo "$1, $2 $3, schedule $4:"
  grep -v 'OK \]\|RUN  ' "$talk"
  failed=1
}

seeds="0 1"
[[ ${FOPO_RACES:-} == all ]] && seeds="0 1 2 3 4 5 6 7 8 9"
n=0
while IFS=$'\t' read -r name said; do
  for seed in $seeds; do planted "$name" "$said" "$seed" 2>/dev/null; n=$((n + 1)); done
done < <("$out/races/planted")

if [[ ${FOPO_RACES:-} == all ]]; then
  for seed in 0 1 2 3 4; do
    for kind in races emulated; do
      operations $kind test_cuda '*' "$seed"
      FOPO_BOUNDS=all operations $kind test_cuda_bounds '*' "$seed"
    done
  done
else
  seed=1
  for test in test_snis_edges test_reinforce test_stats test_totals test_tail \
              test_topk_stops test_topk_stops_alone test_topk_recorded test_items \
              test_snis_head_edges test_rewards test_start_batch test_outer_totals; do
    operations races test_cuda "$test" $((seed++))
  done
  operations races test_cuda_bounds test_lengths "$seed"
fi
((n > 0)) || { echo "no fault was planted"; exit 1; }
echo "$n planted cases"
exit "$failed"
