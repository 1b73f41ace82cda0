/* Published data sets, in the folder that the environment variable FOPO_TEST_DATA names. */
#ifndef FOPO_TESTS_REAL_DATA_H
#define FOPO_TESTS_REAL_DATA_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The path of FOPO_TEST_DATA/name, valid for one more call; or NULL, and tests/run.sh counts the
 * line "absent". */
static inline const char *real_file(const char *name) {
  static char paths[2][1024];
  static int turn;
  const char *top = getenv("FOPO_TEST_DATA");
  char *path = paths[turn = !turn];
  snprintf(path, sizeof paths[0], "%s/%s", top != NULL ? top : "", name);
  if (top != NULL && access(path, R_OK) == 0) return path;
  printf("absent: %s\n", name);
  return NULL;
}

#endif
