/* The CPU device: memory, the dense operations, the optimisers, and the table.
 *
 * Contexts are shared among threads; a context is the work of one thread, so its result does not
 * depend on how many there are. `share` lends the host's memory itself: the items exist once. */
#include "device/cpu/cpu.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"

enum {
  FEW = 1 << 15, /* elements below which waking the threads costs more than it saves */
  PIECE = 1 << 12
};

/* ---- scratch ---- */

int fopo_cpu_reserve(fopo_device *d, size_t bytes) {
  fopo_cpu *cpu = d->state;
  size_t threads = (size_t)fopo_threads(), stride = (bytes + 63) / 64 * 64;
  if (stride <= cpu->stride && threads <= cpu->threads) return FOPO_OK;
  if (stride < cpu->stride) stride = cpu->stride;
  if (threads < cpu->threads) threads = cpu->threads;
  char *scratch = fopo_alloc(threads, stride);
  if (scratch == NULL) return FOPO_ERR_MEMORY;
  fopo_free(cpu->scratch);
  cpu->scratch = scratch;
  cpu->stride = stride;
  cpu->threads = threads;
  return FOPO_OK;
}

void *fopo_cpu_scratch(const fopo_device *d) {
  const fopo_cpu *cpu = d->state;
  return cpu->scratch + (size_t)omp_get_thread_num() * cpu->stride;
}

int fopo_cpu_reserve_shared(fopo_device *d, size_t bytes, const char *what) {
  fopo_cpu *cpu = d->state;
  if (bytes <= cpu->shared_bytes) return FOPO_OK;
  fopo_free(cpu->shared);
  cpu->shared = NULL;
  cpu->shared_bytes = 0;
  int status = fopo_memory_suffices(bytes, what, "use fewer items or close other programs");
  if (status != FOPO_OK) return status;
  cpu->shared = fopo_alloc(bytes, 1);
  if (cpu->shared == NULL) return FOPO_ERR_MEMORY;
  cpu->shared_bytes = bytes;
  return FOPO_OK;
}

/* ---- memory ---- */

static int device_alloc(fopo_device *d, void **device, size_t bytes) {
  fopo_cpu *cpu = d->state;
  *device = NULL;
  if (cpu->n_blocks == cpu->room) {
    size_t room = cpu->room == 0 ? 16 : 2 * cpu->room;
    void **blocks = fopo_realloc(cpu->blocks, room, sizeof *blocks);
    if (blocks == NULL) return FOPO_ERR_MEMORY;
    cpu->blocks = blocks;
    cpu->room = room;
  }
  *device = fopo_alloc(bytes, 1);
  if (*device == NULL) return FOPO_ERR_MEMORY;
  cpu->blocks[cpu->n_blocks++] = *device;
  return FOPO_OK;
}

static int device_share(fopo_device *d, void **device, const void *host, size_t bytes) {
  (void)d, (void)bytes;
  memcpy(device, &host, sizeof host); /* lent for reading; the table's type has no const */
  return FOPO_OK;
}

/* What is not among the blocks was lent and stays the host's. */
static void device_release(fopo_device *d, void *device) {
  fopo_cpu *cpu = d->state;
  for (size_t i = cpu->n_blocks; i-- > 0;) {
    if (cpu->blocks[i] != device) continue;
    fopo_free(device);
    cpu->blocks[i] = cpu->blocks[--cpu->n_blocks];
    return;
  }
}

static int device_put(fopo_device *d, void *device, const void *host, size_t bytes) {
  (void)d;
  if (bytes > 0 && host != device) memcpy(device, host, bytes);
  return FOPO_OK;
}

static int device_get(fopo_device *d, void *host, const void *device, size_t bytes) {
  (void)d;
  if (bytes > 0 && host != device) memcpy(host, device, bytes); /* what was lent is the host's */
  return FOPO_OK;
}

/* ---- dense operations ---- */

static int gather_rows(fopo_device *d, float *X, const float *contexts, size_t ld,
                       const uint32_t *rows, size_t B, size_t D) {
  (void)d;
  for (size_t b = 0; b < B; b++) memcpy(X + b * D, contexts + rows[b] * ld, D * sizeof *X);
  return FOPO_OK;
}

