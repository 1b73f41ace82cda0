#include "policy/custom.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "policy/policy_file.h"

/* Other members of the file, and what else a name in `learn` can be. */
static const char *const reserved[] = {
    "format",   "kind",          "parameters",    "context_dim", "dim",
    "contexts", "temperature",   "item_weights",  "seen",        "rows",
    "items",    "items_file",    "items_shape",   "items_crc",   "learnt_items",
    "learn",    "items_numbers", "items_offsets", "items_text",  "weights"};

static int is_name(const char *name) {
  if (!isalpha((unsigned char)name[0]) || strlen(name) >= FOPO_PARAMETER_NAME) return 0;
  for (; *name != '\0'; name++) {
    if (!isalnum((unsigned char)*name) && *name != '_') return 0;
  }
  return 1;
}

int fopo_custom_add(fopo_custom *c, const char *name, size_t rows, size_t cols) {
  int taken = !is_name(name);
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
    taken = taken || strcmp(name, reserved[i]) == 0;
  }
  if (taken) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a parameter cannot be called \"%.80s\"; use a letter, then letters, digits "
                     "and _, %d at most, and no name of another member of the policy's file",
                     name, FOPO_PARAMETER_NAME - 1);
  }
  if (c->n == FOPO_POLICY_PARAMETERS || rows == 0 || cols == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "parameter %s, number %zu, is %zu x %zu; use %d parameters at most, each of 1 "
                     "number or more",
                     name, c->n + 1, rows, cols, FOPO_POLICY_PARAMETERS);
  }
  size_t at = strlen(c->names);
  snprintf(c->names + at, sizeof c->names - at, "%s%s", at > 0 ? ", " : "", name);
  fopo_custom_parameter *p = &c->parameter[c->n++];
  snprintf(p->name, sizeof p->name, "%s", name);
  p->rows = rows;
  p->cols = cols;
  return FOPO_OK;
}

/* Where parameter i begins in theta; i = n: where theta ends. */
static size_t offset(const fopo_custom *c, size_t i) {
  size_t at = 0;
  for (size_t j = 0; j < i; j++) at += c->parameter[j].rows * c->parameter[j].cols;
  return at;
}

static int init(fopo_policy *pi) {
  const fopo_custom *c = pi->options.custom;
  if (c == NULL || c->n == 0) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "a custom policy has no parameters; give one or more, as parameters = {theta = "
        "fopo.array.eye(4)}");
  }
  int status = fopo_matrix_init(&pi->theta, 1, offset(c, c->n));
  if (status != FOPO_OK) return status;
  memcpy(pi->theta.x, pi->options.given.x, pi->theta.cols * sizeof *pi->theta.x);
  return fopo_matrix_finite(pi->theta, "the parameters");
}

static int parameter(fopo_parameter *p, const fopo_policy *pi, size_t i) {
  const fopo_custom *c = pi->options.custom;
  if (i >= c->n) return 0;
  const fopo_custom_parameter *own = &c->parameter[i];
  *p = (fopo_parameter){.ndim = 2};
  memcpy(p->name, own->name, sizeof p->name);
  p->view = fopo_matrix_view(pi->theta.x + offset(c, i), own->rows, own->cols);
  return 1;
}

static int make_queries(fopo_matrix Q, const fopo_policy *pi, const float *theta, fopo_matrix x,
                        float scale) {
  const fopo_custom *c = pi->options.custom;
  int status = c->queries(c->caller, Q, theta, x);
  for (size_t b = 0; b < Q.rows && status == FOPO_OK; b++) {
    float *q = fopo_matrix_row(Q, b);
    for (size_t j = 0; j < Q.cols; j++) q[j] *= scale;
  }
  return status;
}

static int queries(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x) {
  return make_queries(Q, pi, pi->theta.x, x, 1.0f / pi->temperature);
}

/* On the CPU alone, whose memory is the host's (fopo_gradient_check_fit). */
static int forward(fopo_device *d, fopo_matrix Q, fopo_matrix X, const fopo_policy_pass *pass) {
  (void)d;
  return make_queries(Q, pass->policy, pass->theta, X, pass->scale);
}

static int backward(fopo_device *d, float *G, fopo_matrix X, fopo_matrix V,
                    const fopo_policy_pass *pass, int accumulate) {
  const fopo_custom *c = pass->policy->options.custom;
  (void)d;
  return c->backward(c->caller, G, pass->theta, X, V, pass->scale, accumulate);
}

/* ---- files and words ---- */

static size_t members(fopo_array *a, const fopo_policy *pi) {
  a[0] = fopo_array_text("parameters", pi->options.custom->names);
  a[1] = fopo_array_of("context_dim", FOPO_U64, &pi->options.context_dim, 0, 1, 1);
  a[2] = fopo_array_of("dim", FOPO_U64, &pi->items.cols, 0, 1, 1);
  return 3;
}

