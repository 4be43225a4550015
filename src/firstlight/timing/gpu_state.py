"""The clock, power and temperature of an NVIDIA GPU at this moment, and what its driver slows it down for."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

# Those of NVML's reasons that mean less work a second; nvidia-smi lists them as "clocks event reasons".
REASONS = {0x04: "power", 0x08: "hardware", 0x20: "heat", 0x40: "heat", 0x80: "power supply"}


@dataclass(frozen=True)
class GpuState:
    """What the driver told of a GPU; None where it did not.

    Examples
    --------
    >>> str(GpuState(clock_hz=1.395e9, watts=698.4, celsius=71, slowed_by="power"))
    '1.40 GHz, 698 W, 71 °C, slowed down by power'
    """

    clock_hz: float | None = None
    watts: float | None = None
    celsius: float | None = None
    slowed_by: str | None = None  # such as "power", or "nothing"

    def __str__(self) -> str:
        facts = (self.clock_hz and self.clock_hz / 1e9, self.watts, self.celsius, self.slowed_by)
        said = ("{:.2f} GHz", "{:.0f} W", "{:.0f} °C", "slowed down by {}")
        return ", ".join(words.format(fact) for words, fact in zip(said, facts, strict=True) if fact is not None)


def gpu_state(device: str) -> GpuState | None:
    """Return the state of a GPU; None if it is none of NVIDIA's, or if nobody can ask for it.

    Examples
    --------
    >>> gpu_state("cpu") is None
    True
    """
    torch, nvml = sys.modules.get("torch"), _nvml()
    # Nor is a GPU started for it: that belongs to the first call.
    if nvml is None or torch is None or not device.startswith("cuda") or not torch.cuda.is_initialized():
        return None
    # By its UUID, because CUDA_VISIBLE_DEVICES numbers the GPUs anew.
    uuid = getattr(torch.cuda.get_device_properties(torch.device(device)), "uuid", None)
    handle = ctypes.c_void_p()
    if nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode(), ctypes.byref(handle)):
        return None

    def ask(question: str, *which: int, unit: float = 1.0) -> float | None:
        found = ctypes.c_ulonglong()  # also where NVML writes only its lower half
        return None if getattr(nvml, question)(handle, *which, ctypes.byref(found)) else found.value * unit

    reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    names = dict.fromkeys(name for bit, name in REASONS.items() if int(reasons or 0) & bit)
    return GpuState(
        clock_hz=ask("nvmlDeviceGetClockInfo", 1, unit=1e6),  # of the multiprocessors
        watts=ask("nvmlDeviceGetPowerUsage", unit=1e-3),
        celsius=ask("nvmlDeviceGetTemperature", 0),
        slowed_by=None if reasons is None else " and ".join(names) or "nothing",
    )


@cache
def _nvml() -> Any:
    """Return the driver's library that answers; None where there is none."""
    try:
        nvml = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
    except OSError:
        return None
    return None if nvml.nvmlInit_v2() else nvml
