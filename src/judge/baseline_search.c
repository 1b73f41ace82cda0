#include "judge/baseline_search.h"

#include <math.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/rng.h"
#include "core/sort.h"
#include "core/status.h"
#include "data/histories.h"
#include "judge/measures.h"

enum { LEAST_HELD = 100, MOST_HELD = 2000, K = 20 };

typedef struct {
  fopo_baseline_search *search;
  fopo_baseline_options o;
  fopo_sessions rest, held;
  uint8_t *wanted;  /* [P] or NULL */
  uint32_t *ids;    /* [held, k] */
  uint32_t *counts; /* [held] */
  float *scores;    /* [held, k] */
  size_t k;
  double ndcg[FOPO_SEARCH_MOST]; /* of each value; NAN: not tried */
} job;

static double *member_of(fopo_baseline_options *o, const fopo_option *row) {
  return (double *)(void *)((char *)o + row->member);
}

static const fopo_option *searched(const fopo_baseline_options *options) {
  fopo_baseline_options o = *options;
  for (const fopo_option *row = o.kind->options; row->name != NULL; row++) {
    if ((row->flags & FOPO_OPTION_AUTO) && *member_of(&o, row) <= 0.0) return row;
  }
  return NULL;
}

/* ---- who is held out ---- */

/* Marks the items of Y of the first sessions in `order`, as many whole ones as fit into the items;
 * returns how many sessions these are, n at most. The rest is filled up at random, so that ranking
 * them is about as hard as ranking all. */
static size_t choose_items(job *j, const fopo_sessions *s, const uint32_t *order, size_t n,
                           size_t items) {
  size_t P = s->Y.cols, marked = 0, taken = 0;
  for (; taken < n; taken++) {
    const uint32_t *y = fopo_csr_row(&s->Y, order[taken]);
    size_t fresh = 0, count = fopo_csr_count(&s->Y, order[taken]);
    for (size_t i = 0; i < count; i++) fresh += !j->wanted[y[i]];
    if (taken > 0 && marked + fresh > items) break;
    for (size_t i = 0; i < count; i++) j->wanted[y[i]] = 1;
    marked += fresh;
  }
  double share = marked < items ? (double)(items - marked) / (double)P : 0.0;
  for (uint32_t a = 0; a < P; a++) {
    double u = fopo_unit(fopo_random(j->o.seed, FOPO_STREAM_HELD, 1, a, 0).v[0]);
    j->wanted[a] |= u < share;
  }
  return taken;
}

/* The sessions first .. first + n - 1 of the order, in the order of the data. */
static int take(fopo_sessions *some, const fopo_sessions *s, uint32_t *order, size_t first,
                size_t n) {
  fopo_sort_u32(order + first, n);
  return fopo_sessions_take(some, s, order + first, n);
}

/* A tenth, but not so few that chance decides, and no more than are needed. */
static size_t how_many(size_t N) {
  size_t tenth = N / 10, quarter = (N + 3) / 4;
  size_t few = LEAST_HELD < quarter ? LEAST_HELD : quarter;
  return tenth < few ? few : tenth > MOST_HELD ? MOST_HELD : tenth;
}

static int divide(job *j, const fopo_sessions *s, uint32_t *order) {
  size_t N = s->X.rows, P = s->X.cols, users = N, items = P, held = how_many(N);
  if (j->o.kind->enough != NULL) j->o.kind->enough(&users, &items);
  fopo_shuffle(order, (uint32_t)N, j->o.seed, FOPO_STREAM_HELD, 0);
  if (items < P) {
    j->o.wanted = j->wanted = fopo_alloc(P, sizeof *j->wanted);
    if (j->wanted == NULL) return FOPO_ERR_MEMORY;
    held = choose_items(j, s, order, held, items);
  }
  if (users > N - held) users = N - held;
  int status = take(&j->held, s, order, 0, held);
  if (status == FOPO_OK) status = take(&j->rest, s, order, held, users);
  j->search->users = users;
  j->search->held = held;
  j->search->items = items < P ? items : P;
  return status;
}

static int begin(job *j, const fopo_sessions *s) {
  uint32_t *order = fopo_alloc(s->X.rows, sizeof *order);
  int status = order != NULL ? divide(j, s, order) : FOPO_ERR_MEMORY;
  fopo_free(order);
  if (status != FOPO_OK) return status;
  j->k = s->X.cols < K ? s->X.cols : K;
  j->ids = fopo_alloc(j->held.X.rows * j->k, sizeof *j->ids);
  j->scores = fopo_alloc(j->held.X.rows * j->k, sizeof *j->scores);
  j->counts = fopo_alloc(j->held.X.rows, sizeof *j->counts);
  return j->ids && j->scores && j->counts ? FOPO_OK : FOPO_ERR_MEMORY;
}

static void end(job *j) {
  fopo_sessions_done(&j->rest);
  fopo_sessions_done(&j->held);
  fopo_free(j->wanted);
  fopo_free(j->ids);
  fopo_free(j->scores);
  fopo_free(j->counts);
}

/* ---- the search ---- */

