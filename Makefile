# fopo: make | make demo | make test | make bench | make MODE=asan test | make V=1
#       make lint | make format | make test-gpu | make bench-gpu | make CUDA_ARCH=native
#       make CUDA= | make test-arm | make MPI=1 | make MPI= | make test-ranks
#       make install PREFIX=/usr/local DESTDIR= | make uninstall | make dist
#       make doc | make pictures | make paper
#       make test-cuda-races MUTANTS="--seconds 600"
#       make nightly NIGHTLY=7200 SEED=1 T="kills interrupts" | make mutate MUTATE="--budget 600"
#       make systems SYSTEMS="bookworm trixie" T=all
#
# `make`, `make demo` and `make test` first say what packages are missing and install them, by
# scripts/tools/setup.sh. `make all` builds with what is there.
# `make test T="test_plot test_cli.py"` builds what those need and runs only those.

MODE    ?= release          # release | debug | asan | clang | tsan | coverage
ARM     ?= 0                # 1: for arm64, by Debian's cross compiler (scripts/tools/arm.sh)
CC      := gcc
CXX     := g++
LUA_LIB ?= lua5.4           # of Lua 5.4, as Debian calls it; elsewhere lua
SYSROOT := $(if $(filter 1,$(ARM)),$(CURDIR)/build/arm/sysroot)
WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wdouble-promotion -Wundef -Wvla
WARN_C  := $(WARN) -Wstrict-prototypes -Wmissing-prototypes
MODE    := $(strip $(MODE))
LUA_LIB := $(strip $(LUA_LIB))
# The same sources give the same bytes in any folder. The shell of the recipe knows which it is, so
# that the flags do not change with it.
FLAGS_release := -O2 -g -DNDEBUG -ffile-prefix-map="$$PWD=."
FLAGS_debug   := -O0 -g
FLAGS_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined \
                 -fno-omit-frame-pointer
FLAGS_clang   := -O1 -g -fsanitize=undefined -fno-sanitize-recover=undefined
FLAGS_tsan    := -O1 -g -fsanitize=thread -fno-omit-frame-pointer
# Counters are not atomic: of two threads that add 1 at a time one may be lost, but none becomes 0.
FLAGS_coverage := -O0 -g --coverage
# -ffp-contract=off: the portable kernels give the same bits wherever they are compiled.
COMMON  := $(FLAGS_$(MODE)) -ffp-contract=off -fno-math-errno -fopenmp -Isrc \
           -isystem $(SYSROOT)/usr/include/$(LUA_LIB) -D_GNU_SOURCE
CFLAGS  := -std=c11 $(COMMON) $(WARN_C)
# hnswlib reads one word past its lists when it prefetches; without that, asan is clean.
CXXFLAGS:= -std=c++17 $(COMMON) $(WARN) $(if $(filter asan,$(MODE)),-DNO_MANUAL_VECTORIZATION)
# The program's own symbols are exported: fopo_cuda.so calls them.
LDFLAGS := $(FLAGS_$(MODE)) -fopenmp -rdynamic
# Of ncurses, terminfo is a library of its own on Debian and not everywhere.
has_lib  = $(if $(findstring /,$(shell $(CC) -print-file-name=lib$(1).so 2>/dev/null)),-l$(1))
LDLIBS  := -llapacke -lopenblas -lzip -lz -lzstd -l$(LUA_LIB) \
           -lreadline -lncursesw $(call has_lib,tinfo) -lm -ldl -lpthread

# The CUDA part is a shared object of its own, built if nvcc is found (CUDA= leaves it out). It has
# code for Volta, Turing, Ampere (and Ada) and Hopper, if the toolkit knows them, and PTX for later.
NVCC    := $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
CUDA    ?= $(NVCC)
# It must know C++20, as nvcc does from 12.0 on.
NVCC_IS := $(if $(CUDA),$(shell $(CUDA) --version 2>&1 | sed -n 's/.*release \([0-9.]*\).*/\1/p'))
ifneq ($(filter 1 2 3 4 5 6 7 8 9 10 11,$(firstword $(subst ., ,$(NVCC_IS)))),)
  $(info $(CUDA) is of CUDA $(NVCC_IS); the part for GPUs needs 12.0 or later and is left out)
  override CUDA :=
