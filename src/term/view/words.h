/* Numbers as short words for people. */
#ifndef FOPO_TERM_VIEW_WORDS_H
#define FOPO_TERM_VIEW_WORDS_H

enum { FOPO_WORD = 40 };

void fopo_word_count(char out[FOPO_WORD], double v);      /* 1234567 -> "1,234,567" */
void fopo_word_short(char out[FOPO_WORD], double v);      /* 12345678 -> "12.35M" */
void fopo_word_time(char out[FOPO_WORD], double seconds); /* "34.5 s", "3:20", "2 d 03:10" */
void fopo_word_bytes(char out[FOPO_WORD], double v);      /* "812 MB" */
void fopo_word_real(char out[FOPO_WORD], double v);       /* four significant digits */
void fopo_word_rate(char out[FOPO_WORD], double v);       /* "12.3", "41,234" */

#endif
