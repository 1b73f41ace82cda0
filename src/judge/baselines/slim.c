/* A sparse linear model of each item by its most similar others: EASE's regression restricted to m
 * items, which is fsSLIM (Ning and Karypis: "SLIM: Sparse linear methods for top-N recommender
 * systems", ICDM 2011) without its L1 penalty and with weights of both signs, so that it has a
 * closed form. With R [N users, P items], G = R^T R and S the m items of largest cosine G_ab /
 * sqrt(G_aa G_bb) to item a,
 *
 *   min |R_a - R_S w|^2 + l2 |w|^2:   w = (G_SS + l2 I)^-1 G_Sa
 *
 * Each item is solved by one thread: the row of G and the similarities come from the users of a,
 * G_SS from the users of the items of S, of whom each adds the pairs of its own items of S. Where
 * these pairs, over all users, are more than P^2 the whole G is made first: it is then smaller than
 * the work that it saves. Counts are integers, so both ways give the same bits. */
#include <string.h>

#include "core/memory.h"
#include "core/solve.h"
#include "core/status.h"
#include "core/threads.h"
#include "judge/baselines/baselines.h"
#include "judge/baselines/together.h"
#include "judge/baselines/weights.h"
#include "mips/topk.h"

enum { ENOUGH = 10000 }; /* items that suffice to choose l2 */

/* What one thread needs. */
typedef struct {
  uint64_t *keys;  /* [P] */
  double *A, *w;   /* [m, m], [m] */
  uint64_t *end;   /* [N] behind the items of S of a user, in `mine`; 0 between items */
  uint32_t *users; /* [N] who took an item of S */
  uint16_t *mine;  /* [entries] their places in S, ascending, user by user */
} scratch;

typedef struct {
  size_t m;
  double l2;
  fopo_csr users; /* [P, N] of each item */
  fopo_matrix G;  /* [P, P], or {0} */
  fopo_csr W;     /* row a: the weights of S for a */
  scratch *of;    /* [threads] */
  int failed;     /* a system had no solution */
} job;

/* ---- G_SS ---- */

static void fill_row(void *payload, size_t a, const uint32_t *counts, uint32_t *with, size_t n,
                     size_t thread) {
  float *row = fopo_matrix_row(((job *)payload)->G, a);
  (void)thread;
  for (size_t i = 0; i < n; i++) row[with[i]] = (float)counts[with[i]];
}

/* The upper triangle of A [n, n] without its diagonal. */
static void pairs_of_table(double *A, const job *j, const uint64_t *S, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const float *row = fopo_matrix_row(j->G, fopo_topk_id(S[i]));
    for (size_t k = i + 1; k < n; k++) A[i * n + k] = (double)row[fopo_topk_id(S[k])];
  }
}

/* The same from the users of S: their items of S are listed user by user, then paired. */
static void pairs_of_users(double *A, const job *j, scratch *s, const uint64_t *S, size_t n) {
  size_t found = 0, at = 0;
  for (size_t i = 0; i < n; i++) {
    const uint32_t *u = fopo_csr_row(&j->users, fopo_topk_id(S[i]));
    for (size_t k = 0; k < fopo_csr_count(&j->users, fopo_topk_id(S[i])); k++) {
      if (s->end[u[k]]++ == 0) s->users[found++] = u[k];
    }
  }
  for (size_t k = 0; k < found; k++) { /* from lengths to beginnings */
    size_t length = (size_t)s->end[s->users[k]];
    s->end[s->users[k]] = at;
    at += length;
  }
  for (size_t i = 0; i < n; i++) {
    const uint32_t *u = fopo_csr_row(&j->users, fopo_topk_id(S[i]));
    for (size_t k = 0; k < fopo_csr_count(&j->users, fopo_topk_id(S[i])); k++) {
      s->mine[s->end[u[k]]++] = (uint16_t)i;
    }
  }
  for (size_t k = 0, first = 0; k < found; k++) {
    size_t last = (size_t)s->end[s->users[k]];
    s->end[s->users[k]] = 0;
    for (; first < last; first++) {
      double *row = A + s->mine[first] * n;
      for (size_t i = first + 1; i < last; i++) row[s->mine[i]] += 1.0;
    }
  }
}

