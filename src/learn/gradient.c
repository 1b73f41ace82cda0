/* The estimators' common course: contexts to queries, queries to draws, draws to rewards, rewards
 * to one vector v a context, and G = X^T V / (B T) over the batch (gradient.h).
 *
 * A batch is cut into parts whose draws fit a fixed room. How it is cut follows from B, S and P
 * alone, so the order of all sums does too: the same bits for any number of threads, and with
 * rewards from the host or from the device. Nothing here allocates once a batch of the same size
 * has been seen. */
#include "learn/gradient.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "learn/gradient_internal.h"

/* Draws held at once: 4 Mi, 48 MB of ids, densities and rewards. A batch of 32 with S = 1000 takes
 * 32 thousand; only the exact gradient of a large catalogue needs several parts. */
static const size_t most_draws = (size_t)1 << 22;

/* Even then a part has some contexts, or the threads would have nothing to share. */
enum { LEAST_PART = 8 };

/* A part that the host searches in a graph is cut into so many pieces, each with this many queries
 * to search at least: fewer would leave threads without one, and a device with little to do. */
enum { MOST_PIECES = 4, LEAST_PIECE = 32 };

/* -- life ------------------------------------------------------------------------------------- */

static int check_options(const fopo_gradient_options *o) {
  size_t least = o->kind == FOPO_GRADIENT_HEAD_TAIL ? 1 : 2;
  if (o->kind == FOPO_GRADIENT_EXACT || (o->samples >= least && o->samples < UINT32_MAX)) {
    return FOPO_OK;
  }
  if (o->kind == FOPO_GRADIENT_HEAD_TAIL) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the tail is %zu draws; it needs 1 or more (and fewer than %u)", o->samples,
                     UINT32_MAX);
  }
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "%zu samples were asked for; a covariance needs 2 or more (and fewer than %u)",
                   o->samples, UINT32_MAX);
}

int fopo_gradient_new(fopo_gradient **g, const fopo_gradient_options *options) {
  *g = NULL;
  int status = check_options(options);
  if (status != FOPO_OK) return status;
  *g = fopo_alloc(1, sizeof **g);
  if (*g == NULL) return FOPO_ERR_MEMORY;
  (*g)->cache = &(*g)->own;
  return fopo_gradient_set(*g, options);
}

void fopo_gradient_free(fopo_gradient *g) {
  if (g == NULL) return;
  fopo_gradient_unbind(g);
  fopo_free(g->host.G);
  fopo_free(g->host.stats);
  fopo_free(g->host.Q);
  fopo_free(g->host.candidates);
  fopo_free(g->host.counts);
  fopo_free(g->host.candidate_scores);
  fopo_free(g->host.due);
  fopo_free(g->host.ids);
  fopo_free(g->host.reward);
  fopo_free(g->host.mean_weight);
  fopo_free(g);
}

int fopo_gradient_set(fopo_gradient *g, const fopo_gradient_options *options) {
  int status = fopo_gradient_idle(g);
  if (status == FOPO_OK) status = check_options(options);
  if (status != FOPO_OK) return status;
  g->options = *options;
  g->estimator = &fopo_estimators[options->kind];
  g->checked = 0;
  g->enumerated = 0; /* another kind may have used the rows meanwhile */
  return FOPO_OK;
}

const fopo_gradient_options *fopo_gradient_get(const fopo_gradient *g) { return &g->options; }

/* -- a batch ---------------------------------------------------------------------------------- */

/* Each of these makes one group of arrays anew, and notes the room only when all of it is there. */
static int grow_rows(fopo_gradient *g, size_t B) {
  g->room_rows = 0;
  g->dev.rows = fopo_gradient_reserve(g, g->dev.rows, B, sizeof(uint32_t));
  if (g->dev.rows == NULL) return FOPO_ERR_MEMORY;
  g->room_rows = B;
  return FOPO_OK;
}

