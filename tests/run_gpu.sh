#!/usr/bin/env bash
# Runs the tests of the CUDA device on this machine's card: every operation against the CPU's, whole
# trainings, and the operations again under compute-sanitizer where the toolkit has it. Without a
# card each is skipped by name. It takes 7 minutes at most: a sanitizer, under which kernels are
# much slower, is stopped after 100 seconds and has then seen a part of the tests.
# usage: run_gpu.sh BUILD_FOLDER
set -u
cd "$(dirname "$0")/.."
out=$1
export FOPO_TEST_GPU=1 FOPO_HISTORY=/dev/null
unset FOPO_CUDA
end=$((SECONDS + 420)) # what is not through by then is stopped
failed=0

# run SECONDS NAME COMMAND...: 77 is a skip, and its last line says why; 124 is the time used up.
run() {
  local limit=$1 name=$2 status talk start=$SECONDS
  shift 2
  if ((limit > end - start)); then limit=$((end - start)); fi
  if ((limit < 5)); then
    printf '  skip  %-32s no time is left\n' "$name"
    return
  fi
  talk=$(timeout -k 10 "$limit" "$@" </dev/null 2>&1)
  status=$?
  # a sanitizer that is stopped half-way has told what it found so far
  if [[ $status == 124 && $1 == "${sanitizer:-}" ]] &&
    ! grep -v COMPUTE-SANITIZER <<<"$talk" | grep -q '^========='; then
    printf '  part  %-32s %4d s, and nothing found in what it came to\n' "$name" "$limit"
    return
  fi
  case $status in
    0) printf '  ok    %-32s %4d s\n' "$name" $((SECONDS - start)) ;;
    77) printf '  skip  %-32s %s\n' "$name" "$(tail -n 1 <<<"$talk")" ;;
    *) printf '  FAIL  %-32s (status %s)\n%s\n' "$name" "$status" "$(tail -n 200 <<<"$talk")"
       failed=1 ;;
  esac
}

if [[ ! -e $out/fopo_cuda.so ]]; then
  echo "  skip  the GPU's tests: no nvcc, so there is no $out/fopo_cuda.so"
  exit 0
fi
"$out/fopo" --version | grep device
run 120 test_cuda "$out/test_cuda"
run 120 test_cuda_runs "$out/test_cuda_runs"
run 120 test_sparse_scores "$out/test_sparse_scores"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [[ -z $sanitizer ]]; then
  echo "  skip  memcheck, racecheck, initcheck: compute-sanitizer is absent"
else
  for tool in memcheck racecheck initcheck; do
    run 100 "test_cuda, $tool" "$sanitizer" --tool "$tool" --error-exitcode 1 "$out/test_cuda"
  done
fi
exit "$failed"
