/* What fopo and fopo_cuda.so say to each other. The object is opened at the first use of
 * device = "cuda" and calls back into the program (core/status.h, core/memory.h, core/progress.h),
 * whose symbols are therefore exported (-rdynamic). It links the CUDA runtime statically and cuBLAS
 * dynamically; the program itself links neither. */
#ifndef FOPO_DEVICE_CUDA_CUDA_H
#define FOPO_DEVICE_CUDA_CUDA_H

#include "device/device.h"

/* An object of another build may have another table: its size, and a number that grows whenever an
 * operation changes its arguments. */
#define FOPO_CUDA_TABLE (sizeof(fopo_device_ops) * 1000 + 8)

/* Without a driver both sides say so. */
#define FOPO_CUDA_NO_DRIVER                                                                        \
  "there is no NVIDIA driver; install one (nvidia-smi shows it), or use device = \"cpu\""

/* "fopo_cuda_open": a device on the current card, or why there is none. `table` is the caller's
 * FOPO_CUDA_TABLE. The device is closed by `close`, which comes out with it. */
typedef int fopo_cuda_opener(fopo_device **d, void (**close)(fopo_device *d), size_t table);

/* "fopo_cuda_list": one line a card into text, "" where there is none; the status says why. */
typedef int fopo_cuda_lister(char *text, size_t size, size_t table);

fopo_cuda_opener fopo_cuda_open;
fopo_cuda_lister fopo_cuda_list;

#endif
