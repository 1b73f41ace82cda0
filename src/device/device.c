/* Opening a device by name, and what "auto" took. */
#include "device/device.h"

#include "core/status.h"
#include "device/device_cpu.h"

#include <stdio.h>
#include <string.h>

int fopo_device_open(fopo_device **d, const char *name) {
  *d = NULL;
  if (strcmp(name, "cuda") == 0) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "device \"cuda\" is not in this build; use device = \"cpu\" or \"auto\"");
  }
  int automatic = strcmp(name, "auto") == 0;
  if (!automatic && strcmp(name, "cpu") != 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "device \"%.40s\" is not known; use \"auto\", \"cpu\" or \"cuda\"", name);
  }
  int status = fopo_device_cpu_open(d);
  if (status == FOPO_OK && automatic) {
    size_t length = strlen((*d)->note);
    snprintf((*d)->note + length, sizeof (*d)->note - length, "%sCUDA is not in this build",
             length > 0 ? "; " : "");
  }
  return status;
}

void fopo_device_close(fopo_device *d) {
  if (d != NULL) fopo_device_cpu_close(d);
}
