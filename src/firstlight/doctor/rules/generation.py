"""Causes in a card and a driver of different generations: each kernel module knows only some cards."""

from __future__ import annotations

from firstlight.doctor.rules.ask import BLACKWELL, TURING, driver_of, logged, number_of, release_of
from firstlight.doctor.rules.commands import install, last_driver, sudo
from firstlight.doctor.rules.driver import disowned, ours
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts


@rule("driver")
def closed_module(facts: Facts) -> Seen | None:
    """The card is too new for NVIDIA's closed kernel module.

    NVIDIA ships its kernel module twice: closed, and open. Cards of the Blackwell generation (GeForce RTX 50, B200)
    and later work with the open one alone. The closed one loads, and then shows no device.
    """
    line = logged(facts, "requires use of the NVIDIA open kernel modules")
    new = any(gpu.vendor == "nvidia" and number_of(gpu) >= BLACKWELL for gpu in facts.gpus)
    dark = not facts.cuda.devices and not facts.nvml.devices
    if not line and not (new and dark and facts.kernel.open_module is False):
        return None
    release, fedora = max(release_of(driver_of(facts)), 580), facts.system.distro[:1] == ("fedora",)
    macro = "echo %_with_kmod_nvidia_open 1 | {0}tee /etc/rpm/macros.nvidia-kmod"
    steps = install(
        facts,
        apt=f"nvidia-driver-{release}-open" if "ubuntu" in facts.system.distro else "nvidia-open",
        pacman="nvidia-open",
        zypper="nvidia-open-driver-G06-signed-kmp-meta",
        **({} if fedora else {"dnf": "nvidia-open --allowerasing"}),
    )
    if fedora:
        steps = (f"$ {macro.format(sudo(facts))}", f"$ {sudo(facts)}akmods --kernels $(uname -r) --rebuild")
    return Seen(
        evidence=(
            line or f"the closed kernel module {facts.kernel.version} runs, and shows no device",
            *(f"the card's model number is {gpu.device}" for gpu in facts.gpus if number_of(gpu) >= BLACKWELL),
        ),
        fix=(
            *steps,
            f"$ {sudo(facts)}reboot",
            'If there is still no device, switch on "Above 4G Decoding" and "Resizable BAR" in the settings of the '
            "firmware (BIOS).",
        ),
    )


@rule("driver")
def card_too_old(facts: Facts) -> Seen | None:
    """The card is too old for this driver.

    NVIDIA's open kernel module knows cards from 2018 on (GeForce GTX 16 and RTX 20, compute capability 7.5), and the
    drivers after the branch 580 know no older ones at all. An older card (GTX 10, P100, V100) needs the closed module
    of an earlier branch. The newer driver installs and loads, and then leaves the card alone.
    """
    line = disowned(facts)
    old = [gpu for gpu in ours(facts) if 0 < number_of(gpu) < TURING]
    modern = facts.kernel.open_module or release_of(facts.kernel.version) > 580
    if facts.cuda.devices or facts.nvml.devices or not ((line and ours(facts)) or (old and modern)):
        return None
    kind = ", open kernel module" if facts.kernel.open_module else ""
    return Seen(
        evidence=(
            *([line] if line else []),
            *(f"the card's model number is {gpu.device}" for gpu in old),
            *([f"driver {facts.kernel.version}{kind}"] if facts.kernel.version else []),
        ),
        fix=(
            "Install the driver of the branch 580, with the closed kernel module:",
            *last_driver(facts),
            f"$ {sudo(facts)}reboot",
        ),
    )
