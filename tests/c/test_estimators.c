/* The sampled estimators against the exact gradient: their means over many draws, within three
 * standard errors of what they estimate, and the bias of SNIS, which shrinks like 1 / S.
 *
 * One context is repeated N times in a batch; a draw's randomness comes from the context's id, so a
 * batch is N independent repetitions. Errors are measured along fixed random directions of the
 * [L, L] gradient: one number each, with a standard error. */
#include "small_world.h"

enum { DIM = 3, ENTRIES = DIM * DIM, DIRECTIONS = 3, COPIES = 64 };

/* All contexts become context 0. */
static void copy_context(small_world *w) {
  fopo_csr same = {0};
  size_t n = fopo_csr_count(&w->Y, 0);
  ok(fopo_csr_init(&same, w->N, w->P, n * w->N, 0));
  for (size_t i = 0; i < w->N; i++) {
    memcpy(fopo_matrix_row(w->contexts, i), w->contexts.x, w->L * sizeof(float));
    memcpy(same.ids + i * n, fopo_csr_row(&w->Y, 0), n * sizeof *same.ids);
    same.indptr[i + 1] = (i + 1) * n;
  }
  fopo_csr_done(&w->Y);
  w->Y = same;
}

static void tiny_world(small_world *w, size_t P, double peak, uint64_t seed) {
  small_world_init(w, P, COPIES, DIM, 0.25, peak, seed);
  copy_context(w);
}

/* Unit vectors in the space of gradients, always the same ones. */
static const double *direction(int d) {
  static double u[DIRECTIONS][ENTRIES];
  float x[ENTRIES];
  double sum = 0.0;
  fopo_fill_normal(x, ENTRIES, 1.0, 77 + (uint64_t)d, FOPO_STREAM_INIT);
  for (int i = 0; i < ENTRIES; i++) sum += (double)x[i] * (double)x[i];
  for (int i = 0; i < ENTRIES; i++) u[d][i] = (double)x[i] / sqrt(sum);
  return u[d];
}

/* Mean and standard error of a series, by running sums. */
typedef struct {
  double n, sum, squares;
} series;

static void series_add(series *s, double x) {
  s->n += 1.0;
  s->sum += x;
  s->squares += x * x;
}

static double mean_of(const series *s) { return s->sum / s->n; }

static double error_of(const series *s) {
  double m = mean_of(s);
  return sqrt((s->squares / s->n - m * m) / (s->n - 1.0));
}

/* What the estimates stray from the exact gradient, along each direction. */
typedef struct {
  series along[DIRECTIONS];
  series reward; /* estimated minus exact E_pi r */
  series head_mass;
} deviation;

static void deviation_add(deviation *d, const float *G, const double *exact) {
  for (int k = 0; k < DIRECTIONS; k++) {
    const double *u = direction(k);
    double x = 0.0;
    for (int i = 0; i < ENTRIES; i++) x += u[i] * ((double)G[i] - exact[i]);
    series_add(&d->along[k], x);
  }
}

static deviation measure(small_world *w, fopo_gradient_options options, uint32_t steps) {
  deviation d = {0};
  double exact[ENTRIES], *theta = small_world_theta(w);
  double reward = small_world_reward(exact, w, theta, 1);
  fopo_gradient *g = NULL;
  ok(fopo_gradient_new(&g, &options));
  ok(fopo_gradient_bind(g, w->device, &w->pi, fopo_contexts_of(w->contexts), &w->reward));
  for (uint32_t step = 0; step < steps; step++) {
    float G[ENTRIES];
    fopo_gradient_stats stats;
    ok(compute_gradient(g, fopo_matrix_view(G, DIM, DIM), &stats, w->rows, w->N,
                        (fopo_draw_key){11, step}));
    deviation_add(&d, G, exact);
    series_add(&d.reward, stats.mean.reward - reward);
    series_add(&d.head_mass, stats.mean.head_mass);
  }
  fopo_gradient_free(g);
  fopo_free(theta);
  return d;
}

