/* Weights between items, of policies that score lists; and sessions that are held out for them. */
#include <math.h>
#include <string.h>

#include "bind/families.h"
#include "core/memory.h"
#include "core/rng.h"
#include "core/twins.h"
#include "data/histories.h"
#include "data/resplit.h"
#include "judge/baseline.h"

static void done(bind_object *o) { fopo_neighbours_done(&((bind_neighbours *)o)->neighbours); }

const bind_type bind_neighbours_type = {
    .name = "fopo.item_weights", .size = sizeof(bind_neighbours), .done = done};

/* *weights becomes the n largest of each item of the baseline at `index`. */
static void take_weights(lua_State *L, fopo_csr *weights, int index, size_t n) {
  const fopo_csr *W;
  const fopo_baseline *b = bind_get_baseline(L, index);
  if (n > 0 && fopo_baseline_is_linear(b)) {
    bind_check(L, fopo_baseline_largest(weights, b, n));
  } else {
    bind_check(L, fopo_baseline_item_weights(&W, b));
    bind_check(L, fopo_neighbours_take(weights, W, n));
  }
  bind_pressure(L, fopo_csr_nnz(weights) * 8);
}

/* native.neighbours(baseline, sessions, n): the n largest weights of each item of the baseline (0:
 * all), and how often the items were taken in the sessions. */
static int neighbours(lua_State *L) {
  size_t n = bind_count(L, 3, "n", 0, SIZE_MAX);
  bind_get_sessions(L, 2);
  bind_neighbours *x = bind_new(L, &bind_neighbours_type, 0);
  fopo_neighbours *to = &x->neighbours;
  take_weights(L, &to->weights, 1, n);
  fopo_csr M = {0};
  const fopo_sessions *s = bind_get_sessions(L, 2);
  if (s->X.cols != to->weights.rows) {
    return bind_refuse(L, "the weights are of %zu items but the sessions have %zu",
                       to->weights.rows, s->X.cols);
  }
  int status = fopo_interactions(&M, s);
  if (status == FOPO_OK) status = fopo_neighbours_count(&to->log_m, &M);
  fopo_csr_done(&M);
  bind_check(L, status);
  return 1;
}

/* native.neighbours_value(neighbours, value): what each item is worth, an array of P numbers or
 * a reward that has them. */
static int value(lua_State *L) {
  fopo_neighbours *x = &((bind_neighbours *)bind_get(L, 1, &bind_neighbours_type))->neighbours;
  size_t n, P = x->weights.rows;
  const float *value = bind_values(L, &n, 2);
  if (n != P) {
    return bind_refuse(L, "value has %zu numbers but there are %zu items; give one for each", n, P);
  }
  fopo_free(x->log_v);
  x->log_v = NULL;
  bind_check(L, fopo_neighbours_value(&x->log_v, value, P));
  return 0;
}

/* g of all users, unless some weights are missing, or it had more than 0.5 GB. */
static int leave_out_linear(fopo_neighbours *x, const fopo_baseline *b, const fopo_csr *M) {
  const float *over;
  size_t P = M->cols, most = 125000000;
  if (fopo_csr_nnz(&x->weights) < P * (P - 1) || M->rows > most / P) return FOPO_OK;
  int status = fopo_matrix_init(&x->g, M->rows, P);
  if (status != FOPO_OK) return status;
  x->d = fopo_alloc(M->rows, sizeof *x->d);
  x->over = fopo_alloc(P, sizeof *x->over);
  if (x->d == NULL || x->over == NULL) return FOPO_ERR_MEMORY;
  status = fopo_baseline_rows(x->g, x->d, &over, b, M);
  if (status != FOPO_OK) return status;
  memcpy(x->over, over, P * sizeof *over);
  x->n_contexts = M->rows;
  return FOPO_OK;
}

/* native.neighbours_leave_out(neighbours, baseline, sessions): the training contexts, which are
 * those of the sessions that the baseline was learnt from, are scored without their own user from
 * now on; false: that does not follow from its weights, or would take too much memory. */
