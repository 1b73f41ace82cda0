#include "comm/pieces.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"

static size_t sum_of(const size_t *bytes) {
  size_t sum = 0;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) sum += bytes[r];
  return sum;
}

static size_t most_of(const size_t *bytes) {
  size_t most = 0;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) most = bytes[r] > most ? bytes[r] : most;
  return most;
}

/* now [ranks]: the bytes at `at` and behind it of parts of these lengths, at most `step` of each.
 */
static void cut(size_t *now, const size_t *bytes, size_t at, size_t step) {
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    size_t rest = bytes[r] > at ? bytes[r] - at : 0;
    now[r] = rest < step ? rest : step;
  }
}

/* pieces = those of the parts, one after another. */
static void take(char *pieces, const char *parts, const size_t *bytes, const size_t *now,
                 size_t at) {
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    if (now[r] > 0) memcpy(pieces, parts + at, now[r]);
    pieces += now[r];
    parts += bytes[r];
  }
}

/* The way back. */
static void put_pieces(char *parts, const char *pieces, const size_t *bytes, const size_t *now,
                       size_t at) {
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    if (now[r] > 0) memcpy(parts + at, pieces, now[r]);
    pieces += now[r];
    parts += bytes[r];
  }
}

int fopo_pieces_sizes(size_t *received, const size_t *sent, int status) {
  size_t one[FOPO_COMM_RANKS];
  for (size_t r = 0; r < fopo_comm_ranks(); r++) one[r] = sizeof *sent;
  status = fopo_comm_agree(status);
  return status == FOPO_OK ? fopo_comm_exchange(received, one, sent, one) : status;
}

/* The largest of x over the ranks, or `status` if that is a failure. */
static int largest(size_t *x, int status) {
  size_t all[FOPO_COMM_RANKS];
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_comm_gather(all, x, sizeof *x);
  if (status == FOPO_OK) *x = most_of(all);
  return status;
}

int fopo_pieces_exchange(void *receive, const size_t *received, const void *send,
                         const size_t *sent, size_t piece, int status) {
  size_t to[FOPO_COMM_RANKS], from[FOPO_COMM_RANKS];
  size_t ranks = fopo_comm_ranks(), step = piece / ranks + 1;
  size_t most = most_of(sent) > most_of(received) ? most_of(sent) : most_of(received);
  status = largest(&most, status);
  if (status != FOPO_OK) return status;
  if (most <= step) return fopo_comm_exchange(receive, received, send, sent);
  char *out = fopo_alloc(ranks, step), *in = out ? fopo_alloc(ranks, step) : NULL;
  status = fopo_comm_agree(in != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  for (size_t at = 0; at < most && status == FOPO_OK; at += step) {
    cut(to, sent, at, step);
    cut(from, received, at, step);
    take(out, send, sent, to, at);
    status = fopo_comm_exchange(in, from, out, to);
    if (status == FOPO_OK) put_pieces(receive, in, received, from, at);
  }
  fopo_free(out);
  fopo_free(in);
  return status;
}

int fopo_pieces_gather(void *all, const void *mine, const size_t *bytes, size_t piece, int status) {
  size_t now[FOPO_COMM_RANKS], step = piece / fopo_comm_ranks() + 1, most = most_of(bytes);
  status = fopo_comm_agree(status);
  if (status != FOPO_OK) return status;
  if (sum_of(bytes) <= piece) return fopo_comm_gather_parts(all, mine, bytes);
  char *in = fopo_alloc(fopo_comm_ranks(), step);
  status = fopo_comm_agree(in != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  for (size_t at = 0; at < most && status == FOPO_OK; at += step) {
    cut(now, bytes, at, step);
    const char *own = now[fopo_comm_own_rank()] > 0 ? (const char *)mine + at : in;
    status = fopo_comm_gather_parts(in, own, now);
    if (status == FOPO_OK) put_pieces(all, in, bytes, now, at);
  }
  fopo_free(in);
  return status;
}
