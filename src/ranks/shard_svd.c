/* fopo_embed_svd over columns and users that are shared out: rank r has the columns M_r of its
 * range of the items (ranks/columns.h) and its rows W_r of every matrix by items; of a matrix by
 * users, Y, the rows Y_r of its block of the users:
 *
 *     Y_b = sum over ranks r of (M_r)_b W_r      (M_r)_b W_r goes to rank b, which adds up
 *     W_r = sum over blocks b of (M_r)_b^T Y_b   broadcast of Y_b by its rank, for each b
 *     Gram matrices: sums of those of Y_r, W_r   all-reduce of l x l doubles
 *
 * Y_b is added up in the order of the ranks, so its bits depend on their number alone. Both
 * products are made in pieces, with an agreement before what each sends: so all ranks leave soon
 * if one is interrupted, or fails.
 *
 * The sketch is the same function of (seed, row, column) as in core/svd.c, so the span is that of
 * one process up to rounding. */
#include <math.h>
#include <string.h>

#include "comm/pieces.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/qr.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"
#include "data/histories.h"
#include "ranks/shard.h"
#include "ranks/shared.h"

/* ---- the interactions by columns ---- */

/* Each rank has the interactions of its range of the items, fopo_comm_share of them, and all users
 * in blocks: block b are the users whose sessions rank b makes, or has. No rank holds all
 * interactions, and what it holds takes memory by its own entries alone, not by users. */

typedef struct {
  size_t N, P;     /* users and items of all ranks */
  int by_degree;   /* of the normalised matrix: M and Mt have values */
  size_t first, n; /* the items of this rank */
  fopo_csr M;      /* [rows, n] X + Y of the users that took one of these items; owned, as Mt and
                      users */
  uint32_t *users; /* [rows] their places, ascending */
  fopo_csr Mt;     /* [n, N], the transpose; its ids are places of users */
  uint64_t *next;  /* [n] entries of Mt that by_items has used; owned */
} columns;

/* The users of block b: from *first on, as many as are returned. */
static inline size_t columns_block(size_t *first, const columns *c, size_t b) {
  return fopo_comm_share(first, c->N, b, fopo_comm_ranks());
}

static void columns_done(columns *c) {
  fopo_csr_done(&c->M);
  fopo_csr_done(&c->Mt);
  fopo_free(c->users);
  fopo_free(c->next);
  *c = (columns){0};
}

/* ---- sending ---- */

/* A user before the user's items: `count` of them go to a rank, of `all`. */
typedef struct {
  uint32_t place, count, all;
} head;

/* What each rank gets: heads and items, in the order of the ranks. */
typedef struct {
  head *heads;
  uint32_t *ids;
  size_t users[FOPO_COMM_RANKS], entries[FOPO_COMM_RANKS];
} parcel;

static void parcel_done(parcel *p) {
  fopo_free(p->heads);
  fopo_free(p->ids);
}

static size_t sum_of(const size_t *x) {
  size_t sum = 0;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) sum += x[r];
  return sum;
}

static int parcel_init(parcel *p) {
  p->heads = fopo_alloc(sum_of(p->users), sizeof *p->heads);
  p->ids = fopo_alloc(sum_of(p->entries), sizeof *p->ids);
  return p->heads != NULL && p->ids != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

/* Counts what goes to each rank of the rows of m, the users from place `first` on; or, if p has
 * room, writes it. at [rows]: scratch. */
static void pack(parcel *p, const fopo_csr *m, size_t first, uint32_t *at) {
  size_t user = 0, entry = 0, begin;
  memset(at, 0, m->rows * sizeof *at);
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    size_t end = fopo_comm_share(&begin, m->cols, r, fopo_comm_ranks()) + begin;
    p->users[r] = p->entries[r] = 0;
    for (size_t row = 0; row < m->rows; row++) { /* ids ascend: at[row] is the first one of r */
      const uint32_t *ids = fopo_csr_row(m, row);
      size_t from = at[row], to = from, count = fopo_csr_count(m, row);
      while (to < count && ids[to] < end) to++;
      at[row] = (uint32_t)to;
      if (to == from) continue;
      p->users[r]++;
      p->entries[r] += to - from;
      if (p->heads == NULL) continue;
      p->heads[user++] = (head){(uint32_t)(first + row), (uint32_t)(to - from), (uint32_t)count};
      for (size_t i = from; i < to; i++) p->ids[entry++] = ids[i] - (uint32_t)begin;
    }
  }
}

