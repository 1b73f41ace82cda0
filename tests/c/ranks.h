/* Test programs that run as one of several ranks, or alone as rank 0 of 1. */
#ifndef FOPO_TESTS_RANKS_H
#define FOPO_TESTS_RANKS_H

#include "checks.h"
#include "comm/comm.h"
#include "core/memory.h"

/* Each rank in turn lacks memory at the n-th place of the work, n = 0, 1, .. until it succeeds. All
 * ranks must fail, none may wait, and nothing may be lost. Returns how often the work has failed.
 */
static inline size_t fail_each_rank(int (*work)(const void *payload, long n), const void *payload) {
  size_t blocks = fopo_memory_in_use().blocks, failed = 0;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    int all[FOPO_COMM_RANKS] = {0};
    all[r] = FOPO_ERR_MEMORY;
    for (long n = 0; all[r] != FOPO_OK; n++) {
      if (r == fopo_comm_own_rank()) fopo_memory_fail_after(n, 0);
      int status = work(payload, n);
      fopo_memory_fail_after(-1, 0);
      assert_int_equal(fopo_memory_in_use().blocks, blocks);
      ok(fopo_comm_gather(all, &status, sizeof status));
      for (size_t i = 0; i < fopo_comm_ranks(); i++) {
        assert_true((all[i] == FOPO_OK) == (all[r] == FOPO_OK));
        if (i != r && all[i] != FOPO_OK) assert_int_equal(all[i], FOPO_ERR_UNAVAILABLE);
      }
      failed += status != FOPO_OK;
      assert_true(n < 1000);
    }
  }
  return failed;
}

static size_t blocks_before;

/* The beginning of main: 0 if the ranks have found each other. */
static inline int join_ranks(int *argc, char ***argv) {
  if (fopo_comm_open(argc, argv) != FOPO_OK) {
    fprintf(stderr, "%s\n", fopo_error_sentence());
    return 1;
  }
  blocks_before = fopo_memory_in_use().blocks;
  return 0;
}

/* Its end: the exit status, after so many tests that failed. A failure ends all ranks. */
static inline int leave_ranks(int failed) {
  if (fopo_memory_in_use().blocks != blocks_before) failed = 1;
  if (failed) fopo_comm_abort(1);
  fopo_comm_close();
  return failed;
}

#endif
