/* NVML, the library behind nvidia-smi, as far as the doctor asks it; its types are those of nvml.h. */
#include "fake.h"

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char name[32]; } pci_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned char cluster[16]; int status; unsigned clique; unsigned char state; } fabric_t;

int nvmlInit_v2(void) { return start("FAKE_NVML"); }
int nvmlSystemGetDriverVersion(char *version, unsigned size) { return snprintf(version, size, "580.95.05") < 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = number("FAKE_DEVICES", 1); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = (void *)(size_t)(index + 1);
    return index + 1 == number("FAKE_LOST", 0) ? 15 : 0;
}
int nvmlDeviceGetName(void *handle, char *name, unsigned size) {
    return snprintf(name, size, "NVIDIA Fake %d", (int)(size_t)handle - 1) < 0;
}
int nvmlDeviceGetPciInfo_v3(void *handle, pci_t *pci) { strcpy(pci->name, "00000000:3B:00.0"); return 0; }
int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *later) {
    *now = *later = number("FAKE_MIG", -1) >= 0;
    return getenv("FAKE_MIG") ? 0 : 3; /* not supported */
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **part) {
    return (int)index < number("FAKE_MIG", 0) ? 0 : 6; /* not found */
}
int nvmlDeviceGetComputeMode(void *handle, int *mode) { *mode = number("FAKE_MODE", 0); return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, void *infos) {
    unsigned room = *count;
    *count = number("FAKE_PROCESSES", 0);
    return room < *count ? 7 : 0; /* insufficient size */
}
int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) {
    memory->total = 1ull << 37; memory->used = 1ull << 30; memory->free = memory->total - memory->used;
    return 0;
}
int nvmlDeviceGetTotalEccErrors(void *handle, int kind, int counter, unsigned long long *count) {
    *count = number("FAKE_ECC", 0);
    return kind == 1 && counter == 0 ? 0 : 2; /* uncorrected, volatile; otherwise a wrong argument */
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *bits) {
    *bits = number("FAKE_THROTTLE", 0);
    return 0;
}
int nvmlDeviceGetGpuFabricInfo(void *handle, fabric_t *fabric) {
    memset(fabric, 0, sizeof *fabric);
    fabric->state = number("FAKE_FABRIC", 0);
    return 0;
}
