/* A step as a CUDA graph: recorded once by capturing the stream, then launched by one call, which
 * saves the cost of its launches; and STEPS_A_GRAPH such steps, one behind the other, as another.
 *
 * Kernels, shapes and addresses are the same from step to step. The numbers that differ are read
 * from device memory (struct step_table), where replay puts those of all its steps before the first
 * launch; the kernels count the steps. A recorded step has the same numbers as one that is not
 * recorded, and so the same bits. FOPO_RECORD=0 switches recording off, for measurements and for
 * tools, and so does a profile (profile.cu). */
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "device/cuda/cuda.cuh"

namespace gpu {

/* lr / (1 - beta1^t) and 1 / (1 - beta2^t); lr and 1 of optimisers whose betas are 0. */
step_numbers step_numbers_of(const fopo_adam *o) {
  double t = (double)o->t;
  return {0, 0, (float)(o->u.lr / (1 - pow(o->beta1, t))), (float)(1 / (1 - pow(o->beta2, t))),
          fopo_update_keep(&o->u)};
}

/* CUDA frees a graph that still runs when it has ended. */
static void destroy(cudaGraphExec_t *graph) {
  if (*graph != nullptr) cudaGraphExecDestroy(*graph);
  *graph = nullptr;
}

void drop_graph(fopo_device *d) {
  destroy(&of(d)->graph);
  destroy(&of(d)->many_steps);
  drop_persistent(d);
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
  status = begin_notes(d);
  if (status != FOPO_OK) return status;
  /* capture: from here on launches in the stream are added to the graph and not executed */
  status = check(cudaStreamBeginCapture(of(d)->stream, cudaStreamCaptureModeThreadLocal),
                 "recording a step");
  of(d)->recording = status == FOPO_OK;
  return status;
}

/* Makes a graph ready for launches. */
static int make_ready(cudaGraphExec_t *ready, cudaGraph_t graph) {
  int status = check(cudaGraphInstantiate(ready, graph, 0), "recording a step");
  if (status != FOPO_OK) *ready = nullptr;
  return status;
}

/* The graph of a step STEPS_A_GRAPH times, each behind the one before. */
static int chain(cudaGraphExec_t *ready, cudaGraph_t step) {
  cudaGraph_t many = nullptr;
  cudaGraphNode_t last = nullptr;
  int status = check(cudaGraphCreate(&many, 0), "recording steps");
  for (size_t i = 0; i < STEPS_A_GRAPH && status == FOPO_OK; i++) {
    cudaGraphNode_t node = nullptr;
    status = check(cudaGraphAddChildGraphNode(&node, many, &last, i > 0 ? 1 : 0, step),
                   "recording steps");
    last = node;
  }
  if (status == FOPO_OK) status = make_ready(ready, many);
  if (many != nullptr) cudaGraphDestroy(many);
  return status;
}

int stop_recording(fopo_device *d, int keep) {
  state *s = of(d);
  cudaGraph_t graph = nullptr;
  if (!s->recording) return FOPO_OK;
  s->recording = false;
  /* the captured step, then a graph of one step and one of STEPS_A_GRAPH, ready for launches */
  int status = check(cudaStreamEndCapture(s->stream, &graph), "recording a step");
  if (status == FOPO_OK && keep) status = make_ready(&s->graph, graph);
  if (status == FOPO_OK && keep) status = chain(&s->many_steps, graph);
  if (status == FOPO_OK && keep) status = make_persistent(d);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError(); /* what could not be destroyed is no failure of the next launch */
  if (status != FOPO_OK) drop_graph(d);
  return status;
}

/* The step table of a call: all its steps are still to be made. */
static step_table table_of(const fopo_replayed *steps, size_t n) {
  step_table t = {};
  for (size_t i = 0; i < n; i++) {
    t.of[i] = step_numbers_of(&steps[i].adam);
    t.of[i].step = steps[i].step;
    t.of[i].first = steps[i].first;
  }
  return t;
}

int replay(fopo_device *d, const fopo_replayed *steps, size_t n, size_t *done) {
  state *s = of(d);
  *done = 0;
  int status = alive();
  if (status != FOPO_OK || s->graph == nullptr) return status;
  /* what differs from step to step goes to the card: the steps [n] behind the counter */
  step_table table = table_of(steps, n);
  status = put(d, s->steps, &table, offsetof(step_table, of) + n * sizeof *table.of);
  if (status == FOPO_OK && is_persistent(d)) {
    status = run_persistent(d, n);
    if (status == FOPO_OK) *done = n;
    return status;
  }
  /* launches, by STEPS_A_GRAPH steps as long as there are so many */
  while (status == FOPO_OK && *done < n) {
    bool many = n - *done >= STEPS_A_GRAPH;
    status = check(cudaGraphLaunch(many ? s->many_steps : s->graph, s->stream), "recorded steps");
    if (status == FOPO_OK) *done += many ? STEPS_A_GRAPH : 1;
  }
  return status;
}

} // namespace gpu
