/* A sparse linear model of each item by its most similar others: EASE's regression restricted to m
 * items, which is fsSLIM (Ning and Karypis: "SLIM: Sparse linear methods for top-N recommender
 * systems", ICDM 2011) without its L1 penalty and with weights of both signs, so that it has a
 * closed form. With R [N users, P items], G = R^T R and S the m items of largest cosine G_ab /
 * sqrt(G_aa G_bb) to item a,
 *
 *   min |R_a - R_S w|^2 + l2 |w|^2:   w = (G_SS + l2 I)^-1 G_Sa
 *
 * Each item is solved by one thread; the row of G and the similarities come from the users of a.
 * Most of G_SS are pairs of popular items, which have very many users: G of the H most popular
 * items, the head, is made first. The pairs of the other items of S follow from their own users,
 * who are few, by one pass over what each of these took. Counts are integers, so every H gives the
 * same bits.
 *
 * Items that the same users took, twins, have equal weights, in S and for S: S has one unknown for
 * all of them, and one of them is solved for all.
 *
 * Several l2 share one factorisation, of M = G_SS + l I for the middle one. With w = M^-1 G_Sa and
 * d = l2 - l, the weights by l2 are (I + d M^-1)^-1 w. For all d they lie in one Krylov space, for
 * which Lanczos makes a basis V and T = V^T M^-1 V, which is tridiagonal:
 *
 *   V (I + d T)^-1 |w| e_1
 *
 * (Frommer and Maass: "Fast CG-based methods for Tikhonov-Phillips regularization", SIAM Journal on
 * Scientific Computing 1999).
 *
 * The eigenvalues of I + d M^-1 lie between 1 and l2 / l, so that few steps suffice. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/solve.h"
#include "core/status.h"
#include "core/threads.h"
#include "core/twins.h"
#include "judge/baselines/baselines.h"
#include "judge/baselines/together.h"
#include "judge/baselines/weights.h"
#include "kernels/kernels.h"
#include "mips/topk.h"

enum {
  ENOUGH = 10000, /* items that suffice to choose l2 */
  LISTED = 65536, /* interactions with the items of S, at most, that are listed by users */
  LIST_COST = 4,  /* of listing one, against looking up an item of a user */
  STEPS = 10      /* of Lanczos: weights are off by 1e-3 at most for l2 from l / 10 to 10 l */
};
#define SMALL_TABLE 16e6 /* entries of G of the head that are too few to save: 64 MB */
#define LARGE_TABLE 26e7 /* and the most: 1 GB */

/* What one thread needs. */
typedef struct {
  uint64_t *keys;  /* [fopo_together_room(m)] */
  double *w;       /* [m] */
  double *factor;  /* [m, m] */
  double *V;       /* [STEPS + 1, m] */
  double *root;    /* [m] of how many twins in S an unknown stands for */
  uint32_t *end;   /* [N] of a user: 1, or behind the places in `mine`; 0 between items */
  uint32_t *found; /* [N] users for whom end is not 0 */
  uint16_t *place; /* [P] 1 + place in S; 0: not in S */
  uint16_t *mine;  /* [LISTED] places in S of the items of users */
  uint16_t *order; /* [m] the unknown of each of S */
} scratch;

typedef struct {
  size_t m;
  const fopo_csr *M; /* [N, P] */
  fopo_csr users;    /* [P, N] of each item */
  fopo_twins twins;
  const uint8_t *wanted; /* [P] or NULL: all */
  uint8_t *solved;       /* [P] the first wanted ones of twins */
  uint32_t *rank;        /* [P] by popularity */
  size_t head;           /* items of a smaller rank are in G */
  double length;         /* items of the user of an interaction, in the mean */
  fopo_matrix G;         /* [head, head] */
  const double *l2;      /* [n_l2] */
  size_t n_l2, middle;   /* l2[middle] is l */
  uint64_t *room;        /* [P + 1] where the weights for item a begin in each of .. */
  fopo_csr *W;           /* [n_l2] row a: the weights of S for a; indptr[a + 1] is its length */
  scratch *of;           /* [threads] */
  int failed;            /* a system had no solution */
} job;

/* ---- G_SS ---- */