endif
CUDA_ARCH ?= all            # all | native | 90 | ...
NVCCFLAGS := -std=c++20 -O2 -Isrc -cudart static -Xcompiler -fPIC,-fvisibility=hidden \
             -Xcompiler -Wall,-Wextra,-Wshadow

# MPI is a shared object too, built if mpicc is found (MPI= leaves it out; MPI=1 installs OpenMPI
# first, if it is missing). The program opens it where mpirun or Slurm has started it.
MPI     ?= $(shell command -v mpicc)
MPI     := $(filter-out 0,$(MPI))

# ------------------------------------------------------------------------------------------------
ifeq ($(filter -j% --jobserver%,$(MAKEFLAGS))$(filter-out 0,$(MAKELEVEL)),)
  MAKEFLAGS += -j$(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
endif
V    ?= 0
Q    := $(if $(filter 1,$(V)),,@)
say   = $(if $(filter 1,$(V)),,@printf '  %-5s %s\n' $(1) $(2))
OUT  := build/$(MODE)

# The same by clang, whose sanitizer looks for other things than gcc's. Its warnings are not asked
# for: gcc, clang-tidy and cppcheck have theirs. The kernels are gcc's, as clang 14 cannot ask for
# all of their CPU features.
ifeq ($(MODE),clang)
  CC     := clang
  CXX    := clang++
  WARN   := -w
  WARN_C := -w
  build/clang/src/kernels/%.o: CC := gcc
endif

# Its objects have a folder of their own, and ./fopo stays this machine's.
ifeq ($(filter 1,$(ARM)),1)
  OUT      := build/arm
  CC       := aarch64-linux-gnu-gcc --sysroot=$(SYSROOT)
  CXX      := aarch64-linux-gnu-g++ --sysroot=$(SYSROOT)
  CUDA     :=
  MPI      :=
endif

SRC_C   := $(filter-out src/comm/mpi/% src/main.c,$(shell find src -name '*.c' | LC_ALL=C sort))
SRC_CXX := $(shell find src -name '*.cc' | LC_ALL=C sort)
OBJ     := $(SRC_C:%.c=$(OUT)/%.o) $(SRC_CXX:%.cc=$(OUT)/%.o) $(OUT)/lua_files.o \
           $(OUT)/columnar_py.o
LUA     := $(shell find lua -name '*.lua' | LC_ALL=C sort)
TESTS   := $(patsubst tests/c/%.c,$(OUT)/%,$(wildcard tests/c/test_*.c))

CUDA_SRC := $(wildcard src/device/cuda/*.cu)
CUDA_SO  := $(if $(strip $(CUDA)),$(OUT)/fopo_cuda.so)
EMULATED := $(OUT)/emulated/fopo_cuda.so
WATCHED  := $(OUT)/races/fopo_cuda.so
PLANTED  := $(OUT)/races/planted
MPI_SO   := $(if $(MPI),$(OUT)/fopo_mpi.so)

.PHONY: build all test test-programs lint format test-gpu test-arm bench-gpu demo bench setup
.PHONY: packages openmpi test-cuda-races test-ranks fuzzers nightly coverage mutate systems clean
.PHONY: FORCE
.DELETE_ON_ERROR:

# `make` alone. The build is a make of its own after the set-up, so that it sees the new packages.
build:
	$(Q)sh scripts/tools/setup.sh --build
	$(Q)$(MAKE) --no-print-directory all

# ./fopo is the release; the others are build/MODE/fopo.
all: $(OUT)/fopo $(CUDA_SO) $(MPI_SO)
	$(Q)$(if $(filter build/release,$(OUT)),ln -sf $(OUT)/fopo fopo)

# RUNPATH: of the linker, for programs that are carried to a machine without the libraries
# (scripts/tools/gpu.sh).
RUNPATH ?=

$(OUT)/fopo: $(OUT)/src/main.o $(OBJ)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) $(RUNPATH) -o $@ $^ $(LDLIBS)

# Each mode has its folder of objects, which changed flags rebuild. The first build says what the
# machine has.
$(OUT)/flags: FORCE
	$(Q)mkdir -p $(@D); [ -f $@ ] || sh scripts/tools/setup.sh --found
	$(Q)printf '%s\n' '$(CC) $(CFLAGS) $(CXX) $(CXXFLAGS) $(LDFLAGS) $(LDLIBS)' > $@.new; \
	  if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
FORCE:

# A file of one instruction set says on its first line which flags it needs, by architecture:
#   /* flags x86_64: -mavx2 -mfma */    (src/kernels/kernels_tables.h)
ARCH      := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
isa_flags  = $$(sed -n '1s|^/\* flags $(ARCH): \(.*\) \*/$$|\1|p' $<)

$(OUT)/%.o: %.c $(OUT)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D); $(CC) $(CFLAGS) $(isa_flags) $(ABI) -MMD -MP -c -o $@ $<

$(OUT)/%.o: %.cc $(OUT)/flags
	$(call say,CXX,$<)
	$(Q)mkdir -p $(@D); $(CXX) $(CXXFLAGS) -MMD -MP -c -o $@ $<

# The number by which fopo and fopo_cuda.so know that they were built from the same declarations.
# When it changes, the objects that compare it are rebuilt.
$(OUT)/device_abi: FORCE
	$(Q)mkdir -p $(@D); sh scripts/tools/device_abi.sh $(CC) > $@.new; \
	  if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

COMPARE_ABI := src/device/device.o src/device/cuda/cuda.cu.o \
               emulated/src/device/cuda/cuda.cu.o races/src/device/cuda/cuda.cu.o
$(COMPARE_ABI:%=$(OUT)/%): private ABI := -DFOPO_DEVICE_ABI=$$(cat $(OUT)/device_abi)u
$(COMPARE_ABI:%=$(OUT)/%): $(OUT)/device_abi

# nvcc 13 knows no card before Turing (75). What ptxas says of registers and memory is kept beside
# each object, for tests/cuda/resources.py.
$(OUT)/nvcc: FORCE
	$(Q)mkdir -p $(@D); known=$$($(CUDA) --list-gpu-arch | tr -dc '0-9\n'); \
	  wanted='$(strip $(CUDA_ARCH))'; [ "$$wanted" != all ] || wanted='70 75 80 90'; \
	  for a in $$wanted; do case " $$(echo $$known) " in \
	    *" $$a "*) flags="$$flags -gencode arch=compute_$$a,code=sm_$$a"; last=$$a ;; esac; done; \
	  if [ "$$wanted" = native ]; then flags='-arch=native'; \
	  else flags="$$flags -gencode arch=compute_$$last,code=compute_$$last"; fi; \
	  echo "$$flags $(NVCCFLAGS)" > $@.new; \
	  if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(OUT)/%.cu.o: %.cu $(OUT)/nvcc
	$(call say,NVCC,$<)
	$(Q)mkdir -p $(@D); $(CUDA) $$(cat $(OUT)/nvcc) -Xptxas -v $(ABI) -MMD -MP -MT $@ -MF $(@:.o=.d) \
	  -c -o $@ $< >$(@:.o=.ptxas) 2>&1; status=$$?; \
	  grep -vE '^ptxas info|bytes stack frame|^$$' $(@:.o=.ptxas) >&2; exit $$status