/* The parcel for each rank of this rank's interactions. */
static int make_parcel(parcel *p, const fopo_csr *m, size_t first) {
  uint32_t *at = fopo_alloc(m->rows, sizeof *at);
  int status = at != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) pack(p, m, first, at);
  if (status == FOPO_OK) status = parcel_init(p);
  if (status == FOPO_OK) pack(p, m, first, at);
  fopo_free(at);
  return status;
}

static int send(parcel *come, const parcel *go, int status) {
  size_t to[FOPO_COMM_RANKS], from[FOPO_COMM_RANKS];
  status = fopo_pieces_sizes(come->users, go->users, status);
  status = fopo_pieces_sizes(come->entries, go->entries, status);
  if (status == FOPO_OK) status = parcel_init(come);
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    to[r] = go->users[r] * sizeof(head);
    from[r] = come->users[r] * sizeof(head);
  }
  status = fopo_pieces_exchange(come->heads, from, go->heads, to, FOPO_PIECE, status);
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    to[r] = go->entries[r] * sizeof *go->ids;
    from[r] = come->entries[r] * sizeof *come->ids;
  }
  return fopo_pieces_exchange(come->ids, from, go->ids, to, FOPO_PIECE, status);
}

/* X + Y of the users of this rank's block. */
static int own_interactions(fopo_csr *m, const fopo_sessions *s) {
  size_t first, n = fopo_comm_own_share(&first, fopo_sessions_count(s));
  fopo_sessions own = *s;
  if (s->all == 0) {
    own.X = fopo_csr_rows(&s->X, first, n);
    own.Y = fopo_csr_rows(&s->Y, first, n);
  }
  return fopo_interactions(m, &own);
}

/* ---- what has come ---- */

/* M and users of the parcels, whose users ascend since those of rank b do, and lie before those of
 * rank b + 1. By degree the values of M are the interactions of each user with items of all ranks.
 */
static int unpack(columns *c, parcel *p) {
  size_t rows = sum_of(p->users);
  c->users = fopo_alloc(rows, sizeof *c->users);
  int status = c->users != NULL ? fopo_csr_init(&c->M, rows, c->n, 0, 0) : FOPO_ERR_MEMORY;
  if (status != FOPO_OK) return status;
  for (size_t i = 0; i < rows; i++) {
    c->users[i] = p->heads[i].place;
    c->M.indptr[i + 1] = c->M.indptr[i] + p->heads[i].count;
  }
  if (c->by_degree) {
    c->M.values = fopo_alloc(fopo_csr_nnz(&c->M), sizeof *c->M.values);
    if (c->M.values == NULL) return FOPO_ERR_MEMORY;
    for (size_t i = 0; i < rows; i++) {
      for (uint64_t e = c->M.indptr[i]; e < c->M.indptr[i + 1]; e++) {
        c->M.values[e] = (float)p->heads[i].all;
      }
    }
  }
  fopo_free(c->M.ids);
  c->M.ids = p->ids; /* of the same size */
  p->ids = NULL;
  return FOPO_OK;
}

/* The values of M and Mt become those of the normalised matrix. */
static void normalise(columns *c) {
  for (size_t e = 0; e < fopo_csr_nnz(&c->M); e++) {
    double n_a = (double)fopo_csr_count(&c->Mt, c->M.ids[e]);
    c->M.values[e] = fopo_embed_entry((double)c->M.values[e], n_a);
  }
  for (size_t a = 0; a < c->n; a++) {
    double n_a = (double)fopo_csr_count(&c->Mt, a);
    for (uint64_t e = c->Mt.indptr[a]; e < c->Mt.indptr[a + 1]; e++) {
      c->Mt.values[e] = fopo_embed_entry((double)c->Mt.values[e], n_a);
    }
  }
}