static int grow_part(fopo_gradient *g, size_t part) {
  fopo_gradient_on_device *m = &g->dev;
  fopo_gradient_on_host *h = &g->host;
  size_t n = part * g->L;
  g->room_part = 0;
  m->X = fopo_gradient_reserve(g, m->X, part * g->D, sizeof(float));
  m->hidden = fopo_gradient_reserve(g, m->hidden, part * g->units, sizeof(float));
  m->delta = fopo_gradient_reserve(g, m->delta, part * g->units, sizeof(float));
  m->Q = fopo_gradient_reserve(g, m->Q, n, sizeof(float));
  m->V = fopo_gradient_reserve(g, m->V, n, sizeof(float));
  m->mean = fopo_gradient_reserve(g, m->mean, n, sizeof(float));
  m->stats = fopo_gradient_reserve(g, m->stats, part * FOPO_STATS, sizeof(float));
  m->counts = fopo_gradient_reserve(g, m->counts, part, sizeof(uint32_t));
  m->due = fopo_gradient_reserve(g, m->due, 2 * part, sizeof(uint32_t));
  h->Q = fopo_gradient_reserve_host(h->Q, n, sizeof(float));
  h->counts = fopo_gradient_reserve_host(h->counts, part, sizeof(uint32_t));
  h->due = fopo_gradient_reserve_host(h->due, 2 * part, sizeof(uint32_t));
  if (!m->hidden || !m->delta || !m->due) return FOPO_ERR_MEMORY;
  if (!m->X || !m->Q || !m->V || !m->mean || !m->stats || !m->counts) return FOPO_ERR_MEMORY;
  if (!h->Q || !h->counts || !h->due) return FOPO_ERR_MEMORY;
  g->room_part = part;
  return FOPO_OK;
}

static int grow_draws(fopo_gradient *g, size_t n) {
  fopo_gradient_on_device *m = &g->dev;
  int status = fopo_memory_suffices((uint64_t)n * 12, "a part of the batch", "use fewer samples");
  if (status != FOPO_OK) return status;
  g->room_draws = 0;
  g->enumerated = 0;
  m->ids = fopo_gradient_reserve(g, m->ids, n, sizeof(uint32_t));
  m->logq = fopo_gradient_reserve(g, m->logq, n, sizeof(float));
  m->r = fopo_gradient_reserve(g, m->r, n, sizeof(float));
  if (!m->ids || !m->logq || !m->r) return FOPO_ERR_MEMORY;
  g->room_draws = n;
  return FOPO_OK;
}

static int grow_candidates(fopo_gradient *g, size_t n) {
  fopo_gradient_on_device *m = &g->dev;
  fopo_gradient_on_host *h = &g->host;
  g->room_candidates = 0;
  m->candidates = fopo_gradient_reserve(g, m->candidates, n, sizeof(uint32_t));
  m->candidate_scores = fopo_gradient_reserve(g, m->candidate_scores, n, sizeof(float));
  h->candidates = fopo_gradient_reserve_host(h->candidates, n, sizeof(uint32_t));
  h->candidate_scores = fopo_gradient_reserve_host(h->candidate_scores, n, sizeof(float));
  if (!m->candidates || !m->candidate_scores) return FOPO_ERR_MEMORY;
  if (!h->candidates || !h->candidate_scores) return FOPO_ERR_MEMORY;
  g->room_candidates = n;
  return FOPO_OK;
}

static int grow_handed(fopo_gradient *g, size_t n) {
  fopo_gradient_on_host *h = &g->host;
  g->room_handed = 0;
  h->ids = fopo_gradient_reserve_host(h->ids, n, sizeof(uint32_t));
  h->reward = fopo_gradient_reserve_host(h->reward, n, sizeof(float));
  if (!h->ids || !h->reward) return FOPO_ERR_MEMORY;
  g->room_handed = n;
  return FOPO_OK;
}

