/* Arrays on a device and on the host that grow with the work. A module lists its arrays in a table,
 * with the elements that it needs of each, and reserves or gives back the table as a whole. */
#ifndef FOPO_DEVICE_ARRAYS_H
#define FOPO_DEVICE_ARRAYS_H

#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "device/device.h"

/* A row of the table: `at` is where the array's pointer stands. */
typedef struct {
  void *at;
  size_t n, size; /* elements, 0: it is not needed; and bytes of one */
  int on_host;
} fopo_buffer;

#define FOPO_BUFFER(pointer, n)                                                                    \
  { &(pointer), (n), sizeof *(pointer), 0 }
#define FOPO_HOST_BUFFER(pointer, n)                                                               \
  { &(pointer), (n), sizeof *(pointer), 1 }

/* The pointer of a row, whatever its type is. */
static inline void *fopo_buffer_get(const fopo_buffer *r) {
  void *x;
  memcpy(&x, r->at, sizeof x);
  return x;
}

/* Makes those arrays anew that are too small; what was in them is lost. room [count]: the bytes
 * that each has, 0 at first. After a failure an array that is missing is NULL and has no room. */
static inline int fopo_reserve(fopo_device *d, const fopo_buffer *rows, size_t *room,
                               size_t count) {
  for (size_t i = 0; i < count; i++) {
    const fopo_buffer *r = &rows[i];
    void *old = fopo_buffer_get(r), *x = NULL;
    size_t bytes = r->n * r->size;
    if (bytes <= room[i]) continue;
    if (r->on_host) {
      fopo_free(old);
      x = fopo_alloc(r->n, r->size);
    } else {
      if (old != NULL) d->ops->release(d, old);
      if (d->ops->alloc(d, &x, bytes) != FOPO_OK) x = NULL;
    }
    memcpy(r->at, &x, sizeof x);
    room[i] = x != NULL ? bytes : 0;
    if (x == NULL) return FOPO_ERR_MEMORY;
  }
  return FOPO_OK;
}

/* Gives them back: the pointers are NULL then. */
static inline void fopo_give_back(fopo_device *d, const fopo_buffer *rows, size_t *room,
                                  size_t count) {
  for (size_t i = 0; i < count; i++) {
    void *x = fopo_buffer_get(&rows[i]), *none = NULL;
    if (rows[i].on_host) fopo_free(x);
    if (!rows[i].on_host && x != NULL) d->ops->release(d, x);
    memcpy(rows[i].at, &none, sizeof none);
    room[i] = 0;
  }
}

/* One array of n elements on the device in the place of `old`, whose content is lost (NULL: there
 * was none). NULL, with the sentence set, on failure. */
static inline void *fopo_renew_on_device(fopo_device *d, void *old, size_t n, size_t size) {
  void *block = NULL;
  if (old != NULL) d->ops->release(d, old);
  return d->ops->alloc(d, &block, n * size) == FOPO_OK ? block : NULL;
}

/* Gives back n blocks of the device; NULL stands for none. */
static inline void fopo_release_all(fopo_device *d, void *const *blocks, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (blocks[i] != NULL) d->ops->release(d, blocks[i]);
  }
}

#endif
