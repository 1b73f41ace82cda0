/* Formats by their name, and by the first bytes of a file. */
#include "data/formats.h"

#include <stdio.h>
#include <string.h>

#include "core/status.h"

static int refuse(const char *format, const char *(*name)(size_t i)) {
  char list[512] = "auto";
  size_t used = strlen(list);
  for (size_t i = 0; name(i) != NULL && used < sizeof list; i++) {
    used += (size_t)snprintf(list + used, sizeof list - used, ", %s", name(i));
  }
  return fopo_fail(FOPO_ERR_ARGUMENT, "format = \"%s\" is none of %s", format, list);
}

int fopo_format_find(size_t *row, const char *format, const char *(*name)(size_t i)) {
  *row = SIZE_MAX;
  if (format == NULL || strcmp(format, "auto") == 0) return FOPO_OK;
  for (size_t i = 0; name(i) != NULL; i++) {
    if (strcmp(format, name(i)) != 0) continue;
    *row = i;
    return FOPO_OK;
  }
  return refuse(format, name);
}