$(OUT)/fopo_cuda.so: $(CUDA_SRC:%.cu=$(OUT)/%.cu.o)
	$(call say,LINK,$@)
	$(Q)top=$$(sh scripts/tools/cuda.sh $(CUDA)); \
	  $(CUDA) -shared -cudart static -o $@ $^ -lcublas -Xlinker -rpath,$$top/lib64

# What the card can do, measured.
$(OUT)/gpu_limits: $(OUT)/scripts/bench/gpu_limits.cu.o
	$(call say,LINK,$@)
	$(Q)top=$$(sh scripts/tools/cuda.sh $(CUDA)); \
	  $(CUDA) -cudart static -o $@ $^ -lcublas -Xlinker -rpath,$$top/lib64

# mpicc is asked for when the object is made, so that MPI=1 finds the one that it has installed.
$(OUT)/fopo_mpi.so: src/comm/mpi/fopo_mpi.c src/comm/mpi/mpi.h src/core/status.h $(OUT)/flags \
                    $(if $(filter 1,$(MPI)),openmpi)
	$(call say,MPICC,$@)
	$(Q)mpicc $(CFLAGS) -fPIC -fvisibility=hidden -shared -o $@ $<

openmpi:
	$(Q)command -v mpicc >/dev/null || sh scripts/tools/setup.sh --mpi

