/* Opens a device by name, and says why "auto" took it.
 *
 * The CUDA device is a shared object, fopo_cuda.so, which is loaded at its first use: from the path
 * in FOPO_CUDA ("none": never), from the program's folder, or from ../lib/fopo beside that folder.
 * Without the object or a driver only the GPU is missing; without a driver the object is not even
 * loaded, for the libraries that it needs take 150 MB. */
#include "device/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/platform.h"
#include "core/status.h"
#include "device/cpu/cpu.h"
#include "device/cuda/cuda.h"

/* ---- fopo_cuda.so ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fopo_cuda_opener *open_cuda; /* NULL: not loaded yet */
static fopo_cuda_lister *list_cuda;
static void (*close_cuda)(fopo_device *d);

/* FOPO_ERR_UNAVAILABLE if the library that every driver brings is missing. */
static int find_driver(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != NULL) {
    dlclose(driver);
    return FOPO_OK;
  }
  return fopo_fail(FOPO_ERR_UNAVAILABLE, FOPO_CUDA_NO_DRIVER);
}

/* The object's path; FOPO_ERR_UNAVAILABLE if there is no object, or no driver for it. An object
 * named in FOPO_CUDA may do without a driver: it may be an emulation. */
static int find_object(char *path, size_t size) {
  const char *named = getenv("FOPO_CUDA");
  if (named != NULL && strcmp(named, "none") == 0) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "CUDA is switched off by FOPO_CUDA=none");
  }
  if (named != NULL && *named != '\0') {
    snprintf(path, size, "%s", named);
    return FOPO_OK;
  }
  if (fopo_platform_object(path, size, "fopo_cuda.so")) return find_driver();
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "CUDA is not in this build: there is no %s, nor one in ../lib/fopo "
                   "from there; install the CUDA Toolkit (nvcc) and run make, or use device = "
                   "\"cpu\"",
                   path);
}

/* Looks up a function of the object. memcpy, for ISO C cannot cast a data pointer to a function. */
static int find_function(void *function, void *object, const char *name, const char *path) {
  void *found = dlsym(object, name);
  memcpy(function, &found, sizeof found);
  if (found != NULL) return FOPO_OK;
  return fopo_fail(FOPO_ERR_UNAVAILABLE, "%s has no %s: it is no fopo_cuda.so; run make", path,
                   name);
}

/* Loads the object, once; it stays loaded until the program ends. */
static int load(void) {
  char path[4096];
  if (open_cuda != NULL) return FOPO_OK;
  int status = find_object(path, sizeof path);
  if (status != FOPO_OK) return status;
  void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (object == NULL) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "CUDA cannot be loaded: %s; run make, check that the toolkit's libraries are "
                     "installed, or use device = \"cpu\"",
                     dlerror());
  }
  fopo_cuda_opener *opener = NULL;
  status = find_function(&opener, object, "fopo_cuda_open", path);
  if (status == FOPO_OK) status = find_function(&list_cuda, object, "fopo_cuda_list", path);
  if (status != FOPO_OK) {
    dlclose(object);
    return status;
  }
  open_cuda = opener;
  return FOPO_OK;
}

static int cuda_open(fopo_device **d) {
  *d = NULL;
  pthread_mutex_lock(&lock);
  int status = load();
  if (status == FOPO_OK) status = open_cuda(d, &close_cuda, FOPO_DEVICE_ABI);
  pthread_mutex_unlock(&lock);
  return status;
}

int fopo_device_cards(char *text, size_t size) {
  text[0] = '\0';
  pthread_mutex_lock(&lock);
  int status = load();
  if (status == FOPO_OK) status = list_cuda(text, size, FOPO_DEVICE_ABI);
  pthread_mutex_unlock(&lock);
  return status;
}

/* ---- by name ---- */

/* Adds to the note why there is no CUDA, without the remedy: the sentence up to its semicolon. */
static void add_reason(fopo_device *d) {
  const char *why = fopo_error_sentence();
  size_t length = strlen(d->note);
  snprintf(d->note + length, sizeof d->note - length, "%s%.*s", length > 0 ? "; " : "",
           (int)strcspn(why, ";"), why);
}

int fopo_device_cpu_open(fopo_device **d) { return fopo_cpu_open(d); }

int fopo_device_open(fopo_device **d, const char *name) {
  *d = NULL;
  if (strcmp(name, "cuda") == 0) return cuda_open(d);
  if (strcmp(name, "cpu") == 0) return fopo_cpu_open(d);
  if (strcmp(name, "auto") != 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "device \"%.40s\" is not known; use \"auto\", \"cpu\" or \"cuda\"", name);
  }
  if (cuda_open(d) == FOPO_OK) return FOPO_OK;
  int status = fopo_cpu_open(d);
  if (status == FOPO_OK) add_reason(*d);
  return status;
}

int fopo_device_suffices(fopo_device *d, uint64_t bytes, const char *what, const char *remedy) {
  uint64_t left = 0, all = 0;
  if (d->ops->memory == NULL) return FOPO_OK;
  int status = d->ops->memory(d, &left, &all);
  if (status != FOPO_OK || bytes <= left) return status;
  return fopo_fail(FOPO_ERR_MEMORY,
                   "%s needs %.3g GB of the GPU's memory, of which %.3g GB of %.3g GB are free; %s",
                   what, (double)bytes / 1e9, (double)left / 1e9, (double)all / 1e9, remedy);
}

void fopo_device_close(fopo_device *d) {
  if (d == NULL) return;
  if (strcmp(d->ops->kind, "cuda") == 0) {
    close_cuda(d);
  } else {
    fopo_cpu_close(d);
  }
}
