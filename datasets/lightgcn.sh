#!/bin/sh
# The sets that papers on collaborative filtering share since NGCF and LightGCN, with their split.
#
#   sh datasets/lightgcn.sh [FOLDER] [set=gowalla|amazon-book|yelp2018]
#
# FOLDER/SET/train.txt and test.txt, "user item item ..." a line, for
# fopo.data.sessions{train =, test =}. They are checked against the ids that git has of them.
set -eu
name=lightgcn set=gowalla
. "$(dirname "$0")/fetch.sh"
case ${1:-} in '') ;; set=*) set=${1#set=} ;; *) fail "unknown word: $1" ;; esac
of=https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch
from=$of/947ca2b3b1d2d3545b114145710cb06c4e57b3d2/data/$set
case $set in
  gowalla)
    source='Check-ins of Gowalla, by E. Cho, S. Myers and J. Leskovec (KDD 2011), on SNAP.'
    train=a27782bd7a1d4d0744148dc0460ea94da74763f2 test=9ed5af4b5d21511f33740b4e22e3852f45671800 ;;
  amazon-book)
    source='Reviews of books on Amazon, by J. McAuley and others; for research.'
    train=6ef55159c5f1fd7f6d86eb9ff290d0cc2854ac99 test=09e5da4e0bf46c751c4ba0f4375e414fd13512cd ;;
  yelp2018)
    source='Reviews of the Yelp challenge of 2018; Yelp allows academic use only.'
    train=cda12361055ba448ae4bd1070f6000c16dea8f22 test=30dfbc3437b27b74cb2970b435a5ec93ad9f2468 ;;
  *) fail "there is no set=$set; there are gowalla, amazon-book and yelp2018" ;;
esac
name=$set

note "$source" \
  'As split by X. Wang and others (NGCF, SIGIR 2019) and X. He and others (LightGCN, SIGIR 2020),' \
  'who ask to be cited. Their repositories hold them; the terms of the sources above apply.'
folder=$folder/$set
fetch train.txt "$from/train.txt" git:$train
fetch test.txt "$from/test.txt" git:$test
