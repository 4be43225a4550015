"""Causes that belong to the cards of Intel and Apple, and to what AMD's and Intel's have in common."""

from __future__ import annotations

from gpu_doctor.rules.ask import files, heard, maker, release_of, shut
from gpu_doctor.rules.commands import fresh, install, sudo
from gpu_doctor.rules.containers import DEVICES
from gpu_doctor.rules.rule import Seen, rule
from gpu_doctor.shapes import Facts

NEW_INTEL = ("0x0b", "0x4f", "0x56", "0x64", "0x7d", "0xb0", "0xe2")  # Data Center Max, Arc, Core Ultra
XPU = "https://docs.pytorch.org/docs/stable/notes/get_start_xpu.html"
OWN = {"amd": ("amdgpu",), "intel": ("i915", "xe")}  # the drivers that are part of Linux


@rule("driver", on="linux", unless="wsl given-to-a-virtual-machine")
def driver_of_linux_missing(facts: Facts) -> Seen | None:
    """Linux does not run the AMD or Intel card with the driver that it has for it.

    PyTorch reaches an AMD card through amdgpu, an Intel card through i915 or xe. These are part of Linux, and each
    release knows the cards of its time. A driver stays away if it was forbidden, if the card is younger than your
    Linux, or if the card's firmware is missing. amdgpu makes the file /dev/kfd, the door for programs that compute.
    """
    vendor, root = maker(facts) or "", sudo(facts)
    drivers = [gpu.driver for gpu in facts.gpus if gpu.vendor == vendor]
    runs = any(driver in OWN.get(vendor, ()) for driver in drivers)
    kfd = any(node.path == "/dev/kfd" for node in facts.nodes)
    works = kfd or (runs and facts.system.container) if vendor == "amd" else runs
    if vendor not in OWN or not drivers or works:
        return None
    seen = [f"the driver of the card is {next(filter(None, drivers), 'none')}", f"this is Linux {facts.system.kernel}"]
    if runs:
        ask = "Ask amdgpu why it offers no computing; in an old board the slot may lack PCIe atomics:"
        return Seen((*seen, "there is no /dev/kfd"), (ask, f"$ {root}dmesg | grep -i kfd"))
    names = " -e ".join(OWN[vendor])
    return Seen(
        tuple(seen),
        (
            f"$ {root}modprobe {OWN[vendor][-1]}",
            "Then look why it did not start by itself: a line that forbids it, or firmware that is missing.",
            f"$ grep -r -e {names} -e nomodeset /etc/modprobe.d /proc/cmdline",
            f"$ {root}dmesg | grep -e {names}",
            "If the card is younger than your Linux, install a newer release of your distribution.",
        ),
    )


@rule("nodes", on="linux closed")
def not_in_render_group(facts: Facts) -> Seen | None:
    """You are not in the group that may open the AMD or Intel card.

    Linux lets only a group, mostly render or video, open the device files of these cards. For anyone else PyTorch finds
    no GPU and says no more. Who sits at the machine's own screen may be let in without the group: then it works there
    and fails over ssh. In a container the groups of the host count, by their numbers and not by their names.
    """
    whose, closed = maker(facts), shut(facts)
    if whose not in DEVICES or facts.torch.kernel == "right":
        return None
    groups = sorted({node.group for node in closed if node.group} - {"root", "nogroup", "nobody"})
    fix: tuple[str, ...] = (
        f"$ {sudo(facts)}usermod -aG {','.join(groups) or 'render,video'} $USER",
        "Then log out and in again.",
    )
    if facts.system.container:  # inside, the names of groups mean other numbers
        first = "/dev/kfd" if whose == "amd" else "/dev/dri/renderD128"
        numbers = f"--group-add $(stat -c %g {first}) --group-add $(getent group video | cut -d: -f3)"
        fix = (
            "On the host, start the container with the groups of the host, by number:",
            f"$ docker run {DEVICES[whose]} {numbers} IMAGE",
            "A rootless Podman keeps your own groups, if one of them may open the files:",
            f"$ podman run {DEVICES[whose]} --group-add keep-groups IMAGE",
        )
    return Seen(tuple(f"you may not open {node.path}, of the group {node.group or 'unknown'}" for node in closed), fix)


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
        (f"PyTorch {torch.version} is built for {other}", f"the card is Intel's, model {', '.join(models)}"),
        fresh(facts, "xpu"),
        "certain" if any(model.lower().startswith(NEW_INTEL) for model in models) else "likely",
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
    packages = install(
        facts,
        apt="libze1 libze-intel-gpu1",
        dnf="oneapi-level-zero intel-level-zero",
        pacman="level-zero-loader intel-compute-runtime",
    )
    fix = (*packages, f"Where your system has no such packages, Intel has them: {XPU}")
    if facts.system.os == "windows":
        fix = (
            "Install Intel's newest driver for the card: https://www.intel.com/content/www/us/en/download-center/home.html",
        )
    seen = loader or f"PyTorch {torch.version}, built for XPU, finds no GPU"
    return Seen((seen,), fix, "certain" if loader else "likely")


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
        ("this Mac has an Apple chip", f"this Python {facts.system.python} is for {facts.system.machine}"),
        (
            f"Install a Python for Apple chips: {where}. This must then print arm64:",
            '$ python3 -c "import platform; print(platform.machine())"',
            "In a new environment of that Python, install everything again.",
        ),
    )


@rule("visible", on="mac")
def no_metal(facts: Facts) -> Seen | None:
    """Metal, Apple's driver, shows PyTorch no GPU: macOS is older than 14, or the place has none.

    PyTorch's part for Apple's GPU, MPS, calls functions of Metal that came with macOS 14; on an older macOS it switches
    itself off. On a newer one, a virtual machine, a sandbox, or a session that no one is logged in to at the screen may
    have no GPU. The error then blames the version of macOS all the same.
    """
    torch, macos = facts.torch, facts.system.macos
    if maker(facts) != "apple" or not torch.mps or not torch.imported or torch.kind:
        return None
    fix = (
        "Start the program in the Terminal of the Mac itself, logged in at its screen: not in a virtual machine, not "
        "over ssh, not in an editor's sandbox. If it works there, the place was the cause.",
    )
    old = 11 <= release_of(macos) < 14
    if old:
        fix = ("Update macOS, in System Settings, General, Software Update.",)
    evidence = (f"this is macOS {macos}", f"PyTorch {torch.version} is built for MPS and finds no GPU")
    return Seen(evidence, fix, "certain" if old else "likely")


@rule("toolchain", kind="note", on="mac")
def no_cuda_on_macos(facts: Facts) -> Seen | None:
    """There is no CUDA on macOS, so Numba's kernels run only in its simulator.

    CUDA belongs to NVIDIA's cards, and NVIDIA stopped it for macOS. Numba can play CUDA on the CPU: slow, but right,
    and good for learning. PyTorch needs none of it; it calls Apple's GPU "mps".
    """
    told = heard(
        facts, "CudaSupportError", "CUDA driver library", "compiled with CUDA enabled", "CUDA is not available"
    )
    if facts.numba.simulator or not told:
        return None
    return Seen(
        (told,),
        (
            "Turn the simulator on before Python starts; pages with kernels do it themselves:",
            "$ export NUMBA_ENABLE_CUDASIM=1",
            'In PyTorch, write "mps" where a page writes "cuda".',
        ),
    )
