#include "learn/batch.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/progress.h"
#include "learn/ratio.h"

/* Draws held at once: 4 Mi, 48 MB of ids, densities and rewards. A batch of 32 with S = 1000 takes
 * 32 thousand; only the exact gradient of a large catalogue needs several parts. */
static const size_t most_draws = (size_t)1 << 22;

/* A part never has fewer contexts, or the threads would have nothing to share. */
enum { LEAST_PART = 8 };

/* ---- by the plan ---- */

/* The device draws, rewards and combines in one operation if nobody else wants to see the draws. */
static int can_fuse(const fopo_batch *b) {
  const fopo_binding *data = b->data;
  const fopo_estimator *e = b->options->estimator;
  if (fopo_batch_shares_tail(b)) return 1;
  return data->device->ops->snis_drawn != NULL && (e->needs & FOPO_CAN_FUSE) &&
         b->plan->listed == 0 && data->L <= FOPO_FUSED_DIM && b->S <= FOPO_FUSED_DRAWS &&
         fopo_reward_is_sparse(b->reward) && !data->learns_items &&
         fopo_parts_is_alone(data->parts) && data->parts->shared == NULL &&
         b->fault == FOPO_FAULT_NONE;
}

int fopo_batch_prepare(fopo_batch *b) {
  const fopo_gradient_options *o = b->options;
  b->S = o->estimator->draws != NULL ? o->estimator->draws(b) : o->samples;
  b->near = 0;
  if (o->estimator->prepare != NULL) o->estimator->prepare(b);
  b->fused = can_fuse(b);
  size_t each = b->S + b->near * b->data->L;
  size_t part = most_draws / each > LEAST_PART ? most_draws / each : LEAST_PART;
  b->part_size = part < b->plan->B ? part : b->plan->B;
  if (fopo_batch_is_ratio(b)) {
    b->shift = fopo_ratio_shift(b->reward);
    b->part_size = b->plan->B; /* of which all V are needed at once */
  }
  return fopo_batch_reserve(b);
}

/* ---- the beginning ---- */

/* Whether the caller is to see the draws. */
static int is_handed_out(const fopo_batch *b) {
  return fopo_reward_from_caller(b->reward) || fopo_estimator_asks(b->options->estimator);
}

/* Whether he is asked for anything, and sees whole parts. */
static int asks_caller(const fopo_batch *b) { return is_handed_out(b) || fopo_batch_proposes(b); }

/* Into how many pieces parts are cut. */
static size_t count_pieces(const fopo_batch *b, size_t part) {
  int whole = asks_caller(b) || !fopo_parts_is_alone(b->data->parts);
  return whole ? 1 : fopo_candidates_pieces(&b->candidates, b->rows, b->B, part);
}

/* Whether the rows of the batch are on the device already. */
static int is_ordered(const fopo_batch *b) {
  const fopo_row_order *o = &b->order;
  return b->data->parts->shared == NULL && o->host != NULL && b->rows >= o->host &&
         b->rows < o->host + o->n && b->data->device->ops->start_batch != NULL;
}

int fopo_batch_begin(fopo_batch *b, const float *theta, const uint32_t *rows, size_t B,
                     fopo_draw_key key) {
  const fopo_binding *data = b->data;
  fopo_device *d = data->device;
  size_t part = b->part_size < B ? b->part_size : B;
  b->theta = theta != NULL ? theta : data->theta;
  b->rows = rows;
  b->key = key;
  b->B = B;
  b->outer_due = 0;
  b->done = 0;
  b->by_log_sigma = 0.0;
  b->part = b->piece = (fopo_span){0};
  memset(b->seconds, 0, sizeof b->seconds);
  size_t pieces = count_pieces(b, part);
  b->piece_size = (part + pieces - 1) / pieces;
  fopo_candidates_begin(&b->candidates, B, b->fused && b->piece_size == B);
  int status = is_ordered(b) ? FOPO_OK : d->ops->put(d, b->arrays.rows, rows, B * sizeof *rows);
  if (status == FOPO_OK && theta == NULL) {
    status = d->ops->put(d, data->theta, data->policy->theta.x, data->n_theta * sizeof *theta);
  }
  if (status == FOPO_OK) b->stage = FOPO_STAGE_READY;
  return status;
}

