/* Saving a checkpoint, which holds all that the next step depends on: what a run changes (theta,
 * the optimiser's state, the step, the candidate cache), and what must be equal in the trainer that
 * resumes (checkpoint.c). A step is a function of these alone, so a resumed run equals the
 * uninterrupted one bit by bit. */
#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/npz.h"
#include "core/status.h"
#include "train/checkpoint.h"

/* The most arrays of the trainer itself. */
enum { OWN = 22 + FOPO_FIXED + FOPO_UNFINISHED_ARRAYS + FOPO_CANDIDATE_CACHE_ARRAYS };

/* Copies for the file; owned. */
typedef struct {
  fopo_moments of[FOPO_BLOCKS];  /* on the host; zeros: the block is fixed */
  char names[FOPO_RECORD_NAMES]; /* of the record's numbers */
  char learn[FOPO_POLICY_NAMES]; /* what is learnt; empty: all of theta */
  double sigma[2];               /* of slates, and the sum of squares, if it is learnt */
  fopo_unfinished_room run;      /* numbers of the run that is not at its end */
} moments;

static int make_moments(fopo_moments *x, fopo_block_shape shape, const fopo_optimiser *kind) {
  size_t n = shape.rows * shape.cols, kept = (size_t)(kind->has_m + kind->has_v);
  int status = FOPO_OK, counts = shape.by_rows && kind->has_updates;
  if (shape.by_rows) {
    uint64_t numbers = (uint64_t)kept * n + (counts ? shape.rows : 0);
    status = fopo_memory_suffices(numbers * sizeof(float), "the checkpoint",
                                  "close other programs, or learn fewer blocks");
  }
  if (status != FOPO_OK) return status;
  *x = (fopo_moments){.rows = shape.rows, .cols = shape.cols};
  if (kind->has_m) x->m = fopo_alloc(n, sizeof *x->m);
  if (kind->has_v) x->v = fopo_alloc(n, sizeof *x->v);
  if (counts) x->updates = fopo_alloc(shape.rows, sizeof *x->updates);
  int whole = (x->m || !kind->has_m) && (x->v || !kind->has_v) && (x->updates || !counts);
  return whole ? FOPO_OK : FOPO_ERR_MEMORY;
}

/* The optimiser's state of all blocks that learn. */
static int moments_init(moments *x, const fopo_trainer *t) {
  int status = FOPO_OK;
  *x = (moments){0};
  fopo_checkpoint_record_names(x->names);
  fopo_checkpoint_learn(x->learn, t->o.policy);
  const fopo_gradient_options *g = fopo_gradient_get(t->o.gradient);
  x->sigma[0] = g->sigma, x->sigma[1] = g->sigma_squares;
  for (int i = 0; i < FOPO_BLOCKS && status == FOPO_OK; i++) {
    fopo_block_shape shape = fopo_policy_shape(t->o.policy, (fopo_block)i);
    if (shape.rows == 0) continue;
    status = make_moments(&x->of[i], shape, t->o.optim->options.kind);
    if (status == FOPO_OK) status = fopo_optim_read(&x->of[i], t->o.optim, (fopo_block)i);
  }
  return status;
}

static void moments_done(moments *x) {
  for (int i = 0; i < FOPO_BLOCKS; i++) {
    fopo_free(x->of[i].m);
    fopo_free(x->of[i].v);
    fopo_free(x->of[i].updates);
  }
}

/* A block that learns, and its optimiser's state; of a theta that is fixed its values alone.
 * Returns how many arrays. */
static size_t describe_block(fopo_array *a, const fopo_trainer *t, fopo_block block,
                             const fopo_moments *x) {
  const fopo_block_members *name = &fopo_checkpoint_blocks[block];
  size_t n = 0;
  if (x->rows == 0 && block != FOPO_BLOCK_THETA) return 0;
  fopo_matrix values = fopo_policy_values(t->o.policy, block);
  a[n++] = fopo_array_of(name->values, FOPO_F32, values.x, 2, values.rows, values.cols);
  if (x->rows == 0) return n;
  const fopo_optimiser *kind = t->o.optim->options.kind;
  if (kind->has_m) a[n++] = fopo_array_of(name->m, FOPO_F32, x->m, 2, x->rows, x->cols);
  if (kind->has_v) a[n++] = fopo_array_of(name->v, FOPO_F32, x->v, 2, x->rows, x->cols);
  if (x->updates != NULL) {
    a[n++] = fopo_array_of(name->updates, FOPO_U32, x->updates, 1, x->rows, 1);
  }
  return n;
}

