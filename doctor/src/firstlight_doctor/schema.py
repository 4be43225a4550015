"""The shape of the facts about one machine, and how they become JSON and come back from it, whoever wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, Tuple, TypeVar, cast

T = TypeVar("T")
LONGEST = 20_000  # characters of one text in a report
LARGEST = 2**64
HUNG = "hung"  # begins what `failed` says of a probe that had to be stopped
# Numbers that rules say aloud: below 0, or beyond these, no machine has counted them.
LIMITS = {"Count": 2**53, "CudaVersion": 100_000}

# Texts that rules take apart or write into commands, which a reader may copy: nothing else may stand in them.
PATTERNS = {
    "Version": r"\d{1,9}\.\d{1,9}[\w.+-]{0,60}",
    "Name": r"[\w.][\w.+-]{0,80}",
    "Vendor": "nvidia|amd|intel|apple",
    "Container": "docker|podman|apptainer|kubernetes",
    "Capability": r"(\d{1,3}\.\d{1,3})?",
}
Version = str
Name = str
Vendor = str
Container = str
Capability = Tuple[int, ...]
Count = int
CudaVersion = int


@dataclass(frozen=True)
class System:
    """The machine without its GPU, and the Python that runs on it."""

    os: str = "linux"  # or "darwin", "windows"
    machine: str = "x86_64"  # the processor's kind, as this Python sees it: "arm64" and "aarch64" are ARM
    distro: tuple[str, ...] = ()  # a Linux distribution and those it descends from: "ubuntu", "debian"
    kernel: Name | None = None  # release of the Linux kernel
    macos: str | None = None
    rosetta: bool = False  # an Intel Python that an Apple chip translates
    python: Version = "3.11.0"
    executable: str | None = None  # of that Python
    free_threaded: bool = False
    conda: tuple[str, ...] = ()  # packages of PyTorch and CUDA that conda installed in this environment
    commands: tuple[str, ...] = ()  # those of LOOKED_FOR that are on the path
    python_h: bool | None = None  # whether C can be compiled against this Python
    wsl: bool = False
    container: Container | None = None
    tegra: bool = False  # an NVIDIA Jetson
    secure_boot: bool | None = None
    root: bool = False  # whether the user is the administrator
    memory_limit: int | None = None  # bytes of address space that a process may ask for
    shadowed: tuple[Name, ...] = ()  # files of the working folder that hide a package: "torch.py"


@dataclass(frozen=True)
class Gpu:
    """A card on the bus; `driver` is what Linux runs it with."""

    vendor: Vendor
    device: str | None = None  # the maker's number of the model, such as "0x2335"
    driver: str | None = None


@dataclass(frozen=True)
class Node:
    """A device file, and whether this user may open it."""

    path: str
    open: bool = True
    group: Name | None = None


@dataclass(frozen=True)
class Kernel:
    """The driver's half inside the Linux kernel."""

    version: Version | None = None  # of the NVIDIA module that runs
    open_module: bool | None = None  # NVIDIA's open kernel module, or its older closed one
    loaded: tuple[str, ...] = ()  # of nvidia, nvidia_uvm, nouveau, amdgpu, i915, xe
    on_disk: str | None = None  # path of an NVIDIA module for this kernel, installed though perhaps not loaded
    log: tuple[str, ...] = ()  # lines of the kernel's log that name the GPU, where the user may read it
    gfx: tuple[str, ...] = ()  # the architectures of AMD's cards, as amdgpu names them: "gfx1100"


@dataclass(frozen=True)
class CudaDevice:
    """A card as CUDA sees it."""

    name: str = ""
    capability: Capability = ()
    context: int | None = None  # the code that making a context returned: 0 is success


@dataclass(frozen=True)
class Cuda:
    """The driver's library, asked without PyTorch."""

    path: str | None = None  # the file that was really loaded
    error: str | None = None  # why it was not
    version: CudaVersion | None = None  # 13000: up to CUDA 13.0
    init: int | None = None  # what cuInit returned
    devices: tuple[CudaDevice, ...] = ()
    failed: str | None = None  # how the probe itself ended, if it did not end well


@dataclass(frozen=True)
class NvmlDevice:
    """A card as NVML, the library behind nvidia-smi, sees it."""

    name: str = ""
    bus: str = ""  # its place on the bus, such as "0000:3b:00.0"
    mig: bool = False
    mig_instances: Count = 0
    exclusive: bool = False  # one process at a time
    processes: Count = 0  # that compute on it
    memory: Count | None = None
    memory_used: Count | None = None
    ecc_errors: Count = 0  # that could not be corrected
    throttle: int = 0  # NVML's bits for why the clock is held down
    fabric: str | None = None  # state of an NVSwitch fabric: "completed" is well


@dataclass(frozen=True)
class Nvml:
    """The library behind nvidia-smi."""

    error: str | None = None  # why it was not loaded
    init: int | None = None  # what nvmlInit returned
    driver: str | None = None
    cuda: CudaVersion | None = None  # what nvidia-smi calls "CUDA Version"
    devices: tuple[NvmlDevice, ...] = ()
    refused: tuple[int, ...] = ()  # codes for cards that it found and could not reach: 15 is a lost one
    failed: str | None = None


