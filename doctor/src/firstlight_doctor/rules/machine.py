"""What several rules ask of the facts: whose card it is, where this runs, what an error says."""

from __future__ import annotations

import re
from functools import partial
from typing import Callable

from firstlight_doctor.schema import Facts, Gpu, Node, Torch

VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple"}
TORCH_BUILDS = {"nvidia": "cuda", "amd": "hip", "intel": "xpu", "apple": "mps"}  # the part of PyTorch for each
DRIVERS = {"nvidia", "amdgpu", "i915", "xe"}  # that compute
CONTAINERS = ("docker", "podman", "apptainer", "kubernetes")
MANAGERS = ("apt", "dnf", "pacman", "zypper")  # of packages
# What PyTorch's wheel for ROCm 7.2 has code for.
ROCM = (
    "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1103",
    "gfx1150", "gfx1151", "gfx1200", "gfx1201",
)  # fmt: skip
# AMD's architectures inside processors that have no code of their own, and its numbers of models inside older ones.
INSIDE = ("gfx1033", "gfx1035", "gfx1036", "gfx1037")
OLD_AMD = re.compile("0x(15(06|d8|dd|e7)|16(36|38|3f|4[cde]|81)|13c0|98)")
# Intel's numbers for models before Arc and Core Ultra.
OLD_INTEL = re.compile("0x(0[0-24acdf]|1[69a]|2|31|3e|4[569ce]|5[9a]|8[7a]|9[8ab]|a[07])")
MAXWELL, TURING, BLACKWELL = 0x1340, 0x1E00, 0x2900  # NVIDIA's first numbers of three generations


def vendor_of(facts: Facts) -> str | None:
    """Return whose card this machine has; where there are several, the one that the installed PyTorch is built for."""
    here = [vendor for vendor in TORCH_BUILDS if has_card(facts, vendor)]
    return next((vendor for vendor in here if getattr(facts.torch, TORCH_BUILDS[vendor])), here[0] if here else None)


def on_bus(facts: Facts, vendor: str) -> list[Gpu]:
    """Return a vendor's cards on the bus."""
    return [gpu for gpu in facts.gpus if gpu.vendor == vendor]


def has_card(facts: Facts, vendor: str) -> bool:
    """Return whether anything tells of a vendor's card that PyTorch can use: the bus, a kernel module, device files.

    In Windows' Linux (WSL) and on a Jetson no card is on the bus.
    """
    listed = on_bus(facts, vendor)
    if listed or vendor_in_use(facts) == vendor:
        return vendor_in_use(facts) == vendor or not all(unsupported(facts, gpu) for gpu in listed)
    paths = [node.path for node in facts.nodes]
    if vendor == "nvidia":
        lent = facts.system.wsl and "/dev/dxg" in paths  # by Windows, which does not tell whose card it is
        return bool(
            facts.kernel.version
            or facts.cuda.devices
            or facts.nvml.devices
            or facts.system.tegra
            or any(path.startswith("/dev/nvidia") for path in paths)
            or (lent and not (facts.gpus or facts.torch.hip or facts.torch.xpu))
        )
    if facts.system.wsl and "/dev/dxg" in paths and not has_card(facts, "nvidia"):
        return bool(getattr(facts.torch, TORCH_BUILDS[vendor]))
    return vendor == "amd" and "/dev/kfd" in paths and not facts.gpus


def vendor_in_use(facts: Facts) -> str | None:
    """Return whose card PyTorch finds."""
    kind = "hip" if facts.torch.kind == "cuda" and facts.torch.hip else facts.torch.kind
    return next((vendor for vendor, name in TORCH_BUILDS.items() if name == kind), None)


def unsupported(facts: Facts, gpu: Gpu) -> bool:
    """Return whether PyTorch's wheels have nothing for a card: of an older generation, or inside an older processor."""
    if gpu.vendor == "nvidia":
        return 0 < device_number(gpu) < MAXWELL
    if gpu.vendor == "amd" and facts.kernel.gfx:
        archs = (*ROCM, *facts.torch.archs)
        # With a PyTorch for AMD someone wants it all the same.
        wanted = [arch for arch in facts.kernel.gfx if facts.torch.hip or arch not in INSIDE]
        return not any(compatible_arch(arch, archs) for arch in wanted)
    old = {"amd": OLD_AMD, "intel": OLD_INTEL}.get(gpu.vendor)
    return bool(old and old.match((gpu.device or "").lower()))


