"""Causes in the card itself, or that keep a program from its place on it: lost, broken, hot, or held by others."""

from __future__ import annotations

import re

from firstlight_doctor.rules.checks import OF_CARD
from firstlight_doctor.rules.libcuda import cuda_errors
from firstlight_doctor.rules.machine import driver_version, find_in_log, find_message, major, nvml_sees, plain_linux
from firstlight_doctor.rules.rule import Signs, rule, signs
from firstlight_doctor.schema import Facts

SWITCHED = re.compile(r"SXM|HBM3|\bH(200|20)\b(?!.*NVL)|\bB[23]00\b")  # cards that NVSwitches connect
NVML_CODES = {15: "the GPU is lost", 16: "the GPU must be reset"}
# NVML's bits for why a clock is held down. The others tell of a card that idles, that keeps to its power limit, or
# whose clock someone chose, or is changing.
SLOWED = {0x20: "heat, says the driver", 0x40: "heat, says the card", 0x80: "the power supply (power brake)"}


@rule("driver")
def card_lost(facts: Facts) -> Signs | None:
    """The card has stopped answering.

    A card can fail while it runs. The driver then says that it has fallen off the bus (Xid 79 in the kernel's log,
    where an Xid is the number of a fault), or that it has to be reset. The usual reasons are heat, too little power,
    a card or cable that sits loosely, or a fault of the card.

    To do:
    [lost] Switch the machine off, if nobody else works on it; a mere restart may not bring the card back.
    [not lost] {reset}
    If it comes again, look at the temperature under load, at the power cables and at the seat of the card.
    $ nvidia-smi --query-gpu=temperature.gpu,power.draw --format=csv --loop=1
    """
    codes = dict.fromkeys(code for code in (facts.nvml.init, *facts.nvml.refused) if code in NVML_CODES)
    line = find_in_log(facts, r"Xid.*: 79\b|fallen off the bus|GPU is lost")
    on_bus, seen = sum(gpu.vendor == "nvidia" for gpu in facts.gpus), len(facts.nvml.devices)
    if not codes and not (line and (seen < on_bus or not facts.cuda.devices)):
        return None
    return signs(
        *(f"NVML returned {code}: {NVML_CODES[code or 0]}" for code in codes),
        line,
        f"{on_bus} NVIDIA cards are on the bus, NVML reaches {seen}" if seen < on_bus else None,
        certainty="certain" if codes else "likely",
        lost=15 in codes or line,
    )


@rule(
    "start",
    on="linux",
    unless="address-space-limit card-asleep card-lost card-too-old closed closed-module driver-half-updated wsl "
    "exclusive-card fabric-manager forward-compatibility hmm no-permission stub-library system-call-refused "
    "uvm-missing uvm-stale",
)
def card_does_not_start(facts: Facts) -> Signs | None:
    """The driver has the card, and cannot start it.

    The card is on the bus and the driver has taken it, but it does not answer as it should: nvidia-smi finds no
    device, or CUDA's start ends with a code such as 101, which then is not about a number in your program. The card
    may lack power, sleep too deeply (in a laptop), or get too small a window into memory from the firmware; or the
    driver does not suit it.

    To do:
    In a rented virtual machine, install the driver that its provider names: a part of a card needs that one.
    Switch the machine off, if nobody else works on it; a mere restart may not bring the card back.
    Check the power cables. In the firmware (BIOS), switch on "Above 4G Decoding" and "Resizable BAR".
    If nothing helps, install the driver anew.
    """
    on_bus = sum(gpu.vendor == "nvidia" and gpu.driver == "nvidia" for gpu in facts.gpus)
    init, line, seen = facts.cuda.init or 0, find_in_log(facts, "NVRM|Xid"), len(facts.nvml.devices)
    codes = cuda_errors(facts, 101, *({init} - {0, 100, *OF_CARD}))
    dark = plain_linux(facts) and on_bus and facts.cuda.init == 100 and facts.nvml.init == 0 and not seen
    if not codes and not dark:
        return None
    fewer = f"the driver has {on_bus} of the cards on the bus, and NVML sees {seen}" if on_bus else None
    return signs(*codes, fewer, line, certainty="likely" if line else "possible")


@rule("visible", on="bare", unless="closed closed-module card-too-old card-lost cuda-visible-devices")
def card_asleep(facts: Facts) -> Signs | None:
    """The laptop's card of NVIDIA is asleep or switched off.

    A laptop with two kinds of graphics cuts the power of its card of NVIDIA while nobody uses it, or for good if it is
    set to save power. The card stays on the bus and its driver runs, but nvidia-smi or CUDA finds no device. A program
    should wake the card; on some laptops it stays off, most often after the laptop itself has slept.

    To do:
    This tells whether it sleeps: D3cold is without power, D0 awake.
    $ grep -H . $(grep -l 0x10de /sys/bus/pci/devices/*/vendor | sed s,vendor,power_state,)
    Forbid it to sleep until the next start, and see whether it comes back:
    $ echo on | {sudo}tee $(grep -l 0x10de /sys/bus/pci/devices/*/vendor | sed s,vendor,power/control,)
    $ nvidia-smi
    {switch_graphics}
    If it stays away, see what the driver says of it, and restart the laptop with its charger in:
    $ {sudo}dmesg | grep NVRM
    """
    both = {"nvidia"} < {gpu.vendor for gpu in facts.gpus}
    asleep = both and facts.kernel.version and facts.cuda.init == 100 and not facts.nvml.devices
    if not asleep or facts.nvml.init == 18 or find_in_log(facts, "RmInitAdapter"):
        return None
    return signs(
        "a card of NVIDIA and other graphics are on the bus, and NVIDIA's driver runs",
        *cuda_errors(facts),
        nvml_sees(facts),
        certainty="likely" if facts.nvml.init == 0 else "possible",
    )


