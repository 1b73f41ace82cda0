/* Exact sums of the softmax over the whole catalogue, pi(a) = exp f(a) / Z with the scores
 * f(a) = q . beta_a + s(a) (policy/score.h), for queries as fopo_policy_queries makes them. A query
 * costs a product with every item. */
#ifndef FOPO_POLICY_SOFTMAX_H
#define FOPO_POLICY_SOFTMAX_H

#include "policy/score.h"

/* log_z [B] = log sum_a exp f(a), and, unless NULL, squares [B] = sum_a pi(a)^2: its inverse is the
 * effective number of items, P for a uniform policy and 1 for one sure item. If all items are
 * masked, log_z is -INFINITY and squares 0. Of a part of the catalogue the sums are over its items
 * alone (fopo_shard_log_sums joins them). Progress and sentences count queries from `done` of
 * `total` on. The bits do not depend on the number of threads. FOPO_ERR_NUMERIC if a score is not
 * finite. */
int fopo_softmax_sums(double *log_z, double *squares, const fopo_scores *scores, size_t done,
                      size_t total);

/* *found: the temperature T at which the softmax of q . beta_a / T over the items that are not
 * masked has `effective` items in effect, 1 < effective < P: the median over the queries of the
 * temperatures that give each of them as many. Queries with `effective` items or fewer left, or
 * with the same score for all of these, have none and are not counted; if there is no other,
 * FOPO_ERR_ARGUMENT. The sparse scores are a mask or none. Collective for parts of a catalogue. The
 * bits do not depend on the number of threads. */
int fopo_softmax_temperature(double *found, const fopo_scores *scores, double effective);

#endif
