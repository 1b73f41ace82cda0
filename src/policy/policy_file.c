/* Nothing that is read is trusted: every member is looked at before a policy is made of it. */
#include "policy/policy_file.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "core/memory.h"
#include "core/npy.h"
#include "core/status.h"

static const char family[] = "fopo policy ", format[] = "fopo policy 1";

static int is_member(const fopo_option *row) {
  return row->flags & FOPO_OPTION_SAVED && row->type != FOPO_OPTION_COUNTS;
}

uint32_t fopo_items_crc(fopo_matrix items) {
  uLong crc = crc32_z(0, NULL, 0);
  for (size_t i = 0; i < items.rows; i++) {
    crc = crc32_z(crc, (const Bytef *)fopo_matrix_row(items, i), items.cols * sizeof(float));
  }
  return (uint32_t)crc;
}

/* ---- saving ---- */

enum { OPTIONS = 8, MEMBERS = 19 + OPTIONS + FOPO_POLICY_PARAMETERS + FOPO_POLICY_MEMBERS };

/* The options that are members, then the parameters. Returns how many. */
static size_t describe_kind(fopo_array *a, const fopo_policy *pi) {
  fopo_parameter p;
  size_t n = 0;
  for (const fopo_policy_kind *of = pi->kind; of != NULL; of = fopo_policy_part(of, &pi->options)) {
    for (const fopo_option *row = of->options; row->name != NULL; row++) {
      const void *member = (const char *)&pi->options + row->member;
      if (!is_member(row)) continue;
      a[n++] = row->type == FOPO_OPTION_CHOICE
                   ? fopo_array_text(row->name, row->choices[*(const int *)member])
                   : fopo_array_of(row->name, FOPO_F64, member, 0, 1, 1);
    }
  }
  for (size_t i = 0; pi->kind->parameter(&p, pi, i); i++) {
    size_t rows = p.ndim == 2 ? p.view.rows : p.view.cols;
    a[n++] = fopo_array_of(p.name, FOPO_F32, p.view.x, p.ndim, rows, p.ndim == 2 ? p.view.cols : 1);
  }
  return pi->kind->members != NULL ? n + pi->kind->members(a + n, pi) : n;
}

/* The .npy must hold the items of the policy, bit by bit. */
static int check_items_file(const fopo_policy_saving *s, uint32_t crc) {
  fopo_matrix items = s->initial;
  fopo_array a = {0};
  int status = fopo_memory_suffices((uint64_t)items.rows * items.cols * sizeof(float),
                                    "comparing the items with their file", "leave out items");
  if (status == FOPO_OK) status = fopo_npy_load(&a, s->items_file);
  if (status != FOPO_OK) return status;
  fopo_archive one = {&a, 1};
  fopo_array *numbers = NULL;
  int same = a.ndim == 2 && a.shape[0] == items.rows && a.shape[1] == items.cols;
  if (same) status = fopo_archive_need(&numbers, &one, s->items_file, a.name, FOPO_F32, 2);
  same = numbers != NULL && fopo_items_crc(fopo_matrix_view(a.data, a.shape[0], a.shape[1])) == crc;
  fopo_free(a.data);
  if (same || status == FOPO_ERR_MEMORY) return status;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "%s does not hold the %zu x %zu items that this policy was made with; write "
                   "them with pi:initial_items():save(path), or save without items",
                   s->items_file, items.rows, items.cols);
}

/* The names to save; where each index is its own name, the numbers are written out: *fresh. */
static int describe_names(fopo_array *a, size_t *n, fopo_names *fresh, const fopo_names *names) {
  *n = 0;
  if (names == NULL) return FOPO_OK;
  if (names->numbers == NULL && names->text == NULL) {
    int status = fopo_names_count(fresh, names->n);
    if (status != FOPO_OK) return status;
    names = fresh;
  }
  *n = fopo_names_members(a, names, "items");
  return FOPO_OK;
}

