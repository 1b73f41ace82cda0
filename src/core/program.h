/* Running another program, such as gnuplot, without a shell. */
#ifndef FOPO_CORE_PROGRAM_H
#define FOPO_CORE_PROGRAM_H

#include <stddef.h>

/* What a program left behind; freed by fopo_output_done. */
typedef struct {
  int code; /* its exit status, or 128 + the number of the signal that ended it */
  char *out, *errors;
  size_t out_bytes, errors_bytes; /* both end with a zero byte that is not counted */
} fopo_output;

/* Runs `name` with the arguments `argv` (argv[0] is the name, NULL ends them) and `input` as its
 * standard input, and waits for its end. The program is looked for in those folders of PATH that
 * are absolute: an empty or relative entry would run a file of the folder at hand.
 * FOPO_ERR_UNAVAILABLE if no folder has it. */
int fopo_program_run(fopo_output *output, const char *name, char *const argv[], const char *input,
                     size_t n);

/* 1, and its path, if an absolute folder of PATH has the program; or the name is such a path. */
int fopo_program_find(char *path, size_t size, const char *name);

void fopo_output_done(fopo_output *output);

/* A program whose output is read while it runs. Start from {.out = -1, .errors = -1}. */
typedef struct {
  int out;    /* its standard output, or -1 */
  int errors; /* a file without a name that has what it said, or -1 */
  int child;  /* its process, which leads a group of its own; 0: it has been waited for */
} fopo_pipe;

/* Starts `name` with the arguments `argv` and an empty standard input; found as by
 * fopo_program_run, and refused where --safe is in effect. On failure *p is closed. */
int fopo_pipe_open(fopo_pipe *p, const char *name, char *const argv[]);

/* Waits for the end of the program: *code as that of fopo_output, and in `said` the last line that
 * it wrote to its standard error. Closes *p. */
int fopo_pipe_wait(fopo_pipe *p, int *code, char *said, size_t size, const char *what);

void fopo_pipe_close(fopo_pipe *p); /* ends the program, if it still runs */

#endif
