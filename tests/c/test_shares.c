/* Data that are shared out to the ranks, against the same data whole: splits, contexts and
 * embeddings; and what goes wrong on one rank. Alone it runs as rank 0 of 1; test_ranks.py starts
 * it on several. */
#include <math.h>
#include <signal.h>

#include "comm/pieces.h"
#include "core/progress.h"
#include "core/rng.h"
#include "data/world/synthetic.h"
#include "judge/expected.h"
#include "plan/mass.h"
#include "policies.h"
#include "policy/softmax.h"
#include "ranks.h"
#include "ranks/read.h"
#include "ranks/shared.h"
#include "ranks/split.h"
#include "ranks/weights.h"

static const fopo_encoding by_mean = {&fopo_encoder_mean, NULL};
static const fopo_encoding by_unit = {&fopo_encoder_unit, NULL};

FREED_BY(fopo_dataset_free, fopo_dataset)
FREED_BY(fopo_index_free, fopo_index)
FREED_BY(fopo_mass_probe_free, fopo_mass_probe)

enum { USERS = 173, ITEMS = 90, DIM = 6 };

/* Users of clusters, who took least_items or more; times of 0 .. 59, which are often equal, and
 * later ones of pairs that repeat. */
static fopo_dataset *make_dataset(size_t users, int with_repeats) {
  fopo_world_options o = {.users = users,
                          .items = ITEMS,
                          .clusters = 6,
                          .tastes = 2,
                          .mean_items = 12,
                          .zipf = 0.7,
                          .noise = 0.2,
                          .spread = 0.7,
                          .ones = 1,
                          .seed = 5};
  fopo_world *world = NULL;
  fopo_dataset *d = NULL;
  uint32_t x = 7;
  ok(fopo_world_options_complete(&o));
  ok(fopo_world_new(&world, &d, &o));
  fopo_world_free(world);
  size_t nnz = fopo_csr_nnz(&d->matrix);
  d->times.first = fopo_alloc(nnz, sizeof(double));
  d->times.last = with_repeats ? fopo_alloc(nnz, sizeof(double)) : NULL;
  for (size_t e = 0; e < nnz; e++) {
    x = x * 1664525u + 1013904223u;
    d->times.first[e] = (double)(x >> 8 & 63) - 20.5;
    if (with_repeats) d->times.last[e] = d->times.first[e] + (x & 128 ? (double)(x >> 20 & 31) : 0);
  }
  return d;
}

/* ---- pieces ---- */

/* What rank `from` sends to rank `to`: so many bytes, with these values. */
static size_t bytes_between(size_t from, size_t to) { return (from * 31 + to * 17 + 5) % 97; }
static char byte_of(size_t from, size_t to, size_t i) { return (char)(from * 7 + to * 3 + i); }

TEST(pieces_of_any_size) {
  static char send[FOPO_COMM_RANKS * 97], come[FOPO_COMM_RANKS * 97];
  size_t sent[FOPO_COMM_RANKS], coming[FOPO_COMM_RANKS], at = 0;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    sent[r] = bytes_between(fopo_comm_own_rank(), r);
    for (size_t i = 0; i < sent[r]; i++) send[at++] = byte_of(fopo_comm_own_rank(), r, i);
  }
  ok(fopo_pieces_sizes(coming, sent, FOPO_OK));
  for (size_t piece = 1; piece < 1000; piece = piece * 3 + 1) {
    memset(come, 0, sizeof come);
    ok(fopo_pieces_exchange(come, coming, send, sent, piece, FOPO_OK));
    at = 0;
    for (size_t r = 0; r < fopo_comm_ranks(); r++) {
      assert_int_equal(coming[r], bytes_between(r, fopo_comm_own_rank()));
      for (size_t i = 0; i < coming[r]; i++) {
        assert_int_equal(come[at++], byte_of(r, fopo_comm_own_rank(), i));
      }
    }
    size_t own = 0; /* the first rank's part of what this one sent */
    for (size_t r = 0; r < fopo_comm_ranks(); r++) coming[r] = bytes_between(r, 0);
    memset(come, 0, sizeof come);
    ok(fopo_pieces_gather(come, send + own, coming, piece, FOPO_OK));
    at = 0;
    for (size_t r = 0; r < fopo_comm_ranks(); r++) {
      for (size_t i = 0; i < coming[r]; i++) assert_int_equal(come[at++], byte_of(r, 0, i));
    }
    for (size_t r = 0; r < fopo_comm_ranks(); r++) {
      coming[r] = bytes_between(r, fopo_comm_own_rank());
    }
  }
}

