"""Which devices this machine has, which one is best, and a card that describes one."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

VARIABLE = "FIRSTLIGHT_DEVICE"
ARM_MAKERS = {"0x41": "Arm", "0x46": "Fujitsu", "0x48": "HiSilicon", "0x61": "Apple", "0xc0": "Ampere"}


@dataclass(frozen=True)
class Card:
    """What is known about a device; None where the driver or the operating system does not say.

    Examples
    --------
    >>> Card("NVIDIA H200", "cuda", capability=(9, 0)).slug
    'nvidia-h200'
    """

    name: str
    kind: Literal["cuda", "rocm", "xpu", "mps", "cpu"]
    capability: tuple[int, int] | None = None  # NVIDIA's compute capability
    architecture: str | None = None  # what AMD has in its place, such as "gfx942"
    multiprocessors: int | None = None
    cores: int | None = None  # those that this process may use
    threads_per_core: int | None = None  # of the CPU, as far as a virtual machine tells
    model: str | None = None  # of the CPU, since a name may be that of a family
    clock_hz: int | None = None  # the highest, not the present one
    memory_bytes: int | None = None
    memory_clock_hz: int | None = None
    bus_bits: int | None = None
    cache_bytes: int | None = None  # the last level the system tells of, all of it
    driver: str | None = None
    libraries: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def slug(self) -> str:
        """The name in small letters, digits and hyphens, fit for a file name.

        Examples
        --------
        >>> Card("Intel(R) Xeon(R) CPU @ 2.20GHz", "cpu").slug
        'cpu-intel-xeon'
        """
        plain = re.sub(r"\((r|tm)\)|\bcpu\b|@.*", " ", self.name.lower())
        words = re.findall(r"[a-z0-9]+", plain) or ["unknown"]
        return "-".join(["cpu", *words] if self.kind == "cpu" else words)

    def rows(self) -> list[tuple[str, str]]:
        """Return labels and values for a person to read, without what is unknown.

        Examples
        --------
        >>> Card("AMD EPYC", "cpu", cores=2, cache_bytes=32 * 2**20).rows()
        [('name', 'AMD EPYC'), ('kind', 'cpu'), ('cores', '2'), ('last cache', '32 MiB')]
        """
        facts = {
            "name": self.name,
            "kind": self.kind,
            "capability": self.capability and "{}.{}".format(*self.capability),
            "architecture": self.architecture,
            "multiprocessors": self.multiprocessors,
            "model": self.model,
            "cores": self.cores,
            "threads a core": self.threads_per_core,
            "clock": _in_units(self.clock_hz, 1000, "Hz kHz MHz GHz"),
            "memory": _in_units(self.memory_bytes, 1024, "B KiB MiB GiB TiB"),
            "memory clock": _in_units(self.memory_clock_hz, 1000, "Hz kHz MHz GHz"),
            "memory bus": self.bus_bits and f"{self.bus_bits} bit",
            "last cache": _in_units(self.cache_bytes, 1024, "B KiB MiB GiB TiB"),
            "driver": self.driver,
            "libraries": ", ".join(f"{name} {version}" for name, version in self.libraries.items()) or None,
        }
        return [(label, str(value)) for label, value in facts.items() if value is not None]


def all_devices() -> list[torch.device]:
    """Return every device PyTorch can use: CUDA or ROCm, then XPU, then MPS, then the CPU.

    Examples
    --------
    >>> all_devices()[-1]
    device(type='cpu')
    """
    torch = load_torch()
    # A count alone proves nothing: it may come from a driver that cannot start.
    counts = {
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "xpu": torch.xpu.device_count() if torch.xpu.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
    }
    found = [torch.device(kind, index) for kind, count in counts.items() for index in range(count)]
    return [*found, torch.device("cpu")]


def load_torch() -> Any:
    """Return PyTorch; where it is not installed, say how to get it."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        words = "PyTorch, which finds the devices, is not installed: python -m pip install torch"
        raise ModuleNotFoundError(words, name="torch") from None
    return torch


def best_device() -> torch.device:
    """Return the device to compute on: CUDA or ROCm, then XPU, then MPS, then the CPU.

    The environment variable ``FIRSTLIGHT_DEVICE`` chooses instead: ``cuda`` or ``cpu`` names the first of a kind, and
    ``cuda:1`` a single device. Without PyTorch there is no such device, and you get an ImportError.

    Examples
    --------
    >>> best_device() in all_devices()
    True
    """
    devices = all_devices()
    wanted = os.environ.get(VARIABLE, "").strip()
    return _named(wanted, devices, f"{VARIABLE}={wanted!r}") if wanted else devices[0]


