/* Seconds since an arbitrary start; they never go back. */
#ifndef FOPO_CORE_CLOCK_H
#define FOPO_CORE_CLOCK_H

double fopo_clock(void);

#endif
