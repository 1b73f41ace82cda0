/* The targets: which files are read, from which seeds, and what must hold of what was read. */
#include <fcntl.h>
#include <lauxlib.h>
#include <lualib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../c/sound.h"
#include "bind/bind.h"
#include "core/memory.h"
#include "core/npy.h"
#include "core/npz.h"
#include "core/status.h"
#include "core/threads.h"
#include "data/logs/readers.h"
#include "data/read/readers.h"
#include "fuzz.h"

#define FIXTURES "tests/fixtures/"

/* ---- a small machine ---- */

/* A file of some bytes may claim matrices of gigabytes, which is refused where memory is estimated.
 * The linker puts these in the place of the program's own (--wrap). */
enum { SUFFICES = 16 << 20, MOST = 64 << 20 };
int __wrap_fopo_memory_suffices(uint64_t bytes, const char *what, const char *remedy);
void *__real_fopo_alloc(size_t n, size_t size);
void *__wrap_fopo_alloc(size_t n, size_t size);
void *__real_fopo_realloc(void *block, size_t n, size_t size);
void *__wrap_fopo_realloc(void *block, size_t n, size_t size);

int __wrap_fopo_memory_suffices(uint64_t bytes, const char *what, const char *remedy) {
  if (bytes <= SUFFICES) return FOPO_OK;
  return fopo_fail(FOPO_ERR_MEMORY, "%s needs too much; %s", what, remedy);
}

static int is_too_much(size_t n, size_t size) {
  size_t bytes;
  if (!__builtin_mul_overflow(n, size, &bytes) && bytes <= MOST) return 0;
  fopo_fail(FOPO_ERR_MEMORY, "no memory for %zu elements of %zu bytes", n, size);
  return 1;
}

void *__wrap_fopo_alloc(size_t n, size_t size) {
  return is_too_much(n, size) ? NULL : __real_fopo_alloc(n, size);
}

void *__wrap_fopo_realloc(void *block, size_t n, size_t size) {
  return is_too_much(n, size) ? NULL : __real_fopo_realloc(block, n, size);
}

/* ---- what must hold ---- */

#define MUST(what) must((what), #what, __LINE__)

static void must(int holds, const char *what, int line) {
  if (holds) return;
  fprintf(stderr, "targets.c:%d: not so: %s\n", line, what);
  abort();
}

/* All names that a file has. Where each index is its own name there may be millions, of which some
 * hundred are looked at. */
static void check_names(const fopo_names *names, size_t n) {
  char buffer[64];
  size_t stride = names->numbers == NULL && names->text == NULL ? 1 + names->n / 512 : 1;
  MUST(names->n == 0 || names->n == n);
  for (size_t i = 0; i < names->n; i += stride) {
    const char *name = fopo_names_get(names, i, buffer, sizeof buffer);
    MUST(name != NULL && strlen(name) < (size_t)1 << 30);
  }
}

static void check_times(const double *t, size_t n) {
  for (size_t i = 0; t != NULL && i < n; i++) MUST(isfinite(t[i]));
}

static void check_dataset(const fopo_dataset *d) {
  const fopo_csr *m = &d->matrix;
  size_t nnz = fopo_csr_nnz(m);
  MUST(is_sound(m, nnz));
  MUST(d->items_seen <= m->cols && d->users_seen <= m->rows && d->rows_read >= nnz);
  check_names(&d->users, m->rows);
  check_names(&d->items, m->cols);
  check_times(d->times.first, nnz);
  check_times(d->times.last, nnz);
}

static void check_matrix(fopo_matrix m) {
  for (size_t i = 0; i < m.rows; i++) {
    for (size_t j = 0; j < m.cols; j++) MUST(isfinite(fopo_matrix_row(m, i)[j]));
  }
}

static void check_logs(const fopo_logs *lg) {
  MUST(lg->n > 0 && lg->n_actions > 0 && lg->contexts.rows == lg->n);
  for (size_t i = 0; i < lg->n; i++) {
    MUST(lg->actions[i] < lg->n_actions && isfinite(lg->rewards[i]));
    MUST(lg->propensities[i] > 0.0f && lg->propensities[i] <= 1.0f);
  }
  check_matrix(lg->contexts);
  check_names(&lg->names, lg->n_actions);
  check_names(&lg->features, lg->contexts.cols);
}

/* ---- running ---- */

static int read_data(const char *path, const fopo_read_options *o) {
  fopo_dataset *d;
  int status = fopo_dataset_read(&d, path, o);
  if (status == FOPO_OK) check_dataset(d);
  MUST(status == FOPO_OK || fopo_error_sentence()[0] != '\0');
  fopo_dataset_free(d);
  return status;
}

