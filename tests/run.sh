#!/usr/bin/env bash
# Runs every test: check_layers.sh, check_style.sh, the C programs in the build folder,
# tests/lua/test_*.lua with the built fopo, tests/test_*.py and tests/test_*.sh. One line each; the
# output is shown if it failed. A program that leaves with status 77, or prints lines beginning with
# "skip", is skipped by name.
# usage: run.sh BUILD_FOLDER [name ...]
set -u
cd "$(dirname "$0")/.."
out=$1
shift
limit=600 # seconds for one program: a test that hangs fails
. tests/environment.sh
if [[ $out == *asan* ]]; then
  limit=1800 # the emulated GPU switches stacks, which the sanitizer makes slow
  export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 # nothing is suppressed
fi

passed=0 failed=0 skipped=0
talk=$(mktemp)
trap 'rm -f "$talk"' EXIT

# run NAME COMMAND...
run() {
  local name=$1 status start=$EPOCHREALTIME seconds
  shift
  timeout -k 10 "$limit" "$@" </dev/null >"$talk" 2>&1
  status=$?
  seconds=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
  case $status in
    0) printf '  ok    %-28s %6s s\n' "$name" "$seconds"; passed=$((passed + 1)) ;;
    77) printf '  skip  %-28s %6s s  %s\n' "$name" "$seconds" "$(tail -n 1 "$talk")"
        skipped=$((skipped + 1)); return ;;
    *) printf '  FAIL  %-28s %6s s  (status %s)\n' "$name" "$seconds" "$status"
       [[ $status == 124 ]] && echo "        stopped: it ran longer than $limit s"
       sed 's/^/        /' "$talk"; failed=$((failed + 1)); return ;;
  esac
  grep -aiE '^ *skip|SKIPPED *\] +[a-z]' "$talk" | sort -u | sed 's/^/        /'
}

# wanted NAME NAMES...: with names on the command line, only those.
wanted() {
  local name=$1 one
  shift
  [[ $# == 0 ]] && return 0
  for one in "$@"; do [[ $one == "$name" ]] && return 0; done
  return 1
}

wanted check_layers "$@" && run check_layers bash tests/check_layers.sh
wanted check_style "$@" && run check_style bash tests/check_style.sh
for program in "$out"/test_*; do
  name=$(basename "$program")
  [[ -x $program && $name != *.* ]] && wanted "$name" "$@" && run "$name" "$program"
done
for script in tests/lua/test_*.lua; do
  name=$(basename "$script")
  [[ -f $script ]] && wanted "$name" "$@" && run "$name" "$FOPO" "$script"
done
for script in tests/test_*.py; do
  name=$(basename "$script")
  [[ -f $script ]] && wanted "$name" "$@" && run "$name" "$PYTHON" "$script"
done
for script in tests/test_*.sh; do
  name=$(basename "$script")
  [[ -f $script ]] && wanted "$name" "$@" && run "$name" bash "$script"
done

echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0))
