/* A step as a CUDA graph: recorded once by capturing the stream, then launched by one call, which
 * saves the cost of its dozens of launches.
 *
 * Kernels, shapes and addresses are the same from step to step. The numbers that differ are
 * read from device memory (struct step_numbers), where replay puts them before the launch. The
 * kernels are those of a step that is not recorded, and so are its bits. FOPO_RECORD=0 switches
 * recording off, for measurements and for tools, and so does a profile (profile.cu). */
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "device/cuda/cuda.cuh"

namespace gpu {

/* lr / (1 - beta1^t) and 1 / (1 - beta2^t); of sgd, whose betas are 0, lr and 1. */
step_numbers step_numbers_of(uint32_t step, const fopo_adam *o) {
  double t = (double)o->t;
  return {step, (float)(o->u.lr / (1 - pow(o->beta1, t))), (float)(1 / (1 - pow(o->beta2, t))),
          fopo_update_keep(&o->u)};
}

void drop_graph(fopo_device *d) {
  state *s = of(d);
  if (s->graph != nullptr) cudaGraphExecDestroy(s->graph);
  s->graph = nullptr;
}

int start_recording(fopo_device *d) {
  const char *wanted = getenv("FOPO_RECORD");
  int status = alive();
  if (status != FOPO_OK) return status;
  if (wanted != nullptr && strcmp(wanted, "0") == 0) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "recording is switched off by FOPO_RECORD=0");
  }
  if (profiles(d)) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "recording is switched off by FOPO_GPU_PROFILE");
  }
  drop_graph(d);
  /* from here on launches in the stream are added to the graph and not executed */
  status = check(cudaStreamBeginCapture(of(d)->stream, cudaStreamCaptureModeThreadLocal),
                 "recording a step");
  of(d)->recording = status == FOPO_OK;
  return status;
}

int stop_recording(fopo_device *d, int keep) {
  state *s = of(d);
  cudaGraph_t graph = nullptr;
  if (!s->recording) return FOPO_OK;
  s->recording = false;
  int status = check(cudaStreamEndCapture(s->stream, &graph), "recording a step");
  if (status == FOPO_OK && keep) { /* make it ready for launches */
    status = check(cudaGraphInstantiate(&s->graph, graph, 0), "recording a step");
    if (status != FOPO_OK) s->graph = nullptr;
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  return status;
}

int replay(fopo_device *d, uint32_t step, const fopo_adam *o, int *done) {
  state *s = of(d);
  *done = 0;
  int status = alive();
  if (status != FOPO_OK || s->graph == nullptr) return status;
  step_numbers next = step_numbers_of(step, o);
  status = put(d, s->step, &next, sizeof next);
  if (status == FOPO_OK) status = check(cudaGraphLaunch(s->graph, s->stream), "a recorded step");
  *done = status == FOPO_OK;
  return status;
}

} // namespace gpu