static int transpose(columns *c) {
  int status = fopo_csr_transpose(&c->Mt, &c->M);
  if (status != FOPO_OK) return status;
  for (size_t e = 0; e < fopo_csr_nnz(&c->Mt); e++) c->Mt.ids[e] = c->users[c->Mt.ids[e]];
  c->Mt.cols = c->N;
  if (c->by_degree) normalise(c);
  c->next = fopo_alloc(c->n, sizeof *c->next);
  return c->next != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

/* Of sessions that are shared out, or the same on every rank. Collective (comm/comm.h), after
 * `status` of the work before. */
static int columns_init(columns *c, const fopo_sessions *s, int by_degree, int status) {
  fopo_csr own = {0};
  parcel go = {0}, come = {0};
  size_t first;
  *c = (columns){.N = fopo_sessions_count(s), .P = s->X.cols, .by_degree = by_degree};
  fopo_comm_own_share(&first, c->N);
  c->n = fopo_comm_own_share(&c->first, c->P);
  if (status == FOPO_OK) status = own_interactions(&own, s);
  if (status == FOPO_OK) status = make_parcel(&go, &own, first);
  fopo_csr_done(&own);
  status = send(&come, &go, status);
  parcel_done(&go);
  if (status == FOPO_OK) status = unpack(c, &come);
  parcel_done(&come);
  if (status == FOPO_OK) status = transpose(c);
  return fopo_comm_agree(status);
}

/* ---- products ---- */

/* Y [users, l] = M W for the users from place `first` on, W [n, l]. */
static void columns_by_users(fopo_matrix Y, const columns *c, size_t first, fopo_matrix W) {
  size_t begin = fopo_sorted_place(c->users, c->M.rows, (uint32_t)first);
  size_t end = fopo_sorted_place(c->users, c->M.rows, (uint32_t)(first + Y.rows));
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t i = 0; i < Y.rows; i++) memset(fopo_matrix_row(Y, i), 0, Y.cols * sizeof *Y.x);
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 256)
  for (size_t i = begin; i < end; i++) {
    const float *values = c->by_degree ? c->M.values + c->M.indptr[i] : NULL;
    fopo_csr_add_rows(fopo_matrix_row(Y, c->users[i] - first), fopo_csr_row(&c->M, i), values,
                      fopo_csr_count(&c->M, i), 0, 0, W);
  }
}

/* The first item before which there are at least p / parts of the entries. */
static size_t find_item(const columns *c, size_t p, size_t parts) {
  size_t low = 0, high = c->n;
  if (p == parts) return high;
  uint64_t entries = fopo_csr_nnz(&c->Mt) / parts * p;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (c->Mt.indptr[middle] < entries) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/* Of the items cut into `parts` of about as many entries each: part p, from *first on. */
static size_t columns_part(size_t *first, const columns *c, size_t p, size_t parts) {
  *first = find_item(c, p, parts);
  return find_item(c, p + 1, parts) - *first;
}

/* The rows of `items` from place `at` on of W += M_b^T Y, items [.., l]; to be called for all
 * blocks in their order, each with all items; for the first block W = M_b^T Y. Y [users of the
 * block, l]. */
static void columns_by_items(fopo_matrix items, size_t at, columns *c, size_t b, fopo_matrix Y) {
  size_t first, n = columns_block(&first, c, b);
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 16)
  for (size_t i = 0; i < items.rows; i++) {
    size_t a = at + i;
    float *w = fopo_matrix_row(items, i);
    if (b == 0) memset(w, 0, items.cols * sizeof *w);
    uint64_t begin = b == 0 ? c->Mt.indptr[a] : c->next[a], end = begin;
    while (end < c->Mt.indptr[a + 1] && c->Mt.ids[end] < first + n) end++;
    const float *values = c->by_degree ? c->Mt.values + begin : NULL;
    fopo_csr_add_rows(w, c->Mt.ids + begin, values, (size_t)(end - begin), 0, first, Y);
    c->next[a] = end;
  }
}

/* Multiply-adds of a rank between two agreements, about: 10 to 50 ms. */
#define SLAB ((size_t)32 << 20)
static size_t slab = SLAB;

void fopo_shard_svd_slab(size_t multiply_adds) { slab = multiply_adds > 0 ? multiply_adds : SLAB; }

typedef struct {
  columns M;
  size_t first, rows, l;  /* the users of this rank's block; columns of the sketch */
  size_t stripe;          /* users of each block whose Y is made at once */
  size_t parts;           /* of the items: W of a block is made for one at a time */
  fopo_matrix Y, W, C, G; /* [rows, l], [n, l], [l, l], [l, l] */
  fopo_matrix of_others;  /* [rows of the largest block or more, l] Y of another rank, or what is
                             sent to the others and comes of them of a stripe */
  double *Gy, *Gw;        /* [l, l] */
  float *s;               /* [l] */
} job;

