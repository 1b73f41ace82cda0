/* What the tests share: cmocka with the headers that it needs, tests that register themselves, and
 * checks of a status and of the sentence that goes with it. */
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

/* TEST(name) { ... } is a test, and TEST_WITH(name, teardown) one with a teardown of its own. A
 * function that runs before main() puts it on the list, in the order of the lines. */
#define TEST(name) TEST_WITH(name, NULL)
#define TEST_WITH(name, teardown)                                                                  \
  static void name(void **state);                                                                  \
  __attribute__((constructor(1000 + __LINE__))) static void name##_is_listed(void) {               \
    all_tests.tests[all_tests.n++] =                                                               \
        (struct CMUnitTest)cmocka_unit_test_setup_teardown(name, NULL, teardown);                  \
  }                                                                                                \
  static void name(__attribute__((unused)) void **state)

static struct {
  struct CMUnitTest tests[64];
  size_t n;
} all_tests;

/* Runs all tests of the file; returns how many fail. setup and teardown, which may be NULL, run
 * once for all. */
static inline int run_all(CMFixtureFunction setup, CMFixtureFunction teardown) {
  return _cmocka_run_group_tests("tests", all_tests.tests, all_tests.n, setup, teardown);
}

/* What is released where its scope ends, by a function of its address: DONE(fopo_matrix_done)
 * fopo_matrix m = ...; or by one of the pointer, after FREED_BY has named its type:
 * FREED(fopo_index_free) fopo_index *ix = NULL; */
#define DONE(release)  __attribute__((cleanup(release)))
#define FREED(release) __attribute__((cleanup(release##_at)))
#define FREED_BY(release, type)                                                                    \
  static inline void release##_at(type **at) { release(*at); }

static inline void free_at(void *at) { free(*(void **)at); }
static inline void fopo_free_at(void *at) { fopo_free(*(void **)at); }

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

/* The teardown of a test (TEST_WITH) that must free all that it allocates. */
static inline int no_leak(void **state) {
  (void)state;
  size_t blocks = fopo_memory_in_use().blocks;
  if (blocks != 0) print_message("%zu blocks leaked\n", blocks);
  return blocks != 0;
}

#endif