static int load(fopo_policy_file *f) {
  fopo_policy_loaded *p = f->facts;
  fopo_custom found = {0};
  char names[FOPO_POLICY_NAMES], *rest = names;
  uint64_t D = 0, L = 0;
  int status = fopo_archive_text(names, sizeof names, f->archive, f->path, "parameters");
  if (status == FOPO_OK) {
    status = fopo_archive_number(&D, f->archive, f->path, "context_dim", FOPO_U64);
  }
  if (status == FOPO_OK) status = fopo_archive_number(&L, f->archive, f->path, "dim", FOPO_U64);
  if (status != FOPO_OK) return status;
  if (D == 0 || L == 0) return fopo_fail(FOPO_ERR_FORMAT, "%s: its dim is 0", f->path);
  p->options.context_dim = D;
  p->L = L;
  while (status == FOPO_OK && rest != NULL) {
    size_t rows = 0, cols = 0;
    char *name = rest;
    rest = strstr(name, ", ");
    if (rest != NULL) *rest = '\0', rest += 2;
    status = fopo_custom_add(&found, name, 1, 1);
    if (status == FOPO_OK) status = fopo_policy_file_matrix(f, name, 2, &rows, &cols);
  }
  return status;
}

/* "W [5, 4], b [1, 4]", as far as there is room */
static void describe(char text[FOPO_POLICY_DESCRIPTION], const fopo_policy *pi) {
  const fopo_custom *c = pi->options.custom;
  size_t n = 0;
  for (size_t i = 0; i < c->n && n < FOPO_POLICY_DESCRIPTION; i++) {
    const fopo_custom_parameter *p = &c->parameter[i];
    n += (size_t)snprintf(text + n, FOPO_POLICY_DESCRIPTION - n, "%s%s [%zu, %zu]",
                          i > 0 ? ", " : "", p->name, p->rows, p->cols);
  }
}

static const fopo_option options[] = {
    {.name = "parameters",
     .type = FOPO_OPTION_ARRAYS,
     .text = "the first values of what is learnt, arrays by name: {W = fopo.array.eye(8), b = "
             "fopo.array.zeros(1, 8)}"},
    {.name = "queries",
     .type = FOPO_OPTION_FUNCTION,
     .text = "queries(x, p) -> h, [B, L]: x [B, D] are contexts, p the parameters by name; the "
             "score of item a is h_b . beta_a / temperature"},
    {.name = "backward",
     .type = FOPO_OPTION_FUNCTION,
     .text =
         "backward(x, V, p) -> the gradient of the sum of h * V, V [B, L], with respect to each "
         "parameter: arrays by name"},
    {0}};

const fopo_policy_kind fopo_policy_custom = {
    .name = "custom",
    .init = init,
    .parameter = parameter,
    .queries = queries,
    .forward = forward,
    .backward = backward,
    .members = members,
    .load = load,
    .describe = describe,
    .options = options,
    // clang-format off
    .text = "Your own policy: h(x) is a Lua function of contexts and parameters, and the score of an item is\n"
          "f(a, x) = h(x) . beta_a / temperature. All that draws, scores, searches and sums over the catalogue\n"
          "stays in C, so every estimator, proposal, index and objective serves, and trainers, evaluation,\n"
          "validation, recommendations, off-policy evaluation, files and checkpoints take it as any other. Both\n"
          "functions get whole blocks of contexts; temperature is applied in C. fopo.check compares backward\n"
          "with central differences of queries. A column of the items may be of your own, as a bias or a\n"
          "popularity, with its factor in h; it is learnt with learn = {.., \"items\"}. The functions are called\n"
          "from inside the loops of C, so they compute with arrays alone: any other object of fopo, a policy or\n"
          "a trainer, refuses to be used meanwhile. They run on the main thread: jobs, a GPU, several processes\n"
          "that train together and the dense part of fopo.policy.neighbours refuse such a policy. An error\n"
          "names the function and the shapes that it was given, and a run stops at its last whole step. A file\n"
          "holds the parameters and no function: fopo.policy.load(path, {queries = .., backward = ..}).",
    .example = "items = fopo.array.randn(100, 4, 1)\n"
             "pi = fopo.policy.custom{items = items,\n"
             "  parameters = {W = fopo.array.eye(4), b = fopo.array.zeros(1, 4)},\n"
             "  queries = function(x, p) return x:matmul(p.W) + p.b end,\n"
             "  backward = function(x, V) return {W = x:matmul(V, true), b = V:sum(\"columns\")} end}\n"
             "assert((pi:queries(items) - items):norm() == 0)",
    // clang-format on
};
