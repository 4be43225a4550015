"""Collect the facts about this machine with the standard library; what can hang or crash runs in a child process."""

from __future__ import annotations

import getpass
import importlib
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import metadata, util
from pathlib import Path
from typing import Any

from firstlight.doctor.shapes import LONGEST, Facts

Run = Callable[[str, Mapping[str, str], float], dict[str, Any]]

SECONDS = {"cuda": 15.0, "nvml": 15.0, "torch": 90.0, "numba": 60.0}
VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
MODULES = ("nvidia", "nvidia_uvm", "nouveau", "amdgpu", "i915", "xe")
NODES = ("nvidia[0-9]*", "nvidiactl", "nvidia-uvm", "kfd", "dri/renderD*", "dxg", "nvhost-gpu", "nvmap")
COMMANDS = ("apt", "cc", "conda", "dnf", "mokutil", "nvcc", "nvidia-smi", "pacman", "sbatch", "uv", "zypper")
VARIABLES = re.compile(
    "CUDA_(VISIBLE_DEVICES|DEVICE_ORDER|HOME|PATH|LAUNCH_BLOCKING|MODULE_LOADING)|NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES)|"
    "(HIP|ROCR)_VISIBLE_DEVICES|HSA_OVERRIDE_GFX_VERSION|ZE_AFFINITY_MASK|ONEAPI_DEVICE_SELECTOR|LD_(LIBRARY_PATH|PRELOAD)|"
    "NUMBA_(ENABLE_CUDASIM|DISABLE_CUDA|CUDA_DRIVER|CUDA_USE_NVIDIA_BINDING|DISABLE_JIT)|CONDA_OVERRIDE_CUDA|"
    "FIRSTLIGHT_DEVICE|SLURM_(JOB_ID|JOB_GPUS|GPUS_ON_NODE)|PYTORCH_NVML_BASED_CUDA_CHECK|PYTORCH_ENABLE_MPS_FALLBACK"
)
PACKAGES = re.compile("torch|pytorch.*|triton.*|num(ba|py)|numba-cuda|(nvidia|cuda|cupy|intel)-.*|pyopencl")
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
    with ThreadPoolExecutor() as pool:  # the children work while the files are read
        probes = {name: pool.submit(run, name, env, seconds) for name, seconds in SECONDS.items()}
        facts: dict[str, Any] = {
            "system": system(root, env),
            "gpus": list(gpus(root)),
            "nodes": list(nodes(root)),
            "kernel": kernel(root),
            "env": {name: value for name, value in env.items() if VARIABLES.fullmatch(name)},
            "packages": packages(),
        }
        facts |= {name: probe.result() for name, probe in probes.items()}
    facts["torch"] = {**wheel(), **facts["torch"]}
    installed = {"version": facts["packages"].get("numba"), "target": facts["packages"].get("numba-cuda")}
    facts["numba"] = {**installed, **facts["numba"]}
    hidden = secrets(env)
    return Facts.of({name: readable(name, redacted(part, hidden)) for name, part in facts.items()})


def readable(name: str, part: Any) -> Any:
    """Return a part of the facts, or in its place what is wrong with it; it must not take the others with it."""
    try:
        Facts.of({name: part})
    except ValueError as error:
        return {"failed": f"gave what cannot be read: {error}"}
    return part


