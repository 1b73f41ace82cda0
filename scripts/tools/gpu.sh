#!/bin/sh
# A machine with a GPU often has CUDA, gcc, g++ and make, but not the Debian packages that fopo is
# built with, nor a network to fetch them. Their headers and libraries can travel beside the source,
# and the programs with them:
#
#   sh scripts/tools/gpu.sh pack CUDA_ARCH=90     here: writes carried.tar.gz (not tracked)
#   sh scripts/tools/gpu.sh unpack                there: carried/release holds the programs
#   sh scripts/tools/gpu.sh make CUDA_ARCH=native test-gpu
#                                                 there: unpacks it, and runs make with it
#
# The last goes on where it was stopped. The programs know where the libraries are, and no variable
# has to be set for them. Both machines must have the same architecture, and the other a C library
# at least as new. Without nvcc here the archive has no CUDA part.
set -eu
cd "$(dirname "$0")/../.."
tar=carried.tar.gz here=$PWD/carried

# Folders and files below /usr/include.
headers='lua5.4 Random123 hnswlib lapacke*.h lapack.h zip*.h zlib.h zconf.h zstd*.h readline
ncurses*.h curses.h term.h termcap.h unctrl.h cmocka*.h openblas* x86_64-linux-gnu/zipconf.h
x86_64-linux-gnu/cblas*.h x86_64-linux-gnu/openblas* x86_64-linux-gnu/lapacke*
x86_64-linux-gnu/zconf.h x86_64-linux-gnu/f77blas.h x86_64-linux-gnu/lua5.4-deb-multiarch.h'

# The program's libraries and the libraries that they need, except those of the C library and of the
# compiler, which the other machine has.
libraries() {
  for name in lapacke openblas zip z zstd lua5.4 readline ncursesw tinfo cmocka; do
    ls /usr/lib/x86_64-linux-gnu/lib$name.so
  done
  ldd build/release/fopo build/release/test_cuda | awk '/=> \// { print $3 }' |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libgomp|ld-linux[^/]*)\.so' |
    sort -u
}

# The programs, linked to look for their libraries beside them; and what was packed.
programs() {
  rm -rf build/carried
  cp -a build/release build/carried
  tests='test_cuda test_cuda_runs test_sparse_scores'
  (cd build/carried && rm -f fopo $tests)
  make -s OUT=build/carried RUNPATH="-Wl,--disable-new-dtags,-rpath,'\$\$ORIGIN/../lib'" "$@" all \
    $(printf 'build/carried/%s ' $tests)
  [ ! -e build/carried/fopo_cuda.so ] || make -s OUT=build/carried "$@" build/carried/gpu_limits
  mkdir "$here/release"
  for f in fopo $tests fopo_cuda.so gpu_limits; do
    [ ! -e build/carried/$f ] || cp build/carried/$f "$here/release/"
  done
  strip --strip-debug "$here"/release/*
  rm -rf build/carried
  git describe --always --dirty > "$here/version" 2>/dev/null || echo unknown > "$here/version"
}

pack() {
  make -s "$@" CUDA= all build/release/test_cuda build/release/test_cuda_runs
  rm -rf "$here" "$tar"
  mkdir -p "$here/include" "$here/lib"
  programs "$@"
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
    [ -e "$here/lib/$soname" ] || cp -L "$f" "$here/lib/$soname"
    case $(basename "$f") in *.so) echo "INPUT($soname)" > "$here/lib/$(basename "$f")" ;; esac
  done
  strip --strip-unneeded "$here"/lib/*.so.* 2>/dev/null || true
  tar -cf - carried | gzip -9 > "$tar.tmp"
  mv "$tar.tmp" "$tar"
  rm -rf "$here"
  du -h "$tar"
}

# Unpacked under a temporary name, so that a folder of that name is whole.
unpack() {
  if [ -d "$here" ] && [ ! "$tar" -nt "$here" ]; then return; fi
  [ -e "$tar" ] || { echo "$tar is absent; make it by: sh scripts/tools/gpu.sh pack" >&2; exit 1; }
  rm -rf "$here" "$here.tmp"
  mkdir "$here.tmp"
  tar -xzf "$tar" -C "$here.tmp" --strip-components 1
  touch "$here.tmp"
  mv "$here.tmp" "$here"
}

case ${1:-} in
  pack)
    shift
    pack "$@"
    ;;
  unpack) unpack ;;
  make)
    shift
    unpack
    include=$here/include:$here/include/lua5.4:$here/include/openblas-pthread
    export C_INCLUDE_PATH="$include" CPLUS_INCLUDE_PATH="$include" LIBRARY_PATH="$here/lib"
    # The old kind of rpath, which also holds for the libraries that libraries need.
    exec make "CXX=g++ -Wl,--disable-new-dtags,-rpath,$here/lib" "$@"
    ;;
  *) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
