"""Causes in the driver: its module in the kernel, its library, and how they start."""

from __future__ import annotations

from firstlight.doctor.rules.ask import sudo
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts


@rule(
    "driver",
    says=("nouveau", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"),
    links=("https://github.com/Oneflow-Inc/oneflow/issues/3106",),
)
def nouveau(facts: Facts) -> Seen | None:
    """Linux runs the card with nouveau, a driver that has no CUDA.

    Only one driver can own a card. nouveau comes with Linux and draws the screen; CUDA needs NVIDIA's driver, which
    cannot take the card while nouveau holds it.
    """
    if not any(gpu.vendor == "nvidia" and gpu.driver == "nouveau" for gpu in facts.gpus):
        return None
    rebuild = "dracut --force" if "dnf" in facts.system.commands else "update-initramfs -u"
    return Seen(
        evidence=("the driver that holds the card on the bus is nouveau",),
        fix=(
            f"$ echo blacklist nouveau | {sudo(facts)}tee /etc/modprobe.d/no-nouveau.conf",
            f"$ {sudo(facts)}{rebuild}",
            f"$ {sudo(facts)}reboot",
        ),
    )
