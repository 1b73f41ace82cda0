/* Widths are bounded, because words stand in columns. */
#include "term/view/words.h"

#include <math.h>
#include <stdio.h>

void fopo_word_count(char out[FOPO_WORD], double v) {
  char digits[FOPO_WORD];
  int n = snprintf(digits, sizeof digits, "%.0f", v), at = 0;
  if (n > 24) n = 24;
  for (int i = 0; i < n; i++) {
    out[at++] = digits[i];
    if (digits[i] != '-' && i + 1 < n && (n - i - 1) % 3 == 0) out[at++] = ',';
  }
  out[at] = '\0';
}

void fopo_word_short(char out[FOPO_WORD], double v) {
  if (v < 1e4) {
    snprintf(out, FOPO_WORD, "%.0f", v);
  } else if (v < 1e6) {
    snprintf(out, FOPO_WORD, "%.4gk", v / 1e3);
  } else {
    snprintf(out, FOPO_WORD, "%.4gM", v / 1e6);
  }
}

void fopo_word_time(char out[FOPO_WORD], double seconds) {
  double s = floor(seconds < 0 ? 0 : seconds > 1e9 ? 1e9 : seconds);
  long t = (long)s;
  if (seconds < 60) {
    snprintf(out, FOPO_WORD, "%.1f s", seconds < 0 ? 0 : seconds);
  } else if (t < 3600) {
    snprintf(out, FOPO_WORD, "%ld:%02ld", t / 60, t % 60);
  } else if (t < 86400) {
    snprintf(out, FOPO_WORD, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
  } else {
    snprintf(out, FOPO_WORD, "%ld d %02ld:%02ld", t / 86400, t / 3600 % 24, t / 60 % 60);
  }
}

void fopo_word_bytes(char out[FOPO_WORD], double v) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  int i = 0;
  while (v >= 1000 && i < 4) v /= 1000, i++;
  snprintf(out, FOPO_WORD, v < 100 && i > 0 ? "%.1f %s" : "%.0f %s", v, units[i]);
}

/* Fixed decimals from 0.001 to 1, where most rewards lie, so that digits keep their columns. */
void fopo_word_real(char out[FOPO_WORD], double v) {
  double size = fabs(v);
  snprintf(out, FOPO_WORD, size >= 1e-3 && size < 1 ? "%.4f" : "%.4g", v);
}

void fopo_word_rate(char out[FOPO_WORD], double v) {
  if (v < 100) {
    snprintf(out, FOPO_WORD, "%.3g", v);
  } else {
    fopo_word_count(out, v);
  }
}
