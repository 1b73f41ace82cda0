# For parts that run tests of `make test`; to be sourced.
unset MAKEFLAGS MAKELEVEL MFLAGS

# suite PROMISE SECONDS SEED BUILD_FOLDER NAME...: runs the tests one by one, in an order of the
# seed, but those of $first before them, until the time is over; tells in the form of a part and
# leaves with its status.
suite() {
  local promise=$1 end=$((SECONDS + $2)) seed=$3 out=$4 name tries=0 failures=0 talk
  shift 4
  for name in ${first:-} $(shuf -e --random-source=<(yes "$seed") "$@"); do
    ((tries == 0 || SECONDS < end)) || break
    talk=$(bash tests/run.sh "$out" "$name")
    printf '%s\n' "$talk"
    grep -q '^  skip' <<<"$talk" && continue
    tries=$((tries + 1))
    grep -q '^  ok' <<<"$talk" || failures=$((failures + 1))
  done
  if ((tries == 0)); then
    echo "nothing of it can run here"
    exit 77
  fi
  echo "$promise | $tries | $failures"
  exit $((failures > 0))
}

# The names of all tests of a build folder.
every_test() {
  find "$1" -maxdepth 1 -name 'test_*' -perm -u+x -type f ! -name '*.*' -printf '%f\n'
  find tests tests/lua -maxdepth 1 -regex '.*/test_[^/]*\.\(lua\|py\|sh\)' -printf '%f\n'
}