/* ---- one item ---- */

static void solve_item(void *payload, size_t a, const uint32_t *counts, uint32_t *with, size_t n,
                       size_t thread) {
  job *j = payload;
  scratch *s = &j->of[thread];
  uint64_t *S = s->keys;
  n = fopo_together_nearest(S, &(fopo_similarity){0}, a, counts, with, n, &j->users, j->m);
  memset(s->A, 0, n * n * sizeof *s->A);
  if (j->G.x != NULL) {
    pairs_of_table(s->A, j, S, n);
  } else {
    pairs_of_users(s->A, j, s, S, n);
  }
  for (size_t i = 0; i < n; i++) {
    uint32_t b = fopo_topk_id(S[i]);
    s->A[i * n + i] = (double)fopo_csr_count(&j->users, b) + j->l2;
    s->w[i] = (double)counts[b];
  }
  if (fopo_solve_spd(s->w, s->A, n) != FOPO_OK) {
#pragma omp atomic write
    j->failed = 1;
    return;
  }
  for (size_t i = 0; i < n; i++) S[i] = fopo_topk_key((float)s->w[i], fopo_topk_id(S[i]));
  fopo_weights_put(&j->W, j->m, a, S, n);
}

/* ---- all items ---- */

/* Pairs of items of all users, and the most weights that all items can have: no more than the other
 * items of an item's users, nor than m. */
static void count_work(double *pairs, uint64_t *weights, const job *j, const fopo_csr *M) {
  *pairs = 0.0;
  *weights = 0;
  for (size_t u = 0; u < M->rows; u++) {
    double n = (double)fopo_csr_count(M, u);
    *pairs += n * n;
  }
  for (size_t a = 0; a < M->cols; a++) {
    const uint32_t *u = fopo_csr_row(&j->users, a);
    size_t others = 0;
    for (size_t k = 0; k < fopo_csr_count(&j->users, a) && others < j->m; k++) {
      others += fopo_csr_count(M, u[k]) - 1;
    }
    *weights += others < j->m ? others : j->m;
  }
}

/* Items of S, over all their users, at most. */
static size_t most_entries(const fopo_csr *users, size_t m) {
  size_t longest = 0;
  for (size_t b = 0; b < users->rows; b++) {
    if (fopo_csr_count(users, b) > longest) longest = fopo_csr_count(users, b);
  }
  return longest * m < fopo_csr_nnz(users) ? longest * m : fopo_csr_nnz(users);
}

