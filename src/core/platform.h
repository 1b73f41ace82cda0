/* What fopo asks of the system beyond POSIX. Linux answers all of it; what another system leaves
 * out stands with each question and in docs/systems.md. The border of --safe has a file of its own,
 * core/border.c. */
#ifndef FOPO_CORE_PLATFORM_H
#define FOPO_CORE_PLATFORM_H

#include <stddef.h>
#include <sys/types.h>

/* The path of the program that runs; 0 if it is not known. */
int fopo_platform_program(char *path, size_t size);

/* The path of a shared object of fopo's: beside the program, else in ../lib/fopo beside its folder.
 * 0 if neither can be read; the path is then the first of them. */
int fopo_platform_object(char *path, size_t size, const char *name);

/* This process, which was forked by `parent`, is killed when that ends. Elsewhere it is not, and
 * ends by what it is told. */
void fopo_platform_follow(pid_t parent);

/* Closes the descriptors above 2, but for one (-1: none). */
void fopo_platform_close(int but);

/* A file in memory, without a name, for reading and writing; -1 and errno. Elsewhere it lies in
 * /tmp. */
int fopo_platform_file(void);

/* Whether a mapping can grow by its page tables. Elsewhere a larger block is a copy. */
#if defined(__linux__)
enum { FOPO_PLATFORM_REMAPS = 1 };
#else
enum { FOPO_PLATFORM_REMAPS = 0 };
#endif

/* Changes the length of a mapping: in place, or, if that is not NULL, at `place`, a mapping of the
 * new length. NULL: it cannot. */
void *fopo_platform_remap(void *mapping, size_t before, size_t length, void *place);

/* Advises huge pages for a mapping. */
void fopo_platform_huge(void *mapping, size_t length);

/* Blocks of `big` bytes and more are mappings of malloc's, which keeps at most `kept` that are
 * free. Elsewhere malloc decides. */
void fopo_platform_heap(size_t big, size_t kept);

/* 1: this process may use the registers of AMX's tiles, for it has asked. */
int fopo_platform_tiles(void);

/* FOPO_PLATFORM_ARM(HWCAP, ASIMDDP): 1 if the processor is of arm64 and has the feature. */
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#define FOPO_PLATFORM_ARM(word, feature) ((getauxval(AT_##word) & word##_##feature) != 0)
#else
#define FOPO_PLATFORM_ARM(word, feature) 0
#endif

/* The folder whose files are the numbers of the open descriptors. */
#if defined(__linux__)
#define FOPO_PLATFORM_OPEN "/proc/self/fd"
#else
#define FOPO_PLATFORM_OPEN "/dev/fd"
#endif

/* Of a TCP connection: sends a probe after `idle` seconds of silence, and then one every second. */
void fopo_platform_probe(int fd, int idle);

/* Seconds since the other side of a TCP connection was heard; below 0: it is closed, or, elsewhere,
 * the system does not say. */
double fopo_platform_silence(int fd);

#endif
