"""What several rules ask of the facts, and the commands that several of them prescribe."""

from __future__ import annotations

import re

from firstlight.doctor.shapes import Facts, Gpu, Node, Torch

# The first release of PyTorch that has a kind of wheel, and the first that no longer has it.
RELEASES = {"cu126": ((2, 6), (2, 15)), "cu130": ((2, 9), (99, 0))}
EXTRAS = (0, 20)  # the first numba-cuda that brings CUDA 13
OURS = "2.13.0"  # the release that the site's page on installing names
MAKERS = {"nvidia": "cuda", "amd": "hip", "intel": "xpu", "apple": "mps"}
# What PyTorch's wheel for ROCm 7.2 has code for.
ROCM = (
    "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1103",
    "gfx1150", "gfx1151", "gfx1200", "gfx1201",
)  # fmt: skip
# Intel's numbers for models before Arc and Core Ultra.
OLD_INTEL = re.compile("0x(0[0-24acdf]|1[69a]|2|31|3e|4[569ce]|5[9a]|8[7a]|9[8ab]|a[07])")


def maker(facts: Facts) -> str | None:
    """Return whose card this machine has; where there are several, the one that the installed PyTorch is built for."""
    here = [vendor for vendor in MAKERS if has(facts, vendor)]
    return next((vendor for vendor in here if getattr(facts.torch, MAKERS[vendor])), here[0] if here else None)


def has(facts: Facts, vendor: str) -> bool:
    """Whether anything tells of a card of a maker that PyTorch can use: the bus, its driver's module, its device files.

    In Windows' Linux (WSL) and on a Jetson no card is on the bus.
    """
    if computes(facts) == vendor or any(gpu.vendor == vendor and not too_old(facts, gpu) for gpu in facts.gpus):
        return True
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
    if facts.system.wsl and "/dev/dxg" in paths and not has(facts, "nvidia"):
        return bool(getattr(facts.torch, MAKERS[vendor]))
    return vendor == "amd" and "/dev/kfd" in paths and not facts.gpus


def computes(facts: Facts) -> str | None:
    """Return whose card PyTorch finds."""
    kind = "hip" if facts.torch.kind == "cuda" and facts.torch.hip else facts.torch.kind
    return next((vendor for vendor, name in MAKERS.items() if name == kind), None)


def too_old(facts: Facts, gpu: Gpu) -> bool:
    """Whether PyTorch's wheels have nothing for a card: one inside an older processor, or an older Radeon."""
    if gpu.vendor == "amd":
        archs = (*ROCM, *facts.torch.archs)
        return bool(facts.kernel.gfx) and not any(runs(arch, archs) for arch in facts.kernel.gfx)
    return gpu.vendor == "intel" and bool(OLD_INTEL.match((gpu.device or "").lower()))


def runs(arch: str, archs: tuple[str, ...]) -> str | None:
    """Return the architecture whose code a card of AMD can run: its own, or a sister's of the same generation.

    Examples
    --------
    >>> runs("gfx1031", ("gfx1030", "gfx1100")), runs("gfx1010", ("gfx1030", "gfx1100"))
    ('gfx1030', None)
    """
    sister = {"gfx103": "gfx1030", "gfx110": "gfx1100"}.get(arch[:-1], arch)
    return next((known for known in (arch, sister) if known in archs), None)


def heard(facts: Facts, *pieces: str) -> str | None:
    """Return the first line of an error, met here or told by the reader, that has one of these pieces in it."""
    texts = (
        facts.said,
        facts.torch.error,
        facts.torch.kernel,
        facts.torch.failed,
        *facts.torch.warnings,
        facts.numba.error,
        facts.numba.toolchain,
        facts.numba.kernel,
        facts.numba.failed,
    )
    for line in (line.strip() for text in texts if text for line in text.splitlines()):
        if any(piece.lower() in line.lower() for piece in pieces):
            return line[:300]
    return None


def absent(facts: Facts) -> bool:
    """Whether PyTorch was looked for and is not installed."""
    return not facts.torch.version and facts.torch != Torch()


