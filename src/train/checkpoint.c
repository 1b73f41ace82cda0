/* The trainer's files. A checkpoint holds all that the next step depends on: what a run changes
 * (theta, the optimiser's state, the step, the candidate cache), and what must be equal in the
 * trainer that resumes (shapes, kinds, data). A step is a function of these alone, so a resumed run
 * equals the uninterrupted one bit by bit.
 *
 * Resuming checks everything before it changes anything. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/status.h"
#include "train/trainer_internal.h"

static const char format[] = "fopo trainer 1";

static const char *const optim_names[] = {"adam", "sgd"};

/* -- what must not change --------------------------------------------------------------------- */

static uLong add_rows(uLong crc, fopo_matrix m) {
  for (size_t i = 0; i < m.rows; i++) {
    crc = crc32_z(crc, (const Bytef *)fopo_matrix_row(m, i), m.cols * sizeof *m.x);
  }
  return crc;
}

/* Items that are dealt out, by their shape: the same for any number of ranks. Contexts made of them
 * are sums in another order for each. */
static uLong add_dealt(uLong crc, const fopo_shard *s) {
  uint64_t shape[2] = {s->part.P, s->items.cols};
  return crc32_z(crc, (const Bytef *)shape, sizeof shape);
}

/* The same of sessions that are shared out, of which each rank has a part. */
static uLong add_shared(uLong crc, const fopo_shared *s) {
  uint64_t shape[4] = {s->N, s->x.cols, s->Y.cols, s->most};
  return crc32_z(crc, (const Bytef *)shape, sizeof shape);
}

static uLong add_reward(uLong crc, const fopo_reward *r, size_t P) {
  const fopo_csr *Y = r->shared == NULL ? r->Y : NULL;
  size_t N = r->contexts;
  if (Y != NULL) {
    crc = crc32_z(crc, (const Bytef *)Y->indptr, (Y->rows + 1) * sizeof *Y->indptr);
    crc = crc32_z(crc, (const Bytef *)Y->ids, fopo_csr_nnz(Y) * sizeof *Y->ids);
  }
  if (r->credit.action != NULL) {
    crc = crc32_z(crc, (const Bytef *)r->credit.action, N * sizeof *r->credit.action);
    crc = crc32_z(crc, (const Bytef *)r->credit.weight, N * sizeof *r->credit.weight);
    crc = crc32_z(crc, (const Bytef *)r->credit.gain, N * sizeof *r->credit.gain);
  }
  if (r->model.users != NULL) {
    crc = crc32_z(crc, (const Bytef *)r->model.users, N * r->model.rank * sizeof(float));
    crc = crc32_z(crc, (const Bytef *)r->model.items, P * r->model.rank * sizeof(float));
  }
  return crc;
}

/* Computed once: the data does not change while a trainer holds it. */
static uint32_t fingerprint(fopo_trainer *t) {
  if (t->fingerprinted) return t->fingerprint;
  uLong crc = crc32_z(0, NULL, 0);
  if (t->o.policy->shard != NULL) {
    crc = add_dealt(crc, t->o.policy->shard);
  } else {
    if (!t->o.policy->train_items) crc = add_rows(crc, t->o.policy->items);
    if (t->o.reward->shared == NULL) crc = add_rows(crc, t->o.contexts);
  }
  if (t->o.reward->shared != NULL) crc = add_shared(crc, t->o.reward->shared);
  crc = add_reward(crc, t->o.reward, t->o.policy->items.rows);
  t->fingerprint = (uint32_t)crc;
  t->fingerprinted = 1;
  return t->fingerprint;
}

enum { FIXED = 6 };

/* The numbers that must be the same, with the names of their members. */
typedef struct {
  const char *name[FIXED];
  uint64_t value[FIXED];
} fixed;

static fixed fixed_of(fopo_trainer *t) {
  return (fixed){
      .name = {"items", "contexts", "batch", "seed", "reward", "data"},
      .value = {fopo_policy_n_items(t->o.policy), t->o.contexts.rows, t->o.batch, t->o.seed,
                fopo_reward_number(t->o.reward->kind), fingerprint(t)},
  };
}

/* -- saving ----------------------------------------------------------------------------------- */