static void fill_row(void *payload, size_t a, const fopo_together_count *counts, uint32_t *with,
                     size_t n, size_t thread) {
  float *row = fopo_matrix_row(((job *)payload)->G, a);
  (void)thread;
  for (size_t i = 0; i < n; i++) row[with[i]] = (float)counts[with[i]].both;
}

/* G of the head, over what the users took of it: H [N, head], whose columns are ranks. */
static int make_table(job *j) {
  fopo_csr H = {0}, T = {0};
  size_t N = j->M->rows, nnz = 0;
  for (size_t i = 0; i < fopo_csr_nnz(j->M); i++) nnz += j->rank[j->M->ids[i]] < j->head;
  int status = fopo_csr_init(&H, N, j->head, nnz, 0);
  nnz = 0;
  for (size_t u = 0; u < N && status == FOPO_OK; u++) {
    const uint32_t *ids = fopo_csr_row(j->M, u);
    for (size_t i = 0; i < fopo_csr_count(j->M, u); i++) {
      if (j->rank[ids[i]] < j->head) H.ids[nnz++] = j->rank[ids[i]];
    }
    H.indptr[u + 1] = nnz;
  }
  if (status == FOPO_OK) status = fopo_csr_transpose(&T, &H);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->G, j->head, j->head);
  if (status == FOPO_OK) status = fopo_together(&H, &T, NULL, "counting pairs", fill_row, j);
  fopo_csr_done(&H);
  fopo_csr_done(&T);
  return status;
}

/* C: the first twins of S [n], by popularity, the least popular first, and root; returns how many
 * these are. */
static size_t arrange(uint64_t *C, scratch *s, const job *j, const uint64_t *S, size_t n) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t b = j->twins.first[fopo_topk_id(S[i])];
    if (s->place[b]++ == 0) C[found++] = (uint64_t)j->rank[b] << 32 | (uint32_t)~b;
  }
  fopo_kernels_get()->sort(C, found);
  for (size_t i = 0; i < found; i++) {
    s->root[i] = sqrt((double)s->place[fopo_topk_id(C[i])]);
    s->place[fopo_topk_id(C[i])] = 0;
  }
  return found;
}

/* Of one user's items of S, mine [all], the pairs with one of the first `outside` of them. */
static void add_pairs(double *A, size_t n, const uint16_t *mine, size_t outside, size_t all) {
  for (size_t i = 0; i < outside; i++) {
    double *row = A + mine[i] * n;
    for (size_t k = i + 1; k < outside; k++) {
      size_t low = mine[i] < mine[k] ? mine[i] : mine[k], high = (size_t)mine[i] + mine[k] - low;
      A[low * n + high] += 1.0;
    }
    for (size_t k = outside; k < all; k++) row[mine[k]] += 1.0;
  }
}

/* All pairs from the users of all items: their items of S are listed user by user, then paired. */
static void pairs_of_lists(double *A, const job *j, scratch *s, const uint64_t *S, size_t n) {
  size_t found = 0, at = 0;
  for (size_t i = 0; i < n; i++) {
    const uint32_t *u = fopo_csr_row(&j->users, fopo_topk_id(S[i]));
    for (size_t k = 0; k < fopo_csr_count(&j->users, fopo_topk_id(S[i])); k++) {
      if (s->end[u[k]]++ == 0) s->found[found++] = u[k];
    }
  }
  for (size_t k = 0; k < found; k++) { /* from lengths to beginnings */
    size_t length = s->end[s->found[k]];
    s->end[s->found[k]] = (uint32_t)at;
    at += length;
  }
  for (size_t i = 0; i < n; i++) {
    const uint32_t *u = fopo_csr_row(&j->users, fopo_topk_id(S[i]));
    for (size_t k = 0; k < fopo_csr_count(&j->users, fopo_topk_id(S[i])); k++) {
      s->mine[s->end[u[k]]++] = (uint16_t)i;
    }
  }
  for (size_t k = 0, first = 0; k < found; k++) {
    size_t last = s->end[s->found[k]];
    s->end[s->found[k]] = 0;
    add_pairs(A, n, s->mine + first, last - first, last - first);
    first = last;
  }
}

/* mine: the places in S of what a user took, those outside the head, *low, before the others;
 * returns how many. Without branches, which nobody could predict. */