def in_child(probe: str, env: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """Run a probe in a process of its own, and return what it found out before it ended, however it ended."""
    script = str(Path(__file__).with_name("probes.py"))
    failed = None
    try:
        # In a session of its own, so that what it started dies with it.
        child = subprocess.Popen(
            [sys.executable, "-P", script, probe],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # too large an environment, a zero byte in it
        return {"failed": f"could not be started: {error}"}
    with child:
        try:
            out, err = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
            failed = f"hung: it was stopped after {seconds:.0f} seconds"
    if child.returncode and not failed:
        last = err.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        how = f"was killed by signal {-child.returncode}" if child.returncode < 0 else f"ended with {child.returncode}"
        failed = f"{how}: {last[0][:500]}"
    found: dict[str, Any] = {}
    for line in out.splitlines():
        with suppress(ValueError):
            found = dict(json.loads(line))
    return {**found, "failed": failed} if failed else found


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
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "conda": sorted(path.stem for path in _entries(prefix, "*.json") if CONDA.fullmatch(path.stem)),
        "commands": [name for name in COMMANDS if shutil.which(name, path=env.get("PATH"))],
        "python_h": Path(sysconfig.get_path("include"), "Python.h").exists(),
        "wsl": "microsoft" in version.lower(),
        "container": container(root, env),
        "tegra": "tegra" in _read(root / "proc/device-tree/compatible").lower() or "tegra" in version.lower(),
        "secure_boot": secure_boot(root),
        "root": hasattr(os, "geteuid") and os.geteuid() == 0,
        "memory_limit": memory_limit(),
        "shadowed": [name for name in ("torch.py", "numba.py", "numpy.py", "cuda.py") if Path(name).exists()],
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
        vendor = VENDORS.get(_read(path / "vendor").strip())
        if vendor and re.match("0x(03|12)", _read(path / "class")):  # display controllers and accelerators
            driver = path / "driver"
            yield {
                "vendor": vendor,
                "device": _read(path / "device").strip() or None,
                "driver": driver.readlink().name if driver.is_symlink() else None,
            }


def windows_gpus() -> Iterator[dict[str, Any]]:
    """Look for cards in the registry of Windows."""
    winreg: Any = importlib.import_module("winreg")

    makers = {f"VEN_{number[2:].upper()}": name for number, name in VENDORS.items()}
    with suppress(OSError), winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SYSTEM\CurrentControlSet\Enum\PCI") as pci:
        for card in (winreg.EnumKey(pci, number) for number in range(winreg.QueryInfoKey(pci)[0])):
            with (
                suppress(OSError),
                winreg.OpenKey(pci, card) as key,
                winreg.OpenKey(key, winreg.EnumKey(key, 0)) as one,
            ):
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
    on_disk = next(
        (path for place in ("updates", "extra", "kernel") for path in (modules / place).rglob("nvidia.ko*")), None
    )
    return {
        "version": version and version[1],
        "open_module": "Open Kernel Module" in said if said else None,
        "loaded": [name for name in MODULES if _exists(root / "sys/module" / name)],
        "on_disk": on_disk and f"/{on_disk.relative_to(root)}",
        "log": kernel_log(root),
    }


def kernel_log(root: Path) -> list[str]:
    """Return the last lines of the kernel's log about a GPU; most systems keep it from plain users."""
    text = ""
    if root == Path("/") and (dmesg := shutil.which("dmesg")):
        with suppress(OSError, subprocess.TimeoutExpired):
            text = subprocess.run([dmesg], capture_output=True, timeout=5).stdout.decode(errors="replace")
    text = text or _read(root / "var/log/kern.log")[-1_000_000:]
    wanted = re.compile(r"NVRM|Xid|nouveau|nvidia.*(key was rejected|version|fail)|amdgpu.*(error|fail)", re.IGNORECASE)
    return [line[:500] for line in text.splitlines() if wanted.search(line)][-20:]


def wheel() -> dict[str, Any]:
    """Read what PyTorch was built for out of its files, without running them."""
    found: dict[str, Any] = {}
    with suppress(metadata.PackageNotFoundError):
        found["version"] = metadata.version("torch")
    with suppress(ImportError, ValueError, AttributeError):
        place = util.find_spec("torch")
        text = _read(Path(place.origin).with_name("version.py")) if place and place.origin else ""
        found |= dict[str, str](re.findall(r"^(cuda|hip|xpu)\b[^=\n]*= *['\"]([^'\"\n]+)", text, re.MULTILINE))
    return found


def packages() -> dict[str, str]:
    """Return the versions of packages that matter to a GPU."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        with suppress(Exception):  # half-removed packages have no name or no version
            name = distribution.metadata["Name"].lower().replace("_", "-")
            if PACKAGES.fullmatch(name):
                found.setdefault(name, distribution.version)
    return dict(sorted(found.items()))


def secrets(env: Mapping[str, str]) -> list[tuple[re.Pattern[str], str]]:
    """Return patterns of what tells who and where this is, and what to write in their place."""
    hidden = [(r"\b(GPU|MIG)-[0-9a-f]{8}-[0-9a-f-]{20,}", r"\1-…")]
    homes = {env.get("HOME"), env.get("USERPROFILE"), os.path.expanduser("~")} - {None, "", "/"}  # noqa: PTH111
    hidden += [(re.escape(home), "~") for home in sorted(map(str, homes), key=len, reverse=True)]
    user = env.get("USER") or env.get("USERNAME")
    with suppress(Exception):  # a user without a name
        user = user or getpass.getuser()
    if user and user != "root":
        hidden.append((rf"(?<=[/\\]){re.escape(user)}(?=[/\\]|$)", "USER"))
    hidden += [(rf"\b{re.escape(host)}\b", "HOST") for host in {socket.gethostname()} - {"", "localhost"}]
    return [(re.compile(pattern), instead) for pattern, instead in hidden]


def redacted(content: Any, hidden: Iterable[tuple[re.Pattern[str], str]]) -> Any:
    """Replace what tells who and where this is in every text, and cut texts that are too long."""
    if isinstance(content, dict):
        return {str(key): redacted(value, hidden) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [redacted(value, hidden) for value in content]
    if isinstance(content, str):
        for pattern, instead in hidden:
            content = pattern.sub(instead, content)
        return content[: LONGEST - 1]
    return content


def _read(path: Path) -> str:
    """Return the beginning of a file as text, and nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(2_000_000).decode(errors="replace")
    except OSError:
        return ""


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _entries(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []
