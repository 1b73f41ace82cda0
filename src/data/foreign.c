/* A table of magic numbers. gzip is no stranger: data/text.h reads it. */
#include "data/foreign.h"

#include <string.h>

#include "core/status.h"

#define PANDAS "python3 -c \"import pandas; pandas."
#define TO_CSV "').to_csv('data.csv', index=False)\""

/* The sentence is: path, `what`, path, `rest`. */
static const struct {
  const char *magic;
  size_t n;
  const char *what, *rest;
} kinds[] = {
    {"PAR1", 4,
     "is Parquet; write it as CSV, as Python does with pandas and pyarrow: " PANDAS
     "read_parquet('",
     TO_CSV},
    {"\x93NUMPY", 6, "is one .npy array and no text; fopo.array.load reads it: fopo.array.load('",
     "')"},
    {"\x89HDF", 4,
     "is HDF5; write its table as CSV, as Python does with pandas and tables: " PANDAS "read_hdf('",
     TO_CSV},
    {"SQLite format 3", 15,
     "is a database of SQLite; write a table of it as CSV: sqlite3 -header -csv ",
     " 'select * from TABLE' > data.csv"},
    {"PK\x03\x04", 4, "is a zip archive; unpack it and read its files: unzip ", ""},
    {"\xfd\x37zXZ", 5, "is packed by xz; unpack it: xz -dk ", ""},
    {"BZh", 3, "is packed by bzip2; unpack it: bzip2 -dk ", ""},
    {"\x28\xb5\x2f\xfd", 4, "is packed by zstd; unpack it: zstd -dk ", ""},
};

int fopo_foreign_refuse(const char *path, const void *first, size_t n) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (n < kinds[i].n || memcmp(first, kinds[i].magic, kinds[i].n) != 0) continue;
    return fopo_fail(FOPO_ERR_FORMAT, "%s %s%s%s", path, kinds[i].what, path, kinds[i].rest);
  }
  return FOPO_OK;
}
