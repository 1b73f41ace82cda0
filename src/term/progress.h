/* The progress bar on stderr, a sink of core/progress.h.
 *
 *   reading ratings.csv  [##########..........]  52 %  1.4 s, 1.3 s left
 *
 * A job is shown after half a second and redrawn at most ten times a second. The bar is erased when
 * the job ends, by a carriage return and blanks, without escape sequences. If stderr is no
 * terminal, a job writes a plain line after 5 s and then every 30 s. */
#ifndef FOPO_TERM_PROGRESS_H
#define FOPO_TERM_PROGRESS_H

/* Installs the bar as the sink of the core, or removes it. */
void fopo_progress_bar(int on);

/* Erases the bar, so that other text may be written. */
void fopo_progress_bar_erase(void);

/* Writes the bar, of at most `width` columns, into line[size]: the job, its share, the seconds so
 * far and the seconds left. total 0: the end is not known. */
void fopo_progress_bar_text(char *line, int size, const char *what, double done, double total,
                            double seconds, int width);

#endif
