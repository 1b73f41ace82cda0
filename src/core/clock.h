/* Seconds since an arbitrary start; they never go back. */
#ifndef FOPO_CORE_CLOCK_H
#define FOPO_CORE_CLOCK_H

double fopo_clock(void);

/* Seconds that the calling thread has had a processor. */
double fopo_clock_of_thread(void);

#endif
