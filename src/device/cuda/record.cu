/* A step recorded once, as a graph of CUDA, and made again by one call: what is launched, by which
 * shapes and from which memory is the same from step to step, and the few numbers that differ are
 * read from the device (struct numbers). The kernels are those of a step that is not recorded, and
 * so are its bits. FOPO_RECORD=0 switches recording off, for measurements and for tools. */
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "device/cuda/cuda.cuh"

namespace gpu {

/* lr / (1 - beta1^t) and 1 / (1 - beta2^t) */
numbers numbers_of(uint32_t step, const fopo_adam *o) {
  double t = (double)o->t;
  return {step, (float)(o->lr / (1 - pow(o->beta1, t))), (float)(1 / (1 - pow(o->beta2, t)))};
}

void forget_record(fopo_device *d) {
  state *s = of(d);
  if (s->record != nullptr) cudaGraphExecDestroy(s->record);
  s->record = nullptr;
}

int start_recording(fopo_device *d) {
  const char *wanted = getenv("FOPO_RECORD");
  int status = alive();
  if (status != FOPO_OK) return status;
  if (wanted != nullptr && strcmp(wanted, "0") == 0) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "recording is switched off by FOPO_RECORD=0");
  }
  forget_record(d);
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
  if (status == FOPO_OK && keep) {
    status = check(cudaGraphInstantiate(&s->record, graph, 0), "recording a step");
    if (status != FOPO_OK) s->record = nullptr;
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  return status;
}

int replay(fopo_device *d, uint32_t step, const fopo_adam *o, int *done) {
  state *s = of(d);
  *done = 0;
  int status = alive();
  if (status != FOPO_OK || s->record == nullptr) return status;
  numbers now = numbers_of(step, o);
  status = put(d, s->now, &now, sizeof now);
  if (status == FOPO_OK) status = check(cudaGraphLaunch(s->record, s->stream), "a recorded step");
  *done = status == FOPO_OK;
  return status;
}

} // namespace gpu
