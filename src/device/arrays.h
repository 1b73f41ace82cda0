/* Arrays that are made anew when they must grow; what was in them is lost. n elements of `size`
 * bytes take the place of `old` (NULL: there was none). NULL, with the sentence set, on failure. */
#ifndef FOPO_DEVICE_ARRAYS_H
#define FOPO_DEVICE_ARRAYS_H

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

/* Gives back n blocks of the device; NULL stands for none. */
static inline void fopo_release_all(fopo_device *d, void *const *blocks, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (blocks[i] != NULL) d->ops->release(d, blocks[i]);
  }
}

#endif