/* Describes the state in arrays [OWN + n_more]. */
static size_t describe(fopo_array *a, fopo_trainer *t, const fopo_fixed *f,
                       uint64_t shape[FOPO_POLICY_SHAPE], moments *x) {
  const fopo_policy *pi = t->o.policy;
  const fopo_optim *o = t->o.optim;
  size_t n = 0;
  a[n++] = fopo_array_text("format", fopo_checkpoint_format);
  if (pi->kind->shape != NULL) {
    a[n++] = fopo_array_of("network", FOPO_U64, shape, 1, pi->kind->shape(shape, pi), 1);
  } else if (!pi->kind->is_product) {
    a[n++] = fopo_array_text("policy", pi->kind->name);
  }
  a[n++] = fopo_array_text("rows", fopo_float_names[pi->rows.type]);
  a[n++] = fopo_array_of("temperature", FOPO_F32, &pi->temperature, 0, 1, 1);
  a[n++] = fopo_array_of("step", FOPO_U64, &t->step, 0, 1, 1);
  a[n++] = fopo_array_text("gradient", fopo_gradient_get(t->o.gradient)->estimator->name);
  const fopo_gradient_options *g = fopo_gradient_get(t->o.gradient);
  if (g->sigma_lr > 0.0) a[n++] = fopo_array_of(fopo_checkpoint_sigma, FOPO_F64, x->sigma, 1, 2, 1);
  if (fopo_checkpoint_own_draws(t)) a[n++] = fopo_array_text("proposal", "custom");
  a[n++] = fopo_array_text("optim", o->options.kind->name);
  a[n++] = fopo_array_of("optim_t", FOPO_U64, &o->t, 0, 1, 1);
  for (int i = 0; i < FOPO_BLOCKS; i++) n += describe_block(a + n, t, (fopo_block)i, &x->of[i]);
  if (t->ordering > 0) {
    fopo_matrix items = pi->items;
    a[n++] =
        fopo_array_of(fopo_checkpoint_ordered, FOPO_F32, t->ordered, 2, items.rows, items.cols);
  }
  if (x->learn[0] != '\0') a[n++] = fopo_array_text("learn", x->learn);
  if (t->resplit.from.sessions != NULL) a[n++] = fopo_array_text("resplit", "epoch");
  a[n++] = fopo_array_text("record_names", x->names);
  a[n++] = fopo_array_of("record", FOPO_F64, &t->record, 1, FOPO_RECORD, 1);
  for (int i = 0; i < FOPO_FIXED; i++) {
    a[n++] = fopo_array_of(f->name[i], FOPO_U64, &f->value[i], 0, 1, 1);
  }
  n += fopo_unfinished_describe(a + n, &t->unfinished, pi, &x->run);
  return n + fopo_candidate_cache_describe(a + n, &t->cache);
}

/* Copies the blocks that learn to the host as they are after the last whole step, also in the
 * middle of a slice that waits for rewards. */
static int fresh_parameters(fopo_trainer *t) {
  int status = t->running ? fopo_trainer_fetch(t) : FOPO_OK;
  for (int i = 0; i < FOPO_BLOCKS && status == FOPO_OK; i++) {
    if (!t->o.policy->learns[i]) continue;
    status =
        fopo_matrix_finite(fopo_policy_values(t->o.policy, (fopo_block)i), fopo_block_names[i]);
  }
  return status;
}

static int save(fopo_trainer *t, const char *path, const fopo_array *more, size_t n_more) {
  moments x;
  fopo_fixed f = fopo_checkpoint_fixed(t);
  uint64_t shape[FOPO_POLICY_SHAPE];
  fopo_array *arrays = fopo_alloc(OWN + n_more, sizeof *arrays);
  int status = moments_init(&x, t);
  if (status == FOPO_OK && arrays == NULL) status = FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fresh_parameters(t);
  if (status == FOPO_OK) status = fopo_candidate_cache_fetch(&t->cache);
  if (status == FOPO_OK) {
    size_t n = describe(arrays, t, &f, shape, &x);
    if (n_more > 0) memcpy(arrays + n, more, n_more * sizeof *more);
    status = fopo_npz_save(path, arrays, n + n_more, 0);
  }
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
