/* The interface to hnswlib, and all of the C++: it inserts the items and copies the links.
 *
 * Only the construction of hnswlib is used. Its files and its search are not, so their weaknesses
 * (files that are not checked, a breadth that all callers share, short answers without notice) do
 * not matter. For the construction:
 *   - a point is a pointer to its row, not a copy; the distance is -a . b by the kernels' dot
 *   - levels are given and mult_ is 0, so that its shared random generator decides nothing
 *   - sizes are checked before; labels are the ids, each inserted once
 *   - an exception in any thread becomes a status, and the failed build is dropped
 * hnswlib's header defines functions, so no other file may include it. */
#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <hnswlib/hnswlib.h>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

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

/* A point of hnswlib holds the address of a row. */
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

using List = hnswlib::VisitedList;
using Pool = hnswlib::VisitedListPool;

/* Debian 12 has hnswlib 0.6, where the pool is a plain pointer, Debian 13 has 0.8, where it is a
 * unique_ptr and the locks of labels have another name. The header has no number of its version,
 * so that overloads tell them apart. */
[[maybe_unused]] Pool *address_of(Pool *pool) { return pool; }
[[maybe_unused]] Pool *address_of(const std::unique_ptr<Pool> &pool) { return pool.get(); }

[[maybe_unused]] void give(Pool *&to, std::unique_ptr<Pool> pool) { to = pool.release(); }
[[maybe_unused]] void give(std::unique_ptr<Pool> &to, std::unique_ptr<Pool> pool) {
  to = std::move(pool);
}

template <typename H> auto label_locks(H &h, int) -> decltype((h.link_list_update_locks_)) {
  return h.link_list_update_locks_;
}
template <typename H> auto label_locks(H &h, long) -> decltype((h.label_op_locks_)) {
  return h.label_op_locks_;
}
constexpr size_t LABEL_LOCKS = 65536; /* hnswlib takes a label modulo this */

/* The lists of visited points that a pool of hnswlib lends, one for each thread. An insertion that
 * throws does not give its list back, so that all are owned here, and taken from the pool before
 * its destructor would free those that it still has. */
class Lists {
public:
  explicit Lists(const Hnsw &lends) : hnsw(lends) {}
  ~Lists() { take_back(); }
  Lists(const Lists &) = delete;
  Lists &operator=(const Lists &) = delete;

  void make(size_t points, size_t threads) {
    lists.reserve(threads);
    while (lists.size() < threads) {
      lists.push_back(std::make_unique<List>(static_cast<int>(points)));
      address_of(hnsw.visited_list_pool_)->releaseVisitedList(lists.back().get());
    }
  }

private:
  const Hnsw &hnsw;
  std::vector<std::unique_ptr<List>> lists;

  bool owns(const List *list) const {
    return std::any_of(lists.begin(), lists.end(), [&](auto &l) { return l.get() == list; });
  }

  /* An empty pool makes a new list, which is freed here, or throws: that is the end. */
  void take_back() {
    Pool *pool = address_of(hnsw.visited_list_pool_);
    if (pool == nullptr) return;
    try {
      for (size_t taken = 0; taken < lists.size(); taken++) {
        std::unique_ptr<List> list(pool->getFreeVisitedList());
        if (!owns(list.get())) break;
        (void)list.release(); /* it is in `lists` */
      }
    } catch (...) {}
  }
};

/* hnswlib's graph, which loses nothing if memory runs out: hnswlib's own constructor would lose
 * what it has allocated when it throws. */
class Graph : public Hnsw {
public:
  Graph(Rows *rows, size_t n, size_t M, size_t ef_construction, size_t threads)
      : Hnsw(rows), lists(*this) {
    set_empty(); /* from here on the destructor of Hnsw is right */
    set_sizes(rows, n, M, ef_construction);
    std::vector<std::mutex>(n).swap(link_list_locks_);
    std::vector<std::mutex>(LABEL_LOCKS).swap(label_locks(static_cast<Hnsw &>(*this), 0));
    element_levels_.resize(n);
    data_level0_memory_ = static_cast<char *>(malloc(n * size_data_per_element_));
    linkLists_ = static_cast<char **>(malloc(n * sizeof(char *)));
    if (data_level0_memory_ == nullptr || linkLists_ == nullptr) throw std::bad_alloc();
    give(visited_list_pool_, std::make_unique<Pool>(0, static_cast<int>(n)));
    lists.make(n, threads);
    label_lookup_.reserve(n);
  }

private:
  Lists lists;