/* The member of weights [n] becomes *sum, with what is added to them; *sum is the caller's. */
static int add_learnt(float **sum, fopo_array *a, size_t n, const fopo_policy *pi) {
  fopo_matrix delta = pi->delta;
  while (strcmp(a[n - 1].name, "weights") != 0) n--;
  const float *weights = a[n - 1].data;
  int status = fopo_memory_suffices((uint64_t)delta.rows * sizeof **sum, "the weights to be saved",
                                    "close other programs");
  if (status == FOPO_OK) status = fopo_matrix_finite(delta, "the learnt weights");
  if (status != FOPO_OK) return status;
  *sum = fopo_alloc(delta.rows, sizeof **sum);
  if (*sum == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < delta.rows; i++) (*sum)[i] = weights[i] + delta.x[i];
  a[n - 1].data = *sum;
  return FOPO_OK;
}

int fopo_policy_save(const fopo_policy_saving *s, const char *path) {
  const fopo_policy *pi = s->policy;
  fopo_matrix items = s->initial;
  fopo_array a[MEMBERS];
  fopo_names fresh = {0};
  uint64_t shape[2] = {items.rows, items.cols};
  uint32_t crc = 0;
  char learn[FOPO_POLICY_NAMES];
  size_t n = 0, n_names;
  float *sum = NULL;
  int status = fopo_matrix_finite(pi->theta, "theta");
  if (status == FOPO_OK && pi->learns[FOPO_BLOCK_ITEMS]) {
    status = fopo_matrix_finite(pi->items, "items");
  }
  if (status != FOPO_OK) return status;

  a[n++] = fopo_array_text("format", format);
  a[n++] = fopo_array_text("kind", pi->kind->name);
  n += describe_kind(a + n, pi);
  if (pi->delta.x != NULL) status = add_learnt(&sum, a, n, pi);
  a[n++] = fopo_array_of("temperature", FOPO_F32, &pi->temperature, 0, 1, 1);
  a[n++] = fopo_array_text("contexts", s->encoding.encoder->name);
  if (s->encoding.weights != NULL) {
    a[n++] = fopo_array_of("item_weights", FOPO_F32, s->encoding.weights, 1, items.rows, 1);
  }
  if (pi->masks_seen) a[n++] = fopo_array_text("seen", fopo_seen_names[pi->masks_seen]);
  fopo_policy_block_names(learn, pi, 1);
  if (pi->fixed != 0 || pi->kind->optional != NULL) a[n++] = fopo_array_text("learn", learn);
  a[n++] = fopo_array_text("rows", fopo_float_names[pi->rows.type]);
  if (s->items_file == NULL) {
    a[n++] = fopo_array_of("items", FOPO_F32, items.x, 2, items.rows, items.cols);
  } else {
    crc = pi->shard != NULL ? s->items_crc : fopo_items_crc(items);
    if (status == FOPO_OK && pi->shard == NULL) status = check_items_file(s, crc);
    a[n++] = fopo_array_text("items_file", s->items_file);
    a[n++] = fopo_array_of("items_shape", FOPO_U64, shape, 1, 2, 1);
    a[n++] = fopo_array_of("items_crc", FOPO_U32, &crc, 0, 1, 1);
  }
  if (pi->learns[FOPO_BLOCK_ITEMS]) {
    a[n++] = fopo_array_of("learnt_items", FOPO_F32, pi->items.x, 2, items.rows, pi->items.cols);
  }
  if (s->provenance != NULL) a[n++] = fopo_array_text("provenance", s->provenance);
  if (status == FOPO_OK) status = describe_names(a + n, &n_names, &fresh, s->names);
  if (status == FOPO_OK) status = fopo_npz_save(path, a, n + n_names, 0);
  fopo_names_done(&fresh);
  fopo_free(sum);
  return status;
}

/* ---- loading ---- */

typedef fopo_policy_file file;

static int text_of(char text[64], const file *f, const char *name) {
  return fopo_archive_text(text, 64, f->archive, f->path, name);
}

static int check_format(const file *f) {
  char text[64] = "";
  if (fopo_archive_find(f->archive, "format") != NULL) {
    int status = text_of(text, f, "format");
    if (status != FOPO_OK) return status;
  }
  if (strcmp(text, format) == 0) return FOPO_OK;
  if (strncmp(text, family, sizeof family - 1) == 0) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s was written by another version of this program: its format is \"%s\", "
                     "this one reads \"%s\"",
                     f->path, text, format);
  }
  if (strncmp(text, "fopo trainer", 12) == 0) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s is the checkpoint of a trainer, which t:resume(path) reads; t.policy:save "
                     "writes its policy",
                     f->path);
  }
  int status = fopo_archive_check(f->archive, f->path, "policy");
  if (status != FOPO_OK) return status;
  return fopo_fail(FOPO_ERR_FORMAT, "%s holds no policy: it was not written by pi:save(path)",
                   f->path);
}

