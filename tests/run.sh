#!/usr/bin/env bash
# Runs every test: check_layers.sh, check_style.sh, tests/test_*.sh, which take long, the C programs
# in the build folder, tests/lua/test_*.lua with the built fopo, and tests/test_*.py. One line each;
# the output is shown if it failed. A program that leaves with status 77, or prints lines beginning
# with "skip", is skipped by name; lines "absent: NAME", of published data, are counted. Three run
# at a time (TESTS_AT_ONCE=n: n), so that two cores are busy while a test waits for a terminal, each
# shown when it ends; first those named in `long`, so that at the end only short ones are left, and
# last, one by one, those named in `alone`.
# usage: run.sh BUILD_FOLDER [name ...]
set -u
cd "$(dirname "$0")/.."
out=$1
shift
limit=${FOPO_TEST_LIMIT:-600} # seconds for one program: a test that hangs fails
. tests/environment.sh
[[ $out == *coverage* ]] && limit=1800 # -O0, and every branch counts
if [[ $out == *asan* ]]; then
  limit=${FOPO_TEST_LIMIT:-1800} # the emulated GPU switches stacks, which is slow there
  export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 # nothing is suppressed
fi

# A crash is the program's own, as in the release.
[[ $out == *clang* ]] && export UBSAN_OPTIONS=print_stacktrace=1:handle_segv=0:handle_abort=0

long='test_ranks.py test_kills.py test_cuda_runs test_faults.py test_recipes.sh test_snippets.py'
alone='test_read' # it asserts a ratio of times
at_once=${TESTS_AT_ONCE:-3}
talks=$(mktemp -d)
names=()
passed=0 failed=0 skipped=0 absent=0
set -m # what runs in the background does not ignore SIGINT

# `timeout` ends what the test has started. No test is left behind by Ctrl-C.
stop() {
  local pid
  for pid in $(cat "$talks"/*.pid 2>/dev/null); do kill "$pid" 2>/dev/null; done
  wait
  rm -rf "$talks"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# test_runs I COMMAND...: leaves its output, its status, its seconds and those of CPU in files.
test_runs() {
  local talk=$talks/$1 start=$EPOCHREALTIME status
  shift
  timeout -k 10 "$limit" "$@" </dev/null >"$talk.talk" 2>&1 &
  echo $! >"$talk.pid"
  wait $!
  status=$?
  rm "$talk.pid"
  times >"$talk.times" # the second line: user and system, of the processes that were waited for
  awk -v a="$start" -v b="$EPOCHREALTIME" -v s=$status -F '[ms ]+' \
    'NR == 2 { printf "%d %.1f %.1f\n", s, b - a, 60 * ($1 + $3) + $2 + $4 }' "$talk.times" \
    >"$talk.tmp"
  mv "$talk.tmp" "$talk.status"
}

# show I: its line, and what it said if it failed.
show() {
  local name=${names[$1]} talk=$talks/$1.talk status seconds cpu
  read -r status seconds cpu <"$talks/$1.status"
  case $status in
    0) printf '  ok    %-28s %6s s %6s s of CPU\n' "$name" "$seconds" "$cpu"
       passed=$((passed + 1)) ;;
    77) printf '  skip  %-28s %6s s  %s\n' "$name" "$seconds" "$(tail -n 1 "$talk")"
        skipped=$((skipped + 1)); return ;;
    *) printf '  FAIL  %-28s %6s s  (status %s)\n' "$name" "$seconds" "$status"
       [[ $status == 124 ]] && echo "        stopped: it ran longer than $limit s"
       sed 's/^/        /' "$talk"; failed=$((failed + 1)); return ;;
  esac
  absent=$((absent + $(grep -ac '^absent: ' "$talk")))
  grep -aiE '^ *skip|SKIPPED *\] +[a-z]' "$talk" | sort -u | sed 's/^/        /'
}

# Shows what has ended.
show_ended() {
  local file
  for file in "$talks"/*.status; do
    [[ -e $file ]] || continue
    show "$(basename "$file" .status)"
    rm "$file"
  done
}

# running N: waits until fewer than N tests run.
running() {
  while (($(jobs -rp | wc -l) >= $1)); do
    wait -n
    show_ended
  done
}

# run NAME COMMAND...: one more test.
run() {
  names+=("$1")
  running "$at_once"
  test_runs "$((${#names[@]} - 1))" "${@:2}" &
}

# wanted NAME NAMES...: with names on the command line, only those.
wanted() {
  local name=$1 one
  shift
  [[ $# == 0 ]] && return 0
  for one in "$@"; do [[ $one == "$name" ]] && return 0; done
  return 1
}

# all_tests FILTER NAMES...: runs the wanted ones whose name FILTER accepts.
all_tests() {
  local filter=$1 file name
  shift
  for file in check_layers check_style tests/test_*.sh "$out"/test_* tests/lua/test_*.lua \
              tests/test_*.py; do
    name=$(basename "$file")
    [[ $file == "$out"/* && $name == *.* ]] && continue
    "$filter" "$name" && wanted "$name" "$@" || continue
    case $file in
      check_*) run "$name" bash "tests/$name.sh" ;;
      *.lua) run "$name" "$FOPO" "$file" ;;
      *.py) run "$name" "$PYTHON" "$file" ;;
      *.sh) run "$name" bash "$file" ;;
      *) run "$name" "$file" ;;
    esac
  done
}
is_long() { [[ " $long " == *" $1 "* ]]; }
is_alone() { [[ " $alone " == *" $1 "* ]]; }
is_short() { ! is_long "$1" && ! is_alone "$1"; }

all_tests is_long "$@"
all_tests is_short "$@"
running 1
at_once=1
all_tests is_alone "$@"
running 1
show_ended

((absent == 0)) || echo "  skip  $absent published files are not in FOPO_TEST_DATA=folder"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0))