static void done(job *j) {
  columns_done(&j->M);
  fopo_matrix_done(&j->Y);
  fopo_matrix_done(&j->W);
  fopo_matrix_done(&j->C);
  fopo_matrix_done(&j->G);
  fopo_matrix_done(&j->of_others);
  fopo_free(j->Gy);
  fopo_free(j->Gw);
  fopo_free(j->s);
  *j = (job){0};
}

/* The shapes; refuses a dim that there is not. */
static int measure(job *j, const fopo_sessions *sessions, const fopo_svd_options *o) {
  size_t N = fopo_sessions_count(sessions), P = sessions->X.cols, most = N < P ? N : P;
  size_t extra = o->oversample == 0 ? 10 : o->oversample;
  if (o->dim < 1 || o->dim > most) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "dim is %zu but %zu users and %zu items have %zu singular vectors; use 1 to "
                     "%zu",
                     o->dim, N, P, most, most);
  }
  j->l = (o->dim + (extra < most ? extra : most) + 15) / 16 * 16;
  if (j->l > most) j->l = most;
  j->rows = fopo_comm_own_share(&j->first, N);
  return FOPO_OK;
}

/* The pieces of the products, the same on all ranks. Collective. */
static int plan(job *j) {
  size_t all[FOPO_COMM_RANKS], nnz = fopo_csr_nnz(&j->M.M), most = 0, ranks = fopo_comm_ranks();
  int status = fopo_comm_gather(all, &nnz, sizeof nnz);
  for (size_t r = 0; r < ranks && status == FOPO_OK; r++) most = all[r] > most ? all[r] : most;
  /* A rank makes one for each block, of users with so many entries here. */
  size_t stripe = slab / (ranks * j->l * (most / j->M.N + 1));
  if (ranks > 1) { /* half of the rows for what is sent, half for what comes */
    size_t sent = FOPO_PIECE / ((ranks - 1) * j->l * sizeof(float));
    size_t held = j->of_others.rows / 2 / (ranks - 1);
    stripe = stripe < sent ? stripe : sent;
    stripe = stripe < held ? stripe : held;
  }
  j->stripe = stripe > 1 ? stripe : 1;
  j->parts = (most / ranks + j->M.P / ranks) * j->l / slab + 1;
  return status;
}

static int init(job *j, const fopo_sessions *sessions, const fopo_embed_options *o) {
  size_t l, n, first, ranks = fopo_comm_ranks();
  size_t largest = fopo_sessions_count(sessions) / ranks + 1;
  int status = measure(j, sessions, &o->svd);
  if (status != FOPO_OK) return status; /* on all ranks */
  l = j->l;
  n = fopo_comm_own_share(&first, sessions->X.cols);
  size_t nnz = fopo_csr_nnz(&sessions->X) + fopo_csr_nnz(&sessions->Y);
  if (sessions->all == 0) nnz /= ranks;
  if (largest < 2 * (ranks - 1)) largest = 2 * (ranks - 1); /* a user of each block */
  size_t N = fopo_sessions_count(sessions), users = N < nnz ? N : nnz;
  uint64_t bytes = (uint64_t)(j->rows + largest + n + 2 * l) * l * sizeof(float) +
                   (uint64_t)n * o->svd.dim * sizeof(float) + 2 * (uint64_t)users * sizeof(head) +
                   (o->by_degree ? 4 : 2) * (uint64_t)nnz * sizeof(uint32_t);
  status = fopo_memory_suffices(bytes, "the SVD", "use a smaller dim, or more machines");
  status = columns_init(&j->M, sessions, o->by_degree, status);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->Y, j->rows, l);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->W, n, l);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->C, l, l);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->G, l, l);
  if (status == FOPO_OK && ranks > 1) status = fopo_matrix_init(&j->of_others, largest, l);
  if (status == FOPO_OK) {
    j->s = fopo_alloc(l, sizeof *j->s);
    j->Gy = fopo_alloc(l * l, sizeof *j->Gy);
    j->Gw = fopo_alloc(l * l, sizeof *j->Gw);
    if (!j->s || !j->Gy || !j->Gw) status = FOPO_ERR_MEMORY;
  }
  status = fopo_comm_agree(status);
  return status == FOPO_OK ? plan(j) : status;
}

/* ---- products ---- */

