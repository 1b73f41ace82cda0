// The policy served by hnswlib in C++: what a server of its own would do for a user.
//
//   g++ -O2 -std=c++17 hnswlib_index.cc -o hnswlib_index
//   ./hnswlib_index ITEMS.npy QUERIES.npy K
//
// fopo writes the two arrays: pi:items():save("items.npy") and
// pi:queries(s.test:contexts(pi)):save("queries.npy").
// Prints a line for each query: the ids of its K best items, counted from 0, best first.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <hnswlib/hnswlib.h>
#include <sstream>
#include <string>
#include <vector>

struct Array {
  size_t rows = 0, cols = 0;
  std::vector<float> x; // [rows, cols]
};

// Reads a .npy of float32 in C order: magic and version, 2 bytes of length, a header, the numbers.
static Array read_npy(const char *path) {
  std::ifstream f(path, std::ios::binary);
  char head[10];
  if (!f.read(head, 10) || std::string(head + 1, 5) != "NUMPY" || head[6] != 1) {
    std::fprintf(stderr, "%s is no .npy of version 1\n", path);
    std::exit(1);
  }
  std::string header(size_t((unsigned char)head[8]) | size_t((unsigned char)head[9]) << 8, ' ');
  f.read(&header[0], std::streamsize(header.size()));
  size_t at = header.find("'shape': (");
  Array a;
  if (header.find("'<f4'") == std::string::npos || header.find("False") == std::string::npos ||
      at == std::string::npos ||
      std::sscanf(header.c_str() + at, "'shape': (%zu, %zu)", &a.rows, &a.cols) != 2) {
    std::fprintf(stderr, "%s is no matrix of float32 by rows\n", path);
    std::exit(1);
  }
  a.x.resize(a.rows * a.cols);
  f.read(reinterpret_cast<char *>(a.x.data()), std::streamsize(a.x.size() * sizeof(float)));
  return a;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: hnswlib_index ITEMS.npy QUERIES.npy K\n");
    return 2;
  }
  Array items = read_npy(argv[1]), queries = read_npy(argv[2]);
  size_t k = std::strtoul(argv[3], nullptr, 10);
  hnswlib::InnerProductSpace space(items.cols); // its distance is 1 - q . beta
  hnswlib::HierarchicalNSW<float> index(&space, items.rows, 32, 200);
  for (size_t i = 0; i < items.rows; i++) index.addPoint(items.x.data() + i * items.cols, i);
  index.setEf(std::max<size_t>(512, k));
  for (size_t i = 0; i < queries.rows; i++) {
    auto found = index.searchKnn(queries.x.data() + i * queries.cols, k); // the worst on the top
    std::vector<size_t> ids(found.size());
    for (size_t j = ids.size(); j > 0; j--, found.pop()) ids[j - 1] = found.top().second;
    for (size_t j = 0; j < ids.size(); j++) std::printf("%s%zu", j > 0 ? " " : "", ids[j]);
    std::printf("\n");
  }
  return 0;
}
