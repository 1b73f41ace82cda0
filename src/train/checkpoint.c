/* What a checkpoint says of the trainer that wrote it and that must be equal in the one that
 * resumes: shapes, kinds, and the data, by a checksum. */
#include "train/checkpoint.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "core/status.h"

const char fopo_checkpoint_format[] = "fopo trainer 1";

const fopo_block_members fopo_checkpoint_blocks[FOPO_BLOCKS] = {
    [FOPO_BLOCK_THETA] = {"theta", "optim_m", "optim_v", NULL},
    [FOPO_BLOCK_ITEMS] = {"item_values", "items_m", "items_v", "items_t"},
    [FOPO_BLOCK_WEIGHTS] = {"weights_added", "weights_m", "weights_v", "weights_t"}};

/* ---- the data ---- */

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

uint64_t fopo_checkpoint_lists(uint64_t crc, const fopo_csr *X) {
  crc = crc32_z((uLong)crc, (const Bytef *)X->indptr, (X->rows + 1) * sizeof *X->indptr);
  return crc32_z((uLong)crc, (const Bytef *)X->ids, fopo_csr_nnz(X) * sizeof *X->ids);
}

static uLong add_reward(uLong crc, const fopo_reward *r, size_t P) {
  const fopo_csr *Y = r->shared == NULL ? r->Y : NULL;
  size_t N = r->contexts;
  if (Y != NULL) crc = (uLong)fopo_checkpoint_lists(crc, Y);
  if (r->value != NULL) crc = crc32_z(crc, (const Bytef *)r->value, r->Y->cols * sizeof *r->value);
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
    if (!t->o.policy->learns[FOPO_BLOCK_ITEMS]) crc = add_rows(crc, t->o.policy->items);
    if (t->o.reward->shared == NULL) crc = add_rows(crc, t->o.contexts.x);
  }
  if (t->o.reward->shared != NULL) crc = add_shared(crc, t->o.reward->shared);
  if (t->o.policy->masks_seen && (t->o.contexts.shared != NULL || t->o.contexts.X.indptr != NULL)) {
    crc = crc32_z(crc, (const Bytef *)"seen", 4); /* another policy than one that keeps X */
    if (t->o.contexts.X.indptr != NULL) crc = (uLong)fopo_checkpoint_lists(crc, &t->o.contexts.X);
  }
  crc = add_reward(crc, t->o.reward, t->o.policy->items.rows);
  t->fingerprint = (uint32_t)crc;
  t->fingerprinted = 1;
  return t->fingerprint;
}

fopo_fixed fopo_checkpoint_fixed(fopo_trainer *t) {
  return (fopo_fixed){
      .name = {"items", "contexts", "batch", "seed", "reward", "data"},
      .value = {fopo_policy_n_items(t->o.policy), t->o.contexts.n, t->o.batch, t->o.seed,
                fopo_reward_number(t->o.reward->kind), fingerprint(t)},
  };
}

/* ---- names ---- */

static void add_name(char names[FOPO_RECORD_NAMES], const char *name) {
  size_t n = strlen(names);
  snprintf(names + n, FOPO_RECORD_NAMES - n, "%s%s", n > 0 ? " " : "", name);
}

void fopo_checkpoint_record_names(char names[FOPO_RECORD_NAMES]) {
  _Static_assert(FOPO_RECORD == FOPO_STATISTIC_ROWS + 1 + FOPO_PHASES,
                 "a stretch is doubles alone");
  names[0] = '\0';
  for (int i = 0; i < FOPO_STATISTIC_ROWS; i++) add_name(names, fopo_statistic_rows[i].name);
  add_name(names, "seconds");
  for (int i = 0; i < FOPO_PHASES; i++) add_name(names, fopo_phase_rows[i].name);
}
