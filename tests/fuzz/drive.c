/* The driver without libFuzzer: mutates the seeds, a few times each, by a generator of its own.
 *
 *   fuzz TARGET COUNT [SEED]   COUNT inputs; one line says how many were read
 *   fuzz TARGET FILE           that file: what a crash left
 *   fuzz --seeds TARGET FOLDER   writes the seeds, the corpus of libFuzzer
 *   fuzz --list                the targets */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/memory.h"
#include "fuzz.h"

enum { MOST = 1 << 16, SEEDS = 64, SECONDS = 20 };

typedef struct {
  uint8_t *data;
  size_t n;
} bytes;

static bytes seeds[SEEDS];
static size_t n_seeds;
static uint8_t input[MOST]; /* the present one, for the report */
static size_t input_n;
static uint64_t state;

static uint32_t draw(void) { /* xorshift64* */
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (uint32_t)(state * 0x2545f4914f6cdd1du >> 32);
}

static size_t below(size_t n) { return n > 0 ? draw() % n : 0; }

/* ---- mutations ---- */

/* Opens or closes a gap of `by` bytes at `at`. */
static size_t insert(uint8_t *data, size_t n, size_t at, size_t by) {
  memmove(data + at + by, data + at, n - at);
  return n + by;
}
static size_t erase(uint8_t *data, size_t n, size_t at, size_t by) {
  memmove(data + at, data + at + by, n - at - by);
  return n - by;
}

static void put_number(uint8_t *data, size_t n) {
  static const uint64_t numbers[] = {0,
                                     1,
                                     2,
                                     127,
                                     255,
                                     256,
                                     65535,
                                     1u << 31,
                                     UINT32_MAX,
                                     1ull << 53,
                                     1ull << 63,
                                     UINT64_MAX,
                                     0x7ff0000000000000u,
                                     0x7f800000u,
                                     0x7fc00000u};
  uint64_t value = numbers[below(sizeof numbers / sizeof *numbers)] - below(2);
  size_t width = (size_t)1 << below(4);
  if (n >= width) memcpy(data + below(n - width + 1), &value, width);
}

static size_t put_word(uint8_t *data, size_t n, size_t most) {
  static const char *const words[] = {"0",
                                      "-1",
                                      "1e999",
                                      "nan",
                                      "4294967295",
                                      "18446744073709551616",
                                      "\"",
                                      "\"\"",
                                      ",",
                                      "\t",
                                      "::",
                                      "\n",
                                      "\r\n",
                                      "{",
                                      "}",
                                      "[",
                                      "]",
                                      ":",
                                      "|",
                                      "\\u0000",
                                      "\\ud800",
                                      "%%MatrixMarket",
                                      "symmetric",
                                      "pattern",
                                      "null",
                                      "true",
                                      "1-01-01",
                                      "2016-05-09T10:00:00Z",
                                      " ",
                                      "\xc3\x28",
                                      "\xef\xbb\xbf",
                                      "'descr': '<f8', ",
                                      "'fortran_order': True",
                                      "(1,)",
                                      "(4294967296,)",
                                      "|O"};
  const char *word = words[below(sizeof words / sizeof *words)];
  size_t length = strlen(word);
  if (n + length > most) return n;
  size_t at = below(n + 1);
  n = insert(data, n, at, length);
  memcpy(data + at, word, length);
  return n;
}

/* A piece of another seed in the place of one here. */
static void put_other(uint8_t *data, size_t n) {
  const bytes *other = &seeds[below(n_seeds)];
  size_t length = 1 + below(64);
  if (n < length || other->n < length) return;
  memcpy(data + below(n - length + 1), other->data + below(other->n - length + 1), length);
}

static size_t change_once(uint8_t *data, size_t n, size_t most) {
  size_t at = below(n), length = 1 + below(16);
  switch (n == 0 ? 4 : below(8)) {
  case 0: data[at] ^= (uint8_t)(1u << below(8)); break;
  case 1: data[at] = (uint8_t)draw(); break;
  case 2: put_number(data, n); break;
  case 3: put_other(data, n); break;
  case 4: return put_word(data, n, most);
  case 5: return length <= n - at ? erase(data, n, at, length) : n;
  case 6: /* a piece twice */
    if (length > n - at || n + length > most) return n;
    return insert(data, n, at, length);
  default: /* a line twice, or cut off at its end */
    if (below(4) == 0) return at;
    data[at] = (uint8_t) "0123456789,;\t |:.-eE\n\"{}[]"[below(26)];
    break;
  }
  return n;
}

