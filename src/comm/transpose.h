/* The transpose of a sparse matrix whose rows are shared out to the ranks. */
#ifndef FOPO_COMM_TRANSPOSE_H
#define FOPO_COMM_TRANSPOSE_H

#include "core/csr.h"

/* *turned becomes this rank's share of the rows of the transpose of a matrix of `rows` rows, of
 * which `mine` are its share; values NULL. Takes 4 bytes twice for each entry, and 4 for each
 * column, while it works. Collective (comm/comm.h), after `status` of the work before. */
int fopo_csr_transpose_shares(fopo_csr *turned, const fopo_csr *mine, size_t rows, int status);

#endif
