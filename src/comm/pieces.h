/* Exchanges of any size: what does not fit into one call of MPI goes in pieces, so that no more
 * than FOPO_PIECE bytes are on their way to a rank, and as many from it, beside the arrays. */
#ifndef FOPO_COMM_PIECES_H
#define FOPO_COMM_PIECES_H

#include "comm/comm.h"

#define FOPO_PIECE ((size_t)16 << 20)

/* As fopo_comm_exchange, after `status` of the work before; received [ranks] is known to each rank
 * (fopo_pieces_sizes). */
int fopo_pieces_exchange(void *receive, const size_t *received, const void *send,
                         const size_t *sent, size_t piece, int status);

/* received [ranks]: what each rank says that it sends to this one, sent [ranks]. */
int fopo_pieces_sizes(size_t *received, const size_t *sent, int status);

/* As fopo_comm_gather_parts, after `status` of the work before. */
int fopo_pieces_gather(void *all, const void *mine, const size_t *bytes, size_t piece, int status);

#endif
