"""Causes in the driver's half inside the kernel: which module has the card, and why the right one has not."""

from __future__ import annotations

from firstlight.doctor.rules.ask import bare, heard, logged, maker, too_old
from firstlight.doctor.rules.commands import install, install_driver, sudo
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts, Gpu

SMI = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"
REJECTED = r"(module|key).* is rejected|key was rejected|required key not available"


def rebuilt(facts: Facts) -> str:
    """The command that takes a new choice of modules into what Linux starts from."""
    tools = {"apt": "update-initramfs -u", "pacman": "mkinitcpio -P"}
    tool = next((tools[name] for name in tools if name in facts.system.commands), "dracut --force")
    return f"$ {sudo(facts)}{tool}"


def ours(facts: Facts) -> list[Gpu]:
    """The cards of NVIDIA on the bus for which PyTorch has code."""
    return [gpu for gpu in facts.gpus if gpu.vendor == "nvidia" and not too_old(facts, gpu)]


def driverless(facts: Facts) -> bool:
    """Whether an NVIDIA card is on the bus of a plain machine, and no driver has taken it."""
    running = facts.kernel.version or "nvidia" in facts.kernel.loaded
    return bare(facts) and not running and any(not gpu.driver for gpu in ours(facts))


def programs_half(facts: Facts) -> str | None:
    """What shows that the driver's libraries, its half for programs, are installed."""
    if facts.cuda.path:
        return f"its library is there: {facts.cuda.path}"
    return f"nvmlInit returned {facts.nvml.init}: its library is there" if facts.nvml.init is not None else None


def rejected(facts: Facts) -> str | None:
    """The line which tells that the kernel refused a module for its signature."""
    return logged(facts, REJECTED) or heard(facts, "Key was rejected by service", "Required key not available")


def disowned(facts: Facts) -> str | None:
    """The line in which the driver tells that it no longer knows a card."""
    return logged(facts, "Legacy drivers|does not include the required GPU")


@rule("driver")
def nouveau(facts: Facts) -> Seen | None:
    """Linux runs the card with nouveau, a driver that has no CUDA.

    Only one driver can own a card. nouveau comes with Linux and draws the screen; CUDA needs NVIDIA's own driver,
    which cannot take the card while nouveau holds it.
    """
    drivers = {gpu.driver for gpu in ours(facts)}
    if "nouveau" not in drivers or "nvidia" in drivers:
        return None
    *installed, reboot = install_driver(facts)
    return Seen(
        evidence=("the driver that holds the card on the bus is nouveau",),
        fix=(
            "Install NVIDIA's driver, and keep nouveau away from the card:",
            *installed,
            f"$ echo blacklist nouveau | {sudo(facts)}tee /etc/modprobe.d/no-nouveau.conf",
            rebuilt(facts),
            reboot,
        ),
    )


@rule("driver")
def given_to_a_virtual_machine(facts: Facts) -> Seen | None:
    """The card is set aside for a virtual machine.

    A card can be handed whole to a virtual machine. For that, Linux holds it with vfio-pci, a driver that does
    nothing but pass it on. The maker's driver may be installed all the same; it does not get the card.
    """
    drivers = {gpu.driver for gpu in facts.gpus if gpu.vendor == maker(facts)}
    if "vfio-pci" not in drivers or drivers & {"nvidia", "amdgpu", "i915", "xe"}:
        return None
    return Seen(
        evidence=("the driver that holds the card on the bus is vfio-pci",),
        fix=(
            "If a virtual machine has the card, run your program there. To take the card back, find the line that "
            "sets it aside:",
            "$ grep -rn vfio /etc/modprobe.d /etc/default/grub",
            "Remove that line. After a change in /etc/default/grub, write the boot menu anew, with update-grub or "
            "grub2-mkconfig, whichever your system has. Then:",
            rebuilt(facts),
            f"$ {sudo(facts)}reboot",
        ),
    )


@rule("driver")
def no_driver(facts: Facts) -> Seen | None:
    """NVIDIA's driver is not installed.

    The card is in the machine, but nothing knows how to drive it. PyTorch's wheel brings all of CUDA that it needs,
    with one exception: the driver, which belongs to the operating system.
    """
    if not driverless(facts) or programs_half(facts) or facts.kernel.on_disk:
        return None
    return Seen(
        evidence=("an NVIDIA card is on the bus, and no driver holds it", str(facts.cuda.error or "no libcuda.so.1")),
        fix=install_driver(facts),
    )


