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
enum { OWN = 17 + FOPO_FIXED + FOPO_CANDIDATE_CACHE_ARRAYS };

/* Copies for the file; owned. */
typedef struct {
  fopo_matrix m, v;              /* of theta's shape */
  fopo_optim_items items;        /* {0} if items are fixed */
  char names[FOPO_RECORD_NAMES]; /* of the record's numbers */
} moments;

static int moments_init(moments *x, const fopo_policy *pi) {
  size_t P = pi->items.rows, L = pi->items.cols;
  *x = (moments){0};
  fopo_checkpoint_record_names(x->names);
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
static size_t describe(fopo_array *a, fopo_trainer *t, const fopo_fixed *f,
                       uint64_t shape[FOPO_SHAPE], const moments *x) {
  const fopo_policy *pi = t->o.policy;
  const fopo_optim *o = t->o.optim;
  size_t n = 0, rows = pi->theta.rows, cols = pi->theta.cols;
  a[n++] = fopo_array_text("format", fopo_checkpoint_format);
  a[n++] = fopo_array_of("theta", FOPO_F32, pi->theta.x, 2, rows, cols);
  if (pi->net.layers > 0) {
    a[n++] =
        fopo_array_of("network", FOPO_U64, shape, 1, fopo_checkpoint_shape(shape, &pi->net), 1);
  }
  a[n++] = fopo_array_text("rows", fopo_float_names[pi->rows.type]);
  a[n++] = fopo_array_of("temperature", FOPO_F32, &pi->temperature, 0, 1, 1);
  a[n++] = fopo_array_of("step", FOPO_U64, &t->step, 0, 1, 1);
  a[n++] = fopo_array_text("gradient", fopo_gradient_get(t->o.gradient)->estimator->name);
  a[n++] = fopo_array_text("optim", fopo_checkpoint_optims[o->options.kind]);
  a[n++] = fopo_array_of("optim_t", FOPO_U64, &o->t, 0, 1, 1);
  a[n++] = fopo_array_of("optim_m", FOPO_F32, x->m.x, 2, rows, cols);
  if (o->options.kind == FOPO_OPTIM_ADAM) {
    a[n++] = fopo_array_of("optim_v", FOPO_F32, x->v.x, 2, rows, cols);
  }
  n += describe_items(a + n, t, &x->items);
  a[n++] = fopo_array_text("record_names", x->names);
  a[n++] = fopo_array_of("record", FOPO_F64, &t->record, 1, FOPO_RECORD, 1);
  for (int i = 0; i < FOPO_FIXED; i++) {
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
  fopo_fixed f = fopo_checkpoint_fixed(t);
  uint64_t shape[FOPO_SHAPE];
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
