#!/bin/sh
# GoodReads: who put which book on a shelf, and read it. One of the paper's two sets.
#
#   sh datasets/goodreads.sh [FOLDER]
#
# goodreads_interactions.csv: 228,648,342 rows and a header, about 4 GB; then
# `make paper SCALE=full DATA=FOLDER WORLD=goodreads`. No checksum is published: the rows, whose
# number its authors give, are counted.
set -eu
name=goodreads
. "$(dirname "$0")/fetch.sh"
[ $# = 0 ] || fail "unknown word: $1"

note 'GoodReads, by M. Wan and J. McAuley: "Item Recommendation on Monotonic Behavior Chains",' \
  'RecSys 2018, and with R. Misra and N. Nakashole: "Fine-Grained Spoiler Detection from' \
  'Large-Scale Review Corpora", ACL 2019. For academic use only: its authors ask not to pass it' \
  'on nor to use it commercially, and to cite both.'
fetch goodreads_interactions.csv \
  https://mcauleylab.ucsd.edu/public_datasets/gdrive/goodreads/goodreads_interactions.csv \
  rows:228648343
