"""Collect the facts about this machine with the standard library; what can hang or crash runs in a child process."""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import util
from pathlib import Path
from threading import Event
from typing import Any, Callable

from firstlight_doctor.children import in_child, stop_all
from firstlight_doctor.redaction import redacted, secrets
from firstlight_doctor.schema import HUNG, Facts

Run = Callable[[str, "Mapping[str, str]", float], "dict[str, Any]"]

SECONDS = {"nvml": 15.0, "cuda": 15.0, "torch": 90.0, "numba": 60.0}  # at most
PCI_VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
ROOM = 2**31  # bytes of a card that PyTorch and Numba need at most, together
MAX_BYTES = 2_000_000  # of one file
MODULES = ("nvidia", "nvidia_uvm", "nouveau", "amdgpu", "i915", "xe")
MODULE_FOLDERS = ("updates", "extra", "extramodules", "weak-updates", "kernel")  # distributions differ
NVIDIA_MODULES = ("**/nvidia.ko*", "**/nvidia-current.ko*")  # the latter is Debian's
NODES = ("nvidia[0-9]*", "nvidiactl", "nvidia-uvm", "kfd", "dri/renderD*", "dxg", "nvhost-gpu", "nvmap")
LOOKED_FOR = ("apt", "cc", "conda", "dnf", "mokutil", "nvcc", "nvidia-smi", "pacman", "sbatch", "uv", "zypper")
VARIABLES = re.compile(
    "CUDA_(VISIBLE_DEVICES|DEVICE_ORDER|HOME|PATH|LAUNCH_BLOCKING|MODULE_LOADING)|CONDA_OVERRIDE_CUDA|"
    "NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES)|(HIP|ROCR)_VISIBLE_DEVICES|HSA_OVERRIDE_GFX_VERSION|"
    "ZE_AFFINITY_MASK|ONEAPI_DEVICE_SELECTOR|LD_(LIBRARY_PATH|PRELOAD)|"
    "NUMBA_(ENABLE_CUDASIM|DISABLE_CUDA|CUDA_DRIVER|CUDA_USE_NVIDIA_BINDING|DISABLE_JIT)|"
    "FIRSTLIGHT_DEVICE|SLURM_(JOB_ID|JOB_GPUS|GPUS_ON_NODE)|PYTORCH_NVML_BASED_CUDA_CHECK|PYTORCH_ENABLE_MPS_FALLBACK"
)
PACKAGES = re.compile("torch|pytorch.*|triton.*|num(ba|py)|numba-cuda|(nvidia|cuda|cupy|intel)-.*|pyopencl")
_exists = os.path.exists  # Path.exists raises an error in a folder that is closed to this user
CONDA = re.compile(r"(pytorch|libtorch|cuda|nvidia|numba|mkl)[a-z-]*-\d.*")


def collect(root: str | Path = "/", env: Mapping[str, str] | None = None, run: Run | None = None) -> Facts:
    """Find out everything the doctor judges. It never fails: what cannot be found out is missing.

    Names of users and hosts, home folders and numbers that tell one card from all others are taken out.

    Parameters
    ----------
    root
        Where ``/proc``, ``/sys``, ``/dev`` and ``/etc`` are: a host's tree, mounted in a container.
    env
        The environment, by default that of this process; the probes run in it.
    run
        Runs a probe by name in that environment for so many seconds at most; by default in a child process.

    Examples
    --------
    >>> collect().system.os in ("linux", "darwin", "windows")
    True
    """
    root, env, run = Path(root), os.environ if env is None else env, run or in_child
    facts: dict[str, Any] = {
        "system": system(root, env),
        "gpus": list(gpus(root)),
        "nodes": list(nodes(root)),
        "kernel": kernel(root),
        "env": {name: value for name, value in env.items() if VARIABLES.fullmatch(name)},
        "packages": packages(),
    }
    # NVML counts what runs on a card, so it is asked before the others hold one.
    for name in ("nvml", "cuda"):
        facts[name] = run(name, env, SECONDS[name])
    idle = Event()
    if facts["cuda"].get("failed", "").startswith(HUNG):  # then all that use the driver would
        idle.set()

    def ask(name: str) -> dict[str, Any]:
        return {} if idle.is_set() else run(name, env, SECONDS[name])

    together = not facts["cuda"].get("devices") or has_room(facts["nvml"])
    with ThreadPoolExecutor(2 if together else 1) as pool:
        try:
            facts["torch"], facts["numba"] = pool.map(ask, ("torch", "numba"))
        except BaseException:  # an interrupt: the pool waits for its threads, and they for their probes
            idle.set()
            stop_all()
            raise
    installed = facts["packages"]
    facts["torch"] = {"version": installed.get("torch"), **wheel(), **facts["torch"]}
    facts["numba"] = {"version": installed.get("numba"), "target": installed.get("numba-cuda"), **facts["numba"]}
    hidden = secrets(env)
    return Facts.of({name: readable(name, redacted(part, hidden)) for name, part in facts.items()})


