/* Resuming from a checkpoint: everything is checked before anything is changed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/npz.h"
#include "core/status.h"
#include "train/checkpoint.h"

/* The checked contents of a file; the pointers are into the archive. */
typedef struct {
  const float *values[FOPO_BLOCKS]; /* NULL: the block is fixed */
  fopo_moments of[FOPO_BLOCKS];     /* the optimiser's state, read only */
  const float *ordered;             /* NULL: nothing is ordered by what is learnt */
  double sigma[2]; /* of slates, and the sum of squares; sigma 0: it is not learnt */
  uint64_t step, t;
  fopo_stretch record; /* {0} if the file has none, or one of other statistics */
  fopo_unfinished run; /* copies; owned until the trainer takes it */
} state;

static int is_text(const fopo_array *a, const char *text) {
  size_t n = strnlen(a->data, a->itemsize);
  return n == strlen(text) && memcmp(a->data, text, n) == 0;
}

static int need_text(fopo_archive *archive, const char *path, const char *name, const char *wanted,
                     const char *remedy) {
  fopo_array *a;
  int status = fopo_archive_need(&a, archive, path, name, FOPO_BYTES, 0);
  if (status != FOPO_OK) return status;
  if (is_text(a, wanted)) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT, "%s: its %s is \"%.*s\", here it is \"%s\"; %s", path, name,
                   (int)(a->itemsize < 40 ? a->itemsize : 40), (const char *)a->data, wanted,
                   remedy);
}

/* A count of steps, which Lua and doubles hold exactly. */
static int need_steps(uint64_t *value, fopo_archive *archive, const char *path, const char *name) {
  int status = fopo_archive_number(value, archive, path, name, FOPO_U64);
  if (status != FOPO_OK || *value <= (uint64_t)1 << 53) return status;
  return fopo_fail(FOPO_ERR_FORMAT, "%s: its %s is %llu, more steps than any run has made (2^53)",
                   path, name, (unsigned long long)*value);
}

