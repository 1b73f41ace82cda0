/* Sessions: what they hold, the contexts and embeddings that are made of them, and sessions that
 * are shared out to the ranks. */
#include "bind/families.h"
#include "contexts/contexts.h"
#include "data/embed.h"
#include "ranks/shared.h"
#include "ranks/weights.h"

static void sessions_done(bind_object *o) { fopo_sessions_done(&((bind_sessions *)o)->sessions); }

fopo_sessions *bind_any_sessions(lua_State *L, int index) {
  return &((bind_sessions *)bind_get(L, index, &bind_sessions_type))->sessions;
}

fopo_sessions *bind_get_sessions(lua_State *L, int index) {
  fopo_sessions *s = bind_any_sessions(L, index);
  if (s->all > 0) {
    bind_refuse(L, "the sessions are shared out to the ranks, and none has all of them; "
                   "s:gather(1000) puts 1,000 of them on every rank, and s:share(pi) is to train "
                   "on");
  }
  return s;
}

bind_object *bind_sessions_or_none(lua_State *L, int index) {
  if (lua_isnoneornil(L, index)) return NULL;
  bind_get_sessions(L, index);
  return bind_get(L, index, &bind_sessions_type);
}

fopo_encoding bind_encoding(lua_State *L, const fopo_encoder *encoder, int at, size_t P) {
  fopo_encoding how = {.encoder = encoder};
  int is_given = !lua_isnoneornil(L, at);
  if (is_given != (encoder->weight != NULL)) {
    bind_refuse(L,
                is_given ? "contexts = \"%s\" weigh no items; leave out item_weights"
                         : "contexts = \"%s\" weigh the items; give item_weights, as "
                           "s.train:item_weights makes them",
                encoder->name);
  }
  if (!is_given) return how;
  bind_array *w = bind_array_numbers(L, at, "item_weights");
  if (w->rows * w->cols != P) {
    bind_refuse(L, "item_weights of %zu x %zu are not one for each of %zu items", w->rows, w->cols,
                P);
  }
  bind_check(L, fopo_matrix_finite(bind_matrix(w), "item_weights"));
  how.weights = w->data;
  return how;
}

/* native.contexts(s, items, scale[, weights]): [N, L], X of each session as the encoder of the name
 * `scale` makes it. */
static int contexts(lua_State *L) {
  lua_settop(L, 4);
  fopo_sessions *s = bind_get_sessions(L, 1);
  bind_array *items = bind_array_items(L, 2, "items");
  const fopo_encoder *encoder = fopo_encoders[bind_choice(L, 3, "scale", fopo_encoder_names)];
  bind_array *x = bind_array_new(L, 0, s->X.rows, items->cols);
  s = bind_get_sessions(L, 1);
  items = bind_array_items(L, 2, "items");
  fopo_encoding how = bind_encoding(L, encoder, 4, s->X.cols);
  if (items->shard != NULL) {
    bind_check(L, fopo_shard_contexts(bind_matrix(x), s, items->shard, how));
  } else {
    bind_check(L, fopo_encode(bind_matrix(x), how, &s->X, bind_matrix(items)));
  }
  return 1;
}

/* native.item_weights(s, scale): [1, P] of the encoder of that name, whose training sessions s are;
 * nil if it weighs no items. */
static int item_weights(lua_State *L) {
  size_t P = bind_any_sessions(L, 1)->X.cols;
  const fopo_encoder *encoder = fopo_encoders[bind_choice(L, 2, "contexts", fopo_encoder_names)];
  if (encoder->weight == NULL) return bind_return_nil(L);
  bind_array *w = bind_array_new(L, 0, 1, P);
  bind_check(L, fopo_item_weights(w->data, encoder, bind_any_sessions(L, 1)));
  return 1;
}

static int push_part(lua_State *L, int observed) {
  bind_push_again(L, 1, &bind_sessions_type);
  fopo_sessions *s = bind_get_sessions(L, 1);
  size_t i = bind_id(L, 2, "context", s->X.rows);
  bind_push_ids(L, observed ? &s->X : &s->Y, i);
  return 1;
}

/* s:x(i): the observed items of context i. */
static int sessions_x(lua_State *L) { return push_part(L, 1); }

/* s:y(i): the held-out items, which a policy should find. */
static int sessions_y(lua_State *L) { return push_part(L, 0); }

