/* fopo --safe: three processes and a border (core/border.h).
 *
 *   parent   waits, and ends the script when its time is over     term/parent.h
 *     drawer  runs gnuplot on numbers and words                   term/drawer.h
 *     script  everything else, behind the border
 *
 * What the script itself may read and write is said in SECURITY.md. */
#ifndef FOPO_TERM_SAFE_H
#define FOPO_TERM_SAFE_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  const char *script;       /* its path; NULL: none */
  const char *const *reads; /* [n_reads] further files and folders that may be read */
  size_t n_reads;
  double seconds;     /* after which the script is ended; 0: never */
  int without_border; /* 1: go on where the kernel lacks a part of the border */
} fopo_safe;

/* To be called before any thread is started. 0: go on, as the script; files are confined now. 1:
 * this process has done its part, or cannot begin, which it says; *status is its exit status. */
int fopo_safe_enter(const fopo_safe *safe, int *status);

/* The rest of the border, as soon as the program is ready to run the script: calls of the system,
 * and as backstops of the limits that fopo keeps itself RLIMIT_CPU and RLIMIT_AS. memory: bytes of
 * --max-memory; 0: none. */
int fopo_safe_close(const fopo_safe *safe, uint64_t memory);

#endif
