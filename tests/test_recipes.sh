#!/usr/bin/env bash
# The recipes of docs/extending.md: each is one new file and one row of a table. All of them are put
# into a copy of the tree, which is built without optimisation (that is quickest); then each is
# used.
#
# A folder of tests/recipes holds the new file at its place in the tree, and
#   row       three lines: the file with the table, a text in it, and the row that goes below
#   check.sh  what must be so afterwards; $NEW is the program, $TREE the copy, $TOP a folder for
#             files
set -eu
cd "$(dirname "$0")/.."
mode=$(basename "$(dirname "$(readlink -f "$FOPO")")")
if [ "$mode" != release ]; then
  echo "skip: the recipes are built once, in mode release"
  exit 77
fi
unset MAKEFLAGS MAKELEVEL MFLAGS
TOP=$(mktemp -d)
trap 'rm -rf "$TOP"' EXIT
TREE=$TOP/fopo NEW=$TOP/fopo/build/debug/fopo
export TOP TREE NEW
failed=0

fail() {
  echo "$1"
  failed=1
}

# new_files RECIPE: what it adds, as paths in the tree.
new_files() { (cd "$1" && find . -mindepth 2 -type f | sed 's|^\./||'); }

# add RECIPE: copies its file and adds its row, or says why not.
add() {
  local recipe=$1 table text row
  { IFS= read -r table; IFS= read -r text; IFS= read -r row; } <"$recipe/row"
  [ "$(wc -l <"$recipe/row")" = 3 ] || fail "$recipe/row has not three lines"
  [ "$(new_files "$recipe" | wc -l)" = 1 ] || fail "$recipe adds not one file"
  grep -qF -- "$text" "$TREE/$table" || { fail "$recipe: $table has no \"$text\""; return; }
  [ ! -e "$TREE/$(new_files "$recipe")" ] || fail "$recipe: its file is there already"
  cp -r "$recipe"/*/ "$TREE/"
  TEXT=$text ROW=$row awk '
    { print } index($0, ENVIRON["TEXT"]) && !done { print ENVIRON["ROW"]; done = 1 }' \
    "$TREE/$table" >"$TOP/table"
  cp "$TOP/table" "$TREE/$table"
  grep -qF -- "$(sed 's/ *\\*$//' <<<"$row")" docs/extending.md ||
    fail "$recipe: docs/extending.md does not show its row"
  grep -qF -- "$(new_files "$recipe")" docs/extending.md ||
    fail "$recipe: docs/extending.md does not name its file"
}

# build TARGET: in the copy.
build() { make -s -C "$TREE" CUDA= MODE=debug FLAGS_debug=-O0 "build/debug/$1"; }
export -f build

mkdir -p "$TREE"
cp -a Makefile src lua scripts "$TREE/"
for recipe in tests/recipes/*/; do add "${recipe%/}"; done
if ! build fopo >"$TOP/talk" 2>&1; then
  grep -A 5 error "$TOP/talk" || tail -n 40 "$TOP/talk"
  exit 1
fi
for recipe in tests/recipes/*/; do # of others, intrinsics warn without optimisation
  ! grep -A 5 "^$(new_files "$recipe"):.*warning" "$TOP/talk" || fail "$recipe: its file warns"
done
for recipe in tests/recipes/*/; do
  bash -eu "$recipe/check.sh" >"$TOP/talk" 2>&1 || {
    fail "$recipe: it is built, but check.sh fails:"
    cat "$TOP/talk"
  }
  grep '^skip' "$TOP/talk" || true
done
[ "$failed" = 0 ] || exit 1
echo "recipes: $(ls tests/recipes | wc -l), each one new file and one row"
