/* A profile of the GPU's work: with FOPO_GPU_PROFILE=FILE each piece of work stands between two
 * events of the stream, and closing the device appends a table of the times by the name of the work
 * to the file. It needs no profiler and no rights on the machine.
 *
 * The host waits only when the events are used up, so that the card is as busy as without them. An
 * event takes about a microsecond itself. Steps are not recorded meanwhile, for a graph would run
 * between the events that were recorded with it. */
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device/cuda/cuda.cuh"

namespace gpu {

constexpr size_t SPANS = 1024, NAMES = 64;

struct span {
  cudaEvent_t began, ended;
  const char *what;
};

struct row {
  const char *what;
  size_t count;
  double seconds;
};

struct profile {
  FILE *file;
  span spans[SPANS];
  size_t n_events, n; /* spans that have events; that are in use */
  row rows[NAMES];
  size_t n_rows;
};

bool profiles(const fopo_device *d) { return of(const_cast<fopo_device *>(d))->timed != nullptr; }

int start_profile(fopo_device *d) {
  const char *path = getenv("FOPO_GPU_PROFILE");
  if (path == nullptr || path[0] == '\0') return FOPO_OK;
  profile *p = static_cast<profile *>(fopo_alloc(1, sizeof *p));
  if (p == nullptr) return FOPO_ERR_MEMORY;
  of(d)->timed = p;
  p->file = fopen(path, "a");
  if (p->file == nullptr) {
    return fopo_fail(FOPO_ERR_FILE, "FOPO_GPU_PROFILE: %s cannot be written: %s", path,
                     strerror(errno));
  }
  for (; p->n_events < SPANS; p->n_events++) {
    span &s = p->spans[p->n_events];
    int status = check(cudaEventCreate(&s.began), "a profile");
    if (status != FOPO_OK) return status;
    status = check(cudaEventCreate(&s.ended), "a profile");
    if (status == FOPO_OK) continue;
    cudaEventDestroy(s.began);
    return status;
  }
  return FOPO_OK;
}

static void count(profile *p, const char *what, double seconds) {
  size_t i = 0;
  while (i < p->n_rows && strcmp(p->rows[i].what, what) != 0) i++;
  if (i == NAMES) i--; /* the last row also counts what has no row of its own */
  if (i == p->n_rows) p->rows[p->n_rows++] = {what, 0, 0};
  p->rows[i].count++;
  p->rows[i].seconds += seconds;
}

/* Waits for the spans in use, and counts them. */
static void drain(profile *p) {
  for (size_t i = 0; i < p->n; i++) {
    float milliseconds = 0;
    if (cudaEventSynchronize(p->spans[i].ended) != cudaSuccess) break;
    if (cudaEventElapsedTime(&milliseconds, p->spans[i].began, p->spans[i].ended) != cudaSuccess) {
      break;
    }
    count(p, p->spans[i].what, (double)milliseconds / 1e3);
  }
  p->n = 0;
}

timed_work::timed_work(fopo_device *d, const char *what) : state_(of(d)), mine_(false) {
  profile *p = state_->timed;
  if (p == nullptr) return;
  if (p->n == SPANS) drain(p);
  p->spans[p->n].what = what;
  mine_ = cudaEventRecord(p->spans[p->n].began, state_->stream) == cudaSuccess;
}

timed_work::~timed_work() {
  if (!mine_) return;
  profile *p = state_->timed;
  if (cudaEventRecord(p->spans[p->n].ended, state_->stream) == cudaSuccess) p->n++;
}

/* Appends the table, the longest first. */
static void write_profile(const fopo_device *d, profile *p) {
  std::sort(p->rows, p->rows + p->n_rows,
            [](const row &a, const row &b) { return a.seconds > b.seconds; });
  double all = 0;
  for (size_t i = 0; i < p->n_rows; i++) all += p->rows[i].seconds;
  fprintf(p->file, "# %s\n%-36s %9s %12s %10s %6s\n", d->name, "work", "count", "seconds",
          "us each", "share");
  for (size_t i = 0; i < p->n_rows; i++) {
    const row &r = p->rows[i];
    fprintf(p->file, "%-36s %9zu %12.6f %10.2f %5.1f%%\n", r.what, r.count, r.seconds,
            1e6 * r.seconds / (double)r.count, all > 0 ? 100 * r.seconds / all : 0.0);
  }
}

void end_profile(fopo_device *d) {
  profile *p = of(d)->timed;
  if (p == nullptr) return;
  if (alive() == FOPO_OK) drain(p);
  if (p->n_rows > 0) write_profile(d, p);
  for (size_t i = 0; i < p->n_events; i++) {
    cudaEventDestroy(p->spans[i].began);
    cudaEventDestroy(p->spans[i].ended);
  }
  cudaGetLastError();
  if (p->file != nullptr) fclose(p->file);
  of(d)->timed = nullptr;
  fopo_free(p);
}

} // namespace gpu
