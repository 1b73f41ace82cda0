/* Rank after rank adds its names to a dictionary that each keeps, and sends the others those that
 * were new. */
#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "data/merge.h"
#include "data/read/ranks.h"

enum { PIECE = 16 << 20 }; /* bytes of names that are sent at once, unless one name is longer */

/* What is sent next; n = 0: nothing is. */
typedef struct {
  uint64_t n, bytes;
  int is_text;
} head;

/* The names from `at` on that fit into a piece, at least one. */
static head next_piece(const fopo_ids *all, size_t at) {
  head h = {.is_text = all->is_text};
  if (!all->is_text) {
    size_t most = PIECE / sizeof *all->numbers;
    h.n = all->n - at < most ? all->n - at : most;
    h.bytes = h.n * sizeof *all->numbers;
    return h;
  }
  uint64_t from = at < all->n ? all->offsets[at] : 0;
  while (at + h.n < all->n && (h.n == 0 || all->offsets[at + h.n + 1] - from <= PIECE)) h.n++;
  h.bytes = h.n > 0 ? all->offsets[at + h.n] - from : 0;
  return h;
}

static int add_piece(fopo_ids *all, const char *bytes, head h) {
  int status = FOPO_OK;
  uint32_t index;
  for (uint64_t i = 0; i < h.n && status == FOPO_OK; i++) {
    if (h.is_text) {
      size_t length = strlen(bytes);
      status = fopo_ids_add(all, &index, bytes, length);
      bytes += length + 1;
    } else {
      int64_t number;
      memcpy(&number, bytes + i * sizeof number, sizeof number);
      status = fopo_ids_number(all, &index, number);
    }
  }
  return status;
}

/* Sends a piece of rank r's names, which are those from `at` on there; *h says what it was. */
static int send_piece(fopo_ids *all, size_t at, size_t r, head *h, int status) {
  int mine = fopo_comm_own_rank() == r;
  char *buffer = NULL;
  if (mine && status == FOPO_OK) *h = next_piece(all, at);
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_comm_broadcast(h, sizeof *h, r);
  if (status != FOPO_OK || h->n == 0) return status;
  if (!mine) buffer = fopo_alloc((size_t)h->bytes, 1);
  status = fopo_comm_agree(mine || buffer != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  if (status == FOPO_OK) {
    void *from = buffer;
    if (mine) from = all->is_text ? (void *)(all->text + all->offsets[at]) : all->numbers + at;
    status = fopo_comm_broadcast(from, (size_t)h->bytes, r);
  }
  if (status == FOPO_OK && !mine) status = add_piece(all, buffer, *h);
  fopo_free(buffer);
  return status;
}

/* The names that rank r has from `at` on go to all. */
static int send_new(fopo_ids *all, size_t at, size_t r, int status) {
  head h = {0};
  do {
    at += h.n;
    h = (head){0};
    status = send_piece(all, at, r, &h, status);
  } while (status == FOPO_OK && h.n > 0);
  return status;
}

int fopo_ranks_names(fopo_names *whole, uint32_t **place, fopo_ids *own) {
  fopo_ids all = {0};
  fopo_names mine;
  uint32_t *order = NULL;
  fopo_ids_move(&mine, own);
  fopo_ids_done(own);
  size_t n = mine.n;
  *whole = (fopo_names){0};
  *place = fopo_alloc(n, sizeof **place);
  int status = *place != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    size_t before = all.n;
    if (r == fopo_comm_own_rank() && status == FOPO_OK) {
      status = fopo_merge_names(&all, *place, &mine);
      fopo_names_done(&mine);
    }
    status = send_new(&all, before, r, status);
    if (status != FOPO_OK) break;
  }
  if (status == FOPO_OK) status = fopo_ids_finish(whole, &order, &all);
  if (status == FOPO_OK) status = fopo_merge_renumber(*place, order, n);
  fopo_ids_done(&all);
  fopo_names_done(&mine);
  fopo_free(order);
  return status;
}
