"""Causes that belong to the cards of Intel and Apple, and to what AMD's and Intel's have in common."""

from __future__ import annotations

from firstlight.doctor.rules.ask import files, heard, maker, release_of, shut
from firstlight.doctor.rules.commands import fresh, install, sudo
from firstlight.doctor.rules.containers import DEVICES
from firstlight.doctor.rules.driver import given_to_a_virtual_machine
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts

NEW_INTEL = ("0x0b", "0x4f", "0x56", "0x64", "0x7d", "0xb0", "0xe2")  # Data Center Max, Arc, Core Ultra
XPU = "https://docs.pytorch.org/docs/stable/notes/get_start_xpu.html"


def host_groups(whose: str) -> str:
    """Return the options of docker that add the host's groups by number; inside, their names mean other numbers."""
    first = "/dev/kfd" if whose == "amd" else "/dev/dri/renderD128"
    return f"--group-add $(stat -c %g {first}) --group-add $(getent group video | cut -d: -f3)"


@rule("nodes")
def not_in_render_group(facts: Facts) -> Seen | None:
    """You are not in the group that may open the AMD or Intel card.

    Linux lets only a group, mostly render or video, open the device files of these cards. For anyone else PyTorch finds
    no GPU and says no more. Who sits at the machine's own screen may be let in without the group: then it works there
    and fails over ssh. In a container the groups of the host count, by their numbers and not by their names.
    """
    whose, closed = maker(facts), shut(facts)
    if whose not in DEVICES or not closed or facts.torch.kernel == "right":
        return None
    groups = sorted({node.group for node in closed if node.group} - {"root", "nogroup", "nobody"})
    if facts.system.container:
        fix: tuple[str, ...] = (
            "On the host, start the container with the groups of the host, by number:",
            f"$ docker run {DEVICES[whose]} {host_groups(whose)} IMAGE",
            "A rootless Podman keeps your own groups, if one of them may open the files:",
            f"$ podman run {DEVICES[whose]} --group-add keep-groups IMAGE",
        )
    else:
        fix = (f"$ {sudo(facts)}usermod -aG {','.join(groups) or 'render,video'} $USER", "Then log out and in again.")
    owners = tuple(f"you may not open {node.path}, of the group {node.group or 'unknown'}" for node in closed)
    return Seen(evidence=owners, fix=fix)


@rule("wheel")
def not_built_for_intel(facts: Facts) -> Seen | None:
    """PyTorch is built without XPU, the part that computes on Intel's cards.

    PyTorch calls Intel's cards XPU. What pip takes from PyPI, its usual index, is a PyTorch for NVIDIA's cards or for
    none; the one for Intel's Arc, Core Ultra and Data Center Max has an index of its own.
    """
    torch = facts.torch
    if maker(facts) != "intel" or torch.xpu or not torch.version:
        return None
    models = [gpu.device or "unknown" for gpu in facts.gpus if gpu.vendor == "intel"]
    other = f"CUDA {torch.cuda}, so for NVIDIA" if torch.cuda else "AMD" if torch.hip else "the CPU alone"
    return Seen(
        evidence=(f"PyTorch {torch.version} is built for {other}", f"the card is Intel's, model {', '.join(models)}"),
        fix=fresh(facts, "xpu"),
        certainty="certain" if any(model.lower().startswith(NEW_INTEL) for model in models) else "likely",
    )


@rule("driver")
def kernel_older_than_intel(facts: Facts) -> Seen | None:
    """Linux does not run the Intel card with one of its drivers, i915 or xe.

    Both are part of Linux, and each release knows the cards of its time. A card that is younger than your Linux stays
    without a driver.
    """
    ours = [gpu.driver for gpu in facts.gpus if gpu.vendor == "intel"]
    system = facts.system
    if maker(facts) != "intel" or system.os != "linux" or system.wsl or not ours or {"i915", "xe"} & set(ours):
        return None
    if given_to_a_virtual_machine(facts):
        return None
    return Seen(
        evidence=(
            f"the driver of the Intel card is {ours[0] or 'none'}",
            f"this is Linux {system.kernel or ''}".strip(),
        ),
        fix=(
            "See what the drivers say about the card:",
            f"$ {sudo(facts)}dmesg | grep -e i915 -e xe",
            "Then install a newer release of your distribution, or a newer kernel that it offers.",
        ),
        certainty="likely",
    )


