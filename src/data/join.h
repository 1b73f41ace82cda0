/* Given files for train, valid and test as one dataset, in which users and items of the same name
 * are the same. */
#ifndef FOPO_DATA_JOIN_H
#define FOPO_DATA_JOIN_H

#include "data/dataset.h"

typedef struct {
  fopo_dataset *dataset;
  uint8_t
      *windows; /* [nnz] FOPO_IN_TRAIN, FOPO_IN_VALID, FOPO_IN_TEST: which files have the pair */
  size_t new_users[3], new_items[3]; /* with interactions in file p and none in the first */
} fopo_joined;

/* parts [3]: train, valid, test; NULL: there is none. Indices are those of the first file, followed
 * by what only the others have, in their order. Datasets whose ids are indices agree by these.
 * Times are kept if every part has them. */
int fopo_dataset_join(fopo_joined *joined, const fopo_dataset *const parts[3]);
void fopo_joined_done(fopo_joined *joined); /* accepts {0} */

#endif
