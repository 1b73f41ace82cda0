/* What the tests share: cmocka with the headers that it needs, and checks of a status and of the
 * sentence that goes with it. */
#ifndef FOPO_TESTS_CHECKS_H
#define FOPO_TESTS_CHECKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"

/* The call succeeds. */
#define ok(call) check_ok((call), #call)

static inline void check_ok(int status, const char *call) {
  if (status != FOPO_OK) fail_msg("%s: %s", call, fopo_error_sentence());
}

/* The sentence of the last failure has this part. */
static inline void says(const char *part) {
  if (strstr(fopo_error_sentence(), part) == NULL) {
    fail_msg("\"%s\" does not say \"%s\"", fopo_error_sentence(), part);
  }
}

/* The call fails with this code and says this. */
#define refused(call, code, part) check_refused((call), (code), (part), #call)

static inline void check_refused(int status, int code, const char *part, const char *call) {
  if (status != code) fail_msg("%s gave %d instead of %d", call, status, code);
  says(part);
}

/* The teardown of a test that must free all that it allocates. */
static inline int no_leak(void **state) {
  (void)state;
  size_t blocks = fopo_memory_in_use().blocks;
  if (blocks != 0) print_message("%zu blocks leaked\n", blocks);
  return blocks != 0;
}

#endif
