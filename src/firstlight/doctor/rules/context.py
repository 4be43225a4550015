"""Causes that keep a program from its place on a card: others hold it, it is closed, or its number is wrong."""

from __future__ import annotations

import re

from firstlight.doctor.rules.ask import bare, heard, logged, shut
from firstlight.doctor.rules.card import OFF_AND_ON, card_lost, contexts
from firstlight.doctor.rules.commands import sudo
from firstlight.doctor.rules.generation import card_too_old, closed_module
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts

BUSY, ONE_CARD = "busy or unavailable", "$ CUDA_VISIBLE_DEVICES=0 firstlight doctor"


@rule("start")
def card_does_not_start(facts: Facts) -> Seen | None:
    """The driver has the card, and cannot start it.

    The card is on the bus and the driver has taken it, but it does not answer as it should: nvidia-smi finds no
    device, or CUDA's start ends with code 101, which then is not about a number in your program. The card may lack
    power, sleep too deeply (in a laptop), or get too small a window into memory from the firmware; or the driver does
    not suit it.
    """
    broken = [number for number, code in contexts(facts) if code == 101]
    exclusive = any(device.exclusive and device.processes for device in facts.nvml.devices)
    on_bus = sum(gpu.vendor == "nvidia" and gpu.driver == "nvidia" for gpu in facts.gpus)
    seen = len(facts.nvml.devices)
    dark = bare(facts) and on_bus and facts.nvml.init == 0 and not seen and not shut(facts)
    if not (facts.cuda.init == 101 or (broken and not exclusive) or (dark and facts.cuda.init == 100)):
        return None
    if closed_module(facts) or card_too_old(facts) or card_lost(facts):
        return None
    line = logged(facts, "NVRM|Xid")
    return Seen(
        evidence=(
            *(["cuInit returned 101: invalid device"] if facts.cuda.init == 101 else []),
            *(f"making a context on card {number} returned 101: invalid device" for number in broken),
            *([f"the driver has {on_bus} of the cards on the bus, and NVML sees {seen}"] if on_bus else []),
            *([line] if line else []),
        ),
        fix=(
            "In a rented virtual machine, install the driver that its provider names: a part of a card (vGPU) starts "
            "with no other.",
            *OFF_AND_ON,
            f"$ {sudo(facts)}poweroff",
            "While it is off, check the power cables of the card.",
            'In the settings of the firmware (BIOS), switch on "Above 4G Decoding" and "Resizable BAR".',
            *(
                ("Of several cards, try each alone; if one fails alone, that is the one:", ONE_CARD)
                if on_bus > 1
                else ()
            ),
            "If nothing helps, install the driver anew.",
        ),
        certainty="likely" if line else "possible",
    )


@rule("context")
def exclusive_card(facts: Facts) -> Seen | None:
    """The card admits one program at a time, and another has it.

    An administrator can set a card to the mode Exclusive Process, as many clusters do. The first program gets it,
    every further one is told that it is busy, even if there is room. Your own notebook that still runs counts, and so
    does each worker process of yours.
    """
    exclusive = [device for device in facts.nvml.devices if device.exclusive]
    failed = [(number, code) for number, code in contexts(facts) if code in (46, 101)]
    met = heard(facts, BUSY)
    held = [device for device in exclusive if device.processes]
    if not exclusive or not ((failed and held) or met):
        return None
    return Seen(
        evidence=(
            *(f"making a context on card {number} returned {code}" for number, code in failed),
            f"{exclusive[0].name or 'the card'} is in the mode Exclusive Process",
            *(f"programs that compute on it: {device.processes}" for device in held[:1]),
            *([met] if met else []),
        ),
        fix=(
            "See which program has it; if it is yours, end it (a notebook: shut its kernel down):",
            "$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
            "$ kill PID",
            "If several processes of yours must share the card, ask the administrator for the default mode:",
            f"$ {sudo(facts)}nvidia-smi --compute-mode=DEFAULT",
        ),
        certainty="certain" if failed and held else "likely",
    )


@rule("context")
def card_unavailable(facts: Facts) -> Seen | None:
    """CUDA sees the card, but gets no place on it.

    Every program needs a place of its own on the card, a context. Code 46 says that the card gives none, though no
    other program has it for itself. It may be closed for computing (mode Prohibited), a virtual card without a
    licence, or left in a bad state by a program that crashed.
    """
    failed = [number for number, code in contexts(facts) if code == 46]
    taken = any((device.exclusive and device.processes) or device.mig for device in facts.nvml.devices)
    if taken or not (failed or facts.cuda.init == 46):
        return None
    names = [facts.cuda.devices[number].name for number in failed]
    return Seen(
        evidence=(
            *(["cuInit returned 46: device unavailable"] if facts.cuda.init == 46 else []),
            *(
                f"making a context on card {number} ({facts.cuda.devices[number].name}) returned 46"
                for number in failed
            ),
            *(
                f"programs that compute on {device.name}: {device.processes}"
                for device in facts.nvml.devices
                if device.processes
            ),
        ),
        fix=(
            'See whether the mode is "Prohibited", and set it back:',
            "$ nvidia-smi --query-gpu=index,name,compute_mode --format=csv",
            f"$ {sudo(facts)}nvidia-smi --compute-mode=DEFAULT",
            *(
                ("A virtual card needs a licence. This tells whether it has one:", "$ nvidia-smi -q | grep -i licen")
                if any(re.search("GRID|vGPU|-\\d+[CQ]$", name) for name in names)
                else ()
            ),
            "Otherwise end the programs that hold the card, and reset it or restart the machine:",
            f"$ {sudo(facts)}fuser -v /dev/nvidia*",
            f"$ {sudo(facts)}nvidia-smi --gpu-reset",
        ),
        certainty="likely",
    )


@rule("visible")
def no_card_of_that_number(facts: Facts) -> Seen | None:
    """A program asks for a card by a number that does not exist here.

    Cards are counted from 0, so the second is cuda:1 and a machine with one has only cuda:0. Programs that were
    written on a bigger machine name cards that yours lacks. CUDA_VISIBLE_DEVICES and job systems hide cards and count
    the rest from 0 again: a job that was given card 3 alone sees it as cuda:0.
    """
    met, count = heard(facts, "invalid device ordinal"), len(facts.cuda.devices)
    if not met or facts.cuda.init != 0 or not count or any(device.context for device in facts.cuda.devices):
        return None
    chosen = facts.env.get("CUDA_VISIBLE_DEVICES")
    return Seen(
        evidence=(
            met,
            f"CUDA shows {count} card{'s' * (count > 1)}: " + ", ".join(f"cuda:{number}" for number in range(count)),
            *((f"CUDA_VISIBLE_DEVICES={chosen}",) if chosen else ()),
        ),
        fix=(
            "Look for the number in the program or its settings (cuda:1, gpu_ids, local_rank), and write cuda:0.",
            *(("To see all cards again:", "$ unset CUDA_VISIBLE_DEVICES") if chosen else ()),
            "Started by torchrun, a program needs one card for each process:",
            f"$ torchrun --nproc-per-node={count} PROGRAM.py",
        ),
        certainty="likely",
    )
