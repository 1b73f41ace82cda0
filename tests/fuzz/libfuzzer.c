/* The entry points of libFuzzer; the environment variable FUZZ names the target. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static const fuzz_target *target;
static char *folder;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed);

static void clean(void) { fuzz_remove(folder); }

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  const char *name = getenv("FUZZ");
  target = (folder = fuzz_folder()) != NULL ? fuzz_open(name != NULL ? name : "", folder) : NULL;
  if (folder != NULL) atexit(clean);
  if (target != NULL) return 0;
  fprintf(stderr, "FUZZ=%s is no target; fuzz --list lists them\n", name != NULL ? name : "");
  exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  fuzz_one(target, data, n);
  return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed) {
  return target->is_zip ? fuzz_mutate_zip(data, n, most, seed, LLVMFuzzerMutate)
                        : LLVMFuzzerMutate(data, n, most);
}