def bare(facts: Facts) -> bool:
    """Whether this is a plain Linux machine: no container, no Windows around it, no Jetson."""
    system = facts.system
    return system.os == "linux" and not (system.container or system.wsl or system.tegra)


def cluster(facts: Facts) -> bool:
    """Whether this is a machine of a cluster that Slurm runs, which others look after."""
    return "SLURM_JOB_ID" in facts.env or "sbatch" in facts.system.commands


def files(facts: Facts) -> tuple[Node, ...]:
    """Return the device files through which a program reaches this maker's cards."""
    amd_or_intel = () if facts.system.wsl else ("/dev/kfd", "/dev/dri")
    wanted = {"amd": amd_or_intel, "intel": amd_or_intel}.get(maker(facts) or "", ("/dev/nv",))
    return tuple(node for node in facts.nodes if node.path.startswith((*wanted, "/dev/dxg")))


def shut(facts: Facts) -> tuple[Node, ...]:
    """Return the device files that keep this user from every card.

    Of several cards, a cluster opens only those that a job asked for. CUDA needs no file in /dev/dri.
    """
    ours = files(facts)
    cards = [node for node in ours if re.search(r"(nvidia|renderD)\d+$", node.path)]
    reachable = any(node.open for node in cards)
    return tuple(node for node in ours if not node.open and not (reachable and node in cards))


def number_of(gpu: Gpu) -> int:
    """Return the maker's number of a model; NVIDIA's grow with every generation."""
    try:
        return int(gpu.device or "0", 16)
    except ValueError:
        return 0


def logged(facts: Facts, pattern: str) -> str | None:
    """Return the last line of the kernel's log in which a pattern is found."""
    return next((line.strip() for line in reversed(facts.kernel.log) if re.search(pattern, line, re.IGNORECASE)), None)


def cuda_number(version: int) -> str:
    """Write 13000 as 13.0, the way CUDA counts.

    Examples
    --------
    >>> cuda_number(12060)
    '12.6'
    """
    return f"{version // 1000}.{version % 1000 // 10}"


def numbers_of(version: str | None) -> tuple[int, int]:
    """Return the first two numbers of a version, and zeros for what it does not have.

    Examples
    --------
    >>> numbers_of("2.13.0+cu126"), numbers_of("13"), numbers_of(None)
    ((2, 13), (13, 0), (0, 0))
    """
    first, second, *_ = [*map(int, re.findall(r"[0-9]{1,6}", version or "")), 0, 0]
    return first, second


def release_of(version: str | None) -> int:
    """Return the branch of a driver: 580 of "580.95.05"; 0 where it is not known."""
    head = (version or "").partition(".")[0]
    return int(head) if head.isdecimal() else 0


def driver_of(facts: Facts) -> str | None:
    """The version of NVIDIA's driver, from whichever half tells it."""
    return facts.kernel.version or facts.nvml.driver


def pip(facts: Facts) -> str:
    """How packages are installed here."""
    return "uv pip install" if "uv" in facts.system.commands else "python -m pip install"


def torch_for(facts: Facts, tag: str) -> str:
    """Return the command that installs PyTorch from the index of a kind of wheel: "cu130", "cu126", "xpu"."""
    version = re.match(r"\d+\.\d+\.\d+", facts.torch.version or "")
    first, end = RELEASES.get(tag, ((0, 0), (99, 0)))
    there = version and first <= numbers_of(version[0]) < end
    which = f'"torch=={version[0] if version and there else OURS}"' if version else "torch"
    again = "--reinstall" if "uv" in facts.system.commands else "--force-reinstall"
    return f"$ {pip(facts)} {again} {which} --index-url https://download.pytorch.org/whl/{tag}"


def numba_for(facts: Facts, tag: str) -> str:
    """Return the command that installs Numba's CUDA target with the CUDA of a kind of wheel.

    Examples
    --------
    >>> numba_for(Facts(), "cu126")
    '$ python -m pip install "numba-cuda[cu12]" "cuda-toolkit==12.6.*"'
    """
    old = facts.numba.target and numbers_of(facts.numba.target) < EXTRAS
    least = f">={'.'.join(map(str, EXTRAS))}" if old else ""
    return f'$ {pip(facts)} "numba-cuda[{tag[:4]}]{least}" "cuda-toolkit=={tag[2:4]}.{tag[4:]}.*"'


