// A CUDA driver without a device: its memory is the host's, and a launch is checked and does nothing. Numba's own code
// runs on it: types, compiling, linking, arguments, streams. What it lacks says so (error 801).
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef int R;  // 0 is success
typedef struct { size_t used; } Card;  // its address is the handle of its context
typedef struct { uint32_t registers, shared; } Kernel;
typedef struct {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t rest[2];
} Section;
static struct { char name[80]; int count, major, minor, multiprocessors; size_t memory, shared; } the;
static Card cards[8];
static __thread void *stack[32];
static __thread int top;
static uintptr_t next = 0x2000;  // each stream has a handle of its own
enum { INVALID = 1, FULL = 2, RESOURCES = 701, LACKING = 801 };
enum { SHARED = 48 << 10, REGISTERS = 65536, POISONED = 1 << 26 };
#define SELF (top && stack[top] ? (Card *)stack[top] : cards)
#define WANTS(what, code) if (!(what)) return code

void stand_in(const char *name, int count, int major, int minor, int multiprocessors, size_t memory, size_t shared) {
  snprintf(the.name, sizeof the.name, "%s", name);
  the.count = count, the.major = major, the.minor = minor, the.multiprocessors = multiprocessors;
  the.memory = memory, the.shared = shared;
}

R cuInit(unsigned flags) { return 0; }
R cuDriverGetVersion(int *version) { *version = 13000; return 0; }
R cuDeviceGetCount(int *count) { *count = the.count; return 0; }
R cuDeviceGetName(char *name, int n, int device) { snprintf(name, n, "%s", the.name); return 0; }
R cuDeviceGetUuid_v2(char *uuid, int device) { memset(uuid, 7 + device, 16); return 0; }
R cuDeviceGetAttribute(int *value, int which, int device) {
  int known[120] = {[1] = 1024, 1024, 1024, 64, 2147483647, 65535, 65535, SHARED, [10] = 32, [12] = REGISTERS,
    [16] = the.multiprocessors, [39] = 2048, [50] = 1 + device, [75] = the.major, the.minor, [97] = the.shared};
  *value = which < 120 ? known[which] : 0;
  return 0;
}
R cuDevicePrimaryCtxRetain(void **context, int device) { *context = cards + device; return 0; }
R cuCtxGetCurrent(void **context) { *context = stack[top]; return 0; }
R cuCtxSetCurrent(void *context) { top += !top; stack[top] = context; return 0; }
R cuCtxPushCurrent_v2(void *context) { stack[++top] = context; return 0; }
R cuCtxPopCurrent_v2(void **context) { *context = stack[top]; top -= top > 0; return 0; }
R cuCtxGetDevice(int *device) { *device = SELF - cards; return 0; }
R cuStreamCreate(void **made, unsigned flags) { *made = (void *)(next += 16); return 0; }
R cuMemGetInfo_v2(size_t *left, size_t *total) { *total = the.memory; *left = the.memory - SELF->used; return 0; }

// Before what is handed out stands how much it is and whose; what nobody has written is NaN.
R cuMemAlloc_v2(uint64_t *p, size_t n) {
  WANTS(n, INVALID);
  WANTS(n <= the.memory - SELF->used, FULL);
  size_t *base = aligned_alloc(256, (n + 511) / 256 * 256);
  WANTS(base, FULL);
  base[0] = n, base[1] = (uintptr_t)SELF, SELF->used += n;
  memset((char *)base + 256, 255, n < POISONED ? n : POISONED);
  *p = (uintptr_t)base + 256;
  return 0;
}
R cuMemFree_v2(uint64_t p) {
  size_t *base = (size_t *)(p - 256);
  if (p) ((Card *)base[1])->used -= base[0], free(base);
  return 0;
}
#define AT(p) ((void *)(uintptr_t)(p))
R cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) { memcpy(AT(to), from, n); return 0; }
R cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) { memcpy(to, AT(from), n); return 0; }
R cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t n) { memmove(AT(to), AT(from), n); return 0; }
R cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *stream) { return cuMemcpyHtoD_v2(to, from, n); }
R cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *stream) { return cuMemcpyDtoH_v2(to, from, n); }
R cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *stream) { return cuMemcpyDtoD_v2(to, from, n); }
R cuMemsetD8_v2(uint64_t to, unsigned char value, size_t n) { memset(AT(to), value, n); return 0; }
R cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, void *stream) { return cuMemsetD8_v2(to, value, n); }

