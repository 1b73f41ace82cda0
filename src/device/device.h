/* A device: coarse operations on resident data. A whole batch stays on the device; only the
 * gradient's statistics come back. The CPU and CUDA implement the same rows of device/ops.def, with
 * the same samples (core/rng.h), so results differ by summation order alone; but where the choice
 * is left to the device (fopo_products), CUDA rounds the rows of a shared head.
 *
 * Shapes are checked by the callers in learn/; an operation fails only for lack of memory, by an
 * interruption, or by a fault of the device. */
#ifndef FOPO_DEVICE_DEVICE_H
#define FOPO_DEVICE_DEVICE_H

#include "device/ops.h"

/* name: "cpu", "cuda" or "auto" (CUDA if it works, else the CPU with the reason in note). "cuda" on
 * a machine or in a build without it is FOPO_ERR_UNAVAILABLE with reason and remedy. */
int fopo_device_open(fopo_device **d, const char *name);
void fopo_device_close(fopo_device *d); /* accepts NULL */

/* The cards that "cuda" could use, a line each ("NVIDIA H100, 80 GB, compute 9.0"), or a failure
 * with the reason why there is none. text is cut at `size`. */
int fopo_device_cards(char *text, size_t size);

/* To be called before much is copied to the device. FOPO_OK, or FOPO_ERR_MEMORY with the sentence
 * "`what` needs 49.5 GB of the GPU's memory, of which 31.2 GB of 80 GB are free; `remedy`". A
 * device that works in the host's memory has what it needs there. */
int fopo_device_suffices(fopo_device *d, uint64_t bytes, const char *what, const char *remedy);

/* The CPU, without a choice by name. */
int fopo_device_cpu_open(fopo_device **d);

#endif