static size_t list_user(uint16_t *mine, size_t *low, const job *j, const uint16_t *place,
                        uint32_t user, size_t outside) {
  const uint32_t *ids = fopo_csr_row(j->M, user);
  size_t count = fopo_csr_count(j->M, user), others = 0, n = 0;
  uint16_t *head = mine + LISTED / 2;
  for (size_t x = 0; x < count; x++) {
    size_t at = place[ids[x]];
    mine[n] = head[others] = (uint16_t)(at - 1);
    n += at - 1 < outside; /* not 0 */
    others += at > outside;
  }
  memcpy(mine + n, head, others * sizeof *mine);
  *low = n;
  return n + others;
}

/* The pairs of the head by its table, the others from all that the users of the first `outside`
 * items took. */
static void pairs_of_table(double *A, const job *j, scratch *s, const uint64_t *S, size_t n,
                           size_t outside) {
  for (size_t i = outside; i < n; i++) {
    const float *row = fopo_matrix_row(j->G, S[i] >> 32);
    for (size_t k = i + 1; k < n; k++) A[i * n + k] = (double)row[S[k] >> 32];
  }
  size_t found = 0, low;
  for (size_t i = 0; i < n; i++) s->place[fopo_topk_id(S[i])] = (uint16_t)(i + 1);
  for (size_t i = 0; i < outside; i++) {
    const uint32_t *u = fopo_csr_row(&j->users, fopo_topk_id(S[i]));
    for (size_t k = 0; k < fopo_csr_count(&j->users, fopo_topk_id(S[i])); k++) {
      if (s->end[u[k]] > 0) continue;
      s->end[u[k]] = 1;
      s->found[found++] = u[k];
      size_t all = list_user(s->mine, &low, j, s->place, u[k], outside);
      add_pairs(A, n, s->mine, low, all);
    }
  }
  for (size_t k = 0; k < found; k++) s->end[s->found[k]] = 0;
  for (size_t i = 0; i < n; i++) s->place[fopo_topk_id(S[i])] = 0;
}

/* The upper triangle of A [n, n] without its diagonal, the cheaper way. S as arranged. */
static void fill_pairs(double *A, const job *j, scratch *s, const uint64_t *S, size_t n) {
  size_t entries = 0, others = 0, outside = 0;
  for (size_t i = 0; i < n; i++) {
    entries += fopo_csr_count(&j->users, fopo_topk_id(S[i]));
    if (S[i] >> 32 < j->head) continue;
    others = entries;
    outside++;
  }
  memset(A, 0, n * n * sizeof *A);
  int listed = entries <= LISTED && LIST_COST * (double)entries < (double)others * j->length;
  if (listed) {
    pairs_of_lists(A, j, s, S, n);
  } else {
    pairs_of_table(A, j, s, S, n, outside);
  }
}

/* ---- one item ---- */

/* The weights of S [n], by one of the l2, from the unknowns y: of S[k] that at order[k], the root
 * of its twins over it. */
static void put(job *j, const scratch *s, size_t which, size_t a, const uint64_t *S, size_t n,
                const double *y) {
  fopo_csr *W = &j->W[which];
  uint32_t *ids = W->ids + j->room[a];
  float *values = W->values + j->room[a];
  W->indptr[a + 1] = n;
  for (size_t k = 0; k < n; k++) {
    ids[k] = fopo_topk_id(S[k]);
    values[k] = (float)(y[s->order[k]] / s->root[s->order[k]]);
  }
}

static void add(double *y, double c, const double *x, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] += c * x[i];
}

/* V [steps, n] from its first row; alpha and beta [steps], T and what is beside its diagonal.
 * Returns how many steps there are. */
static size_t lanczos(double *V, double *alpha, double *beta, const double *factor, size_t n) {
  for (size_t k = 0; k < STEPS; k++) {
    double *v = V + k * n, *u = v + n;
    memcpy(u, v, n * sizeof *u);
    fopo_solve_again(u, factor, n);
    alpha[k] = fopo_solve_dot(u, v, n);
    add(u, -alpha[k], v, n);
    if (k > 0) add(u, -beta[k - 1], v - n, n);
    beta[k] = sqrt(fopo_solve_dot(u, u, n));
    if (beta[k] <= 1e-12 * alpha[k]) return k + 1; /* the whole space */
    for (size_t i = 0; i < n; i++) u[i] /= beta[k];
  }
  return STEPS;
}