static int unknown(const file *f, const char *name, const char *text) {
  return fopo_fail(FOPO_ERR_FORMAT, "%s: its %s is \"%s\", which this program does not know",
                   f->path, name, text);
}

/* The member's place among the choices; `fallback` if there is no such member and that is not
 * negative. */
static int choice(int *value, const file *f, const char *name, const char *const *choices,
                  int fallback) {
  char text[64];
  *value = fallback;
  if (fallback >= 0 && fopo_archive_find(f->archive, name) == NULL) return FOPO_OK;
  int status = text_of(text, f, name);
  if (status != FOPO_OK) return status;
  for (*value = 0; choices[*value] != NULL; ++*value) {
    if (strcmp(text, choices[*value]) == 0) return FOPO_OK;
  }
  return unknown(f, name, text);
}

/* An option of the kind, a word or a number, which becomes one of facts->options. */
static int read_option(file *f, const fopo_option *row) {
  void *member = (char *)&f->facts->options + row->member;
  if (row->type == FOPO_OPTION_CHOICE) return choice(member, f, row->name, row->choices, -1);
  double value;
  int status = fopo_archive_number(&value, f->archive, f->path, row->name, FOPO_F64);
  if (status != FOPO_OK) return status;
  if (!isfinite(value)) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: its %s is %g", f->path, row->name, value);
  }
  memcpy(member, &value, sizeof value);
  return FOPO_OK;
}

/* Sets *rows and *cols to the shape of the member. Where they are not 0 on entry, the member must
 * have that shape. */
static int matrix_of(const file *f, const char *name, int ndim, size_t *rows, size_t *cols) {
  char label[512];
  fopo_array *a;
  int status = fopo_archive_need(&a, f->archive, f->path, name, FOPO_F32, ndim);
  if (status != FOPO_OK) return status;
  if ((*rows != 0 && a->shape[0] != *rows) || (*cols != 0 && a->shape[1] != *cols) ||
      a->shape[0] == 0 || a->shape[1] == 0) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: %s is %zu x %zu, which does not fit the other members or is empty",
                     f->path, name, a->shape[0], a->shape[1]);
  }
  *rows = a->shape[0];
  *cols = a->shape[1];
  snprintf(label, sizeof label, "%.400s: %s", f->path, name);
  return fopo_matrix_finite(fopo_matrix_view(a->data, *rows, *cols), label);
}

int fopo_policy_file_matrix(fopo_policy_file *f, const char *name, int ndim, size_t *rows,
                            size_t *cols) {
  size_t i = 0;
  while (f->facts->parameters[i][0] != '\0') i++;
  assert(i < FOPO_POLICY_PARAMETERS);
  snprintf(f->facts->parameters[i], sizeof f->facts->parameters[i], "%s", name);
  return matrix_of(f, name, ndim, rows, cols);
}

static int read_kind(fopo_policy_loaded *p, file *f) {
  char text[64];
  int status = text_of(text, f, "kind");
  if (status != FOPO_OK) return status;
  for (int i = 0; fopo_policy_kinds[i] != NULL; i++) {
    if (strcmp(text, fopo_policy_kinds[i]->name) == 0) p->kind = fopo_policy_kinds[i];
  }
  if (p->kind == NULL) return unknown(f, "kind", text);
  const fopo_policy_kind *of = p->kind;
  for (; of != NULL && status == FOPO_OK; of = fopo_policy_part(of, &p->options)) {
    for (const fopo_option *row = of->options; row->name != NULL && status == FOPO_OK; row++) {
      if (is_member(row)) status = read_option(f, row);
    }
  }
  return status == FOPO_OK ? p->kind->load(f) : status;
}