enum { OWN = 17 + FIXED + FOPO_CANDIDATE_CACHE_ARRAYS }; /* the most arrays of the trainer itself */

/* The shape of a network as numbers: its widths, then the activation. Returns how many. */
enum { SHAPE = FOPO_LAYERS + 2 };
static size_t shape_of(uint64_t shape[SHAPE], const fopo_network *net) {
  for (size_t i = 0; i <= net->layers; i++) shape[i] = net->width[i];
  shape[net->layers + 1] = (uint64_t)net->activation;
  return net->layers + 2;
}

/* The record in hand is saved as RECORD doubles, and their names, so that a program whose
 * statistics are others knows it: "reward ess .. seconds search .. update". */
enum { RECORD = sizeof(fopo_stretch) / sizeof(double), NAMES = 512 };

static void add_name(char names[NAMES], const char *name) {
  size_t n = strlen(names);
  snprintf(names + n, NAMES - n, "%s%s", n > 0 ? " " : "", name);
}

static void names_of_record(char names[NAMES]) {
  _Static_assert(RECORD == FOPO_STATISTIC_ROWS + 1 + FOPO_PHASES, "a stretch is doubles alone");
  names[0] = '\0';
  for (int i = 0; i < FOPO_STATISTIC_ROWS; i++) add_name(names, fopo_statistic_rows[i].name);
  add_name(names, "seconds");
  for (int i = 0; i < FOPO_PHASES; i++) add_name(names, fopo_phase_rows[i].name);
}

/* Copies for the file; owned. */
typedef struct {
  fopo_matrix m, v;       /* of theta's shape */
  fopo_optim_items items; /* {0} if items are fixed */
  char names[NAMES];      /* of the record's numbers */
} moments;

static int moments_init(moments *x, const fopo_policy *pi) {
  size_t P = pi->items.rows, L = pi->items.cols;
  *x = (moments){0};
  names_of_record(x->names);
  int status = fopo_matrix_init(&x->m, pi->theta.rows, pi->theta.cols);
  if (status == FOPO_OK) status = fopo_matrix_init(&x->v, pi->theta.rows, pi->theta.cols);
  if (status != FOPO_OK || !pi->train_items) return status;
  status = fopo_memory_suffices((uint64_t)P * (2 * L + 1) * sizeof(float), "the checkpoint",
                                "close other programs, or train_items = false");
  if (status != FOPO_OK) return status;
  x->items = (fopo_optim_items){.m = fopo_alloc(P * L, sizeof(float)),
                                .v = fopo_alloc(P * L, sizeof(float)),
                                .t = fopo_alloc(P, sizeof(uint32_t)),
                                .P = P,
                                .L = L};
  return x->items.m && x->items.v && x->items.t ? FOPO_OK : FOPO_ERR_MEMORY;
}

static void moments_done(moments *x) {
  fopo_matrix_done(&x->m);
  fopo_matrix_done(&x->v);
  fopo_free(x->items.m);
  fopo_free(x->items.v);
  fopo_free(x->items.t);
}

/* Items that are learnt, and their optimiser's state. Returns how many arrays. */
static size_t describe_items(fopo_array *a, const fopo_trainer *t, const fopo_optim_items *items) {
  size_t n = 0, P = items->P, L = items->L;
  if (!t->o.policy->train_items) return 0;
  a[n++] = fopo_array_of("item_values", FOPO_F32, t->o.policy->items.x, 2, P, L);
  a[n++] = fopo_array_of("items_m", FOPO_F32, items->m, 2, P, L);
  if (t->o.optim->options.kind == FOPO_OPTIM_ADAM) {
    a[n++] = fopo_array_of("items_v", FOPO_F32, items->v, 2, P, L);
  }
  a[n++] = fopo_array_of("items_t", FOPO_U32, items->t, 1, P, 1);
  return n;
}

