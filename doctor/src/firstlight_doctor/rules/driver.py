"""Causes in the driver's half inside the kernel: which module has the card, and whether it is the right one for it."""

from __future__ import annotations

from firstlight_doctor.rules import machine
from firstlight_doctor.rules.rule import Signs, rule, signs
from firstlight_doctor.schema import Facts, Gpu

REJECTED = r"(module|key).* is rejected|key was rejected|required key not available"
FOR_GUESTS = {"vfio-pci": "vfio", "pci-stub": "pci-stub", "xen-pciback": "pciback"}  # and how a setting names it
KEYS = {
    "ubuntu": "/var/lib/shim-signed/mok/MOK.der",
    "fedora": "/etc/pki/akmods/certs/public_key.der",
    "suse": "/usr/share/nvidia-pubkeys/*.der",
}


def nvidia_cards(facts: Facts) -> list[Gpu]:
    """Return the cards of NVIDIA on the bus for which PyTorch has code."""
    return [gpu for gpu in machine.on_bus(facts, "nvidia") if not machine.unsupported(facts, gpu)]


def driverless(facts: Facts) -> bool:
    """Return whether an NVIDIA card is on the bus, and no driver has taken it."""
    running = facts.kernel.version or "nvidia" in facts.kernel.loaded
    return not running and any(not gpu.driver for gpu in nvidia_cards(facts))


def programs_half(facts: Facts) -> str | None:
    """Return what shows that the driver's libraries, its half for programs, are installed."""
    if facts.cuda.path:
        return f"its library is there: {facts.cuda.path}"
    return f"nvmlInit returned {facts.nvml.init}: its library is there" if facts.nvml.init is not None else None


@rule("driver", on="linux")
def nouveau(facts: Facts) -> Signs | None:
    """Linux runs the card with nouveau, a driver that has no CUDA.

    Only one driver can own a card. nouveau comes with Linux and draws the screen; CUDA needs NVIDIA's own driver,
    which cannot take the card while nouveau holds it.

    To do:
    Install NVIDIA's driver, and keep nouveau away from the card:
    {nvidia_driver}
    $ echo blacklist nouveau | {sudo}tee /etc/modprobe.d/no-nouveau.conf
    {rebuild_boot}
    $ {sudo}reboot
    """
    drivers = {gpu.driver for gpu in nvidia_cards(facts)}
    if "nouveau" not in drivers or "nvidia" in drivers:
        return None
    return signs("the driver that holds the card on the bus is nouveau")


@rule("driver", on="linux")
def given_to_a_virtual_machine(facts: Facts) -> Signs | None:
    """The card is set aside for a virtual machine.

    A card can be handed whole to a virtual machine. For that, Linux holds it with vfio-pci (or pci-stub, or Xen's
    pciback), a driver that does nothing but pass it on. The vendor's driver may be installed all the same; it does not
    get the card.

    To do:
    If a virtual machine has the card, run your program there. To take it back, remove the line that this finds:
    $ grep -rn {piece} /etc/modprobe.d /etc/default/grub
    {rebuild_boot}
    If it was in /etc/default/grub, write the boot menu anew, with update-grub or grub2-mkconfig. Then:
    $ {sudo}reboot
    """
    drivers = {gpu.driver for gpu in facts.gpus if gpu.vendor == machine.vendor_of(facts)}
    holder = next((driver for driver in FOR_GUESTS if driver in drivers), None)
    if not holder or drivers & machine.DRIVERS:
        return None
    return signs(f"the driver that holds the card on the bus is {holder}", piece=FOR_GUESTS[holder])


@rule("driver", on="linux", unless="wsl jetson")
def no_driver(facts: Facts) -> Signs | None:
    """NVIDIA's driver is not installed.

    The card is in the machine, but nothing knows how to drive it. PyTorch's wheel brings all of CUDA that it needs,
    with one exception: the driver, which belongs to the operating system.

    To do:
    {nvidia_driver}
    $ {sudo}reboot
    """
    inside = facts.system.container  # whose image may bring libraries of a driver that the machine does not have
    if not driverless(facts) or (programs_half(facts) and not inside) or facts.kernel.on_disk:
        return None
    missing = None if facts.cuda.path else facts.cuda.error or "no libcuda.so.1"
    return signs("an NVIDIA card is on the bus, and no driver holds it", missing)


@rule("driver", on="bare")
def no_module_for_this_kernel(facts: Facts) -> Signs | None:
    """NVIDIA's driver has no module for the Linux kernel that runs.

    One half of the driver is a module of the kernel, and each version of the kernel needs a module of its own. After
    an update of the kernel it is built or installed anew; where that failed, the other half finds nobody to talk to.

    To do:
    [apt] $ {sudo}apt install linux-headers-$(uname -r)
    [dnf] $ {sudo}dnf install kernel-devel-$(uname -r)
    [pacman] $ {sudo}pacman -S linux-headers
    [fedora] $ {sudo}akmods --force
    [not fedora] $ {sudo}dkms autoinstall
    $ {sudo}reboot
    If there is no such command or it fails, install the driver again, then restart:
    {nvidia_driver}
    """
    half = programs_half(facts)
    if not driverless(facts) or not half or facts.kernel.on_disk:
        return None
    return signs(
        half,
        f"no module nvidia.ko is installed for the kernel {facts.system.kernel or 'that runs'}",
        certainty="likely",
    )


