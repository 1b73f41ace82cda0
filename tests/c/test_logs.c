/* Bandit logs: a small text for each quirk, the counts of real files, parts, saving; the synthetic
 * world against plain sums; every allocation failing in turn. */
#include <math.h>

#include "checks.h"
#include "core/rng.h"
#include "core/threads.h"
#include "data/logs/hashed.h"
#include "data/logs/readers.h"
#include "data/world/synthetic_logs.h"
#include "real_data.h"

FREED_BY(fopo_log_world_free, fopo_log_world)
FREED_BY(fopo_logs_free, fopo_logs)

static char path[] = "/tmp/fopo-test-logs-XXXXXX";
static char other[64];

static const char *write_file(const char *name, const char *text) {
  FILE *f = fopen(name, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
  fclose(f);
  return name;
}

static fopo_logs *must_read(const char *name, const fopo_logs_options *options) {
  fopo_logs *logs;
  ok(fopo_logs_read(&logs, &name, 1, options));
  assert_int_equal(logs->contexts.rows, logs->n);
  for (size_t i = 0; i < logs->n; i++) {
    assert_true(logs->actions[i] < logs->n_actions);
    assert_true(logs->propensities[i] > 0.0f && logs->propensities[i] <= 1.0f);
  }
  return logs;
}
#define READ_AS(text, ...) must_read(write_file(path, text), &(fopo_logs_options){__VA_ARGS__})
#define READ(text)         must_read(write_file(path, text), NULL)

static void refuse(const char *name, const fopo_logs_options *options, int code, const char *part) {
  fopo_logs *logs;
  int status = fopo_logs_read(&logs, &name, 1, options);
  if (status == FOPO_OK) fail_msg("read what should say: %s", part);
  if (strstr(fopo_error_sentence(), part) == NULL) {
    fail_msg("'%s' is not in: %s", part, fopo_error_sentence());
  }
  assert_int_equal(status, code);
  assert_null(logs);
}
#define REFUSE_AS(text, part, ...)                                                                 \
  refuse(write_file(path, text), &(fopo_logs_options){__VA_ARGS__}, FOPO_ERR_FORMAT, part)
#define REFUSE(text, part) refuse(write_file(path, text), NULL, FOPO_ERR_FORMAT, part)

static void close_to(double a, double b, double tolerance) {
  if (!(fabs(a - b) <= tolerance)) fail_msg("%.9g is not %.9g", a, b);
}

static float context(const fopo_logs *logs, size_t i, size_t j) {
  return fopo_matrix_row(logs->contexts, i)[j];
}

static const char *name_of(const fopo_names *names, size_t i) {
  static char buffers[4][256];
  static unsigned turn;
  return fopo_names_get(names, i, buffers[turn++ % 4], sizeof buffers[0]);
}

/* ---- CSV ---- */

/* Every row has a name of its own, a sentence of help and one way to read. */
TEST(test_table_of_readers) {
  size_t n = 0;
  const fopo_log_reader *r;
  for (; (r = fopo_log_reader_at(n)) != NULL; n++) {
    assert_true(r->name[0] != '\0' && strlen(r->name) < sizeof((fopo_logs *)0)->format);
    assert_true(strlen(r->what) > 10 && strlen(r->what) < 75);
    assert_true((r->read == NULL) != (r->read_file == NULL));
    assert_true((r->magic == NULL) != (r->sniff == NULL));
    for (size_t i = 0; i < n; i++) assert_string_not_equal(r->name, fopo_log_reader_at(i)->name);
    refuse("/absent/log", &(fopo_logs_options){.format = r->name}, FOPO_ERR_FILE, "absent");
    refuse("/absent/log", &(fopo_logs_options){.format = "books"}, FOPO_ERR_ARGUMENT, r->name);
  }
  assert_true(n >= 5);
  assert_null(fopo_log_reader_at(n + 1));
}

TEST(test_csv) {
  FREED(fopo_logs_free)
  fopo_logs *logs = READ("age,land,action,reward,propensity\r\n"
                         "31,fr,7,1,0.5\r\n\r\n25.5,\"be\",9,-2,0.25\r\n 4 ,ch,7,0,1");
  assert_string_equal(logs->format, "csv");
  assert_int_equal(logs->n, 3);
  assert_int_equal(logs->n_actions, 2);
  assert_int_equal(logs->contexts.cols, 4); /* age, then be, ch, fr */
  assert_string_equal(name_of(&logs->features, 0), "age");
  assert_string_equal(name_of(&logs->features, 1), "land=be");
  assert_string_equal(name_of(&logs->features, 3), "land=fr");
  assert_true(context(logs, 0, 0) == 31.0f && context(logs, 0, 3) == 1.0f);
  assert_true(context(logs, 1, 0) == 25.5f && context(logs, 1, 1) == 1.0f);
  assert_true(context(logs, 2, 0) == 4.0f && context(logs, 2, 2) == 1.0f);
  assert_true(context(logs, 2, 1) == 0.0f && context(logs, 2, 3) == 0.0f);
  assert_int_equal(logs->actions[1], 1);
  assert_string_equal(name_of(&logs->names, logs->actions[1]), "9");
  assert_true(logs->rewards[1] == -2.0f && logs->propensities[1] == 0.25f);
  fopo_logs_free(logs);

  logs = READ_AS("who;x1;x2;y;did;got;p\nann;1;2;9;b;1;.5\nbob;3;4;9;a;0;.5\n", .action = "did",
                 .reward = "got", .features = "x");
  assert_int_equal(logs->contexts.cols, 2);
  assert_true(context(logs, 1, 1) == 4.0f);
  assert_string_equal(name_of(&logs->names, logs->actions[0]), "b");
  fopo_logs_free(logs);

  /* A category may look like numbers; n_actions may exceed the ids seen. */
  logs = READ_AS("x\taction\treward\tp\n1\t3\t1\t.5\n2\t1\t1\t.5\nhigh\t3\t0\t.5\n", .n_actions = 5,
                 .categories = "x");
  assert_int_equal(logs->contexts.cols, 3);
  assert_int_equal(logs->n_actions, 5);
  assert_int_equal(logs->actions[0], 2);
  fopo_logs_free(logs);

  /* A few numbers among texts are texts too, and so are empty cells. */
  logs = READ("x,action,reward,p\nhigh,1,1,.5\n7,1,1,.5\nlow,1,1,.5\n,1,0,.5\n");
  assert_int_equal(logs->contexts.cols, 4);
}

TEST(test_csv_refused) {
#define HEAD "x,action,reward,propensity\n1,1,1,0.5\n"
  REFUSE(HEAD "1,1,1,0\n", "line 3, column 4: '0' is not a propensity: an action that was shown");
  REFUSE(HEAD "1,1,1,1.5\n", "line 3, column 4: '1.5' is not a propensity: it is above 1");
  REFUSE(HEAD "1,1,1,nan\n", "line 3, column 4: 'nan' is not a propensity: it is NaN");
  REFUSE(HEAD "1,1,1,-0.1\n", "is not a propensity");
  REFUSE(HEAD "1,1,1,1e-60\n", "is not a propensity");
  REFUSE(HEAD "1,1,1,\n", "line 3, column 4: '' is not a propensity");
  REFUSE(HEAD "1,1,inf,0.5\n", "line 3, column 3: 'inf' is not a finite reward");
  REFUSE(HEAD "1,1,yes,0.5\n", "line 3, column 3: 'yes' is not a reward");
  REFUSE(HEAD "1,,1,0.5\n", "line 3, column 2: '' is not an action");
  REFUSE(HEAD "1e99,1,1,0.5\n", "line 3, column 1: '1e99' is not a finite number");
  REFUSE(HEAD "2,1,1,.5\n,1,1,.5\n", "line 4, column 1: '' is not a finite number");
  REFUSE(HEAD "2,1,1,.5\n0x10,1,1,.5\n", "as most of its column; categories = \"...\" names");
  REFUSE_AS(HEAD, "has no column 'y'; it has x", .categories = "y");
  REFUSE(HEAD "1,1,1\n", "line 3: '1,1,1' has 3 fields where the header has 4");
  REFUSE(HEAD "\"1,1,1,0.5\n", "has a quote that is not closed");
  REFUSE_AS(HEAD "1,6,1,0.5\n", "'6' is not an action of 1 .. n_actions", .n_actions = 5);
  REFUSE("x,action,reward,p\n", "holds no event");
  REFUSE("x,action,reward\n1,1,1\n", "has no column 'propensity'; it has x, action, reward");
  REFUSE_AS(HEAD, "has no column 'y'", .features = "y");
  REFUSE("action,reward,p\n1,1,1\n", "has no column for contexts");
  REFUSE("", "is empty");
  fopo_logs *logs =
      READ_AS(HEAD "1,1,1,0\n1,1,1,2\n2,1,1,1\nx,1\n", .skip_errors = 1, .max_errors = 3);
  assert_int_equal(logs->n, 2);
  assert_int_equal(logs->skipped, 3);
  fopo_logs_free(logs);
  REFUSE_AS(HEAD "1,1,1,0\n1,1,1,2\n2,1,1,1\n", "max_errors is 1", .skip_errors = 1,
            .max_errors = 1);
  refuse("/nowhere/at/all", NULL, FOPO_ERR_FILE, "cannot open");
  refuse(path, &(fopo_logs_options){.format = "xml"}, FOPO_ERR_ARGUMENT, "is none of");
  refuse(path, &(fopo_logs_options){.position = 4}, FOPO_ERR_ARGUMENT, "position is 4");
  refuse(path, &(fopo_logs_options){.hash_bits = 40}, FOPO_ERR_ARGUMENT, "hash_bits is 40");
#undef HEAD
}

/* A column of thousands of different texts is not a category. */
TEST(test_many_levels) {
  FILE *f = fopen(path, "wb");
  fprintf(f, "t,action,reward,p\n");
  for (int i = 0; i < 5000; i++) fprintf(f, "day %d,1,1,1\n", i);
  fclose(f);
  refuse(path, NULL, FOPO_ERR_FORMAT, "column t holds more than 4096 different texts");
}

/* ---- Open Bandit ---- */

static const char obd[] =
    ",timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0,"
    "user-item_affinity_1\n"
    "0,2019-11-24 00:00:01,1,1,0,0.5,b,0.0,2.0\n"
    "1,2019-11-24 00:00:02,0,3,1,0.25,a,1e-06,0.0\n";

TEST(test_obd) {
  write_file(other, ",item_id,item_feature_0,item_feature_1\n1,1,1.5,blue\n0,0,-0.5,red\n"
                    "2,2,0,red\n");
  fopo_logs *logs = READ_AS(obd, .items = other);
  assert_string_equal(logs->format, "obd");
  assert_int_equal(logs->n_actions, 6); /* two items at three positions */
  assert_int_equal(logs->contexts.cols, 4);
  assert_true(context(logs, 0, 1) == 1.0f && context(logs, 1, 0) == 1.0f);
  assert_true(context(logs, 0, 3) == 2.0f && context(logs, 1, 2) == 1e-6f);
  assert_int_equal(logs->actions[0], 3);
  assert_int_equal(logs->actions[1], 2);
  assert_string_equal(name_of(&logs->names, 2), "item 0 at 3");
  close_to((double)logs->propensities[1], 0.25 / 3, 1e-8);
  assert_int_equal(logs->items.rows, 6);
  assert_int_equal(logs->items.cols, 6);              /* number, blue, red, three positions */
  const float *row = fopo_matrix_row(logs->items, 2); /* and the next, the first of the file */
  const float expected[] = {-0.5f, 0, 1, 0, 0, 1, 1.5f, 1, 0, 1, 0, 0};
  for (int i = 0; i < 12; i++) assert_true(row[i] == expected[i]);
  fopo_logs_free(logs);

  logs = READ_AS(obd, .position = 3, .items = other);
  assert_int_equal(logs->n, 1);
  assert_true(logs->n_actions == 2 && logs->names.n == 2);
  assert_int_equal(logs->items.cols, 3);
  assert_true(logs->propensities[0] == 0.25f && logs->actions[0] == 0);
  assert_string_equal(name_of(&logs->names, 1), "1");
  fopo_logs_free(logs);

  /* without columns of affinities the largest item tells how many there are */
  logs = READ(",timestamp,item_id,position,click,propensity_score,user_feature_0\n"
              "0,t,1,2,0,0.5,b\n");
  assert_true(logs->n_actions == 6 && logs->actions[0] == 4);
  fopo_logs_free(logs);

  char bad[512];
  snprintf(bad, sizeof bad, "%s2,t,2,1,0,0.5,a,0,0\n", obd);
  REFUSE(bad, "line 4, column 3: '2' is not an item: there are fewer affinity columns");
  snprintf(bad, sizeof bad, "%s2,t,1,4,0,0.5,a,0,0\n", obd);
  REFUSE(bad, "'4' is not a position");
  write_file(other, ",item_id,item_feature_0\n0,0,1\n");
  REFUSE_AS(obd, "lacks item 1", .items = other);
  write_file(other, ",item_id,item_feature_0\n0,0,1\n1,0,1\n");
  REFUSE_AS(obd, "holds item 0 twice", .items = other);
  for (const char *const *id = (const char *const[]){"-1", "4294967295", "x", NULL}; *id; id++) {
    snprintf(bad, sizeof bad, ",item_id,item_feature_0\n0,0,1\n1,%s,1\n", *id);
    write_file(other, bad);
    REFUSE_AS(obd, "is not an item", .items = other);
  }
}

/* ---- Vowpal Wabbit ---- */

static void hashed(float *row, size_t bits, const char *space, const char *name, double value) {
  fopo_feature_add(row, bits, space, strlen(space), name, strlen(name), value);
}

TEST(test_vw) {
  FREED(fopo_logs_free)
  fopo_logs *logs = READ("1:2:0.4 | a c\n"
                         "3 2:0.5:0.25 'tag |n:2 x:3 |m y:-1\n\n"
                         "3:-1.5:1 tag| \n"
                         "| to be predicted\n");
  assert_string_equal(logs->format, "vw");
  assert_int_equal(logs->n, 3);
  assert_int_equal(logs->skipped, 1);
  assert_int_equal(logs->n_actions, 3);
  assert_int_equal(logs->contexts.cols, 257);
  assert_true(logs->rewards[0] == -2.0f && logs->rewards[2] == 1.5f);
  assert_true(logs->propensities[0] == 0.4f && logs->actions[1] == 1);
  float row[257] = {0};
  hashed(row, 8, "n", "x", 6);
  hashed(row, 8, "m", "y", -1);
  row[256] = 1.0f;
  for (int i = 0; i < 257; i++) assert_true(context(logs, 1, (size_t)i) == row[i]);
  fopo_logs_free(logs);

  REFUSE("1:2:0 | a\n", "line 1: '1:2:0' is not a propensity");
  REFUSE("1:2:1.5 | a\n", "above 1");
  REFUSE("1:2:nan | a\n", "it is NaN");
  REFUSE("1:inf:0.5 | a\n", "cost that is not finite");
  REFUSE("1:2:0.5 | a\n1:2:0.5 2:1:0.5 | a\n", "line 2: '2:1:0.5' is a second label");
  REFUSE("1:2:0.5 | a:x\n", "'a:x' is not a feature");
  REFUSE("1 2 3:0:0.5 | a\n", "one fixed catalogue");
  REFUSE_AS("0.5 yes | a\n", "'0.5' is not a label", .format = "vw");
  REFUSE_AS("9:1:0.5 | a\n", "outside 1 .. n_actions", .n_actions = 3);
  REFUSE("4294967295:1:0.5 | a\n", "no action of 1 or more");
  REFUSE("1:1:0.5 | a:1e39\n", "'a:1e39' is not a feature");
  REFUSE("1:1:0.5 |n:1e39 a\n", "'n:1e39' is not a namespace");
  logs = READ_AS(" \n\t\n2:1:0.5 |n a | b |\r\n2:1:0.5 ||\tc\n1:1:0.5 |\n", .n_actions = 3);
  assert_true(logs->n == 3 && logs->n_actions == 3);
  assert_string_equal(logs->format, "vw");
}

TEST(test_adf) {
  FREED(fopo_logs_free)
  fopo_logs *logs = READ_AS("shared | s_1\n| a b\n0:1.0:0.5 | c d:2 \n\n"
                            "shared | s_2\n0:0:0.25 | c d:2\n| a b\n\n"
                            "| c d:2\n| a b\n",
                            .hash_bits = 4);
  assert_int_equal(logs->n, 2);
  assert_int_equal(logs->skipped, 1);
  assert_int_equal(logs->n_actions, 2);
  assert_int_equal(logs->contexts.cols, 17);
  assert_int_equal(logs->items.cols, 16);
  assert_int_equal(logs->actions[0], 1);
  assert_int_equal(logs->actions[1], 1);
  assert_true(logs->rewards[0] == -1.0f && logs->propensities[1] == 0.25f);
  float row[16] = {0};
  hashed(row, 4, "", "c", 1);
  hashed(row, 4, "", "d", 2);
  for (int i = 0; i < 16; i++) assert_true(fopo_matrix_row(logs->items, 1)[i] == row[i]);
  fopo_logs_free(logs);

  REFUSE("shared | s\n0:1:0.5 | a\n0:1:0.5 | b\n", "'0:1:0.5' is a second label");
  REFUSE("shared | s\n0:1:0.5 | a\n| b\n\n0:1:0.5 | a\n", "offers 1 actions where the first");
  REFUSE("shared | s\n0:1:0.5 | a\n| b\n\n0:1:0.5 | a\n| c\n", "first event does not offer");
  REFUSE("shared | s\n0:1:0.5 | a\n| a\n", "occurs twice in its event");
  logs = READ_AS("shared | s\n0:1:0 | z\n| y\n\n0:1:0.5 | a\n| b\n\n0:1:0.5 | a\n| q\n\n"
                 "| b\n0:2:1 | a\n",
                 .skip_errors = 1, .max_errors = 9);
  assert_int_equal(logs->n, 2);
  assert_int_equal(logs->n_actions, 2);
  assert_int_equal(logs->skipped, 2);
  assert_string_equal(name_of(&logs->names, logs->actions[1]), " a");
}

/* ---- dsjson ---- */

#define ACTIONS "\"_multi\":[{\"_tag\":\"x\",\"i\":{\"k\":1}},{\"i\":{\"k\":\"v\"}}]"
#define EVENT(label, more)                                                                         \
  "{" label ",\"c\":{\"u\":{\"age\":3,\"on\":true,\"land\":\"fr\"}," more "}}\n"
#define LABEL "\"_label_cost\":-1.5,\"_label_probability\":0.5,\"_label_Action\":2"

TEST(test_dsjson) {
  fopo_logs *logs =
      READ_AS(EVENT(LABEL, ACTIONS) "{\"RewardValue\":1,\"EventId\":\"a\\u00e9\"}\n"
                                    "{" LABEL ",\"c\":{\"_multi\":[{\"i\":{\"k\":\"v\"}},{\"_tag\":"
                                    "\"x\",\"i\":{\"k\":1}}]}}\n",
              .hash_bits = 6);
  assert_string_equal(logs->format, "dsjson");
  assert_int_equal(logs->n, 2);
  assert_int_equal(logs->skipped, 1);
  assert_int_equal(logs->n_actions, 2);
  assert_string_equal(name_of(&logs->names, 0), "x");
  assert_string_equal(name_of(&logs->names, 1), "{\"i\":{\"k\":\"v\"}}");
  assert_int_equal(logs->actions[0], 1);
  assert_int_equal(logs->actions[1], 0); /* the second one of its own list */
  assert_true(logs->rewards[0] == 1.5f);
  float row[65] = {0};
  hashed(row, 6, "u.", "age", 3);
  hashed(row, 6, "u.", "on", 1);
  hashed(row, 6, "u.", "land=fr", 1);
  row[64] = 1.0f;
  for (int i = 0; i < 65; i++) assert_true(context(logs, 0, (size_t)i) == row[i]);
  fopo_logs_free(logs);

  logs = READ(EVENT(LABEL ",\"_skipLearn\":true", ACTIONS)
                  EVENT(LABEL ",\"_skipLearn\":false", ACTIONS));
  assert_true(logs->n == 1 && logs->skipped == 1);
  fopo_logs_free(logs);

  REFUSE(EVENT(LABEL, "\"x\":1e39," ACTIONS), "a feature that is not finite");
  REFUSE(EVENT(LABEL, "\"x\":-1e39," ACTIONS), "a feature that is not finite");
  REFUSE("{\"a\":01}\n", "a number or another value is expected");
  REFUSE("{\"a\":\"\\x\"}\n", "an unknown escape");
  REFUSE("{\"a\":[1,2}\n", "a comma or a bracket is expected");
  REFUSE("{\"a\":1} x\n", "something follows the object");
  REFUSE("{\"a\":\"b\n", "a string is not closed");
  REFUSE("{" LABEL ",\"c\":{}}\n", "has no c._multi");
  REFUSE(EVENT(LABEL ",\"pdrop\":0.5", ACTIONS), "was thinned out");
  REFUSE(EVENT("\"_label_cost\":1,\"_label_probability\":0,\"_label_Action\":1", ACTIONS),
         "is not a propensity");
  REFUSE(EVENT("\"_label_cost\":1,\"_label_probability\":1,\"_label_Action\":3", ACTIONS),
         "none of its actions");
  REFUSE(EVENT(LABEL, ACTIONS) "{" LABEL ",\"c\":{\"_multi\":[{\"i\":{\"k\":1}}]}}\n", "line 2");
  char deep[400] = "{\"a\":";
  for (int i = 0; i < 100; i++) strcat(deep, "[");
  REFUSE(deep, "nested more than 64 deep");
}

/* A list of n actions {"i":0} .. {"i":n-1}, as text. */
static const char *actions_of(int n) {
  static char text[2000];
  size_t at = (size_t)sprintf(text, "\"_multi\":[");
  for (int i = 0; i < n; i++) {
    at += (size_t)sprintf(text + at, "%s{\"i\":%d}", i > 0 ? "," : "", i);
  }
  strcpy(text + at, "]");
  return text;
}

static const char *event_of(const char *label, const char *more) {
  static char text[4000];
  snprintf(text, sizeof text, "{%s,\"c\":{%s}}\n", label, more);
  return text;
}

/* The value of one feature "x" in the context of an event. */
static float feature(const char *number) {
  char more[100];
  snprintf(more, sizeof more, "\"x\":%s,%s", number, ACTIONS);
  fopo_logs *logs = READ_AS(event_of(LABEL, more), .hash_bits = 6);
  float row[65] = {0}, value = 0.0f;
  hashed(row, 6, "", "x", 1);
  for (int i = 0; i < 64; i++) {
    if (row[i] != 0.0f) value = context(logs, 0, (size_t)i) / row[i];
  }
  fopo_logs_free(logs);
  return value;
}

TEST(test_dsjson_numbers) {
  assert_true(feature("1e2") == 100.0f && feature("1.5E+1") == 15.0f);
  assert_true(feature("-25e-2") == -0.25f && feature("0.5") == 0.5f && feature("0") == 0.0f);
  REFUSE(EVENT(LABEL, "\"x\":1e999," ACTIONS), "a feature that is not finite");
  REFUSE("{\"a\":1.e1}\n", "a number or another value is expected");
}

TEST(test_dsjson_events) {
  /* long names and texts are cut, and features for it; paths that are too long are refused */
  char name[301], more[3000], label[100];
  memset(name, 'n', 300);
  name[300] = '\0';
  snprintf(more, sizeof more, "\"%s\":\"%s\",%s", name, name, ACTIONS);
  FREED(fopo_logs_free) fopo_logs *logs = READ(event_of(LABEL, more));
  assert_int_equal(logs->n, 1);
  fopo_logs_free(logs);
  snprintf(more, sizeof more, "\"%s\":{\"%s\":{\"%s\":1}},%s", name, name, name, ACTIONS);
  REFUSE(event_of(LABEL, more), "has names too long");
  snprintf(more, sizeof more, "\"_multi\":[{\"%s\":{\"%s\":{\"%s\":1}}}]", name, name, name);
  REFUSE(event_of(LABEL, more), "has names too long");

  /* more actions than there is room for at first; a tag that is no text is none */
  logs = READ(event_of(LABEL, actions_of(40)));
  assert_int_equal(logs->n_actions, 40);
  assert_string_equal(name_of(&logs->names, 39), "{\"i\":39}");
  fopo_logs_free(logs);
  logs = READ(
      event_of(LABEL, "\"_multi\":[{\"_tag\":5,\"i\":0},{\"i\":null,\"j\":false,\"k\":[1,true]}]"));
  assert_string_equal(name_of(&logs->names, 0), "{\"_tag\":5,\"i\":0}");
  fopo_logs_free(logs);

  REFUSE(event_of(LABEL, "\"_multi\":[{\"i\":1},{\"i\":1}]"), "two actions with the same features");
  REFUSE(EVENT(LABEL, ACTIONS) "{" LABEL ",\"c\":{\"_multi\":[{\"i\":{\"k\":9}}]}}\n",
         "offers an action that the first event does not");
  REFUSE(EVENT(LABEL, ACTIONS) "{" LABEL
                               ",\"c\":{\"_multi\":[{\"_tag\":\"x\",\"i\":{\"k\":1}}]}}\n",
         "offers fewer actions than the first event");
  REFUSE(event_of(LABEL, ACTIONS "," ACTIONS), "has a c._multi that is not a list");
  REFUSE(event_of(LABEL, "\"_multi\":{}"), "has a c._multi that is not a list");
  REFUSE(event_of(LABEL, "\"_multi\":[5]"), "an action in c._multi that is not an object");
  REFUSE("{" LABEL "}\n", "has no c._multi");
  REFUSE("{" LABEL ",\"c\":5}\n", "has no c._multi");
  static const char *const labels[] = {"0", "0.5", "1.5", "-1", "5e9", "3"};
  for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
    snprintf(label, sizeof label, "\"_label_cost\":1,\"_label_probability\":1,\"_label_Action\":%s",
             labels[i]);
    REFUSE(event_of(label, ACTIONS), "none of its actions");
  }
  REFUSE("{\"_label_Action\":true}\n", "a label that is not a number");
  REFUSE("{\"_label_cost\":\"1\"}\n", "a label that is not a number");
  REFUSE("5\n{}\n", "is not a");
  REFUSE("{\"RewardValue\":1}\n", "no event");
  REFUSE_AS(" \n\t\n", "no event", .format = "dsjson");
  logs = READ("\n  \n" EVENT(LABEL, ACTIONS) " \n");
  assert_string_equal(logs->format, "dsjson");
  assert_int_equal(logs->n, 1);
}

