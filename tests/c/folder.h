/* A temporary folder for the files of a test program, and Python as a judge of them. */
#ifndef FOPO_TESTS_FOLDER_H
#define FOPO_TESTS_FOLDER_H

#include <stdlib.h>
#include <unistd.h>

#include "checks.h"

static char folder[] = "/tmp/fopo-test-XXXXXX";

/* The group's set-up and teardown. */
static inline int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) == NULL;
}

static inline int remove_folder(void **state) {
  (void)state;
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

/* The path of a file in the folder, valid until the fourth call from now. */
static inline const char *in_folder(const char *name) {
  static char paths[4][128];
  static unsigned turn;
  char *path = paths[turn++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static inline void spit(const char *path, const void *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, n, f), n);
  fclose(f);
}

/* Writes a file of the folder, and returns its path. */
static inline const char *write_bytes(const char *name, const void *bytes, size_t n) {
  const char *path = in_folder(name);
  spit(path, bytes, n);
  return path;
}

static inline const char *write_text(const char *text) {
  return write_bytes("case.txt", text, strlen(text));
}

/* The exit status of tests/oracle_npz.py, with the folder as its argument. PYTHON= names the
 * interpreter. */
static inline int oracle(const char *what) {
  char command[160];
  snprintf(command, sizeof command, "${PYTHON:-/usr/bin/python3} tests/oracle_npz.py %s %s", what,
           folder);
  return system(command);
}

/* True if Python has numpy and scipy; says so once if not. */
static inline int have_numpy(void) {
  static int known = -1;
  if (known >= 0) return known;
  known = oracle("probe >/dev/null 2>&1") == 0;
  if (!known) printf("skip  Python has no numpy and scipy\n");
  return known;
}

#endif
