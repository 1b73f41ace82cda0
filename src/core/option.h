/* An option of a policy, an estimator, a reward or a baseline, as a row: from it come the checks,
 * the help and the defaults in Lua, and the member that it sets. */
#ifndef FOPO_CORE_OPTION_H
#define FOPO_CORE_OPTION_H

#include <stddef.h>

typedef enum {
  FOPO_OPTION_COUNT,    /* size_t */
  FOPO_OPTION_NUMBER,   /* double */
  FOPO_OPTION_CHOICE,   /* int: the place of a word in `choices` */
  FOPO_OPTION_COUNTS,   /* fopo_counts: a list of counts; by default of one, `standard` */
  FOPO_OPTION_START,    /* int, as a choice, or first parameters as an array (policy/policy.h); the
                         * default in Lua is none: it follows from the data */
  FOPO_OPTION_PROPOSAL, /* a proposal; uniform if left out */
  FOPO_OPTION_INDEX,    /* the index that finds the candidates; automatic if left out */
  FOPO_OPTION_REFRESH,  /* visits that candidates serve: a count, or "once" */
  FOPO_OPTION_HEAD,     /* size_t: items of a shared head; 0, the default: there is none */
  FOPO_OPTION_FAULT,    /* a mistake to plant (learn/fault.h) */
  FOPO_OPTION_FUNCTION, /* a function of the user, which is required */
  FOPO_OPTION_ARRAYS    /* arrays by name, which are required */
} fopo_option_type;

/* What an option of its own sets that only one estimator, or one reward, reads: the member of the
 * row's type, as in .member = offsetof(fopo_gradient_options, own[0].number). */
typedef union {
  size_t count;
  double number;
  int choice;
} fopo_own_option;

enum { FOPO_OWN_OPTIONS = 8 };

enum {
  FOPO_OPTION_SETTABLE = 1,      /* may be changed between two steps */
  FOPO_OPTION_OF_CANDIDATES = 2, /* belongs to the proposal that holds the candidates */
  FOPO_OPTION_SAVED = 4,  /* a field of the policy, which its file has too: in a member of its
                           * name, or, counts, by the shapes of the parameters */
  FOPO_OPTION_ABOVE = 8,  /* a number above `least`, not equal to it */
  FOPO_OPTION_BELOW = 16, /* a number below `most`, not equal to it */
  FOPO_OPTION_AUTO = 32   /* a number that may be "auto" instead, for which its member is 0 */
};

enum { FOPO_COUNTS = 4 };

typedef struct {
  size_t n, at[FOPO_COUNTS]; /* n of them */
} fopo_counts;

typedef struct {
  const char *name, *text;
  fopo_option_type type;
  unsigned flags;
  size_t member;              /* offset of what it sets in the struct of options */
  double standard;            /* the default */
  double least, most;         /* counts and numbers; most 0: no limit */
  double low, high;           /* where a search looks for the best value: by factors, from 0 in even
                               * steps; of choices among all; high 0: it is not searched */
  const char *symbol;         /* "S", as a description shows it; NULL: not shown */
  const char *const *choices; /* ended by NULL */
} fopo_option;

/* Refuses a number of `options` that is out of the row's range; other types are checked where they
 * are read. */
int fopo_option_check(const fopo_option *row, const void *options);

#endif