/* The largest |mean| in standard errors. */
static double worst(const deviation *d, const char *name) {
  double largest = 0.0;
  print_message("%-28s", name);
  for (int k = 0; k < DIRECTIONS; k++) {
    double m = mean_of(&d->along[k]), se = error_of(&d->along[k]);
    print_message("  %9.2e +- %.1e", m, se);
    if (fabs(m) / se > largest) largest = fabs(m) / se;
  }
  print_message("  worst %.1f\n", largest);
  return largest;
}

/* -- unbiased --------------------------------------------------------------------------------- */

TEST(test_reinforce) {
  DONE(small_world_done) small_world w;
  tiny_world(&w, 30, 0.5, 1);
  for (int baseline = 0; baseline < 2; baseline++) {
    /* few samples: unbiased at any S */
    fopo_gradient_options o = {
        .estimator = &fopo_estimator_reinforce, .samples = 5, .baseline = baseline};
    deviation d = measure(&w, o, 4000);
    assert_true(worst(&d, baseline ? "reinforce, mean, S = 5" : "reinforce, none, S = 5") < 3.0);
    assert_true(fabs(mean_of(&d.reward)) < 3.0 * error_of(&d.reward));
  }
}

/* -- snis ------------------------------------------------------------------------------------- */

/* The three proposals, K = 6 of the items. */
static fopo_gradient_options snis(int which, fopo_index *ix, size_t S) {
  fopo_gradient_options o = {.estimator = &fopo_estimator_snis, .samples = S};
  if (which == 0) return o;
  o.proposal = (fopo_proposal){
      .kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 6, .epsilon = 0.3, .stratified = which == 2};
  return o;
}

static const char *const snis_names[] = {"uniform", "mixture, iid", "mixture, stratified"};

/* So many samples that the bias is far below the standard error. */
TEST(test_snis) {
  DONE(small_world_done) small_world w;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  tiny_world(&w, 30, 0.5, 2);
  ok(fopo_index_exact(&ix, w.items));
  for (int which = 0; which < 3; which++) {
    deviation d = measure(&w, snis(which, ix, 4000), 40);
    assert_true(worst(&d, snis_names[which]) < 3.0);
    assert_true(fabs(mean_of(&d.reward)) < 3.0 * error_of(&d.reward));
  }
}

static fopo_gradient_options head_tail(fopo_index *ix, size_t k, size_t U) {
  return (fopo_gradient_options){.estimator = &fopo_estimator_head_tail,
                                 .samples = U,
                                 .proposal = {.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = k}};
}

/* Head and tail: no bias to be seen with a long tail, one of order 1 / U (here less: a draw in each
 * strip) with a short one; and with as many rows its variance is below that of SNIS. */
TEST(test_head_tail) {
  DONE(small_world_done) small_world w;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  tiny_world(&w, 400, 0.5, 2);
  ok(fopo_index_exact(&ix, w.items));
  deviation d = measure(&w, head_tail(ix, 40, 300), 100);
  assert_true(worst(&d, "head 40, tail 300") < 3.0);
  assert_true(fabs(mean_of(&d.reward)) < 3.0 * error_of(&d.reward));

  deviation few = measure(&w, head_tail(ix, 6, 6), 400);
  deviation many = measure(&w, head_tail(ix, 6, 48), 400);
  worst(&few, "head 6, tail 6");
  worst(&many, "head 6, tail 48");
  deviation mixed = measure(&w, snis(1, ix, 54), 400);
  worst(&mixed, "mixture, S = 54");
  for (int k = 0; k < DIRECTIONS; k++) {
    double se = error_of(&many.along[k]);
    assert_true(fabs(mean_of(&many.along[k])) < fabs(mean_of(&few.along[k])) / 4.0 + 3.0 * se);
    assert_true(se < error_of(&few.along[k]) && se < error_of(&mixed.along[k]));
  }
}

static fopo_gradient_options shared(size_t H, size_t U) {
  return (fopo_gradient_options){.estimator = &fopo_estimator_head_tail, .samples = U, .head = H};
}

/* The same of a head that all contexts share: no bias with a long tail, and less of it, and less
 * variance, the more of the policy the head holds. */
