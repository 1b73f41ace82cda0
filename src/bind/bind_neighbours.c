/* Weights between items, of policies that score lists; and sessions that are held out for them. */
#include <string.h>

#include "bind/families.h"
#include "core/memory.h"
#include "core/rng.h"
#include "data/histories.h"
#include "judge/baseline.h"

static void done(bind_object *o) { fopo_neighbours_done(&((bind_neighbours *)o)->neighbours); }

const bind_type bind_neighbours_type = {
    .name = "fopo.item_weights", .size = sizeof(bind_neighbours), .done = done};

/* *weights becomes the n largest of each item of the baseline at `index`. */
static void take_weights(lua_State *L, fopo_csr *weights, int index, size_t n) {
  const fopo_csr *W;
  bind_check(L, fopo_baseline_item_weights(&W, bind_get_baseline(L, index)));
  bind_check(L, fopo_neighbours_take(weights, W, n));
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

/* native.neighbours_leave_out(neighbours, baseline, sessions): the training contexts, which are
 * those of the sessions that the baseline was learnt from, are scored without their own user from
 * now on; false: that follows from weights that are similarities alone. */
static int leave_out(lua_State *L) {
  const fopo_baseline_options *o = fopo_baseline_get(bind_get_baseline(L, 2));
  fopo_neighbours *x = &((bind_neighbours *)bind_get(L, 1, &bind_neighbours_type))->neighbours;
  const fopo_sessions *s = bind_get_sessions(L, 3);
  if (!o->kind->is_similarity) return bind_return_boolean(L, 0);
  fopo_csr M = {0};
  int status = fopo_interactions(&M, s);
  if (status == FOPO_OK) status = fopo_neighbours_leave_out(x, &M, o->similarity, o->shrink);
  fopo_csr_done(&M);
  bind_check(L, status);
  bind_pressure(L, fopo_csr_nnz(&x->taken) * 4);
  return bind_return_boolean(L, 1);
}

/* native.neighbours_hold(neighbours, baseline, n, count): the next `count` training contexts are
 * scored by the weights of this baseline, which was learnt without their users. */
static int hold(lua_State *L) {
  size_t n = bind_count(L, 3, "n", 0, SIZE_MAX), count = bind_count(L, 4, "count", 1, UINT32_MAX);
  fopo_neighbours *x = &((bind_neighbours *)bind_get(L, 1, &bind_neighbours_type))->neighbours;
  fopo_csr *held = fopo_realloc(x->held, x->n_held + 1, sizeof *held);
  if (held == NULL) bind_check(L, FOPO_ERR_MEMORY);
  x->held = held;
  uint32_t *part = fopo_realloc(x->part, x->n_contexts + count, sizeof *part);
  if (part == NULL) bind_check(L, FOPO_ERR_MEMORY);
  x->part = part;
  take_weights(L, &x->held[x->n_held], 2, n);
  for (size_t i = 0; i < count; i++) part[x->n_contexts + i] = (uint32_t)x->n_held;
  x->n_held++;
  x->n_contexts += count;
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

const luaL_Reg bind_neighbours_functions[] = {
    {"neighbours", neighbours}, {"neighbours_leave_out", leave_out},
    {"neighbours_hold", hold},  {"sessions_hold", sessions_hold},
    {"votes", votes},           {NULL, NULL}};