/* ---- a piece: queries, draws, rewards, v ---- */

/* n contexts from place `first` of the batch on, which is in the part that begins at `part`. */
static fopo_span span_at(const fopo_batch *b, size_t part, size_t first, size_t n) {
  const fopo_batch_arrays *m = &b->arrays;
  size_t at = first - part, D = b->data->D, L = b->data->L;
  return (fopo_span){.first = first,
                     .n = n,
                     .rows = b->rows + first,
                     .device = {.B = n,
                                .S = b->S,
                                .P = b->data->P,
                                .L = L,
                                .rows = m->rows + first,
                                .Q = m->Q + at * L,
                                .sparse = fopo_binding_sparse(b->data, at),
                                .key = b->key},
                     .X = {m->X, n, D, D},
                     .Q = {m->Q + at * L, n, L, L},
                     .V = {m->V + at * L, n, L, L},
                     .stats = m->stats + at * FOPO_STATS};
}

/* Where the rows of the part at hand are. */
static fopo_batch_start start_of(const fopo_batch *b) {
  const fopo_row_order *o = &b->order;
  fopo_batch_start s = {.rows = b->arrays.rows + b->part.first, .skipped = b->part.first};
  if (is_ordered(b)) s.order = o->device, s.first = o->at + (size_t)(b->rows - o->host);
  return s;
}

/* X and Q = h(X) / T of the part at hand. */
static int make_queries(fopo_batch *b) {
  const fopo_span *x = &b->part;
  double start = fopo_clock();
  fopo_batch_start from = start_of(b);
  int status = fopo_binding_queries(b->data, x->Q, x->X, b->arrays.hidden, b->theta, &from);
  b->seconds[FOPO_PHASE_GRADIENT] += fopo_clock() - start;
  return status;
}

/* A theta that has overflowed is first seen by the search of its queries. */
static int fail_queries(const fopo_batch *b) {
  char why[240];
  snprintf(why, sizeof why, "%s", fopo_error_sentence());
  return fopo_fail(FOPO_ERR_NUMERIC,
                   "step %llu, where the queries are contexts times theta: %s; load a checkpoint "
                   "from before that, or set theta anew, and lower lr",
                   (unsigned long long)b->key.step + 1, why);
}

/* Where the contexts end that this process draws for, of the part at hand; *first: where they
 * begin. */
static size_t end_of_share(const fopo_batch *b, size_t *first) {
  size_t n = b->data->parts->ops->share(first, b->part.n);
  *first += b->part.first;
  return *first + n;
}

/* The contexts that are drawn next. Those of other ranks are passed over. */
static fopo_span next_piece(const fopo_batch *b) {
  size_t first, end = end_of_share(b, &first), at = b->done > first ? b->done : first;
  return span_at(b, b->part.first, at, end - at < b->piece_size ? end - at : b->piece_size);
}

/* Asks the caller for the piece's draws; what is left out is refused. Custom is on the CPU alone,
 * whose memory is the host's (fopo_gradient_check_fit). */
static int ask_draws(fopo_batch *b, fopo_drawn *drawn) {
  const fopo_samples *s = &b->draws.samples;
  if (drawn == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "what is custom is filled by its caller, draw by draw");
  }
  *drawn = (fopo_drawn){.rows = b->piece.rows,
                        .B = b->piece.n,
                        .S = b->S,
                        .draws = s->ids,
                        .density = s->logq,
                        .Q = b->piece.Q,
                        .key = b->key};
  for (size_t i = 0; i < b->piece.n * b->S; i++) s->ids[i] = FOPO_NO_ITEM;
  b->stage = FOPO_STAGE_PROPOSED;
  return FOPO_DRAWN;
}

static int draw_piece(fopo_batch *b) {
  int status = b->options->estimator->draw(b);
  return status == FOPO_ERR_NUMERIC ? fail_queries(b) : status;
}

