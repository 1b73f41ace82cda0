#!/usr/bin/env bash
# The frame of make nightly, with parts made up here: shares of the time, the table, what counts as
# a failure, which logs are kept, and Ctrl-C.
set -u
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export NIGHTLY_PARTS=$folder/parts NIGHTLY_LOGS=$folder/logs NIGHTLY=100 SEED=7
mkdir "$folder/parts"
failed=0

# part NAME WEIGHT CODE
part() {
  printf '#!/bin/sh\n# weight %s: promise of %s\n%s\n' "$2" "$1" "$3" >"$folder/parts/$1"
  chmod +x "$folder/parts/$1"
}
# has TEXT...: the last output has each of the extended regular expressions in a line.
has() {
  local one
  for one in "$@"; do
    grep -qE -- "$one" <<<"$talk" || { echo "not so: $one"; echo "$talk"; failed=1; }
  done
}
so() { # NAME COMMAND...
  local name=$1
  shift
  "$@" || { echo "not so: $name"; echo "$talk"; failed=1; }
}
# ended PID: it is gone, or waits for nothing but to be counted.
ended() { ! grep -qsE '^State:[[:space:]]+[^ZX]' "/proc/$1/status"; }
frame() {
  talk=$(bash tests/nightly.sh build/release "$@" 2>&1)
  status=$?
}

part a_good 3 'echo "$1 $2" >"$0.told"; echo "all good | 12 | 0"'
part b_good 1 'echo "$1 $2" >"$0.told"; echo "good too | 5 | 0"'
frame
so "all is well" [ "$status" = 0 ]
has '^promise +tries +failures +seconds$' '^all good +12 +0 +[0-9]+$' '^good too +5 +0 +[0-9]+$'
so "a share by its weight, and the seed" [ "$(cat "$folder/parts/a_good.told")" = "75 7" ]
read -r left seed <"$folder/parts/b_good.told"
so "what is left goes to the next" [ "$left" -gt 80 ] # a part of no work may take a second
so "and the seed" [ "$seed" = 7 ]
so "no log of a success" [ -z "$(ls "$folder/logs")" ]

rm -f "$folder"/parts/*.told
frame b_good
so "one part by its name" [ "$status" = 0 ]
so "with all of the time" [ "$(cat "$folder/parts/b_good.told")" = "100 7" ]
so "the other is left out" [ ! -e "$folder/parts/a_good.told" ]
frame c_none
so "a name that is none" [ "$status" = 1 ]

part b_good 1 '# build first
if [ "$1" = build ]; then sleep 2; : >"$0.built"; exit; fi
ls "$0.built"; echo "$1 $2" >"$0.told"; echo "good too | 5 | 0"'
NIGHTLY=1 NIGHTLY_GRACE=-1 frame b_good # a second for the part alone
so "what a part builds takes the time that it takes" [ "$status" = 0 ]
has '^good too +5 +0 +[01]$'
part b_good 1 '# build first
[ "$1" = build ] && exit 2
echo "good too | 5 | 0"'
frame b_good
so "what cannot be built" [ "$status" = 1 ]
has 'promise of b_good: it broke off \(status 2\)'
part b_good 1 'echo "good too | 5 | 0"'

part c_bad 1 'echo what it saw; echo "a promise broken | 9 | 2"; exit 1'
part d_absent 1 'echo "no such tool"; exit 77'
frame
so "a failure" [ "$status" = 1 ]
has '^a promise broken +9 +2 ' "see $folder/logs/c_bad.log" \
  '^d_absent: skipped, no such tool +- +-' '^all good'
so "its log is kept" grep -q 'what it saw' "$folder/logs/c_bad.log"
so "and no other" [ "$(ls "$folder/logs")" = c_bad.log ]

# what a part says must fit how it ends
rm "$folder"/parts/[acd]*
for code in 'exit 3' 'echo "p | 3 | 1"' 'echo "p | 3 | 0"; exit 1' 'echo "p | 0 | 0"' \
  'echo "p | 3"' 'echo "p | many | 0"' 'kill -SEGV $$'; do
  part e_odd 1 "$code"
  frame
  so "a failure: $code" [ "$status" = 1 ]
  has 'promise of e_odd: it broke off' '^good too +5 +0'
done

# a part that does not end is ended, with what it has started
part e_odd 1 'sleep 77 & echo $! >"$0.child"; wait'
NIGHTLY=1 NIGHTLY_GRACE=0 frame e_odd
so "an end to a part that has none" [ "$status" = 1 ]
has 'promise of e_odd: it broke off'
so "and to its child" ended "$(cat "$folder/parts/e_odd.child")"

# Ctrl-C: the table so far
mv "$folder/parts/e_odd" "$folder/parts/z_odd"
bash tests/nightly.sh build/release >"$folder/talk" 2>&1 &
frame=$!
for _ in $(seq 200); do [ -s "$folder/parts/z_odd.child" ] && break; sleep 0.05; done
kill -TERM "$frame" # a shell ignores SIGINT in what it starts behind itself
wait "$frame"
status=$?
talk=$(cat "$folder/talk")
so "stopped" [ "$status" = 130 ]
has '^promise +tries' '^good too +5 +0' '^stopped: 2 parts'
so "with the part that ran" ended "$(cat "$folder/parts/z_odd.child")"

# every real part says its weight and what it promises
for file in tests/nightly/*; do
  [ ! -x "$file" ] || [ -d "$file" ] || grep -qE '^[# /*"]*weight [0-9]+: .+' "$file" ||
    { echo "not so: $file says its weight"; failed=1; }
done
exit "$failed"
