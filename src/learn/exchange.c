#include "learn/exchange.h"

#include <string.h>

#include "comm/comm.h"
#include "learn/arrays.h"

/* ---- memory ---- */

/* Floats of V, stats and count of a context. */
static size_t answer_width(size_t L) { return L + FOPO_STATS + 1; }

void fopo_exchange_unbind(fopo_exchange *x, fopo_device *d) {
  void *const blocks[] = {x->sums, x->counts};
  fopo_release_all(d, blocks, sizeof blocks / sizeof *blocks);
  fopo_free(x->mine);
  fopo_free(x->all);
  *x = (fopo_exchange){0};
}

static int renew_sums(fopo_exchange *x, const fopo_binding *data, size_t part) {
  fopo_device *d = data->device;
  x->sums = fopo_renew_on_device(d, x->sums, part * fopo_sums_width(data->L), sizeof *x->sums);
  x->counts = fopo_renew_on_device(d, x->counts, part, sizeof *x->counts);
  return x->sums && x->counts ? FOPO_OK : FOPO_ERR_MEMORY;
}

int fopo_exchange_reserve(fopo_exchange *x, const fopo_binding *data, size_t part) {
  size_t ranks = fopo_comm_ranks(), share = part / ranks + 1, L = data->L;
  size_t width = answer_width(L), sums = data->part != NULL ? fopo_sums_width(L) : 0;
  if (part <= x->capacity) return FOPO_OK;
  x->capacity = 0;
  x->mine = fopo_renew_on_host(x->mine, share * width + 1, sizeof *x->mine);
  width = width > sums ? width : sums;
  x->all = fopo_renew_on_host(x->all, (share * width + 1) * ranks, sizeof *x->all);
  if (!x->mine || !x->all) return FOPO_ERR_MEMORY;
  int status = sums > 0 ? renew_sums(x, data, part) : FOPO_OK;
  if (status == FOPO_OK) x->capacity = part;
  return status;
}

/* ---- joining ---- */

/* bytes [ranks]: those of every rank's share of n contexts, `width` floats each. */
static void list_bytes(size_t *bytes, size_t n, size_t width) {
  size_t ranks = fopo_comm_ranks(), first;
  for (size_t r = 0; r < ranks; r++) {
    bytes[r] = fopo_comm_share(&first, n, r, ranks) * width * sizeof(float);
  }
}

int fopo_exchange_gather(uint32_t *x, size_t n, size_t width) {
  size_t bytes[FOPO_COMM_RANKS], first;
  list_bytes(bytes, n, width);
  fopo_comm_own_share(&first, n);
  return fopo_comm_gather_parts(x, x + first * width, bytes);
}

/* The sums of this rank's share of the contexts, from all ranks, become their V and stats. */
static int join_sums(fopo_exchange *x, const fopo_binding *data, const fopo_span *part) {
  fopo_device *d = data->device;
  size_t sent[FOPO_COMM_RANKS], coming[FOPO_COMM_RANKS], first;
  size_t ranks = fopo_comm_ranks(), L = data->L, width = fopo_sums_width(L);
  size_t own = fopo_comm_own_share(&first, part->n);
  list_bytes(sent, part->n, width);
  for (size_t r = 0; r < ranks; r++) coming[r] = own * width * sizeof(float);
  int status = fopo_comm_exchange(x->all, coming, x->sums, sent);
  if (status != FOPO_OK || own == 0) return status;
  fopo_estimate e = {.V = part->V.x + first * L, .stats = part->stats + first * FOPO_STATS};
  fopo_device_batch batch = {.B = own, .L = L};
  return d->ops->join_sums(d, &e, x->all, ranks, &batch);
}

/* Copies V, stats and counts of `own` contexts from place `first` of the part on between the device
 * and `block` on the host, where they lie one array behind the other. */
static int copy_answers(float *block, const fopo_binding *data, const fopo_span *part,
                        uint32_t *counts, size_t first, size_t own, int to_device) {
  fopo_device *d = data->device;
  size_t L = data->L;
  struct {
    char *device;
    size_t width; /* of a context, in floats */
  } arrays[] = {{(char *)(part->V.x + first * L), L},
                {(char *)(part->stats + first * FOPO_STATS), FOPO_STATS},
                {counts == NULL ? NULL : (char *)(counts + first), 1}};
  int status = FOPO_OK;
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays && status == FOPO_OK; i++) {
    size_t n = own * arrays[i].width;
    if (arrays[i].device != NULL && n > 0) {
      status = to_device ? d->ops->put(d, arrays[i].device, block, n * sizeof *block)
                         : d->ops->get(d, block, arrays[i].device, n * sizeof *block);
    }
    block += n;
  }
  return status;
}

/* Every rank's status, one word, and its answers to all ranks. So it is an agreement, too: every
 * rank that has agreed before comes here, and nowhere else. */
static int gather(fopo_exchange *x, const fopo_binding *data, const fopo_span *part,
                  uint32_t *counts, int status) {
  size_t bytes[FOPO_COMM_RANKS], first;
  size_t ranks = fopo_comm_ranks(), width = answer_width(data->L);
  size_t own = fopo_comm_own_share(&first, part->n);
  int all[FOPO_COMM_RANKS];
  if (status == FOPO_OK) status = copy_answers(x->mine + 1, data, part, counts, first, own, 0);
  memcpy(x->mine, &status, sizeof status);
  list_bytes(bytes, part->n, width);
  for (size_t r = 0; r < ranks; r++) bytes[r] += sizeof status;
  int sent = fopo_comm_gather_parts(x->all, x->mine, bytes);
  if (sent != FOPO_OK) return sent;
  for (size_t r = 0; r < ranks; r++) {
    fopo_comm_share(&first, part->n, r, ranks);
    memcpy(&all[r], x->all + first * width + r, sizeof all[r]);
  }
  status = fopo_comm_heed(all);
  for (size_t r = 0; r < ranks && status == FOPO_OK; r++) {
    own = fopo_comm_share(&first, part->n, r, ranks);
    if (r == fopo_comm_own_rank()) continue;
    status = copy_answers(x->all + first * width + r + 1, data, part, counts, first, own, 1);
  }
  return status;
}

int fopo_exchange_join(fopo_exchange *x, const fopo_binding *data, const fopo_span *part,
                       uint32_t *counts, int status) {
  status = fopo_comm_agree(status);
  if (status != FOPO_OK) return status;
  if (data->part == NULL) return gather(x, data, part, counts, FOPO_OK);
  return gather(x, data, part, NULL, join_sums(x, data, part));
}