/* Describes the state in arrays [OWN + n_more]. */
static size_t describe(fopo_array *a, fopo_trainer *t, const fixed *f, uint64_t shape[SHAPE],
                       const moments *x) {
  const fopo_policy *pi = t->o.policy;
  const fopo_optim *o = t->o.optim;
  size_t n = 0, rows = pi->theta.rows, cols = pi->theta.cols;
  a[n++] = fopo_array_text("format", format);
  a[n++] = fopo_array_of("theta", FOPO_F32, pi->theta.x, 2, rows, cols);
  if (pi->net.layers > 0) {
    a[n++] = fopo_array_of("network", FOPO_U64, shape, 1, shape_of(shape, &pi->net), 1);
  }
  a[n++] = fopo_array_text("rows", fopo_float_names[pi->rows.type]);
  a[n++] = fopo_array_of("temperature", FOPO_F32, &pi->temperature, 0, 1, 1);
  a[n++] = fopo_array_of("step", FOPO_U64, &t->step, 0, 1, 1);
  a[n++] = fopo_array_text("gradient", fopo_gradient_get(t->o.gradient)->estimator->name);
  a[n++] = fopo_array_text("optim", optim_names[o->options.kind]);
  a[n++] = fopo_array_of("optim_t", FOPO_U64, &o->t, 0, 1, 1);
  a[n++] = fopo_array_of("optim_m", FOPO_F32, x->m.x, 2, rows, cols);
  if (o->options.kind == FOPO_OPTIM_ADAM) {
    a[n++] = fopo_array_of("optim_v", FOPO_F32, x->v.x, 2, rows, cols);
  }
  n += describe_items(a + n, t, &x->items);
  a[n++] = fopo_array_text("record_names", x->names);
  a[n++] = fopo_array_of("record", FOPO_F64, &t->record, 1, RECORD, 1);
  for (int i = 0; i < FIXED; i++) {
    a[n++] = fopo_array_of(f->name[i], FOPO_U64, &f->value[i], 0, 1, 1);
  }
  return n + fopo_candidate_cache_describe(a + n, &t->cache);
}

/* Copies theta and items to the host as they are after the last whole step, also in the middle of a
 * slice that waits for rewards. */
static int fresh_parameters(fopo_trainer *t) {
  const fopo_policy *pi = t->o.policy;
  int status = t->running ? fopo_trainer_fetch(t) : FOPO_OK;
  if (status == FOPO_OK) status = fopo_matrix_finite(pi->theta, "theta");
  return status == FOPO_OK && pi->train_items ? fopo_matrix_finite(pi->items, "items") : status;
}

static int save(fopo_trainer *t, const char *path, const fopo_array *more, size_t n_more) {
  moments x;
  fixed f = fixed_of(t);
  uint64_t shape[SHAPE];
  fopo_array *arrays = fopo_alloc(OWN + n_more, sizeof *arrays);
  int status = moments_init(&x, t->o.policy);
  if (status == FOPO_OK && arrays == NULL) status = FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fresh_parameters(t);
  if (status == FOPO_OK) status = fopo_candidate_cache_fetch(&t->cache);
  if (status == FOPO_OK) status = fopo_optim_read(x.m.x, x.v.x, t->o.optim);
  if (status == FOPO_OK && t->o.policy->train_items) {
    status = fopo_optim_read_items(&x.items, t->o.optim);
  }
  if (status == FOPO_OK) {
    size_t n = describe(arrays, t, &f, shape, &x);
    if (n_more > 0) memcpy(arrays + n, more, n_more * sizeof *more);
    status = fopo_npz_save(path, arrays, n + n_more, 0);
  }
  if (status == FOPO_OK) status = fopo_trainer_refresh(t);
  moments_done(&x);
  fopo_free(arrays);
  return status;
}

int fopo_trainer_save(fopo_trainer *t, const char *path, const fopo_array *more, size_t n_more) {
  /* All ranks hold the same state; the first one writes it. */
  int status = fopo_comm_own_rank() == 0 ? save(t, path, more, n_more) : FOPO_OK;
  int mine = status, sent = fopo_comm_broadcast(&status, sizeof status, 0);
  if (mine != FOPO_OK || status == FOPO_OK) return mine != FOPO_OK ? mine : sent;
  return fopo_fail(status, "the first rank could not write %s; it says why", path);
}

/* -- resuming --------------------------------------------------------------------------------- */