@rule("driver")
def no_module_for_this_kernel(facts: Facts) -> Seen | None:
    """NVIDIA's driver has no module for the Linux kernel that runs.

    One half of the driver is a module of the kernel, and each version of the kernel needs a module of its own. After
    an update of the kernel it is built or installed anew; where that failed, the other half finds nobody to talk to.
    """
    half = programs_half(facts)
    if not driverless(facts) or not half or facts.kernel.on_disk:
        return None
    kernel = facts.system.kernel or "$(uname -r)"
    headers = {"apt": f"linux-headers-{kernel}", "dnf": f"kernel-devel-{kernel}", "pacman": "linux-headers"}
    build = "akmods --force" if facts.system.distro[:1] == ("fedora",) else "dkms autoinstall"
    *installed, reboot = install_driver(facts)
    return Seen(
        evidence=(half, f"no module nvidia.ko is installed for the kernel {facts.system.kernel or 'that runs'}"),
        fix=(
            *install(facts, **headers),
            f"$ {sudo(facts)}{build}",
            reboot,
            "If there is no such command or it fails, install the driver again, then restart:",
            *installed,
        ),
        certainty="likely",
    )


@rule("driver")
def secure_boot(facts: Facts) -> Seen | None:
    """Secure Boot refuses NVIDIA's kernel module.

    With Secure Boot, Linux loads only modules that are signed with a key which the machine's firmware knows. A module
    that was built on this machine is signed with a key of this machine, and you have to make that key known, once.
    """
    line = rejected(facts)
    there = facts.kernel.on_disk or programs_half(facts)
    # What the distribution built lies under kernel/, and is signed with a key that the firmware knows.
    built_here = facts.system.secure_boot and "/kernel/" not in (facts.kernel.on_disk or "/kernel/")
    if not driverless(facts) or not there or not (line or built_here):
        return None
    keys = {
        "ubuntu": "/var/lib/shim-signed/mok/MOK.der",
        "fedora": "/etc/pki/akmods/certs/public_key.der",
        "suse": "/usr/share/nvidia-pubkeys/*.der",
    }
    suits = (keys[name] for name in keys if any(name in each for each in facts.system.distro[:2]))
    key = next(suits, "/var/lib/dkms/mok.pub")
    tool = () if "mokutil" in facts.system.commands else install(facts, **dict.fromkeys(("apt", "dnf"), "mokutil"))
    return Seen(
        evidence=(
            line or "Secure Boot is on",
            f"the module is installed and not loaded: {facts.kernel.on_disk or 'nvidia'}",
        ),
        fix=(
            *tool,
            f"$ {sudo(facts)}mokutil --import {key}",
            "It asks you to invent a password, which you need only once.",
            f"$ {sudo(facts)}reboot",
            "At the machine itself, where no ssh reaches, a blue screen comes up before Linux starts. Choose "
            '"Enroll MOK" and "Continue", and type the password.',
            "To switch Secure Boot off in the firmware's settings (BIOS) does it, too, but takes away a protection: on "
            "a machine that is not your own, ask first.",
        ),
        certainty="certain" if line and facts.system.secure_boot else "likely",
    )


@rule("driver")
def module_not_loaded(facts: Facts) -> Seen | None:
    """NVIDIA's kernel module is installed, but not loaded.

    Linux loads the module when it finds the card. It does not if the driver was installed since the last start, if a
    line in /etc/modprobe.d forbids it, or if a laptop is set to use only its other graphics.
    """
    if not driverless(facts) or not facts.kernel.on_disk or secure_boot(facts) or disowned(facts):
        return None
    return Seen(
        evidence=(f"installed: {facts.kernel.on_disk}", "the kernel has not loaded it, and no driver holds the card"),
        fix=(
            f"$ {sudo(facts)}modprobe nvidia",
            "If that says nothing, it worked, and a restart should do the same. If it fails, the last lines of the "
            "kernel's log tell why, and the second of these commands shows what forbids it:",
            f"$ {sudo(facts)}dmesg | tail",
            "$ grep -rn nvidia /etc/modprobe.d",
            *(
                ("On a laptop with two kinds of graphics:", f"$ {sudo(facts)}prime-select on-demand")
                if "ubuntu" in facts.system.distro and len(facts.gpus) > 1
                else ()
            ),
        ),
        certainty="likely",
    )
