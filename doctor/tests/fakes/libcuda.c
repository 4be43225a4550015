/* CUDA's driver, as far as the doctor asks it. */
#include "fake.h"

int cuDriverGetVersion(int *version) { *version = number("FAKE_CUDA_VERSION", 13000); return 0; }
int cuInit(unsigned flags) { return start("FAKE_CUDA"); }
int cuDeviceGetCount(int *count) { *count = number("FAKE_DEVICES", 1); return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int size, int device) { return snprintf(name, size, "NVIDIA Fake %d", device) < 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 75 ? 9 : device; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return number("FAKE_CONTEXT", 0); }