static int read_temperature(fopo_policy_loaded *p, const file *f) {
  float *temperature = &p->options.temperature;
  int status = fopo_archive_number(temperature, f->archive, f->path, "temperature", FOPO_F32);
  if (status != FOPO_OK || (*temperature > 0.0f && isfinite(*temperature))) return status;
  return fopo_fail(FOPO_ERR_FORMAT, "%s: its temperature is %g; it must be above 0", f->path,
                   (double)*temperature);
}

/* Where the items are, unless they are a member. */
static int read_reference(fopo_policy_loaded *p, const file *f) {
  int status =
      fopo_archive_text(p->items_file, sizeof p->items_file, f->archive, f->path, "items_file");
  if (status == FOPO_OK) {
    status = fopo_archive_number(&p->items_crc, f->archive, f->path, "items_crc", FOPO_U32);
  }
  fopo_array *a;
  if (status == FOPO_OK) {
    status = fopo_archive_need(&a, f->archive, f->path, "items_shape", FOPO_U64, 1);
  }
  if (status != FOPO_OK) return status;
  uint64_t shape[2] = {0, 0};
  if (a->shape[0] == 2) memcpy(shape, a->data, sizeof shape);
  if (shape[0] == 0 || shape[0] >= UINT32_MAX || shape[1] != p->L || p->items_file[0] == '\0') {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: its items_file and items_shape do not name items of dimension %zu",
                     f->path, p->L);
  }
  p->P = (size_t)shape[0];
  return FOPO_OK;
}

static int read_items(fopo_policy_loaded *p, const file *f) {
  int status = fopo_archive_find(f->archive, "items") != NULL
                   ? matrix_of(f, "items", 2, &p->P, &p->L)
                   : read_reference(p, f);
  p->train_items = fopo_archive_find(f->archive, "learnt_items") != NULL;
  if (status != FOPO_OK || !p->train_items) return status;
  size_t own = p->L + p->kind->more_columns;
  return matrix_of(f, "learnt_items", 2, &p->P, &own);
}

static int read_learn(fopo_policy_loaded *p, const file *f) {
  if (fopo_archive_find(f->archive, "learn") == NULL) return FOPO_OK;
  return fopo_archive_text(p->learn, sizeof p->learn, f->archive, f->path, "learn");
}

/* The weights of the items, if the contexts need them: P finite numbers. */
static int read_encoding(fopo_policy_loaded *p, const file *f) {
  int encoder;
  size_t one = 1;
  int status = choice(&encoder, f, "contexts", fopo_encoder_names, 0);
  if (status != FOPO_OK) return status;
  p->encoder = fopo_encoders[encoder];
  return p->encoder->weight != NULL ? matrix_of(f, "item_weights", 1, &p->P, &one) : FOPO_OK;
}

static int understand(fopo_policy_loaded *p, file *f) {
  int rows = 0;
  int status = check_format(f);
  if (status == FOPO_OK) status = read_kind(p, f);
  if (status == FOPO_OK) status = read_items(p, f);
  if (p->options.context_dim == 0) p->options.context_dim = p->L; /* no parameter says it */
  if (status == FOPO_OK) status = read_temperature(p, f);
  if (status == FOPO_OK) status = read_learn(p, f);
  if (status == FOPO_OK) status = read_encoding(p, f);
  if (status == FOPO_OK) status = choice(&p->masks_seen, f, "seen", fopo_seen_names, 0);
  if (status == FOPO_OK) status = choice(&rows, f, "rows", fopo_float_names, 0);
  p->rows = (fopo_float)rows;
  if (status == FOPO_OK) status = fopo_names_load(&p->names, f->archive, f->path, "items", p->P);
  return status;
}

int fopo_policy_load(fopo_policy_loaded *p, fopo_archive *archive, const char *path) {
  file f = {archive, path, p};
  *p = (fopo_policy_loaded){0};
  int status = fopo_npz_load(archive, path);
  if (status != FOPO_OK) return status;
  status = understand(p, &f);
  if (status == FOPO_OK) return FOPO_OK;
  fopo_policy_loaded_done(p);
  fopo_archive_done(archive);
  return status;
}

void fopo_policy_loaded_done(fopo_policy_loaded *p) {
  fopo_names_done(&p->names);
  *p = (fopo_policy_loaded){0};
}
