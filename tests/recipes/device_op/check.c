#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/status.h"
#include "device/device.h"

static void limits(void **state) {
  (void)state;
  fopo_device *d;
  void *x = NULL;
  float host[2] = {3, -4};
  assert_int_equal(fopo_device_cpu_open(&d), FOPO_OK);
  assert_int_equal(d->ops->alloc(d, &x, sizeof host), FOPO_OK);
  assert_int_equal(d->ops->put(d, x, host, sizeof host), FOPO_OK);
  assert_int_equal(d->ops->limit(d, x, 10, 2), FOPO_OK);
  assert_int_equal(d->ops->get(d, host, x, sizeof host), FOPO_OK);
  assert_float_equal(host[1], -4, 0);
  assert_int_equal(d->ops->limit(d, x, 3.5f, 2), FOPO_OK);
  assert_int_equal(d->ops->get(d, host, x, sizeof host), FOPO_OK);
  assert_float_equal(host[0], 3, 0);
  assert_float_equal(host[1], -3.5, 0);
  d->ops->release(d, x);
  fopo_device_close(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(limits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