@rule("library")
def level_zero_missing(facts: Facts) -> Seen | None:
    """Level Zero, through which PyTorch reaches Intel's cards, is missing or has no driver.

    With what Linux brings, an Intel card only draws. For computing, two packages come on top: the library Level Zero,
    and the part of Intel's driver that it loads. Without the first, import torch may fail; without the second, PyTorch
    finds no GPU.
    """
    torch, loader = facts.torch, heard(facts, "libze_loader")
    reachable = facts.system.os != "linux" or (files(facts) and not shut(facts))
    if maker(facts) != "intel" or not torch.xpu or torch.kind or not reachable or not (loader or torch.imported):
        return None
    if facts.system.os == "windows":
        fix: tuple[str, ...] = (
            "Install Intel's newest driver for the card: https://www.intel.com/content/www/us/en/download-center/home.html",
        )
    else:
        names = {"apt": "libze1 libze-intel-gpu1", "dnf": "oneapi-level-zero intel-level-zero"}
        names |= {"pacman": "level-zero-loader intel-compute-runtime"}
        fix = (
            *install(facts, **names),
            f"Where your system has no such packages, Intel has them: {XPU}",
        )
    seen = loader or f"PyTorch {torch.version}, built for XPU, finds no GPU"
    return Seen(evidence=(seen,), fix=fix, certainty="certain" if loader else "likely")


@rule("wheel")
def python_for_intel_macs(facts: Facts) -> Seen | None:
    """Python is built for Intel's Macs, and the Apple chip translates it.

    Rosetta, a part of macOS, runs programs for Intel's processors on an Apple chip. Inside it, Python takes itself for
    one on an Intel Mac, and pip finds only old wheels, without MPS. An installer, a conda or a terminal that was moved
    over from an older Mac brings such a Python.
    """
    if not facts.system.rosetta:
        return None
    where = "https://www.python.org/downloads/macos/ (or, with conda, https://conda-forge.org/download/ for arm64)"
    return Seen(
        evidence=("this Mac has an Apple chip", f"this Python {facts.system.python} is for {facts.system.machine}"),
        fix=(
            f"Install a Python for Apple chips: {where}. Then, in your clone:",
            "$ python3 -m venv ../firstlight-env",
            "$ source ../firstlight-env/bin/activate",
            "This must print arm64; if not, python3 is still the old one:",
            '$ python -c "import platform; print(platform.machine())"',
            "$ python -m pip install .",
        ),
    )


def mps_missing(facts: Facts) -> bool:
    """Whether PyTorch could compute on an Apple chip and finds none."""
    torch = facts.torch
    return maker(facts) == "apple" and torch.mps and torch.imported and not torch.kind


@rule("visible")
def macos_too_old(facts: Facts) -> Seen | None:
    """The Mac runs a macOS older than 14, which PyTorch needs for Apple's GPU.

    PyTorch's part for Apple's GPU, MPS, calls functions of Metal that came with macOS 14. On an older macOS it is there
    and switches itself off.
    """
    if not mps_missing(facts) or not 11 <= release_of(facts.system.macos) < 14:
        return None
    return Seen(
        evidence=(
            f"this is macOS {facts.system.macos}",
            f"PyTorch {facts.torch.version} is built for MPS and finds no GPU",
        ),
        fix=(
            "Update macOS, in System Settings, General, Software Update; or see what is on offer:",
            "$ softwareupdate -l",
        ),
    )


@rule("visible")
def no_metal(facts: Facts) -> Seen | None:
    """Metal, Apple's driver, shows this program no GPU.

    PyTorch asks Metal for a GPU. A virtual machine, a sandbox, or a session that no one is logged in to at the screen
    may have none. The error then blames the version of macOS, although that is new enough.
    """
    if not mps_missing(facts) or 11 <= release_of(facts.system.macos) < 14:
        return None
    return Seen(
        evidence=(
            f"this is macOS {facts.system.macos}",
            f"PyTorch {facts.torch.version} is built for MPS and finds no GPU",
        ),
        fix=(
            "See whether macOS itself has a GPU with Metal:",
            "$ system_profiler SPDisplaysDataType",
            "Start the program in the Terminal of the Mac itself, logged in at its screen: not in a virtual machine, "
            "not over ssh, not in an editor's sandbox. If it works there, the place was the cause.",
        ),
        certainty="likely",
    )


@rule("toolchain", kind="note")
def no_cuda_on_macos(facts: Facts) -> Seen | None:
    """There is no CUDA on macOS, so Numba's kernels run only in its simulator.

    CUDA belongs to NVIDIA's cards, and NVIDIA stopped it for macOS. Numba can play CUDA on the CPU: slow, but right,
    and good for learning. PyTorch needs none of it; it calls Apple's GPU "mps".
    """
    told = heard(
        facts, "CudaSupportError", "CUDA driver library", "compiled with CUDA enabled", "CUDA is not available"
    )
    if facts.system.os != "darwin" or facts.numba.simulator or not told:
        return None
    return Seen(
        evidence=(told,),
        fix=(
            "Turn the simulator on before Python starts; pages with kernels do it themselves:",
            "$ export NUMBA_ENABLE_CUDASIM=1",
            'In PyTorch, write "mps" where a page writes "cuda".',
        ),
    )
