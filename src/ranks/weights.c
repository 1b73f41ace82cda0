#include "ranks/weights.h"

#include "comm/comm.h"
#include "core/memory.h"
#include "core/status.h"
#include "data/histories.h"

int fopo_item_weights(float *w, const fopo_encoder *encoder, const fopo_sessions *sessions) {
  size_t P = sessions->X.cols;
  double N = (double)fopo_sessions_count(sessions);
  double *n = fopo_alloc(P, sizeof *n); /* [P] sessions that have each item */
  int status = n != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_interactions_count(n, sessions);
  if (sessions->all > 0) {
    fopo_comm_begin();
    status = fopo_comm_agree(status);
    if (status == FOPO_OK) status = fopo_comm_sum_doubles(n, P);
    status = fopo_comm_end(status);
  }
  for (size_t a = 0; status == FOPO_OK && a < P; a++) {
    w[a] = (float)encoder->weight(n[a] > 1.0 ? n[a] : 1.0, N);
  }
  fopo_free(n);
  return status;
}