# The same sources for the tests, on an emulation of a GPU; and again with each access of their
# kernels watched (tests/cuda/races.cc is in the place of ThreadSanitizer's runtime). gcov looks at
# src/*.c and *.cc alone, and an emulated GPU is slow: MODE=coverage optimises it.
EMULATE  = $(CXX) -std=c++20 $(subst $(FLAGS_coverage),$(FLAGS_release),$(COMMON)) -fPIC \
           -fvisibility=hidden -Itests/cuda -Wall -Wextra -Wshadow -Wno-unknown-pragmas $(ABI) \
           -MMD -MP
WATCH   := -O1 -g1 -fsanitize=thread,alignment,bounds,shift,integer-divide-by-zero
EMULATION := $(wildcard tests/cuda/*.cc)

# Half of the time of a source goes into the headers, so they are compiled once for all of them; not
# for the one that gets the number of the ABI, which they have as 0.
COMPILED = $(if $(ABI),,-include $(dir $(filter %.gch,$^))headers.h)
$(OUT)/races/headers.h.gch: WATCHED_BY := $(WATCH)
$(OUT)/emulated/headers.h.gch $(OUT)/races/headers.h.gch: src/device/cuda/cuda.cuh $(OUT)/flags
	$(call say,CXX,$<)
	$(Q)mkdir -p $(@D); echo '#include "device/cuda/cuda.cuh"' > $(@:.gch=); \
	  $(EMULATE) $(WATCHED_BY) -MT $@ -MF $(@:.gch=.d) -x c++-header -o $@ $(@:.gch=)

$(OUT)/emulated/%.cu.o: %.cu $(OUT)/emulated/headers.h.gch
	$(call say,CXX,$<)
	$(Q)mkdir -p $(@D); $(EMULATE) $(COMPILED) -x c++ -c -o $@ $<

$(OUT)/emulated/tests/%.o: tests/% $(OUT)/flags
	$(call say,CXX,$<)
	$(Q)mkdir -p $(@D); $(EMULATE) -x c++ -c -o $@ $<

$(OUT)/races/%.cu.o: %.cu $(OUT)/races/headers.h.gch
	$(call say,WATCH,$<)
	$(Q)mkdir -p $(@D); $(EMULATE) $(WATCH) $(COMPILED) -x c++ -c -o $@ $<

$(OUT)/races/tests/%.cc.o: tests/%.cc $(OUT)/flags
	$(call say,WATCH,$<)
	$(Q)mkdir -p $(@D); $(EMULATE) -DEMULATION_RACES -x c++ -c -o $@ $<

$(EMULATED): $(CUDA_SRC:%=$(OUT)/emulated/%.o) \
             $(patsubst %,$(OUT)/emulated/%.o,$(filter-out %/races.cc %/watch.cc,$(EMULATION)))
$(WATCHED): $(CUDA_SRC:%=$(OUT)/races/%.o) $(EMULATION:%=$(OUT)/races/%.o)
$(EMULATED) $(WATCHED):
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) -shared -o $@ $^ -lopenblas

$(OUT)/emulated/gpu_limits: $(OUT)/emulated/scripts/bench/gpu_limits.cu.o \
    $(patsubst %,$(OUT)/emulated/%.o,$(filter-out %/races.cc %/watch.cc,$(EMULATION)))
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ -lopenblas

# Kernels with one fault each, by which the watcher is checked.
$(PLANTED): $(OUT)/races/tests/cuda/planted.cu.o $(EMULATION:%=$(OUT)/races/%.o)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ -lopenblas -ldl

# The program holds its Lua files, and the part that reads columnar files in Python.
$(OUT)/lua_files.c: $(LUA) scripts/tools/embed_lua.sh
	$(call say,EMBED,lua/)
	$(Q)mkdir -p $(@D); sh scripts/tools/embed_lua.sh $(LUA) > $@

$(OUT)/columnar_py.c: src/data/columnar.py
	$(call say,EMBED,$<)
	$(Q)mkdir -p $(@D); { echo 'const char fopo_columnar_py[] = {'; od -An -v -td1 $< | \
	sed 's/[0-9][0-9]*/&,/g'; echo '0};'; } > $@

$(OUT)/lua_files.o $(OUT)/columnar_py.o: $(OUT)/%.o: $(OUT)/%.c
	$(Q)$(CC) -std=c11 -c -o $@ $<

