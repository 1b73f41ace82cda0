/* Exact sums of the softmax over the whole catalogue, pi(a) = exp(q . beta_a) / Z, for queries as
 * fopo_policy_queries makes them. A query costs a product with every item. */
#ifndef FOPO_POLICY_SOFTMAX_H
#define FOPO_POLICY_SOFTMAX_H

#include "core/matrix.h"
#include "ranks/shard.h"

/* log_z [B] = log sum_a exp(q_b . beta_a), and, unless NULL, squares [B] = sum_a pi(a)^2: its
 * inverse is the effective number of items, P for a uniform policy and 1 for one sure item. Q is
 * [B, L], items [P, L]. Progress and sentences count queries from `done` of `total` on. The bits do
 * not depend on the number of threads. FOPO_ERR_NUMERIC if a score is not finite. */
int fopo_softmax_sums(double *log_z, double *squares, fopo_matrix Q, fopo_matrix items, size_t done,
                      size_t total);

/* *found: the temperature T at which the softmax of scores q . beta_a / T has `effective` items in
 * effect, 1 < effective < P: the median over the queries [B, L] of the temperatures that give each
 * of them as many. Queries with the same score for all items have none and are left out; if no
 * other is there, FOPO_ERR_ARGUMENT. The bits do not depend on the number of threads. */
int fopo_softmax_temperature(double *found, fopo_matrix Q, fopo_matrix items, double effective);

/* The same over the items of all ranks' parts. Collective. */
int fopo_softmax_temperature_of_parts(double *found, fopo_matrix Q, const fopo_shard *s,
                                      double effective);

#endif
