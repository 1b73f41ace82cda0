#!/bin/sh
# scripts/examples/ranks.lua on the machines of a list, one process each with all its cores.
#
#   sh scripts/examples/ranks.sh HOSTS FILE     HOSTS: a file with a name a line
#
# Every machine can be reached by ssh without a question, sees this folder and FILE at the same
# path, and has OpenMPI (make MPI=1 in this folder). If a machine or a process dies, all end, and it
# goes on from the checkpoint in results/, up to TRIES times; a machine that stays away must leave
# HOSTS, and any number of machines goes on. STEPS, DIM: those of ranks.lua.
set -eu
# mpirun too notices within seconds that a host cannot be reached
export OMPI_MCA_oob_tcp_keepalive_time=3 OMPI_MCA_oob_tcp_keepalive_intvl=1
export OMPI_MCA_oob_tcp_keepalive_probes=3
mkdir -p results
try=1
until mpirun ${MPIRUN_OPTIONS:-} --hostfile "$1" --bind-to none \
  ./fopo scripts/examples/ranks.lua "$2" "${DIM:-128}" "${STEPS:-20000}" results
do
  [ $try -lt "${TRIES:-10}" ] || exit 1
  try=$((try + 1))
  echo "ranks.sh: try $try of ${TRIES:-10}" >&2
  sleep "${PAUSE:-10}"
done