/* The next part if one is done, then its next piece, and that piece's draws. */
static int draw(fopo_batch *b, fopo_drawn *drawn) {
  int status = FOPO_OK;
  if (fopo_interrupted()) {
    return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while estimating a gradient");
  }
  if (b->done == b->part.first + b->part.n) {
    size_t left = b->B - b->done;
    b->part = span_at(b, b->done, b->done, left < b->part_size ? left : b->part_size);
    status = make_queries(b);
  }
  if (status != FOPO_OK) return status;
  b->piece = next_piece(b);
  return fopo_batch_proposes(b) ? ask_draws(b, drawn) : draw_piece(b);
}

/* Copies the draws to the host, with a place for their rewards. */
static int fetch_draws(fopo_batch *b, fopo_drawn *drawn) {
  fopo_device *d = b->data->device;
  fopo_draws *w = &b->draws;
  size_t n = b->piece.n * b->S;
  int status = d->ops->get(d, w->host_ids, w->samples.ids, n * sizeof *w->host_ids);
  *drawn = (fopo_drawn){
      .ids = w->host_ids, .rows = b->piece.rows, .reward = w->host_r, .B = b->piece.n, .S = b->S};
  return status;
}

/* Hands the draws to the caller; what nobody fills is NaN, and is refused later. Coefficients are
 * asked for on the CPU alone, whose memory is the host's (fopo_gradient_check_fit). */
static int hand_out(fopo_batch *b, fopo_drawn *drawn) {
  fopo_device *d = b->data->device;
  const fopo_draws *w = &b->draws;
  size_t n = b->piece.n * b->S;
  if (drawn == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "what is custom is filled by its caller, draw by draw");
  }
  int status = fetch_draws(b, drawn);
  if (status == FOPO_OK && !fopo_reward_from_caller(b->reward)) {
    status = d->ops->get(d, w->host_r, w->samples.r, n * sizeof *w->host_r);
  } else {
    for (size_t i = 0; i < n; i++) drawn->reward[i] = NAN;
  }
  if (status != FOPO_OK) return status;
  if (fopo_estimator_asks(b->options->estimator)) {
    drawn->f = w->f;
    drawn->logq = w->samples.logq;
    drawn->c = w->c;
    drawn->value = b->options->own_value ? w->value : NULL;
    for (size_t i = 0; i < n; i++) w->c[i] = NAN;
  }
  b->stage = FOPO_STAGE_DRAWN;
  return FOPO_DRAWN;
}

/* The coefficients and values that the caller has given must be numbers; a masked item has none. */
static int take_coefficients(fopo_batch *b) {
  const fopo_draws *w = &b->draws;
  for (size_t i = 0; i < b->piece.n * b->S; i++) {
    if (w->f[i] == -INFINITY) w->c[i] = 0.0f;
    if (isfinite(w->c[i])) continue;
    return fopo_fail(FOPO_ERR_NUMERIC,
                     "the coefficient of item %llu for context %llu, draw %zu of %zu, is %g; "
                     "coefficients must be finite",
                     (unsigned long long)w->samples.ids[i] + 1,
                     (unsigned long long)b->piece.rows[i / b->S] + 1, i % b->S + 1, b->S,
                     (double)w->c[i]);
  }
  for (size_t i = 0; b->options->own_value && i < b->piece.n; i++) {
    if (isfinite(w->value[i])) continue;
    return fopo_fail(FOPO_ERR_NUMERIC, "the value of context %llu is %g; values must be finite",
                     (unsigned long long)b->piece.rows[i] + 1, (double)w->value[i]);
  }
  return FOPO_OK;
}

/* The rewards on the host go to the device, if they are numbers. */
static int put_rewards(fopo_batch *b) {
  fopo_device *d = b->data->device;
  const fopo_draws *w = &b->draws;
  size_t n = b->piece.n * b->S;
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(w->host_r[i])) {
      return fopo_fail(FOPO_ERR_NUMERIC,
                       "the reward of item %llu for context %llu is %g; rewards must be finite",
                       (unsigned long long)w->host_ids[i] + 1,
                       (unsigned long long)b->piece.rows[i / b->S] + 1, (double)w->host_r[i]);
    }
  }
  return d->ops->put(d, w->samples.r, w->host_r, n * sizeof *w->host_r);
}