static int need_matrix(const float **x, fopo_archive *archive, const char *path, const char *name,
                       size_t rows, size_t cols) {
  fopo_array *a;
  int status = fopo_archive_need(&a, archive, path, name, FOPO_F32, 2);
  if (status != FOPO_OK) return status;
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

static int check_fixed(fopo_archive *archive, const char *path, const fopo_fixed *f) {
  for (int i = 0; i < FOPO_FIXED; i++) {
    uint64_t value = 0;
    int status = fopo_archive_number(&value, archive, path, f->name[i], FOPO_U64);
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

/* A policy of the same kind. A file with neither "network" nor "policy" is of a linear one. */
static int check_policy(fopo_archive *archive, const char *path, const fopo_policy *pi) {
  uint64_t shape[FOPO_POLICY_SHAPE];
  size_t n = pi->kind->shape != NULL ? pi->kind->shape(shape, pi) : 0;
  int named = fopo_archive_find(archive, "policy") != NULL;
  if (named || (n == 0 && !pi->kind->is_product)) {
    return need_text(archive, path, "policy", pi->kind->name, "use the same policy");
  }
  if (n == 0 && fopo_archive_find(archive, "network") == NULL) return FOPO_OK;
  if (n == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%s: its policy is a network, here it is %s; use the same policy", path,
                     pi->kind->name);
  }
  fopo_array *a;
  int status = fopo_archive_need(&a, archive, path, "network", FOPO_U64, 1);
  if (status != FOPO_OK) return status;
  if (a->shape[0] == n && memcmp(a->data, shape, n * sizeof *shape) == 0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "%s: its network has other layers or another activation than "
                   "this one; use the same policy",
                   path);
}

/* The same parts of theta are learnt. */
static int check_learn(const fopo_archive *archive, const char *path, const fopo_policy *pi) {
  char ours[FOPO_POLICY_NAMES], text[2 * FOPO_POLICY_NAMES] = "all of theta";
  const fopo_array *a = fopo_archive_find(archive, "learn");
  fopo_checkpoint_learn(ours, pi);
  if (a == NULL ? ours[0] == '\0' : a->type == FOPO_BYTES && is_text(a, ours)) return FOPO_OK;
  if (a != NULL && a->type == FOPO_BYTES) {
    size_t n = strnlen(a->data, a->itemsize);
    snprintf(text, sizeof text, "%.*s", (int)(n < sizeof ours ? n : sizeof ours), (char *)a->data);
  }
  return fopo_fail(FOPO_ERR_ARGUMENT, "%s: it learns %s, here %s is learnt; use the same learn",
                   path, text, ours[0] != '\0' ? ours : "all of theta");
}

/* Contexts that are drawn anew in each epoch, or never. */
static int check_resplit(const fopo_archive *archive, const char *path, const fopo_trainer *t) {
  int theirs = fopo_archive_find(archive, "resplit") != NULL;
  int ours = t->resplit.from.sessions != NULL;
  if (theirs == ours) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT, "%s: its X and Y were %s, here they are %s; use resplit = %s",
                   path, theirs ? "drawn anew each epoch" : "those of the split in every epoch",
                   ours ? "drawn anew" : "those of the split", theirs ? "true" : "false");
}

/* One that was chosen for items that are dealt out is rounded in another way for each number of
 * ranks. */
static int check_temperature(fopo_archive *archive, const char *path, const fopo_policy *pi) {
  float temperature = pi->temperature, slack = pi->shard != NULL ? 1e-5f * temperature : 0.0f;
  float value = 0.0f;
  int status = fopo_archive_number(&value, archive, path, "temperature", FOPO_F32);
  if (status != FOPO_OK || fabsf(value - temperature) <= slack) return status;
  return fopo_fail(FOPO_ERR_ARGUMENT, "%s: its temperature is %g, here it is %g; use the same",
                   path, (double)value, (double)temperature);
}

/* The optimiser's second moments are means, or sums, of squares. */
static int check_squares(const float *v, size_t n, const char *path, const char *name) {
  for (size_t i = 0; i < n; i++) {
    if (v[i] < 0.0f) {
      return fopo_fail(FOPO_ERR_FORMAT, "%s: %s has %g, which no square can be", path, name,
                       (double)v[i]);
    }
  }
  return FOPO_OK;
}

/* How often each row of a block was updated. */
static int need_updates(fopo_moments *x, fopo_archive *archive, const char *path,
                        const char *name) {
  fopo_array *t;
  int status = fopo_archive_need(&t, archive, path, name, FOPO_U32, 1);
  if (status != FOPO_OK) return status;
  x->updates = t->data;
  if (t->shape[0] == x->rows) return FOPO_OK;
  return fopo_fail(FOPO_ERR_FORMAT, "%s: %s has %zu numbers for %zu items", path, name, t->shape[0],
                   x->rows);
}

/* A block that learns on both sides or on none: its values and the optimiser's state. */
static int need_block(state *s, fopo_archive *archive, const char *path, const fopo_trainer *t,
                      fopo_block block) {
  const fopo_block_members *name = &fopo_checkpoint_blocks[block];
  fopo_block_shape shape = fopo_policy_shape(t->o.policy, block);
  const float *m = NULL, *v = NULL;
  int theirs = fopo_archive_find(archive, name->values) != NULL, ours = shape.rows > 0;
  if (theirs != ours && name->updates != NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%s: its %s are %s, here they are %s; use the same learn",
                     path, fopo_block_names[block], theirs ? "trained" : "fixed",
                     theirs ? "fixed" : "trained");
  }
  if (!ours && block != FOPO_BLOCK_THETA) return FOPO_OK;
  fopo_matrix own = fopo_policy_values(t->o.policy, block);
  int status = need_matrix(&s->values[block], archive, path, name->values, own.rows, own.cols);
  if (!ours) return status;
  const fopo_optimiser *kind = t->o.optim->options.kind;
  if (status == FOPO_OK && kind->has_m) {
    status = need_matrix(&m, archive, path, name->m, shape.rows, shape.cols);
  }
  if (status == FOPO_OK && kind->has_v) {
    status = need_matrix(&v, archive, path, name->v, shape.rows, shape.cols);
    if (status == FOPO_OK) status = check_squares(v, shape.rows * shape.cols, path, name->v);
  }
  fopo_moments *x = &s->of[block];
  *x = (fopo_moments){.rows = shape.rows, .cols = shape.cols};
  memcpy(&x->m, &m, sizeof m); /* read only: the type has no const */
  memcpy(&x->v, &v, sizeof v);
  if (status != FOPO_OK || name->updates == NULL || !kind->has_updates) return status;
  return need_updates(x, archive, path, name->updates);
}

