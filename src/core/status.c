/* The sentence of the last failure, one per thread. It is formatted aside first, because a caller
 * may quote the old sentence inside the new one. Names of files and cells of tables are quoted in
 * sentences: control characters are escaped. */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/plain.h"

enum { SENTENCE = 1024 };

static _Thread_local char sentence[SENTENCE];

int fopo_fail(int code, const char *format, ...) {
  char fresh[SENTENCE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(fresh, sizeof fresh, format, arguments);
  va_end(arguments);
  fopo_plain(sentence, sizeof sentence, fresh, strlen(fresh));
  return code;
}

const char *fopo_error_sentence(void) { return sentence; }
