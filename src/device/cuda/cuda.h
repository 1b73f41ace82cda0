/* The interface between fopo and fopo_cuda.so. The object is loaded at the first use of
 * device = "cuda" and calls functions of the program (core/status.h, core/memory.h,
 * core/progress.h), whose symbols are therefore exported (-rdynamic). It links the CUDA runtime
 * statically and cuBLAS dynamically; the program itself links neither. */
#ifndef FOPO_DEVICE_CUDA_CUDA_H
#define FOPO_DEVICE_CUDA_CUDA_H

#include "device/ops.h"

/* Both must have the same number, which the Makefile makes from the text of the headers that both
 * see (scripts/tools/device_abi.sh). 0, of a file that was compiled without the Makefile, is
 * refused.
 */
#ifndef FOPO_DEVICE_ABI
#define FOPO_DEVICE_ABI 0
#endif

/* Both sides may find that there is no driver. */
#define FOPO_CUDA_NO_DRIVER                                                                        \
  "there is no NVIDIA driver; install one (nvidia-smi shows it), or use device = \"cpu\""

/* "fopo_cuda_open": a device on the current card, or why there is none. `abi` is the caller's
 * FOPO_DEVICE_ABI. The device must be closed by `close`, which comes with it. */
typedef int fopo_cuda_opener(fopo_device **d, void (**close)(fopo_device *d), uint32_t abi);

/* "fopo_cuda_list": one line a card into text, "" if there is none; the status says why. */
typedef int fopo_cuda_lister(char *text, size_t size, uint32_t abi);

fopo_cuda_opener fopo_cuda_open;
fopo_cuda_lister fopo_cuda_list;

#endif
