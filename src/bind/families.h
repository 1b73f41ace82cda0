/* The objects of the families, and the functions that one family offers to others. bind.h has what
 * all of them share. */
#ifndef FOPO_BIND_FAMILIES_H
#define FOPO_BIND_FAMILIES_H

#include "bind/bind.h"
#include "core/matrix.h"
#include "core/npz.h"
#include "data/logs/logs.h"
#include "data/read/readers.h"
#include "data/sessions.h"
#include "judge/baseline.h"
#include "judge/expected.h"
#include "judge/reward_model.h"
#include "learn/gradient.h"
#include "policy/neighbours.h"
#include "train/optim.h"
#include "train/run.h"

/* ---- arrays: bind_array.c, bind_compute.c ---- */

typedef struct {
  bind_object object;
  int ids; /* 1: uint32_t, 0-based, FOPO_NO_ITEM for none; 0: float */
  int row; /* 1: it is a[i] of another array, and its elements are numbers */
  size_t rows, cols;
  void *data;        /* [rows, cols]; owned, or the shard's */
  fopo_shard *shard; /* the array is this rank's part of items that are dealt out; NULL: whole.
                      * Owned */
} bind_array;

static inline size_t bind_array_count(const bind_array *a) { return a->rows * a->cols; }

static inline size_t bind_array_bytes(const bind_array *a) {
  return bind_array_count(a) * sizeof(float);
}

/* Pushes a new array, of zeros, or of nothing yet for who sets all of it before Lua sees it. */
bind_array *bind_array_new(lua_State *L, int ids, size_t rows, size_t cols);
bind_array *bind_array_unset(lua_State *L, int ids, size_t rows, size_t cols);

/* Pushes row i of m as an array of ids. */
void bind_push_ids(lua_State *L, const fopo_csr *m, size_t i);

/* The array at `index`, of numbers or of ids; raises, naming `what`, if it is of the other kind. */
bind_array *bind_array_numbers(lua_State *L, int index, const char *what);
bind_array *bind_array_ids(lua_State *L, int index, const char *what);

/* The array at `index`, which this rank must have whole. */
bind_array *bind_array_whole(lua_State *L, int index);

/* The same for a change: the handle gets a copy of its own if others hold the object. */
bind_array *bind_array_own(lua_State *L, int index);

/* Pushes an array of items that are dealt out, whose shard is empty; and notes that it has been
 * filled. */
bind_array *bind_array_new_part(lua_State *L);
void bind_array_dealt(lua_State *L, bind_array *a);

/* The same for numbers that may be dealt out to the ranks: for callers that know of it. */
bind_array *bind_array_items(lua_State *L, int index, const char *what);

static inline fopo_matrix bind_matrix(const bind_array *a) {
  return fopo_matrix_view(a->data, a->rows, a->cols);
}

/* The ids of an array of ids or of a table of 1-based integers <= n; 0 .. all - 1 if there is
 * nothing at `index`. Pushes the buffer that holds them. */
uint32_t *bind_rows(lua_State *L, int index, size_t n, size_t all, size_t *number);

/* ---- the families' objects ---- */

typedef struct {
  bind_object object;
  fopo_archive archive; /* on its way from a file to Lua */
} bind_archive;

typedef struct {
  bind_object object;
  fopo_dataset *dataset;
} bind_dataset;

typedef struct {
  bind_object object;
  fopo_sessions sessions;
} bind_sessions;

typedef struct {
  bind_object object;
  fopo_shared shared;
} bind_shared;

/* bind_sessions.c: the contexts of an array, whose lists are X of `sessions` (NULL: not known), or
 * of sessions that are shared out. */
fopo_contexts bind_contexts(const bind_object *o, const bind_object *sessions);

/* The encoder with the weights of P items, the array at stack index `at`, which must be nil if the
 * encoder weighs no items; they are not owned. Raises if they do not fit. */
fopo_encoding bind_encoding(lua_State *L, const fopo_encoder *encoder, int at, size_t P);

typedef struct {
  bind_object object; /* keeps: the arrays of contexts and of items, which own the matrices of the
                       * log. User values 1, 2 of the handle: handles on them */
  fopo_logs *logs;
} bind_logs;

typedef struct {
  bind_object object; /* keeps: items */
  fopo_index *index;
} bind_index;

typedef struct {
  bind_object object;
  fopo_neighbours neighbours;
} bind_neighbours;

typedef struct {
  bind_object
      object; /* keeps: items; the items it was made with, which are others if it learns a
               * copy; the weights of its encoding; those of a policy that scores lists, or
               * the functions of a custom one. User values 1 to 4 of the handle: handles on them */
  fopo_policy policy;
  fopo_encoding encoding; /* makes its contexts of sessions */
} bind_policy;