TEST(any_rank_broadcasts) {
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    size_t x[3] = {fopo_comm_own_rank(), 5 * fopo_comm_own_rank(), 9};
    ok(fopo_comm_broadcast(x, sizeof x, r));
    assert_true(x[0] == r && x[1] == 5 * r && x[2] == 9);
  }
}

/* ---- splits ---- */

/* Rows of a matrix are the rows first .. of another one. */
static void same_rows(const fopo_csr *part, const fopo_csr *whole, size_t first) {
  assert_int_equal(part->cols, whole->cols);
  for (size_t i = 0; i < part->rows; i++) {
    assert_int_equal(fopo_csr_count(part, i), fopo_csr_count(whole, first + i));
    assert_memory_equal(fopo_csr_row(part, i), fopo_csr_row(whole, first + i),
                        fopo_csr_count(part, i) * sizeof *part->ids);
  }
}

static void same_part(const fopo_sessions *part, const fopo_sessions *whole) {
  size_t first, n = fopo_comm_own_share(&first, whole->X.rows);
  assert_int_equal(fopo_sessions_count(part), whole->X.rows);
  if (whole->X.rows == 0) return;
  assert_true(part->first == first && part->X.rows == n && part->Y.rows == n);
  assert_int_equal(part->all, whole->X.rows);
  same_rows(&part->X, &whole->X, first);
  same_rows(&part->Y, &whole->Y, first);
  assert_memory_equal(part->users, whole->users + first, n * sizeof *part->users);
}

/* Both splits, or both refuse with the same sentence. Returns 1 if there are sessions. */
static int same_split(const fopo_dataset *d, const fopo_dataset *part, const fopo_split_options *o,
                      const fopo_split_plan *plan) {
  fopo_split whole, split;
  char why[512] = "";
  int status = fopo_split_by(&whole, d, o, plan);
  if (status != FOPO_OK) snprintf(why, sizeof why, "%s", fopo_error_sentence());
  int other = fopo_ranks_split(&split, part, o, plan);
  assert_int_equal(status, other);
  if (status != FOPO_OK) {
    assert_string_equal(fopo_error_sentence(), why);
    return 0;
  }
  assert_true(split.kept == whole.kept && split.dropped == whole.dropped);
  assert_memory_equal(split.without, whole.without, sizeof split.without);
  assert_memory_equal(split.from, whole.from, sizeof split.from);
  same_part(&split.train, &whole.train);
  same_part(&split.valid, &whole.valid);
  same_part(&split.test, &whole.test);
  fopo_split_done(&split);
  fopo_split_done(&whole);
  return 1;
}

TEST(splits_are_those_of_the_whole) {
  static const fopo_split_kind kinds[] = {FOPO_SPLIT_USERS, FOPO_SPLIT_TIME, FOPO_SPLIT_LAST};
  const double early = -3.5, late = 25.0;
  size_t made = 0, refusals = 0;
  for (int repeats = 0; repeats < 2; repeats++) {
    FREED(fopo_dataset_free) fopo_dataset *d = make_dataset(USERS, repeats), *part = NULL;
    ok(fopo_dataset_share(&part, d));
    for (int i = 0; i < 96; i++) {
      fopo_split_options o = {.min_items = i % 5 == 4 ? 60 : 2 + (size_t)i % 11,
                              .max_users = i % 4 == 3 ? 20 + (size_t)i : 0,
                              .valid = i % 6 == 5 ? 0 : 0.07 + 0.01 * (i % 9),
                              .test = 0.02 * (i % 8),
                              .seed = (uint64_t)i};
      fopo_split_plan p = {.kind = kinds[i % 3],
                           .by_time = i / 3 % 2,
                           .keep_seen = i / 6 % 2,
                           .observed = i % 7 == 0 ? 0.3 : 0,
                           .from = {i % 24 == 1 ? &early : NULL, i % 12 == 1 ? &late : NULL}};
      int sessions = same_split(d, part, &o, &p);
      made += (size_t)sessions;
      refusals += !sessions;
    }
  }
  assert_true(made > 120 && refusals > 4);
}

/* Fewer users than ranks, and ranks without a session. */
TEST(few_users) {
  for (size_t users = 1; users < 9; users++) {
    FREED(fopo_dataset_free) fopo_dataset *d = make_dataset(users, 0), *part = NULL;
    ok(fopo_dataset_share(&part, d));
    for (int kind = 0; kind < 3; kind++) {
      fopo_split_options o = {.min_items = 2, .valid = kind > 0 ? 0.2 : 0, .seed = users};
      fopo_split_plan p = {.kind = (fopo_split_kind)kind, .by_time = kind > 0};
      same_split(d, part, &o, &p);
    }
  }
}