/* The record that was in hand when the file was written. */
static int need_record(fopo_stretch *record, fopo_archive *archive, const char *path) {
  char names[FOPO_RECORD_NAMES];
  double x[FOPO_RECORD];
  fopo_checkpoint_record_names(names);
  if (fopo_archive_find(archive, "record_names") == NULL &&
      fopo_archive_find(archive, "record") == NULL) {
    return FOPO_OK; /* a file of an earlier version */
  }
  fopo_array *a;
  int status = fopo_archive_need(&a, archive, path, "record_names", FOPO_BYTES, 0);
  if (status != FOPO_OK) return status;
  int same = is_text(a, names);
  status = fopo_archive_need(&a, archive, path, "record", FOPO_F64, 1);
  if (status != FOPO_OK || !same) return status;
  if (a->shape[0] != FOPO_RECORD) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: its record has %zu numbers, not %d", path, a->shape[0],
                     FOPO_RECORD);
  }
  memcpy(x, a->data, sizeof x);
  for (int i = 0; i < FOPO_RECORD; i++) {
    if (isfinite(x[i]) && (x[i] >= 0.0 || i == FOPO_STAT_REWARD)) continue;
    return fopo_fail(FOPO_ERR_FORMAT, "%s: number %d of its record is %g", path, i + 1, x[i]);
  }
  memcpy(record, x, sizeof x);
  return FOPO_OK;
}

/* No file holds the function of an estimator that asks for its coefficients. */
static const char *remedy_of_gradient(const fopo_archive *archive) {
  const fopo_array *a = fopo_archive_find(archive, "gradient");
  int named = a != NULL && a->type == FOPO_BYTES;
  for (size_t i = 0; named && fopo_estimators[i] != NULL; i++) {
    const fopo_estimator *e = fopo_estimators[i];
    if (e->needs & FOPO_ASKS_CALLER && is_text(a, e->name)) {
      return "the method is the user's own, which no file holds: give its function again, as "
             "fopo.trainer{gradient = fopo.gradient.custom{coefficients = ..}, ...}";
    }
  }
  return "use the same estimator";
}

/* Draws were the user's own, and are again, or not. */
static int check_proposal(const fopo_archive *archive, const char *path, const fopo_trainer *t) {
  int own = fopo_archive_find(archive, "proposal") != NULL;
  if (own == fopo_checkpoint_own_draws(t)) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT, "%s: its draws are %s, here they are %s; %s", path,
                   own ? "those of a custom proposal" : "fopo's own",
                   own ? "not" : "those of a custom proposal",
                   own ? "no file holds its function: give it again, as fopo.proposal.custom"
                       : "use the same proposal");
}

/* A sigma of slates that is learnt on both sides or on none. */
static int need_sigma(state *s, fopo_archive *archive, const char *path, const fopo_trainer *t) {
  int ours = fopo_gradient_get(t->o.gradient)->sigma_lr > 0.0;
  fopo_array *a = NULL;
  if ((fopo_archive_find(archive, fopo_checkpoint_sigma) != NULL) != ours) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%s: its sigma is %s, here it is %s; use the same sigma_lr",
                     path, ours ? "fixed" : "learnt", ours ? "learnt" : "fixed");
  }
  if (!ours) return FOPO_OK;
  int status = fopo_archive_need(&a, archive, path, fopo_checkpoint_sigma, FOPO_F64, 1);
  if (status != FOPO_OK) return status;
  if (a->shape[0] == 2) memcpy(s->sigma, a->data, sizeof s->sigma);
  if (s->sigma[0] > 0.0 && isfinite(s->sigma[0]) && s->sigma[1] >= 0.0 && isfinite(s->sigma[1])) {
    return FOPO_OK;
  }
  return fopo_fail(FOPO_ERR_FORMAT, "%s: %s are not a sigma above 0 and a sum of squares", path,
                   fopo_checkpoint_sigma);
}

