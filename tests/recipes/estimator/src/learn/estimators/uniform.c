/* Uniform sampling, as an example of an estimator: S items drawn uniformly, c_s as in snis. It
 * needs no index and no proposal; its weights w_s = exp(f_s) P are the most uneven of all. */
#include <math.h>

#include "core/clock.h"
#include "learn/estimators/covariance.h"

static int draw(fopo_batch *b) {
  fopo_device *d = b->data->device;
  double start = fopo_clock();
  int status = d->ops->draw_uniform(d, &b->draws.samples, &b->piece.device);
  b->seconds[FOPO_PHASE_PROPOSE] += fopo_clock() - start;
  return status;
}

/* No draw counts as a candidate: there are none. */
static int combine(fopo_batch *b) { return fopo_combine_covariance(b, &b->data->beta, INFINITY); }

static const fopo_option options[] = {FOPO_OPTION_SAMPLES("S, draws a context"), {0}};

const fopo_estimator fopo_estimator_uniform = {
    .name = "uniform",
    .title = "uniform",
    .least = 2,
    .draw = draw,
    .combine = combine,
    .options = options,
    .text = "The covariance gradient of S uniform draws. Cost: S rows a context.",
    .example = "g = fopo.gradient.uniform{samples = 200}",
};