@dataclass(frozen=True)
class Torch:
    """PyTorch, as installed and as it behaves."""

    version: Version | None = None  # as installed, so known even if it cannot be imported
    cuda: Version | None = None  # what the wheel was built for
    hip: str | None = None
    xpu: str | None = None
    mps: bool = False
    imported: bool = False
    error: str | None = None  # of the import
    warnings: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()  # that the wheel has code for: "sm_90", "gfx942"
    kind: str | None = None  # what PyTorch finds: "cuda" (AMD's too), "xpu", "mps"
    names: tuple[str, ...] = ()  # the cards in PyTorch's order
    kernel: str | None = None  # "right", "wrong", or the error of the first computation
    failed: str | None = None


@dataclass(frozen=True)
class Numba:
    """Numba and its CUDA target."""

    version: Version | None = None
    target: Version | None = None  # version of numba-cuda
    error: str | None = None  # of the import
    built_in: bool = False  # the old target inside Numba is used
    simulator: bool = False
    disabled: bool = False
    toolchain: str | None = None  # "works", or the error of compiling a kernel
    ptx: str | None = None  # version of the PTX it writes, such as "9.0"
    needs: CudaVersion | None = None  # the CUDA that a driver must know for that: 13000
    kernel: str | None = None  # "right", "wrong", or the error
    failed: str | None = None


@dataclass(frozen=True)
class Facts:
    """Everything that the doctor looks at. What was not found out is missing or None.

    Examples
    --------
    >>> Facts.of({"gpus": [{"vendor": "nvidia", "driver": "nouveau"}]}).gpus[0].driver
    'nouveau'
    """

    system: System = field(default_factory=System)
    gpus: tuple[Gpu, ...] = ()
    nodes: tuple[Node, ...] = ()
    kernel: Kernel = field(default_factory=Kernel)
    env: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    cuda: Cuda = field(default_factory=Cuda)
    nvml: Nvml = field(default_factory=Nvml)
    torch: Torch = field(default_factory=Torch)
    numba: Numba = field(default_factory=Numba)
    said: str = ""  # an error that the reader met, in its own words

    @classmethod
    def of(cls, content: Any) -> Facts:
        """Read facts from JSON. A ValueError names what does not fit."""
        return build(cls, content, "facts")

    def content(self) -> dict[str, Any]:
        """Return the facts as JSON has them, without what is not known."""
        return cast("dict[str, Any]", _known(self))


def build(shape: type[T], content: Any, place: str) -> T:
    """Make a dataclass of ours from JSON, checking every value on the way."""
    if not isinstance(content, dict):
        raise ValueError(f"{place} must be an object, not {_brief(content)}")
    parts = {part.name: part for part in fields(cast("Any", shape))}
    if unknown := sorted(map(str, content.keys() - parts.keys())):
        raise ValueError(f"{place} has an unknown key {unknown[0]!r:.60}; known are {', '.join(parts)}")
    for name, part in parts.items():
        if part.default is part.default_factory is MISSING and name not in content:
            raise ValueError(f"{place}.{name} is missing")
    return shape(**{name: _value(str(parts[name].type), value, f"{place}.{name}") for name, value in content.items()})


def _value(kind: str, value: Any, place: str) -> Any:
    """Check a value against its kind as it stands above, which Python 3.8 could not evaluate."""
    if kind.endswith(" | None"):
        return None if value is None else _value(kind[: -len(" | None")], value, place)
    if kind == "Mapping[str, str]":
        if not isinstance(value, dict):
            raise ValueError(f"{place} must be an object, not {_brief(value)}")
        return {_value("str", key, place): _value("str", item, f"{place}[{key!r:.60}]") for key, item in value.items()}
    if kind.startswith("tuple["):
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{place} must be a list, not {_brief(value)}")
        inner = kind[len("tuple[") : -len(", ...]")]
        return tuple(_value(inner, item, f"{place}[{number}]") for number, item in enumerate(value))
    if kind in PATTERNS:
        plain = _value("tuple[int, ...]" if kind == "Capability" else "str", value, place)
        if not re.fullmatch(PATTERNS[kind], plain if isinstance(plain, str) else ".".join(map(str, plain))):
            raise ValueError(f"{place} must be like {PATTERNS[kind]}, not {_brief(value)}")
        return plain
    if kind in LIMITS:
        number: int = _value("int", value, place)
        if not 0 <= number < LIMITS[kind]:
            raise ValueError(f"{place} must be from 0 to {LIMITS[kind] - 1}, not {number}")
        return number
    if kind not in PLAIN_KINDS:
        return build(globals()[kind], value, place)
    if type(value).__name__ != kind:
        raise ValueError(f"{place} must be {PLAIN_KINDS[kind]}, not {_brief(value)}")
    if kind == "str" and len(value) > LONGEST:
        raise ValueError(f"{place} is longer than {LONGEST} characters")
    if kind == "str" and re.search("[\ud800-\udfff]", value):
        raise ValueError(f"{place} has half a character in it")
    if kind == "int" and not abs(value) < LARGEST:
        raise ValueError(f"{place} is beyond every number that a machine reports")
    return value


def _brief(value: Any) -> str:
    return type(value).__name__ if isinstance(value, (dict, list, tuple)) else f"{value!r:.60}"


PLAIN_KINDS = {"str": "a text", "int": "a whole number", "bool": "true or false"}


def _known(content: Any) -> Any:
    """Leave out what is None or empty; False, 0, and a variable that is set to nothing, are facts."""
    if is_dataclass(content):
        values = [(part, getattr(content, part.name)) for part in fields(content)]
        known = [(part, value) for part, value in values if value not in (None, (), {})]
        return {part.name: _known(value) for part, value in known if not value == "" == part.default}
    if isinstance(content, tuple):
        return [_known(value) for value in content]
    return dict(content) if isinstance(content, Mapping) else content
