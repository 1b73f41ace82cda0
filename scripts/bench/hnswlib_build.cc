// hnswlib's own parallel build, as its examples do it: threads take the next point in turn.
//
//   hnswlib_build ITEMS.npy M ef_construction threads
//
// ITEMS is float32 [P, L] with a head of 128 bytes. Prints "seconds".
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <hnswlib/hnswlib.h>
#include <string>
#include <thread>
#include <vector>

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

int main(int argc, char **argv) {
  if (argc != 5) {
    std::fputs("usage: hnswlib_build ITEMS.npy M ef_construction threads\n", stderr);
    return 2;
  }
  size_t P, L;
  std::vector<float> items = load(argv[1], &P, &L);
  size_t M = std::strtoull(argv[2], nullptr, 10), breadth = std::strtoull(argv[3], nullptr, 10);
  int n_threads = std::atoi(argv[4]);

  auto start = std::chrono::steady_clock::now();
  hnswlib::InnerProductSpace space(L);
  hnswlib::HierarchicalNSW<float> graph(&space, P, M, breadth);
  graph.addPoint(items.data(), 0);
  std::atomic<size_t> next{1};
  std::vector<std::thread> threads;
  for (int t = 0; t < n_threads; t++) {
    threads.emplace_back([&] {
      for (size_t i; (i = next++) < P;) graph.addPoint(items.data() + i * L, i);
    });
  }
  for (auto &t : threads) t.join();
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%.6f\n", seconds.count());
  return 0;
}