  void set_empty() {
    data_level0_memory_ = nullptr;
    linkLists_ = nullptr;
    visited_list_pool_ = nullptr;
    cur_element_count = num_deleted_ = 0;
    enterpoint_node_ = static_cast<hnswlib::tableint>(-1);
    maxlevel_ = -1;
  }

  void set_sizes(Rows *rows, size_t n, size_t M, size_t ef_construction) {
    max_elements_ = n;
    data_size_ = rows->get_data_size();
    fstdistfunc_ = rows->get_dist_func();
    dist_func_param_ = rows->get_dist_func_param();
    M_ = maxM_ = M;
    maxM0_ = 2 * M;
    ef_construction_ = std::max(ef_construction, M);
    ef_ = 10;
    mult_ = revSize_ = 0.0; /* levels are given */
    size_links_level0_ = maxM0_ * sizeof(hnswlib::tableint) + sizeof(hnswlib::linklistsizeint);
    size_links_per_element_ = maxM_ * sizeof(hnswlib::tableint) + sizeof(hnswlib::linklistsizeint);
    size_data_per_element_ = size_links_level0_ + data_size_ + sizeof(hnswlib::labeltype);
    offsetData_ = size_links_level0_;
    label_offset_ = size_links_level0_ + data_size_;
    offsetLevel0_ = 0;
  }
};

/* What the threads of a build share; `why` is the sentence of the first failure. */
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
  b.hnsw.addPoint(&row, id, int{b.g->levels[id]});
}

/* Run by each thread: inserts one id after another until none is left. One thread reports. */
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

/* Called in a catch block: turns the exception into a status, with the library's own words in
 * `why`. */
int status_of_exception(char *why, size_t size) {
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
  return FOPO_ERR_MEMORY; /* with checked sizes, the library throws only if memory runs out */
}

void insert_all(Build &b, int threads) {
  while (b.g->levels[b.next] == FOPO_GRAPH_ABSENT) b.next++;
  insert(b, b.next++); /* the first one alone: the others start from it */
#pragma omp parallel num_threads(threads)
  {
    bool first = false;
#pragma omp master
    first = true;
    try {
      insert_some(b, first);
    } catch (...) {
#pragma omp critical
      b.status = status_of_exception(b.why, sizeof b.why);
    }
  }
}

/* Copies a list of links: hnswlib's (a count, then its own numbers) to ours (a count, then ids). */
void copy_list(uint32_t *to, const Hnsw &hnsw, const unsigned *from) {
  unsigned count = hnsw.getListCount(const_cast<unsigned *>(from));
  to[0] = count;
  for (unsigned j = 0; j < count; j++) {
    to[1 + j] = static_cast<uint32_t>(hnsw.getExternalLabel(from[1 + j]));
  }
}

int copy_links(fopo_graph *g, const Hnsw &hnsw) {
  size_t M = g->options.M;
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

int build(fopo_graph *g, fopo_matrix items, int threads) {
  Rows rows(fopo_kernels_get(), items.cols);
  Graph hnsw(&rows, g->members, g->options.M, g->options.ef_construction,
             static_cast<size_t>(threads));
  Build b{hnsw, g, items};
  insert_all(b, threads);
  int status = b.status;
  if (status == FOPO_ERR_INTERRUPTED) return status; /* fopo_progress has set its sentence */
  if (status != FOPO_OK) return fopo_fail(status, "the graph could not be built: %s", b.why);
  status = copy_links(g, hnsw);
  if (status != FOPO_OK) return status;
  return fopo_progress("building the graph", static_cast<double>(g->n), static_cast<double>(g->n));
}

} // namespace

extern "C" int fopo_graph_insert(fopo_graph *g, fopo_matrix items, int threads) {
  char why[256];
  int status;
  try {
    return build(g, items, threads);
  } catch (...) {
    status = status_of_exception(why, sizeof why);
  }
  return fopo_fail(status, "the graph of %zu items could not be built: %s", g->n, why);
}