static int leave_out(lua_State *L) {
  const fopo_baseline_options *o = fopo_baseline_get(bind_get_baseline(L, 2));
  fopo_neighbours *x = &((bind_neighbours *)bind_get(L, 1, &bind_neighbours_type))->neighbours;
  const fopo_sessions *s = bind_get_sessions(L, 3);
  int is_linear = fopo_baseline_is_linear(bind_get_baseline(L, 2));
  if (!o->kind->is_similarity && !is_linear) return bind_return_boolean(L, 0);
  fopo_csr M = {0};
  int status = fopo_interactions(&M, s);
  if (status == FOPO_OK) {
    status = is_linear ? leave_out_linear(x, bind_get_baseline(L, 2), &M)
                       : fopo_neighbours_leave_out(x, &M, o->similarity, o->shrink);
  }
  fopo_csr_done(&M);
  bind_check(L, status);
  if (x->taken.indptr != NULL) bind_pressure(L, fopo_csr_nnz(&x->taken) * 4);
  if (x->g.x != NULL) bind_pressure(L, x->g.rows * x->g.cols * sizeof *x->g.x);
  return bind_return_boolean(L, x->n_contexts > 0);
}

/* native.neighbours_resume(pi, neighbours, saved): pi, which has these weights, goes on from a
 * policy that was saved with those. */
static int resume(lua_State *L) {
  fopo_policy *pi = &bind_policy_whole(L, 1, "from")->policy;
  bind_neighbours *x = bind_get(L, 2, &bind_neighbours_type);
  bind_neighbours *from = bind_get(L, 3, &bind_neighbours_type);
  bind_check(L, fopo_neighbours_resume(pi, &x->neighbours, &from->neighbours));
  return 0;
}

/* native.neighbours_hold(neighbours, baseline, n, count): the next `count` training contexts are
 * scored by the weights of this baseline, which was learnt without their users. */
static int hold(lua_State *L) {
  size_t n = bind_count(L, 3, "n", 0, SIZE_MAX), count = bind_count(L, 4, "count", 1, UINT32_MAX);
  fopo_neighbours *x = &((bind_neighbours *)bind_get(L, 1, &bind_neighbours_type))->neighbours;
  bind_check(L, fopo_resize(&x->held, x->n_held + 1, sizeof *x->held));
  bind_check(L, fopo_resize(&x->part, x->n_contexts + count, sizeof *x->part));
  take_weights(L, &x->held[x->n_held], 2, n);
  for (size_t i = 0; i < count; i++) x->part[x->n_contexts + i] = (uint32_t)x->n_held;
  x->n_held++;
  x->n_contexts += count;
  return 0;
}

/* native.neighbours_dense(neighbours, {items, ..}, parts, encoder, item_weights): the dense part of
 * training contexts is scored by copies of these items, each made without the users of a part;
 * parts, a byte a context, says by which. */
