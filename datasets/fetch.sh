# What the scripts that fetch a data set share. Sourced, after `set -eu`, with `name` set:
#
#   note TEXT                  its licence; shown before anything is fetched
#   fetch FILE URL CHECK ...   FILE in the folder, by curl or wget
#   unpack ARCHIVE MEMBER ...  members of a .zip in the folder, without their own folders
#
# A CHECK is sha256:HEX, md5:HEX, git:HEX (the id that git gives the file), rows:N or rows:N-M
# (lines, of the text inside a .gz). A file is fetched as FILE.part, checked, and renamed, so FILE
# is always whole. What was fetched before an interruption is not fetched again, if the server can
# go on in the middle; a FILE that is there and passes the checks is left alone.
#
# The folder is the first argument of the script, runs/data if left out. MIRROR=URL fetches the
# files, by their last names, from there instead of their own addresses.
folder=runs/data
case ${1:-} in '' | *=*) ;; *) folder=$1; shift ;; esac

fail() {
  echo "$name: $*" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

note() { printf '%s\n' "$@" ''; }

# ---- checks

lines_of() {
  case $1 in
    *.gz | *.gz.part) gzip -dc "$1" 2>/dev/null | wc -l ;;
    *) wc -l <"$1" ;;
  esac | tr -d ' '
}

git_id() { { printf 'blob %s\0' "$(wc -c <"$1" | tr -d ' ')"; cat "$1"; } | sha1sum; }

# seen CHECK FILE: what the file has, in the form of the check.
seen() {
  case $1 in
    sha256:*) sha256sum <"$2" ;;
    md5:*) md5sum <"$2" ;;
    git:*) git_id "$2" ;;
    rows:*) lines_of "$2" ;;
    *) fail "there is no check $1" ;;
  esac | cut -d ' ' -f 1
}

fits() {
  case $1 in
    rows:*-*)
      range=${1#rows:}
      [ "$2" -ge "${range%-*}" ] && [ "$2" -le "${range#*-}" ] ;;
    *) [ "$2" = "${1#*:}" ] ;;
  esac
}

# wrong FILE CHECK...: what does not hold; nothing if all do.
wrong() {
  file=$1
  shift
  for check; do
    value=$(seen "$check" "$file")
    fits "$check" "$value" || { echo "has ${check%%:*} $value, not ${check#*:}"; return; }
  done
}

# ---- fetching

# A bar on a terminal; the failure is said once, by `fetch`.
by_curl() {
  bar=-s
  [ ! -t 2 ] || bar=--progress-bar
  curl $bar -fL --retry 2 --connect-timeout 20 "$@"
}

# Why curl ended with this status.
why_curl() {
  case $1 in
    5 | 6 | 7 | 28 | 35) echo 'there is no connection to it; is there a network?' ;;
    18 | 52 | 56) echo 'the connection was lost' ;;
    22) echo 'the server does not give it' ;;
    23) echo 'it cannot be written' ;;
    *) echo "curl ended with status $1" ;;
  esac
}

why_wget() {
  case $1 in
    4) echo 'there is no connection to it; is there a network?' ;;
    8) echo 'the server does not give it' ;;
    3) echo 'it cannot be written' ;;
    *) echo "wget ended with status $1" ;;
  esac
}

# download PART URL: goes on with a part, or starts again where the server cannot (33, 36). Sets
# why, empty if all went well.
download() {
  why='' status=0
  if have curl; then
    by_curl -C - -o "$1" "$2" || status=$?
    if [ $status = 33 ] || [ $status = 36 ]; then
      status=0
      rm -f "$1"
      by_curl -o "$1" "$2" || status=$?
    fi
    [ $status = 0 ] || why=$(why_curl $status)
  elif have wget; then
    wget -q -c --tries 2 --timeout 20 -O "$1" "$2" || status=$?
    [ $status = 0 ] || why=$(why_wget $status)
  else
    why='neither curl nor wget is installed'
  fi
}

fetch() {
  file=$1 url=$2
  shift 2
  [ -z "${MIRROR:-}" ] || url=$MIRROR/${url##*/}
  target=$folder/$file
  mkdir -p "$folder"
  if [ -e "$target" ]; then
    say=$(wrong "$target" "$@")
    [ -z "$say" ] || fail "$target is there but $say; remove it to fetch it anew"
    echo "$target is there"
    return
  fi
  echo "fetching $url"
  download "$target.part" "$url"
  if [ -n "$why" ]; then
    [ -s "$target.part" ] || rm -f "$target.part"
    [ ! -e "$target.part" ] || why="$why. The next call goes on with $target.part"
    fail "cannot fetch $url: $why"
  fi
  say=$(wrong "$target.part" "$@")
  if [ -n "$say" ]; then
    rm -f "$target.part"
    fail "what $url sent is not the file that this script knows: it $say. It was removed"
  fi
  mv "$target.part" "$target"
  echo "$target is whole ($*)"
}

unpack() {
  archive=$folder/$1
  shift
  for member; do
    [ ! -e "$folder/${member##*/}" ] || continue
    have unzip || fail "unzip is not installed; unpack $member of $archive by other means"
    unzip -p "$archive" "$member" >"$folder/${member##*/}.part" ||
      { rm -f "$folder/${member##*/}.part"; fail "$archive cannot be unpacked"; }
    mv "$folder/${member##*/}.part" "$folder/${member##*/}"
    echo "$folder/${member##*/} is unpacked"
  done
}