/* The piece's rewards, looked up on the device or computed on the host. */
static int find_rewards(fopo_batch *b) {
  const fopo_binding *data = b->data;
  const fopo_reward *r = b->reward;
  if (r->kind->look_up != NULL) {
    fopo_reward_arrays arrays = data->credited;
    fopo_device_batch x = b->piece.device;
    arrays.credit.shift = fopo_batch_shift(b);
    fopo_batch_fetched(b, &arrays.Y, &x.rows);
    return r->kind->look_up(data->device, &b->draws.samples, &arrays, &x);
  }
  fopo_drawn local;
  int status = fetch_draws(b, &local);
  if (status == FOPO_OK) {
    status = fopo_reward_fill(local.reward, r, local.ids, local.rows, local.B, local.S);
  }
  return status == FOPO_OK ? put_rewards(b) : status;
}

/* The piece's rewards; those of the caller, and coefficients, are left to him. */
static int reward(fopo_batch *b, fopo_drawn *drawn) {
  b->handed_out = fopo_clock();
  if (b->fused) return FOPO_OK;
  int status = fopo_reward_from_caller(b->reward) ? FOPO_OK : find_rewards(b);
  return status == FOPO_OK && is_handed_out(b) ? hand_out(b, drawn) : status;
}

/* Adds the part's statistics, in the order of its contexts. */
static int add_stats(fopo_batch *b) {
  const fopo_candidates *c = &b->candidates;
  fopo_device *d = b->data->device;
  fopo_candidate_sets sets = {.k = c->plan->q.k, .counts = c->device.counts};
  fopo_device_batch part = {.B = b->part.n, .with_candidates = fopo_candidates_of(c, &b->part)};
  if (b->plan->H > 0 && b->options->estimator->needs & FOPO_SHARES_HEAD) { /* in full */
    sets = (fopo_candidate_sets){.k = b->plan->H};
    part.with_candidates = b->part.n;
  }
  return d->ops->add_stats(d, b->arrays.sums, b->part.stats, &sets, b->part.first == 0, &part);
}

static float scale_of(const fopo_batch *b) {
  return (float)(1.0 / ((double)b->B * (double)b->data->policy->temperature));
}

/* G += the gradient of sum_b V_b . h(X_b) / (B T) with respect to theta. */
static int add_gradient(fopo_batch *b) {
  const fopo_binding *data = b->data;
  const fopo_batch_arrays *m = &b->arrays;
  fopo_policy_pass pass = {data->policy, b->theta, m->hidden, m->delta, scale_of(b)};
  return data->policy->kind->backward(data->device, m->G, b->part.X, b->part.V, &pass,
                                      b->part.first > 0);
}

/* The gradient of a batch in one part can be made together with its norm, at the end. */
static int may_wait(const fopo_batch *b) {
  const fopo_binding *data = b->data;
  return data->device->ops->outer_totals != NULL && data->policy->kind->is_product &&
         b->part.n == b->B;
}

static int add_items(fopo_batch *b) {
  const fopo_estimator *e = b->options->estimator;
  if (e->add_items != NULL) return e->add_items(b);
  return fopo_batch_add_draws(b);
}

/* The values of an objective of the caller's in the piece, whose V is that of the expected rewards
 * until it is multiplied by the slopes. On the CPU alone (fopo_gradient_check_fit). */
static int apply_rule(fopo_batch *b) {
  const fopo_own_objective *rule = b->options->rule;
  const fopo_span *x = &b->piece;
  double *R = b->arrays.host_rule, *value = R + x->n, *slope = value + x->n;
  for (size_t i = 0; i < x->n; i++) R[i] = (double)x->stats[i * FOPO_STATS + FOPO_STAT_REWARD];
  int status = rule->rule(rule->caller, value, slope, R, x->n);
  for (size_t i = 0; i < x->n && status == FOPO_OK; i++) {
    if (!isfinite(value[i]) || !isfinite(slope[i])) {
      return fopo_fail(FOPO_ERR_NUMERIC,
                       "the objective of context %llu, whose expected reward is %g, is %g with the "
                       "slope %g; both must be finite",
                       (unsigned long long)x->rows[i] + 1, R[i], value[i], slope[i]);
    }
    float *V = fopo_matrix_row(x->V, i);
    for (size_t j = 0; j < x->V.cols; j++) V[j] *= (float)slope[i];
    x->stats[i * FOPO_STATS + FOPO_STAT_REWARD] = (float)value[i];
  }
  return status;
}