TEST(a_share_of_a_share_is_refused) {
  fopo_dataset *d = make_dataset(USERS, 1), *part = NULL, *again = NULL;
  double times[2], shared[2];
  ok(fopo_dataset_share(&part, d));
  refused(fopo_dataset_share(&again, part), FOPO_ERR_ARGUMENT, "shared out to the ranks already");
  assert_int_equal(fopo_dataset_nnz(part), fopo_csr_nnz(&d->matrix));
  assert_int_equal(fopo_dataset_users(part), USERS);
  assert_int_equal(fopo_dataset_period(&times[0], &times[1], d), 1);
  assert_int_equal(fopo_dataset_period(&shared[0], &shared[1], part), 1);
  assert_memory_equal(times, shared, sizeof times);
  fopo_dataset_free(part);
  fopo_dataset_free(d);
}

/* ---- what is made of sessions ---- */

/* The train part, whole and shared out. */
static void make_train(fopo_split *whole, fopo_split *split) {
  const fopo_split_options o = {.min_items = 3, .valid = 0.2, .test = 0.2, .seed = 3};
  FREED(fopo_dataset_free) fopo_dataset *d = make_dataset(USERS, 0), *part = NULL;
  ok(fopo_dataset_share(&part, d));
  ok(fopo_split_by(whole, d, &o, &(fopo_split_plan){0}));
  ok(fopo_ranks_split(split, part, &o, &(fopo_split_plan){0}));
}

TEST(gathered_contexts) {
  DONE(fopo_split_done) fopo_split whole, split;
  make_train(&whole, &split);
  const fopo_sessions *all = &whole.train;
  size_t counts[] = {1, 2, 7, 50, all->X.rows - 1, all->X.rows, 100000};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    size_t n = counts[c] < all->X.rows ? counts[c] : all->X.rows;
    DONE(fopo_sessions_done) fopo_sessions some, others;
    ok(fopo_sessions_gather(&some, &split.train, counts[c]));
    ok(fopo_sessions_gather(&others, all, counts[c]));
    assert_true(some.X.rows == n && some.all == 0 && others.X.rows == n);
    for (size_t i = 0; i < n; i++) {
      size_t row = fopo_spread_context(i, n, all->X.rows);
      assert_int_equal(some.users[i], all->users[row]);
      fopo_csr one = fopo_csr_rows(&some.X, i, 1), hits = fopo_csr_rows(&some.Y, i, 1);
      same_rows(&one, &all->X, row);
      same_rows(&hits, &all->Y, row);
    }
    same_rows(&some.X, &others.X, 0);
    same_rows(&some.Y, &others.Y, 0);
  }
}

static void deal_items(fopo_shard *shard, fopo_matrix items) {
  size_t first, n = fopo_comm_own_share(&first, items.rows);
  ok(fopo_shard_deal(shard, fopo_matrix_rows(items, first, n)));
}

TEST(contexts_to_train_on) {
  DONE(fopo_split_done) fopo_split whole, split;
  DONE(fopo_matrix_done) fopo_matrix items;
  DONE(fopo_shard_done) fopo_shard shard;
  DONE(fopo_free_at) float *w = fopo_alloc(ITEMS, sizeof *w), *of_shared;
  fopo_encoding by_degree = {&fopo_encoder_degree, w}, how[] = {by_unit, by_degree};
  make_train(&whole, &split);
  of_shared = fopo_alloc(ITEMS, sizeof *of_shared);
  ok(fopo_item_weights(w, &fopo_encoder_degree, &whole.train));
  ok(fopo_item_weights(of_shared, &fopo_encoder_degree, &split.train));
  assert_memory_equal(w, of_shared, ITEMS * sizeof *w);
  ok(fopo_matrix_init(&items, ITEMS, DIM));
  fopo_fill_normal(items.x, ITEMS * DIM, 1.0, 3, FOPO_STREAM_INIT);
  deal_items(&shard, items);
  for (int i = 0; i < 4; i++) {
    DONE(fopo_shared_done) fopo_shared all, own;
    int dealt = i % 2;
    fopo_shard *from = dealt ? &shard : NULL;
    fopo_matrix given = dealt ? fopo_matrix_view(NULL, 0, DIM) : items;
    ok(fopo_shared_init(&all, &whole.train, given, from, how[i / 2], 0));
    ok(fopo_shared_init(&own, &split.train, given, from, how[i / 2], 0));
    assert_true(own.N == all.N && own.first == all.first && own.most == all.most);
    assert_int_equal(own.x.rows, all.x.rows);
    same_rows(&own.Y, &all.Y, 0);
    assert_memory_equal(own.x.x, all.x.x, own.x.rows * DIM * sizeof(float));
  }
}