# Each test is linked with all objects, which gold does in a third of the time; a cross compiler has
# linkers of its own.
QUICK := $(if $(filter 1,$(ARM)),,$(if $(shell command -v ld.gold),-fuse-ld=gold))

$(OUT)/test_%: tests/c/test_%.c $(OBJ) $(OUT)/flags
	$(call say,TEST,$<)
	$(Q)$(CC) $(CFLAGS) -Wno-missing-prototypes -Itests/c -MMD -MP -MT $@ -c -o $@.o $<
	$(Q)$(CXX) $(LDFLAGS) $(RUNPATH) $(QUICK) -o $@ $@.o $(OBJ) $(LDLIBS) -lcmocka

# What stands between program and system, and lets calls fail: tests/faults. -fno-builtin, as it
# defines malloc and its like.
$(OUT)/seam.so: tests/faults/seam.c $(OUT)/flags
	$(call say,TEST,$<)
	$(Q)$(CC) -std=c11 -O2 -g -fPIC -fno-builtin -shared -D_GNU_SOURCE -Wall -Wextra \
	  -isystem /usr/include/lua5.4 -o $@ $< -ldl

# The fuzz targets with the driver of their own; and by clang, with libFuzzer and sanitizers, in
# build/fuzz. --wrap makes the machine small: a file may claim gigabytes.
FUZZ_WRAP := -Wl,--wrap=fopo_memory_suffices,--wrap=fopo_alloc,--wrap=fopo_realloc
FUZZ_C    := tests/fuzz/targets.c tests/fuzz/parts.c tests/fuzz/zip.c

$(OUT)/fuzz: $(FUZZ_C:%.c=$(OUT)/%.o) $(OUT)/tests/fuzz/drive.o $(OBJ)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) $(FUZZ_WRAP) -o $@ $^ $(LDLIBS)

FUZZ_FLAGS := -O1 -g -UNDEBUG -fsanitize=fuzzer-no-link,address,undefined \
              -fno-sanitize-recover=undefined -fno-omit-frame-pointer
# The kernels are gcc's, as in MODE=clang.
KERNELS    := $(filter src/kernels/%,$(SRC_C))
FUZZ_OBJ   := $(patsubst %.c,build/fuzz/%.o,$(filter-out $(KERNELS),$(SRC_C))) \
              $(KERNELS:%.c=$(OUT)/%.o) $(SRC_CXX:%.cc=build/fuzz/%.o) \
              $(FUZZ_C:%.c=build/fuzz/%.o) build/fuzz/tests/fuzz/libfuzzer.o $(OUT)/lua_files.o \
              $(OUT)/columnar_py.o

fuzzers: build/fuzz/fuzz $(OUT)/fuzz

build/fuzz/fuzz: $(FUZZ_OBJ)
	$(call say,LINK,$@)
	$(Q)clang++ -fopenmp -fsanitize=fuzzer,address,undefined $(FUZZ_WRAP) -o $@ $^ $(LDLIBS)

build/fuzz/%.o: %.c
	$(call say,CLANG,$<)
	$(Q)mkdir -p $(@D); clang -std=c11 $(COMMON) $(isa_flags) $(FUZZ_FLAGS) -w -MMD -MP -c \
	  -o $@ $<

build/fuzz/%.o: %.cc
	$(call say,CLANG,$<)
	$(Q)mkdir -p $(@D); clang++ -std=c++17 $(COMMON) -DNO_MANUAL_VECTORIZATION $(FUZZ_FLAGS) -w \
	  -MMD -MP -c -o $@ $<

# The test of the kernels with nothing that is above them: tests/test_arm.sh builds it for arm64.
LOW := $(filter $(OUT)/src/core/% $(OUT)/src/comm/% $(OUT)/src/kernels/%,$(OBJ))
$(OUT)/kernels_alone: tests/c/test_kernels.c $(LOW) $(OUT)/flags
	$(call say,TEST,$<)
	$(Q)$(CC) $(CFLAGS) -Wno-missing-prototypes -Itests/c $(LDFLAGS) -o $@ $< $(LOW) $(LDLIBS) -lcmocka

setup:
	$(Q)sh scripts/tools/setup.sh

packages:
	$(Q)sh scripts/tools/setup.sh --quiet

test: packages
	$(Q)$(MAKE) --no-print-directory all test-programs ONLY='$(T)'
	$(Q)bash tests/run.sh $(OUT) $(T)

