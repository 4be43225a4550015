"""Causes in the card itself: lost, with broken memory, or waiting for something before it starts."""

from __future__ import annotations

import re

from firstlight.doctor.rules.ask import driver_of, heard, logged, release_of
from firstlight.doctor.rules.commands import install, sudo
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts

SWITCHED = re.compile(r"SXM|HBM3|\bH(200|20)\b(?!.*NVL)|\bB[23]00\b")  # cards that NVSwitches connect
OFF_AND_ON = (
    "Switch the machine off, if nobody else works on it and you can reach its switch; a mere restart may not bring the "
    "card back:",
)
NVML_CODES = {15: "the GPU is lost", 16: "the GPU must be reset"}


def contexts(facts: Facts) -> list[tuple[int, int]]:
    """The number of each card on which no program gets a place, and the code that tells why."""
    return [(number, device.context) for number, device in enumerate(facts.cuda.devices) if device.context]


@rule("driver")
def card_lost(facts: Facts) -> Seen | None:
    """The card has stopped answering.

    A card can fail while it runs. The driver then says that it has fallen off the bus (Xid 79 in the kernel's log,
    where an Xid is the number of a fault), or that it has to be reset. The usual reasons are heat, too little power,
    a card or cable that sits loosely, or a fault of the card.
    """
    codes = [code for code in (facts.nvml.init, *facts.nvml.refused) if code in NVML_CODES]
    line = logged(facts, r"Xid.*: 79\b|fallen off the bus|GPU is lost")
    on_bus, seen = sum(gpu.vendor == "nvidia" for gpu in facts.gpus), len(facts.nvml.devices)
    if not codes and not (line and (seen < on_bus or not facts.cuda.devices)):
        return None
    reset = (f"$ {sudo(facts)}nvidia-smi --gpu-reset",) if 15 not in codes and not line else ()
    return Seen(
        evidence=(
            *(f"NVML returned {code}: {NVML_CODES[code]}" for code in dict.fromkeys(codes)),
            *([line] if line else []),
            *([f"{on_bus} NVIDIA cards are on the bus, NVML reaches {seen}"] if seen < on_bus else []),
        ),
        fix=(
            *(reset or (*OFF_AND_ON, f"$ {sudo(facts)}poweroff")),
            "If it comes again, look at the temperature under load, at the power cables and at the seat of the card.",
            "$ nvidia-smi --query-gpu=temperature.gpu,power.draw --format=csv --loop=1",
        ),
        certainty="certain" if codes else "likely",
    )


@rule("context")
def memory_broken(facts: Facts) -> Seen | None:
    """The card's memory has an error that stops every program.

    Cards for computing check their memory (ECC) and correct small errors. One that cannot be corrected ends the
    program, and the card may take no other until it was reset. On a reset it stops using the broken place, so once is
    often all; a card on which it comes again is worn out.
    """
    bad = [number for number, code in contexts(facts) if code == 214]
    met = heard(facts, "uncorrectable ECC error", "ECC_UNCORRECTABLE")
    if facts.cuda.init != 214 and not bad and not met:
        return None
    counts = [(number, device.ecc_errors) for number, device in enumerate(facts.nvml.devices) if device.ecc_errors]
    return Seen(
        evidence=(
            *(["cuInit returned 214: an ECC error that cannot be corrected"] if facts.cuda.init == 214 else []),
            *(f"making a context on card {number} returned 214" for number in bad),
            *([met] if met else []),
            *(f"card {number} counts {errors} errors that could not be corrected" for number, errors in counts),
        ),
        fix=(
            "End every program that uses the card, then reset it, or restart the machine:",
            f"$ {sudo(facts)}nvidia-smi --gpu-reset",
            "This tells whether the broken place was replaced, and whether the card is to be changed:",
            "$ nvidia-smi -q -d ECC,ROW_REMAPPER",
        ),
        certainty="certain" if facts.cuda.init == 214 or bad else "likely",
    )


@rule("start")
def fabric_manager(facts: Facts) -> Seen | None:
    """The cards wait for the Fabric Manager, which does not run or has not finished.

    In machines with several cards on one board (the SXM models of A100, H100, H200, and B200), switches connect the
    cards. A program of NVIDIA's, the Fabric Manager, sets these switches up. Until it has, CUDA starts on none of the
    cards, not even if you use only one. It must be of exactly the driver's version, so it often fails after an
    update.
    """
    waiting = [device for device in facts.nvml.devices if device.fabric in ("not started", "in progress")]
    switched = [device for device in facts.nvml.devices if SWITCHED.search(device.name)]
    if not (facts.cuda.init == 802 and (waiting or switched)):
        return None
    version, branch = driver_of(facts) or "", release_of(driver_of(facts))
    steps = install(facts, apt=f"nvidia-fabricmanager-{branch}", dnf=f"nvidia-fabricmanager-{version}")
    lender = "On a rented machine, in a container, or with only some of the board's cards, it is the provider's task."
    return Seen(
        evidence=(
            "cuInit returned 802: the system is not ready",
            *dict.fromkeys(
                f"{device.name or 'a card'}: the state of the fabric is {device.fabric}" for device in waiting
            ),
            *dict.fromkeys(f"{device.name} is a card for boards with switches" for device in switched if not waiting),
        ),
        fix=(
            lender,
            *steps,
            f"$ {sudo(facts)}systemctl enable --now nvidia-fabricmanager",
            f"Its version must be the driver's, {version}. From B200 on it also needs the package nvlsm.",
            "When this says Completed, the cards are ready:",
            "$ nvidia-smi -q | grep -A 2 Fabric",
        ),
        certainty="certain" if waiting else "likely",
    )


@rule("start")
def system_not_ready(facts: Facts) -> Seen | None:
    """The card says that the system is not ready, and no switches are to blame.

    Code 802 tells CUDA to wait for something. On boards with several cards that is the Fabric Manager. Without such a
    board it is a card in the mode for confidential computing, which takes no work before it was checked, or a driver
    that does not get along with the memory management (HMM) of a new kernel.
    """
    if facts.cuda.init != 802:
        return None
    if any(
        SWITCHED.search(device.name) or device.fabric in ("not started", "in progress") for device in facts.nvml.devices
    ):
        return None
    names = [device.name for device in facts.nvml.devices if device.name]
    return Seen(
        evidence=(
            "cuInit returned 802: the system is not ready",
            *((f"NVML sees {', '.join(names)}, no card for boards with switches",) if names else ()),
        ),
        fix=(
            "Right after the machine has started, wait a minute and try again. Then ask for the mode:",
            "$ nvidia-smi conf-compute -f",
            "If it is on, check the card as your provider describes, and declare it ready:",
            f"$ {sudo(facts)}nvidia-smi conf-compute -srs 1",
            "If it is off, switch off HMM and restart:",
            f"$ echo options nvidia_uvm uvm_disable_hmm=1 | {sudo(facts)}tee /etc/modprobe.d/nvidia-hmm.conf",
            f"$ {sudo(facts)}reboot",
        ),
        certainty="possible",
    )