static int understand(state *s, fopo_archive *archive, const char *path, fopo_trainer *t) {
  fopo_fixed f = fopo_checkpoint_fixed(t);
  int status = fopo_archive_check(archive, path, "checkpoint");
  if (status != FOPO_OK) return status;
  if (fopo_archive_find(archive, "format") == NULL) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s holds no checkpoint: it was not written by t:save(path)",
                     path);
  }
  status = need_text(archive, path, "format", fopo_checkpoint_format,
                     "it is no checkpoint of this program");
  if (status == FOPO_OK) {
    status =
        need_text(archive, path, "optim", t->o.optim->options.kind->name, "use the same optimiser");
  }
  if (status == FOPO_OK) {
    status = need_text(archive, path, "gradient", fopo_gradient_get(t->o.gradient)->estimator->name,
                       remedy_of_gradient(archive));
  }
  if (status == FOPO_OK) status = check_proposal(archive, path, t);
  if (status == FOPO_OK) status = need_sigma(s, archive, path, t);
  if (status == FOPO_OK) status = check_policy(archive, path, t->o.policy);
  if (status == FOPO_OK) status = check_learn(archive, path, t->o.policy);
  if (status == FOPO_OK) {
    status = need_text(archive, path, "rows", fopo_float_names[t->o.policy->rows.type],
                       "use a policy of the same rows");
  }
  for (int i = 0; i < FOPO_BLOCKS && status == FOPO_OK; i++) {
    status = need_block(s, archive, path, t, (fopo_block)i);
  }
  if (status == FOPO_OK && t->ordered != NULL &&
      fopo_archive_find(archive, fopo_checkpoint_ordered) != NULL) {
    fopo_matrix items = t->o.policy->items;
    status =
        need_matrix(&s->ordered, archive, path, fopo_checkpoint_ordered, items.rows, items.cols);
  }
  if (status == FOPO_OK) status = check_fixed(archive, path, &f);
  if (status == FOPO_OK) status = check_resplit(archive, path, t);
  if (status == FOPO_OK) status = check_temperature(archive, path, t->o.policy);
  if (status == FOPO_OK) status = need_steps(&s->step, archive, path, "step");
  if (status == FOPO_OK) status = need_steps(&s->t, archive, path, "optim_t");
  if (status == FOPO_OK) status = need_record(&s->record, archive, path);
  if (status == FOPO_OK) {
    status = fopo_unfinished_read(&s->run, archive, path, t->o.policy, s->step);
  }
  const fopo_proposal *q = fopo_gradient_proposal(t->o.gradient);
  if (status == FOPO_OK && q != NULL) {
    status = fopo_candidate_cache_check(&t->cache, t->o.device, archive, path, q, t->o.contexts.n,
                                        fopo_policy_n_items(t->o.policy));
  }
  return status;
}

static void set_values(fopo_policy *pi, fopo_block block, const float *values) {
  fopo_matrix x = fopo_policy_values(pi, block);
  if (values == NULL) return;
  memcpy(x.x, values, x.rows * x.cols * sizeof *values);
  if (block == FOPO_BLOCK_ITEMS) pi->version++;
}

/* The next slice orders the items as the run did; or by what they are, if the file does not say. */
static void restore_order(fopo_trainer *t, const float *ordered) {
  fopo_matrix items = t->o.policy->items;
  if (t->ordered == NULL) return;
  t->ordering = ordered != NULL ? UINT64_MAX : 0;
  if (ordered != NULL) memcpy(t->ordered, ordered, items.rows * items.cols * sizeof *ordered);
}

/* Takes over the candidate cache; opening it once makes the gradient show its epsilon. */
static int restore_cache(fopo_trainer *t, const fopo_archive *file) {
  const fopo_proposal *q = fopo_gradient_proposal(t->o.gradient);
  if (q == NULL) return FOPO_OK;
  int status = fopo_candidate_cache_restore(&t->cache, file, q);
  fopo_gradient_open(t->o.gradient, &t->cache);
  fopo_gradient_close(t->o.gradient);
  return status;
}

int fopo_trainer_reads(fopo_trainer *t, const char *path) {
  fopo_archive file = {0};
  state s = {0};
  int status = fopo_npz_load(&file, path);
  if (status == FOPO_OK) status = understand(&s, &file, path, t);
  fopo_unfinished_done(&s.run);
  fopo_archive_done(&file);
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
    status = fopo_optim_restore(t->o.optim, t->o.device, s.of, s.t);
  }
  if (status == FOPO_OK) {
    for (int i = 0; i < FOPO_BLOCKS; i++) set_values(t->o.policy, (fopo_block)i, s.values[i]);
    t->step = s.step;
    t->record = s.record;
    fopo_unfinished_done(&t->unfinished);
    t->unfinished = s.run;
    t->unfinished.set = t->o.policy->set;
    s.run = (fopo_unfinished){0};
    t->reach[FOPO_BLOCK_ITEMS].bound = t->reach[FOPO_BLOCK_WEIGHTS].bound = INFINITY;
    if (s.sigma[0] > 0.0) fopo_gradient_set_sigma(t->o.gradient, s.sigma[0], s.sigma[1]);
    restore_order(t, s.ordered);
    status = restore_cache(t, &file);
  }
  fopo_unfinished_done(&s.run);
  if (status == FOPO_OK && archive != NULL) {
    *archive = file;
  } else {
    fopo_archive_done(&file);
  }
  return status;
}