/* The rows of the whole that this part holds, to a tolerance relative to their largest number. */
static void same_items(const fopo_shard *s, fopo_matrix items) {
  double largest = 0.0;
  for (size_t i = 0; i < items.rows * items.cols; i++) {
    largest = fmax(largest, fabs((double)items.x[i]));
  }
  assert_int_equal(s->part.P, items.rows);
  for (size_t i = 0; i < s->items.rows; i++) {
    const float *mine = fopo_matrix_row(s->items, i), *all = fopo_matrix_row(items, s->id[i]);
    for (size_t j = 0; j < items.cols; j++) {
      double apart = fabs((double)mine[j] - (double)all[j]);
      if (apart > 2e-5 * largest) {
        fail_msg("item %u, %zu: %g, not %g", s->id[i], j, (double)mine[j], (double)all[j]);
      }
    }
  }
}

TEST(embeddings) {
  DONE(fopo_split_done) fopo_split whole, split;
  DONE(fopo_matrix_done) fopo_matrix items;
  float singular[DIM], expected[DIM];
  make_train(&whole, &split); /* more users than items; valid: fewer */
  ok(fopo_matrix_init(&items, ITEMS, DIM));
  for (int part = 0; part < 2; part++) {
    const fopo_sessions *all = part ? &whole.valid : &whole.train;
    const fopo_sessions *own = part ? &split.valid : &split.train;
    assert_true((all->X.rows < ITEMS) == part);
    for (int i = 0; i < 6; i++) {
      const fopo_embed_options o = {
          .svd = {.dim = DIM, .oversample = 8, .power_iterations = 4 * (size_t)(i / 2), .seed = 2},
          .scale = {0.5, 1},
          .by_degree = i % 2};
      ok(fopo_embed_svd(items, expected, all, &o));
      for (int is_shared = 0; is_shared < 2; is_shared++) {
        DONE(fopo_shard_done) fopo_shard s;
        ok(fopo_shard_svd(&s, singular, is_shared ? own : all, &o));
        for (size_t j = 0; j < DIM; j++) {
          assert_true(fabsf(singular[j] / expected[j] - 1) < 1e-5f);
        }
        same_items(&s, items);
      }
    }
  }
}

/* The products in pieces of any size are the same bits. */
TEST(embeddings_in_pieces) {
  DONE(fopo_split_done) fopo_split whole, split;
  fopo_shard one, other;
  float singular[DIM], again[DIM];
  const fopo_embed_options o = {
      {.dim = DIM, .oversample = 8, .power_iterations = 2, .seed = 2}, {0.5, 1}, 0};
  make_train(&whole, &split);
  ok(fopo_shard_svd(&one, singular, &split.train, &o));
  for (size_t slab = 100; slab < 100000; slab *= 10) { /* from a user and an item at a time on */
    fopo_shard_svd_slab(slab);
    ok(fopo_shard_svd(&other, again, &split.train, &o));
    assert_memory_equal(singular, again, sizeof singular);
    assert_int_equal(one.items.rows, other.items.rows);
    assert_memory_equal(one.id, other.id, one.items.rows * sizeof *one.id);
    assert_memory_equal(one.items.x, other.items.x, one.items.rows * DIM * sizeof(float));
    fopo_shard_done(&other);
  }
  fopo_shard_svd_slab(0);
  fopo_shard_done(&one);
}

/* Ctrl-C on one rank, at the n-th time that it looks whether there was one. */
typedef struct {
  size_t rank, n, calls;
} stop;

/* ---- sparse scores ---- */

enum { MANY = 17001, QUERIES = 6 };

/* Rows: empty, few entries, a third of the items, all but one, all, all but every 100th. */
static void make_sparse(fopo_csr *X) {
  size_t n = 0;
  ok(fopo_csr_init(X, QUERIES, MANY, QUERIES * MANY, 1));
  for (size_t b = 0; b < QUERIES; b++) {
    for (uint32_t a = 0; a < MANY; a++) {
      int is_entry[] = {0, a % 500 == 3, a % 3 == 1, a != 1234, 1, a % 100 != 7};
      if (is_entry[b]) X->ids[n++] = a;
    }
    X->indptr[b + 1] = n;
  }
  fopo_fill_normal(X->values, n, 1.0, 6, FOPO_STREAM_INIT);
}