def compatible_arch(arch: str, archs: tuple[str, ...]) -> str | None:
    """Return the architecture whose code a card of AMD can run: its own, or a sister's of the same generation.

    Examples
    --------
    >>> compatible_arch("gfx1031", ("gfx1030", "gfx1100")), compatible_arch("gfx1010", ("gfx1030", "gfx1100"))
    ('gfx1030', None)
    """
    sister = {"gfx103": "gfx1030", "gfx110": "gfx1100"}.get(arch[:-1], arch)
    return next((known for known in (arch, sister) if known in archs), None)


def find_message(facts: Facts, *pieces: str) -> str | None:
    """Return the first line of an error, met here or told by the reader, that has one of these pieces in it."""
    torch, numba = facts.torch, facts.numba
    texts = [facts.said, torch.error, torch.kernel, torch.failed, *torch.warnings]
    texts += [numba.error, numba.toolchain, numba.kernel, numba.failed]
    for line in (line.strip() for text in texts if text for line in text.splitlines()):
        if any(piece.lower() in line.lower() for piece in pieces):
            return line[:300]
    return None


def torch_absent(facts: Facts) -> bool:
    """Return whether PyTorch was looked for and is not installed."""
    return not facts.torch.version and facts.torch != Torch()


def plain_linux(facts: Facts) -> bool:
    """Return whether this is a plain Linux machine: no container, no Windows around it, no Jetson."""
    system = facts.system
    return system.os == "linux" and not (system.container or system.wsl or system.tegra)


def manager_of(facts: Facts) -> str | None:
    """Return the package manager of this distribution."""
    return next((name for name in MANAGERS if name in facts.system.commands), None)


def cluster(facts: Facts) -> bool:
    """Return whether this is a machine of a cluster that Slurm runs, which others look after."""
    return "SLURM_JOB_ID" in facts.env or "sbatch" in facts.system.commands


def device_files(facts: Facts) -> tuple[Node, ...]:
    """Return the device files through which a program reaches this vendor's cards."""
    amd_or_intel = () if facts.system.wsl else ("/dev/kfd", "/dev/dri")
    wanted = {"amd": amd_or_intel, "intel": amd_or_intel}.get(vendor_of(facts) or "", ("/dev/nv",))
    return tuple(node for node in facts.nodes if node.path.startswith((*wanted, "/dev/dxg")))


def closed_files(facts: Facts) -> tuple[Node, ...]:
    """Return the device files that keep this user from every card.

    Of several cards, a cluster opens only those that a job asked for. CUDA needs no file in /dev/dri.
    """
    ours = device_files(facts)
    cards = [node for node in ours if re.search(r"(nvidia|renderD)\d+$", node.path)]
    reachable = any(node.open for node in cards)
    return tuple(node for node in ours if not node.open and not (reachable and node in cards))


def device_number(gpu: Gpu) -> int:
    """Return the vendor's number of a model; NVIDIA's grow with every generation."""
    return int(gpu.device or "0", 16) if re.fullmatch("(0x)?[0-9a-fA-F]{1,8}", gpu.device or "0") else 0


def capabilities(facts: Facts) -> list[tuple[int, ...]]:
    """Return the compute capabilities of NVIDIA's cards, as far as CUDA tells them."""
    return [device.capability for device in facts.cuda.devices if device.capability]


def is_old_card(facts: Facts) -> bool:
    """Return whether a card of NVIDIA is so old that wheels for CUDA 13 and drivers after 580 do not know it."""
    if known := capabilities(facts):
        return min(known) < (7, 5)
    return 0 < max(map(device_number, on_bus(facts, "nvidia")), default=0) < TURING


def is_ancient(facts: Facts) -> bool:
    """Return whether no wheel of today has code for any of NVIDIA's cards here: Kepler, and what was before it."""
    known = capabilities(facts)
    return bool(known) and max(known) < (5, 0)


def is_blackwell(facts: Facts) -> bool:
    """Return whether a card of NVIDIA is so new that wheels for CUDA 12.6 have no code for it."""
    if known := capabilities(facts):
        return max(known) >= (10, 0)
    return any(device_number(gpu) >= BLACKWELL for gpu in on_bus(facts, "nvidia"))


