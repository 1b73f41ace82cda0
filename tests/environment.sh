# What tests/run.sh and tests/nightly.sh set for every test; $out is the build folder.
export FOPO=$PWD/$out/fopo FOPO_HISTORY=/dev/null
export LC_ALL=C.UTF-8 TERM=dumb
export PYTHON=${PYTHON:-/usr/bin/python3} # the one that has Debian's packages
unset NO_COLOR FOPO_ISA FOPO_THREADS
export GOMP_SPINCOUNT=0 # no thread waits busily: three tests share the processors
export FOPO_CHECK_SAVES=1 # every file that is saved is loaded again (lua/fopo/base/saves.lua)
export FOPO_CUDA=none # "auto" is the CPU: what has a GPU is tested by make test-gpu