def card(device: torch.device | str | None = None) -> Card:
    """Describe a device, by default the best one.

    Parameters
    ----------
    device
        A device or its name, such as ``"cuda:1"``; ``"cuda"`` means the first of its kind. The CPU needs no PyTorch,
        and is the best device without it.

    Examples
    --------
    >>> card("cpu").kind
    'cpu'
    """
    if device is None:
        try:
            device = best_device()
        except (ImportError, OSError):  # PyTorch is missing, or its libraries do not load
            device = os.environ.get(VARIABLE, "").strip() or "cpu"
    name = str(device)
    if name.strip().lower() in ("cpu", "cpu:0"):  # apart from the rest, because it needs no PyTorch
        return _mac_card() if platform.system() == "Darwin" else _cpu_card()
    found = _named(name, all_devices(), f"card({name!r})")
    return _mps_card() if found.type == "mps" else _gpu_card(found)


def _named(name: str, devices: list[torch.device], asked: str) -> torch.device:
    """Return the first device that a name such as "cuda" or "cuda:1" means."""
    wanted = name.strip().lower()
    found = [d for d in devices if wanted in (d.type, f"{d.type}:{d.index or 0}")]
    if not found:
        raise ValueError(f"{asked}: no such device. Choose from what this machine has: {', '.join(map(str, devices))}.")
    return found[0]


def _gpu_card(device: torch.device) -> Card:
    torch = load_torch()
    facts = torch.get_device_module(device).get_device_properties(device)
    describe = _intel_card if device.type == "xpu" else _amd_card if torch.version.hip else _nvidia_card
    libraries = _libraries(cuda=torch.version.cuda, hip=torch.version.hip, xpu=getattr(torch.version, "xpu", None))
    return replace(describe(facts), libraries=libraries)


def _nvidia_card(facts: Any) -> Card:
    name, capability = facts.name.strip() or "GPU", (facts.major, facts.minor)
    return Card(name, "cuda", capability, driver=_nvidia_driver(), **_numbers(facts))


def _amd_card(facts: Any) -> Card:
    architecture = facts.gcnArchName.partition(":")[0]
    name = facts.name.strip() or architecture or "GPU"  # some ROCm installations know no names
    driver = _read(Path("/sys/module/amdgpu/version")).strip() or None
    return Card(name, "rocm", architecture=architecture, driver=driver, **_numbers(facts))


def _intel_card(facts: Any) -> Card:
    name, driver = facts.name.strip() or "GPU", (facts.driver_version or "").strip() or None
    return Card(name, "xpu", driver=driver, **_numbers(facts, "gpu_subslice_count", "last_level_cache_size", 1_000_000))


def _numbers(
    facts: Any, processors: str = "multi_processor_count", cache: str = "L2_cache_size", memory_clock_hz: int = 1000
) -> dict[str, Any]:
    """Return what PyTorch was told of a GPU: makers differ in two names, and in the unit of the memory's clock."""
    found = {
        "multiprocessors": (processors, 1),
        "clock_hz": ("clock_rate", 1000),
        "memory_bytes": ("total_memory", 1),
        "memory_clock_hz": ("memory_clock_rate", memory_clock_hz),
        "bus_bits": ("memory_bus_width", 1),
        "cache_bytes": (cache, 1),
    }
    return {key: _amount(getattr(facts, name, None), unit) for key, (name, unit) in found.items()}


def _mps_card() -> Card:
    torch = load_torch()
    chip = _mac_card()  # the GPU is on the CPU's chip and shares its memory
    count = getattr(torch.backends.mps, "get_core_count", lambda: None)  # newer than the oldest torch we take
    return Card(
        name=chip.name,
        kind="mps",
        multiprocessors=_amount(count()),
        memory_bytes=chip.memory_bytes,
        driver=f"macOS {platform.mac_ver()[0]}",
        libraries=_libraries(),
    )


def _mac_card() -> Card:
    caches = ("hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize")
    counts = ("hw.logicalcpu", "hw.physicalcpu")
    text = _output("sysctl", "machdep.cpu.brand_string", "hw.memsize", *counts, *caches)
    logical, physical = (_amount(_value(text, key)) for key in counts)
    return Card(
        name=_value(text, "machdep.cpu.brand_string") or platform.machine(),
        kind="cpu",
        cores=_usable_cores(),
        threads_per_core=logical // physical if logical and physical else None,
        memory_bytes=_amount(_value(text, "hw.memsize")),
        cache_bytes=next((size for key in caches if (size := _amount(_value(text, key)))), None),
        libraries=_libraries(),
    )


