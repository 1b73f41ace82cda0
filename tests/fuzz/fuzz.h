/* Fuzzing of all that reads files: what the parts of tests/fuzz share.
 *
 * A target is a format and what is done with a file of it. The program `fuzz TARGET ...` is built
 * twice: with a driver and mutations of its own (drive.c), which `make test` runs, and by clang
 * with libFuzzer, ASan and UBSan (libfuzzer.c), which `make nightly` runs. */
#ifndef FOPO_TESTS_FUZZ_H
#define FOPO_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  const char *name;
  int is_zip;                   /* an .npz: mutated member by member, its CRCs made again */
  int (*run)(const char *path); /* reads and uses the file: a status; what must not be aborts */
  void (*seeds)(const char *folder); /* NULL: `text` alone */
  const char *const *text;           /* seeds, ended by NULL; or NULL */
  const char *lua; /* run and seeds by this chunk: it gets the folder, writes its seeds
                    * there and returns a function of a path */
} fuzz_target;

/* targets.c. The target of that name is set up, and its seeds are written to the folder; NULL if
 * there is none of that name. */
const fuzz_target *fuzz_open(const char *name, const char *folder);
char *fuzz_folder(void); /* a new one, in memory where that can be; NULL: none can be made */
void fuzz_remove(const char *folder);
const fuzz_target *fuzz_target_at(size_t i); /* NULL behind the last */

/* Gives the bytes to the target as a file. */
int fuzz_one(const fuzz_target *t, const uint8_t *data, size_t n);

/* Changes n bytes in place, which may become up to `most`; returns how many they are. */
typedef size_t fuzz_mutator(uint8_t *data, size_t n, size_t most);

/* parts.c. A table in several parts, against the same read whole. */
int fuzz_parts(const char *path);
void fuzz_parts_seeds(const char *folder);

/* zip.c. Changes the contents of a member, its name or the list of members, and makes sizes and
 * CRCs again; now and then the bytes of the archive as they are. random: any number. */
size_t fuzz_mutate_zip(uint8_t *data, size_t n, size_t most, uint32_t random, fuzz_mutator *mutate);

#endif