/* y [steps] = (I + d T)^-1 length e_1: elimination, then from the last to the first. */
static void solve_steps(double *y, const double *alpha, const double *beta, size_t steps, double d,
                        double length) {
  double pivot[STEPS];
  pivot[0] = 1.0 + d * alpha[0];
  y[0] = length;
  for (size_t k = 1; k < steps; k++) {
    double f = d * beta[k - 1] / pivot[k - 1];
    pivot[k] = 1.0 + d * alpha[k] - f * d * beta[k - 1];
    y[k] = -f * y[k - 1];
  }
  for (size_t k = steps; k-- > 0;) {
    if (k + 1 < steps) y[k] -= d * beta[k] * y[k + 1];
    y[k] /= pivot[k];
  }
}

/* By the other l2, from the unknowns w [unknowns] by l, which are overwritten. */
static void put_others(job *j, scratch *s, size_t a, const uint64_t *S, size_t n, size_t unknowns) {
  double alpha[STEPS], beta[STEPS], y[STEPS], length = sqrt(fopo_solve_dot(s->w, s->w, unknowns));
  for (size_t i = 0; i < unknowns; i++) s->V[i] = s->w[i] / length;
  size_t steps = lanczos(s->V, alpha, beta, s->factor, unknowns);
  for (size_t l = 0; l < j->n_l2; l++) {
    if (l == j->middle) continue;
    solve_steps(y, alpha, beta, steps, j->l2[l] - j->l2[j->middle], length);
    memset(s->w, 0, unknowns * sizeof *s->w);
    for (size_t k = 0; k < steps; k++) add(s->w, y[k], s->V + k * unknowns, unknowns);
    put(j, s, l, a, S, n, s->w);
  }
}

/* Where S [n] has its unknowns among C, from 0 on. */
static void find_unknowns(scratch *s, const job *j, const uint64_t *S, size_t n, const uint64_t *C,
                          size_t unknowns) {
  for (size_t i = 0; i < unknowns; i++) s->place[fopo_topk_id(C[i])] = (uint16_t)i;
  for (size_t k = 0; k < n; k++) s->order[k] = s->place[j->twins.first[fopo_topk_id(S[k])]];
  for (size_t i = 0; i < unknowns; i++) s->place[fopo_topk_id(C[i])] = 0;
}

/* (D G D + l I) u = D G_Ca, D diag(root): of twins all weights are the same, u / root, and S has
 * root^2 of them. */
static int solve(job *j, scratch *s, const uint64_t *C, size_t n,
                 const fopo_together_count *counts) {
  fill_pairs(s->factor, j, s, C, n);
  for (size_t i = 0; i < n; i++) {
    double *row = s->factor + i * n, root = s->root[i];
    for (size_t k = i + 1; k < n; k++) row[k] *= root * s->root[k];
    uint32_t b = fopo_topk_id(C[i]);
    row[i] = root * root * (double)fopo_csr_count(&j->users, b) + j->l2[j->middle];
    s->w[i] = root * (double)counts[b].both;
  }
  return fopo_solve_spd(s->w, s->factor, n);
}

/* The row of a twin b > a is that of a, with a in the place of id. */
static void put_twin(fopo_csr *W, const uint64_t *room, size_t a, size_t b, size_t id) {
  size_t n = W->indptr[b + 1] = W->indptr[a + 1];
  uint32_t *ids = W->ids + room[b];
  float *values = W->values + room[b];
  memcpy(ids, W->ids + room[a], n * sizeof *ids);
  memcpy(values, W->values + room[a], n * sizeof *values);
  if (id == a) return;
  size_t to = fopo_sorted_place(ids, n, (uint32_t)a);
  size_t from = fopo_sorted_place(ids, n, (uint32_t)id);
  float value = values[from];
  memmove(ids + to + 1, ids + to, (from - to) * sizeof *ids);
  memmove(values + to + 1, values + to, (from - to) * sizeof *values);
  ids[to] = (uint32_t)a;
  values[to] = value;
}

/* The rows of the wanted twins of a, whose S [n] has a for themselves. If S is full of twins that
 * come before b it has a for the last of these, and if they come before a, too, it is that of a. */
