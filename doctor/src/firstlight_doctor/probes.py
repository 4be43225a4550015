"""What is asked of drivers and libraries, in a process of its own: any of them can hang, crash or poison the process.

``python probes.py NAME`` writes one JSON object a line, each with more facts than the line before, so that what was
found out before a crash is not lost, and "end" if all was asked. Whatever else a library prints goes to the standard
error.
"""

from __future__ import annotations

import sys

if not sys.path[0]:
    del sys.path[0]  # nothing comes from the current folder; Python 3.10 does not know -P, which says so

import ctypes
import gc
import importlib
import json
import os
import signal
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable

Say = Callable[..., None]
MAX_CARDS = 16
MIG, EXCLUSIVE = 1, (1, 3)  # NVML's numbers for a mode that is on, and for compute modes that admit one process
FABRIC = ("not supported", "not started", "in progress", "completed")


def main(probe: str, seconds: float = 0) -> None:
    """Run one probe, and end by itself soon after so many seconds, even if nobody waits for it any more."""
    if seconds and hasattr(signal, "alarm"):
        signal.alarm(int(seconds) + 5)
    gc.disable()  # the imports are a fifth faster
    sys.stdout.flush()  # what was printed while Python started
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr  # which keeps nothing back, however the process ends
    facts: dict[str, Any] = {}

    def say(**more: Any) -> None:
        facts.update(more)
        print(json.dumps(facts, default=str), file=out, flush=True)

    PROBES[probe](say)
    print("end", file=out, flush=True)
    os._exit(0)  # at once: taking libraries down costs time, and some hang or crash at it


def words(error: BaseException) -> str:
    """An error as one text: its kind, and the first part of what it says."""
    return f"{type(error).__name__}: {error}"[:2000]


def load(linux: str, windows: str) -> ctypes.CDLL:
    """Load a library of the driver."""
    return ctypes.CDLL(windows if sys.platform == "win32" else linux)


def loaded_from(name: str) -> str | None:
    """Return the file that a library was really loaded from, which a search path can change."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text(errors="replace").splitlines() if maps.exists() else []
    return next((line.split(maxsplit=5)[-1] for line in lines if f"/{name}" in line), None)


def cuda(say: Say) -> None:
    """Start CUDA's driver, and make a context on each card."""
    try:
        driver = load("libcuda.so.1", "nvcuda.dll")
    except OSError as error:
        return say(error=words(error))
    say(path=loaded_from("libcuda.so"))
    number = ctypes.c_int(0)
    if driver.cuDriverGetVersion(ctypes.byref(number)) == 0:  # answers without a device
        say(version=number.value)
    code = driver.cuInit(0)
    say(init=code)
    if code or driver.cuDeviceGetCount(ctypes.byref(number)):
        return None
    devices = []
    for index in range(min(number.value, MAX_CARDS)):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(100)
        driver.cuDeviceGet(ctypes.byref(device), index)
        driver.cuDeviceGetName(name, 100, device)
        capability = []
        for attribute in (75, 76):  # major, minor
            driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
            capability.append(number.value)
        # The primary context is the one that PyTorch and Numba use.
        context = driver.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), device)
        devices.append({"name": text(name), "capability": capability, "context": context})
        say(devices=devices)
    return None


def text(buffer: Any) -> str:
    """What a library wrote into a buffer."""
    return bytes(buffer.value).decode(errors="replace")


def nvml(say: Say) -> None:
    """Ask the library behind nvidia-smi, which needs no CUDA."""
    try:
        library = load("libnvidia-ml.so.1", "nvml.dll")
    except OSError as error:
        return say(error=words(error))
    code = library.nvmlInit_v2()
    say(init=code)
    if code:
        return None
    number, name = ctypes.c_int(0), ctypes.create_string_buffer(100)
    if library.nvmlSystemGetDriverVersion(name, 100) == 0:
        say(driver=text(name))
    if library.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(number)) == 0:
        say(cuda=number.value)
    library.nvmlDeviceGetCount_v2(ctypes.byref(number))
    devices, refused = [], []
    for index in range(min(number.value, MAX_CARDS)):
        handle = ctypes.c_void_p()
        if code := library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
            refused.append(code)
        else:
            devices.append(nvml_device(library, handle))
        say(devices=devices, refused=refused)
    return None


class PciInfo(ctypes.Structure):
    """NVML's nvmlPciInfo_t."""

    _fields_ = [("short", ctypes.c_char * 16), ("ids", ctypes.c_uint * 5), ("bus", ctypes.c_char * 32)]


