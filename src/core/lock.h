/* A lock that one run of one process holds: a small file beside what is locked, with the process in
 * it. The lock is the system's (flock), so that a process that was killed holds none, and a file
 * that it left does not block. */
#ifndef FOPO_CORE_LOCK_H
#define FOPO_CORE_LOCK_H

#define FOPO_LOCK_HOLDER 128

/* The descriptor of the lock; -1: another run holds it, and holder is "process 4711 on HOST"; -2:
 * it cannot be made there, as in a folder that cannot be written. */
int fopo_lock_open(char holder[FOPO_LOCK_HOLDER], const char *path);
void fopo_lock_close(int fd, const char *path); /* removes the file; accepts fd < 0 */

#endif