def _cpu_card(root: Path = Path("/")) -> Card:
    """Describe a CPU by the files that Linux keeps; elsewhere there are none, and little is known."""
    cpuinfo = _read(root / "proc/cpuinfo")
    maker = ARM_MAKERS.get(_value(cpuinfo, "CPU implementer"), "")
    numbers = {"family": "cpu family", "model": "model", "part": "CPU part"}
    model = [f"{word} {number}" for word, key in numbers.items() if (number := _value(cpuinfo, key))]
    siblings = _read(root / "sys/devices/system/cpu/cpu0/topology/thread_siblings")  # a mask, as "0001,00000001"
    return Card(
        name=_value(cpuinfo, "model name") or f"{maker} {platform.processor() or platform.machine()}".strip(),
        kind="cpu",
        cores=_usable_cores(root),
        threads_per_core=int(siblings.replace(",", "") or "0", 16).bit_count() or None,
        model=", ".join(model) or None,
        clock_hz=_amount(_read(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"), 1000),
        memory_bytes=_amount(_value(_read(root / "proc/meminfo"), "MemTotal"), 1024),
        cache_bytes=_linux_cache(root),
        libraries=_libraries(),
    )


def _linux_cache(root: Path) -> int | None:
    """Add up the caches of the last level; cores that share one name it by the same list of cores."""
    sizes = {}
    for cache in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cache/index[0-9]*"):
        if _read(cache / "type").strip() != "Instruction":
            level, sharers = _amount(_read(cache / "level")) or 0, _read(cache / "shared_cpu_list")
            sizes[level, sharers] = _amount(_read(cache / "size"), 1024) or 0
    last = max((level for level, _ in sizes), default=0)
    return sum(size for (level, _), size in sizes.items() if level == last) or None


def _nvidia_driver(root: Path = Path("/")) -> str | None:
    text = _read(root / "proc/driver/nvidia/version") or _output(
        "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"
    )
    found = re.search(r"^(?:NVRM version.*?\s)?(\d{3,}\.[\d.]*\d)\b", text)
    return found[1] if found else None


def _usable_cores(root: Path = Path("/")) -> int | None:
    """Return how many cores this process may use: those it may run on, or what a container or a batch job grants it."""
    if sys.version_info >= (3, 13):
        cores = os.process_cpu_count()
    else:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min([cores, *map(ceil, _quotas(root))]) if cores else None


def _quotas(root: Path) -> Iterator[float]:
    """Yield the cores that this process's control groups grant it, and those above them."""
    for controllers, path in re.findall(r"^\d+:(.*?):(.*)", _read(root / "proc/self/cgroup"), re.MULTILINE):
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / controllers
        group = top / path.strip("/")
        for folder in (group, *(parent for parent in group.parents if parent.is_relative_to(top))):
            files = ["cpu.cfs_quota_us", "cpu.cfs_period_us"] if controllers else ["cpu.max"]
            quota, period = (*" ".join(_read(folder / file) for file in files).split(), "", "")[:2]
            if (granted := _amount(quota)) and (every := _amount(period)):
                yield granted / every


def _libraries(**runtimes: str | None) -> dict[str, str]:
    """Return versions without importing what they belong to."""
    from importlib import metadata

    found = {}
    for name in ("torch", "numba", "numba-cuda", "numba-cuda-mlir", "numpy"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found | {name: version for name, version in runtimes.items() if version}


def _read(path: Path) -> str:
    """Return the text of a file, and nothing where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _output(*command: str) -> str:
    """Return what a command prints, and nothing where it is missing or hangs."""
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=5).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _value(text: str, key: str) -> str:
    """Return what stands behind the first `key:` of a text."""
    found = re.search(rf"^{re.escape(key)}[ \t]*:[ \t]*(.*)", text, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def _amount(value: object, unit: int = 1) -> int | None:
    """Return a number, or the one a text begins with, in plain units; a driver's 0 means "not known"."""
    digits = re.match(r"\d+", str(value))
    return int(digits[0]) * unit or None if digits else None


def _in_units(value: int | None, step: int, units: str) -> str | None:
    """Write 60 * 2**20 as 60 MiB."""
    if value is None:
        return None
    power, unit = max((p, unit) for p, unit in enumerate(units.split()) if step**p <= max(value, 1))
    return f"{value / step**power:.4g} {unit}"