# What a test needs beside ./fopo and, for one in C, its own program. With ONLY="name ..." nothing
# else is built for the tests.
RACES                      := $(if $(filter asan clang coverage,$(MODE)),,$(WATCHED) $(PLANTED))
needs_test_cuda            := $(EMULATED)
needs_test_cuda_bounds     := $(EMULATED)
needs_test_cuda_runs       := $(EMULATED)
needs_test_sparse_scores   := $(EMULATED)
needs_test_gpu_types.py    := $(EMULATED)
needs_test_cuda_races.sh   := $(RACES) $(EMULATED) $(OUT)/test_cuda $(OUT)/test_cuda_bounds
needs_test_install.sh      := $(EMULATED)
needs_test_ranks.py        := $(OUT)/test_shares
needs_test_ranks_read.py   := $(OUT)/test_read_ranks
needs_test_faults.py       := $(OUT)/seam.so
needs_test_fuzz.py         := $(OUT)/fuzz

ONLY ?=
test-programs: $(if $(strip $(ONLY)), \
  $(foreach test,$(ONLY),$(filter $(OUT)/$(test),$(TESTS)) $(needs_$(test))), \
  $(TESTS) $(EMULATED) $(RACES) $(OUT)/seam.so $(OUT)/fuzz)

# The form of the source: clang-format, luacheck, clang-tidy, cppcheck, long lines, the layers; and
# its plan: rooms, arrows between them, circles of files.
lint:
	$(Q)sh scripts/tools/setup.sh --lint
	$(Q)bash tests/check_house.sh
	$(Q)CFLAGS='$(CFLAGS)' CXXFLAGS='$(CXXFLAGS)' bash tests/check_style.sh --tidy

format:
	$(Q)bash tests/check_style.sh --fix

# The tests of the CUDA device on this machine's GPU, also under compute-sanitizer if it is found.
# Without nvcc or a GPU they are skipped by name. scripts/tools/gpu.sh prepares a bare machine.
test-gpu: $(OUT)/fopo $(CUDA_SO) $(OUT)/test_cuda $(OUT)/test_cuda_runs $(OUT)/test_sparse_scores
	$(Q)bash tests/run_gpu.sh $(OUT)

# Races and unsound accesses of the kernels, without a card: every test of the operations with each
# access watched, the tests in five schedules, and faults put into the kernels one at a time.
test-cuda-races: test-programs
	$(Q)FOPO_RACES=all bash tests/run.sh $(OUT) test_cuda_races.sh
	$(Q)$(PYTHON) tests/cuda/mutants.py $(MUTANTS)

# The tests on arm64, under qemu-user: the program is built for it by Debian's cross compiler.
# Without compiler, emulator or libraries they are skipped by name.
test-arm:
	$(Q)if sh scripts/tools/arm.sh --found; then $(MAKE) --no-print-directory $(OUT)/fopo && \
	  $(MAKE) --no-print-directory ARM=1 all test-programs ONLY='$(T)' && \
	  bash tests/run_arm.sh build/arm ./$(OUT)/fopo $(T); fi

# Several processes on this machine, beyond what make test runs of them: millions of items, hosts in
# network namespaces (as root), and how times grow (with nothing beside it).
test-ranks: all
	$(Q)FOPO_RANKS=all bash tests/run.sh $(OUT) test_ranks.py
	$(Q)for t in ranks_hosts ranks_scaling ranks_killed; do echo "  $$t"; \
	  FOPO='$(CURDIR)/$(OUT)/fopo' $(PYTHON) tests/$$t.py || [ $$? = 77 ] || exit 1; done

# Which lines and branches the tests reach, by gcov: tests/coverage.py. COVER="file ..." shows what
# they leave in these files. T: as in make test.
coverage: packages
	$(Q)$(MAKE) --no-print-directory MODE=coverage CUDA= all test-programs ONLY='$(T)'
	$(Q)find build/coverage -name '*.gcda' -delete
	$(Q)bash tests/run.sh build/coverage $(T); status=$$?; \
	  $(PYTHON) tests/coverage.py build/coverage $(COVER) && exit $$status

# Faults planted one at a time, and the tests that notice: tests/mutate/README.md
mutate: packages
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(PYTHON) tests/mutate/mutate.py run $(MUTATE)