static int read_log(const char *path, const char *format) {
  fopo_logs *lg;
  fopo_logs_options o = {.format = format, .hash_bits = 4};
  int status = fopo_logs_read(&lg, &path, 1, &o);
  if (status == FOPO_OK) check_logs(lg);
  fopo_logs_free(lg);
  return status;
}

static int read_any(const char *path) { return read_data(path, NULL); }

static int read_columns(const char *path) {
  fopo_read_options o = {.format = "pairs", .where = "n>=1", .skip_errors = 1, .max_errors = 50};
  return read_data(path, &o);
}

static int read_as(const char *path, const char *const *formats) {
  int status = FOPO_ERR_FORMAT;
  for (; *formats != NULL; formats++) {
    fopo_read_options o = {.format = *formats};
    if (read_data(path, &o) == FOPO_OK) status = FOPO_OK;
  }
  return status;
}

static int read_named(const char *path) {
  static const char *const formats[] = {"movielens", "twitch", "goodreads", NULL};
  return read_as(path, formats);
}

static int read_lists(const char *path) {
  static const char *const formats[] = {"lists", "counted", "baskets", NULL};
  return read_as(path, formats);
}

static int read_mtx(const char *path) {
  static const char *const formats[] = {"mtx", NULL};
  return read_as(path, formats);
}

static int read_json(const char *path) {
  static const char *const formats[] = {"json", NULL};
  return read_as(path, formats);
}

static int read_npy(const char *path) {
  fopo_array a;
  float rows[64];
  size_t shape[2];
  int status = fopo_npy_load(&a, path);
  if (status == FOPO_OK) MUST(a.data != NULL && a.ndim >= 0 && a.ndim <= 2);
  fopo_free(a.data);
  if (fopo_npy_rows(NULL, shape, path, 0, 0) == FOPO_OK && shape[1] <= 64 && shape[0] > 0) {
    MUST(fopo_npy_rows(rows, shape, path, shape[0] - 1, 1) == FOPO_OK);
  }
  return status;
}

/* Each member as each type of number. */
static int read_npz(const char *path) {
  fopo_archive archive;
  int status = fopo_npz_load(&archive, path);
  for (int type = FOPO_F32; type <= FOPO_BOOL && status == FOPO_OK; type++) {
    for (size_t i = 0; i < archive.n; i++) {
      fopo_array *a; /* of the archive; a member that is no such number is refused */
      const char *name = archive.items[i].name;
      int found = fopo_archive_need(&a, &archive, path, name, (fopo_dtype)type, -1);
      MUST((found == FOPO_OK) == (a != NULL));
    }
  }
  fopo_archive_done(&archive);
  return status;
}

static int read_log_csv(const char *path) {
  int csv = read_log(path, "csv"), obd = read_log(path, "obd");
  return csv == FOPO_OK ? csv : obd;
}
static int read_log_vw(const char *path) { return read_log(path, "vw"); }
static int read_log_dsjson(const char *path) { return read_log(path, "dsjson"); }
static int read_log_npz(const char *path) { return read_log(path, "npz"); }

/* ---- seeds ---- */

static void copy(const char *folder, const char *name) {
  char command[512];
  snprintf(command, sizeof command, "cp " FIXTURES "%s %s/", name, folder);
  MUST(system(command) == 0);
}

