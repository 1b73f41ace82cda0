/* Deterministic files for the benchmarks, made fast.
 *
 *   world items P L seed out.npy          item embeddings, float32
 *   world pairs rows users items seed out.csv   lines "user,item" under a header
 *
 * Items look like embeddings by SVD: norms are log-normal with a largest of about 200 medians, and
 * directions scatter about the centres of 1,000 clusters. Of the pairs, users are uniform and items
 * popular by the cube of a uniform number. Every value is a function of (seed, place) alone. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLUSTERS = 1000, BLOCK = 8192 /* rows written at once */ };

static const double SIGMA = 1.08;  /* exp(4.9 sigma) = 200; 4.9: the largest of 790,000 normals */
static const double MEDIAN = 0.05; /* norm */
static const float SCATTER = 1.0f; /* about the centre, in the centre's own scale */

static uint64_t mixed(uint64_t x) { /* the finaliser of SplitMix64 */
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static double uniform(uint64_t key) { return ((double)(mixed(key) >> 11) + 0.5) * 0x1p-53; }

/* Near enough to normal for a direction: four uniform numbers of 16 bits, mean 0, variance 1. */
static float about_normal(uint64_t key) {
  uint64_t h = mixed(key);
  int32_t sum = (int32_t)((h & 0xffff) + (h >> 16 & 0xffff) + (h >> 32 & 0xffff) + (h >> 48));
  return (float)(sum - 131070) * 2.6428e-5f;
}

static double normal(uint64_t key) { /* Box and Muller */
  return sqrt(-2 * log(uniform(key))) * cos(6.283185307179586 * uniform(~key));
}

static void item(float *row, const float *centres, size_t i, size_t L, uint64_t seed) {
  const float *centre = centres + mixed(seed + 3 * i) % CLUSTERS * L;
  double square = 0;
  for (size_t l = 0; l < L; l++) {
    row[l] = centre[l] + SCATTER * about_normal(seed ^ mixed(i) ^ (l << 40));
    square += (double)row[l] * (double)row[l];
  }
  float scale = (float)(MEDIAN * exp(SIGMA * normal(seed + 3 * i + 1)) / sqrt(square));
  for (size_t l = 0; l < L; l++) row[l] *= scale;
}

/* The head of version 1.0: magic, length, dictionary, padded to 128 bytes. */
static void head(FILE *f, size_t P, size_t L) {
  char text[119], bytes[128] = "\x93NUMPY\x01\x00\x76\x00";
  int n = snprintf(text, sizeof text,
                   "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", P, L);
  memset(bytes + 10, ' ', 118);
  memcpy(bytes + 10, text, (size_t)n);
  bytes[127] = '\n';
  fwrite(bytes, 1, sizeof bytes, f);
}

static void write_items(FILE *f, size_t P, size_t L, uint64_t seed) {
  float *centres = malloc(CLUSTERS * L * sizeof(float)), *rows = malloc(BLOCK * L * sizeof(float));
  if (centres == NULL || rows == NULL) exit(1);
  seed = mixed(seed);
  for (size_t i = 0; i < CLUSTERS * L; i++) centres[i] = about_normal(~seed + i);
  head(f, P, L);
  for (size_t from = 0; from < P; from += BLOCK) {
    size_t n = P - from < BLOCK ? P - from : BLOCK;
#pragma omp parallel for
    for (size_t i = 0; i < n; i++) item(rows + i * L, centres, from + i, L, seed);
    fwrite(rows, sizeof(float), n * L, f);
  }
  free(rows);
  free(centres);
}

static void write_pairs(FILE *f, size_t rows, size_t users, size_t items, uint64_t seed) {
  seed = mixed(seed);
  fputs("user,item\n", f);
  for (size_t i = 0; i < rows; i++) {
    double u = uniform(seed + 2 * i + 1);
    size_t user = mixed(seed + 2 * i) % users, thing = (size_t)(u * u * u * (double)items);
    fprintf(f, "%zu,%zu\n", user, thing);
  }
}

int main(int argc, char **argv) {
  int make_items = argc == 6 && strcmp(argv[1], "items") == 0;
  int make_pairs = argc == 7 && strcmp(argv[1], "pairs") == 0;
  if (!make_items && !make_pairs) {
    fputs("usage: world items P L seed out.npy\n"
          "       world pairs rows users items seed out.csv\n",
          stderr);
    return 2;
  }
  size_t number[4] = {0};
  for (int i = 2; i < argc - 1; i++) number[i - 2] = strtoull(argv[i], NULL, 10);
  FILE *f = fopen(argv[argc - 1], "wb");
  if (f == NULL) {
    perror(argv[argc - 1]);
    return 1;
  }
  if (make_items) {
    write_items(f, number[0], number[1], number[2]);
  } else {
    write_pairs(f, number[0], number[1], number[2], number[3]);
  }
  if (ferror(f) || fclose(f) != 0) {
    perror(argv[argc - 1]);
    return 1;
  }
  return 0;
}