/* The checked contents of a file; the pointers are into the archive. */
typedef struct {
  const float *theta, *m, *v; /* of theta's shape */
  const float *item_values;   /* [P, L]; NULL: items are fixed */
  fopo_optim_items items;
  uint64_t step, t;
  fopo_stretch record; /* {0} if the file has none, or one of other statistics */
} state;

static int is_text(const fopo_array *a, const char *text) {
  size_t n = strnlen(a->data, a->itemsize);
  return n == strlen(text) && memcmp(a->data, text, n) == 0;
}

static int need_text(fopo_archive *archive, const char *path, const char *name, const char *wanted,
                     const char *remedy) {
  const fopo_array *a = fopo_archive_need(archive, path, name, FOPO_BYTES, 0);
  if (a == NULL) return FOPO_ERR_FORMAT;
  if (is_text(a, wanted)) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT, "%s: its %s is \"%.*s\", here it is \"%s\"; %s", path, name,
                   (int)(a->itemsize < 40 ? a->itemsize : 40), (const char *)a->data, wanted,
                   remedy);
}

static int need_count(uint64_t *value, fopo_archive *archive, const char *path, const char *name) {
  const fopo_array *a = fopo_archive_need(archive, path, name, FOPO_U64, 0);
  if (a == NULL) return FOPO_ERR_FORMAT;
  memcpy(value, a->data, sizeof *value);
  return FOPO_OK;
}

/* A count of steps, which Lua and doubles hold exactly. */
static int need_steps(uint64_t *value, fopo_archive *archive, const char *path, const char *name) {
  int status = need_count(value, archive, path, name);
  if (status != FOPO_OK || *value <= (uint64_t)1 << 53) return status;
  return fopo_fail(FOPO_ERR_FORMAT, "%s: its %s is %llu, more steps than any run has made (2^53)",
                   path, name, (unsigned long long)*value);
}

static int need_matrix(const float **x, fopo_archive *archive, const char *path, const char *name,
                       size_t rows, size_t cols) {
  const fopo_array *a = fopo_archive_need(archive, path, name, FOPO_F32, 2);
  if (a == NULL) return FOPO_ERR_FORMAT;
  if (a->shape[0] != rows || a->shape[1] != cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%s: %s is %zu x %zu but this policy needs %zu x %zu", path,
                     name, a->shape[0], a->shape[1], rows, cols);
  }
  for (size_t i = 0; i < rows * cols; i++) {
    float value;
    memcpy(&value, (const char *)a->data + i * sizeof value, sizeof value);
    if (!isfinite(value)) {
      return fopo_fail(FOPO_ERR_NUMERIC, "%s: row %zu, column %zu of %s is %g", path, i / cols + 1,
                       i % cols + 1, name, (double)value);
    }
  }
  *x = a->data;
  return FOPO_OK;
}

static int check_fixed(fopo_archive *archive, const char *path, const fixed *f) {
  for (int i = 0; i < FIXED; i++) {
    uint64_t value = 0;
    int status = need_count(&value, archive, path, f->name[i]);
    if (status != FOPO_OK) return status;
    if (value != f->value[i]) {
      return fopo_fail(FOPO_ERR_ARGUMENT,
                       "%s: its %s is %llu, here it is %llu; resume with the same data, batch, "
                       "seed and reward",
                       path, f->name[i], (unsigned long long)value,
                       (unsigned long long)f->value[i]);
    }
  }
  return FOPO_OK;
}

/* A network of the same shape, or none on both sides. */
static int check_network(fopo_archive *archive, const char *path, const fopo_network *net) {
  uint64_t shape[SHAPE];
  size_t n = net->layers > 0 ? shape_of(shape, net) : 0;
  if (n == 0 && fopo_archive_find(archive, "network") == NULL) return FOPO_OK;
  if (n == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%s: its policy is a network, here it is linear; use the "
                     "same policy",
                     path);
  }
  const fopo_array *a = fopo_archive_need(archive, path, "network", FOPO_U64, 1);
  if (a == NULL) return FOPO_ERR_FORMAT;
  if (a->shape[0] == n && memcmp(a->data, shape, n * sizeof *shape) == 0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "%s: its network has other layers or another activation than "
                   "this one; use the same policy",
                   path);
}

