# An estimate goes up the objective, and its value is the objective's.
mkdir -p "$TREE/tests/c"
cp tests/recipes/objective/check.c "$TREE/tests/c/test_root.c"
build test_root
"$TREE/build/debug/test_root"