static int begin(job *j, const fopo_csr *M) {
  size_t N = M->rows, P = M->cols, m = j->m, threads = (size_t)fopo_threads();
  int status = fopo_csr_transpose(&j->users, M);
  if (status != FOPO_OK) return status;
  double pairs;
  uint64_t weights;
  count_work(&pairs, &weights, j, M);
  int whole = pairs > (double)P * (double)P;
  size_t entries = whole ? 0 : most_entries(&j->users, m), of_users = whole ? 0 : N;
  uint64_t thread = P * 16 + (m * m + m) * sizeof(double) + of_users * 12 + entries * 2;
  uint64_t room = P * m > 2 * weights ? P * m : 2 * weights; /* W, and then its transpose too */
  uint64_t bytes = (room + 2 * P) * 8 + threads * thread + fopo_csr_nnz(M) * 4 +
                   (whole ? (uint64_t)P * P * sizeof(float) : 0);
  status = fopo_memory_suffices(bytes, "the weights of slim", "use a smaller m, or fewer threads");
  if (status == FOPO_OK && whole) status = fopo_matrix_init(&j->G, P, P);
  if (status == FOPO_OK) status = fopo_weights_init(&j->W, P, m);
  if (status != FOPO_OK) return status;
  j->of = fopo_alloc(threads, sizeof *j->of);
  for (size_t t = 0; j->of != NULL && t < threads; t++) {
    scratch *s = &j->of[t];
    s->keys = fopo_alloc(P, sizeof *s->keys);
    s->A = fopo_alloc(m * m, sizeof *s->A);
    s->w = fopo_alloc(m, sizeof *s->w);
    s->end = fopo_alloc(of_users, sizeof *s->end);
    s->users = fopo_alloc(of_users, sizeof *s->users);
    s->mine = fopo_alloc(entries, sizeof *s->mine);
    if (!s->keys || !s->A || !s->w || !s->end || !s->users || !s->mine) return FOPO_ERR_MEMORY;
  }
  return j->of != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

static void end(job *j) {
  for (size_t t = 0; j->of != NULL && t < (size_t)fopo_threads(); t++) {
    scratch *s = &j->of[t];
    fopo_free(s->keys);
    fopo_free(s->A);
    fopo_free(s->w);
    fopo_free(s->end);
    fopo_free(s->users);
    fopo_free(s->mine);
  }
  fopo_free(j->of);
  fopo_matrix_done(&j->G);
  fopo_csr_done(&j->users);
  fopo_csr_done(&j->W);
}

/* The model is W transposed: row b has the items that b predicts. */
static int fit(void **of, const fopo_csr *M, const fopo_baseline_options *o) {
  job j = {.m = o->m < M->cols ? o->m : M->cols, .l2 = o->l2};
  int status = begin(&j, M);
  if (status == FOPO_OK && j.G.x != NULL) {
    status = fopo_together(M, &j.users, NULL, "counting pairs", fill_row, &j);
  }
  if (status == FOPO_OK) {
    status = fopo_together(M, &j.users, o->wanted, "solving items", solve_item, &j);
  }
  if (status == FOPO_OK && j.failed) {
    status = fopo_fail(FOPO_ERR_NUMERIC, "the weights of slim have no solution; use a larger l2");
  }
  if (status == FOPO_OK) status = fopo_weights_pack(&j.W, j.m);
  if (status == FOPO_OK && (*of = fopo_alloc(1, sizeof(fopo_csr))) == NULL) {
    status = FOPO_ERR_MEMORY;
  }
  if (status == FOPO_OK) status = fopo_csr_transpose(*of, &j.W);
  end(&j);
  return status;
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
    .free = fopo_weights_free,
    .score = score,
    .item_weights = fopo_weights_get,
    .enough = enough,
    .options = options,
    // clang-format off
    .text = "EASE for catalogues of any size, which is SLIM with the items of a regression chosen beforehand and without\n"
          "its L1 penalty: each item a is predicted from S, the m items of largest cosine G_ab / sqrt(G_aa G_bb) to it,\n"
          "by w = (G_SS + l2 I)^-1 G_Sa with G = R^T R, where R holds 1 for each item that a training user took. Fewer\n"
          "than m items where fewer share a user with a; ties go to the smaller id. The score of an item is the sum over\n"
          "the items of X of their weights for it. Weights below 0 are kept, as in EASE: SLIM cuts them, which changes\n"
          "NDCG@20 by less than 0.003 on MovieLens, MovieTweetings, Gowalla and GitHub. An item costs m^3 / 6\n"
          "multiply-adds and the pairs of S that its users took; 16 P m bytes at most while it learns, and 4 P^2\n"
          "besides where users took more than P^2 pairs of items. l2 = \"auto\" chooses by NDCG@20 of held-out users, as\n"
          "ease does, from the weights of 10,000 items at most. Source: Ning and Karypis 2011; Steck 2019.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}\n"
             "slim = fopo.baseline.slim{data = s.train, m = 50}\n"
             "assert(fopo.evaluate(slim, s.test).reward > 0.05)",
    // clang-format on
};