static void put_twins(job *j, size_t a, const uint64_t *S, size_t n) {
  uint64_t last = UINT64_MAX;
  for (size_t k = 0; k < n; k++) last = S[k] < last ? S[k] : last;
  for (size_t b = n > 0 ? j->twins.next[a] : 0; b > 0; b = j->twins.next[b]) {
    if (j->wanted != NULL && !j->wanted[b]) continue;
    size_t id = fopo_topk_key(1.0f, (uint32_t)b) < last ? fopo_topk_id(last) : b;
    if (fopo_topk_key(1.0f, (uint32_t)a) < last) id = a;
    for (size_t l = 0; l < j->n_l2; l++) put_twin(&j->W[l], j->room, a, b, id);
  }
}

static void solve_item(void *payload, size_t a, const fopo_together_count *counts, uint32_t *with,
                       size_t n, size_t thread) {
  job *j = payload;
  scratch *s = &j->of[thread];
  uint64_t *S = s->keys;
  n = fopo_together_nearest(S, &(fopo_similarity){0}, a, counts, with, n, j->m);
  uint64_t *C = S + n;
  size_t unknowns = arrange(C, s, j, S, n);
  find_unknowns(s, j, S, n, C, unknowns);
  if (solve(j, s, C, unknowns, counts) != FOPO_OK) {
#pragma omp atomic write
    j->failed = 1;
  } else if (n > 0) {
    put(j, s, j->middle, a, S, n, s->w);
    if (j->n_l2 > 1) put_others(j, s, a, S, n, unknowns);
    put_twins(j, a, S, n);
  }
}

/* The l2 that is the nearest to the farthest other one, by their quotient. */
static size_t middle_of(const double *l2, size_t n) {
  size_t middle = 0;
  double least = INFINITY;
  for (size_t i = 0; i < n; i++) {
    double most = 0.0;
    for (size_t k = 0; k < n; k++) most = fmax(most, fabs(log(l2[k] / l2[i])));
    middle = most < least ? i : middle;
    least = fmin(most, least);
  }
  return middle;
}

/* ---- all items ---- */

/* Pairs of items of all users. */
static double count_pairs(const fopo_csr *M) {
  double pairs = 0.0;
  for (size_t u = 0; u < M->rows; u++) pairs += pow((double)fopo_csr_count(M, u), 2.0);
  return pairs;
}

/* Room for the weights of each wanted item: for m, or as many as its users have taken others. */
static void make_room(job *j) {
  for (size_t a = 0; a < j->M->cols; a++) {
    const uint32_t *u = fopo_csr_row(&j->users, a);
    size_t others = 0, n = j->wanted == NULL || j->wanted[a] ? fopo_csr_count(&j->users, a) : 0;
    for (size_t k = 0; k < n && others < j->m; k++) others += fopo_csr_count(j->M, u[k]) - 1;
    j->room[a + 1] = j->room[a] + (others < j->m ? others : j->m);
  }
}

static int find_twins(job *j) {
  size_t P = j->M->cols;
  int status = fopo_twins_find(&j->twins, &j->users);
  j->solved = status == FOPO_OK ? fopo_alloc(P, sizeof *j->solved) : NULL;
  if (j->solved == NULL) return FOPO_ERR_MEMORY;
  for (size_t a = 0; a < P; a++) {
    size_t b = a;
    if (j->twins.first[a] < a) continue;
    while (j->wanted != NULL && !j->wanted[b] && j->twins.next[b] > 0) b = j->twins.next[b];
    j->solved[b] = j->wanted == NULL || j->wanted[b];
  }
  return FOPO_OK;
}

static int rank_items(job *j) {
  size_t P = j->users.rows;
  uint64_t *keys = fopo_alloc(P, sizeof *keys);
  j->rank = fopo_alloc(P, sizeof *j->rank);
  if (keys == NULL || j->rank == NULL) {
    fopo_free(keys);
    return FOPO_ERR_MEMORY;
  }
  for (uint32_t a = 0; a < P; a++) {
    keys[a] = fopo_topk_key((float)fopo_csr_count(&j->users, a), a);
  }
  fopo_kernels_get()->sort(keys, P);
  for (uint32_t r = 0; r < P; r++) j->rank[fopo_topk_id(keys[r])] = r;
  fopo_free(keys);
  return FOPO_OK;
}

/* The head is as large as pays: G of it is no larger than the work that it saves, nor, unless it is
 * small, than the weights. */
