/* Notices that another host is gone. MPI itself waits for ever for a host whose link is cut,
 * because TCP sends again for a quarter of an hour; the watch looks at the process's own
 * connections. */
#ifndef FOPO_COMM_WATCH_H
#define FOPO_COMM_WATCH_H

#include <stddef.h>
#include <stdint.h>

enum { FOPO_WATCH_ADDRESSES = 8, FOPO_WATCH_NAME = 64 };

/* The host of one rank. Every rank describes its own. */
typedef struct {
  char name[FOPO_WATCH_NAME];
  uint8_t address[FOPO_WATCH_ADDRESSES][16]; /* IPv6, or IPv4 mapped; zeros: no more */
} fopo_watch_host;

void fopo_watch_describe(fopo_watch_host *host);

/* Starts the watch, a thread: it asks the TCP connections of this process to the hosts of other
 * ranks to prove every second that they live. If a host has not answered for FOPO_MPI_SILENCE
 * seconds (6 if that is not set; 0: never mind), or has closed all its connections while this
 * process still has MPI open, the thread says which rank and host is lost and ends the process;
 * mpirun then ends the others. list [size]: not owned. */
void fopo_watch_start(const fopo_watch_host *list, size_t size, size_t rank);
void fopo_watch_stop(void);

#endif