static int queries(fopo_device *d, float *Q, const float *X, const float *theta, float scale,
                   size_t B, size_t D, size_t L) {
  (void)d;
  return fopo_gemm(fopo_matrix_view(Q, B, L), scale, fopo_cpu_reading(X, B, D, D), 0,
                   fopo_cpu_reading(theta, D, L, L), 0, 0.0f);
}

static int scores(fopo_device *d, float *f, const float *Q, const fopo_rows *items,
                  const uint32_t *ids, const uint32_t *counts, size_t B, size_t S, size_t L) {
  (void)d;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t b = 0; b < B; b++) {
    size_t count = counts == NULL || counts[b] > S ? S : counts[b];
    fopo_cpu_gather_dot(f + b * S, items, ids + b * S, count, Q + b * L, L);
    for (size_t s = count; s < S; s++) f[b * S + s] = -INFINITY;
  }
  return FOPO_OK;
}

static int outer(fopo_device *d, float *G, const float *X, const float *V, float scale,
                 int accumulate, size_t B, size_t D, size_t L) {
  (void)d;
  return fopo_gemm(fopo_matrix_view(G, D, L), scale, fopo_cpu_reading(X, B, D, D), 1,
                   fopo_cpu_reading(V, B, L, L), 0, accumulate ? 1.0f : 0.0f);
}

static int network_forward(fopo_device *d, float *Q, float *hidden, const float *X,
                           const float *theta, const fopo_network *net, float scale, size_t B) {
  (void)d;
  size_t D = net->width[0], L = net->width[net->layers];
  return fopo_network_forward(fopo_matrix_view(Q, B, L), hidden, fopo_cpu_reading(X, B, D, D),
                              theta, net, scale);
}

static int network_backward(fopo_device *d, float *G, float *delta, const float *X,
                            const float *hidden, const float *V, const float *theta,
                            const fopo_network *net, float scale, int accumulate, size_t B) {
  (void)d;
  size_t D = net->width[0], L = net->width[net->layers];
  return fopo_network_backward(G, delta, fopo_cpu_reading(X, B, D, D), hidden,
                               fopo_cpu_reading(V, B, L, L), theta, net, scale, accumulate);
}

/* ---- candidates that are kept, statistics ---- */

static int store_sets(fopo_device *d, uint32_t *sets, uint32_t *set_counts, const uint32_t *ids,
                      const uint32_t *counts, const uint32_t *rows, size_t B, size_t K) {
  (void)d;
  for (size_t b = 0; b < B; b++) {
    memcpy(sets + rows[b] * K, ids + b * K, K * sizeof *sets);
    set_counts[rows[b]] = counts[b];
  }
  return FOPO_OK;
}

static int load_sets(fopo_device *d, uint32_t *ids, uint32_t *counts, const uint32_t *sets,
                     const uint32_t *set_counts, const uint32_t *rows, size_t B, size_t K) {
  (void)d;
  for (size_t b = 0; b < B; b++) {
    memcpy(ids + b * K, sets + rows[b] * K, K * sizeof *ids);
    counts[b] = set_counts[rows[b]];
  }
  return FOPO_OK;
}

static int add_stats(fopo_device *d, fopo_sums *sums, const float *stats, const uint32_t *counts,
                     size_t with_candidates, size_t k, int start, size_t B) {
  (void)d;
  if (start) *sums = (fopo_sums){0};
  for (size_t b = 0; b < B; b++) {
    const float *s = stats + b * FOPO_STATS;
    sums->reward += (double)s[FOPO_STAT_REWARD];
    sums->ess += (double)s[FOPO_STAT_ESS];
    double w = (double)s[FOPO_STAT_MAX_WEIGHT];
    if (w > sums->max_weight) sums->max_weight = w;
    if (b >= with_candidates) continue;
    if (counts[b] > 0) sums->head_mass += (double)s[FOPO_STAT_HEAD_MASS];
    sums->short_rows += counts[b] < k;
  }
  sums->n_with_candidates += (double)with_candidates;
  return FOPO_OK;
}

/* ---- optimisers ---- */