static int choose_head(job *j) {
  double P = (double)j->M->cols, pairs = count_pairs(j->M), nnz = (double)fopo_csr_nnz(j->M),
         most = 2.0 * P * (double)j->m;
  most = fmin(fmax(most, SMALL_TABLE), LARGE_TABLE);
  double head = sqrt(fmin(pairs, most));
  j->length = pairs / nnz;
  j->head = head < P ? (size_t)head : j->M->cols;
  uint64_t weights = j->room[j->M->cols] * (sizeof(uint32_t) + sizeof(float));
  uint64_t thread =
      (uint64_t)j->M->cols * 14 + j->M->rows * 8 + (uint64_t)(j->m * (j->m + STEPS)) * 8;
  uint64_t bytes = weights * (j->n_l2 + 1) + (uint64_t)fopo_threads() * thread +
                   (uint64_t)j->head * j->head * sizeof(float) + fopo_csr_nnz(j->M) * 8;
  return fopo_memory_suffices(bytes, "the weights of slim", "use a smaller m, or fewer threads");
}

static int make_scratch(job *j) {
  size_t N = j->M->rows, P = j->M->cols, m = j->m, threads = (size_t)fopo_threads();
  j->of = fopo_alloc(threads, sizeof *j->of);
  for (size_t t = 0; j->of != NULL && t < threads; t++) {
    scratch *s = &j->of[t];
    s->keys = fopo_alloc(fopo_together_room(m), sizeof *s->keys);
    s->factor = fopo_alloc(m * m, sizeof *s->factor);
    s->V = fopo_alloc((STEPS + 1) * m, sizeof *s->V);
    s->w = fopo_alloc(m, sizeof *s->w);
    s->end = fopo_alloc(N, sizeof *s->end);
    s->found = fopo_alloc(N, sizeof *s->found);
    s->place = fopo_alloc(P, sizeof *s->place);
    s->mine = fopo_alloc(LISTED, sizeof *s->mine); /* m is less */
    s->root = fopo_alloc(m, sizeof *s->root);
    s->order = fopo_alloc(m, sizeof *s->order);
    if (!s->keys || !s->factor || !s->V || !s->w || !s->end || !s->found || !s->place || !s->mine ||
        !s->root || !s->order) {
      return FOPO_ERR_MEMORY;
    }
  }
  return j->of != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

static int begin(job *j) {
  size_t P = j->M->cols;
  int status = fopo_csr_transpose(&j->users, j->M);
  if (status != FOPO_OK) return status;
  j->room = fopo_alloc(P + 1, sizeof *j->room);
  j->W = fopo_alloc(j->n_l2, sizeof *j->W);
  if (!j->room || !j->W) return FOPO_ERR_MEMORY;
  make_room(j);
  status = find_twins(j);
  if (status == FOPO_OK) status = rank_items(j);
  if (status == FOPO_OK) status = choose_head(j);
  for (size_t l = 0; l < j->n_l2 && status == FOPO_OK; l++) {
    status = fopo_csr_init(&j->W[l], P, P, (size_t)j->room[P], 1);
  }
  if (status == FOPO_OK) status = make_table(j);
  return status == FOPO_OK ? make_scratch(j) : status;
}

static void end(job *j) {
  for (size_t t = 0; j->of != NULL && t < (size_t)fopo_threads(); t++) {
    scratch *s = &j->of[t];
    fopo_free(s->keys);
    fopo_free(s->factor);
    fopo_free(s->V);
    fopo_free(s->w);
    fopo_free(s->end);
    fopo_free(s->found);
    fopo_free(s->place);
    fopo_free(s->mine);
    fopo_free(s->root);
    fopo_free(s->order);
  }
  for (size_t l = 0; j->W != NULL && l < j->n_l2; l++) fopo_csr_done(&j->W[l]);
  fopo_free(j->of);
  fopo_free(j->W);
  fopo_free(j->room);
  fopo_free(j->rank);
  fopo_twins_done(&j->twins);
  fopo_free(j->solved);
  fopo_matrix_done(&j->G);
  fopo_csr_done(&j->users);
}

/* *model: W without the gaps of its rows, transposed: row b has the items that b predicts. */
static int keep(void **model, fopo_csr *W, const uint64_t *room) {
  int status = fopo_weights_pack(W, room, 0);
  *model = status == FOPO_OK ? fopo_alloc(1, sizeof(fopo_csr)) : NULL;
  status = *model != NULL ? fopo_csr_transpose(*model, W) : FOPO_ERR_MEMORY;
  fopo_csr_done(W);
  return status;
}

/* The counts and the factorisation of an item serve all l2. */
static int fit_each(void **models, const fopo_csr *M, const fopo_baseline_options *o,
                    const double *l2, size_t n) {
  job j = {.m = o->m < M->cols ? o->m : M->cols, .M = M, .l2 = l2, .n_l2 = n, .wanted = o->wanted};
  j.middle = middle_of(l2, n);
  int status = begin(&j);
  if (status == FOPO_OK) {
    status = fopo_together(M, &j.users, j.solved, "solving items", solve_item, &j);
  }
  for (size_t l = 0; l < n && status == FOPO_OK; l++) {
    if (!j.failed) status = keep(&models[l], &j.W[l], j.room);
  }
  end(&j);
  return status;
}

static int fit(void **of, const fopo_csr *M, const fopo_baseline_options *o) {
  int status = fit_each(of, M, o, &o->l2, 1);
  if (status != FOPO_OK || *of != NULL) return status;
  return fopo_fail(FOPO_ERR_NUMERIC, "the weights of slim have no solution; use a larger l2");
}

static int score(float *scores, const void *of, const fopo_baseline_options *o, const fopo_csr *X,
                 size_t first, size_t n, void *unused) {
  (void)o;
  (void)unused;
  fopo_weights_score(scores, of, X, first, n);
  return 1;
}

/* Each item is solved by itself, so that others can be left out of a validation. */
static void enough(size_t *users, size_t *items) {
  (void)users;
  if (*items > ENOUGH) *items = ENOUGH;
}

static const fopo_option options[] = {{.name = "m",
                                       .type = FOPO_OPTION_COUNT,
                                       .member = offsetof(fopo_baseline_options, m),
                                       .standard = 200,
                                       .least = 1,
                                       .most = 4096,
                                       .text = "most similar items that predict an item"},
                                      {.name = "l2",
                                       .type = FOPO_OPTION_NUMBER,
                                       .flags = FOPO_OPTION_AUTO,
                                       .member = offsetof(fopo_baseline_options, l2),
                                       .standard = 0,
                                       .least = 1e-3,
                                       .low = 1,
                                       .high = 1e4,
                                       .text = "penalty of the weights; auto: by validation"},
                                      {0}};

const fopo_baseline_kind fopo_baseline_slim = {
    .name = "slim",
    .fit = fit,
    .whole = "counts the users that two items share",
    .fit_each = fit_each,
    .free = fopo_weights_free,
    .score = score,
    .item_weights = fopo_weights_get,
    .enough = enough,
    .options = options,
    // clang-format off
    .text = "EASE for catalogues of any size, which is SLIM with the items of a regression chosen beforehand and without\n"
          "its L1 penalty: each item a is predicted from S, the m items of largest cosine G_ab / sqrt(G_aa G_bb) to it,\n"
          "by w = (G_SS + l2 I)^-1 G_Sa with G = R^T R, where R holds 1 for each item that a training user took. Fewer\n"
          "than m items where fewer share a user with a; ties go to the smaller id. Items that the same\n"
          "users took are solved once. The score of an item is the sum over the items of X of their weights for it.\n"
          "Weights below 0 are kept, as in EASE: SLIM cuts them, which changes NDCG@20 by less than 0.003 on MovieLens,\n"
          "MovieTweetings, Gowalla and GitHub. An item costs m^3 / 6 multiply-adds and counting the pairs of S:\n"
          "those of popular items are counted once, in a table of 64 MB or 8 P m\n"
          "bytes at most, whichever is more, and never more than 1 GB; those of the others from what their few users took.\n"
          "The weights take 16 P m bytes at most while it learns. l2 = \"auto\" chooses by NDCG@20 of held-out users, as\n"
          "ease does, from the weights of 10,000 items at most. Source: Ning and Karypis 2011; Steck 2019.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}\n"
             "slim = fopo.baseline.slim{data = s.train, m = 50}\n"
             "assert(fopo.evaluate(slim, s.test).reward > 0.05)",
    // clang-format on
};