/* What is taken for which format, by its first line; "": none, and CSV refuses it. */
TEST(test_formats) {
  static const struct {
    const char *text, *format;
  } cases[] = {{"1:1:0.5 | a\n", "vw"},
               {"1:1:0.5 | a", "vw"},
               {"\n | a\n0:1:0.5 | b\n", "vw"},
               {"shared | a\n0:1:0.5 | b\n", "vw"},
               {" \n{\"a\":1}\n" EVENT(LABEL, ACTIONS), "dsjson"},
               {"a,b|c,d\n", ""},
               {"one two | a\n", ""},
               {"1:1 2:2 | a\n", ""},
               {"no bar\n", ""},
               {" \n", ""},
               {"", ""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    FREED(fopo_logs_free) fopo_logs *logs = NULL;
    int status = fopo_logs_read(&logs, (const char *[]){write_file(path, cases[i].text)}, 1, NULL);
    assert_int_equal(status, *cases[i].format != '\0' ? FOPO_OK : FOPO_ERR_FORMAT);
    if (status == FOPO_OK) assert_string_equal(logs->format, cases[i].format);
  }
}

/* ---- parts and files ---- */

static void same_logs(const fopo_logs *a, const fopo_logs *b) {
  assert_int_equal(a->n, b->n);
  assert_int_equal(a->n_actions, b->n_actions);
  assert_string_equal(a->format, b->format);
  assert_int_equal(a->contexts.cols, b->contexts.cols);
  size_t bytes = a->n * sizeof(float);
  assert_memory_equal(a->contexts.x, b->contexts.x, bytes * a->contexts.cols);
  assert_memory_equal(a->actions, b->actions, bytes);
  assert_memory_equal(a->rewards, b->rewards, bytes);
  assert_memory_equal(a->propensities, b->propensities, bytes);
  assert_int_equal(a->items.rows, b->items.rows);
  for (size_t j = 0; j < a->names.n; j++) {
    assert_string_equal(name_of(&a->names, j), name_of(&b->names, j));
  }
  for (size_t j = 0; j < a->features.n; j++) {
    assert_string_equal(name_of(&a->features, j), name_of(&b->features, j));
  }
}

TEST_WITH(test_save_and_parts, no_leak) {
  write_file(other, ",item_id,item_feature_0\n0,0,1\n1,1,2\n");
  fopo_logs *logs = READ_AS(obd, .items = other), *again, *part, *rest;
  ok(fopo_logs_save(logs, path));
  again = must_read(path, NULL);
  same_logs(logs, again);
  ok(fopo_logs_part(&part, again, 1, 1));
  assert_int_equal(part->n, 1);
  assert_int_equal(part->actions[0], logs->actions[1]);
  assert_ptr_equal(part->items.x, again->items.x);
  fopo_logs_free(part);
  refused(fopo_logs_part(&part, again, 1, 2), FOPO_ERR_ARGUMENT,
          "events 2 to 3 are asked for but the log has 2");
  assert_int_equal(fopo_logs_split(&part, &rest, again, 2, 1), FOPO_ERR_ARGUMENT);
  ok(fopo_logs_split(&part, &rest, again, 1, 1));
  assert_true(part->actions[0] != rest->actions[0]);
  fopo_logs_free(part);
  fopo_logs_free(rest);
  again->propensities[1] = 0.0f;
  ok(fopo_logs_save(again, path));
  refuse(path, NULL, FOPO_ERR_FORMAT, "row 2: 0 is not a propensity");
  fopo_logs_free(logs);
  fopo_logs_free(again);
}

/* Names of a .npz are checked as those of a dataset: each is one string of the length it claims. */
TEST(test_damaged_names) {
  fopo_logs *logs = READ("x,action,reward,p\n1,apple,1,0.5\n2,pear,0,0.5\n"), *again;
  assert_string_equal(name_of(&logs->names, 1), "pear");
  ok(fopo_logs_save(logs, path));
  again = must_read(path, NULL);
  assert_string_equal(name_of(&again->names, 0), "apple");
  fopo_logs_free(again);
  logs->names.text[2] = '\0'; /* "ap" and a rest that no offset names */
  ok(fopo_logs_save(logs, path));
  refuse(path, NULL, FOPO_ERR_FORMAT, "the names of its names do not fit");
  logs->names.text[2] = 'p';
  logs->names.text[logs->names.offsets[1] - 1] = 'x'; /* no '\0' between the two */
  ok(fopo_logs_save(logs, path));
  refuse(path, NULL, FOPO_ERR_FORMAT, "the names of its names do not fit");
  logs->names.text[logs->names.offsets[1] - 1] = '\0';
  logs->names.offsets[1] = 0;
  ok(fopo_logs_save(logs, path));
  refuse(path, NULL, FOPO_ERR_FORMAT, "the names of its names do not fit");
  fopo_logs_free(logs);
}

/* ---- real files ---- */

static double mean_reward(const fopo_logs *logs) {
  double sum = 0;
  for (size_t i = 0; i < logs->n; i++) sum += (double)logs->rewards[i];
  return sum / (double)logs->n;
}

TEST(test_real_obd) {
  const char *random = real_file("open-bandit/random_men.csv.gz");
  const char *items = real_file("open-bandit/random_men_item_context.csv");
  if (random == NULL || items == NULL) return;
  fopo_logs *logs = must_read(random, &(fopo_logs_options){.items = items});
  assert_int_equal(logs->n, 10000);
  assert_int_equal(logs->n_actions, 102);
  assert_int_equal(logs->contexts.cols, 3 + 5 + 9 + 8 + 34);
  close_to(mean_reward(logs), 0.0046, 1e-9);
  /* IPS of the logging policy itself, which shows each of 102 pairs equally often. */
  double value = 0;
  for (size_t i = 0; i < logs->n; i++) {
    value += (double)logs->rewards[i] / 102 / (double)logs->propensities[i] / 10000;
  }
  close_to(value, 0.0046, 1e-8);
  fopo_logs_free(logs);
  const char *thompson = real_file("open-bandit/bts_men.csv");
  if (thompson == NULL) return;
  logs = must_read(thompson, &(fopo_logs_options){.position = 2});
  assert_int_equal(logs->n, 3262);
  assert_int_equal(logs->n_actions, 34);
  fopo_logs_free(logs);
}

TEST(test_real_vw) {
  const char *raw = real_file("vw-cb/rcv1_raw_cb_small.vw");
  if (raw == NULL) return;
  fopo_logs *logs = must_read(raw, NULL);
  assert_int_equal(logs->n, 1000);
  assert_int_equal(logs->n_actions, 2);
  close_to(mean_reward(logs), -0.477, 1e-9); /* 224 + 253 lines have the cost 1 */
  fopo_logs_free(logs);
  const char *ldf = real_file("vw-cb/cb_test.ldf"), *json = real_file("vw-cb/dsjson_cb.json");
  if (ldf == NULL || json == NULL) return;
  refuse(ldf, NULL, FOPO_ERR_FORMAT, "line 6");
  logs = must_read(json, NULL);
  assert_int_equal(logs->n, 23);
  assert_int_equal(logs->n_actions, 4);
  close_to(mean_reward(logs), 12.0 / 23, 1e-6);
  assert_string_equal(name_of(&logs->names, 1), "Cold brew");
  fopo_logs_free(logs);
}

/* ---- the synthetic world ---- */

static const fopo_log_world_options small = {.n = 4000,
                                             .actions = 50,
                                             .dim = 4,
                                             .k = 6,
                                             .epsilon = 0.3,
                                             .skill = 0.6,
                                             .sharpness = 1.5,
                                             .bias = -1.0,
                                             .slope = 1.0,
                                             .spread = 0.3,
                                             .seed = 7};

static double rho(const fopo_log_world *w, size_t n, uint32_t a) {
  float r;
  uint32_t row = (uint32_t)n;
  ok(fopo_log_world_rewards(&r, w, w->contexts, &a, &row, 1, 1));
  return (double)r;
}

/* Values of a policy and of the best one in n contexts, by plain loops. */
static void check_values(const fopo_log_world *w, size_t n_contexts) {
  fopo_matrix X = fopo_matrix_rows(w->contexts, 0, n_contexts), Q = {0};
  double soft = 0, greedy = 0, best = 0, m = (double)n_contexts;
  ok(fopo_matrix_init(&Q, n_contexts, 4));
  fopo_fill_normal(Q.x, n_contexts * 4, 1.0, 3, FOPO_STREAM_INIT);
  for (size_t n = 0; n < n_contexts; n++) {
    double z = 0, zr = 0, top = -INFINITY, at_top = 0, most = 0;
    for (uint32_t a = 0; a < w->items.rows; a++) {
      double f = 0, r = rho(w, n, a);
      for (size_t i = 0; i < 4; i++) {
        f += (double)fopo_matrix_row(Q, n)[i] * (double)fopo_matrix_row(w->items, a)[i];
      }
      z += exp(f);
      zr += exp(f) * r;
      if (f > top) at_top = r;
      if (f > top) top = f;
      if (r > most) most = r;
    }
    soft += zr / z / m;
    greedy += at_top / m;
    best += most / m;
  }
  double value;
  ok(fopo_log_world_value(&value, w, X, Q, w->items, 0));
  close_to(value, soft, 1e-6);
  ok(fopo_log_world_value(&value, w, X, Q, w->items, 1));
  close_to(value, greedy, 1e-6);
  ok(fopo_log_world_best(&value, w, X));
  close_to(value, best, 1e-6);
  fopo_matrix_done(&Q);
}

TEST(test_world_values) {
  FREED(fopo_log_world_free) fopo_log_world *w = NULL;
  FREED(fopo_logs_free) fopo_logs *logs = NULL;
  ok(fopo_log_world_new(&w, &logs, &small));
  check_values(w, 100);

  /* The mean reward of the log estimates the value of the logging policy, and so does IPS. */
  double logging;
  ok(fopo_log_world_logging(&logging, w, w->contexts));
  double error = sqrt(logging * (1 - logging) / 4000);
  close_to(mean_reward(logs), logging, 4 * error);
  /* 1 / p has the mean P under the log. */
  double inverse = 0, square = 0;
  for (size_t i = 0; i < logs->n; i++) {
    double v = 1 / (double)logs->propensities[i];
    inverse += v / 4000;
    square += v * v / 4000;
  }
  close_to(inverse, 50.0, 4 * sqrt((square - inverse * inverse) / 4000));
}

/* A catalogue larger than a segment and a tile: the number of threads changes no bit, and all items
 * count once. */
TEST(test_world_threads) {
  fopo_log_world_options o = small;
  o.n = 130;
  o.actions = 20011;
  double value[2][3];
  int threads = fopo_threads();
  for (int i = 0; i < 2; i++) {
    FREED(fopo_log_world_free) fopo_log_world *w = NULL;
    FREED(fopo_logs_free) fopo_logs *logs = NULL;
    ok(fopo_threads_set(1 + 2 * i));
    ok(fopo_log_world_new(&w, &logs, &o));
    ok(fopo_log_world_value(&value[i][0], w, w->contexts, w->contexts, w->items, 0));
    ok(fopo_log_world_best(&value[i][1], w, w->contexts));
    ok(fopo_log_world_logging(&value[i][2], w, w->contexts));
    if (i == 0) check_values(w, 5);
  }
  ok(fopo_threads_set(threads));
  assert_memory_equal(value[0], value[1], sizeof value[0]);
  assert_true(value[0][1] > value[0][0] && value[0][1] > value[0][2]);
}

TEST(test_world_refused) {
  fopo_log_world *w;
  fopo_logs *logs;
  fopo_log_world_options o = small;
  o.epsilon = 0;
  assert_int_equal(fopo_log_world_new(&w, &logs, &o), FOPO_ERR_ARGUMENT);
  o = small;
  o.k = 51;
  assert_int_equal(fopo_log_world_new(&w, &logs, &o), FOPO_ERR_ARGUMENT);
  o = small;
  o.skill = 1.5;
  assert_int_equal(fopo_log_world_new(&w, &logs, &o), FOPO_ERR_ARGUMENT);
}

int main(void) {
  int fd = mkstemp(path);
  if (fd < 0) return 1;
  close(fd);
  snprintf(other, sizeof other, "%s-items", path);
  int failed = run_all(NULL, NULL);
  unlink(path);
  unlink(other);
  return failed;
}
