/* Hashed features, and the catalogue of actions that are known by their features (Vowpal Wabbit's
 * ADF events and dsjson). */
#ifndef FOPO_DATA_LOGS_HASHED_H
#define FOPO_DATA_LOGS_HASHED_H

#include "data/ids.h"

/* Adds value * sign to the column of a feature: column = hash mod 2^bits, the sign is a bit of the
 * hash, so that inner products are kept in the mean (Weinberger et al.: "Feature hashing for large
 * scale multitask learning", ICML 2009). The name is hashed together with its namespace. */
void fopo_feature_add(float *row, size_t bits, const char *space, size_t space_n, const char *name,
                      size_t name_n, double value);

/* The actions of all events. A policy of fopo chooses from one fixed catalogue, so the first good
 * event defines it and all others must offer the same actions. Start from {.bits = bits}. */
typedef struct {
  size_t bits;
  size_t size;       /* actions, once the first event is complete (set by the reader); 0: open */
  fopo_ids ids;      /* the actions by the text of their features */
  float *items;      /* [capacity, 2^bits] their hashed features, filled by the reader */
  uint32_t *offered; /* [capacity] the event in which each was last offered */
  size_t capacity;
} fopo_catalogue;

void fopo_catalogue_done(fopo_catalogue *c); /* accepts {0} */

/* Forgets the actions of an event that turned out malformed, while the catalogue is open. */
void fopo_catalogue_reset(fopo_catalogue *c);

typedef enum {
  FOPO_ACTION_KNOWN,
  FOPO_ACTION_NEW,     /* its row of items is zero, to be filled */
  FOPO_ACTION_FOREIGN, /* the first event does not offer it */
  FOPO_ACTION_TWICE    /* it has been offered in this event */
} fopo_offer;

/* An event (numbered from 1) offers the action of this text. */
int fopo_catalogue_offer(fopo_catalogue *c, uint32_t *index, fopo_offer *offer, size_t event,
                         const char *text, size_t n);

static inline float *fopo_catalogue_row(const fopo_catalogue *c, uint32_t index) {
  return c->items + ((size_t)index << c->bits);
}

#endif