/* One that was chosen for items that are dealt out is rounded in another way for each number of
 * ranks. */
static int check_temperature(fopo_archive *archive, const char *path, const fopo_policy *pi) {
  float temperature = pi->temperature, slack = pi->shard != NULL ? 1e-5f * temperature : 0.0f;
  const fopo_array *a = fopo_archive_need(archive, path, "temperature", FOPO_F32, 0);
  float value = 0.0f;
  if (a == NULL) return FOPO_ERR_FORMAT;
  memcpy(&value, a->data, sizeof value);
  if (fabsf(value - temperature) <= slack) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT, "%s: its temperature is %g, here it is %g; use the same",
                   path, (double)value, (double)temperature);
}

/* The optimiser's second moments are means of squares. */
static int check_squares(const float *v, size_t n, const char *path) {
  for (size_t i = 0; i < n; i++) {
    if (v[i] < 0.0f) {
      return fopo_fail(FOPO_ERR_FORMAT, "%s: optim_v has %g, which no square can be", path,
                       (double)v[i]);
    }
  }
  return FOPO_OK;
}

/* Items that are learnt, on both sides or on none. */
static int need_items(state *s, fopo_archive *archive, const char *path, const fopo_policy *pi,
                      fopo_optim_kind optim) {
  size_t P = pi->items.rows, L = pi->items.cols;
  const float *m = NULL, *v = NULL;
  int theirs = fopo_archive_find(archive, "item_values") != NULL;
  if (theirs != pi->train_items) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%s: its items are %s, here they are %s; use the same "
                     "train_items",
                     path, theirs ? "trained" : "fixed", theirs ? "fixed" : "trained");
  }
  if (!theirs) return FOPO_OK;
  int status = need_matrix(&s->item_values, archive, path, "item_values", P, L);
  if (status == FOPO_OK) status = need_matrix(&m, archive, path, "items_m", P, L);
  if (status == FOPO_OK && optim == FOPO_OPTIM_ADAM) {
    status = need_matrix(&v, archive, path, "items_v", P, L);
    if (status == FOPO_OK) status = check_squares(v, P * L, path);
  }
  if (status != FOPO_OK) return status;
  fopo_array *t = fopo_archive_need(archive, path, "items_t", FOPO_U32, 1);
  if (t == NULL) return FOPO_ERR_FORMAT;
  if (t->shape[0] != P) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: items_t has %zu numbers for %zu items", path,
                     t->shape[0], P);
  }
  s->items = (fopo_optim_items){.t = t->data, .P = P, .L = L};
  memcpy(&s->items.m, &m, sizeof m); /* read only: the type has no const */
  memcpy(&s->items.v, &v, sizeof v);
  return FOPO_OK;
}

/* The record that was in hand when the file was written. */
static int need_record(fopo_stretch *record, fopo_archive *archive, const char *path) {
  char names[NAMES];
  double x[RECORD];
  names_of_record(names);
  if (fopo_archive_find(archive, "record_names") == NULL &&
      fopo_archive_find(archive, "record") == NULL) {
    return FOPO_OK; /* a file of an earlier version */
  }
  const fopo_array *a = fopo_archive_need(archive, path, "record_names", FOPO_BYTES, 0);
  if (a == NULL) return FOPO_ERR_FORMAT;
  int same = is_text(a, names);
  a = fopo_archive_need(archive, path, "record", FOPO_F64, 1);
  if (a == NULL) return FOPO_ERR_FORMAT;
  if (!same) return FOPO_OK;
  if (a->shape[0] != RECORD) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: its record has %zu numbers, not %d", path, a->shape[0],
                     RECORD);
  }
  memcpy(x, a->data, sizeof x);
  for (int i = 0; i < RECORD; i++) {
    if (isfinite(x[i]) && (x[i] >= 0.0 || i == FOPO_STAT_REWARD)) continue;
    return fopo_fail(FOPO_ERR_FORMAT, "%s: number %d of its record is %g", path, i + 1, x[i]);
  }
  memcpy(record, x, sizeof x);
  return FOPO_OK;
}