/* The estimator's second half, and the part of the target items if the objective has any. */
static int combine(fopo_batch *b) {
  const fopo_estimator *e = b->options->estimator;
  fopo_device *d = b->data->device;
  int status = e->combine(b);
  if (status == FOPO_OK && b->options->rule != NULL) status = apply_rule(b);
  if (status != FOPO_OK || !fopo_batch_has_targets(b) || e->needs & FOPO_SCORES_LISTS) {
    return status;
  }
  fopo_csr Y = b->data->credited.Y;
  const uint32_t *rows = b->piece.device.rows;
  fopo_batch_fetched(b, &Y, &rows);
  fopo_estimate estimate = fopo_batch_estimate(b);
  double log_n = e->needs & FOPO_WEIGHTS_ARE_Z ? 0.0 : log((double)b->S);
  fopo_rows items = {b->data->device_items.x, b->data->device_items.ld, FOPO_FLOAT32};
  return d->ops->add_targets(d, &estimate, &Y, b->data->credited.value, rows, &items, log_n,
                             &b->piece.device);
}

/* Draws and rewards of the piece become v, and of a whole part its share of G. */
static int absorb(fopo_batch *b) {
  double start = fopo_clock();
  fopo_parts *parts = b->data->parts;
  b->seconds[FOPO_PHASE_REWARD] += start - b->handed_out;
  size_t first, end = b->piece.first + b->piece.n;
  int status = combine(b);
  if (end == end_of_share(b, &first)) {
    end = b->part.first + b->part.n;
    status =
        parts->ops->join(parts, b->data->device, &b->part, b->candidates.device.counts, status);
    if (status == FOPO_OK && fopo_batch_is_ratio(b)) {
      fopo_device *d = b->data->device;
      status = d->ops->take_ratio(d, b->part.V, b->part.stats, &b->data->credited.credit, b->shift,
                                  b->part.device.rows);
    }
    if (status == FOPO_OK && b->options->estimator->joined != NULL) {
      status = b->options->estimator->joined(b);
    }
    b->outer_due = may_wait(b);
    if (status == FOPO_OK && !b->outer_due) status = add_gradient(b);
    if (status == FOPO_OK && !fopo_batch_is_whole(b)) status = add_stats(b);
  }
  if (status == FOPO_OK && b->data->learns_items) status = add_items(b);
  if (status == FOPO_OK) b->done = end;
  b->seconds[FOPO_PHASE_GRADIENT] += fopo_clock() - start;
  return status;
}

/* Absorbs pieces until the batch is done, fails, or waits for the caller. */
static int go_on(fopo_batch *b, fopo_drawn *drawn) {
  int status = FOPO_OK;
  fopo_stage stage = b->stage; /* PROPOSED, DRAWN: the caller has filled what is his */
  b->stage = FOPO_STAGE_READY;
  if (stage == FOPO_STAGE_PROPOSED) {
    const fopo_samples *s = &b->draws.samples;
    status =
        fopo_proposal_check_draws(s->ids, s->logq, b->piece.rows, b->piece.n, b->S, b->data->P);
    if (status == FOPO_OK) status = draw_piece(b);
    if (status == FOPO_OK) status = reward(b, drawn);
    if (status == FOPO_OK) status = absorb(b);
  } else if (stage == FOPO_STAGE_DRAWN) {
    if (fopo_reward_from_caller(b->reward)) status = put_rewards(b);
    if (status == FOPO_OK && fopo_estimator_asks(b->options->estimator)) {
      status = take_coefficients(b);
    }
    if (status == FOPO_OK) status = absorb(b);
  }
  while (status == FOPO_OK && b->done < b->B) {
    status = draw(b, drawn);
    if (status == FOPO_OK) status = reward(b, drawn);
    if (status == FOPO_OK) status = absorb(b);
  }
  return status;
}