static size_t draws_of(const fopo_gradient_options *o, size_t P) {
  if (o->kind == FOPO_GRADIENT_EXACT) return P;
  return o->kind == FOPO_GRADIENT_HEAD_TAIL ? o->proposal.k + o->samples : o->samples;
}

static int reserve_cache(fopo_gradient *g) {
  const fopo_gradient_options *o = &g->options;
  if (!fopo_gradient_has_proposal(o) || !fopo_proposal_keeps(&o->proposal)) return FOPO_OK;
  return fopo_candidate_cache_reserve(g->cache, g->device, g->contexts.rows, o->proposal.k);
}

/* An adaptive epsilon as what is remembered has it. */
static void adapt(fopo_gradient *g) {
  fopo_proposal *q = &g->options.proposal;
  if (fopo_gradient_has_proposal(&g->options) && q->adaptive) {
    q->epsilon = fopo_candidate_cache_epsilon(g->cache, q);
  }
}

/* Which contexts of the batch get candidates, and the epsilon of its draws. */
static void steer(fopo_gradient *g, size_t B) {
  adapt(g);
  g->q = g->options.proposal;
  g->n_with_candidates = fopo_gradient_has_proposal(&g->options)
                             ? fopo_candidate_cache_n_with_candidates(g->cache, &g->q, B)
                             : 0;
  if (g->n_with_candidates == 0) return;
  if (!fopo_proposal_uses_index(&g->q)) g->q.refresh = 1; /* a probe, and no visit */
  g->q.epsilon = fopo_candidate_cache_draw_epsilon(g->cache, &g->q);
}

/* How many contexts of the batch are searched. */
static size_t searched(const fopo_gradient *g, const uint32_t *rows) {
  size_t due = 0;
  if (!fopo_proposal_keeps(&g->q)) return g->n_with_candidates;
  for (size_t b = 0; b < g->n_with_candidates; b++) {
    if (fopo_candidate_cache_expired(g->cache, rows[b], g->q.refresh)) due++;
  }
  return due;
}

/* The device must be one that works while the host searches. Items that are learnt and a caller who
 * rewards see whole parts. */
static size_t pieces_of(const fopo_gradient *g, const uint32_t *rows) {
  if (!g->by_graph || !g->device->ops->asynchronous || g->train_items) return 1;
  if (g->reward->kind == FOPO_REWARD_CUSTOM) return 1;
  size_t pieces = searched(g, rows) * g->part / g->B / LEAST_PIECE;
  return pieces < 1 ? 1 : pieces < MOST_PIECES ? pieces : MOST_PIECES;
}

/* Cuts the batch into parts and makes room for one. */
static int prepare(fopo_gradient *g, const uint32_t *rows, size_t B) {
  const fopo_gradient_options *o = &g->options;
  g->B = B;
  g->S = draws_of(o, g->P);
  g->part = most_draws / g->S > LEAST_PART ? most_draws / g->S : LEAST_PART;
  if (g->part > B) g->part = B;
  size_t pieces = pieces_of(g, rows);
  g->piece = (g->part + pieces - 1) / pieces;

  int status = B > g->room_rows ? grow_rows(g, B) : FOPO_OK;
  if (status == FOPO_OK && g->part > g->room_part) status = grow_part(g, g->part);
  if (status == FOPO_OK && g->part * g->S > g->room_draws) status = grow_draws(g, g->part * g->S);
  if (status == FOPO_OK && g->n_with_candidates > 0 &&
      g->part * o->proposal.k > g->room_candidates) {
    status = grow_candidates(g, g->part * o->proposal.k);
  }
  if (status == FOPO_OK && g->train_items) status = fopo_gradient_items_prepare(g);
  return status;
}

/* The options against the data that is bound. */
static int check_proposal(const fopo_gradient *g) {
  const fopo_gradient_options *o = &g->options;
  int status = fopo_proposal_check(&o->proposal, g->P, g->L);
  if (status != FOPO_OK || o->kind != FOPO_GRADIENT_HEAD_TAIL) return status;
  if (o->samples <= g->P - o->proposal.k) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "a tail of %zu draws is more than the %zu of %zu items that are no candidates; "
                   "use a smaller tail or k",
                   o->samples, g->P - o->proposal.k, g->P);
}