# The long proofs, in NIGHTLY seconds: a table of promises, tries and failures (tests/nightly.sh).
NIGHTLY ?= 7200
SEED    ?= 1
nightly: packages
	$(Q)$(MAKE) --no-print-directory all test-programs
	$(Q)NIGHTLY=$(NIGHTLY) SEED=$(SEED) bash tests/nightly.sh $(OUT) $(T)

# Bare systems of Debian's kind, each in a chroot: what can be built and run there, and a table
# (tests/systems.sh, as root, with mmdebstrap). T: the tests of make test there; all: every one.
SYSTEMS ?= bookworm trixie
systems: dist
	$(Q)T='$(T)' bash tests/systems.sh build/fopo-$(VERSION).tar.gz $(SYSTEMS)

# Times against limits of the GPU measured in the same run, and against PyTorch if it is installed.
bench-gpu: $(OUT)/fopo $(CUDA_SO) $(if $(CUDA_SO),$(OUT)/gpu_limits)
	$(Q)./$(OUT)/fopo scripts/bench/run.lua gpu $(BENCH)

demo: packages
	$(Q)$(MAKE) --no-print-directory all
	$(Q)./fopo scripts/examples/demo.lua

# make bench BENCH="steps dims=10,100": scripts/bench/run.lua says what it takes
bench: packages
	$(Q)$(MAKE) --no-print-directory all
	$(Q)./fopo scripts/bench/run.lua $(BENCH)

# The paper's experiments, each of which goes on where it was stopped; scripts/paper/common.lua says
# what they take and where they leave tables and figures.
#   make paper                          on a twin of 1 % of Twitch: ten minutes; the report has what
#                                       docs/paper keeps beside it
#   make paper SCALE=full DATA=dir      at the paper's sizes, on the real files in dir: weeks
#   make paper WORLD=file               on a file of interactions
#   make paper PAPER="seeds=1 lr=1e-4"  options that all of them know
SCALE       ?= small
EXPERIMENTS ?= rq1 cost rq2 rq3 rq4 rq0 beyond alignment
# The SVD's bits are those of OpenBLAS's kernels: the same ones on every x86-64 CPU.
paper: export OPENBLAS_CORETYPE ?= Haswell
.PHONY: paper
paper: packages
	$(Q)$(MAKE) --no-print-directory all
	$(Q)for e in $(EXPERIMENTS); do ./fopo scripts/paper/$$e.lua scale=$(SCALE) \
	  $(if $(DATA),'data=$(DATA)') $(if $(WORLD),'worlds=$(WORLD)') $(PAPER) || exit 1; done
	$(Q)./fopo scripts/paper/report.lua \
	  $(or $(patsubst out=%,%,$(filter out=%,$(PAPER))),runs/paper/$(SCALE)) \
	  $(if $(DATA)$(WORLD)$(PAPER),,docs/paper)

# ------------------------------------------------------------------------------------------------
# make install: the program, its CUDA part if it was built, manual, documents, examples and sample.
# Variables by the GNU names; DESTDIR goes before each path: make install prefix=/usr DESTDIR=/tmp/x
# fopo looks for its CUDA and MPI parts in ../lib/fopo beside its own folder, which moves with
# bindir.
PREFIX      ?= /usr/local
prefix       = $(PREFIX)
exec_prefix  = $(prefix)
bindir       = $(exec_prefix)/bin
datarootdir  = $(prefix)/share
datadir      = $(datarootdir)
docdir       = $(datarootdir)/doc/fopo
mandir       = $(datarootdir)/man
INSTALL     ?= install
pkglibdir    = $(patsubst %/,%,$(dir $(bindir)))/lib/fopo
VERSION     := $(shell sed -n 's/^.define FOPO_VERSION "\(.*\)"/\1/p' src/bind/bind.h)

# The manual as fopo.1, manual.html and manual.md, from the declarations that help() reads. Only the
# last is in git, for readers on the web: make doc copies it there. A program built for arm64 does
# not run here; its manual is written by this machine's.
WRITER  := $(if $(filter 1,$(ARM)),build/release,$(OUT))/fopo
MANUAL   = mkdir -p $(OUT)/doc && ./$(WRITER) scripts/tools/manual.lua $(OUT)/doc

.PHONY: install uninstall dist doc pictures

