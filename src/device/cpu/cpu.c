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

int fopo_cpu_alloc(fopo_device *d, void **device, size_t bytes) {
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

int fopo_cpu_share(fopo_device *d, void **device, const void *host, size_t bytes) {
  (void)d, (void)bytes;
  memcpy(device, &host, sizeof host); /* lent for reading; the table's type has no const */
  return FOPO_OK;
}

/* What is not among the blocks was lent and stays the host's. */
int fopo_cpu_release(fopo_device *d, void *device) {
  fopo_cpu *cpu = d->state;
  for (size_t i = cpu->n_blocks; i-- > 0;) {
    if (cpu->blocks[i] != device) continue;
    fopo_free(device);
    cpu->blocks[i] = cpu->blocks[--cpu->n_blocks];
    break;
  }
  return FOPO_OK;
}

int fopo_cpu_put(fopo_device *d, void *device, const void *host, size_t bytes) {
  (void)d;
  if (bytes > 0 && host != device) memcpy(device, host, bytes);
  return FOPO_OK;
}

int fopo_cpu_get(fopo_device *d, void *host, const void *device, size_t bytes) {
  (void)d;
  if (bytes > 0 && host != device) memcpy(host, device, bytes); /* what was lent is the host's */
  return FOPO_OK;
}

/* ---- dense operations ---- */

int fopo_cpu_gather_rows(fopo_device *d, fopo_matrix X, fopo_matrix from, const uint32_t *rows) {
  (void)d;
  for (size_t b = 0; b < X.rows; b++) {
    memcpy(fopo_matrix_row(X, b), fopo_matrix_row(from, rows[b]), X.cols * sizeof *X.x);
  }
  return FOPO_OK;
}

int fopo_cpu_queries(fopo_device *d, fopo_matrix Q, fopo_matrix X, const float *theta,
                     float scale) {
  (void)d;
  return fopo_gemm(Q, scale, X, 0, fopo_cpu_reading(theta, X.cols, Q.cols, Q.cols), 0, 0.0f);
}

int fopo_cpu_scores(fopo_device *d, const fopo_candidate_sets *sets, const fopo_rows *items,
                    const fopo_device_batch *batch) {
  (void)d;
  size_t k = sets->k, L = batch->L;
  const uint32_t *counts = sets->counts;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    size_t count = counts == NULL || counts[b] > k ? k : counts[b];
    float *f = sets->scores + b * k;
    fopo_cpu_gather_dot(f, items, sets->ids + b * k, count, batch->Q + b * L, L);
    for (size_t i = count; i < k; i++) f[i] = -INFINITY;
  }
  return FOPO_OK;
}

int fopo_cpu_outer(fopo_device *d, float *G, fopo_matrix X, fopo_matrix V, float scale,
                   int accumulate) {
  (void)d;
  return fopo_gemm(fopo_matrix_view(G, X.cols, V.cols), scale, X, 1, V, 0,
                   accumulate ? 1.0f : 0.0f);
}

int fopo_cpu_network_forward(fopo_device *d, fopo_matrix Q, fopo_matrix X,
                             const fopo_network_pass *pass) {
  (void)d;
  return fopo_network_forward(Q, pass->hidden, X, pass->theta, pass->net, pass->scale);
}

int fopo_cpu_network_backward(fopo_device *d, float *G, fopo_matrix X, fopo_matrix V,
                              const fopo_network_pass *pass, int accumulate) {
  (void)d;
  return fopo_network_backward(G, pass->delta, X, pass->hidden, V, pass->theta, pass->net,
                               pass->scale, accumulate);
}

/* ---- kept candidates, statistics ---- */

int fopo_cpu_store_sets(fopo_device *d, const fopo_candidate_sets *cache,
                        const fopo_candidate_sets *sets, const uint32_t *rows, size_t B) {
  (void)d;
  size_t k = sets->k;
  for (size_t b = 0; b < B; b++) {
    memcpy(cache->ids + rows[b] * k, sets->ids + b * k, k * sizeof *sets->ids);
    cache->counts[rows[b]] = sets->counts[b];
  }
  return FOPO_OK;
}

int fopo_cpu_load_sets(fopo_device *d, const fopo_candidate_sets *sets,
                       const fopo_candidate_sets *cache, const uint32_t *rows, size_t B) {
  (void)d;
  size_t k = sets->k;
  for (size_t b = 0; b < B; b++) {
    memcpy(sets->ids + b * k, cache->ids + rows[b] * k, k * sizeof *sets->ids);
    sets->counts[b] = cache->counts[rows[b]];
  }
  return FOPO_OK;
}

int fopo_cpu_add_stats(fopo_device *d, fopo_statistics *sums, const float *stats,
                       const uint32_t *counts, size_t with_candidates, size_t k, int start,
                       size_t B) {
  (void)d;
  if (start) *sums = (fopo_statistics){0};
  for (size_t b = 0; b < B; b++) {
    fopo_statistics_add_context(sums, stats + b * FOPO_STATS, b < with_candidates, counts[b], k);
  }
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

int fopo_cpu_adam(fopo_device *d, const fopo_parameters *x, const float *G, const fopo_adam *o) {
  (void)d;
  fopo_adam_step step = fopo_cpu_adam_step(o, o->t);
  size_t n = x->n;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (n > FEW)
  for (size_t i = 0; i < n; i += PIECE) {
    size_t count = n - i < PIECE ? n - i : PIECE;
    fopo_kernels_get()->adam(x->theta + i, x->m + i, x->v + i, G + i, &step, count);
  }
  return FOPO_OK;
}

int fopo_cpu_sgd(fopo_device *d, const fopo_parameters *x, const float *G, const fopo_sgd *o) {
  (void)d;
  float lr = (float)o->lr, momentum = (float)o->momentum, decay = (float)o->weight_decay;
  float *theta = x->theta, *velocity = x->m;
  size_t n = x->n;
#pragma omp parallel for simd num_threads(fopo_threads()) schedule(static) if (n > FEW)
  for (size_t i = 0; i < n; i++) {
    velocity[i] = momentum * velocity[i] + (G[i] - decay * theta[i]);
    theta[i] += lr * velocity[i];
  }
  return FOPO_OK;
}

/* ---- the device ---- */

#define ENTRY_EVERY(name) .name = fopo_cpu_##name,
#define ENTRY_CPU(name)   .name = fopo_cpu_##name,
#define ENTRY_CUDA(name)  .name = NULL,

static const fopo_device_ops cpu_ops = {
    .kind = "cpu",
#define FOPO_OP(name, who, ...) ENTRY_##who(name)
#include "device/ops.def"
#undef FOPO_OP
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
