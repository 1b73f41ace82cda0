#!/bin/sh
# MovieLens: ratings of films.
#
#   sh datasets/movielens.sh [FOLDER] [set=ml-25m|ml-20m|ml-1m]
#
# FOLDER/SET/ratings.csv, or ratings.dat of ml-1m. The archive is checked against the MD5 that
# GroupLens publishes beside it.
set -eu
name=movielens set=ml-25m
. "$(dirname "$0")/fetch.sh"
case ${1:-} in '') ;; set=*) set=${1#set=} ;; *) fail "unknown word: $1" ;; esac
case $set in
  ml-25m) md5=6b51fb2759a8657d3bfcbfc42b592ada file=ratings.csv ;;
  ml-20m) md5=cd245b17a1ae2cc31bb14903e1204af3 file=ratings.csv ;;
  ml-1m) md5=c4d9eecfca2ab87c1945afe126590906 file=ratings.dat ;;
  *) fail "there is no set=$set; there are ml-25m, ml-20m and ml-1m" ;;
esac
name=$set

note 'MovieLens, by F. M. Harper and J. Konstan: "The MovieLens Datasets: History and Context",' \
  'ACM TiiS 2015; they ask to be cited. For research; not for commercial use without the' \
  'permission of GroupLens; to be passed on under the same conditions only. See README.txt of' \
  'the archive.'
folder=$folder/$set
fetch $set.zip https://files.grouplens.org/datasets/movielens/$set.zip md5:$md5
unpack $set.zip $set/$file $set/README.txt
