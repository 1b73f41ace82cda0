/* What describes many numbers: their sum, least, largest, and a histogram. */
#ifndef FOPO_CORE_SUMMARY_H
#define FOPO_CORE_SUMMARY_H

#include <stddef.h>

typedef struct {
  double sum, squares;   /* squares: the sum of them */
  double least, largest; /* NaN if a number is NaN; INFINITY and -INFINITY of no numbers */
} fopo_summary;

/* Of x [n]. FOPO_OK, or FOPO_ERR_INTERRUPTED. */
int fopo_summarise(fopo_summary *s, const float *x, size_t n);

/* Counts the numbers x [n], finite and summarised by s, in bins of equal width from the least to
 * the largest: counts [bins]. Of more than a million numbers only a part is counted, at equal
 * distances. Returns how many were. */
size_t fopo_summary_bins(size_t *counts, size_t bins, const fopo_summary *s, const float *x,
                         size_t n);

#endif