static void write_text(const char *folder, size_t i, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/text%zu", folder, i);
  FILE *f = fopen(path, "w");
  MUST(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void seeds_any(const char *folder) {
  static const char *const names[] = {"u.data",           "mixed_ids.csv",  "bookcrossing.csv",
                                      "kgat.txt",         "caserec.dat",    "sasrec.txt",
                                      "citeulike.dat",    "diginetica.csv", "hetrec.dat",
                                      "retailrocket.csv", "yoochoose.dat"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) copy(folder, names[i]);
}
static void seeds_named(const char *folder) {
  copy(folder, "ratings_ml1m.dat");
  copy(folder, "goodreads.csv");
  copy(folder, "goodreads_index.csv");
}
static void seeds_lists(const char *folder) {
  copy(folder, "kgat.txt");
  copy(folder, "citeulike.dat");
  copy(folder, "fimi.dat");
}
static void seeds_json(const char *folder) { copy(folder, "goodreads.json"); }

static void seeds_gzip(const char *folder) {
  char command[512];
  snprintf(command, sizeof command,
           "for f in u.data kgat.txt goodreads.json; do gzip -nc " FIXTURES "$f > %s/$f.gz; done",
           folder);
  MUST(system(command) == 0);
}

/* Arrays of several types and shapes, as .npy and together as .npz. */
static void seeds_arrays(const char *folder, int together) {
  static const float f32[6] = {1, -2, 0.5f, 3, 4, 5};
  static const double f64[3] = {1e300, -0.0, 7};
  static const int64_t i64[4] = {-1, 0, 1, INT64_MAX};
  static const uint8_t u8[5] = {0, 1, 2, 254, 255};
  fopo_array arrays[] = {
      fopo_array_of("f32", FOPO_F32, f32, 2, 2, 3),  fopo_array_of("f64", FOPO_F64, f64, 1, 3, 1),
      fopo_array_of("i64", FOPO_I64, i64, 1, 4, 1),  fopo_array_of("u8", FOPO_U8, u8, 1, 5, 1),
      fopo_array_of("none", FOPO_F32, f32, 2, 0, 3), fopo_array_text("text", "a name")};
  enum { N = sizeof arrays / sizeof *arrays };
  char path[1024];
  for (size_t i = 0; i < N && !together; i++) {
    snprintf(path, sizeof path, "%s/%s.npy", folder, arrays[i].name);
    MUST(fopo_npy_save(path, &arrays[i]) == FOPO_OK);
  }
  for (int compress = 0; compress < 2 && together; compress++) {
    snprintf(path, sizeof path, "%s/%d.npz", folder, compress);
    MUST(fopo_npz_save(path, arrays, N, compress) == FOPO_OK);
  }
}
static void seeds_npy(const char *folder) { seeds_arrays(folder, 0); }
static void seeds_npz(const char *folder) { seeds_arrays(folder, 1); }

/* scipy's, and the program's own with names and times, without a compressed member. */
static void seeds_sparse(const char *folder) {
  static const char *const names[] = {FIXTURES "u.data", FIXTURES "bookcrossing.csv"};
  copy(folder, "scipy_plain.npz");
  copy(folder, "scipy_zip64.npz");
  for (size_t i = 0; i < 2; i++) {
    char path[512];
    fopo_dataset *d;
    snprintf(path, sizeof path, "%s/own%zu.npz", folder, i);
    MUST(fopo_dataset_read(&d, names[i], NULL) == FOPO_OK);
    MUST(fopo_dataset_save(d, path) == FOPO_OK);
    fopo_dataset_free(d);
  }
}

static const char *const text_csv[] = {"u,i,n\nann,3,1\nann,14,2\nbob,7,x\n",
                                       "user\titem\tn\ttime\n1\ta\t1\t2016-05-09\n", NULL};
static const char *const text_parts[] = {
    "user,item,note\n1,2,\"\n9,9,x\n9,8,y\n\"\n\n3,4,\"a\"\"\n1,1,1\n\"\n5,6,\"\"\n7,8,\"9\"",
    "user,item,rating,time\r\nann,3,1,4\r\n\r\nbob,x,2,5\r\n7,\"y\r\n8,y,1,1\r\n\",1,6\r\n7,z,1,"
    "x\r\n",
    "{\"user\":1,\"item\":\"\\n\",\"time\":1}\n\n{\"user\":\"b\",\"item\":2.5,\"time\":1e9}\n",
    NULL};
static const char *const text_named[] = {"1,a,sue,10,12\n2,b,tim,9,13\n1,a,tim,11,12\n", NULL};
static const char *const text_mtx[] = {
    "%%MatrixMarket matrix coordinate real general\n3 4 3\n1 1 4\n3 2 .5\n2 4 1\n",
    "%%MatrixMarket matrix coordinate pattern symmetric\n%%GraphBLAS type double\n3 3 2\n1 1\n3 "
    "1\n",
    "%%MatrixMarket matrix array integer general\n2 2\n1\n0\n3\n4\n", NULL};
static const char *const text_json[] = {
    "{\"user\":1,\"item\":\"\\u00e9\",\"x\":[{}]}\n{\"user\":\"b\",\"item\":2.5,\"time\":1e9}\n",
    NULL};
static const char *const text_log_csv[] = {
    "age,country,action,reward,propensity\n31,fr,7,1,0.5\n25,be,9,0,0.25\n",
    ",timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0,"
    "user-item_affinity_1\n0,2019-11-24 00:00:01,1,1,0,0.5,b,0.0,2.0\n"
    "1,2019-11-24 00:00:02,0,3,1,0.25,a,1e-06,0.0\n",
    NULL};
static const char *const text_log_vw[] = {
    "shared | s_1\n| a b\n0:1.0:0.5 | c d:2 \n\nshared |u s_2:3\n0:-1:0.25 | a b\n| c d:2\n\n",
    "1:0.5:0.5 | a b:2 c\n2:-1:0.25 | a\n", NULL};
static const char *const text_log_dsjson[] = {
    "{\"_label_cost\":-1,\"_label_probability\":0.5,\"_label_Action\":1,\"c\":{\"u\":{\"age\":3,"
    "\"on\":true},\"_multi\":[{\"_tag\":\"x\",\"A\":{\"id\":\"x\"}},{\"A\":{\"id\":\"y\\u00e9\"}}]}"
    "}\n"
    "{\"RewardValue\":1,\"EventId\":\"a\"}\n",
    NULL};

/* ---- by Lua ---- */

#define WORLD                                                                                      \
  "local fopo, folder = require 'fopo', ...\n"                                                     \
  "local s = fopo.data.synthetic{users = 24, items = 12, clusters = 3, seed = 1,\n"                \
  "  mean_items = 6}:sessions{min_items = 3}\n"                                                    \
  "local items = fopo.embed.svd(s.train, {dim = 3})\n"

static const char lua_index[] =
    WORLD "for _, kind in ipairs{'exact', 'norm', 'hnsw', 'hybrid', 'clusters'} do\n"
          "  local graph = kind == 'hnsw' or kind == 'hybrid'\n"
          "  local ix = graph and fopo.index[kind](items, {M = 2, ef_construction = 4})\n"
          "    or fopo.index[kind](items)\n"
          "  ix:save(folder .. '/' .. kind .. '.npz')\n"
          "end\n"
          "return function(path) fopo.index.load(path, items):search(items, 4) end\n";

static const char lua_policy[] =
    WORLD "fopo.policy.linear{items = items}:save(folder .. '/linear.npz')\n"
          "fopo.policy.mlp{items = items, hidden = {4, 3}}:save(folder .. '/mlp.npz')\n"
          "return function(path)\n"
          "  local pi = fopo.policy.load(path)\n"
          "  pi:best(fopo.array.zeros(2, pi.theta and pi:theta().rows or 3), {k = 2})\n"
          "  pi:recommend({items = {1, 2}}, 2)\n"
          "end\n";

static const char lua_checkpoint[] =
    WORLD "local q = fopo.proposal.mixture{index = fopo.index.norm(items), k = 3, refresh = 2}\n"
          "local t = fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train, "
          "batch = 4,\n"
          "  gradient = fopo.gradient.snis{proposal = q, samples = 4}, valid = s.valid}\n"
          "t:run{steps = 3, every = 1, view = false}\n"
          "t:save(folder .. '/trained.npz')\n"
          "return function(path) t:resume(path) t:run{steps = 1, view = false} end\n";

/* config.json and history.jsonl in one: the line "----" lies between. */
static const char lua_run_log[] =
    WORLD "local t = fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train, "
          "batch = 4,\n"
          "  gradient = fopo.gradient.snis{samples = 4}, valid = s.valid}\n"
          "local kept = folder .. '/.log'\n"
          "t:run{steps = 3, every = 1, view = false, log = kept}\n"
          "local function all(name)\n"
          "  local f <close> = io.open(kept .. '/' .. name)\n"
          "  return f:read('a')\n"
          "end\n"
          "local f = io.open(folder .. '/log', 'w')\n"
          "f:write(all('config.json'), '\\n----\\n', all('history.jsonl')) f:close()\n"
          "local function put(name, text)\n"
          "  local f <close> = io.open(kept .. '/' .. name, 'w')\n"
          "  f:write(text)\n"
          "end\n"
          "return function(path)\n"
          "  local f <close> = io.open(path)\n"
          "  local config, history = f:read('a'):match('^(.-)\\n%-%-%-%-\\n(.*)$')\n"
          "  put('config.json', config or '{}')\n"
          "  put('history.jsonl', history or '')\n"
          "  fopo.view.text(kept)\n"
          "end\n";

static lua_State *L;

/* A failure must be a sentence, not an error of Lua in the program's own files. */
static int run_lua(const char *path) {
  static int since;
  lua_pushvalue(L, 1);
  lua_pushstring(L, path);
  int status = lua_pcall(L, 1, 0, 0);
  if (status != LUA_OK) {
    const char *why = lua_tostring(L, -1);
    if (why == NULL || strncmp(why, "fopo/", 5) == 0) {
      fprintf(stderr, "no sentence: %s\n", why != NULL ? why : "(no text)");
      abort();
    }
  }
  lua_settop(L, 1);
  if (++since % 64 == 0) lua_gc(L, LUA_GCCOLLECT);
  return status == LUA_OK ? FOPO_OK : FOPO_ERR_FORMAT;
}

static void open_lua(const char *chunk, const char *folder) {
  L = luaL_newstate();
  luaL_openlibs(L);
  fopo_lua_open(L);
  fopo_lua_seal(L);
  lua_settop(L, 0);
  if (luaL_loadstring(L, chunk) == LUA_OK) {
    lua_pushstring(L, folder);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK) return;
  }
  fprintf(stderr, "%s\n", lua_tostring(L, -1));
  abort();
}

/* ---- the table ---- */

static void seeds_log_npz(const char *folder) {
  char from[512], path[512];
  for (size_t i = 0; i < 2; i++) {
    fopo_logs *lg;
    snprintf(from, sizeof from, "%s/text%zu", folder, i);
    snprintf(path, sizeof path, "%s/%zu.npz", folder, i);
    write_text(folder, i, text_log_csv[i]);
    MUST(fopo_logs_read(&lg, (const char *[]){from}, 1, NULL) == FOPO_OK &&
         fopo_logs_save(lg, path) == FOPO_OK);
    fopo_logs_free(lg);
    unlink(from);
  }
}

static const fuzz_target targets[] = {
    {.name = "any", .run = read_any, .seeds = seeds_any},
    {.name = "columns", .run = read_columns, .text = text_csv},
    {.name = "parts", .run = fuzz_parts, .seeds = fuzz_parts_seeds, .text = text_parts},
    {.name = "named", .run = read_named, .seeds = seeds_named, .text = text_named},
    {.name = "lists", .run = read_lists, .seeds = seeds_lists},
    {.name = "mtx", .run = read_mtx, .text = text_mtx},
    {.name = "json", .run = read_json, .seeds = seeds_json, .text = text_json},
    {.name = "gzip", .run = read_any, .seeds = seeds_gzip},
    {.name = "npy", .run = read_npy, .seeds = seeds_npy},
    {.name = "npz", .run = read_npz, .seeds = seeds_npz, .is_zip = 1},
    {.name = "sparse", .run = read_any, .seeds = seeds_sparse, .is_zip = 1},
    {.name = "log_csv", .run = read_log_csv, .text = text_log_csv},
    {.name = "log_vw", .run = read_log_vw, .text = text_log_vw},
    {.name = "log_dsjson", .run = read_log_dsjson, .text = text_log_dsjson},
    {.name = "log_npz", .run = read_log_npz, .seeds = seeds_log_npz, .is_zip = 1},
    {.name = "index", .run = run_lua, .lua = lua_index, .is_zip = 1},
    {.name = "policy", .run = run_lua, .lua = lua_policy, .is_zip = 1},
    {.name = "checkpoint", .run = run_lua, .lua = lua_checkpoint, .is_zip = 1},
    {.name = "run_log", .run = run_lua, .lua = lua_run_log}};
enum { TARGETS = sizeof targets / sizeof *targets };

char *fuzz_folder(void) {
  static char places[][32] = {"/dev/shm/fopo-fuzz-XXXXXX", "/tmp/fopo-fuzz-XXXXXX"};
  for (size_t i = 0; i < 2; i++) {
    if (mkdtemp(places[i]) != NULL) return places[i];
  }
  return NULL;
}

void fuzz_remove(const char *folder) {
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  if (system(command) != 0) perror(command);
}

const fuzz_target *fuzz_target_at(size_t i) { return i < TARGETS ? &targets[i] : NULL; }

const fuzz_target *fuzz_open(const char *name, const char *folder) {
  const fuzz_target *t = NULL;
  for (size_t i = 0; i < TARGETS; i++) {
    if (strcmp(targets[i].name, name) == 0) t = &targets[i];
  }
  if (t == NULL) return NULL;
  fopo_threads_set(1); /* the same input does the same each time */
  if (t->seeds != NULL) t->seeds(folder);
  for (size_t i = 0; t->text != NULL && t->text[i] != NULL; i++) write_text(folder, i, t->text[i]);
  if (t->lua != NULL) open_lua(t->lua, folder);
  return t;
}

int fuzz_one(const fuzz_target *t, const uint8_t *data, size_t n) {
  static int fd = -1;
  static char path[64];
  if (fd < 0) {
    fd = memfd_create("input", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  }
  MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data, n, 0) == (ssize_t)n);
  return t->run(path);
}
