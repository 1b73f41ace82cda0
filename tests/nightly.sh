#!/usr/bin/env bash
# The long proofs: the executables of tests/nightly, one after another, and one table of what each
# promises, how often it was tried, and how often it failed.
#
# A part NAME is called as `tests/nightly/NAME SECONDS SEED`. Its file has a comment
# "weight N: PROMISE", its share of the time and what it proves. Its last line is
# "promise | tries | failures"; it exits with 0, with 1 after failures, or with 77 if it cannot run
# here, and its last line then says why. Time that a part leaves goes to the parts after it. A part
# that takes more than twice its share and a minute is ended, and has failed. What a part that
# failed has printed is kept in build/nightly/NAME.log.
#
# A part with the comment "build first" is called as `tests/nightly/NAME build` before that: what it
# builds takes the time that it takes. Built once, all of them can be rehearsed in NIGHTLY=1200.
#
# usage: nightly.sh BUILD_FOLDER [name ...]; NIGHTLY=seconds, SEED=n
set -u
cd "$(dirname "$0")/.."
out=$1
shift
parts=${NIGHTLY_PARTS:-tests/nightly} logs=${NIGHTLY_LOGS:-build/nightly} # for the frame's test
left=${NIGHTLY:-7200} seed=${SEED:-1}
grace=${NIGHTLY_GRACE:-60}
. tests/environment.sh
mkdir -p "$logs"

# weight FILE: its share, and after it the promise.
weight() { sed -n '1,30s/^[# /*"]*weight \([0-9][0-9]*: .*\)$/\1/p;' "$1" | head -n 1; }

# row PROMISE TRIES FAILURES SECONDS
row() { printf '%-66.66s %10s %9s %8s\n' "$@"; }

names=() total=0
for file in "$parts"/*; do
  name=$(basename "$file") chosen=$#
  for one in "$@"; do [[ $one == "$name" ]] && chosen=0; done
  [[ -f $file && -x $file && $chosen == 0 ]] || continue
  share=$(weight "$file")
  [[ -n $share ]] || { echo "nightly: $file has no line \"weight N: PROMISE\"" >&2; exit 1; }
  names+=("$name")
  total=$((total + ${share%%:*}))
done
if ((${#names[@]} == 0)); then
  echo "nightly: $parts has no part of that name" >&2
  exit 1
fi

pid="" table="" failed=0
finish() {
  if [[ -n $pid ]]; then
    kill -TERM -- "-$pid" 2>/dev/null # a part leads a process group of its own
    sleep 1
    kill -KILL -- "-$pid" 2>/dev/null
  fi
  echo
  row promise tries failures seconds
  printf '%s' "$table"
}
stopped() {
  finish
  echo "stopped: ${#names[@]} parts, of which the table has those that ended"
  exit 130
}
trap stopped INT TERM HUP

# begins COMMAND...: in a process group of its own, and waits for its end.
begins() {
  setsid "$@" </dev/null >"$log" 2>&1 &
  pid=$!
  wait "$pid"
  status=$?
  pid=
}

for name in "${names[@]}"; do
  share=$(weight "$parts/$name") log=$logs/$name.log status=0
  if grep -q '^# build first' "$parts/$name"; then
    printf '%s is built ...\n' "$name"
    begins "$parts/$name" build
  fi
  start=$SECONDS
  seconds=$((left * ${share%%:*} / total))
  ((seconds > 0)) || seconds=1
  printf '%s, %d s ...\n' "$name" "$seconds"
  if ((status == 0)); then
    begins timeout -k 5 $((2 * seconds + grace)) "$parts/$name" "$seconds" "$seed"
  fi
  took=$((SECONDS - start)) last=$(tail -n 1 "$log")
  left=$((left > took ? left - took : 0)) total=$((total - ${share%%:*}))
  IFS='|' read -r promise tries failures rest <<<"$last"
  tries=${tries//[[:space:]]/} failures=${failures//[[:space:]]/}
  if [[ $status == 77 ]]; then
    line=$(row "$name: skipped, $last" - - "$took")
    rm -f "$log"
  elif [[ -z ${rest:-} && $tries =~ ^[0-9]+$ && $failures =~ ^[0-9]+$ &&
    $((failures > 0)) == "$status" && $tries -gt 0 ]]; then
    line=$(row "$promise" "$tries" "$failures" "$took")
    if [[ $status == 0 ]]; then rm -f "$log"; fi
  else
    line=$(row "${share#*: }: it broke off (status $status)" "?" "?" "$took")
    status=1
  fi
  if [[ $status != 0 && $status != 77 ]]; then
    failed=1
    line+=$'\n'"  see $log"
  fi
  printf '%s\n' "$line"
  table+=$line$'\n'
done
finish
exit "$failed"
