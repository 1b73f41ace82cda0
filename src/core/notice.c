#include "core/notice.h"

#include <stdarg.h>
#include <stdio.h>

void fopo_notice(const char *format, ...) {
  char sentence[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  fprintf(stderr, "fopo: %s\n", sentence);
}
