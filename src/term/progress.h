/* The bar on stderr: the sink of core/progress.h.
 *
 *   reading ratings.csv  [##########..........]  52 %  1.4 s, 1.3 s left
 *
 * A job is shown when it has taken half a second, and redrawn at most ten times a second; what was
 * drawn is erased when it ends, by a carriage return and blanks alone (no escape sequence). Where
 * stderr is no terminal, a job writes a plain line after 5 s and then every 30 s. */
#ifndef FOPO_TERM_PROGRESS_H
#define FOPO_TERM_PROGRESS_H

/* Installs the bar as the core's sink, or takes it off. */
void fopo_progress_bar(int on);

/* Erases what is on the line now, so that other text may be written. */
void fopo_progress_bar_erase(void);

/* The text of a bar of at most `width` columns into line[size], for tests and for the sink: what,
 * the share, seconds so far and to come. total 0: the end is not known. */
void fopo_progress_bar_text(char *line, int size, const char *what, double done, double total,
                            double seconds, int width);

#endif