/* Kingma and Ba, "Adam: a method for stochastic optimization" (2015), algorithm 1, uphill. */
fopo_adam_step fopo_cpu_adam_step(const fopo_adam *o, uint64_t t) {
  double steps = (double)t;
  return (fopo_adam_step){.beta1 = (float)o->beta1,
                          .rest1 = (float)(1 - o->beta1),
                          .beta2 = (float)o->beta2,
                          .rest2 = (float)(1 - o->beta2),
                          .lr = (float)(o->lr / (1 - pow(o->beta1, steps))),
                          .unbias = (float)(1 / (1 - pow(o->beta2, steps))),
                          .eps = (float)o->eps,
                          .decay = (float)o->weight_decay};
}

static int adam(fopo_device *d, float *theta, float *m, float *v, const float *G,
                const fopo_adam *o, size_t n) {
  (void)d;
  fopo_adam_step step = fopo_cpu_adam_step(o, o->t);
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (n > FEW)
  for (size_t i = 0; i < n; i += PIECE) {
    size_t count = n - i < PIECE ? n - i : PIECE;
    fopo_kernels_get()->adam(theta + i, m + i, v + i, G + i, &step, count);
  }
  return FOPO_OK;
}

static int sgd(fopo_device *d, float *theta, float *velocity, const float *G, const fopo_sgd *o,
               size_t n) {
  (void)d;
  float lr = (float)o->lr, momentum = (float)o->momentum, decay = (float)o->weight_decay;
#pragma omp parallel for simd num_threads(fopo_threads()) schedule(static) if (n > FEW)
  for (size_t i = 0; i < n; i++) {
    velocity[i] = momentum * velocity[i] + (G[i] - decay * theta[i]);
    theta[i] += lr * velocity[i];
  }
  return FOPO_OK;
}

/* ---- the device ---- */

static const fopo_device_ops cpu_ops = {
    .kind = "cpu",
    .alloc = device_alloc,
    .share = device_share,
    .release = device_release,
    .put = device_put,
    .get = device_get,
    .gather_rows = gather_rows,
    .queries = queries,
    .scores = scores,
    .draw_uniform = fopo_cpu_draw_uniform,
    .draw_mixture = fopo_cpu_draw_mixture,
    .draw_tail = fopo_cpu_draw_tail,
    .draw_policy = fopo_cpu_draw_policy,
    .store_sets = store_sets,
    .load_sets = load_sets,
    .reward_hits = fopo_cpu_reward_hits,
    .reward_model = fopo_cpu_reward_model,
    .reward_credit = fopo_cpu_reward_credit,
    .snis = fopo_cpu_snis,
    .add_stats = add_stats,
    .reinforce = fopo_cpu_reinforce,
    .outer = outer,
    .network_forward = network_forward,
    .network_backward = network_backward,
    .adam = adam,
    .sgd = sgd,
    .items_gradient = fopo_cpu_items_gradient,
    .items_expectation = fopo_cpu_items_expectation,
    .adam_rows = fopo_cpu_adam_rows,
    .sgd_rows = fopo_cpu_sgd_rows,
    .clear = fopo_cpu_clear,
    .norm2 = fopo_cpu_norm2,
    .totals = NULL,
    .start_clock = NULL,
    .stop_clock = NULL,
    .record = NULL,
    .recorded = NULL,
    .replay = NULL,
    .topk = NULL,
};

int fopo_device_cpu_open(fopo_device **d) {
  *d = fopo_alloc(1, sizeof **d);
  if (*d == NULL) return FOPO_ERR_MEMORY;
  (*d)->ops = &cpu_ops;
  (*d)->state = fopo_alloc(1, sizeof(fopo_cpu));
  if ((*d)->state == NULL) {
    fopo_device_cpu_close(*d);
    *d = NULL;
    return FOPO_ERR_MEMORY;
  }
  int threads = fopo_threads();
  snprintf((*d)->name, sizeof(*d)->name, "CPU, %d thread%s, %s", threads, threads == 1 ? "" : "s",
           fopo_kernels_get()->name);
  snprintf((*d)->note, sizeof(*d)->note, "%s", fopo_kernels_note());
  return FOPO_OK;
}

void fopo_device_cpu_close(fopo_device *d) {
  fopo_cpu *cpu = d->state;
  if (cpu != NULL) {
    for (size_t i = 0; i < cpu->n_blocks; i++) fopo_free(cpu->blocks[i]);
    fopo_free(cpu->blocks);
    fopo_free(cpu->scratch);
    fopo_free(cpu->shared);
  }
  fopo_free(cpu);
  fopo_free(d);
}
