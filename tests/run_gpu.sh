#!/usr/bin/env bash
# Runs the tests of the CUDA device on this machine's card: every operation against the CPU's, whole
# trainings, and the operations again under compute-sanitizer where the toolkit has it. Without a
# card each is skipped by name.
# usage: run_gpu.sh BUILD_FOLDER
set -u
cd "$(dirname "$0")/.."
out=$1
export FOPO_TEST_GPU=1 FOPO_HISTORY=/dev/null
unset FOPO_CUDA
limit=240 # seconds for one program
failed=0

# run NAME COMMAND...: 77 is a skip, and its last line says why.
run() {
  local name=$1 status talk start=$SECONDS
  shift
  talk=$(timeout -k 10 "$limit" "$@" </dev/null 2>&1)
  status=$?
  case $status in
    0) printf '  ok    %-32s %4d s\n' "$name" $((SECONDS - start)) ;;
    77) printf '  skip  %-32s %s\n' "$name" "$(tail -n 1 <<<"$talk")" ;;
    *) printf '  FAIL  %-32s (status %s)\n%s\n' "$name" "$status" "$talk"; failed=1 ;;
  esac
}

if [[ ! -e $out/fopo_cuda.so ]]; then
  echo "  skip  the GPU's tests: no nvcc, so there is no $out/fopo_cuda.so"
  exit 0
fi
"$out/fopo" --version | grep device
run test_cuda "$out/test_cuda"
run test_cuda_runs "$out/test_cuda_runs"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [[ -z $sanitizer ]]; then
  echo "  skip  memcheck, racecheck: compute-sanitizer is absent"
else
  for tool in memcheck racecheck initcheck; do
    run "test_cuda, $tool" "$sanitizer" --tool "$tool" \
      --error-exitcode 1 "$out/test_cuda"
  done
fi
exit "$failed"
