/* Monotonic seconds. */
#ifndef FOPO_CORE_CLOCK_H
#define FOPO_CORE_CLOCK_H

double fopo_clock(void);

#endif
