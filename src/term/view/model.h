/* What the live view shows, in numbers and words. Who fills the model (a run, a background job, the
 * folder of a log, a test) is not known here. */
#ifndef FOPO_TERM_VIEW_MODEL_H
#define FOPO_TERM_VIEW_MODEL_H

#include "device/statistics.h"
#include "term/curves.h"
#include "term/trace.h"

/* The figures of a run, each with one value at a time, NaN if there is none: the statistics of
 * device/statistics.def, then these.
 *
 *   FIGURE(ID, "name by which Lua sets it", "unit or meaning") */
#define FOPO_VIEW_FIGURES(FIGURE)                                                                  \
  FIGURE(STEP, "step", "steps made")                                                               \
  FIGURE(STEPS, "steps", "step at which the run ends; NaN: no end is known")                       \
  FIGURE(SECONDS, "seconds", "of training")                                                        \
  FIGURE(ETA, "eta", "seconds to the end")                                                         \
  FIGURE(VALID, "valid", "reward of the last validation, by the true argmax")                      \
  FIGURE(VALID_EXPECTED, "valid_expected", "expected reward of the last validation")               \
  FIGURE(VALID_INDEX, "valid_index", "the same through the index")                                 \
  FIGURE(BEST, "best", "largest VALID so far")                                                     \
  FIGURE(BEST_STEP, "best_step", "step of BEST")                                                   \
  FIGURE(CONTEXTS_RATE, "contexts_rate", "contexts per second")                                    \
  FIGURE(STEPS_RATE, "steps_rate", "steps per second")                                             \
  FIGURE(SAMPLES, "samples", "draws per context")                                                  \
  FIGURE(EPSILON, "epsilon", "of the proposal")                                                    \
  FIGURE(K, "k", "candidates per context")                                                         \
  FIGURE(LR, "lr", "learning rate")                                                                \
  FIGURE(MEMORY, "memory", "bytes of the process")                                                 \
  FIGURE(MEMORY_FREE, "memory_free", "bytes still available")                                      \
  FIGURE(GPU_USE, "gpu_use", "share of the time")                                                  \
  FIGURE(GPU_MEMORY, "gpu_memory", "bytes")                                                        \
  FIGURE(COST, "cost", "share of the time that the view takes")

/* FOPO_VIEW_STEP ... after FOPO_VIEW_REWARD, FOPO_VIEW_ESS ... of the statistics that have a label.
 */
#define FOPO_VIEW_ID(id, name, meaning) FOPO_VIEW_##id,
typedef enum {
  FOPO_VIEW_REWARD = FOPO_STAT_REWARD,
  FOPO_VIEW_ESS = FOPO_STAT_ESS,
  FOPO_VIEW_SHORT_ROWS = FOPO_STAT_SHORT_ROWS,
  FOPO_VIEW_STATISTICS = FOPO_STATISTIC_ROWS - 1, /* the last of them */
  FOPO_VIEW_FIGURES(FOPO_VIEW_ID) FOPO_VIEW_NUMBERS
} fopo_view_number;
#undef FOPO_VIEW_ID

/* The name of a figure; "" if it is a statistic without a label, which is not shown. */
const char *fopo_view_number_name(int number);

enum { FOPO_VIEW_OVERLAYS = 8, FOPO_VIEW_LINES = 256, FOPO_VIEW_LINE = 240 };

typedef enum {
  FOPO_VIEW_TRACE_REWARD,
  FOPO_VIEW_TRACE_VALID,
  FOPO_VIEW_TRACE_INDEX,
  FOPO_VIEW_TRACE_RATE,
  FOPO_VIEW_TRACE_LISTS,
  FOPO_VIEW_TRACES
} fopo_view_series;

typedef struct {
  char title[160], device[96];
  char state[24];    /* "running", "paused" ... */
  char measure[16];  /* what the reward is called: "reward", "value" */
  char lists[16];    /* "ndcg@10": the measure of lists that is shown; "": none */
  char message[160]; /* in the last line; "": the keys are shown there */
  char command[256]; /* what is typed after ':' */
  int cursor;        /* its position in command, in characters; -1: nothing is being typed */
  double number[FOPO_VIEW_NUMBERS];
  double phase[FOPO_PHASES]; /* seconds of each phase of the last point */
  fopo_trace trace[FOPO_VIEW_TRACES];
  struct {
    char name[48];
    fopo_trace trace; /* the reward of an earlier run */
  } overlay[FOPO_VIEW_OVERLAYS];
  int n_overlays;
  char line[FOPO_VIEW_LINES][FOPO_VIEW_LINE]; /* ring buffer of the output of the program */
  size_t n_lines;                             /* lines ever finished */
  /* changed by keys */
  fopo_glyphs glyphs;
  int axis, logy, help, overlays; /* axis 0: steps, 1: seconds; the others 0 or 1 */
  double window, smoothing;
  int mono; /* 1: colour carries no information */
} fopo_view_model;

void fopo_view_model_init(fopo_view_model *m); /* no numbers, braille, overlays on */
void fopo_view_model_done(fopo_view_model *m);

/* Appends text to the lines of output. A line ends at '\n'; lines that are too long are cut,
 * control characters and escape sequences left out. */
void fopo_view_say(fopo_view_model *m, const char *text, size_t n);

#endif
