/* Inside the CPU device: its state, its scratch, and the prototypes of its operations, which are
 * described in device/ops.def. */
#ifndef FOPO_DEVICE_CPU_CPU_H
#define FOPO_DEVICE_CPU_CPU_H

#include "device/ops.h"
#include "kernels/kernels.h"

/* Scratch only grows, so no step after the first allocates. */
typedef struct {
  void **blocks; /* [n_blocks] given by alloc and not yet released, owned */
  size_t n_blocks;
  size_t capacity; /* of `blocks` */
  char *scratch;   /* [threads, stride] bytes, owned */
  size_t stride;   /* a multiple of 64: no two threads share a cache line */
  size_t threads;
  char *shared; /* [shared_bytes] for all threads together, owned */
  size_t shared_bytes;
} fopo_cpu;

int fopo_cpu_open(fopo_device **d);
void fopo_cpu_close(fopo_device *d);

/* Makes scratch at least `bytes` for each of fopo_threads() threads. Contents are lost. */
int fopo_cpu_reserve(fopo_device *d, size_t bytes);
/* The scratch of the calling thread of the innermost team. */
void *fopo_cpu_scratch(const fopo_device *d);
/* Makes `shared` at least `bytes`. Contents are lost. `what` names the work if there is no memory.
 */
int fopo_cpu_reserve_shared(fopo_device *d, size_t bytes, const char *what);

/* The ranks [U] of draws among M items, ascending: one in each of U equal strips. log U / M: each
 * stands for M / U items. */
void fopo_cpu_draw_ranks(uint32_t *ranks, uint32_t row, fopo_draw_key key, size_t U, size_t M);
float fopo_cpu_tail_density(size_t U, size_t M);

/* The constants of the kernel for update t >= 1. */
fopo_adam_step fopo_cpu_adam_step(const fopo_adam *o, uint64_t t);
fopo_adagrad_step fopo_cpu_adagrad_step(const fopo_adagrad *o);

/* f [count] = items[ids] . q, and v += sum_s c[s] items[ids[s]], for rows of any type; n_next ids
 * follow, whose rows the next call reads (kernels/kernels.h). */
static inline void fopo_cpu_gather_dot(float *f, const fopo_rows *items, const uint32_t *ids,
                                       size_t count, const float *q, size_t L) {
  const fopo_kernels *k = fopo_kernels_get();
  switch (items->type) {
  case FOPO_FLOAT32: k->gather_dot(f, items->x, items->ld, ids, count, q, L); break;
  case FOPO_FLOAT16: k->gather_dot_float16(f, items->x, items->ld, ids, count, q, L); break;
  case FOPO_BFLOAT16: k->gather_dot_bfloat16(f, items->x, items->ld, ids, count, q, L); break;
  }
}

static inline void fopo_cpu_gather_axpy(float *v, const fopo_rows *items, const uint32_t *ids,
                                        const float *c, size_t count, size_t n_next, size_t L) {
  const fopo_kernels *k = fopo_kernels_get();
  const void *x = items->x;
  size_t ld = items->ld;
  switch (items->type) {
  case FOPO_FLOAT32: k->gather_axpy(v, x, ld, ids, c, count, n_next, L); break;
  case FOPO_FLOAT16: k->gather_axpy_float16(v, x, ld, ids, c, count, n_next, L); break;
  case FOPO_BFLOAT16: k->gather_axpy_bfloat16(v, x, ld, ids, c, count, n_next, L); break;
  }
}

/* ---- the operations of device/ops.def ---- */

#define FOPO_OP(name, who, ...) fopo_##name##_op fopo_cpu_##name;
#include "device/ops.def"
#undef FOPO_OP

#endif