install: all
	$(call say,INST,$(DESTDIR)$(prefix))
	$(Q)$(INSTALL) -d $(DESTDIR)$(bindir) $(DESTDIR)$(mandir)/man1 $(DESTDIR)$(docdir) \
	  $(DESTDIR)$(datadir)/fopo/examples/serving $(DESTDIR)$(datadir)/fopo/examples/methods \
	  $(DESTDIR)$(datadir)/fopo/datasets
	$(Q)$(INSTALL) -m 755 $(OUT)/fopo $(DESTDIR)$(bindir)/fopo
	$(Q)$(if $(CUDA_SO),$(INSTALL) -d $(DESTDIR)$(pkglibdir) && \
	  $(INSTALL) -m 755 $(CUDA_SO) $(DESTDIR)$(pkglibdir)/fopo_cuda.so)
	$(Q)$(if $(MPI_SO),$(INSTALL) -d $(DESTDIR)$(pkglibdir) && \
	  $(INSTALL) -m 755 $(MPI_SO) $(DESTDIR)$(pkglibdir)/fopo_mpi.so)
	$(Q)$(MANUAL)
	$(Q)$(INSTALL) -m 644 $(OUT)/doc/fopo.1 $(DESTDIR)$(mandir)/man1/fopo.1
	$(Q)$(INSTALL) -m 644 $(wildcard docs/*.md docs/*.svg) $(OUT)/doc/manual.html README.md \
	  CHANGELOG.md SECURITY.md LICENSE $(DESTDIR)$(docdir)
	$(Q)$(INSTALL) -m 644 $(wildcard scripts/examples/*.*) \
	  scripts/recommend.lua \
	  $(DESTDIR)$(datadir)/fopo/examples
	$(Q)$(INSTALL) -m 644 $(wildcard scripts/examples/serving/*.*) \
	  $(DESTDIR)$(datadir)/fopo/examples/serving
	$(Q)$(INSTALL) -m 644 $(wildcard scripts/examples/methods/*.lua) \
	  $(DESTDIR)$(datadir)/fopo/examples/methods
	$(Q)$(INSTALL) -m 644 datasets/README.md datasets/sample.csv datasets/*.sh \
	  $(DESTDIR)$(datadir)/fopo/datasets

# The folders named fopo hold nothing else. Of shared folders those go that this leaves empty, but
# for the system's own, which are there from the start.
SHARED_IN = $(if $(DESTDIR)$(filter-out /usr /usr/local,$(prefix)),$(mandir) $(patsubst \
  %/,%,$(dir $(pkglibdir))) $(datadir) $(bindir) $(prefix))
uninstall:
	rm -f $(DESTDIR)$(bindir)/fopo $(DESTDIR)$(mandir)/man1/fopo.1
	rm -rf $(DESTDIR)$(pkglibdir) $(DESTDIR)$(datadir)/fopo $(DESTDIR)$(docdir)
	$(Q)rmdir $(addprefix $(DESTDIR),$(mandir)/man1 $(dir $(docdir)) $(SHARED_IN)) 2>/dev/null || :

# The files of the last commit; two runs give the same bytes.
dist:
	$(Q)git rev-parse -q --verify HEAD >/dev/null 2>&1 || \
	  { echo "make dist packs the files that git tracks, and this is no git checkout" >&2; exit 1; }
	$(Q)mkdir -p build; git archive --format=tar --prefix=fopo-$(VERSION)/ HEAD | \
	  gzip -9n > build/fopo-$(VERSION).tar.gz.tmp
	$(Q)mv build/fopo-$(VERSION).tar.gz.tmp build/fopo-$(VERSION).tar.gz
	$(call say,DIST,build/fopo-$(VERSION).tar.gz)

doc: $(OUT)/fopo
	$(Q)$(MANUAL)
	$(Q)cp $(OUT)/doc/manual.md docs

# README's pictures: what is served, the view of the runs in docs/pictures, and a step of a lesson.
PYTHON ?= /usr/bin/python3
pictures: $(OUT)/fopo
	$(Q)./$(OUT)/fopo scripts/tools/pictures.lua docs
	$(Q)FOPO=./$(OUT)/fopo $(PYTHON) scripts/tools/lesson_picture.py docs

clean:
	rm -rf build fopo

-include $(shell find build -name sysroot -prune -o -name '*.d' -print 2>/dev/null)