@rule("start", on="linux")
def fabric_manager(facts: Facts) -> Signs | None:
    """The cards wait for the Fabric Manager, which does not run or has not finished.

    In machines with several cards on one board (the SXM models of A100, H100, H200, and B200), switches connect the
    cards. A program of NVIDIA's, the Fabric Manager, sets these switches up. Until it has, CUDA starts on none of the
    cards, not even if you use only one. It must be of exactly the driver's version, so it often fails after an
    update. On a card without such a board, the same code has rarer reasons.

    To do:
    On a rented machine, in a container, or with only some of the board's cards, it is the provider's task.
    [apt] $ {sudo}apt install nvidia-fabricmanager-{branch}
    [dnf] $ {sudo}dnf install nvidia-fabricmanager-{version}
    $ {sudo}systemctl enable --now nvidia-fabricmanager
    Its version must be the driver's, {version}. From B200 on it also needs the package nvlsm.
    When this says Completed, the cards are ready:
    $ nvidia-smi -q | grep -A 2 Fabric
    [not seen] If the card is on no such board, see whether it is in the mode for confidential computing, which asks for
      a check before it is declared ready (-srs 1). If not, keep the driver from using HMM, and restart:
    [not seen] $ nvidia-smi conf-compute -f
    [not seen] {no_hmm}
    """
    if facts.cuda.init != 802:
        return None
    waiting = [card for card in facts.nvml.devices if card.fabric in ("not started", "in progress")]
    switched = [card for card in facts.nvml.devices if SWITCHED.search(card.name)]
    seen = [f"{card.name or 'a card'}: the state of the fabric is {card.fabric}" for card in waiting]
    seen = seen or [f"{card.name} is a card for boards with switches" for card in switched]
    return signs(
        *cuda_errors(facts),
        *dict.fromkeys(seen),
        certainty="certain" if waiting else "likely" if switched else "possible",
        version=driver_version(facts) or "",
        branch=major(driver_version(facts)),
        seen=seen,
    )


@rule("visible", on="linux")
def mig_without_instance(facts: Facts) -> Signs | None:
    """The card is shared out by MIG, and no share of it is yours.

    MIG (multi-instance GPU) splits a large card into instances, which programs see as cards of their own. Where the
    mode is on, the card itself is out of bounds. There is nothing to compute on as long as it has no instance, as its
    instances have no part that computes, or as your job or container was given none. nvidia-smi shows the card all the
    same.

    To do (instances):
    This lists the instances that a program can have; a job or a container gets one if it asks for it by its name:
    $ nvidia-smi -L
    If it lists the card without any "MIG ... Device", the instances have no part that computes. The administrator makes
      it:
    $ {sudo}nvidia-smi mig -i 0 -cci

    To do:
    Ask the machine's administrator for an instance. On your own, list the sizes, and make one of the largest:
    $ nvidia-smi mig -lgip
    $ {sudo}nvidia-smi mig -i 0 -cgi 0 -C
    Or have the whole card, without MIG:
    $ {sudo}nvidia-smi -i 0 -mig 0
    """
    devices, cuda = facts.nvml.devices, facts.cuda
    if not devices or not all(device.mig for device in devices) or cuda.devices or cuda.init not in (0, 100):
        return None
    instances, name = sum(device.mig_instances for device in devices), devices[0].name or "the card"
    if instances and "CUDA_VISIBLE_DEVICES" in facts.env:  # which says what a program sees of them
        return None
    return signs(
        f"MIG is on for {name}, and it has {instances or 'no'} instance{'s' * (instances > 1)}",
        *cuda_errors(facts),
        certainty="likely" if instances else "certain",
        instances=instances,
    )


