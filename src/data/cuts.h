/* Where the windows of a split by time begin. */
#ifndef FOPO_DATA_CUTS_H
#define FOPO_DATA_CUTS_H

#include "data/sessions.h"

/* from [2]: where the windows of valid and test begin, as the plan says, else by the shares of the
 * interactions. Then floor(test * nnz) of them are at or after from[1], and floor(valid * nnz) more
 * at or after from[0]; still more if several have the same time. nnz and times are those of all
 * processes. Called by all of them, after `status` of the work before. */
int fopo_cuts(double *from, const fopo_dataset *d, const fopo_split_options *options,
              const fopo_split_plan *plan, const fopo_split_others *others, int status);

#endif
