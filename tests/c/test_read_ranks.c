/* Files that the ranks read together, against the same files read whole; and what goes wrong on one
 * rank. Alone it runs as rank 0 of 1; test_ranks_read.py starts it on several. */
#include "data/read/table.h"
#include "datasets.h"
#include "folder.h"
#include "ranks.h"
#include "ranks/names.h"
#include "ranks/read.h"

/* The first rank writes, and all have the file afterwards. */
static const char *write_for_all(const char *name, const char *bytes, size_t n) {
  const char *path = in_folder(name);
  ok(fopo_comm_agree(FOPO_OK)); /* the file before has been read */
  if (fopo_comm_own_rank() == 0) spit(path, bytes, n);
  ok(fopo_comm_agree(FOPO_OK));
  return path;
}

/* `part` is what the ranks have read, `whole` what this one has. */
static int same_part(const fopo_dataset *part, const fopo_dataset *whole) {
  if (fopo_comm_ranks() == 1) return same_dataset(part, whole);
  fopo_dataset *share;
  ok(fopo_dataset_share(&share, whole));
  int same = same_dataset(part, share) && part->first_user == share->first_user &&
             part->all_users == share->all_users && part->all_nnz == share->all_nnz &&
             same_times(part->period, share->period, whole->times.first != NULL ? 2 : 0);
  fopo_dataset_free(share);
  return same;
}

/* Reads on all ranks and whole: the same dataset, or failures. The sentence is that of one of the
 * ranks; the others say which. */
static void check_files(const char *const *paths, size_t n, const fopo_read_options *o,
                        const char *what, int kind) {
  fopo_dataset *whole, *part;
  char why[1024] = "";
  int status = fopo_dataset_read_all(&whole, paths, n, o), all[FOPO_COMM_RANKS];
  if (status != FOPO_OK) snprintf(why, sizeof why, "%s", fopo_error_sentence());
  int own = fopo_ranks_read(&part, paths, n, o), told = 0;
  if ((own == FOPO_OK) != (status == FOPO_OK)) {
    fail_msg("%s %d: '%s', not '%s'", what, kind, fopo_error_sentence(), why);
  }
  if (own == FOPO_OK && !same_part(part, whole)) fail_msg("%s %d differ", what, kind);
  int knows = own != FOPO_OK && strcmp(fopo_error_sentence(), why) == 0;
  ok(fopo_comm_gather(all, &knows, sizeof knows));
  for (size_t r = 0; r < fopo_comm_ranks(); r++) told += all[r];
  if (own != FOPO_OK && told != 1 && !o->skip_errors) fail_msg("%s %d: %s", what, kind, why);
  fopo_dataset_free(whole);
  fopo_dataset_free(part);
}

/* Tables with every feature, whose rows the cuts between the ranks meet anywhere. */
TEST(tables_of_every_kind) {
  FREED(free) char *text = malloc(1 << 16);
  for (int kinds = 0; kinds < KINDS; kinds += 11) {
    const fopo_read_options options = options_of_many(kinds);
    size_t n = many_rows(text, kinds);
    size_t rest = n / 8 * (size_t)(kinds % 8); /* a part of the file moves the cuts */
    while (rest < n && rest > 0 && text[rest - 1] != '\n') rest++;
    const char *path = write_for_all("case.txt", text, rest > 0 ? rest : n);
    fopo_chunks_size(kinds % 3 ? 150 : 0);
    check_files((const char *const[]){path}, 1, &options, "kinds", kinds);
    if (kinds % 4 == 0) {
      check_files((const char *const[]){path, path, path}, 3, &options, "three of kinds", kinds);
    }
  }
  fopo_chunks_size(0);
}