def has_room(nvml: Mapping[str, Any]) -> bool:
    """Whether every card admits two processes at once, and has memory for both."""
    cards = nvml.get("devices") or [{}]
    return all(
        card.get("exclusive") is False and card.get("memory", 0) - card.get("memory_used", 0) >= ROOM for card in cards
    )


def readable(name: str, part: Any) -> Any:
    """Return what of a part of the facts can be read; what a probe gave must not take the rest with it."""
    if not (problem := misfit({name: part})):
        return part
    kept = {key: value for key, value in part.items() if not misfit({name: {key: value}})}
    return {"failed": f"gave what cannot be read: {problem}", **kept}


def misfit(content: dict[str, Any]) -> str:
    """Return what is wrong with the shape of facts; nothing where they fit."""
    try:
        Facts.of(content)
    except ValueError as error:
        return str(error)
    return ""


def system(root: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Describe the operating system and this Python."""
    version = _read(root / "proc/version")
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)', _read(root / "etc/os-release"), re.MULTILINE))
    prefix = Path(sys.prefix) / "conda-meta"
    return {
        "os": platform.system().lower(),
        "machine": platform.machine(),
        "distro": [*release.get("ID", "").split(), *release.get("ID_LIKE", "").split()],
        "kernel": platform.release() if platform.system() == "Linux" else None,
        "macos": platform.mac_ver()[0] or None,
        "rosetta": platform.system() == "Darwin" and "_ARM64_" in platform.version() and platform.machine() == "x86_64",
        "python": platform.python_version(),
        "executable": sys.executable,
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "conda": sorted(path.stem for path in _entries(prefix, "*.json") if CONDA.fullmatch(path.stem)),
        "commands": [name for name in LOOKED_FOR if shutil.which(name, path=env.get("PATH"))],
        "python_h": Path(sysconfig.get_path("include"), "Python.h").exists(),
        "wsl": "microsoft" in version.lower(),
        "container": container(root, env),
        "tegra": "tegra" in _read(root / "proc/device-tree/compatible").lower() or "tegra" in version.lower(),
        "secure_boot": secure_boot(root),
        "root": hasattr(os, "geteuid") and os.geteuid() == 0,
        "memory_limit": memory_limit(),
        "shadowed": [name for name in ("torch.py", "numba.py", "numpy.py", "cuda.py") if _exists(name)],
    }


def container(root: Path, env: Mapping[str, str]) -> str | None:
    """Tell which kind of container this process runs in."""
    if env.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if env.get("APPTAINER_CONTAINER") or env.get("SINGULARITY_CONTAINER"):
        return "apptainer"
    if _exists(root / "run/.containerenv"):
        return "podman"
    return "docker" if _exists(root / ".dockerenv") else None


def secure_boot(root: Path) -> bool | None:
    """Tell whether the firmware admits signed kernel modules alone: the last byte of its variable."""
    for path in _entries(root / "sys/firmware/efi/efivars", "SecureBoot-*"):
        with suppress(OSError):
            return path.read_bytes()[-1:] == b"\x01"
    return None


def memory_limit() -> int | None:
    """Bytes of address space a process may ask for (``ulimit -v``), where there is a limit."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def gpus(root: Path) -> Iterator[dict[str, Any]]:
    """Look for cards on the bus."""
    if platform.system() == "Darwin" and (platform.machine() == "arm64" or "_ARM64_" in platform.version()):
        yield {"vendor": "apple"}
    if sys.platform == "win32":
        yield from windows_gpus()
    for path in _entries(root / "sys/bus/pci/devices", "*"):
        vendor = PCI_VENDORS.get(_read(path / "vendor").strip())
        if vendor and re.match("0x(03|12)", _read(path / "class")):  # display controllers and accelerators
            driver = None
            with suppress(OSError):
                driver = Path(os.readlink(path / "driver")).name
            yield {"vendor": vendor, "device": _read(path / "device").strip() or None, "driver": driver}


def windows_gpus() -> Iterator[dict[str, Any]]:
    """Look for cards in the registry of Windows."""
    winreg: Any = importlib.import_module("winreg")

    makers = {f"VEN_{number[2:].upper()}": name for number, name in PCI_VENDORS.items()}
    with suppress(OSError), winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SYSTEM\CurrentControlSet\Enum\PCI") as pci:
        for card in (winreg.EnumKey(pci, number) for number in range(winreg.QueryInfoKey(pci)[0])):
            with suppress(OSError, KeyError), winreg.OpenKey(pci, card) as key:  # not a card; one of another maker
                one = winreg.OpenKey(key, winreg.EnumKey(key, 0))
                if winreg.QueryValueEx(one, "ClassGUID")[0].lower() == "{4d36e968-e325-11ce-bfc1-08002be10318}":
                    device = re.search("DEV_([0-9A-F]{4})", card)
                    yield {"vendor": makers[card[:8]], "device": device and f"0x{device[1].lower()}"}


def nodes(root: Path) -> Iterator[dict[str, Any]]:
    """Look for device files, and try whether this user may open them."""
    for path in (path for pattern in NODES for path in _entries(root / "dev", pattern)):
        group = None
        with suppress(OSError, KeyError, NotImplementedError):
            group = path.group()
        usable = os.access(path, os.R_OK | os.W_OK)
        yield {"path": f"/dev/{path.relative_to(root / 'dev')}", "open": usable, "group": group}


def kernel(root: Path) -> dict[str, Any]:
    """Look at the driver's half inside the kernel."""
    said = _read(root / "proc/driver/nvidia/version")
    version = re.search(r"\s(\d{3,}\.[\d.]*\d)\s", said) or re.match(
        r"(\d{3,}\.[\d.]*\d)", _read(root / "sys/module/nvidia/version")
    )
    modules = root / "lib/modules" / platform.release()
    found = (path for name in NVIDIA_MODULES for place in MODULE_FOLDERS for path in _entries(modules / place, name))
    on_disk = next(found, None)
    return {
        "version": version and version[1],
        "open_module": "Open Kernel Module" in said if said else None,
        "loaded": [name for name in MODULES if _exists(root / "sys/module" / name)],
        "on_disk": on_disk and f"/{on_disk.relative_to(root)}",
        "log": kernel_log(root),
        "gfx": list(architectures(root)),
    }


def architectures(root: Path) -> Iterator[str]:
    """Read the names of AMD's architectures: 90010 stands for gfx90a, 0 for a processor."""
    for path in _entries(root / "sys/class/kfd/kfd/topology/nodes", "*/properties"):
        found = re.search(r"^gfx_target_version (\d+)$", _read(path), re.MULTILINE)
        if number := int(found[1]) if found else 0:
            yield f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}"


