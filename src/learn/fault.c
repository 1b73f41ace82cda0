/* Mistakes that are planted on purpose, so that a lesson can show what they do and a test can see
 * that the checks find them. They change what was drawn before anything is computed from it, by
 * way of the host and in small pieces: right on every device, slow, and without allocation. */
#include "core/status.h"
#include "learn/gradient_internal.h"

const char *const fopo_fault_names[FOPO_FAULTS] = {"none", "no_q", "added_q", "off_by_one"};

enum { PIECE = 1024 };

/* w = exp(f) instead of exp(f) / q, or w = exp(f) q */
static int spoil_logq(fopo_gradient *g, size_t first, size_t n, float factor) {
  float logq[PIECE];
  fopo_device *d = g->device;
  int status = d->ops->get(d, logq, g->dev.logq + first, n * sizeof *logq);
  for (size_t i = 0; i < n && status == FOPO_OK; i++) logq[i] *= factor;
  return status == FOPO_OK ? d->ops->put(d, g->dev.logq + first, logq, n * sizeof *logq) : status;
}

/* The item after the one that was drawn. */
static int spoil_ids(fopo_gradient *g, size_t first, size_t n) {
  uint32_t ids[PIECE];
  fopo_device *d = g->device;
  int status = d->ops->get(d, ids, g->dev.ids + first, n * sizeof *ids);
  for (size_t i = 0; i < n && status == FOPO_OK; i++)
    ids[i] = (uint32_t)((ids[i] + (size_t)1) % g->P);
  return status == FOPO_OK ? d->ops->put(d, g->dev.ids + first, ids, n * sizeof *ids) : status;
}

int fopo_gradient_plant(fopo_gradient *g, fopo_fault fault) {
  if (fault != FOPO_FAULT_NONE && g->options.kind != FOPO_GRADIENT_SNIS) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "a fault can be planted in a snis gradient only");
  }
  if (g->stage != FOPO_STAGE_IDLE) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the gradient is in the middle of a batch");
  }
  g->fault = fault;
  return FOPO_OK;
}

fopo_fault fopo_gradient_planted(const fopo_gradient *g) { return g->fault; }

int fopo_gradient_inject_fault(fopo_gradient *g, size_t n) {
  size_t draws = n * g->S;
  int status = FOPO_OK;
  if (g->fault == FOPO_FAULT_NONE) return FOPO_OK;
  for (size_t first = 0; first < draws && status == FOPO_OK; first += PIECE) {
    size_t count = draws - first < PIECE ? draws - first : PIECE;
    switch (g->fault) {
    case FOPO_FAULT_NO_Q: status = spoil_logq(g, first, count, 0.0f); break;
    case FOPO_FAULT_ADDED_Q: status = spoil_logq(g, first, count, -1.0f); break;
    default: status = spoil_ids(g, first, count); break;
    }
  }
  return status;
}
