#!/usr/bin/env bash
# The recipes of docs/extending.md: each is one new file and one row of a table. All of them are put
# into a copy of the tree, where what depends on these tables is built without optimisation (that is
# quickest); then each is used.
#
# A folder of tests/recipes holds the new file at its place in the tree, and
#   row       three lines: the file with the table, a text in it, and the row that goes below
#   line      the same for a second line: what computes a statistic, which has no file, and the
#             include of an objective's rule
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

# insert RECIPE WHAT: puts the row or the line that WHAT describes into the copy.
insert() {
  local table text row
  { IFS= read -r table; IFS= read -r text; IFS= read -r row; } <"$1/$2"
  [ "$(wc -l <"$1/$2")" = 3 ] || fail "$1/$2 has not three lines"
  grep -qF -- "$text" "$TREE/$table" || { fail "$1: $table has no \"$text\""; return; }
  TEXT=$text ROW=$row awk '
    { print } index($0, ENVIRON["TEXT"]) && !done { print ENVIRON["ROW"]; done = 1 }' \
    "$TREE/$table" >"$TOP/table"
  cp "$TOP/table" "$TREE/$table"
  grep -qF -- "$(sed 's/ *\\*$//' <<<"$row")" docs/extending.md ||
    fail "$1: docs/extending.md does not show its $2"
}

# add RECIPE: one new file and one row; a statistic's row and line; an objective's three.
add() {
  local file
  insert "$1" row
  if [ -e "$1/line" ]; then
    insert "$1" line
    [ -n "$(new_files "$1")" ] || return 0
  fi
  file=$(new_files "$1")
  [ "$(wc -l <<<"$file")" = 1 ] || fail "$1 adds not one file"
  [ ! -e "$TREE/$file" ] || fail "$1: its file is there already"
  cp -r "$1"/*/ "$TREE/"
  grep -qF -- "$file" docs/extending.md || fail "$1: docs/extending.md does not name its file"
}

# build TARGET: in the copy.
build() { make -s -C "$TREE" CUDA= MODE=debug FLAGS_debug=-O0 "build/debug/$1"; }
export -f build

# The objects of the build serve where no table is included.
mkdir -p "$TREE"
cp -a Makefile src lua scripts "$TREE/"
build flags >/dev/null
cp -r "$(dirname "$(readlink -f "$FOPO")")"/{src,{lua_files,columnar_py}.[co]} "$TREE/build/debug/"
find "$TREE/build/debug" -name '*.d' -exec sed -i 's|build/release/|build/debug/|' {} +
# An instruction set is compiled without a change where a row declares another one.
sed -i 's|src/kernels/instruction_sets.def||' "$TREE"/build/debug/src/kernels/kernels_*.d
for recipe in tests/recipes/*/; do add "${recipe%/}"; done
if ! build fopo >"$TOP/talk" 2>&1; then
  grep -A 5 error "$TOP/talk" || tail -n 40 "$TOP/talk"
  exit 1
fi
for recipe in tests/recipes/*/; do # of others, intrinsics warn without optimisation
  [ -e "$recipe/line" ] || ! grep -A 5 "^$(new_files "$recipe"):.*warning" "$TOP/talk" ||
    fail "$recipe: its file warns"
done
for recipe in tests/recipes/*/; do
  bash -eu "$recipe/check.sh" >"$TOP/talk" 2>&1 || {
    fail "$recipe: it is built, but check.sh fails:"
    cat "$TOP/talk"
  }
  grep '^skip' "$TOP/talk" || true
done
[ "$failed" = 0 ] || exit 1
echo "recipes: $(ls tests/recipes | wc -l), each one new file and one row; a statistic: one row;" \
  "an objective: an include too"