/* s:user(i): the dataset's row that context i comes from. */
static int sessions_user(lua_State *L) {
  fopo_sessions *s = bind_get_sessions(L, 1);
  uint32_t i = bind_id(L, 2, "context", s->X.rows);
  return bind_return_count(L, (size_t)s->users[i] + 1);
}

/* s:hits(i, item): whether the item is in Y of context i. */
static int sessions_hits(lua_State *L) {
  fopo_sessions *s = bind_get_sessions(L, 1);
  uint32_t i = bind_id(L, 2, "context", s->Y.rows);
  return bind_return_boolean(L, fopo_csr_contains(&s->Y, i, bind_id(L, 3, "item", s->Y.cols)));
}

BIND_FIELD(sessions_n, count, fopo_sessions_count(&((bind_sessions *)o)->sessions))

/* Of sessions that are shared out, those of this rank; else all. */
BIND_FIELD(sessions_here, count, ((bind_sessions *)o)->sessions.X.rows)
BIND_FIELD(sessions_shared, boolean, ((bind_sessions *)o)->sessions.all > 0)
BIND_FIELD(sessions_at_random, boolean, ((bind_sessions *)o)->sessions.at_random)
BIND_FIELD(sessions_in_order, boolean, ((bind_sessions *)o)->sessions.order != NULL)
BIND_FIELD(sessions_keeps_seen, boolean, ((bind_sessions *)o)->sessions.keeps_seen)
BIND_FIELD(sessions_n_items, count, ((bind_sessions *)o)->sessions.X.cols)

/* native.embed_svd(sessions, {dim, scale, power, by_degree, seed, power_iterations, oversample,
 * shard}): items [P, L], dealt out if `shard`, and a table of the L singular values. power, if
 * there is one, takes the place of scale. */
static int embed_svd(lua_State *L) {
  fopo_svd_options o = {.dim = bind_option_count(L, 2, "dim", 0, SIZE_MAX),
                        .oversample = bind_option_count(L, 2, "oversample", 0, SIZE_MAX),
                        .power_iterations =
                            bind_option_count(L, 2, "power_iterations", 0, SIZE_MAX),
                        .seed = bind_option_seed(L, 2)};
  fopo_embed_options embed = {
      .svd = o,
      .scale = bind_has(L, 2, "power")
                   ? (fopo_scale){bind_option_number(L, 2, "power"), 1}
                   : fopo_scales[bind_option_choice(L, 2, "scale", fopo_scale_names)],
      .by_degree = bind_has(L, 2, "by_degree") && bind_option_boolean(L, 2, "by_degree")};
  int is_dealt = bind_has(L, 2, "shard") && bind_option_boolean(L, 2, "shard");
  fopo_sessions *s = is_dealt ? bind_any_sessions(L, 1) : bind_get_sessions(L, 1);
  size_t N = fopo_sessions_count(s), most = N < s->X.cols ? N : s->X.cols;
  if (o.dim > most) {
    return bind_refuse(L,
                       "dim is %zu but %zu contexts x %zu items have at most %zu "
                       "singular vectors; use dim <= %zu",
                       o.dim, N, s->X.cols, most, most);
  }
  float *singular = bind_scratch(L, o.dim, sizeof *singular);
  if (is_dealt) {
    bind_array *part = bind_array_new_part(L);
    bind_check(L, fopo_shard_svd(part->shard, singular, bind_any_sessions(L, 1), &embed));
    bind_array_dealt(L, part);
  } else {
    bind_array *items = bind_array_new(L, 0, s->X.cols, o.dim);
    s = bind_get_sessions(L, 1);
    bind_check(L, fopo_embed_svd(bind_matrix(items), singular, s, &embed));
  }
  bind_push_floats(L, singular, o.dim);
  return 2;
}

/* ---- sessions that are shared out ---- */

static void shared_done(bind_object *o) { fopo_shared_done(&((bind_shared *)o)->shared); }

fopo_contexts bind_contexts(const bind_object *o, const bind_object *sessions) {
  if (o->type == &bind_shared_type) {
    const fopo_shared *s = &((const bind_shared *)o)->shared;
    return (fopo_contexts){.n = s->N, .x = s->x, .shared = s};
  }
  fopo_contexts contexts = fopo_contexts_of(bind_matrix((const bind_array *)o));
  if (sessions != NULL) contexts.X = ((const bind_sessions *)sessions)->sessions.X;
  return contexts;
}