/* bind_custom.c: the functions `queries` and `backward` in the table at 1, which pi keeps in
 * `slot`, become o->custom, and their first parameters, an array below the top, o->given. */
void bind_custom_attach(lua_State *L, bind_object *pi, int slot, fopo_policy_options *o);

/* bind_policy.c: the items that its contexts are made of. */
const bind_array *bind_policy_initial(const bind_policy *pi);

typedef struct {
  bind_object object;
  fopo_own_objective rule;
  char title[64];
  lua_State *L; /* the main state */
  int function; /* a reference in its registry */
} bind_own_objective;

typedef struct {
  bind_object
      object; /* keeps: the index. User value 1 of the handle: the function of a custom one */
  fopo_proposal proposal;
} bind_proposal;

typedef struct {
  bind_object object; /* keeps: the sessions or the log, then the owner of its model: another
                         reward, or two arrays. User value 1 of the handle: the function */
  fopo_reward reward;
  fopo_model *model; /* direct: fitted here, owned */
  fopo_matrix users; /* [n, rank] of the model in another reward for this log; owned */
} bind_reward;

typedef struct {
  bind_object
      object; /* keeps: its own proposal, the objects that it is bound to, and an objective. User
               * values of the handle: the function of a custom one, that of a custom proposal */
  fopo_gradient *gradient;
} bind_gradient;

typedef struct {
  bind_object object;
  fopo_schedule schedule;
} bind_schedule;

typedef struct {
  bind_object object; /* keeps: the device of its state */
  fopo_optim optim;
} bind_optim;

typedef struct {
  bind_object object;
  fopo_device *device;
} bind_device;

enum {
  BIND_POLICY,
  BIND_CONTEXTS,
  BIND_REWARD,
  BIND_GRADIENT,
  BIND_OPTIM,
  BIND_DEVICE,
  BIND_SESSIONS /* whose X the contexts are made of; NULL: not known */
};

typedef struct {
  bind_object object; /* keeps: the slots above. User values of the handle: the functions of a
                       * custom reward, gradient and proposal */
  fopo_trainer *trainer;
  fopo_trainer_options options; /* that it was made of */
  int busy;                     /* 1: in advance */
} bind_trainer;

/* Raises if the trainer, its policy, gradient or optimiser may not be changed now. */
void bind_trainer_check(lua_State *L, const bind_trainer *t);

/* The same; then binds the gradient to the trainer's data. */
void bind_trainer_prepare(lua_State *L, bind_trainer *t);

/* Pushes {steps, step, seconds, reward, ess, ..., time = {search = ...}}, with interrupted = true
 * if it was; returns 1. */
int bind_push_slice(lua_State *L, const fopo_slice *slice, int interrupted);

enum { BIND_RUN_TRAINER, BIND_RUN_VALID, BIND_RUN_CONTEXTS, BIND_RUN_EXACT, BIND_RUN_INDEX };

typedef struct {
  bind_object object; /* keeps: the slots above. User values of the handle: as a trainer's */
  fopo_run *run;
} bind_run;

/* Reads the plan of a run from the table at 2 (native.run says which options) for the trainer at 1,
 * and keeps what it names in the slots above of `o`. Returns the trainer. */
fopo_trainer *bind_run_plan(lua_State *L, fopo_run_plan *plan, bind_object *o);

/* t.best = {step, restored, worth}, for the table on the top; nothing if it is not known. */
void bind_run_set_best(lua_State *L, const fopo_run_best *best);

/* Pushes a row of the history by columns, with the worth at its end and at the run's start; returns
 * 1. */
int bind_run_push_record(lua_State *L, const fopo_run_record *record);

/* Pushes an empty log that keeps two empty arrays, or the items of the log at `lender` (0: none).
 */
bind_logs *bind_logs_new(lua_State *L, int lender);

/* After C has made the log: moves its contexts and items into the two arrays. */
void bind_logs_made(lua_State *L, bind_logs *box);

/* Notes that the dataset has been filled. */
void bind_dataset_made(lua_State *L, const bind_dataset *d);

/* The options of native.data_read in the table at `index`. Their strings stay on the stack. */
fopo_read_options bind_read_options(lua_State *L, int index);

/* What the handle at `index` stands for, which must not be shared out to the ranks. */
fopo_dataset *bind_get_dataset(lua_State *L, int index);
fopo_sessions *bind_get_sessions(lua_State *L, int index);

/* The sessions at `index`; NULL if there is nothing. */
bind_object *bind_sessions_or_none(lua_State *L, int index);

/* The same, shared out or not. */
fopo_dataset *bind_any_dataset(lua_State *L, int index);
fopo_sessions *bind_any_sessions(lua_State *L, int index);

/* Pushes {contexts, reward, se, effective}; returns 1. */
int bind_push_expected(lua_State *L, const fopo_expected *e);

/* The argument k of a search, 1 to the number of items: checked before the memory of the answers is
 * allocated. */
size_t bind_index_k(lua_State *L, int at, const bind_index *ix);

/* The items that an index is over: of the whole catalogue, if it holds a part. */
size_t bind_index_items(const bind_index *ix);

/* The baseline at `index`. */
const fopo_baseline *bind_get_baseline(lua_State *L, int index);

/* The policy at `index`, whose items must not be dealt out: for `what`, which reads all of them. */
bind_policy *bind_policy_whole(lua_State *L, int index, const char *what);

/* Pushes name number i and returns 1. */
int bind_push_name(lua_State *L, const fopo_names *names, size_t i);

/* Pushes a dataset of no users over P items, which are to be named. */
fopo_dataset *bind_names_new(lua_State *L, size_t P);

/* Pushes a handle on the device of that name. A Lua state has one device of each kind, so that the
 * state of an optimiser and the data of a gradient can be used by several calls. */
bind_device *bind_device_open(lua_State *L, const char *name);

/* Pushes a handle on a copy of the schedule. */
void bind_schedule_push(lua_State *L, const fopo_schedule *schedule);

/* The state of the optimiser is on this device, or will be after the next step. */
void bind_optim_on(bind_optim *o, bind_object *device);

/* Calls the Lua function at `function` for the draws and fills drawn->reward. Returns Lua's status;
 * unless it is LUA_OK the error is on the top, and nothing was raised. Needs 4 stack slots. */
int bind_reward_call(lua_State *L, int function, const fopo_drawn *drawn);

/* The same of all that is asked for: the function of a custom reward is at `functions`, those of a
 * custom gradient and a custom proposal behind it; nil where there is none. */
int bind_fill(lua_State *L, int functions, const fopo_drawn *drawn);

/* Numbers [B, S] that a function of the user gives: an array, a table of B rows, or of all numbers.
 */
typedef struct {
  const char *whose; /* "the reward's function" */
  const char *of;    /* "the reward" */
  float *to;         /* [B, S] */
  size_t B, S;
} bind_answer;

/* x->to = what is on the top; raises what does not fit. */
void bind_take_answer(lua_State *L, const bind_answer *x);

/* What items are worth: the numbers of the array at `index`, or the values of the reward there
 * (NULL: it has none), *n of them. */
const float *bind_values(lua_State *L, size_t *n, int index);

/* The sessions at `index` with the values of the reward at `reward` (none or nil: each hit is worth
 * 1), for a judge. Raises if that is no reward of hits over the same items. */
fopo_sessions bind_judged(lua_State *L, int index, int reward);

/* Pushes how many visits a candidate set serves: a number, "once", or nil. */
int bind_return_refresh(lua_State *L, const fopo_proposal *q);

/* Binds the gradient to the objects in the slots BIND_POLICY, BIND_CONTEXTS, BIND_REWARD,
 * BIND_DEVICE and BIND_SESSIONS of k, which the binding keeps alive. A failure leaves the former
 * binding, or none. */
int bind_gradient_bind(bind_gradient *g, bind_object *const *k);

/* The same by a function that binds the gradient to what points into these objects, and unbinds it
 * before that is freed. */
int bind_gradient_bind_by(bind_gradient *g, bind_object *const *k, int (*bind)(void *payload),
                          void *payload);

/* The objective of the name at `index`. */
fopo_objective_kind bind_objective(lua_State *L, int index);

/* Sets t.reward, t.ess ... in the table on the top, of the statistics that have a label; and, if
 * phases [FOPO_PHASES] is not NULL, their seconds: t[seconds_name] = {search = ...}. */
void bind_set_statistics(lua_State *L, const fopo_statistics *mean, const double *phases,
                         const char *seconds_name);

/* ---- options that are rows of a table (core/option.h): bind_option.c ---- */

/* The row of that name, or NULL; rows NULL: there are none. */
const fopo_option *bind_row(const fopo_option *rows, const char *name);

/* Sets the row's member of *options from the table at `index` (0: there is none), or to its default
 * if the option is left out. Counts, numbers and choices only; raises if the value is wrong. */
void bind_read_row(lua_State *L, int index, const fopo_option *row, void *options);

/* Pushes the member's value and returns 1; 0 if it is neither a count, a number nor a choice. */
int bind_push_row(lua_State *L, const fopo_option *row, const void *options);

/* Pushes {name =, title =, text =, example =, options = {{name =, type =, default =, ...}, ...}},
 * what a declaration in Lua is made of. */
void bind_push_entry(lua_State *L, const char *name, const char *title, const char *text,
                     const char *example, const fopo_option *rows);

#endif
