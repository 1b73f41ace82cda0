# For parts that run tests of `make test`; to be sourced.
unset MAKEFLAGS MAKELEVEL MFLAGS

# granted SECONDS MOST: the seconds that one test of a part of so many seconds may take: MOST, or
# what is left before nightly.sh ends the part.
granted() {
  local left=$((2 * $1 + 40 - SECONDS))
  echo $((left < 1 ? 1 : left < $2 ? left : $2))
}

# in_order_of SEED: the lines of the input in an order of the seed. The bytes of a text are no
# random source for shuf: what stood first stayed near the front for every seed.
in_order_of() {
  awk -v seed="$1" 'BEGIN { srand(seed) } { printf "%.9f\t%s\n", rand(), $0 }' | sort | cut -f 2-
}

# suite PROMISE SECONDS SEED BUILD_FOLDER NAME...: runs the tests one by one, in an order of the
# seed, but those of $first before them, until the time is over; tells in the form of a part and
# leaves with its status. A test that the end of the part has cut is no try.
suite() {
  local promise=$1 seconds=$2 seed=$3 out=$4 most=600 name tries=0 failures=0 talk limit cut=""
  shift 4
  [[ $out == *asan* ]] && most=1800
  for name in ${first:-} $(printf '%s\n' "$@" | in_order_of "$seed"); do
    ((tries == 0 || SECONDS < seconds)) && [[ -z $cut ]] || break
    limit=$(granted "$seconds" $most)
    talk=$(FOPO_TEST_LIMIT=$limit bash tests/run.sh "$out" "$name")
    printf '%s\n' "$talk"
    grep -q '^  skip' <<<"$talk" && continue
    if ((limit < most)) && grep -q 'stopped: it ran longer' <<<"$talk"; then
      cut="$name has not ended in the $limit s that were left"
      continue
    fi
    tries=$((tries + 1))
    grep -q '^  ok' <<<"$talk" || failures=$((failures + 1))
  done
  if ((tries == 0)); then
    echo "${cut:-nothing of it can run here}"
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
