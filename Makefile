# fopo: make | make test | make demo | make bench | make MODE=asan test | make V=1 | make MPI=1
#
# `make test` and `make demo` install what Debian lacks first (scripts/setup.sh says what and why).
# `make test T="test_plot test_cli.py"` runs only those.

MODE    ?= release          # release | debug | asan
MPI     ?= 0                # 1: many machines through OpenMPI
CC      := gcc
CXX     := g++
WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wdouble-promotion -Wundef -Wvla
WARN_C  := $(WARN) -Wstrict-prototypes -Wmissing-prototypes
MODE    := $(strip $(MODE))
MPI     := $(strip $(MPI))
FLAGS_release := -O2 -g -DNDEBUG
FLAGS_debug   := -O0 -g
FLAGS_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined \
                 -fno-omit-frame-pointer
# -ffp-contract=off: the portable kernels give the same bits wherever they are compiled.
COMMON  := $(FLAGS_$(MODE)) -ffp-contract=off -fno-math-errno -fopenmp -Isrc \
           -isystem /usr/include/lua5.4 -D_GNU_SOURCE
CFLAGS  := -std=c11 $(COMMON) $(WARN_C)
# hnswlib reads one word past its lists when it prefetches; without that, asan is clean.
CXXFLAGS:= -std=c++17 $(COMMON) $(WARN) $(if $(filter asan,$(MODE)),-DNO_MANUAL_VECTORIZATION)
LDFLAGS := $(FLAGS_$(MODE)) -fopenmp
LDLIBS  := -llapacke -lopenblas -lzip -lz -llua5.4 -lreadline -lncursesw -ltinfo -lm -ldl -lpthread

# ------------------------------------------------------------------------------------------------
ifeq ($(filter -j% --jobserver%,$(MAKEFLAGS))$(filter-out 0,$(MAKELEVEL)),)
  MAKEFLAGS += -j$(shell nproc)
endif
V    ?= 0
Q    := $(if $(filter 1,$(V)),,@)
say   = $(if $(filter 1,$(V)),,@printf '  %-5s %s\n' $(1) $(2))
OUT  := build/$(MODE)$(if $(filter 1,$(MPI)),-mpi)

ifeq ($(MPI),1)
  CC       := mpicc
  LDCXX    := mpicxx
  SKIP     := src/comm/comm_alone.c
else
  LDCXX    := $(CXX)
  SKIP     := src/comm/comm_mpi.c
endif

SRC_C   := $(filter-out $(SKIP) src/main.c,$(wildcard src/*/*.c))
SRC_CXX := $(wildcard src/*/*.cc)
OBJ     := $(SRC_C:%.c=$(OUT)/%.o) $(SRC_CXX:%.cc=$(OUT)/%.o) $(OUT)/lua_files.o
LUA     := $(sort $(wildcard lua/*.lua lua/*/*.lua lua/*/*/*.lua))
TESTS   := $(patsubst tests/c/%.c,$(OUT)/%,$(wildcard tests/c/test_*.c))

.PHONY: all test test-programs demo bench setup packages clean FORCE
.DELETE_ON_ERROR:

# ./fopo is the release; the others are build/MODE/fopo.
all: $(OUT)/fopo
	$(Q)$(if $(filter release,$(MODE)),ln -sf $< fopo)

$(OUT)/fopo: $(OUT)/src/main.o $(OBJ)
	$(call say,LINK,$@)
	$(Q)$(LDCXX) $(LDFLAGS) -rdynamic -o $@ $^ $(LDLIBS)

# One folder of objects per mode; changed flags rebuild it. What was found is said with the first.
$(OUT)/flags: FORCE
	$(Q)mkdir -p $(@D); [ -f $@ ] || sh scripts/setup.sh --found
	$(Q)printf '%s\n' '$(CC) $(CFLAGS) $(CXX) $(CXXFLAGS) $(LDFLAGS) $(LDLIBS)' > $@.new; \
	  if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
FORCE:

# One file per instruction set, compiled with its own flags; src/device/kernels.c asks the CPU.
$(OUT)/src/device/kernels_avx2.o $(OUT)/src/device/kernels_rows_avx2.o: \
  EXTRA := -mavx2 -mfma -mf16c
$(OUT)/src/device/kernels_avx512.o $(OUT)/src/device/kernels_rows_avx512.o: \
  EXTRA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma
$(OUT)/src/device/kernels_amx.o: \
  EXTRA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mamx-tile -mamx-bf16

$(OUT)/%.o: %.c $(OUT)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D); $(CC) $(CFLAGS) $(EXTRA) -MMD -MP -c -o $@ $<

$(OUT)/%.o: %.cc $(OUT)/flags
	$(call say,CXX,$<)
	$(Q)mkdir -p $(@D); $(CXX) $(CXXFLAGS) -MMD -MP -c -o $@ $<

# The Lua files travel inside the program.
$(OUT)/lua_files.c: $(LUA) scripts/embed_lua.sh
	$(call say,EMBED,lua/)
	$(Q)mkdir -p $(@D); sh scripts/embed_lua.sh $(LUA) > $@

$(OUT)/lua_files.o: $(OUT)/lua_files.c
	$(Q)$(CC) -std=c11 -c -o $@ $<

$(OUT)/test_%: tests/c/test_%.c $(OBJ) $(OUT)/flags
	$(call say,TEST,$<)
	$(Q)$(CC) $(CFLAGS) -Wno-missing-prototypes -Itests/c -MMD -MP -MT $@ -c -o $@.o $<
	$(Q)$(LDCXX) $(LDFLAGS) -o $@ $@.o $(OBJ) $(LDLIBS) -lcmocka

setup:
	$(Q)sh scripts/setup.sh

# Set-up comes first, so the build is a make of its own, which then sees the new packages.
packages:
	$(Q)sh scripts/setup.sh --quiet

test: packages
	$(Q)$(MAKE) --no-print-directory all test-programs
	$(Q)bash tests/run.sh $(OUT) $(T)

test-programs: $(TESTS)

demo: packages
	$(Q)$(MAKE) --no-print-directory all
	$(Q)./fopo scripts/demo.lua

# make bench BENCH="steps dims=10,100": scripts/bench/run.lua says what it takes
bench: packages
	$(Q)$(MAKE) --no-print-directory all
	$(Q)./fopo scripts/bench/run.lua $(BENCH)

clean:
	rm -rf build fopo

-include $(shell find build -name '*.d' 2>/dev/null)