static int report(void) { return fopo_progress("finding singular vectors", 0.0, 0.0); }

/* The users of block b in the stripe that begins `at` users behind its first: from *first on, as
 * many as are returned. */
static size_t stripe_of(size_t *first, const job *j, size_t b, size_t at) {
  size_t n = columns_block(first, &j->M, b), rest = n > at ? n - at : 0;
  *first += at;
  return rest < j->stripe ? rest : j->stripe;
}

/* This rank's sums for the users of a stripe: `own` for those of its block; those for the other
 * blocks into of_others, sent [ranks] bytes of them. */
static void multiply_stripe(job *j, size_t *sent, fopo_matrix own, size_t at) {
  size_t first, row = 0;
  for (size_t b = 0; b < fopo_comm_ranks(); b++) {
    size_t n = stripe_of(&first, j, b, at);
    int is_own = b == fopo_comm_own_rank();
    fopo_matrix Y = is_own ? own : fopo_matrix_rows(j->of_others, row, n);
    columns_by_users(Y, &j->M, first, j->W);
    sent[b] = is_own ? 0 : n * j->l * sizeof *Y.x;
    row += is_own ? 0 : n;
  }
}

/* own [n, l], this rank's sums, becomes those of all ranks; come [ranks - 1, n, l]: the sums of the
 * others, which are overwritten. Neighbours are added first, then pairs of them, and so on. */
static void add_up(fopo_matrix own, float *come) {
  size_t ranks = fopo_comm_ranks(), rank = fopo_comm_own_rank(), l = own.cols;
#pragma omp parallel for num_threads(fopo_threads())
  for (size_t i = 0; i < own.rows; i++) {
    float *row[FOPO_COMM_RANKS];
    for (size_t r = 0; r < ranks; r++) {
      size_t place = r < rank ? r : r - 1; /* of what has come */
      row[r] = r == rank ? fopo_matrix_row(own, i) : come + (place * own.rows + i) * l;
    }
    for (size_t apart = 1; apart < ranks; apart *= 2) {
      for (size_t r = 0; r + apart < ranks; r += 2 * apart) {
        for (size_t k = 0; k < l; k++) row[r][k] += row[r + apart][k];
      }
    }
    if (rank > 0) memcpy(row[rank], row[0], l * sizeof **row);
  }
}

/* Y = M W. Collective. */
static int by_users(job *j, int status) {
  size_t sent[FOPO_COMM_RANKS], come[FOPO_COMM_RANKS], first, ranks = fopo_comm_ranks();
  size_t longest = (j->M.N + ranks - 1) / ranks; /* of the blocks */
  for (size_t at = 0; at < longest; at += j->stripe) {
    size_t n = stripe_of(&first, j, fopo_comm_own_rank(), at);
    fopo_matrix own = fopo_matrix_rows(j->Y, at < j->rows ? at : j->rows, n);
    float *other = ranks > 1 ? fopo_matrix_row(j->of_others, j->of_others.rows / 2) : NULL;
    if (status == FOPO_OK) multiply_stripe(j, sent, own, at);
    if (status == FOPO_OK) status = report();
    for (size_t r = 0; r < ranks; r++) come[r] = n * j->l * sizeof *other;
    come[fopo_comm_own_rank()] = 0;
    status = fopo_comm_agree(status);
    if (status == FOPO_OK) status = fopo_comm_exchange(other, come, j->of_others.x, sent);
    if (status != FOPO_OK) return status;
    add_up(own, other);
  }
  return FOPO_OK;
}

/* Where this rank has Y of block b, or puts it. */
static fopo_matrix block_of(const job *j, size_t b) {
  size_t first;
  if (b == fopo_comm_own_rank()) return j->Y;
  return fopo_matrix_rows(j->of_others, 0, columns_block(&first, &j->M, b));
}

/* Y of block b goes to all ranks. Collective. */
static int send_block(const job *j, fopo_matrix Y, size_t b, int status) {
  size_t bytes = j->l * sizeof *Y.x, each = FOPO_PIECE / bytes + 1;
  for (size_t at = 0; at < Y.rows; at += each) {
    size_t n = Y.rows - at < each ? Y.rows - at : each;
    if (status == FOPO_OK) status = report();
    status = fopo_comm_agree(status);
    if (status == FOPO_OK) status = fopo_comm_broadcast(fopo_matrix_row(Y, at), n * bytes, b);
    if (status != FOPO_OK) return status;
  }
  return status;
}

