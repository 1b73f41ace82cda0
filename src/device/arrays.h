/* Arrays that are made anew when they must grow; what was in them is lost. n elements of `size`
 * bytes take the place of `old` (NULL: there was none). NULL, with the sentence set, on failure. */
#ifndef FOPO_DEVICE_ARRAYS_H
#define FOPO_DEVICE_ARRAYS_H

#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "device/device.h"

static inline void *fopo_renew_on_device(fopo_device *d, void *old, size_t n, size_t size) {
  void *block = NULL;
  if (old != NULL) d->ops->release(d, old);
  return d->ops->alloc(d, &block, n * size) == FOPO_OK ? block : NULL;
}

static inline void *fopo_renew_on_host(void *old, size_t n, size_t size) {
  fopo_free(old);
  return fopo_alloc(n, size);
}

/* An array to be made anew: `at` is where its pointer stands. */
typedef struct {
  void *at;
  size_t n, size; /* elements, and bytes of one */
  int on_host;
} fopo_buffer;

#define FOPO_BUFFER(pointer, n)                                                                    \
  { &(pointer), (n), sizeof *(pointer), 0 }
#define FOPO_HOST_BUFFER(pointer, n)                                                               \
  { &(pointer), (n), sizeof *(pointer), 1 }

/* Makes all of these arrays anew. After a failure those that are missing are NULL. */
static inline int fopo_renew(fopo_device *d, const fopo_buffer *buffers, size_t count) {
  int status = FOPO_OK;
  for (size_t i = 0; i < count; i++) {
    const fopo_buffer *r = &buffers[i];
    void *x;
    memcpy(&x, r->at, sizeof x); /* whatever type of pointer it is */
    x = r->on_host ? fopo_renew_on_host(x, r->n, r->size)
                   : fopo_renew_on_device(d, x, r->n, r->size);
    memcpy(r->at, &x, sizeof x);
    if (x == NULL) status = FOPO_ERR_MEMORY;
  }
  return status;
}

#define FOPO_RENEW(d, buffers) fopo_renew((d), (buffers), sizeof(buffers) / sizeof *(buffers))

/* Gives back n blocks of the device; NULL stands for none. */
static inline void fopo_release_all(fopo_device *d, void *const *blocks, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (blocks[i] != NULL) d->ops->release(d, blocks[i]);
  }
}

#endif