@rule("context")
def memory_full(facts: Facts) -> Signs | None:
    """Other programs fill the card's memory.

    Every program on a card gets a part of its memory, and keeps it until it ends: also a notebook that is open and does
    nothing. Then there is too little for yours, whatever it asks for.

    To do:
    See which programs hold it; end those that are yours (a notebook: shut its kernel down):
    $ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv
    $ kill PID
    If the list is empty although the memory is full, a process that nvidia-smi can't name has it. It may be yours: a
      notebook that was cut off, or workers whose program has ended. Another process's empty_cache() frees nothing.
    [not windows] $ ps -u $USER -o pid,lstart,cmd | grep python
    [not windows] $ fuser -v /dev/nvidia*
    If no PID is yours, another user or container has it: ask there.
    [free] Or take a card that is free, with the setting CUDA_VISIBLE_DEVICES={free}.
    """
    cards = facts.nvml.devices
    used = [(number, (card.memory_used or 0) / card.memory) for number, card in enumerate(cards) if card.memory]
    full = [f"card {number}: {part:.0%} of its memory is in use" for number, part in used if part > 0.9]
    alike = len({card.name for card in cards}) == 1
    free = next((str(number) for number, part in used if alike and part < 0.1), "")
    refused, told = cuda_errors(facts, 2), find_message(facts, "out of memory", "OUT_OF_MEMORY")
    if not full or not (refused or told):
        return None
    return signs(*full, *refused, told, certainty="certain" if refused else "likely", free=free)


@rule("context")
def exclusive_card(facts: Facts) -> Signs | None:
    """The card admits one program at a time, and another has it, or it admits none.

    An administrator can set a card to the mode Exclusive Process, as many clusters do. The first program gets it,
    every further one is told that it is busy, even if there is room. Your own notebook that still runs counts, and so
    does each worker process of yours. A card in the mode Prohibited, a virtual one without a licence, or one that a
    crash has left in a bad state, says the same.

    To do:
    See which program has it; if it is yours, end it (a notebook: shut its kernel down):
    $ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv
    $ kill PID
    If several processes must share the card, or its mode is Prohibited, ask for the default:
    [windows] In a PowerShell that you start with "Run as administrator":
    $ {sudo}nvidia-smi --compute-mode=DEFAULT
    A virtual card needs a licence, of which nvidia-smi -q tells. Otherwise restart the machine.
    """
    exclusive = [card for card in facts.nvml.devices if card.exclusive]
    held = [card for card in facts.nvml.devices if card.processes]
    taken, met = any(card.exclusive for card in held), find_message(facts, "busy or unavailable")
    codes = cuda_errors(facts, 46, 101) if taken else cuda_errors(facts, 46)
    if not codes and not (exclusive and met):
        return None
    return signs(
        *codes,
        f"{exclusive[0].name or 'the card'} is in the mode Exclusive Process" if exclusive else None,
        f"programs that compute on it: {held[0].processes}" if held else None,
        met,
        certainty="certain" if codes and taken else "likely",
    )


def memory_faults(facts: Facts) -> list[str]:
    """Return which cards count errors."""
    cards = [(number, card) for number, card in enumerate(facts.nvml.devices) if card.ecc_errors]
    words = "errors that it could not correct, since its driver started"
    return [f"card {number} ({card.name}) counts {card.ecc_errors} {words}" for number, card in cards]


@rule("context")
def memory_broken(facts: Facts) -> Signs | None:
    """The card's memory has an error that stops every program.

    Cards for computing check their memory (ECC) and correct small errors. One that cannot be corrected ends the
    program, and the card may take no other until it was reset. On a reset it stops using the broken place, so once is
    often all; a card on which it comes again is worn out.

    To do:
    {mend_memory}
    """
    codes, met = cuda_errors(facts, 214), find_message(facts, "uncorrectable ECC error", "ECC_UNCORRECTABLE")
    if not codes and not met:
        return None
    return signs(*codes, met, *memory_faults(facts), certainty="certain" if codes else "likely")


@rule("health", unless="memory-broken")
def memory_errors(facts: Facts) -> Signs | None:
    """The card's memory had errors that it could not correct.

    Cards for computing check their memory (ECC). An error that they cannot correct ends the program that meets it. The
    card then sets the bad place aside, for good at its next reset. A single error is no reason to worry; more of them
    soon after a reset mean that the card is failing.

    To do:
    {mend_memory}
    """
    return signs(*memory_faults(facts)) if memory_faults(facts) else None


@rule("health")
def throttled(facts: Facts) -> Signs | None:
    """The card is being slowed down, by heat or by a lack of power.

    A card that grows too hot, or whose power supply asks for it, lowers its clock, often to less than half. It computes
    right, but slowly. That is not the limit that a card keeps to under full load, nor the rest of a card that idles.

    To do:
    Watch its temperature, its power and its clock for a while:
    $ nvidia-smi --query-gpu=index,temperature.gpu,power.draw,clocks.sm --format=csv --loop=2
    [not power] Give it air: clean the fans and filters, let nothing cover the case, leave a slot free between two
      cards.
    [power] Check that its power plugs are all in, and the supply strong enough. A laptop needs its own charger.
    """
    cards = facts.nvml.devices
    held = [(number, card, bit) for number, card in enumerate(cards) for bit in SLOWED if card.throttle & bit]
    if not held:
        return None
    told = (f"card {number} ({card.name}) is slowed down by {SLOWED[bit]}" for number, card, bit in held)
    return signs(*told, power=all(bit == 0x80 for *_, bit in held))