TEST(test_shared_head) {
  DONE(small_world_done) small_world w;
  tiny_world(&w, 400, 0.5, 2);
  deviation d = measure(&w, shared(40, 75), 400);
  assert_true(worst(&d, "shared head 40, tail 75") < 3.0);
  assert_true(fabs(mean_of(&d.reward)) < 3.0 * error_of(&d.reward));

  deviation few = measure(&w, shared(6, 6), 400), many = measure(&w, shared(6, 48), 400);
  deviation large = measure(&w, shared(200, 6), 400);
  worst(&few, "shared head 6, tail 6");
  worst(&many, "shared head 6, tail 48");
  worst(&large, "shared head 200, tail 6");
  for (int k = 0; k < DIRECTIONS; k++) {
    double se = error_of(&many.along[k]);
    assert_true(fabs(mean_of(&many.along[k])) < fabs(mean_of(&few.along[k])) / 4.0 + 3.0 * se);
    assert_true(se < error_of(&few.along[k]));
    assert_true(error_of(&large.along[k]) < error_of(&few.along[k]));
  }
}

/* The share of pi inside the candidates, as estimated and as it is. */
TEST(test_head_mass) {
  DONE(small_world_done) small_world w;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  tiny_world(&w, 30, 0.5, 2);
  ok(fopo_index_exact(&ix, w.items));
  deviation d = measure(&w, snis(1, ix, 4000), 40);

  double pi[30], *theta = small_world_theta(&w), mass = 0.0;
  float q[DIM], scores[6];
  uint32_t ids[6], count;
  fopo_matrix Q = fopo_matrix_view(q, 1, DIM);
  small_world_policy(pi, &w, theta, 0);
  ok(fopo_policy_queries(Q, &w.pi, fopo_matrix_rows(w.contexts, 0, 1)));
  ok(fopo_index_search(ids, scores, &count, ix, Q, 6));
  for (int i = 0; i < 6; i++) mass += pi[ids[i]];
  print_message("head mass %.5f, estimated %.5f +- %.1e\n", mass, mean_of(&d.head_mass),
                error_of(&d.head_mass));
  assert_true(fabs(mean_of(&d.head_mass) - mass) < 3.0 * error_of(&d.head_mass));
  fopo_free(theta);
}

/* Along the direction that strays most at the smallest S. A mixture of few candidates and few
 * uniform draws, so that its bias stands out; eps S is whole, as stratified draws like it. */
TEST(test_bias) {
  static const size_t samples[] = {8, 32, 128};
  static const uint32_t steps[] = {100, 400, 1600};
  DONE(small_world_done) small_world w;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  tiny_world(&w, 30, 0.5, 3);
  ok(fopo_index_exact(&ix, w.items));
  for (int which = 0; which < 3; which++) {
    double scaled[3];
    int k = 0;
    for (int i = 0; i < 3; i++) {
      fopo_gradient_options o = snis(which, ix, samples[i]);
      o.proposal.k = 2;
      o.proposal.epsilon = 0.5;
      deviation d = measure(&w, o, steps[i]);
      for (int j = 1; i == 0 && j < DIRECTIONS; j++) {
        if (fabs(mean_of(&d.along[j])) > fabs(mean_of(&d.along[k]))) k = j;
      }
      double S = (double)samples[i], bias = mean_of(&d.along[k]), se = error_of(&d.along[k]);
      scaled[i] = bias * S;
      print_message("%-20s S = %3zu: bias %9.2e +- %.1e, times S %7.4f +- %.4f\n",
                    snis_names[which], samples[i], bias, se, scaled[i], se * S);
      assert_true(bias > 5.0 * se);
    }
    /* from S = 8 to 128 the bias falls to a sixteenth, give or take the next order */
    double least = fmin(fmin(scaled[0], scaled[1]), scaled[2]);
    assert_true(fmax(fmax(scaled[0], scaled[1]), scaled[2]) < 1.7 * least);
  }
}

int main(void) {
  fopo_threads_set(1); /* thousands of tiny batches: the bits are the same */
  return run_all(NULL, NULL);
}
