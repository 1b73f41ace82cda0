#include "core/option.h"

#include <math.h>

#include "core/status.h"

int fopo_option_check(const fopo_option *row, const void *options) {
  if (row->type != FOPO_OPTION_NUMBER) return FOPO_OK;
  double x = *(const double *)(const void *)((const char *)options + row->member);
  if ((row->flags & FOPO_OPTION_AUTO) && x == 0.0) return FOPO_OK;
  int above = (row->flags & FOPO_OPTION_ABOVE) != 0, below = (row->flags & FOPO_OPTION_BELOW) != 0;
  int limited = row->most > 0.0, enough = above ? x > row->least : x >= row->least;
  if (isfinite(x) && enough && (!limited || (below ? x < row->most : x <= row->most))) {
    return FOPO_OK;
  }
  const char *more = above ? "more than " : "", *less = below ? "less than " : "";
  if (limited) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%s is %g; use %s%g to %s%g", row->name, x, more,
                     row->least, less, row->most);
  }
  return fopo_fail(FOPO_ERR_ARGUMENT, "%s is %g; use %s%g%s", row->name, x, more, row->least,
                   above ? "" : " or more");
}