@rule("driver", on="bare")
def secure_boot(facts: Facts) -> Signs | None:
    """Secure Boot refuses NVIDIA's kernel module.

    With Secure Boot, Linux loads only modules that are signed with a key which the machine's firmware knows. A module
    that was built on this machine is signed with a key of this machine, and you have to make that key known, once.

    To do:
    [apt not mokutil] $ {sudo}apt install mokutil
    [dnf not mokutil] $ {sudo}dnf install mokutil
    $ {sudo}mokutil --import {key}
    It asks you to invent a password, which you need only once.
    $ {sudo}reboot
    At the machine itself, where no ssh reaches, a blue screen comes up before Linux starts. Choose "Enroll MOK" and
      "Continue", and type the password.
    To switch Secure Boot off in the firmware's settings (BIOS) does it, too, but takes away a protection: on a machine
      that is not your own, ask first.
    """
    line = machine.find_in_log(facts, REJECTED)
    line = line or machine.find_message(facts, "Key was rejected by service", "Required key not available")
    # What the distribution built lies under kernel/, and is signed with a key that the firmware knows.
    built_here = facts.system.secure_boot and "/kernel/" not in (facts.kernel.on_disk or "/kernel/")
    there = facts.kernel.on_disk or programs_half(facts)
    if not driverless(facts) or not there or not (line or built_here):
        return None
    suits = (KEYS[name] for name in KEYS if any(name in each for each in facts.system.distro[:2]))
    return signs(
        line or "Secure Boot is on",
        f"the module is installed and not loaded: {facts.kernel.on_disk or 'nvidia'}",
        certainty="certain" if line and facts.system.secure_boot else "likely",
        mokutil="mokutil" in facts.system.commands,
        key=next(suits, "/var/lib/dkms/mok.pub"),
    )


@rule("driver", on="bare", unless="secure-boot card-too-old")
def module_not_loaded(facts: Facts) -> Signs | None:
    """NVIDIA's kernel module is installed, but not loaded.

    Linux loads the module when it finds the card. It does not if the driver was installed since the last start, if a
    line in /etc/modprobe.d forbids it, or if a laptop is set to use only its other graphics.

    To do:
    $ {sudo}modprobe nvidia
    If that says nothing, it worked. If it says that a key was rejected or is not available, or that the operation is
      not permitted, Secure Boot refuses the module. Else the kernel's log tells why, and grep what forbids it:
    $ {sudo}dmesg | tail
    $ grep -rn nvidia /etc/modprobe.d
    {switch_graphics}
    """
    if not driverless(facts) or not facts.kernel.on_disk:
        return None
    unloaded = "the kernel has not loaded it, and no driver holds the card"
    return signs(f"installed: {facts.kernel.on_disk}", unloaded, certainty="likely")


@rule("driver")
def closed_module(facts: Facts) -> Signs | None:
    """The card is too new for NVIDIA's closed kernel module.

    NVIDIA ships its kernel module twice: closed, and open. Cards of the Blackwell generation (GeForce RTX 50, B200)
    and later work with the open one alone. The closed one loads, and then shows no device.

    To do:
    [fedora] $ echo %_with_kmod_nvidia_open 1 | {sudo}tee /etc/rpm/macros.nvidia-kmod
    [fedora] $ {sudo}akmods --kernels $(uname -r) --rebuild
    [apt] $ {sudo}apt install {open_package}
    [dnf not fedora] $ {sudo}dnf install nvidia-open --allowerasing
    [pacman] $ {sudo}pacman -S nvidia-open
    [zypper] $ {sudo}zypper install nvidia-open-driver-G06-signed-kmp-meta
    $ {sudo}reboot
    Still no device? Switch on "Above 4G Decoding" and "Resizable BAR" in the settings of the firmware (BIOS).
    """
    line = machine.find_in_log(facts, "requires use of the NVIDIA open kernel modules")
    new = [gpu.device for gpu in nvidia_cards(facts) if machine.device_number(gpu) >= machine.BLACKWELL]
    dark = not facts.cuda.devices and not facts.nvml.devices
    branch = max(machine.major(machine.driver_version(facts)), 580)
    if not line and not (new and dark and facts.kernel.open_module is False):
        return None
    return signs(
        line or f"the closed kernel module {facts.kernel.version} runs, and shows no device",
        *(f"the card's model number is {device}" for device in new),
        open_package=f"nvidia-driver-{branch}-open" if "ubuntu" in facts.system.distro else "nvidia-open",
    )


@rule("driver")
def card_too_old(facts: Facts) -> Signs | None:
    """The card is too old for this driver.

    NVIDIA's open kernel module knows cards from 2018 on (GeForce GTX 16 and RTX 20, compute capability 7.5), and the
    drivers after the branch 580 know no older ones at all. An older card (GTX 10, P100, V100) needs the closed module
    of an earlier branch. The newer driver installs and loads, and then leaves the card alone.

    To do:
    Install the driver of the branch 580, with the closed kernel module:
    {last_driver}
    $ {sudo}reboot
    """
    line = machine.find_in_log(facts, "Legacy drivers|does not include the required GPU")
    old = [gpu for gpu in nvidia_cards(facts) if 0 < machine.device_number(gpu) < machine.TURING]
    modern = facts.kernel.open_module or machine.major(facts.kernel.version) > 580
    if facts.cuda.devices or facts.nvml.devices or not ((line and nvidia_cards(facts)) or (old and modern)):
        return None
    kind = ", open kernel module" if facts.kernel.open_module else ""
    return signs(
        line,
        *(f"the card's model number is {gpu.device}" for gpu in old),
        f"driver {facts.kernel.version}{kind}" if facts.kernel.version else None,
    )
