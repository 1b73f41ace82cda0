# d->ops->limit(...) is there, with its type.
mkdir -p "$TREE/tests/c"
cp tests/recipes/device_op/check.c "$TREE/tests/c/test_limit.c"
build test_limit
"$TREE/build/debug/test_limit"
