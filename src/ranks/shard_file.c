/* All ranks write into one file, which rank 0 has begun and replaces the old one by. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "comm/comm.h"
#include "core/npy.h"
#include "core/replace.h"
#include "core/status.h"
#include "ranks/shard.h"

/* The file that is being written, as rank 0 tells it. */
typedef struct {
  char name[FOPO_PATH_MOST + 32];
  uint64_t head; /* bytes before the first row */
} begun;

/* Begins the file with its header. */
static int begin(fopo_replacement *r, begun *b, const fopo_array *whole, const char *path) {
  char header[FOPO_NPY_HEADER_MOST];
  int status = fopo_replace_begin(r, path);
  if (status != FOPO_OK) return status;
  b->head = fopo_npy_header(header, whole);
  memcpy(b->name, r->temporary, sizeof b->name);
  int error = fopo_write_all(r->fd, header, b->head);
  return error == 0 ? FOPO_OK : fopo_replace_end(r, FOPO_OK, error, 0);
}

/* 0, or errno. */
static int write_rows(int fd, fopo_matrix rows, uint64_t at) {
  if (lseek(fd, (off_t)at, SEEK_SET) < 0) return errno;
  int error = fopo_write_all(fd, rows.x, rows.rows * rows.cols * sizeof(float));
  return error == 0 && fsync(fd) != 0 ? errno : error;
}

static int write_beside(const begun *b, fopo_matrix rows, uint64_t at, const char *path) {
  int fd = open(b->name, O_WRONLY | O_CLOEXEC);
  int error = fd >= 0 ? write_rows(fd, rows, at) : errno;
  if (fd >= 0 && close(fd) != 0 && error == 0) error = errno;
  if (error == 0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_FILE,
                   "rank %zu cannot write its rows of %s: %s; all hosts must see "
                   "the same folder",
                   fopo_comm_own_rank(), path, strerror(error));
}

/* The CRC-32 of the rows of all ranks, one after the other. */
static int join_crc(uint32_t *crc, fopo_matrix range) {
  uint64_t mine[2] = {0, range.rows * range.cols * sizeof(float)}, all[2 * FOPO_COMM_RANKS];
  mine[0] = crc32_z(crc32_z(0, NULL, 0), (const Bytef *)range.x, (z_size_t)mine[1]);
  int status = fopo_comm_gather(all, mine, sizeof mine);
  uLong sum = crc32_z(0, NULL, 0);
  for (size_t i = 0; i < fopo_comm_ranks() && status == FOPO_OK; i++) {
    sum = crc32_combine(sum, (uLong)all[2 * i], (z_off_t)all[2 * i + 1]);
  }
  *crc = (uint32_t)sum;
  return status;
}

static int save_range(uint32_t *crc, fopo_matrix range, size_t P, const char *path) {
  fopo_array whole = fopo_array_of("array", FOPO_F32, range.x, 2, P, range.cols);
  fopo_replacement r;
  begun b = {.head = 0};
  size_t first;
  int is_first = fopo_comm_own_rank() == 0;
  fopo_comm_own_share(&first, P);
  int status = fopo_comm_agree(is_first ? begin(&r, &b, &whole, path) : FOPO_OK);
  if (status != FOPO_OK) return status;
  status = fopo_comm_broadcast(&b, sizeof b, 0);
  uint64_t at = b.head + (uint64_t)first * range.cols * sizeof(float);
  int error = status == FOPO_OK && is_first ? write_rows(r.fd, range, at) : 0;
  if (status == FOPO_OK && !is_first) status = write_beside(&b, range, at, path);
  status = fopo_comm_agree(error == 0 ? status : FOPO_ERR_FILE);
  if (is_first) {
    status =
        fopo_replace_end(&r, error == 0 ? status : FOPO_OK, error, b.head + fopo_npy_bytes(&whole));
  }
  status = fopo_comm_agree(status);
  return status == FOPO_OK ? join_crc(crc, range) : status;
}

int fopo_shard_save(uint32_t *crc, const fopo_shard *s, const char *path) {
  fopo_matrix range;
  int status = fopo_shard_range(&range, s);
  if (status != FOPO_OK) return status;
  status = save_range(crc, range, s->part.P, path);
  fopo_matrix_done(&range);
  return status;
}
