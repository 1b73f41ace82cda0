/* Shared by the tests of the CUDA device: the two devices side by side, arrays on the card, and the
 * switches of the emulation (tests/cuda), on which the tests run. With FOPO_TEST_GPU=1 they run on
 * the card of this machine; without one they are skipped by name. */
#ifndef FOPO_TESTS_CUDA_CASE_H
#define FOPO_TESTS_CUDA_CASE_H

#include <dlfcn.h>
#include <unistd.h>

#include "core/progress.h"
#include "device/device.h"
#include "numbers.h"
#include "small_world.h"

/* The emulation's switches (tests/cuda/cuda_emulation.h); NULL on a card. */
static void (*emulation_fail_at)(long n, int code, int for_ever);
static void (*emulation_at_calls)(void (*act)(void));
static long (*emulation_calls)(void);
static size_t (*emulation_sent)(void);
static long (*emulation_waits)(void), (*emulation_replays)(void);
static long (*emulation_launches)(void), (*emulation_copies)(void);
static size_t (*emulation_live)(void);
static void (*emulation_memory)(size_t bytes);
static void (*emulation_processors)(int n);
static void (*emulation_driver)(int version);

static fopo_device *cpu, *gpu;
static void *sent[256]; /* arrays on the card, released by forget() */
static size_t n_sent;

static inline void find_switch(void *function, void *object, const char *name) {
  void *found = dlsym(object, name);
  memcpy(function, &found, sizeof found);
}

/* Puts the path of the object under test into FOPO_CUDA. */
static inline void choose_object(void) {
  char path[4096];
  const char *real = getenv("FOPO_TEST_GPU");
  if (real != NULL && strcmp(real, "1") == 0) {
    unsetenv("FOPO_CUDA");
    return;
  }
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
  path[n > 0 ? n : 0] = '\0';
  strcpy(strrchr(path, '/') + 1, "emulated/fopo_cuda.so");
  const char *other = getenv("FOPO_TEST_OBJECT"); /* an emulation that was built otherwise */
  if (other != NULL) snprintf(path, sizeof path, "%s", other);
  setenv("FOPO_CUDA", path, 1);
  void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (object == NULL) fprintf(stderr, "%s\n", dlerror());
  if (object == NULL) return;
  find_switch(&emulation_fail_at, object, "emulation_fail_at");
  find_switch(&emulation_at_calls, object, "emulation_at_calls");
  find_switch(&emulation_calls, object, "emulation_calls");
  find_switch(&emulation_sent, object, "emulation_sent");
  find_switch(&emulation_replays, object, "emulation_replays");
  find_switch(&emulation_launches, object, "emulation_launches");
  find_switch(&emulation_copies, object, "emulation_copies");
  find_switch(&emulation_waits, object, "emulation_waits");
  find_switch(&emulation_live, object, "emulation_live");
  find_switch(&emulation_memory, object, "emulation_memory");
  find_switch(&emulation_processors, object, "emulation_processors");
  find_switch(&emulation_driver, object, "emulation_driver");
}

/* Whether both devices are open. Without a card the tests are skipped; the emulation must open. */
static inline int open_both(void) {
  choose_object();
  int emulated = getenv("FOPO_CUDA") != NULL;
  if (fopo_device_open(&gpu, "cuda") != FOPO_OK) {
    printf("%s: %s\n", emulated ? "the emulation does not open" : "skip", fopo_error_sentence());
    if (emulated) exit(1);
    return 0;
  }
  if (emulation_calls == NULL) printf("on %s\n", gpu->name);
  if (emulation_calls != NULL) fopo_threads_set(1); /* other threads would wait for it, busily */
  return fopo_device_open(&cpu, "cpu") == FOPO_OK;
}

static inline void close_both(void) {
  fopo_device_close(gpu);
  fopo_device_close(cpu);
}

/* A copy on the card, until forget() releases it. */
static inline void *up(const void *host, size_t bytes) {
  void *on_card = NULL;
  ok(gpu->ops->share(gpu, &on_card, host, bytes));
  assert_true(n_sent < sizeof sent / sizeof *sent);
  return sent[n_sent++] = on_card;
}

static inline void *blank(size_t bytes) {
  void *on_card = NULL;
  ok(gpu->ops->alloc(gpu, &on_card, bytes));
  assert_true(n_sent < sizeof sent / sizeof *sent);
  return sent[n_sent++] = on_card;
}

static inline void down(void *host, const void *on_card, size_t bytes) {
  ok(gpu->ops->get(gpu, host, on_card, bytes));
}

static inline void forget(void) {
  while (n_sent > 0) gpu->ops->release(gpu, sent[--n_sent]);
}

/* The device's array of n against the host's: |difference| <= tolerance (|wanted| + size). */
static inline void assert_close(const float *on_card, const float *wanted, size_t n,
                                double tolerance, double size, const char *what) {
  float *got = room(n, sizeof *got);
  down(got, on_card, n * sizeof *got);
  for (size_t i = 0; i < n; i++) {
    double a = (double)got[i], b = (double)wanted[i];
    int same = isinf(b) ? a == b : fabs(a - b) <= tolerance * (fabs(b) + size);
    if (!same) fail_msg("%s [%zu]: %.9g instead of %.9g", what, i, a, b);
  }
  free(got);
}

static inline void assert_same(const void *on_card, const void *wanted, size_t bytes,
                               const char *what) {
  unsigned char *got = room(bytes, 1);
  const unsigned char *expected = wanted;
  down(got, on_card, bytes);
  for (size_t i = 0; i < bytes; i++) {
    if (got[i] != expected[i]) fail_msg("%s: byte %zu differs", what, i);
  }
  free(got);
}

#endif
