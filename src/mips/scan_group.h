/* The search of one group of queries, private to mips/: its scratch and its state. */
#ifndef FOPO_MIPS_SCAN_GROUP_H
#define FOPO_MIPS_SCAN_GROUP_H

#include "kernels/kernels.h"
#include "kernels/prefilter.h"
#include "mips/scan.h"
#include "mips/topk.h"

enum {
  FOPO_SCAN_HALF = FOPO_PANEL / 2, /* queries of half a panel: the unit of selection */
  FOPO_SCAN_TILE = 128,            /* items of one call of `scores`: their rows stay in L1 and L2 */
  FOPO_SCAN_TILE_PREFILTER = 256,  /* items of one call of the prefilter, for the same reason */
  FOPO_SCAN_FEW = 2,               /* queries for which single dots are cheaper than half a panel */
  FOPO_SCAN_ESTIMATE_MIN_K = 16    /* for smaller k floors rise fast without an estimate */
};

/* Shapes: a panel is FOPO_PANEL queries; padded(n) is n queries rounded up to whole panels;
 * row_bytes and query_bytes are the prefilter's. */
struct fopo_scan_worker {
  /* Capacity of the arrays below. */
  size_t group;    /* queries */
  size_t capacity; /* keys of a query */
  size_t places;   /* of scores: padded(group) times the slice of some search */
  size_t dim;
  size_t team; /* threads that share a group */

  fopo_topk *top;   /* [group] the selection of each query */
  uint64_t *keys;   /* [group, capacity] the keys of top */
  uint32_t *active; /* [group] queries that are not answered yet, as places in top */
  float *norm;      /* [group] of active query i: |q|, rounded up, */
  float *rounding;  /* [group] |q - q as the prefilter rounds it|, rounded up, */
  uint8_t *done;    /* [group] 1: no item left can enter the k best, */
  uint8_t *failed;  /* [group] 1: the estimated floor was too high */
  float *estimate;  /* [group] the estimated floors, by place in top */
  float *panels;    /* [padded(group), dim] the active queries, each panel transposed */
  float *scores;    /* [places] of a block: [padded(group), slice] */

  /* For the prefilter; NULL without one. */
  char *packed_panels; /* [padded(group), query_bytes] the panels, rounded */
  char *packed;        /* [team, TILE_PREFILTER, row_bytes] items that the index did not pack */
  uint32_t *list;      /* [places] the items that passed; scores at the same place */
  size_t *found;       /* [padded(group) / FOPO_PANEL, tiles, 2] how many passed */

  /* The state of the search of one group. */
  const fopo_kernels *kernels;
  const fopo_prefilter *prefilter; /* of this search; NULL: none */
  const fopo_prefilter *reserved;  /* whose arrays are there: a search without it keeps them */
  size_t prefix_rows;              /* items that this prefilter finds packed by the index */
  size_t slice;                    /* items of a block at most */
  size_t n_active;
  size_t n_waiting;  /* queries behind the active ones, while a round is repeated without them */
  size_t at, step;   /* the block is the items at .. at + step - 1 of the order */
  int prefiltered;   /* 1: the block is scored by the prefilter */
  size_t full_until; /* the items before it are scored in float32: the prefilter's errors of the
                      * largest norms are too large to be of use */
  size_t round_end;  /* where the stopping test comes next */
  size_t first_end;  /* the end of the first round */
  enum {
    FLOORS_PROVEN,    /* by k scores seen: the normal state */
    FLOORS_DUE,       /* floors of the first round are to be estimated before its first block */
    FLOORS_ESTIMATED, /* to be proven at the end of the first round */
    FLOORS_FAILED     /* the first round is repeated for the queries with estimates too high */
  } floors;
  size_t scored;   /* items scored, summed over the queries */
  double pause_at; /* the clock at which the caller must get control back */
  int pause;       /* 1: that time has come, or the search was interrupted */
};

static inline size_t fopo_scan_min(size_t a, size_t b) { return a < b ? a : b; }

/* n queries rounded up to whole panels. */
static inline size_t fopo_scan_padded(size_t n) {
  return (n + FOPO_PANEL - 1) / FOPO_PANEL * FOPO_PANEL;
}

/* The relative rounding error of an inner product of length L, in any order of summation: twice
 * gamma_L = L u / (1 - L u), u = 2^-24, and a little more for the roundings around it. */
static inline double fopo_scan_rounding(size_t L) { return (double)(L + 16) * 0x1p-23; }

/* Columns of the panel of active queries first .. first + 31: half a panel if that holds them. */
static inline size_t fopo_scan_panel_width(const fopo_scan_worker *w, size_t first) {
  return w->n_active - first > FOPO_SCAN_HALF ? FOPO_PANEL : FOPO_SCAN_HALF;
}

/* Where the prefilter lists the items of a panel that passed, of `count` items from `start` on: the
 * first half of the queries [16, count], then the second. */
static inline size_t fopo_scan_list_place(const fopo_scan_worker *w, size_t first, size_t start) {
  return first * w->slice + start * FOPO_PANEL;
}

/* 1 if the prefilter scores the items from place `at` on, for n queries: if the index packed them,
 * or if packing them now pays. */
static inline int fopo_scan_is_filtered(const fopo_scan_worker *w, size_t at, size_t n) {
  return w->prefilter != NULL && (at < w->prefix_rows || n >= w->prefilter->pays_from);
}

/* ---- scan_group.c ---- */

/* The prefilter for a search of n queries at a time; NULL: none. */
const fopo_prefilter *fopo_scan_prefilter(const fopo_scan *scan, size_t n);

/* Makes Q [<= w->group, L] the queries of the group; the answers will be in w->top. */
void fopo_scan_group_start(const fopo_scan *scan, fopo_scan_worker *w, fopo_matrix Q, size_t k);

/* Continues the search with a team of `threads`. Returns 0 when all queries are answered, and 1 if
 * it was paused to report progress and look for interrupts: call it again. */
int fopo_scan_group_run(const fopo_scan *scan, fopo_scan_worker *w, int threads);

/* ---- scan_score.c ---- */

/* Transposes the active queries into panels [L, width], missing queries 0, and packs these for the
 * prefilter. Called by one thread, after each change of the active queries. */
void fopo_scan_fill_panels(fopo_scan_worker *w, size_t L);

/* Scores the block in one of three ways; called by all threads of the team, like all that follow.
 *
 *   float32, panels of up to 32 queries against tiles of 128 items: w->scores holds [step, width]
 *   float32, query by query, if there are FEW: w->scores holds [step] for each
 *   rounded, by the prefilter, panels against tiles of 256 items: w->list, w->scores and w->found
 *   hold the items that reach their query's floor
 *
 * The prefilter is used if the kernels have one, for all but the items of largest norm. Its error
 * bound is wider, and the items left at the end are scored by dot as always. */
void fopo_scan_score_block(const fopo_scan *scan, const fopo_scan_worker *w);

/* Scores groups of 16 items, evenly spread over the first round, by the prefilter: w->scores holds,
 * for each half panel, [groups * 16, FOPO_SCAN_HALF]. */
void fopo_scan_score_sample(const fopo_scan *scan, const fopo_scan_worker *w);
size_t fopo_scan_sampled_groups(const fopo_scan_worker *w);

/* ---- scan_select.c ---- */

/* Floors of the first round: for each query the score of a safe rank in the sample. */
void fopo_scan_estimate_floors(const fopo_scan *scan, fopo_scan_worker *w);

/* Pushes the block's scores into the selections; at the end of a round sets w->failed and w->done.
 */
void fopo_scan_select_block(const fopo_scan *scan, const fopo_scan_worker *w);

#endif
