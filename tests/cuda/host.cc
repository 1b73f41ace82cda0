/* The emulated runtime on the side of the host: calls that can be made to fail, streams, graphs and
 * events. It refuses, by ending the program with a sentence, what a card forbids or leaves
 * undefined. */
#include <deque>
#include <set>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "machine.h"

namespace emulation {

whole_lock lock;
int last_error;
size_t others;

void give_up(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("emulated GPU: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  abort();
}

/* ---- calls, and calls that must fail ---- */

static long calls, waits, replays, launches, countdown = -1;
static int fail_code, fail_for_ever, driver_version = 13000, processors = 4;
static void (*at_calls)(void);

cudaError_t call() {
  calls++;
  if (at_calls != nullptr) at_calls();
  if (countdown < 0) return cudaSuccess;
  if (countdown > 0) return countdown--, cudaSuccess;
  if (!fail_for_ever) countdown = -1;
  last_error = fail_code;
  return (cudaError_t)fail_code;
}

bool enter_launch() {
  held here(lock);
  return call() == cudaSuccess;
}

} // namespace emulation

using namespace emulation;

extern "C" void emulation_fail_at(long n, int code, int for_ever) {
  countdown = n;
  fail_code = code;
  fail_for_ever = for_ever;
  if (n < 0) last_error = 0;
}
extern "C" void emulation_at_calls(void (*act)(void)) { at_calls = act; }
extern "C" long emulation_calls(void) { return calls; }
extern "C" long emulation_waits(void) { return waits; }
extern "C" long emulation_replays(void) { return replays; }
extern "C" long emulation_launches(void) { return launches; }
extern "C" void emulation_processors(int n) { processors = n; }
extern "C" void emulation_driver(int version) { driver_version = version; }

/* ---- streams: work that the host has not waited for ---- */

struct emulated_graph {
  std::vector<job> nodes;
  cudaGraphNode_t last = nullptr; /* of the graphs that it was made of */
};
struct emulated_exec {
  std::vector<job> nodes;
};
struct emulated_stream {
  std::deque<job> work;
  emulated_graph *captured = nullptr; /* work goes here instead */
};
struct emulated_event {
  double when = 0;
  cudaStream_t stream = nullptr; /* where it was last recorded */
  bool pending = false;          /* the stream has not reached it */
  bool captured = false;         /* it was recorded in a graph alone */
};

static std::set<cudaStream_t> streams;
static cudaStream_t captured; /* the stream that is being captured */
static bool spoiled;

static emulated_stream &known(cudaStream_t stream) {
  if (stream == nullptr) give_up("a call names the legacy default stream");
  if (streams.count(stream) == 0) give_up("a call names a stream that is not there");
  return *stream;
}

bool emulation::capturing() { return captured != nullptr; }

cudaError_t emulation::outside_capture() {
  if (captured == nullptr) return cudaSuccess;
  spoiled = true;
  last_error = cudaErrorStreamCaptureUnsupported;
  return cudaErrorStreamCaptureUnsupported;
}

void emulation::put_off(cudaStream_t stream, job x) {
  held here(lock);
  emulated_stream &s = known(stream);
  if (x.check) x.check();
  if (s.captured != nullptr) {
    s.captured->nodes.push_back(std::move(x));
  } else {
    launches += x.is_kernel;
    s.work.push_back(std::move(x));
  }
}

static void do_next(emulated_stream &s) {
  job now = std::move(s.work.front());
  s.work.pop_front();
  if (now.check) now.check();
  now.run();
}

/* The memory is opened once for all of the work. */
static void do_next(emulated_stream &s, size_t n) {
  if (s.work.empty() || n == 0) return;
  on_device open;
  while (n-- > 0 && !s.work.empty()) do_next(s);
}

/* Streams that nobody waits for may be as far as they like. */
void emulation::catch_up(cudaStream_t stream) {
  held here(lock);
  for (cudaStream_t other : streams) {
    do_next(*other, other != stream && seed() > 0 ? chance((uint32_t)other->work.size() + 1) : 0);
  }
  do_next(known(stream), SIZE_MAX);
}

void emulation::catch_up_all() {
  held here(lock);
  for (cudaStream_t s : streams) catch_up(s);
}

/* Objects of the runtime, counted so that tests find leaks. */
template <typename thing> static cudaError_t create(thing **made) {
  held here(lock);
  cudaError_t error = call();
  *made = nullptr;
  if (error != cudaSuccess) return error;
  *made = new thing();
  others++;
  return cudaSuccess;
}

template <typename thing> static cudaError_t destroy(thing *made) {
  held here(lock);
  delete made;
  others--;
  return call();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  held here(lock);
  if (flags != cudaStreamNonBlocking) give_up("a stream waits for the legacy default stream");
  cudaError_t error = create(stream);
  if (error == cudaSuccess) streams.insert(*stream);
  return error;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  held here(lock);
  catch_up(stream);
  streams.erase(stream);
  return destroy(stream);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  held here(lock);
  cudaError_t error = outside_capture();
  if (error != cudaSuccess) return error;
  waits++;
  catch_up(stream);
  return call();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  held here(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  if (captured != nullptr) give_up("an event that joins streams in a capture is not emulated");
  put_off(stream, {[=] {
                     while (event->pending) do_next(known(event->stream));
                   },
                   nullptr});
  return cudaSuccess;
}

/* ---- events: they take the time when the stream reaches them ---- */

cudaError_t cudaEventCreate(cudaEvent_t *event) { return create(event); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  held here(lock);
  catch_up_all();
  return destroy(event);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  held here(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  event->stream = stream;
  event->captured = known(stream).captured != nullptr;
  event->pending = !event->captured;
  put_off(stream, {[=] {
                     timespec now;
                     clock_gettime(CLOCK_MONOTONIC, &now);
                     event->when = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
                     event->pending = false;
                   },
                   nullptr});
  return error;
}

static void must_be_recorded(cudaEvent_t event) {
  if (event->stream == nullptr) give_up("an event is waited for that was never recorded");
  if (event->captured) give_up("an event is waited for that was recorded in a graph");
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  held here(lock);
  must_be_recorded(event);
  return cudaStreamSynchronize(event->stream); /* later work is done too */
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t began, cudaEvent_t ended) {
  held here(lock);
  must_be_recorded(began), must_be_recorded(ended);
  if (began->pending || ended->pending) give_up("a time is asked for that is not over");
  *milliseconds = (float)(1e3 * (ended->when - began->when));
  return call();
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  held here(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  if (captured != nullptr) give_up("a stream is captured twice");
  known(stream).captured = new emulated_graph();
  captured = stream;
  others++;
  spoiled = false;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  held here(lock);
  cudaError_t error = call();
  if (captured == nullptr) give_up("a capture ends that never began");
  if (captured != stream) give_up("a capture ends in another stream");
  *graph = stream->captured;
  stream->captured = nullptr;
  captured = nullptr;
  if (error == cudaSuccess && spoiled) error = cudaErrorStreamCaptureInvalidated;
  if (error == cudaSuccess) return error;
  last_error = error;
  delete *graph;
  *graph = nullptr;
  others--;
  return error;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
  held here(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error; /* *exec is left as it was */
  if (captured != nullptr) give_up("a graph is made ready while a stream is captured");
  *exec = new emulated_exec{graph->nodes};
  others++;
  return error;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  held here(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  if (captured != nullptr) give_up("a graph is launched while a stream is captured");
  replays++;
  for (const job &x : exec->nodes) put_off(stream, x);
  return error;
}

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned) { return create(graph); }

/* A child is copied when it is added. The nodes must stand behind each other. */
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                       const cudaGraphNode_t *after, size_t n, cudaGraph_t child) {
  held here(lock);
  cudaError_t error = call();
  *node = nullptr;
  if (error != cudaSuccess) return error;
  if (n > 1 || (n == 1 ? *after : nullptr) != graph->last) {
    give_up("a graph of a graph is in no order");
  }
  graph->nodes.insert(graph->nodes.end(), child->nodes.begin(), child->nodes.end());
  graph->last = (cudaGraphNode_t)((char *)graph + graph->nodes.size()); /* a name, not an address */
  *node = graph->last;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroy(graph); }

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return destroy(exec); }

/* ---- the card ---- */

cudaError_t cudaGetDevice(int *device) {
  held here(lock);
  *device = 0;
  return call();
}

cudaError_t cudaGetDeviceCount(int *count) {
  held here(lock);
  *count = 0;
  if (driver_version < 13000) return call(), cudaErrorInsufficientDriver;
  cudaError_t error = call();
  if (error == cudaSuccess) *count = 1;
  return error;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *about, int) {
  held here(lock);
  size_t left;
  memset(about, 0, sizeof *about);
  snprintf(about->name, sizeof about->name, "emulated GPU");
  calls--; /* the question below is no call of the device's */
  cudaMemGetInfo(&left, &about->totalGlobalMem);
  about->multiProcessorCount = processors;
  about->l2CacheSize = 64 << 10; /* small: a little catalogue has several tiles */
  about->major = 8;
  about->cooperativeLaunch = 1;
  return call();
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  held here(lock);
  int error = last_error;
  if (!(fail_for_ever && countdown == 0)) last_error = 0;
  return (cudaError_t)error;
}

const char *cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an emulated error";
}
