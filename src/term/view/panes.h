/* The live view as a pure function: a model of numbers and words becomes a screen of cells,
 * whatever its size, from one line up. Who feeds the model (a run, a job in the background, a
 * folder of a log, a test) is not known here. */
#ifndef FOPO_TERM_VIEW_PANES_H
#define FOPO_TERM_VIEW_PANES_H

#include "term/curves.h"
#include "term/screen.h"
#include "term/trace.h"

/* What has one value at a time; NaN where there is none. */
typedef enum {
  FOPO_VIEW_STEP,
  FOPO_VIEW_STEPS, /* made; in all (NaN: no end is known) */
  FOPO_VIEW_SECONDS,
  FOPO_VIEW_ETA,    /* of training; to the end */
  FOPO_VIEW_REWARD, /* a moving average of the training reward */
  FOPO_VIEW_VALID,
  FOPO_VIEW_VALID_INDEX, /* by true argmax; through the index */
  FOPO_VIEW_BEST,
  FOPO_VIEW_BEST_STEP, /* of the validations */
  FOPO_VIEW_CONTEXTS_RATE,
  FOPO_VIEW_STEPS_RATE, /* a second */
  FOPO_VIEW_ESS,
  FOPO_VIEW_SAMPLES,
  FOPO_VIEW_MAX_WEIGHT,
  FOPO_VIEW_EPSILON,
  FOPO_VIEW_K,
  FOPO_VIEW_HEAD_MASS,
  FOPO_VIEW_NORM,
  FOPO_VIEW_LR,
  FOPO_VIEW_MEMORY,
  FOPO_VIEW_MEMORY_FREE, /* bytes */
  FOPO_VIEW_GPU_USE,
  FOPO_VIEW_GPU_MEMORY, /* share; bytes */
  FOPO_VIEW_COST,       /* share of the time that the view takes */
  FOPO_VIEW_SHORT_ROWS, /* rows for which fewer than K were found */
  FOPO_VIEW_NUMBERS
} fopo_view_number;

/* The names above in lower case ("contexts_rate"), for who sets them by name. */
extern const char *const fopo_view_number_names[FOPO_VIEW_NUMBERS];

enum { FOPO_VIEW_PHASES = 5, FOPO_VIEW_OVERLAYS = 8, FOPO_VIEW_LINES = 256, FOPO_VIEW_LINE = 240 };

typedef enum {
  FOPO_VIEW_TRACE_REWARD,
  FOPO_VIEW_TRACE_VALID,
  FOPO_VIEW_TRACE_INDEX,
  FOPO_VIEW_TRACE_RATE,
  FOPO_VIEW_TRACES
} fopo_view_series;

typedef struct {
  char title[160], device[96];
  char state[24];    /* "running", "paused" ... */
  char message[160]; /* below; "" : the keys are shown there */
  char command[256]; /* what is typed after ':' */
  int cursor;        /* its place in command, in characters; -1: nothing is typed */
  double number[FOPO_VIEW_NUMBERS];
  double phase[FOPO_VIEW_PHASES]; /* seconds: search, propose, reward, gradient, update */
  fopo_trace trace[FOPO_VIEW_TRACES];
  struct {
    char name[48];
    fopo_trace trace; /* of the reward */
  } overlay[FOPO_VIEW_OVERLAYS];
  int n_overlays;
  char line[FOPO_VIEW_LINES][FOPO_VIEW_LINE]; /* what was said, a ring */
  size_t n_lines;                             /* ever said */
  /* what the keys change */
  fopo_glyphs glyphs;
  int axis, logy, help, overlays; /* 0: steps, 1: seconds; the others 0 or 1 */
  double window, smoothing;
  int mono; /* 1: nothing is told by colour */
} fopo_view_model;

void fopo_view_model_init(fopo_view_model *m); /* no numbers, braille, overlays on */
void fopo_view_model_done(fopo_view_model *m);

/* Adds text to what was said: lines are cut where they are too long, control characters left out. A
 * line goes on until its '\n'. */
void fopo_view_say(fopo_view_model *m, const char *text, size_t n);

void fopo_view_draw(fopo_screen *s, const fopo_view_model *m);

#endif
