#include "core/notice.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/plain.h"

void fopo_notice(const char *format, ...) {
  char sentence[1024], plain[sizeof sentence];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  fopo_plain(plain, sizeof plain, sentence, strlen(sentence));
  fprintf(stderr, "fopo: %s\n", plain);
}