/* native.share_sessions(sessions, items, scale, keep_seen[, weights]): this rank's range of the
 * sessions, with contexts made of items, which may be dealt out, and with their X if keep_seen. */
static int share_sessions(lua_State *L) {
  const fopo_encoder *encoder = fopo_encoders[bind_choice(L, 3, "scale", fopo_encoder_names)];
  int keep_seen = bind_boolean(L, 4, "keep_seen");
  lua_settop(L, 5);
  bind_any_sessions(L, 1);
  bind_array_items(L, 2, "items");
  bind_shared *shared = bind_new(L, &bind_shared_type, 0);
  const fopo_sessions *s = bind_any_sessions(L, 1);
  bind_array *items = bind_array_items(L, 2, "items");
  fopo_encoding how = bind_encoding(L, encoder, 5, s->X.cols);
  bind_check(
      L, fopo_shared_init(&shared->shared, s, bind_matrix(items), items->shard, how, keep_seen));
  bind_pressure(L, shared->shared.x.rows * shared->shared.x.cols * sizeof(float) +
                       fopo_csr_nnz(&shared->shared.Y) * sizeof(uint32_t));
  return 1;
}

/* native.encoders(): the rows of contexts/encoders.def, a list of {name, text, weighs}. */
static int encoders(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; fopo_encoders[i] != NULL; i++) {
    lua_createtable(L, 0, 3);
    bind_set_string(L, "name", fopo_encoders[i]->name);
    bind_set_string(L, "text", fopo_encoders[i]->text);
    bind_set_boolean(L, "weighs", fopo_encoders[i]->weight != NULL);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* native.gather_sessions(sessions, n): n of them, evenly spread, on every rank. */
static int gather_sessions(lua_State *L) {
  size_t n = bind_count(L, 2, "n", 1, SIZE_MAX);
  bind_any_sessions(L, 1);
  bind_sessions *some = bind_new(L, &bind_sessions_type, 0);
  bind_check(L, fopo_sessions_gather(&some->sessions, bind_any_sessions(L, 1), n));
  bind_pressure(L, fopo_csr_nnz(&some->sessions.X) * sizeof(uint32_t) +
                       fopo_csr_nnz(&some->sessions.Y) * sizeof(uint32_t));
  return 1;
}

const luaL_Reg bind_sessions_functions[] = {{"embed_svd", embed_svd},
                                            {"contexts", contexts},
                                            {"item_weights", item_weights},
                                            {"encoders", encoders},
                                            {"share_sessions", share_sessions},
                                            {"gather_sessions", gather_sessions},
                                            {NULL, NULL}};

static const luaL_Reg sessions_methods[] = {{"x", sessions_x},
                                            {"y", sessions_y},
                                            {"user", sessions_user},
                                            {"hits", sessions_hits},
                                            {NULL, NULL}};

static const bind_field sessions_fields[] = {{"n", sessions_n, NULL},
                                             {"here", sessions_here, NULL},
                                             {"shared", sessions_shared, NULL},
                                             {"at_random", sessions_at_random, NULL},
                                             {"in_order", sessions_in_order, NULL},
                                             {"keeps_seen", sessions_keeps_seen, NULL},
                                             {"n_items", sessions_n_items, NULL},
                                             {NULL, NULL, NULL}};

const bind_type bind_sessions_type = {.name = "fopo.sessions",
                                      .size = sizeof(bind_sessions),
                                      .done = sessions_done,
                                      .methods = sessions_methods,
                                      .fields = sessions_fields};

static const fopo_shared *shared_of(const bind_object *o) {
  return &((const bind_shared *)o)->shared;
}

BIND_FIELD(shared_n, count, shared_of(o)->N)
BIND_FIELD(shared_here, count, shared_of(o)->x.rows)
BIND_FIELD(shared_n_items, count, shared_of(o)->Y.cols)

static const bind_field shared_fields[] = {{"n", shared_n, NULL},
                                           {"here", shared_here, NULL},
                                           {"n_items", shared_n_items, NULL},
                                           {NULL, NULL, NULL}};

const bind_type bind_shared_type = {.name = "fopo.shared_sessions",
                                    .size = sizeof(bind_shared),
                                    .done = shared_done,
                                    .fields = shared_fields};
