/* Splits of a dataset that is shared out to the ranks (ranks/read.h): each makes the sessions of
 * its own users, which then go to the rank that has their place in the part. No rank has them all.
 */
#ifndef FOPO_RANKS_SPLIT_H
#define FOPO_RANKS_SPLIT_H

#include "data/sessions.h"

/* As fopo_split_by (data/sessions.h), of a dataset that is shared out or not. If it is shared out,
 * so are the sessions, this is collective (comm/comm.h), and it fails on all ranks if one fails. */
int fopo_ranks_split(fopo_split *split, const fopo_dataset *d, const fopo_split_options *options,
                     const fopo_split_plan *plan);

#endif