int fopo_batch_run(fopo_batch *b, fopo_drawn *drawn) {
  assert(b->stage != FOPO_STAGE_IDLE);
  int status = go_on(b, drawn);
  if (status < 0) b->stage = FOPO_STAGE_IDLE;
  return b->data->parts->ops->end(status);
}

/* ---- the end ---- */

int fopo_batch_means(fopo_batch *b, fopo_gradient_stats *stats) {
  fopo_device *d = b->data->device;
  *stats = (fopo_gradient_stats){0};
  int status = d->ops->get(d, &stats->sum, b->arrays.sums, sizeof stats->sum);
  stats->sum.steps = 1.0;
  stats->mean = fopo_statistics_means(&stats->sum);
  return status;
}

/* The Frobenius norm of what is learnt: of G and of the gradients of items or weights together. */
static int find_norm(fopo_batch *b, double *norm) {
  const fopo_binding *data = b->data;
  fopo_device *d = data->device;
  const fopo_item_gradient *items = &b->items.sum, *weights = &b->weights.sum;
  fopo_segment learnt[FOPO_POLICY_PARAMETERS];
  size_t n = fopo_policy_segments(learnt, data->policy, NULL);
  double theta2 = 0.0, items2 = 0.0, weights2 = 0.0;
  int status = FOPO_OK;
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    double part2 = 0.0;
    status = d->ops->norm2(d, &part2, b->arrays.G + learnt[i].first, learnt[i].n);
    theta2 += part2;
  }
  if (status == FOPO_OK && items->rows != NULL) {
    status = d->ops->norm2(d, &items2, items->rows, items->n * data->L);
  }
  if (status == FOPO_OK && data->policy->learns[FOPO_BLOCK_WEIGHTS]) {
    status = d->ops->norm2(d, &weights2, weights->rows, weights->n);
  }
  *norm = sqrt(theta2 + items2 + weights2);
  return status;
}

static int fetch_gradient(fopo_batch *b, fopo_matrix G) {
  fopo_device *d = b->data->device;
  const fopo_batch_arrays *m = &b->arrays;
  int status = d->ops->get(d, m->host_G, m->G, b->data->n_theta * sizeof *m->G);
  for (size_t i = 0; i < G.rows && status == FOPO_OK; i++) {
    memcpy(fopo_matrix_row(G, i), m->host_G + i * G.cols, G.cols * sizeof *m->host_G);
  }
  return status;
}

int fopo_batch_finish(fopo_batch *b, fopo_matrix G, fopo_gradient_stats *stats) {
  assert(b->stage == FOPO_STAGE_READY && b->done == b->B);
  double start = fopo_clock(), norm = 0.0;
  size_t rows = b->data->policy->theta.rows, cols = b->data->policy->theta.cols;
  b->stage = FOPO_STAGE_IDLE;
  if (G.x != NULL && (G.rows != rows || G.cols != cols)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the gradient is %zu x %zu but G is %zu x %zu", rows, cols,
                     G.rows, G.cols);
  }
  int status = b->outer_due ? add_gradient(b) : FOPO_OK;
  if (status == FOPO_OK) status = fopo_batch_means(b, stats);
  if (status == FOPO_OK) status = find_norm(b, &norm);
  if (status == FOPO_OK && G.x != NULL) status = fetch_gradient(b, G);
  if (status != FOPO_OK) return status;
  stats->sum.norm = stats->mean.norm = norm;
  b->seconds[FOPO_PHASE_GRADIENT] += fopo_clock() - start;
  memcpy(stats->seconds, b->seconds, sizeof stats->seconds);
  return FOPO_OK;
}

int fopo_batch_finish_async(fopo_batch *b, fopo_totals *totals, double seconds[FOPO_PHASES]) {
  const fopo_binding *data = b->data;
  assert(b->stage == FOPO_STAGE_READY && b->done == b->B && !data->learns_items);
  b->stage = FOPO_STAGE_IDLE;
  fopo_phases_add(seconds, b->seconds);
  fopo_device *d = data->device;
  const fopo_batch_arrays *m = &b->arrays;
  if (!b->outer_due) return d->ops->totals(d, totals, m->sums, m->G, data->n_theta);
  return d->ops->outer_totals(d, totals, m->sums, m->G, b->part.X, b->part.V, scale_of(b));
}
