#!/bin/sh
# Twitch: who watched which streamer in 43 days of July 2019. One of the paper's two sets.
#
#   sh datasets/twitch.sh [FOLDER] [size=full|100k]
#
# full: full_a.csv.gz, 124 M rows; then `make paper SCALE=full DATA=FOLDER WORLD=twitch`. No
# checksum of it is published: its rows are counted. 100k: 100k_a.csv, the subset of 100,000 users,
# 114 MB; its SHA-256 is that of copies in public repositories.
set -eu
name=twitch size=full
. "$(dirname "$0")/fetch.sh"
case ${1:-} in '') ;; size=full | size=100k) size=${1#size=} ;; *) fail "unknown word: $1" ;; esac
from=https://mcauleylab.ucsd.edu/public_datasets/gdrive/twitch

note 'Twitch, by J. Rappaz, J. McAuley and K. Aberer: "Recommendation on Live-Streaming' \
  'Platforms: Dynamic Availability and Repeat Consumption", RecSys 2021. Its authors state no' \
  'licence and ask to be cited: take it for research, and do not pass it on. The names of the' \
  'users are replaced.'
if [ $size = full ]; then
  fetch full_a.csv.gz $from/full_a.csv.gz rows:123000000-125000000
else
  fetch 100k_a.csv $from/100k_a.csv rows:3051733 \
    sha256:11d3bdb49683f651eb6b0ba806bf317db68646efc0c7de2d02d750201fd8ef69
fi
