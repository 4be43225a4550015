"""Causes that belong to the cards of Intel and Apple, and to what AMD's and Intel's have in common."""

from __future__ import annotations

from firstlight_doctor.rules.containers import DEVICES
from firstlight_doctor.rules.machine import built_for, closed_files, device_files, find_message, major, vendor_of
from firstlight_doctor.rules.rule import Signs, rule, signs
from firstlight_doctor.schema import Facts

NEW_INTEL = ("0x0b", "0x4f", "0x56", "0x64", "0x7d", "0xb0", "0xe2")  # Data Center Max, Arc, Core Ultra
OWN = {"amd": ("amdgpu",), "intel": ("i915", "xe")}  # the drivers that are part of Linux


@rule("driver", on="linux", unless="wsl given-to-a-virtual-machine")
def driver_of_linux_missing(facts: Facts) -> Signs | None:
    """Linux does not run the AMD or Intel card with the driver that it has for it.

    PyTorch reaches an AMD card through amdgpu, an Intel card through i915 or xe. These are part of Linux, and each
    release knows the cards of its time. A driver stays away if it was forbidden, if the card is younger than your
    Linux, or if the card's firmware is missing. amdgpu makes the file /dev/kfd, the door for programs that compute.

    To do (runs):
    Ask amdgpu why it offers no computing; in an old board the slot may lack PCIe atomics:
    $ {sudo}dmesg | grep -i kfd

    To do:
    $ {sudo}modprobe {newest}
    Then look why it did not start by itself: a line that forbids it, or firmware that is missing.
    $ grep -r -e {names} -e nomodeset /etc/modprobe.d /proc/cmdline
    $ {sudo}dmesg | grep -e {names}
    If the card is younger than your Linux, install a newer release of your distribution.
    """
    vendor = vendor_of(facts) or ""
    drivers = [gpu.driver for gpu in facts.gpus if gpu.vendor == vendor]
    runs = any(driver in OWN.get(vendor, ()) for driver in drivers)
    kfd = any(node.path == "/dev/kfd" for node in facts.nodes)
    works = kfd or (runs and facts.system.container) if vendor == "amd" else runs
    if vendor not in OWN or not drivers or works:
        return None
    return signs(
        f"the driver of the card is {next(filter(None, drivers), 'none')}",
        f"this is Linux {facts.system.kernel}",
        "there is no /dev/kfd" if runs else None,
        runs=runs,
        newest=OWN[vendor][-1],
        names=" -e ".join(OWN[vendor]),
    )


@rule("nodes", on="linux closed")
def not_in_render_group(facts: Facts) -> Signs | None:
    """You are not in the group that may open the AMD or Intel card.

    Linux lets only a group, mostly render or video, open the device files of these cards. For anyone else PyTorch finds
    no GPU and says no more. Who sits at the machine's own screen may be let in without the group: then it works there
    and fails over ssh. In a container the groups of the host count, by their numbers and not by their names.

    To do (container):
    On the host, start the container with the groups of the host, by number:
    $ docker run {devices} --group-add $(stat -c %g {file}) --group-add $(getent group video | cut -d: -f3) IMAGE
    A rootless Podman keeps your own groups, if one of them may open the files:
    $ podman run {devices} --group-add keep-groups IMAGE

    To do:
    $ {sudo}usermod -aG {groups} $USER
    Then log out and in again.
    """
    vendor, closed = vendor_of(facts), closed_files(facts)
    if vendor not in DEVICES or facts.torch.kernel == "right":
        return None
    groups = sorted({node.group for node in closed if node.group} - {"root", "nogroup", "nobody"})
    return signs(
        *(f"you may not open {node.path}, of the group {node.group or 'unknown'}" for node in closed),
        devices=DEVICES[vendor],
        file="/dev/kfd" if vendor == "amd" else "/dev/dri/renderD128",
        groups=",".join(groups) or "render,video",
    )


@rule("wheel", on="for_intel")
def not_built_for_intel(facts: Facts) -> Signs | None:
    """PyTorch is built without XPU, the part that computes on Intel's cards.

    PyTorch calls Intel's cards XPU. What pip takes from PyPI, its usual index, is a PyTorch for NVIDIA's cards or for
    none; the one for Intel's Arc, Core Ultra and Data Center Max has an index of its own.

    To do:
    {torch_xpu}
    """
    torch = facts.torch
    if torch.xpu or not torch.version:
        return None
    models = [gpu.device or "unknown" for gpu in facts.gpus if gpu.vendor == "intel"]
    return signs(
        f"PyTorch {torch.version} is built for {built_for(torch)}",
        f"the card is Intel's, model {', '.join(models)}",
        certainty="certain" if any(model.lower().startswith(NEW_INTEL) for model in models) else "likely",
    )


