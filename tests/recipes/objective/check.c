#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/status.h"
#include "device/device.h"

/* Two items of equal scores, one of which earns 1: R = 1/2. */
static void root(void **state) {
  (void)state;
  fopo_device *d;
  float beta[2] = {1, -1}, q = 0, logq[2] = {0, 0}, r[2] = {1, 0}, V, stats[FOPO_STATS];
  uint32_t ids[2] = {0, 1}, row = 0;
  fopo_rows items = fopo_rows_float32(beta, 1);
  fopo_device_batch batch = {.B = 1, .S = 2, .P = 2, .L = 1, .rows = &row, .Q = &q};
  fopo_estimate e = {.objective = FOPO_OBJECTIVE_ROOT_REWARD, .V = &V, .stats = stats};
  assert_int_equal(fopo_device_cpu_open(&d), FOPO_OK);
  assert_int_equal(d->ops->snis(d, &e, &(fopo_samples){ids, logq, r}, &items, INFINITY, &batch),
                   FOPO_OK);
  assert_float_equal(stats[FOPO_STAT_REWARD], sqrt(0.5), 1e-6);
  assert_float_equal(V, 0.5 / (2 * sqrt(0.5)), 1e-6);
  assert_string_equal(fopo_objective_rows[FOPO_OBJECTIVE_ROOT_REWARD].name, "root_reward");
  fopo_device_close(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(root)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
