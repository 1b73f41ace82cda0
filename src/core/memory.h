/* The only allocator of the program. Blocks are zeroed, 64-byte aligned, counted, and refused
 * if n * size overflows. Blocks of 4 MiB or more come from mmap with huge pages advised, so that
 * zeroing them costs nothing and random gathers miss the TLB less. Safe from any thread. */
#ifndef FOPO_CORE_MEMORY_H
#define FOPO_CORE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Keeps up to 64 MB that are freed for the next blocks, so that the system need not give and take
 * the pages of temporary objects again and again. To be called at the start. */
void fopo_memory_start(void);

/* n * size zeroed bytes, or NULL with FOPO_ERR_MEMORY's sentence set. n * size == 0 gives a block.
 */
void *fopo_alloc(size_t n, size_t size);

/* The same without zeros, for what is written at once. */
void *fopo_alloc_unset(size_t n, size_t size);

/* Grows or shrinks a block (NULL: a new one); the added bytes are zero. On failure NULL with the
 * sentence set, and the old block stays as it was. */
void *fopo_realloc(void *block, size_t n, size_t size);

/* The same of the block that *array, a pointer of any type, points to. */
int fopo_resize(void *array, size_t n, size_t size);

/* The first bytes >= 1 of a file as a block that is read alone and not resized. Its pages are the
 * file's, which the system drops and reads again as it needs memory, so they are not counted. */
void *fopo_map_file(int fd, size_t bytes);

/* Such a block is not read for a while: its pages leave the process, and come back as they are
 * read. Other blocks, and NULL, stay as they are. */
void fopo_map_idle(void *block);

/* Accepts NULL. */
void fopo_free(void *block);

typedef struct {
  size_t blocks; /* live now */
  size_t bytes;  /* live now */
  size_t peak;   /* largest value of bytes since the mark */
  size_t
      foreseen; /* largest sum of bytes and an estimate that fopo_memory_suffices saw since then */
} fopo_memory_use;

fopo_memory_use fopo_memory_in_use(void);

/* Sets the mark, so that the peak of a piece of work can be compared with its estimates. */
void fopo_memory_mark(void);

/* The most bytes that the blocks and what fopo_memory_charge counts may have together, or 0 for no
 * limit: what goes beyond is refused. To be set before other threads are started. */
void fopo_memory_limit(uint64_t bytes);
uint64_t fopo_memory_limited(void);

/* Counts memory of another allocator (Lua's) in the limit: a block of `before` bytes is to have
 * `after`. 1; or 0 if it must not, and then nothing is counted. */
int fopo_memory_charge(size_t before, size_t after);

/* Bytes this process may still take: the least of MemAvailable, every ancestor cgroup's
 * memory.max - memory.current, RLIMIT_AS and fopo_memory_limit; UINT64_MAX if none is known. */
uint64_t fopo_memory_available(void);

/* Bytes of address space that the limit of the process (ulimit -v) leaves; UINT64_MAX: no limit. */
uint64_t fopo_memory_address_space(void);

/* To be called before big objects are built. FOPO_OK, or FOPO_ERR_MEMORY with a sentence
 * "`what` needs 49.5 GB, 31.2 GB are free; `remedy`" when bytes exceed 90 % of what is available.
 */
int fopo_memory_suffices(uint64_t bytes, const char *what, const char *remedy);

/* For tests: the allocation after `n` more successful ones fails, once (forever == 0) or from then
 * on. n < 0 switches it off. */
void fopo_memory_fail_after(long n, int forever);

#endif
