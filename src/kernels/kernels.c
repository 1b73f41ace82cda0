/* Which kernels run: the one place that asks the CPU. The rows of
 * instruction_sets.def are filled into tables once, at the first question; the choice among
 * them can be forced by FOPO_ISA or by fopo_kernels_force. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/platform.h"
#include "core/status.h"
#include "kernels/kernels_tables.h"

#define ARM FOPO_PLATFORM_ARM
#if defined(__x86_64__)
#define X86(feature) (__builtin_cpu_supports(feature) != 0)
/* clang 14 knows fewer features than gcc 12. word: 0 to 3, EAX to EDX. */
static int cpuid(unsigned leaf, unsigned subleaf, int word, int bit) {
  unsigned w[4];
  return __get_cpuid_count(leaf, subleaf, &w[0], &w[1], &w[2], &w[3]) && (w[word] >> bit & 1) != 0;
}
#define CPUID(leaf, subleaf, word, bit) cpuid(leaf, subleaf, word, bit)
#else
#define X86(feature)                    0
#define CPUID(leaf, subleaf, word, bit) 0
#endif

#define X(name, base, cpu_has_it)                                                                  \
  static int cpu_has_##name(void) { return cpu_has_it; }
#include "kernels/instruction_sets.def"
#undef X

/* What stands for a set that this build lacks: the file of a set overrides it. */
#define X(name, base, cpu_has_it)                                                                  \
  __attribute__((weak)) FOPO_KERNELS_FILL(name, table) {                                           \
    (void)table;                                                                                   \
    return 0;                                                                                      \
  }
#include "kernels/instruction_sets.def"
#undef X

enum {
#define X(name, base, cpu_has_it) ISA_##name,
#include "kernels/instruction_sets.def"
#undef X
  N_ISAS
};

static const struct {
  const char *name;
  size_t base; /* the row that is filled first; its own place: none */
  int (*cpu_has)(void);
  int (*fill)(fopo_kernels *table);
} rows[N_ISAS] = {
#define X(name, base, cpu_has_it) {#name, ISA_##base, cpu_has_##name, fopo_kernels_fill_##name},
#include "kernels/instruction_sets.def"
#undef X
};

static pthread_once_t filled_once = PTHREAD_ONCE_INIT, chosen_once = PTHREAD_ONCE_INIT;
static fopo_kernels tables[N_ISAS]; /* name == NULL: not on this CPU, or not in this build */
static char every_name[128];        /* "portable, avx2, ..." */
static _Atomic(const fopo_kernels *) chosen;
static char note[160];

static void append_name(char *text, size_t size, const char *name) {
  size_t length = strlen(text);
  snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "", name);
}

static void fill_tables(void) {
  for (size_t i = 0; i < N_ISAS; i++) {
    fopo_kernels table = tables[rows[i].base]; /* all NULL for the first row */
    append_name(every_name, sizeof every_name, rows[i].name);
    if (rows[i].base != i && table.name == NULL) continue;
    if (!rows[i].cpu_has() || !rows[i].fill(&table)) continue;
    table.name = rows[i].name;
    tables[i] = table;
  }
}

/* The place of a row, N_ISAS if there is none of that name. */
static size_t row_named(const char *name) {
  size_t i = 0;
  while (i < N_ISAS && strcmp(rows[i].name, name) != 0) i++;
  return i;
}

const char *fopo_kernels_name(size_t i) { return i < N_ISAS ? rows[i].name : NULL; }

const char *fopo_kernels_names(void) {
  pthread_once(&filled_once, fill_tables);
  return every_name;
}

const fopo_kernels *fopo_kernels_named(const char *name) {
  pthread_once(&filled_once, fill_tables);
  size_t i = row_named(name);
  return i < N_ISAS && tables[i].name != NULL ? &tables[i] : NULL;
}

static const fopo_kernels *best(void) {
  pthread_once(&filled_once, fill_tables);
  size_t i = N_ISAS - 1;
  while (tables[i].name == NULL) i--; /* portable, the first row, is always there */
  return &tables[i];
}

static void choose(void) {
  const char *requested = getenv("FOPO_ISA");
  const fopo_kernels *table = NULL;
  if (requested != NULL && requested[0] != '\0') {
    table = fopo_kernels_named(requested);
    if (table == NULL) {
      snprintf(note, sizeof note, "FOPO_ISA=%.32s is ignored (%s), %s is in use", requested,
               row_named(requested) < N_ISAS ? "this CPU lacks it" : "no kernels have that name",
               best()->name);
    }
  }
  atomic_store(&chosen, table != NULL ? table : best());
}

const fopo_kernels *fopo_kernels_get(void) {
  const fopo_kernels *table = atomic_load_explicit(&chosen, memory_order_acquire);
  if (table != NULL) return table;
  pthread_once(&chosen_once, choose);
  return atomic_load(&chosen);
}

const char *fopo_kernels_note(void) {
  fopo_kernels_get();
  return note;
}

void fopo_kernels_use(const fopo_kernels *table) {
  fopo_kernels_get(); /* FOPO_ISA's note is written before the choice is overruled */
  atomic_store(&chosen, table);
}

int fopo_kernels_force(const char *name) {
  const fopo_kernels *table = fopo_kernels_named(name);
  if (table != NULL) {
    fopo_kernels_use(table);
    return FOPO_OK;
  }
  char usable[sizeof every_name] = "";
  for (size_t i = 0; i < N_ISAS; i++) {
    if (tables[i].name != NULL) append_name(usable, sizeof usable, tables[i].name);
  }
  const char *why = row_named(name) < N_ISAS ? "this CPU has no" : "no kernels are named";
  return fopo_fail(FOPO_ERR_UNAVAILABLE, "%s %s; use one of %s", why, name, usable);
}