/* Quoted fields of lines that look like rows: ranks begin inside of them. */
TEST(rows_inside_of_fields) {
  FREED(free) char *text = malloc(1 << 18);
  for (int rows = 1; rows < 60; rows += 2) {
    size_t n = (size_t)sprintf(text, "user,item,note\n");
    for (int i = 0; i < rows; i++) {
      n += (size_t)sprintf(text + n, "%d,%d,\"", i % 7, i % 5);
      for (int k = 0; k < i * rows % 61; k++) n += (size_t)sprintf(text + n, "9,%d,x\n", k);
      n += (size_t)sprintf(text + n, "\"\n");
    }
    if (rows % 8 == 7) n += (size_t)sprintf(text + n, "1,,x\n");
    const char *path = write_for_all("quoted.csv", text, n);
    check_files((const char *const[]){path}, 1, &(fopo_read_options){0}, "rows", rows);
  }
}

/* Rows in any order, whole and broken, with the ends of lines that files have. */
TEST(random_rows) {
  static const char *const rows[] = {"1,2,x",
                                     "7,5,\"\"",
                                     "ann,3,y",
                                     "5,4,\"\n1,1,z\n2,2,\"",
                                     "3,\"4\",\"\r\n6,6,\r\n\"",
                                     "",
                                     "9,9,x\r",
                                     "8,\"a \"\"b\"\"\",",
                                     "6,\"1\",\"\n\n\"\"\"",
                                     "4,1,\"8,8,8\"",
                                     "-6,b,x"};
  enum { CASES = 120, ROWS = sizeof rows / sizeof *rows };
  FREED(free) char *text = malloc(1 << 16);
  uint32_t x = 11;
  for (int c = 0; c < CASES; c++) {
    size_t n = (size_t)sprintf(text, "user,item,note\n");
    for (int i = 0; i < 1 + c % 40; i++) {
      x = x * 1664525u + 1013904223u;
      n += (size_t)sprintf(text + n, "%s\n", rows[(x >> 16) % ROWS]);
      if (x >> 28 == 0) n += (size_t)sprintf(text + n, "2,%0*d,\"%0*d\"\n", 900, c, 1200, i);
    }
    if (c % 9 == 8) n += (size_t)sprintf(text + n, "1,2");
    const char *path = write_for_all("random.csv", text, c % 2 ? n : n - 1);
    fopo_chunks_size(c % 3 ? 100 : 0);
    check_files((const char *const[]){path}, 1, &(fopo_read_options){.where = NULL}, "random", c);
  }
  fopo_chunks_size(0);
}

/* Each user's row, wherever it is. */
TEST(any_rank_has_a_row) {
  static const char text[] = "u,i,v,t\na,x,1,3\nb,x,2,4\na,x,4,9\nc,y,1,2\nd,x,1,1\nc,z,1,1\n";
  const char *path = write_for_all("rows.csv", text, sizeof text - 1);
  const fopo_read_options o = {.user = "u", .item = "i", .value = "v", .time = "t"};
  fopo_dataset *whole, *part, *row;
  ok(fopo_dataset_read(&whole, path, &o));
  ok(fopo_dataset_share(&part, whole));
  for (size_t u = 0; u < whole->matrix.rows; u++) {
    ok(fopo_dataset_fetch(&row, part, u));
    size_t n = fopo_csr_count(&whole->matrix, u), at = (size_t)whole->matrix.indptr[u];
    assert_true(row->matrix.rows == 1 && fopo_csr_nnz(&row->matrix) == n);
    assert_memory_equal(row->matrix.ids, whole->matrix.ids + at, n * sizeof(uint32_t));
    assert_memory_equal(row->matrix.values, whole->matrix.values + at, n * sizeof(float));
    assert_memory_equal(row->times.first, whole->times.first + at, n * sizeof(double));
    assert_memory_equal(row->times.last, whole->times.last + at, n * sizeof(double));
    fopo_dataset_free(row);
  }
  fopo_dataset_free(part);
  fopo_dataset_free(whole);
}