static int dense(lua_State *L) {
  size_t count, n;
  fopo_neighbours *x = &((bind_neighbours *)bind_get(L, 1, &bind_neighbours_type))->neighbours;
  bind_table(L, 2, "the items");
  n = lua_rawlen(L, 2);
  const char *parts = luaL_checklstring(L, 3, &count);
  int which = bind_choice(L, 4, "contexts", fopo_encoder_names);
  size_t P = x->weights.rows;
  fopo_encoding how = bind_encoding(L, fopo_encoders[which], 5, P);
  if (count != x->n_contexts || count == 0 || x->dense != NULL) {
    return bind_refuse(L, "%zu parts do not fit %zu training contexts", count, x->n_contexts);
  }
  x->dense = fopo_alloc(n, sizeof *x->dense);
  x->dense_part = fopo_alloc(count, sizeof *x->dense_part);
  if (x->dense == NULL || x->dense_part == NULL) bind_check(L, FOPO_ERR_MEMORY);
  for (size_t i = 0; i < count; i++) {
    x->dense_part[i] = (uint32_t)(unsigned char)parts[i];
    if (x->dense_part[i] >= n) return bind_refuse(L, "part %u is not there", x->dense_part[i]);
  }
  x->n_dense = n;
  if (how.weights != NULL) {
    x->dense_weights = fopo_alloc(P, sizeof *x->dense_weights);
    if (x->dense_weights == NULL) bind_check(L, FOPO_ERR_MEMORY);
    memcpy(x->dense_weights, how.weights, P * sizeof *x->dense_weights);
  }
  x->how = (fopo_encoding){how.encoder, x->dense_weights};
  for (size_t k = 0; k < n; k++) {
    lua_rawgeti(L, 2, (lua_Integer)k + 1);
    fopo_matrix items = bind_matrix(bind_array_numbers(L, -1, "items"));
    if (items.rows != P || items.cols > P) {
      return bind_refuse(L, "items of %zu x %zu do not fit weights of %zu items", items.rows,
                         items.cols, P);
    }
    bind_check(L, fopo_matrix_init(&x->dense[k], P, items.cols));
    for (size_t a = 0; a < P; a++) {
      memcpy(fopo_matrix_row(x->dense[k], a), fopo_matrix_row(items, a),
             items.cols * sizeof *items.x);
    }
    bind_pressure(L, P * items.cols * sizeof *items.x);
    lua_pop(L, 1);
  }
  return 0;
}

/* native.sessions_hold(sessions, first, last, seed): two sessions, those at the places first + 1 ..
 * last of a random order, and all others. */
static int sessions_hold(lua_State *L) {
  const fopo_sessions *s = bind_get_sessions(L, 1);
  size_t N = s->X.rows, first = bind_count(L, 2, "first", 0, N);
  size_t last = bind_count(L, 3, "last", first, N);
  uint64_t seed = (uint64_t)luaL_checkinteger(L, 4);
  uint32_t *order = bind_scratch(L, N, sizeof *order);
  fopo_shuffle(order, (uint32_t)N, seed, FOPO_STREAM_HELD, 0);
  for (int others = 0; others < 2; others++) {
    if (others == 1) { /* those that are held go to the end, and count no more */
      uint32_t *rest = bind_scratch(L, N, sizeof *rest);
      memcpy(rest, order, first * sizeof *rest);
      memcpy(rest + first, order + last, (N - last) * sizeof *rest);
      order = rest;
    }
    const uint32_t *rows = others ? order : order + first;
    bind_sessions *some = bind_new(L, &bind_sessions_type, 0);
    s = bind_get_sessions(L, 1);
    bind_check(L, fopo_sessions_take(&some->sessions, s, rows,
                                     others ? N - (last - first) : last - first));
    bind_pressure(L, (fopo_csr_nnz(&some->sessions.X) + fopo_csr_nnz(&some->sessions.Y)) * 4);
    lua_insert(L, 5 + others);
  }
  lua_settop(L, 6);
  return 2;
}

typedef struct {
  double users, items, entries, pairs, mates, taken, distinct, distinct_entries;
} work;

static void count_work(work *w, const fopo_csr *M, const fopo_csr *users, const fopo_twins *t) {
  *w = (work){
      .users = (double)M->rows, .items = (double)M->cols, .entries = (double)fopo_csr_nnz(M)};
  for (size_t n = 0; n < M->rows; n++) w->pairs += pow((double)fopo_csr_count(M, n), 2.0);
  for (size_t a = 0; a < M->cols; a++) {
    double n = (double)fopo_csr_count(users, a);
    w->mates += n * n / fmax(w->entries, 1.0);
    w->taken += n > 0.0;
    if (t->first[a] < a || n == 0.0) continue;
    w->distinct += 1.0;
    w->distinct_entries += n;
  }
}

/* native.sessions_work(sessions): {users, items, entries, pairs, mates, taken, distinct,
 * distinct_entries}: interactions, pairs of items that a user took, how many users the item of an
 * interaction has, in the mean, items that anyone took, and of those that the same users took one:
 * how many, and their interactions. */
