/* The shim over hnswlib, and all of the C++: it inserts items and hands the links over.
 *
 * Of hnswlib only the construction is used. Its files are never written nor read and its search is
 * not called, so what is unsafe there (unchecked files, a breadth shared by all callers, fewer
 * results without a word) does not exist here. What remains is dealt with so:
 *   - a point is a pointer to its row, not a copy; the distance -a . b is the kernels' dot
 *   - levels come from outside and mult_ is 0, so its shared random numbers decide nothing
 *   - sizes are checked before; labels are the ids, each given once
 *   - whatever is thrown, by any thread, becomes a status here, and a build that failed is dropped
 * hnswlib's header defines functions: no other file may include it. */
#include <atomic>
#include <cstring>
#include <exception>
#include <hnswlib/hnswlib.h>
#include <memory>
#include <new>

extern "C" {
#include "core/clock.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "mips/graph.h"
}

namespace {

using Hnsw = hnswlib::HierarchicalNSW<float>;

struct Metric {
  float (*dot)(const float *a, const float *b, size_t n);
  size_t dim;
};

/* A point of the library holds the address of a row. */
const float *row_of(const void *point) {
  const float *row;
  std::memcpy(&row, point, sizeof row);
  return row;
}

float distance(const void *a, const void *b, const void *metric) {
  const Metric *m = static_cast<const Metric *>(metric);
  return -m->dot(row_of(a), row_of(b), m->dim);
}

class Rows : public hnswlib::SpaceInterface<float> {
public:
  Rows(const fopo_kernels *kernels, size_t dim) : metric{kernels->dot, dim} {}
  size_t get_data_size() override { return sizeof(const float *); }
  hnswlib::DISTFUNC<float> get_dist_func() override { return distance; }
  void *get_dist_func_param() override { return &metric; }

private:
  Metric metric;
};

/* What the threads of a build share. */
struct Build {
  Hnsw &hnsw;
  const fopo_graph *g;
  fopo_matrix items;
  std::atomic<size_t> next{0};
  std::atomic<int> status{FOPO_OK};
  char why[256] = "";
};

void insert(Build &b, size_t id) {
  const float *row = fopo_matrix_row(b.items, id);
  b.hnsw.addPoint(&row, id, b.g->levels[id]);
}

/* One thread takes ids until none is left; the first reports. */
void insert_some(Build &b, bool reports) {
  double until = fopo_clock() + 0.05;
  for (;;) {
    size_t id = b.next++;
    if (id >= b.g->n || b.status != FOPO_OK) return;
    if (b.g->levels[id] == FOPO_GRAPH_ABSENT) continue;
    insert(b, id);
    if (!reports || fopo_clock() < until) continue;
    until = fopo_clock() + 0.05;
    int status = fopo_progress("building the graph", (double)id, (double)b.g->n);
    if (status != FOPO_OK) b.status = status;
  }
}

/* Called in a catch block: what was thrown, as a status with the library's own words. */
int thrown(char *why, size_t size) {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    snprintf(why, size, "memory ran out");
    return FOPO_ERR_MEMORY;
  } catch (const std::exception &e) {
    snprintf(why, size, "%s", e.what());
  } catch (...) {
    snprintf(why, size, "unknown cause");
  }
  return FOPO_ERR_MEMORY; /* the library throws for want of memory alone once sizes are right */
}

void insert_all(Build &b, int threads) {
  while (b.g->levels[b.next] == FOPO_GRAPH_ABSENT) b.next++;
  insert(b, b.next++); /* the first point alone: the others start from it */
#pragma omp parallel num_threads(threads)
  {
    bool first = false;
#pragma omp master
    first = true;
    try {
      insert_some(b, first);
    } catch (...) {
#pragma omp critical
      b.status = thrown(b.why, sizeof b.why);
    }
  }
}

/* A list of the library (a count, then its own numbers) in ours (a count, then ids). */
void copy_list(uint32_t *to, const Hnsw &hnsw, const unsigned *from) {
  unsigned count = hnsw.getListCount(const_cast<unsigned *>(from));
  to[0] = count;
  for (unsigned j = 0; j < count; j++) {
    to[1 + j] = static_cast<uint32_t>(hnsw.getExternalLabel(from[1 + j]));
  }
}

int take_links(fopo_graph *g, const Hnsw &hnsw) {
  size_t M = g->M;
  g->links = static_cast<uint32_t *>(fopo_alloc(g->n, (1 + 2 * M) * sizeof(uint32_t)));
  g->upper = static_cast<uint32_t *>(fopo_alloc(g->n_upper, (1 + M) * sizeof(uint32_t)));
  if (g->links == nullptr || g->upper == nullptr) return FOPO_ERR_MEMORY;
  for (unsigned i = 0; i < g->members; i++) {
    size_t id = hnsw.getExternalLabel(i);
    copy_list(g->links + id * (1 + 2 * M), hnsw, hnsw.get_linklist0(i));
    for (int layer = 1; layer <= g->levels[id]; layer++) {
      size_t place = g->first[id] + static_cast<size_t>(layer) - 1;
      copy_list(g->upper + place * (1 + M), hnsw, hnsw.get_linklist(i, layer));
    }
  }
  g->entry = static_cast<uint32_t>(hnsw.getExternalLabel(hnsw.enterpoint_node_));
  return FOPO_OK;
}

int build(fopo_graph *g, fopo_matrix items, size_t ef_construction, int threads) {
  Rows rows(fopo_kernels_get(), items.cols);
  std::unique_ptr<Hnsw> hnsw(new Hnsw(&rows, g->members, g->M, ef_construction));
  hnsw->mult_ = 0.0;
  hnsw->label_lookup_.reserve(g->members);
  Build b{*hnsw, g, items};
  insert_all(b, threads);
  int status = b.status;
  if (status == FOPO_ERR_INTERRUPTED) return status; /* its sentence is set */
  if (status != FOPO_OK) return fopo_fail(status, "the graph could not be built: %s", b.why);
  status = take_links(g, *hnsw);
  if (status != FOPO_OK) return status;
  return fopo_progress("building the graph", static_cast<double>(g->n), static_cast<double>(g->n));
}

} // namespace

extern "C" int fopo_graph_insert(fopo_graph *g, fopo_matrix items, size_t ef_construction,
                                 int threads) {
  char why[256];
  int status;
  try {
    return build(g, items, ef_construction, threads);
  } catch (...) {
    status = thrown(why, sizeof why);
  }
  return fopo_fail(status, "the graph of %zu items could not be built: %s", g->n, why);
}
