#include "learn/fault.h"

#include "core/status.h"

const char *const fopo_fault_names[FOPO_FAULTS + 1] = {"none", "no_q", "added_q", "off_by_one",
                                                       NULL};

/* Draws that pass through the stack at once. */
enum { BLOCK = 1024 };

/* logq times 0: w = exp(f); times -1: w = exp(f) q. */
static int scale_logq(fopo_device *d, float *logq, size_t n, float factor) {
  float block[BLOCK];
  int status = d->ops->get(d, block, logq, n * sizeof *block);
  for (size_t i = 0; i < n && status == FOPO_OK; i++) block[i] *= factor;
  return status == FOPO_OK ? d->ops->put(d, logq, block, n * sizeof *block) : status;
}

/* The item after the one that was drawn; after the last comes the first. */
static int shift_ids(fopo_device *d, uint32_t *ids, size_t n, size_t P) {
  uint32_t block[BLOCK];
  int status = d->ops->get(d, block, ids, n * sizeof *block);
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    block[i] = (uint32_t)((block[i] + (size_t)1) % P);
  }
  return status == FOPO_OK ? d->ops->put(d, ids, block, n * sizeof *block) : status;
}

int fopo_fault_inject(fopo_fault fault, fopo_device *d, uint32_t *ids, float *logq, size_t draws,
                      size_t P) {
  int status = FOPO_OK;
  if (fault == FOPO_FAULT_NONE) return FOPO_OK;
  for (size_t first = 0; first < draws && status == FOPO_OK; first += BLOCK) {
    size_t n = draws - first < BLOCK ? draws - first : BLOCK;
    switch (fault) {
    case FOPO_FAULT_NO_Q: status = scale_logq(d, logq + first, n, 0.0f); break;
    case FOPO_FAULT_ADDED_Q: status = scale_logq(d, logq + first, n, -1.0f); break;
    default: status = shift_ids(d, ids + first, n, P); break;
    }
  }
  return status;
}