/* What a probe finds in the items of an index. */
static fopo_mass_found probed(fopo_matrix items, fopo_shard *shard, fopo_matrix Q,
                              const fopo_sparse_scores *s) {
  FREED(fopo_index_free) fopo_index *ix = NULL;
  FREED(fopo_mass_probe_free) fopo_mass_probe *p = NULL;
  FREED(fopo_free) uint32_t *order = fopo_alloc(items.rows, sizeof *order);
  FREED(fopo_free) float *norms = fopo_alloc(items.rows, sizeof *norms);
  fopo_mass_found found;
  uint64_t version;
  ok(fopo_index_norm(&ix, items, FOPO_BUDGET_AUTO));
  ok(fopo_index_order(order, norms, &version, ix));
  ok(fopo_mass_probe_reserve(&p, DIM, 20));
  ok(fopo_mass_measure(&found, p, &(fopo_mass_order){items, order, norms, shard, s}, Q, 20, 0.9,
                       256, MANY));
  return found;
}

/* Sums, temperature, expected reward and probe of the parts are those of the whole, to rounding. */
static void same_sums(fopo_matrix items, fopo_shard *shard, fopo_matrix Q,
                      const fopo_sparse_scores *s, const fopo_csr *Y) {
  double z[2][QUERIES], squares[2][QUERIES], T[2];
  fopo_scores f = {.Q = Q, .items = items, .sparse = s};
  fopo_scores part = {.Q = Q, .items = shard->items, .part = &shard->part, .sparse = s};
  ok(fopo_softmax_sums(z[0], squares[0], &f, 0, QUERIES));
  int status = fopo_softmax_sums(z[1], squares[1], &part, 0, QUERIES);
  ok(fopo_shard_log_sums(z[1], squares[1], QUERIES, status));
  for (size_t b = 0; b < QUERIES; b++) {
    assert_true(z[1][b] == z[0][b] || fabs(z[1][b] - z[0][b]) < 1e-5);
    assert_true(fabs(squares[1][b] - squares[0][b]) < 1e-5 * squares[0][b] + 1e-12);
  }
  if (s->values == NULL) {
    ok(fopo_softmax_temperature(&T[0], &f, 15.0));
    ok(fopo_softmax_temperature(&T[1], &part, 15.0));
    assert_true(fabs(T[1] / T[0] - 1.0) < 1e-5);
  }
  DONE(fopo_policy_done) fopo_policy pi;
  ok(init_linear(&pi, items, DIM, FOPO_THETA_IDENTITY, 1.0f, 1));
  fopo_policy dealt = pi;
  dealt.items = shard->items;
  dealt.shard = shard;
  fopo_sessions sessions = {.Y = *Y};
  fopo_expected e[2];
  float each[QUERIES];
  for (int i = 0; i < 2; i++) {
    ok(fopo_evaluate_expected(&e[i], each, FOPO_OBJECTIVE_REWARD, NULL, i == 0 ? &pi : &dealt, Q,
                              &sessions, s, 0, NULL));
  }
  assert_true(fabs(e[1].reward - e[0].reward) < 1e-6 && e[1].unanswered == e[0].unanswered);
  assert_true(fabs(e[1].likelihood - e[0].likelihood) < 1e-5);
  assert_true(fabs(e[1].effective / e[0].effective - 1.0) < 1e-5);
  fopo_mass_found whole = probed(items, NULL, Q, s), found = probed(shard->items, shard, Q, s);
  assert_int_equal(found.wanted, whole.wanted);
  assert_true(fabs(found.held - whole.held) < 1e-5);
}

TEST(sparse_scores) {
  DONE(fopo_matrix_done) fopo_matrix items, Q;
  DONE(fopo_shard_done) fopo_shard shard;
  DONE(fopo_csr_done) fopo_csr X, Y;
  ok(fopo_matrix_init(&items, MANY, DIM));
  ok(fopo_matrix_init(&Q, QUERIES, DIM));
  fopo_fill_normal(items.x, MANY * DIM, 1.0, 3, FOPO_STREAM_INIT);
  fopo_fill_normal(Q.x, QUERIES * DIM, 1.0, 4, FOPO_STREAM_INIT);
  deal_items(&shard, items);
  make_sparse(&X);
  ok(fopo_csr_init(&Y, QUERIES, MANY, QUERIES * 31, 0));
  for (uint32_t i = 0; i < QUERIES * 31; i++) Y.ids[i] = i % 31 * 100; /* 0, 100 .. 3000 */
  for (size_t b = 0; b < QUERIES; b++) Y.indptr[b + 1] = (b + 1) * 31;
  fopo_sparse_scores mask = fopo_mask_of(&X), values = mask;
  values.values = X.values;
  same_sums(items, &shard, Q, &mask, &Y);
  same_sums(items, &shard, Q, &values, &Y);
}