/* Whatever rank has a name: that of each index, the index of each name, and all of them. */
static void check_names(const fopo_names *part, const fopo_names *whole) {
  for (size_t i = 0; i < whole->n; i++) {
    char known[64], *name;
    int64_t at;
    ok(fopo_ranks_name(&name, part, whole->n, i));
    assert_string_equal(name, fopo_names_get(whole, i, known, sizeof known));
    ok(fopo_ranks_find_name(&at, part, whole->n, name));
    assert_int_equal(at, i);
    fopo_free(name);
  }
  int64_t at;
  ok(fopo_ranks_find_name(&at, part, whole->n, "nobody"));
  assert_int_equal(at, -1);
  for (int everywhere = 0; everywhere < 2; everywhere++) {
    fopo_names all;
    ok(fopo_ranks_gather_names(&all, part, whole->n, everywhere));
    int here = everywhere || fopo_comm_own_rank() == 0;
    if (here) assert_true(fopo_names_equal(&all, whole));
    fopo_names_done(&all);
  }
}

TEST(any_rank_has_a_name) {
  FREED(free) char *text = malloc(1 << 14);
  for (int kind = 0; kind < 3; kind++) { /* texts and integers; integers; indices and few names */
    size_t n = (size_t)sprintf(text, "user,item\n");
    for (int i = 0; i < 200; i++) {
      n += (size_t)sprintf(text + n,
                           kind == 2 ? "%d,%d\n"
                           : kind    ? "%d,-%d\n"
                                     : "u%d,%d\n",
                           kind == 2 ? i % 40 : i * 7919 % 4001, i * 31 % (kind == 2 ? 2 : 97));
    }
    const char *path = write_for_all("names.csv", text, n);
    fopo_dataset *whole, *part;
    ok(fopo_dataset_read(&whole, path, &(fopo_read_options){.where = NULL}));
    ok(fopo_ranks_read(&part, &path, 1, &(fopo_read_options){.where = NULL}));
    check_names(&part->users, &whole->users);
    check_names(&part->items, &whole->items);
    size_t held = fopo_comm_ranks() == 1 || kind == 2 ? whole->users.n : part->matrix.rows;
    assert_int_equal(part->users.n, held);
    fopo_dataset_free(part);
    fopo_dataset_free(whole);
  }
}

typedef struct {
  const char *paths[3];
  size_t n;
} files;

static int read_files(const void *payload, long n) {
  const files *f = payload;
  fopo_dataset *d;
  (void)n;
  int status = fopo_ranks_read(&d, f->paths, f->n, &(fopo_read_options){.where = NULL});
  fopo_dataset_free(d);
  return status;
}

/* No rank waits for one that lacks memory. */
TEST(no_memory) {
  static const char a[] =
      "user,item,rating,time\nann,4,1,1\n7,5,2,2\nann,4,2,8\nx,7,1,3\n9,4,1,2\n",
                    b[] = "user,item,time,note\n3,4,1,\"x\n\"\n7,5,2,\n3,4,8,\n4,7,3,\n9,4,2,\n",
                    c[] = "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n";
  files f = {{write_for_all("a.csv", a, sizeof a - 1), write_for_all("b.csv", b, sizeof b - 1),
              write_for_all("c.mtx", c, sizeof c - 1)},
             2};
  size_t failed = fail_each_rank(read_files, &f); /* with times */
  f.n = 3;                                        /* without */
  failed += fail_each_rank(read_files, &f);
  assert_true(failed > 50);
}

/* All ranks have the folder of the first. */
static int share_folder(void **state) {
  int failed = fopo_comm_own_rank() == 0 && make_folder(state);
  if (fopo_comm_agree(failed ? FOPO_ERR_FILE : FOPO_OK) != FOPO_OK) return 1;
  return fopo_comm_broadcast(folder, sizeof folder, 0);
}

static int leave_folder(void **state) {
  int status = fopo_comm_agree(FOPO_OK);
  return fopo_comm_own_rank() == 0 ? remove_folder(state) : status;
}

int main(int argc, char **argv) {
  if (join_ranks(&argc, &argv)) return 1;
  return leave_ranks(run_all(share_folder, leave_folder));
}