def find_in_log(facts: Facts, pattern: str) -> str | None:
    """Return the last line of the kernel's log in which a pattern is found."""
    return next((line.strip() for line in reversed(facts.kernel.log) if re.search(pattern, line, re.IGNORECASE)), None)


def as_version(version: int) -> str:
    """Return 13000 as "13.0", the way CUDA counts.

    Examples
    --------
    >>> as_version(12060)
    '12.6'
    """
    return f"{version // 1000}.{version % 1000 // 10}"


def major_minor(version: str | None) -> tuple[int, int]:
    """Return the first two numbers of a version, and zeros for what it does not have.

    Examples
    --------
    >>> major_minor("2.13.0+cu126"), major_minor("13"), major_minor(None)
    ((2, 13), (13, 0), (0, 0))
    """
    first, second, *_ = [*map(int, re.findall(r"[0-9]{1,6}", version or "")), 0, 0]
    return first, second


def major(version: str | None) -> int:
    """Return the first number of a version, such as a driver's branch, 580 of "580.95.05"; 0 where it is not known."""
    return major_minor(version)[0]


def built_for(torch: Torch) -> str:
    """Return in words what PyTorch is built for."""
    if torch.cuda:
        return f"CUDA {torch.cuda}, so for NVIDIA"
    return "ROCm, so for AMD" if torch.hip else "XPU, so for Intel" if torch.xpu else "the CPU alone"


def driver_version(facts: Facts) -> str | None:
    """Return the version of NVIDIA's driver, from whichever half tells it."""
    return facts.kernel.version or facts.nvml.driver


def has_code(archs: tuple[str, ...], capability: tuple[int, ...]) -> bool:
    """Return whether a wheel has code for a card.

    Code for 8.0 also runs on 8.6, which is of the same generation and not older. PTX ("compute_90") is compiled for
    any newer card when it is loaded. Code for "sm_90a" runs on nothing but 9.0.

    Examples
    --------
    >>> has_code(("sm_75", "sm_80"), (8, 6)), has_code(("sm_75", "sm_90a"), (10, 0)), has_code(("compute_90",), (10, 0))
    (True, False, True)
    """
    found = (re.fullmatch("(sm|compute)_([0-9]{2,4})([af]?)", arch) for arch in archs)
    for kind, number, only in (one.groups() for one in found if one):
        built = divmod(int(number), 10)
        newer = only != "a" and built <= capability and (kind == "compute" or built[0] == capability[0])
        if newer or built == capability:
            return True
    return False


def nvml_sees(facts: Facts) -> str:
    """Return what nvidia-smi would show, in words."""
    names = [device.name or "a card" for device in facts.nvml.devices]
    return f"NVML, the library behind nvidia-smi, sees {', '.join(names) or 'no card'}"


def answers(question: Callable[[Facts], str | None], answer: str) -> Callable[[Facts], bool]:
    """Return the condition that a question about the facts has this answer."""
    return lambda facts: question(facts) == answer


#: The conditions on which a rule is asked, or a step in a docstring is told.
CONDITIONS: dict[str, Callable[[Facts], bool]] = {
    **{name: answers(manager_of, name) for name in MANAGERS},
    "manager": lambda facts: manager_of(facts) is not None,
    "ubuntu": lambda facts: "ubuntu" in facts.system.distro,
    "fedora": lambda facts: facts.system.distro[:1] == ("fedora",),
    **{vendor: partial(has_card, vendor=vendor) for vendor in VENDORS},
    **{f"for_{vendor}": answers(vendor_of, vendor) for vendor in VENDORS},
    "gpu": lambda facts: vendor_of(facts) is not None,
    "linux": lambda facts: facts.system.os == "linux",
    "windows": lambda facts: facts.system.os == "windows",
    "mac": lambda facts: facts.system.os == "darwin",
    "bare": plain_linux,
    "cluster": cluster,
    "container": lambda facts: bool(facts.system.container),
    **{kind: answers(lambda facts: facts.system.container, kind) for kind in CONTAINERS},
    "wsl": lambda facts: facts.system.wsl,
    "jetson": lambda facts: facts.system.tegra,
    "closed": lambda facts: bool(closed_files(facts)),  # device files that this user may not open
}