def kernel_log(root: Path) -> list[str]:
    """Return the last lines of the kernel's log about a GPU; most systems keep it from plain users."""
    text = ""
    if root == Path("/") and (dmesg := shutil.which("dmesg")):
        with suppress(OSError, subprocess.TimeoutExpired):
            text = subprocess.run([dmesg], capture_output=True, timeout=5).stdout.decode(errors="replace")
    # Each line of the file names the host.
    text = text or re.sub(r"(?m)^.*?\bkernel: ", "", _read(root / "var/log/kern.log", last=True))
    wanted = re.compile(
        r"NVRM|Xid|nouveau|module.* is rejected|nvidia.*(rejected|version|fail)|amdgpu.*(error|fail)", re.IGNORECASE
    )
    return [line[:500] for line in text.splitlines() if wanted.search(line)][-20:]


def wheel() -> dict[str, str]:
    """Read what PyTorch was built for out of its files, without running them."""
    text = ""
    with suppress(Exception):  # whatever is found in its place
        place = util.find_spec("torch")
        text = _read(Path(place.origin).with_name("version.py")) if place and place.origin else ""
    return dict(re.findall(r"^(cuda|hip|xpu)\b[^=\n]*= *['\"]([^'\"\n]+)", text, re.MULTILINE))


def packages() -> dict[str, str]:
    """Return the versions of packages that matter to a GPU, from the names of their folders."""
    found: dict[str, str] = {}
    for path in (path for folder in sys.path for path in _entries(Path(folder), "*-info")):
        named = re.fullmatch(r"([^-]+)-([^-]+)(-.*)?\.(dist|egg)-info", path.name)
        name = named[1].lower().replace("_", "-") if named else ""
        # What pip half removed has no such file.
        if named and PACKAGES.fullmatch(name) and (_exists(path / "METADATA") or _exists(path / "PKG-INFO")):
            found.setdefault(name, named[2])
    return dict(sorted(found.items()))


def _read(path: Path, last: bool = False) -> str:
    """Return the beginning of a file as text, or its end, and nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            if last:
                file.seek(max(0, path.stat().st_size - MAX_BYTES))
            return file.read(MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _entries(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []
