/* Ridge and logistic regression of the reward on context and action.
 *
 * Both are Newton's method on a penalised likelihood, which for the squared error ends after one
 * step. A step needs the Gram matrix of the design, which is made in double over slices of rows
 * that threads share; slices are cut by the shape alone and summed in their order. */
#include "judge/reward_model.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/solve.h"
#include "core/status.h"
#include "core/threads.h"
#include "judge/directions.h"

enum {
  PARAMETERS_MOST = 8192, /* their Gram matrix is 512 MB */
  CHUNK = 128,            /* rows of the design made at once */
  SLICES = 16,
  NEWTON_MOST = 50
};
static const size_t slice_bytes = (size_t)64 << 20; /* most that all slices' Gram matrices take */
static const size_t blas_bytes = (size_t)4 << 20;   /* a thread's buffer of OpenBLAS, as used */

static double sigmoid(double t) { return 1.0 / (1.0 + exp(-t)); }

/* ---- the design ---- */

typedef struct {
  const fopo_logs *logs;
  fopo_model *model;
  fopo_matrix x; /* [n, dx + 1] compressed contexts */
  fopo_matrix b; /* [P, db + 1] compressed items, or {0} */
  uint8_t *fold; /* [n] */
  /* a Newton step */
  size_t slices;
  double *grams;              /* [slices, M, M] */
  double *sums;               /* [slices, M + 1] Phi^T residual, then the loss */
  double *chunks;             /* [threads, CHUNK, M + 1] rows of the design, then targets */
  double *G;                  /* [M, M] */
  double *g, *w, *old, *move; /* [M] each, one block */
} fit;

/* phi [M] of event n; the constant is its last entry. */
static void design_row(double *phi, const fit *f, size_t n) {
  const float *x = fopo_matrix_row(f->x, n);
  size_t dx = f->model->dx, db = f->model->db, M = f->model->parameters;
  uint32_t a = f->logs->actions[n];
  if (f->b.x == NULL) {
    memset(phi, 0, M * sizeof *phi);
    for (size_t i = 0; i < dx; i++) phi[i] = (double)x[i];
    phi[dx + a] = phi[M - 1] = 1.0;
    return;
  }
  const float *b = fopo_matrix_row(f->b, a);
  for (size_t i = 0; i <= dx; i++) {
    for (size_t j = 0; j <= db; j++) phi[i * (db + 1) + j] = (double)x[i] * (double)b[j];
  }
}

/* -log likelihood of r under the log-odds t: log(1 + exp t) - r t. */
static double logistic_loss(double t, double r) {
  return (t > 0.0 ? t + log1p(exp(-t)) : log1p(exp(t))) - r * t;
}

static double event_loss(const fopo_model *m, double t, double r) {
  return m->options.logistic ? logistic_loss(t, r) : (r - t) * (r - t);
}

/* One slice of rows: its Gram matrix weighted by the curvature, its slope, its loss at w. Events of
 * the fold are left out. */
static void add_slice(fit *f, size_t slice, size_t fold) {
  size_t n = f->logs->n, M = f->model->parameters;
  size_t first = n * slice / f->slices, end = n * (slice + 1) / f->slices, filled = 0;
  double *G = f->grams + slice * M * M, *g = f->sums + slice * (M + 1);
  double *phi = f->chunks + (size_t)omp_get_thread_num() * CHUNK * (M + 1);
  double *target = phi + CHUNK * M;
  memset(G, 0, M * M * sizeof *G);
  memset(g, 0, (M + 1) * sizeof *g);
  for (size_t i = first; i < end; i++) {
    if (f->fold[i] == fold) continue;
    double *row = phi + filled * M, r = (double)f->logs->rewards[i];
    design_row(row, f, i);
    double t = fopo_solve_dot(row, f->w, M), curve = 1.0, error = r - t;
    g[M] += event_loss(f->model, t, r);
    if (f->model->options.logistic) {
      double p = sigmoid(t);
      curve = sqrt(fmax(p * (1.0 - p), 1e-12));
      error = (r - p) / curve;
    }
    for (size_t j = 0; j < M; j++) row[j] *= curve;
    target[filled++] = error;
    if (filled < CHUNK) continue;
    fopo_gram_add(G, g, phi, target, filled, M);
    filled = 0;
  }
  fopo_gram_add(G, g, phi, target, filled, M);
}

/* G, g and the penalised loss at w over the events outside the fold. */
static int differentiate(fit *f, double *loss, size_t fold) {
  size_t M = f->model->parameters;
  double lambda = f->model->options.lambda, half = f->model->options.logistic ? 1.0 : 0.5;
  for (size_t first = 0; first < f->slices; first += 4) {
    size_t end = first + 4 < f->slices ? first + 4 : f->slices;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
    for (size_t s = first; s < end; s++) {
      if (!fopo_interrupted()) add_slice(f, s, fold);
    }
    int status = fopo_progress("fitting a reward model", (double)end, (double)f->slices);
    if (status != FOPO_OK) return status;
  }
  memset(f->G, 0, M * M * sizeof *f->G);
  memset(f->g, 0, M * sizeof *f->g);
  *loss = 0.0;
  for (size_t s = 0; s < f->slices; s++) {
    const double *G = f->grams + s * M * M, *g = f->sums + s * (M + 1);
    for (size_t i = 0; i < M * M; i++) f->G[i] += G[i];
    for (size_t i = 0; i < M; i++) f->g[i] += g[i];
    *loss += half * g[M];
  }
  /* the constant, the last parameter, is not penalised */
  for (size_t i = 0; i + 1 < M; i++) {
    f->G[i * M + i] += lambda;
    f->g[i] -= lambda * f->w[i];
    *loss += 0.5 * lambda * f->w[i] * f->w[i];
  }
  f->G[M * M - 1] +=
      1e-9 * (double)f->logs->n; /* G stays positive if no event is left outside the fold */
  return FOPO_OK;
}

/* Newton's steps from w = 0, each halved until the loss no longer rises. */
static int fit_fold(fit *f, size_t fold) {
  size_t M = f->model->parameters;
  double loss, before, size;
  memset(f->w, 0, M * sizeof *f->w);
  int status = differentiate(f, &loss, fold);
  for (int step = 0; step < NEWTON_MOST && status == FOPO_OK; step++) {
    before = loss;
    memcpy(f->old, f->w, M * sizeof *f->w);
    status = fopo_solve_spd(f->g, f->G, M);
    if (status != FOPO_OK) break;
    for (size_t i = 0; i < M; i++) f->w[i] = f->old[i] + f->g[i];
    if (!f->model->options.logistic) break; /* the squared error's minimum */
    size = sqrt(fopo_solve_dot(f->g, f->g, M) / (1e-300 + fopo_solve_dot(f->w, f->w, M)));
    memcpy(f->move, f->g, M * sizeof *f->move);
    status = differentiate(f, &loss, fold);
    for (double share = 0.5; status == FOPO_OK && loss > before * (1 + 1e-12) && share > 1e-6;
         share *= 0.5) {
      for (size_t i = 0; i < M; i++) f->w[i] = f->old[i] + share * f->move[i];
      status = differentiate(f, &loss, fold);
    }
    if (size < 1e-8) break;
  }
  return status;
}

/* ---- the fitted model ---- */

static size_t rank_of(const fopo_model *m) {
  return m->with_items ? m->db + 1 : 1 + m->options.folds;
}

/* Adds U_n of compressed features x [dx + 1] from one fold's w, times share. */
static void add_user(float *u, const fopo_model *m, const double *w, const float *x, size_t fold,
                     double share) {
  if (m->with_items) {
    for (size_t j = 0; j <= m->db; j++) {
      double sum = 0.0;
      for (size_t i = 0; i <= m->dx; i++) sum += (double)x[i] * w[i * (m->db + 1) + j];
      u[j] += (float)(share * sum);
    }
    return;
  }
  double sum = w[m->parameters - 1];
  for (size_t i = 0; i < m->dx; i++) sum += (double)x[i] * w[i];
  u[0] += (float)(share * sum);
  u[1 + fold] += (float)share;
}

/* Users of the log's own events, each from the parameters that have not seen it. */
static int make_users(fit *f) {
  fopo_model *m = f->model;
  size_t folds = m->options.folds;
  int status = fopo_matrix_init(&m->users, f->logs->n, rank_of(m));
  for (size_t i = 0; i < f->logs->n && status == FOPO_OK; i++) {
    size_t fold = folds > 1 ? f->fold[i] : 0;
    add_user(fopo_matrix_row(m->users, i), m, m->w + fold * m->parameters, fopo_matrix_row(f->x, i),
             fold, 1.0);
  }
  return status;
}

static int make_items(fit *f) {
  fopo_model *m = f->model;
  if (f->b.x != NULL) {
    m->items = f->b;
    f->b = (fopo_matrix){0};
    return FOPO_OK;
  }
  int status = fopo_matrix_init(&m->items, m->P, rank_of(m));
  for (size_t a = 0; a < m->P && status == FOPO_OK; a++) {
    float *row = fopo_matrix_row(m->items, a);
    row[0] = 1.0f;
    for (size_t k = 0; k < m->options.folds; k++) {
      row[1 + k] = (float)m->w[k * m->parameters + m->dx + a];
    }
  }
  return status;
}

static void find_losses(fit *f) {
  fopo_model *m = f->model;
  size_t n = f->logs->n, rank = m->users.cols;
  double mean = 0.0;
  for (size_t i = 0; i < n; i++) mean += (double)f->logs->rewards[i] / (double)n;
  double odds = m->options.logistic ? log(mean / (1.0 - mean)) : mean;
  for (size_t i = 0; i < n; i++) {
    const float *u = fopo_matrix_row(m->users, i);
    const float *v = fopo_matrix_row(m->items, f->logs->actions[i]);
    double t = 0.0, r = (double)f->logs->rewards[i];
    for (size_t j = 0; j < rank; j++) t += (double)u[j] * (double)v[j];
    m->loss += event_loss(m, t, r) / (double)n;
    if (isfinite(odds)) m->constant_loss += event_loss(m, odds, r) / (double)n;
  }
}

/* ---- fitting ---- */

static int check(const fopo_logs *logs, fopo_matrix items, const fopo_model_options *o) {
  if (!(o->lambda > 0.0) || !isfinite(o->lambda)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "lambda is %g; use more than 0", o->lambda);
  }
  if (o->dim == 0) return fopo_fail(FOPO_ERR_ARGUMENT, "dim is 0; use 1 or more");
  if (o->folds == 0 || o->folds > 200 || o->folds > logs->n) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%zu folds of %zu events cannot be; use 1 to 200", o->folds,
                     logs->n);
  }
  if (items.x != NULL && items.rows != logs->n_actions) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "items has %zu rows but the log has %zu actions",
                     items.rows, logs->n_actions);
  }
  for (size_t i = 0; i < logs->n && o->logistic; i++) {
    double r = (double)logs->rewards[i];
    if (!(r >= 0.0 && r <= 1.0)) {
      return fopo_fail(FOPO_ERR_ARGUMENT,
                       "event %zu has the reward %g; logistic regression needs "
                       "rewards in 0 .. 1, use the ridge model",
                       i + 1, r);
    }
  }
  return FOPO_OK;
}

static int count_parameters(fopo_model *m, int with_items) {
  m->with_items = with_items;
  m->parameters = with_items ? (m->dx + 1) * (m->db + 1) : m->dx + m->P + 1;
  if (m->parameters <= PARAMETERS_MOST) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT, "the model would have %zu parameters, more than %d; %s",
                   m->parameters, PARAMETERS_MOST,
                   with_items ? "use a smaller dim"
                              : "without features of the actions it has one for each: give items");
}

static int reserve(fit *f) {
  fopo_model *m = f->model;
  size_t M = m->parameters, fit_in = slice_bytes / (M * M * sizeof(double));
  f->slices = fit_in < 1 ? 1 : fit_in < SLICES ? fit_in : SLICES;
  size_t threads = (size_t)fopo_threads();
  uint64_t bytes = 8 * ((uint64_t)M * M * (f->slices + 1) + threads * CHUNK * (M + 1));
  bytes += threads * blas_bytes;
  int status = fopo_memory_suffices(bytes, "the reward model", "use a smaller dim");
  if (status != FOPO_OK) return status;
  f->grams = fopo_alloc(f->slices * M * M, sizeof *f->grams);
  f->sums = fopo_alloc(f->slices * (M + 1), sizeof *f->sums);
  f->chunks = fopo_alloc(threads * CHUNK * (M + 1), sizeof *f->chunks);
  f->G = fopo_alloc(M * M, sizeof *f->G);
  f->g = fopo_alloc(4 * M, sizeof *f->g);
  m->w = fopo_alloc(m->options.folds * M, sizeof *m->w);
  if (!f->grams || !f->sums || !f->chunks || !f->G || !f->g || !m->w) return FOPO_ERR_MEMORY;
  f->w = f->g + M;
  f->old = f->g + 2 * M;
  f->move = f->g + 3 * M;
  return FOPO_OK;
}

static int prepare(fit *f, fopo_matrix items) {
  fopo_model *m = f->model;
  const fopo_logs *logs = f->logs;
  float *basis_b = NULL;
  int status =
      fopo_directions_find(&m->basis_x, &m->dx, logs->contexts, m->options.dim, "contexts");
  if (status == FOPO_OK) status = fopo_directions_along(&f->x, logs->contexts, m->basis_x, m->dx);
  if (status == FOPO_OK && items.x != NULL) {
    status = fopo_directions_find(&basis_b, &m->db, items, m->options.dim, "items");
  }
  if (status == FOPO_OK && items.x != NULL) {
    status = fopo_directions_along(&f->b, items, basis_b, m->db);
  }
  fopo_free(basis_b);
  if (status == FOPO_OK) status = count_parameters(m, items.x != NULL);
  if (status == FOPO_OK) status = reserve(f);
  f->fold = fopo_alloc(logs->n, sizeof *f->fold);
  if (status == FOPO_OK && f->fold == NULL) status = FOPO_ERR_MEMORY;
  for (size_t i = 0; i < logs->n && status == FOPO_OK; i++) {
    uint32_t word = fopo_random(m->options.seed, FOPO_STREAM_SPLIT, 1, (uint32_t)i, 0).v[0];
    f->fold[i] = (uint8_t)((uint64_t)word * m->options.folds >> 32);
  }
  return status;
}

int fopo_model_fit(fopo_model **model, const fopo_logs *logs, fopo_matrix items,
                   const fopo_model_options *options) {
  *model = NULL;
  int status = check(logs, items, options);
  if (status != FOPO_OK) return status;
  fopo_model *m = fopo_alloc(1, sizeof *m);
  if (m == NULL) return FOPO_ERR_MEMORY;
  m->options = *options;
  m->D = logs->contexts.cols;
  m->P = logs->n_actions;
  fit f = {.logs = logs, .model = m};
  status = prepare(&f, items);
  for (size_t fold = 0; fold < options->folds && status == FOPO_OK; fold++) {
    status = fit_fold(&f, options->folds > 1 ? fold : SIZE_MAX);
    if (status == FOPO_OK) memcpy(m->w + fold * m->parameters, f.w, m->parameters * sizeof *m->w);
  }
  if (status == FOPO_OK) status = make_users(&f);
  if (status == FOPO_OK) status = make_items(&f);
  if (status == FOPO_OK) find_losses(&f);
  fopo_matrix_done(&f.x);
  fopo_matrix_done(&f.b);
  fopo_free(f.fold);
  fopo_free(f.grams);
  fopo_free(f.sums);
  fopo_free(f.chunks);
  fopo_free(f.G);
  fopo_free(f.g);
  if (status != FOPO_OK) {
    fopo_model_free(m);
    return status;
  }
  *model = m;
  return FOPO_OK;
}

void fopo_model_free(fopo_model *model) {
  if (model == NULL) return;
  fopo_free(model->basis_x);
  fopo_free(model->w);
  fopo_matrix_done(&model->users);
  fopo_matrix_done(&model->items);
  fopo_free(model);
}

int fopo_model_users(fopo_matrix *users, const fopo_model *model, fopo_matrix contexts) {
  fopo_matrix x = {0};
  *users = (fopo_matrix){0};
  if (contexts.cols != model->D) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the model was fitted to contexts of %zu columns but these "
                     "have %zu",
                     model->D, contexts.cols);
  }
  size_t folds = model->options.folds;
  int status = fopo_directions_along(&x, contexts, model->basis_x, model->dx);
  if (status == FOPO_OK) status = fopo_matrix_init(users, contexts.rows, model->items.cols);
  for (size_t i = 0; i < contexts.rows && status == FOPO_OK; i++) {
    for (size_t k = 0; k < folds; k++) {
      add_user(fopo_matrix_row(*users, i), model, model->w + k * model->parameters,
               fopo_matrix_row(x, i), k, 1.0 / (double)folds);
    }
  }
  fopo_matrix_done(&x);
  return status;
}

fopo_low_rank fopo_model_low_rank(const fopo_model *model) {
  return (fopo_low_rank){.users = model->users.x,
                         .items = model->items.x,
                         .rank = model->users.cols,
                         .logistic = model->options.logistic};
}