static int sessions_work(lua_State *L) {
  const fopo_sessions *s = bind_get_sessions(L, 1);
  fopo_csr M = {0}, users = {0};
  fopo_twins twins = {0};
  work w = {0};
  int status = fopo_interactions(&M, s);
  if (status == FOPO_OK) status = fopo_csr_transpose(&users, &M);
  if (status == FOPO_OK) status = fopo_twins_find(&twins, &users);
  if (status == FOPO_OK) count_work(&w, &M, &users, &twins);
  fopo_twins_done(&twins);
  fopo_csr_done(&users);
  fopo_csr_done(&M);
  bind_check(L, status);
  const struct {
    const char *name;
    double value;
  } fields[] = {{"users", w.users},       {"items", w.items},
                {"entries", w.entries},   {"pairs", w.pairs},
                {"mates", w.mates},       {"taken", w.taken},
                {"distinct", w.distinct}, {"distinct_entries", w.distinct_entries}};
  lua_createtable(L, 0, 8);
  for (size_t i = 0; i < 8; i++) bind_set_number(L, fields[i].name, fields[i].value);
  return 1;
}

/* native.sessions_redraw(sessions, seed, epoch): the same sessions, X and Y of which are drawn anew
 * as in this epoch of a trainer (data/resplit.h). */
static int sessions_redraw(lua_State *L) {
  const fopo_sessions *s = bind_get_sessions(L, 1);
  if (!fopo_resplit_can(s)) {
    return bind_refuse(L, "X and Y of these sessions were not divided at random and have no order");
  }
  size_t N = s->X.rows;
  uint64_t seed = (uint64_t)luaL_checkinteger(L, 2);
  uint32_t epoch = (uint32_t)bind_count(L, 3, "epoch", 0, UINT32_MAX);
  uint32_t *rows = bind_scratch(L, N, sizeof *rows);
  for (size_t i = 0; i < N; i++) rows[i] = (uint32_t)i;
  bind_sessions *to = bind_new(L, &bind_sessions_type, 0);
  s = bind_get_sessions(L, 1);
  bind_check(L, fopo_sessions_take(&to->sessions, s, rows, N));
  size_t room = fopo_csr_nnz(&s->X) + fopo_csr_nnz(&s->Y);
  bind_check(L, fopo_resize(&to->sessions.X.ids, room, sizeof *to->sessions.X.ids));
  fopo_resplit_draw(&to->sessions.X, &to->sessions.Y, s, seed, epoch);
  bind_pressure(L, (fopo_csr_nnz(&s->X) + fopo_csr_nnz(&s->Y)) * 4);
  return 1;
}

/* native.votes(pi, sessions, item): of each item of X of the first session, what it adds to the
 * score of the item, in the order of X. */
static int votes(lua_State *L) {
  const fopo_policy *pi = &bind_policy_whole(L, 1, "pi:explain")->policy;
  const fopo_sessions *s = bind_get_sessions(L, 2);
  uint32_t a = bind_id(L, 3, "item", pi->items.rows);
  if (pi->neighbours == NULL || s->X.rows == 0) return bind_refuse(L, "there is no list to score");
  size_t n = fopo_csr_count(&s->X, 0);
  double *votes = bind_scratch(L, n, sizeof *votes);
  fopo_neighbours_votes(votes, pi, fopo_csr_row(&s->X, 0), n, a);
  bind_push_list(L, votes, n);
  return 1;
}

const luaL_Reg bind_neighbours_functions[] = {{"neighbours", neighbours},
                                              {"neighbours_leave_out", leave_out},
                                              {"neighbours_value", value},
                                              {"neighbours_resume", resume},
                                              {"neighbours_hold", hold},
                                              {"sessions_hold", sessions_hold},
                                              {"neighbours_dense", dense},
                                              {"sessions_redraw", sessions_redraw},
                                              {"sessions_work", sessions_work},
                                              {"votes", votes},
                                              {NULL, NULL}};
