"""Causes that hide a GPU which works: variables of the environment."""

from __future__ import annotations

from firstlight.doctor.rules.ask import has, maker
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts

CUDA_VARIABLES = "https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html"
ROCM_VARIABLES = "https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html"
SIMULATOR = "https://numba.readthedocs.io/en/stable/cuda/simulator.html"
NO_DEVICE = 100  # a code of CUDA
IN_A_PROGRAM = "If one program alone sees no GPU, look for os.environ in it: it can set the variable for itself."


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


def cards(facts: Facts, vendor: str) -> int:
    """Count a maker's cards; nvidia-smi's library does not look at CUDA_VISIBLE_DEVICES, and nor does the bus."""
    listed = len(facts.nvml.devices) if vendor == "nvidia" else 0
    return listed or sum(gpu.vendor == vendor for gpu in facts.gpus) or 1


def counted(number: int) -> str:
    """Write how many cards there are, and their numbers."""
    return "one card, number 0" if number == 1 else f"{number} cards, numbers 0 to {number - 1}"


def unset(facts: Facts, *names: str) -> tuple[str, ...]:
    """Return how variables of the environment are taken away, now and for good."""
    if facts.system.os == "windows":
        settings = "If a new PowerShell has it again, delete it in Windows' settings for environment variables."
        return (*(f"$ Remove-Item Env:{name}" for name in names), settings)
    where = "~/.bashrc ~/.profile ~/.bash_profile ~/.zshrc /etc/environment"
    steps = [f"$ unset {' '.join(names)}"]
    if "SLURM_JOB_ID" in facts.env:
        steps.append("In a job, Slurm itself sets it, to the GPUs of the job: your script should leave it alone.")
    return (
        *steps,
        "If a new terminal has it again, this shows the file that sets it:",
        f"$ grep -sn {names[0]} {where}",
    )


@rule("visible")
def cuda_visible_devices(facts: Facts) -> Seen | None:
    """The variable CUDA_VISIBLE_DEVICES hides every card.

    It lists the cards that CUDA may show to a program, by number from 0 or by name. Set but empty, it shows none; and
    CUDA reads it only up to the first entry that is no card. nvidia-smi does not look at it, and still shows all.
    """
    value = facts.env.get("CUDA_VISIBLE_DEVICES")
    if value is None or not has(facts, "nvidia") or facts.cuda.devices or facts.cuda.init not in (0, NO_DEVICE):
        return None
    if value == "NoDevFiles" and "SLURM_JOB_ID" in facts.env:  # set by Slurm: the job asked for no GPU
        return None
    number = cards(facts, "nvidia")
    taken = accepted(value, number)
    if any(entry.isdecimal() for entry in taken):  # it shows a card, so the fault is elsewhere
        return None
    return Seen(
        evidence=(
            f"CUDA_VISIBLE_DEVICES={value or ' (set, and empty)'}",
            f"this machine has {counted(number)}",
            f"CUDA's driver started and found no device (cuInit returned {facts.cuda.init})",
        ),
        fix=(*unset(facts, "CUDA_VISIBLE_DEVICES"), IN_A_PROGRAM),
        certainty="likely" if taken else "certain",
    )


@rule("visible")
def visible_devices_cut_short(facts: Facts) -> Seen | None:
    """CUDA_VISIBLE_DEVICES names a card that is not there, and loses those after it.

    CUDA reads the list up to the first entry that is no card, and says nothing of the rest. The cards before it work;
    a program that counts on all of the list fails with "invalid device ordinal", or computes on fewer.
    """
    value = facts.env.get("CUDA_VISIBLE_DEVICES", "").rstrip(", ")
    if not facts.cuda.devices or not value:
        return None
    number = cards(facts, "nvidia")
    entries, taken = value.split(","), accepted(value, number)
    lost = entries[len(taken) :]
    if not taken or not lost or lost == ["-1"] or len(facts.cuda.devices) != len(taken):
        return None
    return Seen(
        evidence=(
            f"CUDA_VISIBLE_DEVICES={value}",
            f"this machine has {counted(number)}",
            f"CUDA shows {len(taken)} of the {len(entries)} that are listed, and stops at {lost[0].strip()}",
        ),
        fix=(
            "List only cards that this shows:",
            "$ nvidia-smi --list-gpus",
            "Without the variable, a program sees all of them:",
            *unset(facts, "CUDA_VISIBLE_DEVICES"),
        ),
    )


@rule("visible")
def rocm_visible_devices(facts: Facts) -> Seen | None:
    """Variables for AMD's cards, such as HIP_VISIBLE_DEVICES, hide every card.

    Each lists the cards that a program may see, by number from 0. ROCR_VISIBLE_DEVICES is read first; the others then
    count anew, from 0, in what it left. With 1 in both, a machine with two cards shows none.
    """
    torch, env = facts.torch, facts.env
    if maker(facts) != "amd" or not torch.hip or not torch.imported or torch.kind:
        return None
    left, names = cards(facts, "amd"), []
    first = next((name for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if name in env), "")
    for name in ("ROCR_VISIBLE_DEVICES", first):
        if name in env:
            left = len(accepted(env[name], left))
            names.append(name)
    if left or not names:
        return None
    return Seen(
        evidence=(
            *(f"{name}={env[name] or ' (set, and empty)'}" for name in names),
            f"this machine has {counted(cards(facts, 'amd'))}",
            "PyTorch for ROCm runs and finds no GPU",
        ),
        fix=(*unset(facts, *names), IN_A_PROGRAM),
        certainty="likely",
    )


def setting(facts: Facts, name: str) -> tuple[str, tuple[str, ...]]:
    """Return where a setting of Numba comes from, and how it is taken back."""
    if name in facts.env:
        return f"{name}={facts.env[name]}", unset(facts, name)
    key = name.removeprefix("NUMBA_").lower()
    return (
        f"Numba's setting {key} is on, and not by a variable of the environment",
        (f"Delete the line {key} in the file .numba_config.yaml of the folder that you start Python in.",),
    )


@rule("numba")
def numba_disabled(facts: Facts) -> Seen | None:
    """Numba is told to leave CUDA alone.

    The setting NUMBA_DISABLE_CUDA is for tests and for machines without a GPU. With it, numba.cuda.is_available() is
    False and no kernel starts, while PyTorch goes on using the card.
    """
    if not facts.numba.disabled or not facts.cuda.devices:
        return None
    seen, steps = setting(facts, "NUMBA_DISABLE_CUDA")
    return Seen((seen, f"CUDA works here: it shows {facts.cuda.devices[0].name}"), steps)


@rule("numba")
def numba_simulator(facts: Facts) -> Seen | None:
    """Numba runs kernels in its simulator, although there is a GPU.

    The simulator lets Python run a kernel, thread by thread, on the processor: right, and far slower. It is turned on
    by the setting NUMBA_ENABLE_CUDASIM, which is easily left on after a search for an error. In it,
    numba.cuda.is_available() is True, so a program does not notice.
    """
    if not facts.numba.simulator or not facts.cuda.devices:
        return None
    seen, steps = setting(facts, "NUMBA_ENABLE_CUDASIM")
    return Seen((seen, f"CUDA works here: it shows {facts.cuda.devices[0].name}"), steps)