static int check_batch(fopo_gradient *g, const uint32_t *rows, size_t B) {
  if (g->device == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the gradient is bound to no data yet");
  }
  if (B == 0) return fopo_fail(FOPO_ERR_ARGUMENT, "the batch is empty; give it 1 row or more");
  for (size_t b = 0; b < B; b++) {
    if (rows[b] >= g->contexts.rows) {
      return fopo_fail(FOPO_ERR_ARGUMENT, "row %zu of the batch is context %llu of %zu contexts",
                       b + 1, (unsigned long long)rows[b] + 1, g->contexts.rows);
    }
  }
  if (g->checked || !fopo_gradient_has_proposal(&g->options)) return FOPO_OK;
  int status = check_proposal(g);
  g->checked = status == FOPO_OK;
  return status;
}

int fopo_gradient_begin(fopo_gradient *g, const float *theta, const uint32_t *rows, size_t B,
                        fopo_draw_key key) {
  int status = fopo_gradient_idle(g);
  if (status == FOPO_OK) status = check_batch(g, rows, B);
  if (status == FOPO_OK) status = reserve_cache(g);
  if (status != FOPO_OK) return status;
  steer(g, B);
  status = fopo_gradient_choose_search(g);
  if (status == FOPO_OK) status = prepare(g, rows, B);
  if (status == FOPO_OK)
    status = g->device->ops->put(g->device, g->dev.rows, rows, B * sizeof *rows);
  if (status == FOPO_OK && theta == NULL) {
    status = g->device->ops->put(g->device, g->dev.theta, g->pi->theta.x,
                                 g->n_theta * sizeof *g->dev.theta);
  }
  if (status != FOPO_OK) return status;
  g->theta = theta != NULL ? theta : g->dev.theta;
  g->rows = rows;
  g->key = key;
  g->done = g->first = g->length = 0;
  memset(g->seconds, 0, sizeof g->seconds);
  g->stage = FOPO_STAGE_READY;
  return FOPO_OK;
}

void fopo_gradient_abandon(fopo_gradient *g) { g->stage = FOPO_STAGE_IDLE; }

/* A failure ends the batch. */
static int give_up(fopo_gradient *g, int status) {
  fopo_gradient_abandon(g);
  return status;
}

/* X and Q = h(X) / T of the part at hand. */
static int make_queries(fopo_gradient *g) {
  size_t n = g->length;
  fopo_device *d = g->device;
  double start = fopo_clock();
  fopo_matrix contexts = {g->dev.contexts, g->contexts.rows, g->D, g->contexts.ld};
  fopo_matrix X = fopo_matrix_view(g->dev.X, n, g->D), Q = fopo_matrix_view(g->dev.Q, n, g->L);
  int status = d->ops->gather_rows(d, X, contexts, g->dev.rows + g->done);
  float scale = 1.0f / g->pi->temperature;
  if (status == FOPO_OK && g->units > 0) {
    fopo_network_pass pass = {&g->pi->net, g->theta, g->dev.hidden, NULL, scale};
    status = d->ops->network_forward(d, Q, X, &pass);
  } else if (status == FOPO_OK) {
    status = d->ops->queries(d, Q, X, g->theta, scale);
  }
  g->seconds[FOPO_PHASE_GRADIENT] += fopo_clock() - start;
  return status;
}