/* W = M^T Y. Collective. */
static int by_items(job *j, int status) {
  size_t first;
  for (size_t b = 0; b < fopo_comm_ranks(); b++) {
    fopo_matrix Y = block_of(j, b);
    status = send_block(j, Y, b, status);
    for (size_t p = 0; p < j->parts; p++) {
      if (p > 0) status = fopo_comm_agree(report());
      if (status != FOPO_OK) return status;
      size_t n = columns_part(&first, &j->M, p, j->parts);
      columns_by_items(fopo_matrix_rows(j->W, first, n), first, &j->M, b, Y);
    }
  }
  return FOPO_OK;
}

/* G [l, l] = A^T A over all ranks, A their rows of a matrix. Collective. */
static int gram(double *G, fopo_matrix A, int status) {
  size_t cells = A.cols * A.cols;
  if (A.rows == 0) memset(G, 0, cells * sizeof *G);
  if (status == FOPO_OK && A.rows > 0) status = fopo_gram(G, A);
  status = fopo_comm_agree(status);
  return status == FOPO_OK ? fopo_comm_sum_doubles(G, cells) : status;
}

/* A = A C. */
static int times(fopo_matrix A, fopo_matrix C) {
  enum { BLOCK = 4096 };
  fopo_matrix product = {0};
  int status = fopo_matrix_init(&product, A.rows < BLOCK ? A.rows : BLOCK, A.cols);
  for (size_t first = 0; first < A.rows && status == FOPO_OK; first += BLOCK) {
    size_t n = A.rows - first < BLOCK ? A.rows - first : BLOCK;
    fopo_matrix rows = fopo_matrix_rows(A, first, n), made = fopo_matrix_rows(product, 0, n);
    status = fopo_gemm(made, 1.0f, rows, 0, C, 0, 0.0f);
    if (status == FOPO_OK) memcpy(rows.x, made.x, n * A.cols * sizeof *made.x);
    if (status == FOPO_OK) status = report();
  }
  fopo_matrix_done(&product);
  return status;
}

/* A, whose rows all ranks have, becomes roughly orthonormal: A U diag(s)^(-1/2) for A^T A = U
 * diag(s) U^T. Collective. */
static int separate(job *j, fopo_matrix A, int status) {
  size_t l = j->l;
  status = gram(j->Gw, A, status);
  if (status != FOPO_OK) return status;
  for (size_t a = 0; a < l; a++) {
    for (size_t b = 0; b < l; b++) {
      fopo_matrix_row(j->G, a)[b] = (float)j->Gw[a < b ? a * l + b : b * l + a];
    }
  }
  status = fopo_svd_dense(j->C, j->s, (fopo_matrix){0}, j->G);
  if (status != FOPO_OK) return status;
  for (size_t b = 0; b < l; b++) {
    float scale = 1.0f / sqrtf(fmaxf(j->s[b], 1e-6f * j->s[0]));
    for (size_t a = 0; a < l; a++) fopo_matrix_row(j->C, a)[b] *= isfinite(scale) ? scale : 0.0f;
  }
  return times(A, j->C);
}

static int iterate(job *j, const fopo_svd_options *o) {
  int on_rows = j->M.N < j->M.P, status = FOPO_OK;
  if (on_rows) {
    fopo_svd_sketch(j->Y, j->first, o->seed);
  } else {
    fopo_svd_sketch(j->W, j->M.first, o->seed);
    status = by_users(j, FOPO_OK);
  }
  for (size_t q = 0; q < o->power_iterations; q++) {
    if (q > 0 || !on_rows) status = separate(j, j->Y, status);
    status = by_items(j, status);
    status = by_users(j, separate(j, j->W, status));
    if (status != FOPO_OK) return status;
  }
  return status;
}

/* ---- the answer ---- */