static int understand(state *s, fopo_archive *archive, const char *path, fopo_trainer *t) {
  fopo_optim_kind optim = t->o.optim->options.kind;
  size_t rows = t->o.policy->theta.rows, cols = t->o.policy->theta.cols;
  fixed f = fixed_of(t);
  int status = fopo_archive_check(archive, path, "checkpoint");
  if (status != FOPO_OK) return status;
  status = need_text(archive, path, "format", format, "it is no checkpoint of this program");
  if (status == FOPO_OK) {
    status = need_text(archive, path, "optim", optim_names[optim], "use the same optimiser");
  }
  if (status == FOPO_OK) {
    status = need_text(archive, path, "gradient", fopo_gradient_get(t->o.gradient)->estimator->name,
                       "use the same estimator");
  }
  if (status == FOPO_OK) status = check_network(archive, path, &t->o.policy->net);
  if (status == FOPO_OK) {
    status = need_text(archive, path, "rows", fopo_float_names[t->o.policy->rows.type],
                       "use a policy of the same rows");
  }
  if (status == FOPO_OK) status = need_matrix(&s->theta, archive, path, "theta", rows, cols);
  if (status == FOPO_OK) status = need_items(s, archive, path, t->o.policy, optim);
  if (status == FOPO_OK) status = check_fixed(archive, path, &f);
  if (status == FOPO_OK) status = check_temperature(archive, path, t->o.policy);
  if (status == FOPO_OK) status = need_steps(&s->step, archive, path, "step");
  if (status == FOPO_OK) status = need_steps(&s->t, archive, path, "optim_t");
  if (status == FOPO_OK) status = need_record(&s->record, archive, path);
  if (status == FOPO_OK) status = need_matrix(&s->m, archive, path, "optim_m", rows, cols);
  if (status == FOPO_OK && optim == FOPO_OPTIM_ADAM) {
    status = need_matrix(&s->v, archive, path, "optim_v", rows, cols);
    if (status == FOPO_OK) status = check_squares(s->v, t->n_theta, path);
  }
  const fopo_proposal *q = fopo_gradient_proposal(t->o.gradient);
  if (status == FOPO_OK && q != NULL) {
    status = fopo_candidate_cache_check(&t->cache, t->o.device, archive, path, q,
                                        t->o.contexts.rows, fopo_policy_n_items(t->o.policy));
  }
  return status;
}

static void set_items(fopo_policy *pi, const float *values) {
  memcpy(pi->items.x, values, pi->items.rows * pi->items.cols * sizeof *values);
  pi->version++;
}

/* Takes over the candidate cache; attaching it once makes the gradient show its epsilon. */
static int restore_cache(fopo_trainer *t, const fopo_archive *file) {
  const fopo_proposal *q = fopo_gradient_proposal(t->o.gradient);
  if (q == NULL) return FOPO_OK;
  int status = fopo_candidate_cache_restore(&t->cache, file, q);
  fopo_gradient_attach_cache(t->o.gradient, &t->cache); /* cannot fail: it is reserved */
  fopo_gradient_attach_cache(t->o.gradient, NULL);
  return status;
}

int fopo_trainer_resume(fopo_trainer *t, const char *path, fopo_archive *archive) {
  fopo_archive file = {0};
  state s = {0};
  if (t->waiting) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the trainer waits for rewards; it can resume from a file after that step");
  }
  int status = fopo_npz_load(&file, path);
  if (status == FOPO_OK) status = understand(&s, &file, path, t);
  if (status == FOPO_OK) {
    status = fopo_optim_restore(t->o.optim, t->o.device, s.m, s.v, t->n_theta, s.t,
                                s.item_values != NULL ? &s.items : NULL);
  }
  if (status == FOPO_OK) {
    memcpy(t->o.policy->theta.x, s.theta, t->n_theta * sizeof *s.theta);
    t->step = s.step;
    t->record = s.record;
    if (s.item_values != NULL) set_items(t->o.policy, s.item_values);
    t->items_reach.bound = INFINITY;
    status = restore_cache(t, &file);
  }
  if (status == FOPO_OK) status = fopo_trainer_refresh(t);
  if (status == FOPO_OK && archive != NULL) {
    *archive = file;
  } else {
    fopo_archive_done(&file);
  }
  return status;
}
