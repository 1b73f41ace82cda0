/* The CPU device: scratch, memory, the table of operations, opening and closing.
 *
 * In all operations of this folder the threads share the contexts of a batch, and one thread does
 * all work of a context, so that results do not depend on the number of threads. `share` returns
 * the host's memory itself: the items exist once. */
#include "device/cpu/cpu.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"

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
  if (cpu->n_blocks == cpu->capacity) {
    size_t capacity = cpu->capacity == 0 ? 16 : 2 * cpu->capacity;
    if (fopo_resize(&cpu->blocks, capacity, sizeof *cpu->blocks) != FOPO_OK) return FOPO_ERR_MEMORY;
    cpu->capacity = capacity;
  }
  *device = fopo_alloc(bytes, 1);
  if (*device == NULL) return FOPO_ERR_MEMORY;
  cpu->blocks[cpu->n_blocks++] = *device;
  return FOPO_OK;
}

int fopo_cpu_share(fopo_device *d, void **device, const void *host, size_t bytes) {
  (void)d, (void)bytes;
  memcpy(device, &host, sizeof host); /* operations only read it, but *device has no const */
  return FOPO_OK;
}

/* A pointer that is not among the blocks came from `share` and belongs to the host. */
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
  if (bytes > 0 && host != device) memcpy(host, device, bytes); /* equal if it came from `share` */
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

int fopo_cpu_open(fopo_device **d) {
  *d = fopo_alloc(1, sizeof **d);
  if (*d == NULL) return FOPO_ERR_MEMORY;
  (*d)->ops = &cpu_ops;
  (*d)->state = fopo_alloc(1, sizeof(fopo_cpu));
  if ((*d)->state == NULL) {
    fopo_cpu_close(*d);
    *d = NULL;
    return FOPO_ERR_MEMORY;
  }
  int threads = fopo_threads();
  snprintf((*d)->name, sizeof(*d)->name, "CPU, %d thread%s, %s", threads, threads == 1 ? "" : "s",
           fopo_kernels_get()->name);
  snprintf((*d)->note, sizeof(*d)->note, "%s", fopo_kernels_note());
  return FOPO_OK;
}

void fopo_cpu_close(fopo_device *d) {
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
