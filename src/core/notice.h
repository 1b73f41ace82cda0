/* Sentences for the user that are no failures: what was repaired, or done otherwise than asked. */
#ifndef FOPO_CORE_NOTICE_H
#define FOPO_CORE_NOTICE_H

/* Prints "fopo: SENTENCE" as one line on stderr. Any thread may call it. */
void fopo_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
