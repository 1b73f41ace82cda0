// hnswlib itself: its parallel build, as its examples do it (threads take the next point in turn),
// and its search, as a worker.
//
//   hnswlib ITEMS.npy M ef_construction threads [QUERIES.npy most copies|rows]
//
// Files are float32 with a head of 128 bytes. Without queries it prints the seconds of the build.
// With queries it prints "ready" and answers each line "k ef", k <= most, by "seconds,recall": one
// thread searches all queries, without the counters that searchKnn increments; recall is against
// exact search. With `copies` the graph holds the vectors, as hnswlib does; with `rows` it holds
// pointers to the rows of the matrix, as the graph that fopo builds.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hnswlib/hnswlib.h>
#include <string>
#include <thread>
#include <vector>

using Hnsw = hnswlib::HierarchicalNSW<float>;

static std::vector<float> load(const char *path, size_t *P, size_t *L) {
  FILE *f = std::fopen(path, "rb");
  char head[129] = {0};
  if (f == nullptr || std::fread(head, 1, 128, f) != 128) {
    std::perror(path);
    std::exit(1);
  }
  std::string text(head + 10, 118);
  size_t shape = text.find("'shape': (");
  if (shape == std::string::npos || text.find("'<f4'") == std::string::npos ||
      std::sscanf(text.c_str() + shape + 10, "%zu, %zu", P, L) != 2) {
    std::fprintf(stderr, "%s: not a float32 matrix\n", path);
    std::exit(1);
  }
  std::vector<float> items(*P * *L);
  if (std::fread(items.data(), sizeof(float), items.size(), f) != items.size()) {
    std::fprintf(stderr, "%s: cut short\n", path);
    std::exit(1);
  }
  std::fclose(f);
  return items;
}

// The inner product of rows that a graph holds by their addresses.
struct Rows : hnswlib::SpaceInterface<float> {
  hnswlib::InnerProductSpace inner;
  explicit Rows(size_t dim) : inner(dim) {}
  static float distance(const void *a, const void *b, const void *space) {
    auto *rows = static_cast<const Rows *>(space);
    const float *x, *y;
    std::memcpy(&x, a, sizeof x);
    std::memcpy(&y, b, sizeof y);
    auto *own = const_cast<hnswlib::InnerProductSpace *>(&rows->inner);
    return own->get_dist_func()(x, y, own->get_dist_func_param());
  }
  size_t get_data_size() override { return sizeof(const float *); }
  hnswlib::DISTFUNC<float> get_dist_func() override { return distance; }
  void *get_dist_func_param() override { return this; }
};

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What the graph is given for a row: the row, or its address.
struct Points {
  const float *x;
  size_t dim;
  bool by_address;
  const float *row;
  const void *at(size_t i) {
    row = x + i * dim;
    return by_address ? static_cast<const void *>(&row) : row;
  }
};

static double build(Hnsw &graph, Points points, size_t P, int n_threads) {
  double start = now();
  graph.addPoint(points.at(0), 0);
  std::atomic<size_t> next{1};
  std::vector<std::thread> threads;
  for (int t = 0; t < n_threads; t++) {
    threads.emplace_back([&, points]() mutable {
      for (size_t i; (i = next++) < P;) graph.addPoint(points.at(i), i);
    });
  }
  for (auto &t : threads) t.join();
  return now() - start;
}

// The greedy descent to layer 1 of searchKnn; returns where the search of layer 0 begins.
static unsigned descend(const Hnsw &graph, const void *q) {
  unsigned at = graph.enterpoint_node_;
  float best = graph.fstdistfunc_(q, graph.getDataByInternalId(at), graph.dist_func_param_);
  for (int layer = graph.maxlevel_; layer > 0; layer--) {
    for (bool moved = true; moved;) {
      moved = false;
      unsigned *list = graph.get_linklist(at, layer);
      for (unsigned j = 1, n = graph.getListCount(list); j <= n; j++) {
        float d = graph.fstdistfunc_(q, graph.getDataByInternalId(list[j]), graph.dist_func_param_);
        if (d < best) best = d, at = list[j], moved = true;
      }
    }
  }
  return at;
}

// The `most` smallest distances of each query, ascending: [B, most].
static std::vector<float> exact(const std::vector<float> &items, const std::vector<float> &queries,
                                size_t L, size_t most) {
  size_t P = items.size() / L, B = queries.size() / L;
  std::vector<float> best, s(P);
  hnswlib::InnerProductSpace space(L);
  for (size_t b = 0; b < B; b++) {
    for (size_t i = 0; i < P; i++) {
      s[i] = space.get_dist_func()(&queries[b * L], &items[i * L], space.get_dist_func_param());
    }
    std::partial_sort(s.begin(), s.begin() + (long)most, s.end());
    best.insert(best.end(), s.begin(), s.begin() + (long)most);
  }
  return best;
}

static void answer(const Hnsw &graph, Points queries, size_t B, size_t most,
                   const std::vector<float> &best) {
  std::puts("ready");
  std::fflush(stdout);
  for (size_t k, ef; std::scanf("%zu %zu", &k, &ef) == 2;) {
    size_t hits = 0;
    double start = now();
    for (size_t b = 0; b < B; b++) {
      const void *q = queries.at(b);
      auto found = graph.searchBaseLayerST<false, false>(descend(graph, q), q, ef);
      while (found.size() > k) found.pop();
      for (; !found.empty(); found.pop()) {
        hits += found.top().first <= best[b * most + k - 1];
      }
    }
    std::printf("%.6f,%.6f\n", now() - start, (double)hits / (double)(B * k));
    std::fflush(stdout);
  }
}

int main(int argc, char **argv) {
  if (argc != 5 && argc != 8) {
    std::fputs("usage: hnswlib ITEMS.npy M ef_construction threads "
               "[QUERIES.npy most copies|rows]\n",
               stderr);
    return 2;
  }
  size_t P, L, B, most;
  std::vector<float> items = load(argv[1], &P, &L);
  size_t M = std::strtoull(argv[2], nullptr, 10), breadth = std::strtoull(argv[3], nullptr, 10);
  bool rows = argc == 8 && std::strcmp(argv[7], "rows") == 0;
  hnswlib::InnerProductSpace inner(L);
  Rows by_address(L);
  hnswlib::SpaceInterface<float> *space = &inner;
  if (rows) space = &by_address;
  Hnsw graph(space, P, M, breadth);
  double seconds = build(graph, {items.data(), L, rows, nullptr}, P, std::atoi(argv[4]));
  if (argc == 5) {
    std::printf("%.6f\n", seconds);
    return 0;
  }
  std::vector<float> queries = load(argv[5], &B, &L);
  most = std::strtoull(argv[6], nullptr, 10);
  answer(graph, {queries.data(), L, rows, nullptr}, B, most, exact(items, queries, L, most));
  return 0;
}
