"""Causes that hide a GPU which works: variables of the environment."""

from __future__ import annotations

from firstlight_doctor.rules.commands import unset
from firstlight_doctor.rules.machine import vendor_of
from firstlight_doctor.rules.rule import Signs, rule, signs
from firstlight_doctor.schema import Facts

NO_DEVICE = 100  # a code of CUDA


def accepted(value: str, cards: int) -> list[str]:
    """Return the entries of a list such as CUDA_VISIBLE_DEVICES that count: those before the first that is no card.

    Whether a card's long name ("GPU-…") is right cannot be told: a report does not hold it.

    Examples
    --------
    >>> accepted("0,7,1", 2), accepted("-1", 2), accepted("", 2), accepted("0,0", 2), accepted("GPU-8932f937", 2)
    (['0'], [], [], [], ['GPU-8932f937'])
    """
    taken: list[str] = []
    for entry in (entry.strip() for entry in value.split(",")):
        if entry.isdecimal() and entry in taken:
            return []  # a card named twice makes the whole list void
        if not entry.startswith(("GPU-", "MIG-")) and not (entry.isdecimal() and len(entry) < 5 and int(entry) < cards):
            break
        taken.append(entry)
    return taken


@rule("visible", on="gpu", unless="slurm-job-without-gpu")
def cuda_visible_devices(facts: Facts) -> Signs | None:
    """A variable such as CUDA_VISIBLE_DEVICES hides every card.

    It lists the cards that a program may see, by number from 0 or by name. Set but empty, it shows none; and it is read
    only up to the first entry that is no card. nvidia-smi does not look at it, and still shows all. AMD's cards have
    HIP_VISIBLE_DEVICES, too, and ROCR_VISIBLE_DEVICES, which is read first: the others count anew, from 0, in what it
    left.

    To do:
    {unset}
    If one program alone sees no GPU, look for os.environ in it: it can set the variable for itself.
    """
    vendor, env, torch, init = vendor_of(facts), facts.env, facts.torch, facts.cuda.init
    second = "HIP_VISIBLE_DEVICES" if "HIP_VISIBLE_DEVICES" in env else "CUDA_VISIBLE_DEVICES"
    lists = ("ROCR_VISIBLE_DEVICES", second) if vendor == "amd" else ("CUDA_VISIBLE_DEVICES",)
    names = [name for name in lists if name in env]
    if vendor == "nvidia":
        dark, seen = init in (0, NO_DEVICE) and not facts.cuda.devices, f"CUDA finds none (cuInit returned {init})"
    else:
        dark, seen = bool(torch.hip and torch.imported and not torch.kind), "PyTorch for ROCm finds none"
    listed = len(facts.nvml.devices) if vendor == "nvidia" else 0  # nvidia-smi does not look at the variable
    cards = listed or sum(gpu.vendor == vendor for gpu in facts.gpus) or 1
    taken = [""] * cards
    for name in names:
        taken = accepted(env[name], len(taken))
    if not dark or not names or any(entry.isdecimal() for entry in taken):  # it shows a card, so the fault is elsewhere
        return None
    return signs(
        *(f"{name}={env[name] or ' (set, and empty)'}" for name in names),
        f"this machine has {'one card, number 0' if cards == 1 else f'{cards} cards, numbers 0 to {cards - 1}'}",
        seen,
        certainty="likely" if taken else "certain",
        unset=unset(facts, *names),
    )


def setting(facts: Facts, name: str) -> Signs:
    """Return where a setting of Numba comes from, and how it is taken back."""
    works = f"CUDA works here: it shows {facts.cuda.devices[0].name}"
    if name in facts.env:
        return signs(f"{name}={facts.env[name]}", works, unset=unset(facts, name))
    key = name[len("NUMBA_") :].lower()
    delete = f"Delete the line {key} in the file .numba_config.yaml of the folder that you start Python in."
    return signs(f"Numba's setting {key} is on, and not by a variable of the environment", works, unset=delete)


@rule("numba")
def numba_disabled(facts: Facts) -> Signs | None:
    """Numba is told to leave CUDA alone.

    The setting NUMBA_DISABLE_CUDA is for tests and for machines without a GPU. With it, numba.cuda.is_available() is
    False and no kernel starts, while PyTorch goes on using the card.

    To do:
    {unset}
    """
    return setting(facts, "NUMBA_DISABLE_CUDA") if facts.numba.disabled and facts.cuda.devices else None


@rule("numba")
def numba_simulator(facts: Facts) -> Signs | None:
    """Numba runs kernels in its simulator, although there is a GPU.

    The simulator lets Python run a kernel, thread by thread, on the processor: right, and far slower. It is turned on
    by the setting NUMBA_ENABLE_CUDASIM, which is easily left on after a search for an error. In it,
    numba.cuda.is_available() is True, so a program does not notice.

    To do:
    {unset}
    """
    return setting(facts, "NUMBA_ENABLE_CUDASIM") if facts.numba.simulator and facts.cuda.devices else None
