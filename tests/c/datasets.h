/* Files that are refused. */
#ifndef FOPO_TESTS_DATASETS_H
#define FOPO_TESTS_DATASETS_H

#include "checks.h"
#include "core/memory.h"
#include "tables.h"

/* Reading fails with this code and a sentence that has the part, and leaves nothing behind. */
static inline void must_refuse(const char *path, int code, const char *part,
                               const fopo_read_options *options) {
  fopo_dataset *d;
  size_t blocks = fopo_memory_in_use().blocks;
  int status = fopo_dataset_read(&d, path, options);
  if (status != code) fail_msg("%s: status %d, %s", path, status, fopo_error_sentence());
  assert_null(d);
  says(part);
  assert_int_equal(fopo_memory_in_use().blocks, blocks);
}

#endif
