/* What the process that draws for --safe is told by one that was taken over: requests that are cut
 * off, changed anywhere, or of numbers that no picture has. It must come to its own end each time,
 * with nothing left over and no signal, and draw what is right before and after. Under sanitizers
 * it must find its memory whole (tests/nightly/sanitizers). */
#include <math.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"
#include "core/rng.h"
#include "term/drawer.h"

enum { POINTS = 5, SERIES = 2, REQUESTS = 120 };

typedef struct {
  fopo_picture_series head;
  double numbers[4][POINTS];
} told_series;

/* The bytes of a request, as fopo_drawer_draw sends them: pointers say only whether they are NULL.
 */
typedef struct {
  fopo_picture picture;
  told_series series[SERIES];
} request;

static request whole(void) {
  request r;
  memset(&r, 0, sizeof r);
  r.picture = (fopo_picture){.width = 300, .height = 200, .title = "a title", .n_series = SERIES};
  for (int i = 0; i < SERIES; i++) {
    told_series *s = &r.series[i];
    s->head = (fopo_picture_series){.name = "a name",
                                    .n = POINTS,
                                    .x = s->numbers[0],
                                    .y = s->numbers[1],
                                    .low = s->numbers[2],
                                    .high = s->numbers[3]};
    for (int k = 0; k < 4 * POINTS; k++) s->numbers[k / POINTS][k % POINTS] = 1 + k % POINTS;
  }
  return r;
}

static uint32_t drawn(uint32_t which, uint32_t n, uint32_t below) {
  return fopo_random(1, 0, 0, which, n).v[0] % below;
}

/* How many bytes of the request are sent. */
static size_t change(request *r, uint32_t which) {
  static const double odd[] = {0, -1, 1e308, -1e308, 5e-324, INFINITY, NAN};
  static const size_t counts[] = {0,       1, 255, 256, 257, 1 << 24, (1 << 24) + 1, SIZE_MAX / 32,
                                  SIZE_MAX};
  unsigned char *bytes = (unsigned char *)r;
  switch (drawn(which, 0, 5)) {
  case 0: return drawn(which, 1, sizeof *r); /* cut off */
  case 1: r->picture.n_series = counts[drawn(which, 1, 9)]; break;
  case 2: r->series[drawn(which, 2, SERIES)].head.n = counts[drawn(which, 1, 9)]; break;
  case 3:
    for (int k = 0; k < 4 * POINTS; k++) {
      r->series[0].numbers[k / POINTS][k % POINTS] = odd[drawn(which, 10 + (uint32_t)k, 7)];
    }
    break;
  default:
    for (uint32_t k = 1 + drawn(which, 1, 8); k > 0; k--) {
      bytes[drawn(which, 2 * k, sizeof *r)] = (unsigned char)drawn(which, 2 * k + 1, 256);
    }
  }
  return sizeof *r;
}

/* Tells a drawer of its own these bytes and no more; how it ended. *answered: whether anything came
 * back. */
static int told(const void *bytes, size_t n, int *answered) {
  int fd = dup(STDIN_FILENO), is_drawer, status = -1;
  char answer[4096];
  close(fd); /* the next descriptor that is made has this number */
  ok(fopo_drawer_fork(&is_drawer));
  if (is_drawer) {
    size_t blocks = fopo_memory_in_use().blocks;
    fopo_drawer_serve();
    _exit(fopo_memory_in_use().blocks > blocks); /* exit() would look for leaks behind a border */
  }
  ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL), got;
  assert_true(sent == (ssize_t)n || sent < 0);
  shutdown(fd, SHUT_WR);
  *answered = 0;
  while ((got = read(fd, answer, sizeof answer)) > 0) *answered = 1;
  close(fd);
  wait(&status);
  return status;
}

static void check_whole(void) {
  request r = whole();
  int answered;
  assert_int_equal(told(&r, sizeof r, &answered), 0);
  assert_true(answered);
}

TEST(changed_requests) {
  int answers = 0;
  check_whole();
  for (uint32_t i = 0; i < REQUESTS; i++) {
    request r = whole();
    int answered;
    size_t n = change(&r, i);
    int status = told(&r, n, &answered);
    if (status != 0) fail_msg("request %u: the drawer ends with status %d", i, status);
    answers += answered;
  }
  assert_in_range(answers, 10, REQUESTS - 10); /* some are drawn, some refused */
  check_whole();
}

int main(void) { return run_all(NULL, NULL); }
