#!/bin/sh
# A machine with a GPU often has CUDA, gcc and make, but not the Debian packages that fopo is built
# with, nor a network to fetch them. Their headers and libraries can be carried beside the source:
#
#   sh scripts/tools/gpu.sh pack            here: copies them to carried/ (60 MB, not tracked)
#   eval "$(sh scripts/tools/gpu.sh env)"   there: tells gcc, g++, nvcc and ld where they are
#   make test-gpu                           there; and make bench-gpu
#
# Both machines must have the same architecture, and the other a C library at least as new.
set -eu
cd "$(dirname "$0")/../.."
here=$PWD/carried

# Folders and files below /usr/include.
headers='lua5.4 Random123 hnswlib lapacke*.h lapack.h zip*.h zlib.h zconf.h readline ncurses*.h
curses.h term.h termcap.h unctrl.h cmocka*.h openblas* x86_64-linux-gnu/zipconf.h
x86_64-linux-gnu/cblas*.h x86_64-linux-gnu/openblas* x86_64-linux-gnu/lapacke*
x86_64-linux-gnu/zconf.h x86_64-linux-gnu/openblas-pthread x86_64-linux-gnu/f77blas.h'

# The program's libraries and the libraries that they need, except those of the C library and of the
# compiler, which the other machine has.
libraries() {
  for name in lapacke openblas zip z lua5.4 readline ncursesw tinfo cmocka; do
    ls /usr/lib/x86_64-linux-gnu/lib$name.so
  done
  ldd build/release/fopo build/release/test_cuda | awk '/=> \// { print $3 }' |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libgomp|ld-linux[^/]*)\.so' |
    sort -u
}

pack() {
  make -s CUDA= all build/release/test_cuda
  rm -rf "$here"
  mkdir -p "$here/include" "$here/lib"
  for h in $headers; do
    for f in /usr/include/$h; do
      [ -e "$f" ] || continue
      cp -rL "$f" "$here/include/"
    done
  done
  # Each library once, under its soname; the linker's name (libz.so) becomes a script that names it.
  libraries | while read -r f; do
    soname=$(objdump -p "$(readlink -f "$f")" 2>/dev/null | awk '/SONAME/ { print $2 }')
    if [ -z "$soname" ]; then cp -L "$f" "$here/lib/"; continue; fi
    cp -L "$f" "$here/lib/$soname"
    case $(basename "$f") in *.so) echo "INPUT($soname)" > "$here/lib/$(basename "$f")" ;; esac
  done
  du -sh "$here"
}

case ${1:-} in
  pack) pack ;;
  env)
    echo "export CPATH=$here/include:$here/include/lua5.4:$here/include/openblas-pthread"
    echo "export LIBRARY_PATH=$here/lib LD_LIBRARY_PATH=$here/lib:\${LD_LIBRARY_PATH:-}"
    ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