/* The next part where one is done, and its next piece. */
static int advance(fopo_gradient *g) {
  int status = FOPO_OK;
  if (g->done == g->first + g->length) {
    g->first = g->done;
    g->length = g->B - g->done < g->part ? g->B - g->done : g->part;
    g->fetched = 0;
    status = make_queries(g);
  }
  size_t at = g->done - g->first, left = g->length - at;
  g->n = left < g->piece ? left : g->piece;
  g->with_candidates = fopo_gradient_with_candidates(g, g->done, g->n);
  g->now = (fopo_gradient_piece){.Q = g->dev.Q + at * g->L,
                                 .V = g->dev.V + at * g->L,
                                 .stats = g->dev.stats + at * FOPO_STATS,
                                 .counts = g->dev.counts + at,
                                 .host_Q = g->host.Q + at * g->L};
  return status;
}

/* Copies the draws to the host; rewards that nobody fills are NaN, and absorb refuses them. */
static int hand_out(fopo_gradient *g, fopo_drawn *drawn) {
  size_t draws = g->n * g->S;
  int status = draws > g->room_handed ? grow_handed(g, g->part * g->S) : FOPO_OK;
  if (status == FOPO_OK) {
    status = g->device->ops->get(g->device, g->host.ids, g->dev.ids, draws * sizeof *g->host.ids);
  }
  if (status != FOPO_OK) return status;
  for (size_t i = 0; i < draws; i++) g->host.reward[i] = NAN;
  *drawn = (fopo_drawn){.ids = g->host.ids,
                        .rows = g->rows + g->done,
                        .reward = g->host.reward,
                        .B = g->n,
                        .S = g->S};
  return FOPO_OK;
}

