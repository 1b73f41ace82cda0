/* An option of an estimator or of a reward, as a row: from it come the checks, the help and the
 * defaults in Lua, and the member that it sets. */
#ifndef FOPO_LEARN_OPTION_H
#define FOPO_LEARN_OPTION_H

#include <stddef.h>

typedef enum {
  FOPO_OPTION_COUNT,    /* size_t */
  FOPO_OPTION_NUMBER,   /* double */
  FOPO_OPTION_CHOICE,   /* int: the place of a word in `choices` */
  FOPO_OPTION_PROPOSAL, /* a proposal; uniform if left out */
  FOPO_OPTION_INDEX,    /* the index that finds the candidates; automatic if left out */
  FOPO_OPTION_REFRESH,  /* visits that candidates serve: a count, or "once" */
  FOPO_OPTION_HEAD,     /* size_t: items of a shared head; 0, the default: there is none */
  FOPO_OPTION_FAULT     /* a mistake to plant (learn/fault.h) */
} fopo_option_type;

enum {
  FOPO_OPTION_SETTABLE = 1,     /* may be changed between two steps */
  FOPO_OPTION_OF_CANDIDATES = 2 /* belongs to the proposal that holds the candidates */
};

typedef struct {
  const char *name, *text;
  fopo_option_type type;
  unsigned flags;
  size_t member;              /* offset of what it sets in the struct of options */
  double standard;            /* the default */
  double least, most;         /* counts and numbers; most 0: no limit */
  const char *symbol;         /* "S", as a description shows it; NULL: not shown */
  const char *const *choices; /* ended by NULL */
} fopo_option;

#endif