@rule("library")
def level_zero_missing(facts: Facts) -> Signs | None:
    """Level Zero, through which PyTorch reaches Intel's cards, is missing or has no driver.

    With what Linux brings, an Intel card only draws. For computing, two packages come on top: the library Level Zero,
    and the part of Intel's driver that it loads. Without the first, import torch may fail; without the second, PyTorch
    finds no GPU.

    To do (windows):
    Install Intel's newest driver for the card: https://www.intel.com/content/www/us/en/download-center/home.html

    To do:
    [apt] $ {sudo}apt install libze1 libze-intel-gpu1
    [dnf] $ {sudo}dnf install oneapi-level-zero intel-level-zero
    [pacman] $ {sudo}pacman -S level-zero-loader intel-compute-runtime
    Where your system has no such packages, Intel has them:
      https://docs.pytorch.org/docs/stable/notes/get_start_xpu.html
    """
    torch, loader = facts.torch, find_message(facts, "libze_loader")
    reachable = facts.system.os != "linux" or (device_files(facts) and not closed_files(facts))
    wanted = vendor_of(facts) == "intel" and torch.xpu and not torch.kind
    if not wanted or not reachable or not (loader or torch.imported):
        return None
    seen = loader or f"PyTorch {torch.version}, built for XPU, finds no GPU"
    return signs(seen, certainty="certain" if loader else "likely")


@rule("wheel")
def python_for_intel_macs(facts: Facts) -> Signs | None:
    """Python is built for Intel's Macs, and the Apple chip translates it.

    Rosetta, a part of macOS, runs programs for Intel's processors on an Apple chip. Inside it, Python takes itself for
    one on an Intel Mac, and pip finds only old wheels, without MPS. An installer, a conda or a terminal that was moved
    over from an older Mac brings such a Python.

    To do:
    Install a Python for Apple chips: https://www.python.org/downloads/macos/ (or, with conda,
      https://conda-forge.org/download/ for arm64). This must then print arm64:
    $ python3 -c "import platform; print(platform.machine())"
    In a new environment of that Python, install everything again.
    """
    if not facts.system.rosetta:
        return None
    return signs("this Mac has an Apple chip", f"this Python {facts.system.python} is for {facts.system.machine}")


@rule("visible", on="mac for_apple")
def no_metal(facts: Facts) -> Signs | None:
    """Metal, Apple's driver, shows PyTorch no GPU: macOS is older than 14, or the place has none.

    PyTorch's part for Apple's GPU, MPS, calls functions of Metal that came with macOS 14; on an older macOS it switches
    itself off. On a newer one, a virtual machine, a sandbox, or a session that no one is logged in to at the screen may
    have no GPU. The error then blames the version of macOS all the same.

    To do (old):
    Update macOS, in System Settings, General, Software Update.

    To do:
    Start the program in the Terminal of the Mac itself, logged in at its screen: not in a virtual machine, not over
      ssh, not in an editor's sandbox. If it works there, the place was the cause.
    """
    torch, macos = facts.torch, facts.system.macos
    if not torch.mps or not torch.imported or torch.kind:
        return None
    old, finds = 11 <= major(macos) < 14, f"PyTorch {torch.version} is built for MPS and finds no GPU"
    return signs(f"this is macOS {macos}", finds, certainty="certain" if old else "likely", old=old)


@rule("toolchain", kind="note", on="mac")
def no_cuda_on_macos(facts: Facts) -> Signs | None:
    """There is no CUDA on macOS, so Numba's kernels run only in its simulator.

    CUDA belongs to NVIDIA's cards, and NVIDIA stopped it for macOS. Numba can play CUDA on the CPU: slow, but right,
    and good for learning. PyTorch needs none of it; it calls Apple's GPU "mps".

    To do:
    Turn the simulator on before Python starts; pages with kernels do it themselves:
    $ export NUMBA_ENABLE_CUDASIM=1
    In PyTorch, write "mps" where a page writes "cuda".
    """
    told = find_message(
        facts, "CudaSupportError", "CUDA driver library", "compiled with CUDA enabled", "CUDA is not available"
    )
    return signs(told) if told and not facts.numba.simulator else None