def fresh(facts: Facts, tag: str) -> tuple[str, ...]:
    """Return the commands that put the newest PyTorch of an index in the place of the installed one."""
    away = "uv pip uninstall" if "uv" in facts.system.commands else "python -m pip uninstall --yes"
    new = f"$ {pip(facts)} torch --index-url https://download.pytorch.org/whl/{tag}"
    return (f"$ {away} torch", new) if facts.torch.version else (new,)


def cuda_tag(facts: Facts) -> str:
    """Return the kind of CUDA wheel that fits this card and this driver."""
    capabilities = [device.capability for device in facts.cuda.devices if device.capability]
    old_card = any(capability < (7, 5) for capability in capabilities)
    old_driver = 0 < release_of(driver_of(facts)) < 580 or 0 < (facts.cuda.version or 0) < 13000
    return "cu126" if old_card or old_driver else "cu130"


def sudo(facts: Facts) -> str:
    """Return what comes before a command that only the administrator may run."""
    return "" if facts.system.root else "sudo "


def install(facts: Facts, **packages: str) -> tuple[str, ...]:
    """Return the command of this distribution that installs packages, which each manager knows by other names.

    Examples
    --------
    >>> install(Facts.of({"system": {"commands": ["dnf"]}}), apt="build-essential", dnf="gcc")
    ('$ sudo dnf install gcc',)
    """
    verbs = {"apt": "apt install", "dnf": "dnf install", "pacman": "pacman -S", "zypper": "zypper install"}
    manager = next((name for name in verbs if name in facts.system.commands and name in packages), None)
    return (f"$ {sudo(facts)}{verbs[manager]} {packages[manager]}",) if manager else ()


def install_driver(facts: Facts) -> tuple[str, ...]:
    """Return how this distribution installs NVIDIA's driver, up to the restart."""
    root, distro = sudo(facts), facts.system.distro
    if "ubuntu" in distro:
        steps: tuple[str, ...] = (f"$ {root}apt install ubuntu-drivers-common", f"$ {root}ubuntu-drivers install")
    elif "debian" in distro:
        steps = (
            "The package is in the section non-free of Debian, which has to be named in /etc/apt/sources.list.",
            *install(facts, apt="nvidia-driver"),
        )
    elif distro[:1] == ("fedora",):
        steps = (
            "The package is in RPM Fusion; https://rpmfusion.org/Configuration tells how to add that source.",
            *install(facts, dnf="akmod-nvidia xorg-x11-drv-nvidia-cuda"),
        )
    elif "pacman" in facts.system.commands:
        steps = install(facts, pacman="nvidia-open nvidia-utils")
    else:
        guide = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
        steps = (f"Install NVIDIA's driver as its guide describes for your distribution: {guide}",)
    return (*steps, f"$ {root}reboot")


def covers(archs: tuple[str, ...], capability: tuple[int, ...]) -> bool:
    """Whether a wheel has code for a card.

    Code for 8.0 also runs on 8.6, which is of the same generation and not older. PTX ("compute_90") is compiled for
    any newer card when it is loaded. Code for "sm_90a" runs on nothing but 9.0.

    Examples
    --------
    >>> covers(("sm_75", "sm_80"), (8, 6)), covers(("sm_75", "sm_90a"), (10, 0)), covers(("compute_90",), (10, 0))
    (True, False, True)
    """
    for arch in archs:
        kind, _, digits = arch.partition("_")
        number = digits.rstrip("af")
        if not number.isdecimal():
            continue
        built = divmod(int(number), 10)
        if digits != number and digits.endswith("a"):
            fits = kind == "sm" and built == capability
        else:
            fits = built <= capability and (kind == "compute" or built[0] == capability[0])
        if fits:
            return True
    return False
