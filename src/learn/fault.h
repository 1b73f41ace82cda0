/* Mistakes that are planted on purpose, so that a lesson can show what they do and a test can see
 * that the checks find them. They change what was drawn before anything is computed from it, by
 * way of the host and in small blocks: correct on every device, slow, and without allocation. */
#ifndef FOPO_LEARN_FAULT_H
#define FOPO_LEARN_FAULT_H

#include "device/device.h"

typedef enum {
  FOPO_FAULT_NONE,
  FOPO_FAULT_NO_Q,       /* w = exp(f): q dropped from the weight */
  FOPO_FAULT_ADDED_Q,    /* w = exp(f) q: log q added instead of subtracted */
  FOPO_FAULT_OFF_BY_ONE, /* the item after the one that was drawn */
  FOPO_FAULTS
} fopo_fault;
extern const char *const fopo_fault_names[FOPO_FAULTS + 1]; /* ended by NULL */

/* Changes `draws` draws of items < P in ids and logq, device pointers. */
int fopo_fault_inject(fopo_fault fault, fopo_device *d, uint32_t *ids, float *logq, size_t draws,
                      size_t P);

#endif
