/* What a trainer refuses to resume from: files of other runs, of other policies, and files in which
 * one member is wrong; after each of them nothing has changed. Runs that learn their items. */
#include <unistd.h>

#include "core/npz.h"
#include "small_trainer.h"

enum { P = 40, N = 12, L = 3, BATCH = 4 };

static char file_name[64], broken[80];

static fopo_optim_options optim_of(const fopo_optimiser *kind) {
  return (fopo_optim_options){.kind = kind, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
}

/* net: the policy is a network of so many hidden layers. */
static void set_up(setting *s, const fopo_optimiser *kind, int train_items, size_t net) {
  fopo_optim_options o = optim_of(kind);
  memset(s, 0, sizeof *s);
  small_world_init(&s->w, P, N, L, 0.1, 0.1, 3);
  if (net > 0) {
    fopo_network shape = {net + 1, {L, 5, 4}, FOPO_TANH};
    shape.width[net + 1] = L;
    fopo_policy_done(&s->w.pi);
    ok(init_network(&s->w.pi, s->w.items, &shape, 0.8f, 3));
  }
  s->w.pi.learns[FOPO_BLOCK_ITEMS] = train_items;
  ok(fopo_index_exact(&s->ix, s->w.items));
  fopo_gradient_options g = {.estimator = &fopo_estimator_snis, .samples = 10};
  g.proposal = (fopo_proposal){.kind = FOPO_PROPOSAL_MIXTURE, .k = 6, .epsilon = 0.5, .refresh = 2};
  if (train_items) g.proposal.refresh = 1;
  make_trainer(s, g, &o, BATCH, 0);
}

static size_t n_theta(const setting *s) { return s->w.pi.theta.rows * s->w.pi.theta.cols; }

/* Saves a run of 5 steps. */
static void save_run(const fopo_optimiser *kind, int train_items, size_t net) {
  DONE(tear_down) setting s;
  set_up(&s, kind, train_items, net);
  run(&s, 5);
  ok(fopo_trainer_save(s.t, file_name, NULL, 0));
}

/* Resuming from path is refused, and theta, items and step stay. */
static void stays(setting *s, const char *path, const char *part) {
  float theta[200], items[P * L];
  assert_true(n_theta(s) <= 200);
  memcpy(theta, s->w.pi.theta.x, n_theta(s) * sizeof *theta);
  memcpy(items, s->w.items.x, sizeof items);
  uint64_t step = fopo_trainer_step(s->t);
  int status = fopo_trainer_resume(s->t, path, NULL);
  if (status == FOPO_OK) fail_msg("it resumes, but should say: %s", part);
  says(part);
  assert_memory_equal(theta, s->w.pi.theta.x, n_theta(s) * sizeof *theta);
  assert_memory_equal(items, s->w.items.x, sizeof items);
  assert_int_equal(fopo_trainer_step(s->t), step);
}

TEST_WITH(other_runs, no_leak) {
  static const struct {
    int items, their_items;
    size_t net, their_net;
    const char *says;
  } cases[] = {{1, 0, 0, 0, "its items are fixed, here they are trained"},
               {0, 1, 0, 0, "its items are trained, here they are fixed"},
               {0, 0, 0, 1, "its policy is a network, here it is linear"},
               {0, 0, 1, 0, "'network'"},
               {0, 0, 1, 2, "its network has other layers"},
               {0, 0, 2, 1, "its network has other layers"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    DONE(tear_down) setting s;
    save_run(&fopo_optimiser_adam, cases[i].their_items, cases[i].their_net);
    set_up(&s, &fopo_optimiser_adam, cases[i].items, cases[i].net);
    stays(&s, file_name, cases[i].says);
  }
}

/* Puts other members in the place of one, or takes it away, and resumes. */
static void with_member(setting *s, fopo_array member, const char *part) {
  fopo_archive file;
  ok(fopo_npz_load(&file, file_name));
  fopo_array *a = fopo_archive_find(&file, member.name), kept;
  assert_non_null(a);
  kept = *a;
  *a = member;
  ok(fopo_npz_save(broken, file.items, file.n, 0));
  *a = kept;
  fopo_archive_done(&file);
  stays(s, broken, part);
}

TEST_WITH(wrong_members, no_leak) {
  double record[200] = {0};
  float numbers[P * L] = {0};
  uint32_t counts[P] = {0};
  DONE(tear_down) setting s;
  save_run(&fopo_optimiser_adam, 1, 0);
  set_up(&s, &fopo_optimiser_adam, 1, 0);
  with_member(&s, fopo_array_text("format", "fopo trainer 10"), "its format is");
  with_member(&s, fopo_array_text("format", "fopo trainer"), "its format is");
  with_member(&s, fopo_array_text("format", "fopo trainer 2"), "its format is");
  with_member(&s,
              fopo_array_text("optim", "a name that is longer than what a sentence has room for"),
              "longer than what a senten\", here it is \"adam\"");
  with_member(&s, fopo_array_of("format", FOPO_U64, record, 0, 1, 1), "'format'");
  with_member(&s, fopo_array_of("theta", FOPO_F32, numbers, 2, L, L + 1), "theta is 3 x 4");
  with_member(&s, fopo_array_of("theta", FOPO_F32, numbers, 2, L + 1, L), "theta is 4 x 3");
  with_member(&s, fopo_array_of("items_m", FOPO_F32, numbers, 2, P - 1, L), "items_m is 39 x 3");
  with_member(&s, fopo_array_of("items_t", FOPO_U32, counts, 1, P - 1, 1),
              "items_t has 39 numbers for 40 items");
  numbers[7] = NAN;
  with_member(&s, fopo_array_of("item_values", FOPO_F32, numbers, 2, P, L),
              "row 3, column 2 of item_values is nan");
  numbers[7] = -1.0f;
  with_member(&s, fopo_array_of("items_v", FOPO_F32, numbers, 2, P, L), "which no square can be");
  with_member(&s, fopo_array_of("record", FOPO_F64, record, 1, 200, 1),
              "its record has 200 numbers");
}

/* A network of as many layers, and another activation. */
TEST_WITH(other_activation, no_leak) {
  const uint64_t shape[] = {L, 5, L, FOPO_TANH + 1};
  DONE(tear_down) setting s;
  save_run(&fopo_optimiser_adam, 0, 1);
  set_up(&s, &fopo_optimiser_adam, 0, 1);
  with_member(&s, fopo_array_of("network", FOPO_U64, shape, 1, 4, 1), "another activation");
}

/* Numbers that no record has; the reward alone may be negative. */
TEST_WITH(wrong_records, no_leak) {
  static const double bad[] = {NAN, INFINITY, -INFINITY, -1.0};
  DONE(tear_down) setting s;
  DONE(fopo_archive_done) fopo_archive file;
  save_run(&fopo_optimiser_adam, 0, 0);
  set_up(&s, &fopo_optimiser_adam, 0, 0);
  ok(fopo_npz_load(&file, file_name));
  double *record = fopo_archive_find(&file, "record")->data;
  size_t n = fopo_archive_find(&file, "record")->shape[0];
  for (size_t i = 0; i < n; i++) {
    double kept = record[i];
    char part[64];
    record[i] = bad[i == FOPO_STAT_REWARD ? 0 : i % 4];
    snprintf(part, sizeof part, "number %zu of its record is %g", i + 1, record[i]);
    ok(fopo_npz_save(broken, file.items, file.n, 0));
    stays(&s, broken, part);
    record[i] = kept;
  }
  record[FOPO_STAT_REWARD] = -1.0;
  ok(fopo_npz_save(broken, file.items, file.n, 0));
  ok(fopo_trainer_resume(s.t, broken, NULL));
}

/* A file of the program that is no checkpoint is named by what it is. */
TEST_WITH(other_files, no_leak) {
  DONE(tear_down) setting s;
  set_up(&s, &fopo_optimiser_adam, 0, 0);
  ok(fopo_index_save(s.ix, broken));
  stays(&s, broken, "index");
}

/* An estimator that has no proposal and keeps no candidates goes on with the same bits. */
TEST_WITH(without_proposal, no_leak) {
  const fopo_optim_options o = optim_of(&fopo_optimiser_adam);
  float theta[2][L * L];
  for (int resumed = 0; resumed < 2; resumed++) {
    DONE(tear_down) setting s = {0};
    small_world_init(&s.w, P, N, L, 0.1, 0.1, 3);
    ok(fopo_index_exact(&s.ix, s.w.items));
    make_trainer(&s, (fopo_gradient_options){.estimator = &fopo_estimator_exact}, &o, BATCH, 0);
    run(&s, 3);
    if (resumed) {
      ok(fopo_trainer_resume(s.t, file_name, NULL)); /* of step 3 */
    } else {
      ok(fopo_trainer_save(s.t, file_name, NULL, 0));
    }
    run(&s, 4);
    assert_int_equal(n_theta(&s), L * L);
    memcpy(theta[resumed], s.w.pi.theta.x, sizeof theta[0]);
  }
  assert_memory_equal(theta[0], theta[1], sizeof theta[0]);
}

/* A record of other statistics is left out; the run is resumed all the same. */
TEST_WITH(other_statistics, no_leak) {
  DONE(tear_down) setting s;
  DONE(fopo_archive_done) fopo_archive file;
  save_run(&fopo_optimiser_adam, 0, 0);
  set_up(&s, &fopo_optimiser_adam, 0, 0);
  ok(fopo_npz_load(&file, file_name));
  for (int way = 0; way < 2; way++) { /* other names; neither names nor record */
    size_t n = 0;
    fopo_array *kept = calloc(file.n, sizeof *kept);
    for (size_t i = 0; i < file.n; i++) {
      int names = strcmp(file.items[i].name, "record_names") == 0;
      int record = strcmp(file.items[i].name, "record") == 0;
      if (way == 1 && (names || record)) continue;
      kept[n++] = names ? fopo_array_text("record_names", "other names") : file.items[i];
    }
    ok(fopo_npz_save(broken, kept, n, 0));
    free(kept);
    ok(fopo_trainer_resume(s.t, broken, NULL));
    assert_int_equal(fopo_trainer_step(s.t), 5);
  }
}

/* Every member is needed, and says its name when it is not there; with items that are learnt, by
 * every optimiser, and with a network. */
TEST_WITH(missing_members, no_leak) {
  for (int way = 0; way < 4; way++) {
    DONE(tear_down) setting s;
    fopo_archive file;
    const fopo_optimiser *kind = fopo_optimisers[way % 3];
    save_run(kind, way < 3, way == 3);
    set_up(&s, kind, way < 3, way == 3);
    ok(fopo_npz_load(&file, file_name));
    assert_int_equal(fopo_archive_find(&file, "optim_m") == NULL, kind == &fopo_optimiser_adagrad);
    assert_int_equal(fopo_archive_find(&file, "optim_v") == NULL, kind == &fopo_optimiser_sgd);
    for (size_t i = 0; i < file.n; i++) {
      fopo_array kept = file.items[i];
      /* without these its items are fixed, and it keeps no candidates */
      if (strcmp(kept.name, "item_values") == 0 || strcmp(kept.name, "candidates") == 0) continue;
      file.items[i] = file.items[file.n - 1];
      ok(fopo_npz_save(broken, file.items, file.n - 1, 0));
      file.items[i] = kept;
      stays(&s, broken, strcmp(kept.name, "format") == 0 ? "holds no checkpoint" : kept.name);
    }
    fopo_archive_done(&file);
    ok(fopo_trainer_resume(s.t, file_name, NULL));
  }
}

/* Whatever allocation fails, saving and resuming are refused or done, and the file is whole. */
TEST_WITH(memory_faults, no_leak) {
  DONE(tear_down) setting s;
  save_run(&fopo_optimiser_adam, 1, 0);
  set_up(&s, &fopo_optimiser_adam, 1, 0);
  for (int saves = 1; saves >= 0; saves--) {
    long fault = 0;
    for (int failed = 1; failed; fault++) {
      fopo_memory_fail_after(fault, 0);
      int status = saves ? fopo_trainer_save(s.t, file_name, NULL, 0)
                         : fopo_trainer_resume(s.t, file_name, NULL);
      fopo_memory_fail_after(-1, 0);
      failed = status != FOPO_OK;
      if (failed) assert_int_equal(status, FOPO_ERR_MEMORY);
      assert_true(fault < 1000);
    }
    assert_true(fault > 5);
    ok(fopo_trainer_resume(s.t, file_name, NULL));
  }
}

static int begin(void **unused) {
  (void)unused;
  snprintf(file_name, sizeof file_name, "/tmp/fopo_test_checkpoint_%ld.npz", (long)getpid());
  snprintf(broken, sizeof broken, "%s.broken.npz", file_name);
  return 0;
}

static int end(void **unused) {
  (void)unused;
  unlink(file_name);
  unlink(broken);
  return 0;
}

int main(void) { return run_all(begin, end); }