static size_t mutate(uint8_t *data, size_t n, size_t most) {
  for (size_t times = 1 + below(4); times > 0; times--) n = change_once(data, n, most);
  return n;
}

/* ---- files ---- */

static bytes read_file(const char *path) {
  bytes b = {malloc(MOST), 0};
  int fd = open(path, O_RDONLY);
  ssize_t n = fd >= 0 ? read(fd, b.data, MOST) : -1;
  if (fd >= 0) close(fd);
  b.n = n > 0 ? (size_t)n : 0;
  return b;
}

static int is_seed(const struct dirent *e) { return e->d_name[0] != '.' && e->d_type == DT_REG; }

static void read_seeds(const char *folder) {
  struct dirent **names;
  int n = scandir(folder, &names, is_seed, alphasort);
  for (int i = 0; i < n && n_seeds < SEEDS; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
    bytes b = read_file(path);
    if (b.n < MOST) seeds[n_seeds++] = b;
    free(names[i]);
  }
  free(names);
}

/* ---- a crash ---- */

static char crash_path[512];

static void crashed(int number) {
  static const char said[] = "\nthe input is kept: ";
  int fd = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ssize_t n = fd >= 0 ? write(fd, input, input_n) : 0;
  n += write(STDERR_FILENO, said, sizeof said - 1);
  n += write(STDERR_FILENO, crash_path, strlen(crash_path));
  n += write(STDERR_FILENO, "\n", 1);
  if (n >= 0) signal(number, SIG_DFL);
  raise(number);
}

static void watch(const char *name) {
  const char *folder = getenv("TMPDIR");
  snprintf(crash_path, sizeof crash_path, "%s/fuzz-%s", folder != NULL ? folder : "/tmp", name);
  const int numbers[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) signal(numbers[i], crashed);
}

/* ---- the loop ---- */

static size_t run(const fuzz_target *t, size_t count) {
  size_t read = 0, blocks = 0;
  for (size_t i = 0; i < n_seeds + count; i++) {
    const bytes *seed = &seeds[i < n_seeds ? i : below(n_seeds)];
    memcpy(input, seed->data, input_n = seed->n);
    for (size_t times = i < n_seeds ? 0 : 1 + below(3); times > 0; times--) {
      input_n = t->is_zip ? fuzz_mutate_zip(input, input_n, MOST, draw(), mutate)
                          : mutate(input, input_n, MOST);
    }
    alarm(SECONDS);
    read += fuzz_one(t, input, input_n) == 0;
    if (i + 1 == n_seeds) blocks = fopo_memory_in_use().blocks;
    if (i >= n_seeds && t->lua == NULL && fopo_memory_in_use().blocks != blocks) {
      fprintf(stderr, "%zu blocks are left over\n", fopo_memory_in_use().blocks - blocks);
      abort();
    }
  }
  alarm(0);
  return read;
}

static int write_seeds(const char *name, const char *folder) {
  if (fuzz_open(name, folder) != NULL) return 0;
  fprintf(stderr, "fuzz: there is no target %s\n", name);
  return 2;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    for (size_t i = 0; fuzz_target_at(i) != NULL; i++) puts(fuzz_target_at(i)->name);
    return 0;
  }
  if (argc == 4 && strcmp(argv[1], "--seeds") == 0) return write_seeds(argv[2], argv[3]);
  if (argc < 3) {
    fputs("usage: fuzz TARGET COUNT [SEED] | TARGET FILE | --seeds TARGET FOLDER | --list\n",
          stderr);
    return 2;
  }
  char *folder = fuzz_folder(), *rest;
  const fuzz_target *t = folder != NULL ? fuzz_open(argv[1], folder) : NULL;
  if (t == NULL) return 2;
  read_seeds(folder);
  size_t count = strtoul(argv[2], &rest, 10), read;
  state = (argc > 3 ? strtoul(argv[3], NULL, 10) : 1) * 0x9e3779b97f4a7c15u;
  watch(t->name);
  if (*rest != '\0') {
    n_seeds = 1;
    seeds[0] = read_file(argv[2]);
    count = 0;
  }
  read = run(t, count);
  printf("%s: %zu seeds, %zu inputs, %zu read\n", t->name, n_seeds, count, read);
  fuzz_remove(folder);
  return 0;
}