/* signs [dim]: of the entry of largest magnitude of each column of V, over all ranks. */
static int find_signs(float *signs, fopo_matrix V) {
  float *all = fopo_alloc(fopo_comm_ranks() * V.cols, sizeof *all);
  int status = fopo_comm_agree(all != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  memset(signs, 0, V.cols * sizeof *signs);
  for (size_t i = 0; i < V.rows; i++) {
    const float *v = fopo_matrix_row(V, i);
    for (size_t c = 0; c < V.cols; c++) signs[c] = fabsf(v[c]) > fabsf(signs[c]) ? v[c] : signs[c];
  }
  if (status == FOPO_OK) status = fopo_comm_gather(all, signs, V.cols * sizeof *signs);
  for (size_t c = 0; c < V.cols && status == FOPO_OK; c++) {
    float largest = 0.0f;
    for (size_t r = 0; r < fopo_comm_ranks(); r++) {
      float one = all[r * V.cols + c];
      largest = fabsf(one) > fabsf(largest) ? one : largest;
    }
    signs[c] = largest < 0.0f ? -1.0f : 1.0f;
  }
  fopo_free(all);
  return status;
}

/* V [n, dim] = the range's rows of the right singular vectors, and j->s. */
static int extract(job *j, fopo_matrix V, int status) {
  fopo_matrix C = j->C;
  int trusted = 0;
  C.cols = V.cols;
  status = gram(j->Gy, j->Y, status);
  status = by_items(j, status);
  status = gram(j->Gw, j->W, status);
  if (status == FOPO_OK) status = fopo_svd_of_grams(C, j->s, j->Gy, j->Gw, &trusted);
  if (status == FOPO_OK && !trusted) {
    status = fopo_fail(FOPO_ERR_NUMERIC,
                       "the interactions have fewer than %zu directions that can be told apart; "
                       "use a smaller dim or oversample",
                       j->l);
  }
  if (status == FOPO_OK) status = fopo_gemm(V, 1.0f, j->W, 0, C, 0, 0.0f);
  return fopo_comm_agree(status);
}

/* Of the items of the range, how many occur. */
static double count_used(const job *j) {
  double used = 0.0;
  for (size_t a = 0; a < j->M.n; a++) used += fopo_csr_count(&j->M.Mt, a) > 0;
  return used;
}

/* V_a becomes n_a^1/2 V_a. */
static void scale_rows(fopo_matrix V, const columns *c) {
  for (size_t a = 0; a < V.rows; a++) {
    float *row = fopo_matrix_row(V, a), root = sqrtf((float)fopo_csr_count(&c->Mt, a));
    for (size_t k = 0; k < V.cols; k++) row[k] *= root;
  }
}

/* factor [V.cols] of the columns of V, whose rows all ranks have; by degree V_a becomes n_a^1/2
 * V_a. Collective. */
static int find_factors(float *factor, fopo_matrix V, const job *j, const fopo_embed_options *o) {
  double seen = count_used(j), *squares = fopo_alloc(V.cols, sizeof *squares);
  int status = fopo_comm_agree(squares != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  if (status == FOPO_OK) status = fopo_comm_sum_doubles(&seen, 1);
  if (status == FOPO_OK && o->by_degree) {
    scale_rows(V, &j->M);
    fopo_embed_squares(squares, V);
    status = fopo_comm_sum_doubles(squares, V.cols);
  }
  if (status == FOPO_OK) {
    fopo_embed_factors(factor, j->s, o->by_degree ? squares : NULL, V.cols, (size_t)seen, o->scale);
  }
  fopo_free(squares);
  return status;
}

int fopo_shard_svd(fopo_shard *s, float *singular, const fopo_sessions *sessions,
                   const fopo_embed_options *options) {
  job j = {0};
  fopo_matrix V = {0};
  size_t dim = options->svd.dim;
  float *factor = fopo_alloc(dim, sizeof *factor);
  *s = (fopo_shard){0};
  fopo_comm_begin();
  int status = factor != NULL ? init(&j, sessions, options) : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_matrix_init(&V, j.M.n, dim);
  if (status == FOPO_OK) status = iterate(&j, &options->svd);
  if (status == FOPO_OK) status = extract(&j, V, status);
  if (status == FOPO_OK) status = find_signs(factor, V);
  if (status == FOPO_OK) fopo_embed_scale(V, factor);
  if (status == FOPO_OK) status = find_factors(factor, V, &j, options);
  if (status == FOPO_OK) {
    fopo_embed_scale(V, factor);
    memcpy(singular, j.s, dim * sizeof *singular);
    done(&j); /* before the items are there twice */
    status = fopo_shard_deal(s, V);
  }
  status = fopo_comm_end(status);
  done(&j);
  fopo_matrix_done(&V);
  fopo_free(factor);
  return status;
}