class Memory(ctypes.Structure):
    """NVML's nvmlMemory_t."""

    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Fabric(ctypes.Structure):
    """NVML's nvmlGpuFabricInfo_t."""

    _fields_ = [
        ("cluster", ctypes.c_ubyte * 16),
        ("status", ctypes.c_int),
        ("clique", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
    ]


def nvml_device(library: ctypes.CDLL, handle: ctypes.c_void_p) -> dict[str, Any]:
    """Describe one card; what a card or an old library does not tell is left out."""

    def ask(function: str, *arguments: Any) -> bool:
        call = getattr(library, function, None)
        return call is not None and call(handle, *arguments) == 0

    facts: dict[str, Any] = {}
    name, pci, memory, fabric = ctypes.create_string_buffer(100), PciInfo(), Memory(), Fabric()
    first, second, many = ctypes.c_uint(0), ctypes.c_uint(0), ctypes.c_ulonglong(0)
    if ask("nvmlDeviceGetName", name, 100):
        facts["name"] = text(name)
    if ask("nvmlDeviceGetPciInfo_v3", ctypes.byref(pci)):
        facts["bus"] = pci.bus.decode(errors="replace")
    if ask("nvmlDeviceGetMigMode", ctypes.byref(first), ctypes.byref(second)) and first.value == MIG:
        facts.update(mig=True, mig_instances=sum(mig_instances(library, handle)))
    if ask("nvmlDeviceGetComputeMode", ctypes.byref(first)):
        facts["exclusive"] = first.value in EXCLUSIVE
    count = ctypes.c_uint(0)  # with room for none, the call fails but tells how many there are
    ask("nvmlDeviceGetComputeRunningProcesses_v3", ctypes.byref(count), None)
    facts["processes"] = count.value
    if ask("nvmlDeviceGetMemoryInfo", ctypes.byref(memory)):
        facts.update(memory=memory.total, memory_used=memory.used)
    if ask("nvmlDeviceGetTotalEccErrors", 1, 0, ctypes.byref(many)):  # uncorrected, since the driver started
        facts["ecc_errors"] = many.value
    if ask("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.byref(many)):
        facts["throttle"] = many.value
    if ask("nvmlDeviceGetGpuFabricInfo", ctypes.byref(fabric)) and 0 < fabric.state < len(FABRIC):
        facts["fabric"] = FABRIC[fabric.state]
    return facts


def mig_instances(library: ctypes.CDLL, handle: ctypes.c_void_p) -> list[bool]:
    """Whether each place for a MIG instance is taken."""
    part = ctypes.c_void_p()
    return [library.nvmlDeviceGetMigDeviceHandleByIndex(handle, index, ctypes.byref(part)) == 0 for index in range(8)]


def torch(say: Say) -> None:
    """Import PyTorch, and let the best card compute something whose result is known."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            import torch
        except BaseException as error:  # whatever is found in its place, SystemExit included
            return say(error=words(error))
        say(imported=True, mps=torch.backends.mps.is_built())
        kinds: dict[str, Any] = {kind: getattr(torch, kind, None) for kind in ("cuda", "xpu", "mps")}
        here = {**kinds, "mps": torch.backends.mps}
        kind = next((kind for kind, module in here.items() if module and module.is_available()), None)
        say(kind=kind, archs=torch.cuda.get_arch_list(), warnings=[str(warning.message)[:2000] for warning in caught])
    if kind is None:
        return None
    name = getattr(kinds[kind], "get_device_name", lambda _: "Apple GPU")
    say(names=[name(index) for index in range(min(kinds[kind].device_count(), MAX_CARDS))])
    try:
        numbers = torch.arange(1 << 12, dtype=torch.float32).reshape(64, 64)
        expected = (numbers @ numbers.T).sum() + 1.0
        there = numbers.to(kind)
        got = ((there @ there.T).sum() + 1.0).cpu()
        say(kernel="right" if torch.isclose(got, expected, rtol=1e-2) else "wrong")
    except Exception as error:
        say(kernel=words(error))
    return None


def numba(say: Say) -> None:
    """Compile a kernel with Numba, which needs no card, and run it where there is one."""
    try:
        numba: Any = importlib.import_module("numba")
        numba_cuda: Any = importlib.import_module("numba.cuda")
    except BaseException as error:  # whatever is found in its place, SystemExit included
        return say(error=words(error))
    simulator = bool(numba.config.ENABLE_CUDASIM)
    say(
        simulator=simulator,
        disabled=bool(numba.config.DISABLE_CUDA),
        built_in=getattr(numba_cuda, "implementation", "") == "Built-in",
    )
    if simulator:
        return None

    def add_one(out: Any) -> None:
        where = numba_cuda.grid(1)
        if where < out.size:
            out[where] += 1.0

    try:
        say(**compiled(numba_cuda, add_one))
        if numba_cuda.is_available():
            import numpy as np

            there = numba_cuda.to_device(np.arange(100, dtype=np.float32))
            numba_cuda.jit(add_one)[4, 32](there)
            say(kernel="right" if (there.copy_to_host() == np.arange(1, 101)).all() else "wrong")
    except BaseException as error:
        say(**{"kernel" if numba_cuda.is_available() else "toolchain": words(error)})
    return None


def compiled(numba_cuda: Any, kernel: Callable[..., None]) -> dict[str, Any]:
    """Compile a kernel to PTX, and tell which driver can load that."""
    import numba

    try:
        ptx, _ = numba_cuda.compile_ptx(kernel, numba.void(numba.float32[:]), cc=(7, 5))
    except Exception as error:
        return {"toolchain": words(error)}
    version = ptx.partition(".version ")[2].split()[0]
    needs = None
    with suppress(Exception):  # an old toolkit has no such table, or not this version
        utils: Any = importlib.import_module("cuda.bindings.utils")
        needs = utils.get_minimal_required_cuda_ver_from_ptx_ver(version)
    return {"toolchain": "works", "ptx": version, "needs": needs}


PROBES: dict[str, Callable[[Say], None]] = {"cuda": cuda, "nvml": nvml, "torch": torch, "numba": numba}

if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:]))
