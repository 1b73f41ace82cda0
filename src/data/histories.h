/* What users took, as one list of items each: the contexts of a policy that serves, which are
 * sessions with all their items in X and none in Y; and the union of X and Y, of which embeddings
 * and baselines are learnt. */
#ifndef FOPO_DATA_HISTORIES_H
#define FOPO_DATA_HISTORIES_H

#include "data/sessions.h"

/* Row i of s->X: the columns of row rows[i] of m. place [m->cols]: column j is item place[j] of P,
 * or none if that is FOPO_NO_NAME (data/names.h); NULL: m has P columns, which are the items.
 * *unknown: entries left out for that. s->users are the rows. */
int fopo_histories_of(fopo_sessions *s, size_t *unknown, const fopo_csr *m, const uint32_t *rows,
                      size_t n, const uint32_t *place, size_t P);

/* From n pairs of a user < users and an item < P, in any order; repeats count once. */
int fopo_histories_from(fopo_sessions *s, const uint32_t *user, const uint32_t *item, size_t n,
                        size_t users, size_t P);

/* n [P] += the sessions that have each item in X or in Y. Can be interrupted. */
int fopo_interactions_count(double *n, const fopo_sessions *s);

/* *m [N, P] becomes X + Y of each session, values NULL; an item that is in both stands once. */
int fopo_interactions(fopo_csr *m, const fopo_sessions *s);

#endif