static double value_of(const job *j, size_t i) {
  return j->search->option->low * pow(10.0, 0.5 * (double)i);
}

static int judge(double *ndcg, job *j, const fopo_baseline *b) {
  fopo_measures m = {.k = j->k};
  int status = fopo_baseline_best(j->ids, j->scores, j->counts, b, &j->held, j->k, 1, 0);
  if (status == FOPO_OK) status = fopo_measure_lists(&m, 1, j->ids, j->k, &j->held);
  *ndcg = m.ndcg.value;
  return status;
}

/* b [n], with these values; NULL: no solution. One at a time where they are not learnt together, so
 * that one model is in memory. */
static int learn(fopo_baseline **b, job *j, const double *values, size_t n) {
  if (j->o.kind->fit_each != NULL) return fopo_baseline_new_each(b, &j->rest, &j->o, values, n);
  *member_of(&j->o, j->search->option) = values[0];
  int status = fopo_baseline_new(b, &j->rest, &j->o);
  return status == FOPO_ERR_NUMERIC ? FOPO_OK : status;
}

/* Those of the values first .. last that were not tried. One without a solution is worse than any
 * other. */
static int try_values(job *j, size_t first, size_t last) {
  fopo_baseline *b[FOPO_SEARCH_MOST] = {NULL};
  double values[FOPO_SEARCH_MOST];
  size_t n = 0, of[FOPO_SEARCH_MOST];
  for (size_t i = first; i <= last; i++) {
    if (!isnan(j->ndcg[i])) continue;
    of[n] = i;
    values[n++] = value_of(j, i);
  }
  int status = n > 0 ? learn(b, j, values, n) : FOPO_OK;
  for (size_t i = 0; i < n; i++) {
    j->ndcg[of[i]] = -1.0;
    if (status == FOPO_OK && b[i] != NULL) status = judge(&j->ndcg[of[i]], j, b[i]);
    fopo_baseline_free(b[i]);
  }
  return status;
}

/* Climbs from the middle of n values to one that is no worse than both of its neighbours. */
static int climb(job *j, size_t n) {
  fopo_baseline_search *s = j->search;
  size_t best = n / 2;
  int status = FOPO_OK, moved = 1;
  while (status == FOPO_OK && moved) {
    size_t at = best, first = at > 0 ? at - 1 : 0, last = at + 1 < n ? at + 1 : at;
    size_t step = j->o.kind->fit_each != NULL ? last - first : 0;
    for (size_t i = first; i <= last && status == FOPO_OK; i += step + 1) {
      status = try_values(j, i, i + step);
    }
    for (size_t i = first; i <= last; i++) {
      if (j->ndcg[i] > j->ndcg[best]) best = i;
    }
    moved = best != at;
  }
  s->best = value_of(j, best);
  for (size_t i = 0; i < n; i++) {
    if (isnan(j->ndcg[i])) continue;
    s->value[s->n] = value_of(j, i);
    s->ndcg[s->n++] = j->ndcg[i];
  }
  return status;
}

static int choose(job *j, const fopo_sessions *sessions) {
  const fopo_option *row = j->search->option;
  size_t n = (size_t)(2.0 * log10(row->high / row->low) + 1.5);
  if (n > FOPO_SEARCH_MOST) n = FOPO_SEARCH_MOST;
  j->search->best = value_of(j, n / 2);
  if (sessions->X.rows < 2) return FOPO_OK; /* fopo_baseline_new says what is wrong with none */
  for (size_t i = 0; i < n; i++) j->ndcg[i] = (double)NAN;
  int status = begin(j, sessions);
  return status == FOPO_OK ? climb(j, n) : status;
}

/* What would be refused after the search is refused before it. */
static int fits(const fopo_sessions *sessions, const fopo_baseline_options *o) {
  fopo_csr M = {0};
  if (o->kind->fits == NULL) return FOPO_OK;
  int status = fopo_interactions(&M, sessions);
  if (status == FOPO_OK) status = o->kind->fits(&M, o);
  fopo_csr_done(&M);
  return status;
}

int fopo_baseline_learn(fopo_baseline **b, fopo_baseline_search *search,
                        const fopo_sessions *sessions, const fopo_baseline_options *options) {
  double start = fopo_clock();
  fopo_baseline_options o = *options;
  *b = NULL;
  *search = (fopo_baseline_search){.option = searched(options)};
  if (search->option != NULL) {
    job j = {.search = search, .o = *options};
    if (sessions->all > 0) {
      return fopo_fail(FOPO_ERR_UNAVAILABLE,
                       "%s = \"auto\" holds out users, and of sessions that are shared out no rank "
                       "has all; give a number, as one that s:gather(4096) leads to",
                       search->option->name);
    }
    j.o.value = NULL; /* NDCG counts hits */
    int status = fits(sessions, &j.o);
    if (status == FOPO_OK) status = choose(&j, sessions);
    end(&j);
    if (status != FOPO_OK) return status;
    *member_of(&o, search->option) = search->best;
  }
  search->seconds = fopo_clock() - start;
  return fopo_baseline_new(b, sessions, &o);
}