static void stop_at(void *payload, const char *what, double done, double total, int closed) {
  stop *s = payload;
  (void)what, (void)done, (void)total, (void)closed;
  if (++s->calls == s->n && s->rank == fopo_comm_own_rank()) fopo_interrupt_request();
}

static void on_signal(int number) {
  (void)number;
  fopo_interrupt_request();
}

/* Wherever one rank is interrupted, all leave with the piece of the work in hand. */
TEST(interruptions) {
  DONE(fopo_split_done) fopo_split whole, split;
  fopo_shard shard;
  float singular[DIM];
  const fopo_embed_options o = {
      {.dim = DIM, .oversample = 8, .power_iterations = 1, .seed = 2}, {0.5, 1}, 0};
  make_train(&whole, &split);
  struct sigaction own = {.sa_handler = on_signal}, before;
  sigaction(SIGINT, &own, &before);
  fopo_shard_svd_slab(fopo_comm_ranks() == 1 ? 1000 : 300);
  stop s = {0};
  fopo_progress_to(stop_at, &s);
  ok(fopo_shard_svd(&shard, singular, &split.train, &o));
  size_t looks = s.calls;
  fopo_shard_done(&shard);
  assert_true(looks > 60);
  for (size_t n = 1; n < looks; n++) {
    s = (stop){n % fopo_comm_ranks(), n, 0};
    int status = fopo_shard_svd(&shard, singular, &split.train, &o);
    assert_int_equal(status, FOPO_ERR_INTERRUPTED);
    assert_true(fopo_interrupted());
    assert_true(s.calls <= n + 2);
    fopo_interrupt_clear();
    ok(fopo_comm_agree(FOPO_OK)); /* none is asked to stop in what follows */
  }
  fopo_progress_to(NULL, NULL);
  fopo_shard_svd_slab(0);
  sigaction(SIGINT, &before, NULL);
}

/* ---- what goes wrong on one rank ---- */

/* Everything, from the dataset to contexts to train on. */
static int all_work(const fopo_dataset *d, const fopo_split_plan *plan) {
  const fopo_split_options o = {.min_items = 3, .valid = 0.2, .test = 0.1, .seed = 3};
  const fopo_embed_options svd = {
      {.dim = DIM, .oversample = 8, .power_iterations = 1, .seed = 2}, {0.5, 1}, 0};
  float singular[DIM];
  fopo_split split = {0};
  fopo_shard shard = {0};
  fopo_sessions some = {0};
  fopo_shared shared = {0};
  int status = fopo_ranks_split(&split, d, &o, plan);
  if (status == FOPO_OK) status = fopo_sessions_gather(&some, &split.valid, 9);
  if (status == FOPO_OK) {
    status = fopo_shard_svd(&shard, singular, &split.train, &svd);
  }
  fopo_matrix items = fopo_matrix_view(NULL, 0, DIM);
  if (status == FOPO_OK) {
    status = fopo_shared_init(&shared, &split.train, items, &shard, by_mean, 0);
  }
  fopo_shared_done(&shared);
  fopo_shard_done(&shard);
  fopo_sessions_done(&some);
  fopo_split_done(&split);
  return status;
}

/* Splits by time and by the last item take turns. */
static int work_of_place(const void *d, long n) {
  const fopo_split_plan plan = {.kind = n % 2 ? FOPO_SPLIT_TIME : FOPO_SPLIT_LAST, .by_time = 1};
  return all_work(d, &plan);
}

/* No rank waits for one that lacks memory. */
TEST(no_memory) {
  FREED(fopo_dataset_free) fopo_dataset *d = make_dataset(60, 1), *part = NULL;
  ok(fopo_dataset_share(&part, d));
  assert_true(fail_each_rank(work_of_place, part) > 50);
}

int main(int argc, char **argv) {
  if (join_ranks(&argc, &argv)) return 1;
  return leave_ranks(run_all(NULL, NULL));
}