int fopo_gradient_draw(fopo_gradient *g, fopo_drawn *drawn) {
  assert(g->stage == FOPO_STAGE_READY);
  if (g->done == g->B) return FOPO_OK;
  if (fopo_interrupted()) {
    return give_up(g, fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while estimating a gradient"));
  }
  if (drawn == NULL && g->reward->kind == FOPO_REWARD_CUSTOM) {
    return give_up(
        g, fopo_fail(FOPO_ERR_ARGUMENT, "a custom reward is filled by its caller, draw by draw"));
  }
  int status = advance(g);
  if (status == FOPO_OK) status = g->estimator->draw(g, g->n);
  if (status != FOPO_OK) return give_up(g, status);
  g->waiting = fopo_clock();
  g->from_host = drawn != NULL;
  if (drawn != NULL) status = hand_out(g, drawn);
  if (status != FOPO_OK) return give_up(g, status);
  g->stage = FOPO_STAGE_DRAWN;
  return FOPO_DRAWN;
}

/* Rewards of a part on the device: hits, or a model's and what was logged. */
static int look_up(fopo_gradient *g) {
  fopo_device *d = g->device;
  fopo_samples samples = fopo_gradient_samples(g);
  fopo_device_batch batch = fopo_gradient_batch(g, g->n);
  const fopo_reward *reward = g->reward;
  if (reward->Y != NULL) return d->ops->reward_hits(d, &samples, &g->dev.Y, &batch);
  int modelled = reward->model.users != NULL, status = FOPO_OK;
  if (modelled) {
    fopo_low_rank m = {.users = g->dev.model_users,
                       .items = g->dev.model_items,
                       .rank = reward->model.rank,
                       .logistic = reward->model.logistic};
    status = d->ops->reward_model(d, &samples, &m, &batch);
  }
  if (status == FOPO_OK && reward->credit.action != NULL) {
    fopo_credit c = {.action = g->dev.logged,
                     .weight = g->dev.weight,
                     .gain = g->dev.gain,
                     .shift = reward->credit.shift};
    status = d->ops->reward_credit(d, &samples, &c, modelled, &batch);
  }
  return status;
}

int fopo_gradient_reward(fopo_gradient *g) {
  assert(g->stage == FOPO_STAGE_DRAWN);
  if (g->reward->kind == FOPO_REWARD_CUSTOM) {
    return give_up(
        g, fopo_fail(FOPO_ERR_ARGUMENT, "a custom reward is filled by its caller, draw by draw"));
  }
  g->from_host = 0;
  int status = look_up(g);
  return status == FOPO_OK ? FOPO_OK : give_up(g, status);
}

/* Rewards that came from outside go to the device, if they are numbers. */
static int take_rewards(fopo_gradient *g) {
  size_t draws = g->n * g->S;
  for (size_t i = 0; i < draws; i++) {
    if (!isfinite(g->host.reward[i])) {
      return fopo_fail(FOPO_ERR_NUMERIC,
                       "the reward of item %llu for context %llu is %g; rewards must be finite",
                       (unsigned long long)g->host.ids[i] + 1,
                       (unsigned long long)g->rows[g->done + i / g->S] + 1,
                       (double)g->host.reward[i]);
    }
  }
  return g->device->ops->put(g->device, g->dev.r, g->host.reward, draws * sizeof *g->dev.r);
}

/* Adds the part's statistics, in the order of its contexts. */
static int add_stats(fopo_gradient *g) {
  const fopo_gradient_on_device *m = &g->dev;
  return g->device->ops->add_stats(g->device, m->sums, m->stats, m->counts,
                                   fopo_gradient_with_candidates(g, g->first, g->length), g->q.k,
                                   g->first == 0, g->length);
}

/* G += X^T V / (B T), or the same through the layers of a network. */
static int add_gradient(fopo_gradient *g) {
  fopo_device *d = g->device;
  const fopo_gradient_on_device *m = &g->dev;
  float scale = (float)(1.0 / ((double)g->B * (double)g->pi->temperature));
  fopo_matrix X = fopo_matrix_view(m->X, g->length, g->D);
  fopo_matrix V = fopo_matrix_view(m->V, g->length, g->L);
  if (g->units > 0) {
    fopo_network_pass pass = {&g->pi->net, g->theta, m->hidden, m->delta, scale};
    return d->ops->network_backward(d, m->G, X, V, &pass, g->first > 0);
  }
  return d->ops->outer(d, m->G, X, V, scale, g->first > 0);
}

int fopo_gradient_absorb(fopo_gradient *g) {
  assert(g->stage == FOPO_STAGE_DRAWN);
  int status = g->from_host ? take_rewards(g) : FOPO_OK;
  double start = fopo_clock();
  g->seconds[FOPO_PHASE_REWARD] += start - g->waiting;

  if (status == FOPO_OK) status = g->estimator->combine(g, g->n);
  if (g->done + g->n == g->first + g->length) { /* the part is whole */
    if (status == FOPO_OK) status = add_gradient(g);
    if (status == FOPO_OK) status = add_stats(g);
  }
  if (status == FOPO_OK && g->train_items) status = fopo_gradient_items_add(g);
  if (status != FOPO_OK) return give_up(g, status);
  g->done += g->n;
  g->seconds[FOPO_PHASE_GRADIENT] += fopo_clock() - start;
  g->stage = FOPO_STAGE_READY;
  return FOPO_OK;
}

int fopo_gradient_means(fopo_gradient *g, fopo_gradient_stats *stats) {
  *stats = (fopo_gradient_stats){0};
  int status = g->device->ops->get(g->device, &stats->sum, g->dev.sums, sizeof stats->sum);
  stats->sum.steps = 1.0;
  stats->mean = fopo_statistics_means(&stats->sum);
  return status;
}

int fopo_gradient_finish(fopo_gradient *g, fopo_matrix G, fopo_gradient_stats *stats) {
  assert(g->stage == FOPO_STAGE_READY && g->done == g->B);
  double start = fopo_clock();
  g->stage = FOPO_STAGE_IDLE;
  size_t rows = g->pi->theta.rows, cols = g->pi->theta.cols;
  if (G.x != NULL && (G.rows != rows || G.cols != cols)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the gradient is %zu x %zu but G is %zu x %zu", rows, cols,
                     G.rows, G.cols);
  }
  const fopo_device_ops *ops = g->device->ops;
  fopo_item_gradient items = fopo_gradient_items(g);
  double norm2 = 0.0, items2 = 0.0;
  int status = fopo_gradient_means(g, stats);
  if (status == FOPO_OK) status = ops->norm2(g->device, &norm2, g->dev.G, g->n_theta);
  if (status == FOPO_OK && items.rows != NULL) {
    status = ops->norm2(g->device, &items2, items.rows, items.n * g->L);
  }
  if (status == FOPO_OK && G.x != NULL) {
    status = ops->get(g->device, g->host.G, g->dev.G, g->n_theta * sizeof *g->dev.G);
  }
  if (status != FOPO_OK) return status;
  for (size_t i = 0; G.x != NULL && i < rows; i++) {
    memcpy(fopo_matrix_row(G, i), g->host.G + i * cols, cols * sizeof *g->host.G);
  }
  stats->sum.norm = stats->mean.norm = sqrt(norm2 + items2);
  g->seconds[FOPO_PHASE_GRADIENT] += fopo_clock() - start;
  memcpy(stats->seconds, g->seconds, sizeof stats->seconds);
  return FOPO_OK;
}

