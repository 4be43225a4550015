"""Causes that let a GPU work, but slowly or with errors, or leave your program no room on it."""

from __future__ import annotations

from firstlight.doctor.rules.ask import heard, maker
from firstlight.doctor.rules.card import memory_broken
from firstlight.doctor.rules.commands import sudo
from firstlight.doctor.rules.ladder import SLOW, share
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts

# NVML's bits for why a clock is held down. The others tell of a card that idles, that keeps to its power limit, or
# whose clock someone chose; 0x08 alone also shows while a clock changes.
HEAT = {0x20: "the driver slows it down because of heat", 0x40: "it slows itself down because of heat"}
POWER = {0x80: "the machine's power supply slows it down (power brake)"}
SLOWED = 0x08
USED_UP = 0.9
QUERY = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"


@rule("health")
def throttled(facts: Facts) -> Seen | None:
    """The card is being slowed down, by heat or by a lack of power.

    A card that grows too hot, or whose power supply asks for it, lowers its clock, often to less than half. It computes
    right, but slowly. That is not the limit that a card keeps to under full load, nor the rest of a card that idles.
    """
    known = any(device.throttle & bit for device in facts.nvml.devices for bit in HEAT | POWER)
    slow = (share(facts) or 1.0) <= SLOW
    reasons = HEAT | POWER if known or not slow else {SLOWED: "it slows itself down (hardware slowdown)"}
    seen = [
        f"card {number} ({device.name}): {words}"
        for number, device in enumerate(facts.nvml.devices)
        for bit, words in reasons.items()
        if device.throttle & bit
    ]
    if not seen:
        return None
    hot = any(device.throttle & bit for device in facts.nvml.devices for bit in HEAT)
    air = "Give it air: clean the fans and filters, let nothing cover the case, leave a slot free between two cards."
    plugs = (
        "Check that every power plug of the card is in, and that the power supply is strong enough for it. A laptop "
        "needs its own charger. In a server, the administrator sees a power supply that failed."
    )
    return Seen(
        evidence=tuple(seen),
        fix=(
            "Watch its temperature, its power and its clock for a while:",
            "$ nvidia-smi --query-gpu=index,temperature.gpu,power.draw,clocks.sm --format=csv --loop=2",
            air if hot else plugs,
        ),
    )


@rule("health")
def memory_errors(facts: Facts) -> Seen | None:
    """The card's memory had errors that it could not correct.

    Cards for computing check their memory (ECC). An error that they cannot correct ends the program that meets it. The
    card then sets the bad place aside, for good at its next reset. A single error is no reason to worry; more of them
    soon after a reset mean that the card is failing.
    """
    bad = [(number, device) for number, device in enumerate(facts.nvml.devices) if device.ecc_errors]
    if not bad or memory_broken(facts):
        return None
    return Seen(
        evidence=tuple(
            f"card {number} ({device.name}) has counted {device.ecc_errors} since its driver started"
            for number, device in bad
        ),
        fix=(
            "See whether a bad place waits to be set aside (Pending : Yes), and whether that failed before:",
            "$ nvidia-smi --query --display=ECC,ROW_REMAPPER",
            "End all programs on the card, and reset it or restart the machine. On a cluster, tell the administrator.",
            f"$ {sudo(facts)}nvidia-smi --gpu-reset --id={bad[0][0]}",
            "Repeat results that were computed since the error. If it comes back, have the card replaced.",
        ),
    )


@rule("health")
def slow_copy(facts: Facts) -> Seen | None:
    """The card works, but moves data much slower than its memory can.

    The doctor copies a large array on the card. A card that is free reaches most of what its memory can do. Much less
    means that something else uses it at the same time, that its clock is held down, or that it is not what it seems.
    """
    reached = share(facts)
    if reached is None or reached > SLOW or throttled(facts):
        return None
    programs = sum(device.processes for device in facts.nvml.devices)
    watch = (
        ("See which programs compute on it, and look again when they are done:", f"$ {QUERY}")
        if maker(facts) == "nvidia"
        else ("End the other programs that use the card, and look again.",)
    )
    return Seen(
        evidence=(
            f"a copy reaches {reached:.0%} of what the memory can do; {SLOW:.0%} is little",
            *((f"programs on the card meanwhile, the doctor's own among them: {programs}",) if programs else ()),
        ),
        fix=(
            *watch,
            "On a laptop, plug in the charger and choose the power profile for performance.",
            "$ firstlight doctor",
        ),
        certainty="possible",
    )


@rule("context")
def memory_full(facts: Facts) -> Seen | None:
    """Other programs fill the card's memory.

    Every program on a card gets a part of its memory, and keeps it until it ends: also a notebook that is open and does
    nothing. Then there is too little for yours, whatever it asks for.
    """
    full = [
        (number, device)
        for number, device in enumerate(facts.nvml.devices)
        if device.memory and (device.memory_used or 0) > USED_UP * device.memory
    ]
    refused = [number for number, device in enumerate(facts.cuda.devices) if device.context == 2]
    told = heard(facts, "out of memory", "OUT_OF_MEMORY")
    if not full or not (refused or told):
        return None
    return Seen(
        evidence=(
            *(
                f"card {number}: {in_gib(device.memory_used)} of {in_gib(device.memory)} are used"
                for number, device in full
            ),
            *(f"making a context on card {number} returned 2: out of memory" for number in refused),
            *((told,) if told else ()),
        ),
        fix=(
            "See which programs hold it; end those that are yours (a notebook: shut its kernel down):",
            f"$ {QUERY}",
            "$ kill PID",
            "If the list is empty although the memory is full, another user or container has it: ask there.",
            *(
                ("Or take a card that is free:", f"$ export CUDA_VISIBLE_DEVICES={free}")
                if (free := free_card(facts))
                else ()
            ),
        ),
        certainty="certain" if refused else "likely",
    )


def in_gib(amount: int | None) -> str:
    """Write an amount of memory."""
    return f"{(amount or 0) / 2**30:.1f} GiB"


def free_card(facts: Facts) -> str | None:
    """Return the number of a card that has most of its memory left, where there are several that are alike."""
    cards = facts.nvml.devices
    if len({device.name for device in cards}) > 1:
        return None
    return next(
        (
            str(number)
            for number, card in enumerate(cards)
            if card.memory and (card.memory_used or 0) < card.memory / 10
        ),
        None,
    )


@rule("torch", kind="note")
def own_memory(facts: Facts) -> Seen | None:
    """Your program asked for more memory than the card had left.

    The card works. A program needs room for its data, for every result in between, and for what PyTorch keeps to use
    again. When the sum is more than the card has, the next array fails, however small it is.
    """
    told = heard(facts, "out of memory", "OutOfMemoryError")
    if not told or facts.torch.kernel != "right" or memory_full(facts):
        return None
    sizes = [f"{device.name} has {in_gib(device.memory)}" for device in facts.nvml.devices if device.memory]
    return Seen(
        evidence=(told, *sizes),
        fix=(
            "Work on less at a time: smaller batches, blocks of an image. float32 takes half the room of float64.",
            "Delete what you no longer need (del name), and compute without gradients: with torch.no_grad().",
            "In a notebook, restart the kernel: results of earlier cells keep their memory.",
        ),
        certainty="likely",
    )