// A library is its cubin, an ELF file; the registers of a kernel stand in .nv.info, beside the number of its symbol.
R cuLibraryLoadData(void **made, const char *image, void *a, void *b, unsigned c, void *d, void *e, unsigned f) {
  size_t size = *(uint64_t *)(image + 0x28) + *(uint16_t *)(image + 0x3c) * sizeof(Section);  // sections come last
  WANTS(!memcmp(image, "\177ELF", 4), LACKING);
  *made = memcpy(malloc(size), image, size);
  return 0;
}
R cuLibraryGetKernel(Kernel **made, char *image, const char *name) {
  Section *all = (Section *)(image + *(uint64_t *)(image + 0x28)), *text = 0, *facts = 0;
  Kernel *kernel = calloc(1, sizeof *kernel);
  char *names = image + all[*(uint16_t *)(image + 0x3e)].offset;
  for (int i = 0; i < *(uint16_t *)(image + 0x3c); i++) {
    char *section = names + all[i].name;
    if (!strncmp(section, ".text.", 6) && !strcmp(section + 6, name)) text = all + i;
    if (!strcmp(section, ".nv.info")) facts = all + i;
    // From 9.0 on it begins with a KiB that is the system's.
    if (!strncmp(section, ".nv.shared.", 11) && !strcmp(section + 11, name))
      kernel->shared = all[i].size - 1024 * (the.major >= 9);
  }
  WANTS(text && facts, LACKING);
  uint32_t *at = (uint32_t *)(image + facts->offset), *end = at + facts->size / 4;
  for (; at < end; at += (*at & 255) == 4 ? 1 + (*at >> 18) : 1)  // 4: as many bytes follow as the upper half says
    if ((*at & 0xffff) == 0x2f04 && at[1] == (text->info & 0xffffff)) kernel->registers = at[2];
  *made = kernel;
  return kernel->registers ? 0 : LACKING;
}
R cuLibraryGetGlobal(uint64_t *p, size_t *n, void *image, const char *name) {  // a kernel's error code: no error
  static int none[4];
  *p = (uintptr_t)none, *n = sizeof *none;
  return 0;
}
static int most_threads(Kernel *kernel) {  // a warp takes registers by 256, and warps come by fours
  int warps = REGISTERS / ((kernel->registers * 32 + 255) / 256 * 256) / 4 * 4;
  return warps < 32 ? warps * 32 : 1024;
}
R cuKernelGetAttribute(int *value, int which, Kernel *kernel, int device) {
  *value = which == 0 ? most_threads(kernel) : which == 1 ? kernel->shared : which == 4 ? kernel->registers : 0;
  return 0;
}
R cuLaunchKernel(Kernel *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y, unsigned z,
                 unsigned dynamic, void *stream, void **arguments, void **extra) {
  WANTS(gx && gy && gz && gx <= 2147483647 && gy <= 65535 && gz <= 65535, INVALID);
  WANTS(x && y && z && x <= 1024 && y <= 1024 && z <= 64 && (uint64_t)x * y * z <= 1024, INVALID);
  WANTS((uint64_t)dynamic + kernel->shared <= SHARED, INVALID);
  WANTS(x * y * z <= most_threads(kernel), RESOURCES);
  return 0;
}
R cuLaunchKernelEx(const unsigned *c, Kernel *kernel, void **arguments, void **extra) {
  return cuLaunchKernel(kernel, c[0], c[1], c[2], c[3], c[4], c[5], c[6], 0, arguments, extra);
}

R cuGetErrorName(R code, const char **name) {
  *name = code == INVALID ? "CUDA_ERROR_INVALID_VALUE" : code == FULL ? "CUDA_ERROR_OUT_OF_MEMORY" :
          code == RESOURCES ? "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" : "CUDA_ERROR_NOT_SUPPORTED";
  return 0;
}
// All is done as soon as it is asked for: there is nothing to wait for, and nothing to clear away.
#define NOTHING(name) R name(void) { return 0; }
NOTHING(cuCtxSynchronize)
NOTHING(cuStreamSynchronize)
NOTHING(cuStreamDestroy)
NOTHING(cuLibraryUnload)
static R lacking(void) { return LACKING; }
R cuGetProcAddress_v2(const char *wanted, void **found, int version, uint64_t flags, int *status) {
  static void *self;
  char newer[200];
  if (!self) self = dlopen("libcuda.so.1", RTLD_LAZY);
  snprintf(newer, sizeof newer, "%s_v2", wanted);
  if (!(*found = dlsym(self, wanted)) && !(*found = dlsym(self, newer))) *found = (void *)lacking;
  if (status) *status = 0;
  return 0;
}
