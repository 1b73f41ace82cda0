# d->ops->clip(...) is there, with its type.
mkdir -p "$TREE/tests/c"
cp tests/recipes/device_op/check.c "$TREE/tests/c/test_clip.c"
build test_clip
"$TREE/build/debug/test_clip"