int fopo_gradient_finish_async(fopo_gradient *g, fopo_totals *totals, double seconds[FOPO_PHASES]) {
  assert(g->stage == FOPO_STAGE_READY && g->done == g->B && !g->train_items);
  g->stage = FOPO_STAGE_IDLE;
  for (int i = 0; i < FOPO_PHASES; i++) seconds[i] += g->seconds[i];
  return g->device->ops->totals(g->device, totals, g->dev.sums, g->dev.G, g->n_theta);
}

float *fopo_gradient_result(fopo_gradient *g) { return g->dev.G; }

void fopo_gradient_commit(fopo_gradient *g, const uint32_t *rows, size_t B,
                          const fopo_gradient_stats *stats) {
  if (!fopo_gradient_has_proposal(&g->options)) return;
  fopo_candidate_cache_commit(g->cache, &g->options.proposal, rows, B, stats->mean.head_mass,
                              (size_t)stats->sum.n_with_candidates);
  adapt(g);
}

int fopo_gradient_must_sync(const fopo_gradient *g, const uint32_t *rows, size_t B) {
  return fopo_gradient_has_proposal(&g->options) &&
         fopo_candidate_cache_must_sync(g->cache, &g->options.proposal, rows, B);
}

void fopo_gradient_rollback(fopo_gradient *g, const uint32_t *rows, size_t B) {
  if (!fopo_gradient_has_proposal(&g->options)) return;
  fopo_candidate_cache_rollback(g->cache, &g->options.proposal, rows, B);
  adapt(g);
}

int fopo_gradient_attach_cache(fopo_gradient *g, fopo_candidate_cache *cache) {
  g->cache = cache != NULL ? cache : &g->own;
  if (cache == NULL) return FOPO_OK;
  adapt(g);
  return reserve_cache(g);
}

uint64_t fopo_gradient_kept_bytes(const fopo_gradient *g) {
  const fopo_gradient_options *o = &g->options;
  if (!fopo_gradient_has_proposal(o) || !fopo_proposal_keeps(&o->proposal)) return 0;
  return fopo_candidate_cache_bytes(g->contexts.rows, o->proposal.k);
}

int fopo_gradient_compute(fopo_gradient *g, fopo_matrix G, fopo_gradient_stats *stats,
                          const float *theta, const uint32_t *rows, size_t B, fopo_draw_key key) {
  int status = fopo_gradient_begin(g, theta, rows, B, key);
  if (status != FOPO_OK) return status;
  while ((status = fopo_gradient_draw(g, NULL)) == FOPO_DRAWN) {
    status = fopo_gradient_reward(g);
    if (status == FOPO_OK) status = fopo_gradient_absorb(g);
    if (status != FOPO_OK) return status;
  }
  if (status == FOPO_OK) status = fopo_gradient_finish(g, G, stats);
  if (status == FOPO_OK) fopo_gradient_commit(g, rows, B, stats);
  return status;
}
