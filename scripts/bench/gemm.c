/* What BLAS allows: the two products of a REINFORCE step over the whole catalogue.
 *
 *   gemm P L B threads
 *
 * F [B, P] = Q items^T and V [B, L] = F items, into buffers that exist. Of the two layouts of F,
 * [B, P] and [P, B], the faster is kept for each product. Each line of standard input is a number
 * of steps; the answer is "seconds of both a step,of the first,of the second", of one thread those
 * of the CPU. */
#include <cblas.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

typedef struct {
  float *items, *Q, *F, *V; /* [P, L], [B, L], [B, P] or [P, B], [B, L] or [L, B] */
  int P, L, B;
} problem;

static clockid_t measured = CLOCK_MONOTONIC;

static double now(void) {
  struct timespec t;
  clock_gettime(measured, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *filled(size_t n) {
  size_t bytes = (n * sizeof(float) + (2 << 20) - 1) >> 21 << 21;
  float *x = aligned_alloc(2 << 20, bytes);
  if (x == NULL) {
    fprintf(stderr, "gemm: no memory for %zu floats\n", n);
    exit(1);
  }
  madvise(x, bytes, MADV_HUGEPAGE);
  for (size_t i = 0; i < n; i++) x[i] = (float)(i * 2654435761u % 1000) * 1e-3f - 0.5f;
  return x;
}

static void scores(const problem *p, int by_item) {
  if (by_item) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, p->P, p->B, p->L, 1, p->items, p->L, p->Q,
                p->L, 0, p->F, p->B);
  } else {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, p->B, p->P, p->L, 1, p->Q, p->L, p->items,
                p->L, 0, p->F, p->P);
  }
}

static void back(const problem *p, int by_item) {
  if (by_item) {
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, p->B, p->L, p->P, 1, p->F, p->B, p->items,
                p->L, 0, p->V, p->L);
  } else {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p->B, p->L, p->P, 1, p->F, p->P,
                p->items, p->L, 0, p->V, p->L);
  }
}

static double timed(const problem *p, void product(const problem *, int), int by_item, int steps) {
  double start = now();
  for (int i = 0; i < steps; i++) product(p, by_item);
  return (now() - start) / steps;
}

static int faster(const problem *p, void product(const problem *, int)) {
  double seconds[2];
  for (int by_item = 0; by_item < 2; by_item++) {
    product(p, by_item); /* warms up */
    seconds[by_item] = timed(p, product, by_item, 2);
  }
  return seconds[1] < seconds[0];
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fputs("usage: gemm P L B threads\n", stderr);
    return 2;
  }
  problem p = {.P = atoi(argv[1]), .L = atoi(argv[2]), .B = atoi(argv[3])};
  openblas_set_num_threads(atoi(argv[4]));
  if (atoi(argv[4]) == 1) measured = CLOCK_PROCESS_CPUTIME_ID;
  p.items = filled((size_t)p.P * (size_t)p.L);
  p.Q = filled((size_t)p.B * (size_t)p.L);
  p.F = filled((size_t)p.B * (size_t)p.P);
  p.V = filled((size_t)p.B * (size_t)p.L);
  int first = faster(&p, scores), second = faster(&p, back);
  static const char *const layout[] = {"[B P]", "[P B]"};
  printf("ready,scores %s back %s,%s\n", layout[first], layout[second], openblas_get_corename());
  fflush(stdout);
  int steps;
  while (scanf("%d", &steps) == 1) {
    double a = timed(&p, scores, first, steps > 0 ? steps : 1);
    double b = timed(&p, back, second, steps > 0 ? steps : 1);
    printf("%.9g,%.9g,%.9g\n", a + b, a, b);
    fflush(stdout);
  }
  return 0;
}
