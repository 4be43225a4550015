"""The questions, each answered from the facts alone: yes, no, or not known because it was not reached or not needed."""

# ruff: noqa: D103 -- each function answers the question of its name: see QUESTIONS

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional, Tuple

from gpu_doctor.rules.ask import MAKERS, absent, covers, cuda_number, driver_of, files, maker, release_of, shut
from gpu_doctor.rules.rule import QUESTIONS
from gpu_doctor.shapes import Facts


@dataclass(frozen=True)
class Answer:
    """What became of one question.

    Examples
    --------
    >>> from gpu_doctor import Facts, Report
    >>> [answer.question for answer in Report(Facts.of({})).ladder if answer.state is False]
    ['bus']
    """

    question: str
    state: bool | None
    words: str


def climb(facts: Facts) -> list[Answer]:
    """Answer every question.

    Examples
    --------
    >>> [answer.words for answer in climb(Facts()) if answer.state is False]
    ['none was found']
    """
    return [Answer(question, *answered(question, facts)) for question in QUESTIONS]


State = Tuple[Optional[bool], str]
LATER: State = (None, "not reached")
NEEDLESS: State = (None, "not needed for this GPU")
OF_CARD = (46, 214)  # codes with which not the driver refuses, but the card: it is taken, or broken
BUILT = {"cuda": "CUDA", "hip": "ROCm", "xpu": "XPU"}
NAMES = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple"}


def answered(question: str, facts: Facts) -> State:
    if not maker(facts) and question not in ("wheel", "bus", "toolchain"):  # there is nothing to ask of it
        return LATER
    return NEEDLESS if question in OF_NVIDIA and maker(facts) != "nvidia" else ANSWERS[question](facts)


def wheel(facts: Facts) -> State:
    torch, vendor = facts.torch, maker(facts)
    if not torch.version:  # without a GPU, that breaks nothing
        return (False if vendor and absent(facts) else None), "PyTorch is not installed"
    if vendor == "apple" and not torch.imported:  # only the import tells
        return None, f"PyTorch {torch.version}"
    versions = [(name, str(getattr(torch, kind))) for kind, name in BUILT.items() if getattr(torch, kind)]
    kinds = [f"{name} {'.'.join(version.split('.')[:2])}" for name, version in versions]
    words = f"PyTorch {torch.version} for {kinds[0] if kinds else 'MPS' if torch.mps else 'the CPU'}"
    return (bool(getattr(torch, MAKERS[vendor])) if vendor else None), words


def bus(facts: Facts) -> State:
    vendor = maker(facts)
    if not vendor:
        seen = " and ".join(sorted({NAMES[gpu.vendor] for gpu in facts.gpus if gpu.vendor in NAMES}))
        return False, f"one of {seen}, which PyTorch cannot use" if seen else "none was found"
    devices = (facts.cuda.devices or facts.nvml.devices) if vendor == "nvidia" else ()
    names = [device.name for device in devices] or list(facts.torch.names)
    return True, ", ".join(dict.fromkeys(name for name in names if name)) or (
        "an Apple chip" if vendor == "apple" else f"a card of {NAMES[vendor]}"
    )


def driver(facts: Facts) -> State:
    vendor = maker(facts)
    if vendor == "apple":
        return True, f"Metal, of macOS {facts.system.macos or ''}".strip()
    if vendor == "nvidia" and driver_of(facts):
        kind = {True: ", open kernel module", False: ", closed kernel module", None: ""}[facts.kernel.open_module]
        return True, f"NVIDIA {driver_of(facts)}{kind}"
    if facts.system.wsl:
        return None, "Windows has it"
    if facts.system.os != "linux" or facts.system.tegra:
        return LATER
    bound = {gpu.driver for gpu in facts.gpus if gpu.vendor == vendor}
    if good := bound & {"nvidia", "amdgpu", "i915", "xe"}:
        return True, f"it is {', '.join(sorted(map(str, good)))}"
    if not bound:
        return LATER
    others = ", ".join(sorted(driver for driver in bound if driver))
    return False, f"{others} has the card" if others else "no driver has taken the card"


def nodes(facts: Facts) -> State:
    if facts.system.os != "linux":
        return NEEDLESS
    if closed := [node.path for node in shut(facts)]:
        return False, f"not {', '.join(closed)}"
    paths = [node.path for node in files(facts)]
    if maker(facts) == "amd" and not facts.system.wsl and "/dev/kfd" not in paths:
        return False, "there is no /dev/kfd"
    if not paths:  # a Jetson has them in places of its own
        return (None, "not known on a Jetson") if facts.system.tegra else (False, "there is none")
    return True, ", ".join(paths[:3])


def library(facts: Facts) -> State:
    cuda = facts.cuda
    found = (True, cuda.path or "found") if cuda.path or cuda.init is not None else LATER
    return (False, cuda.error) if cuda.error else found


def start(facts: Facts) -> State:
    cuda = facts.cuda
    if cuda.init is None:
        return (False, f"asking it {cuda.failed}") if cuda.failed else LATER
    known = f", for CUDA up to {cuda_number(cuda.version)}" if cuda.version else ""
    return cuda.init in (0, 100, *OF_CARD), f"cuInit returned {cuda.init}{known}"


def visible(facts: Facts) -> State:
    if maker(facts) != "nvidia":
        return (True, f'PyTorch calls it "{facts.torch.kind}"') if facts.torch.kind else LATER
    if facts.cuda.init == 100 or (facts.cuda.init == 0 and not facts.cuda.devices and not facts.cuda.failed):
        return False, "the driver shows no device"
    count = len(facts.cuda.devices)
    return (True, f"{count} device{'s' * (count > 1)}") if count else LATER


def context(facts: Facts) -> State:
    if facts.cuda.init in OF_CARD:
        return False, f"cuInit returned {facts.cuda.init}"
    codes = [device.context for device in facts.cuda.devices]
    bad = [f"device {number} returned {code}" for number, code in enumerate(codes) if code]
    return (False, "; ".join(bad)) if bad else (True, "one was made") if codes and None not in codes else LATER


def version(facts: Facts) -> State:
    if not facts.torch.cuda or not facts.cuda.version:
        return LATER
    words = f"it knows CUDA up to {cuda_number(facts.cuda.version)}, PyTorch wants {facts.torch.cuda}"
    return release_of(facts.torch.cuda) <= facts.cuda.version // 1000, words


def code(facts: Facts) -> State:
    if maker(facts) == "amd":
        return code_for_amd(facts)
    if maker(facts) != "nvidia":
        return NEEDLESS
    cards = [device.capability for device in facts.cuda.devices]
    if not facts.torch.archs or not cards:
        return LATER
    missing = [card for card in cards if not covers(facts.torch.archs, card)]
    served = [card for card in cards if card not in missing]
    if facts.torch.kernel == "right" and served:  # beside a card that only draws the screen
        missing, cards = [], served
    named = " and ".join(".".join(map(str, card)) for card in dict.fromkeys(missing or cards))
    return not missing, f"{'no code' if missing else 'code'} for compute capability {named}"


def code_for_amd(facts: Facts) -> State:
    cards, archs = facts.kernel.gfx, facts.torch.archs
    if not cards or not facts.torch.hip or not archs:
        return LATER
    known = [card for card in cards if card in archs]
    served = bool(known or facts.torch.kernel == "right")  # a sister's code may run
    return served, f"{'code' if served else 'no code'} for {', '.join(known or cards)}"


def torch(facts: Facts) -> State:
    kernel, failed = facts.torch.kernel, facts.torch.failed
    if kernel in ("right", "wrong"):
        return kernel == "right", f"the product of two matrices was {kernel}"
    if kernel or (failed and facts.torch.imported):
        return False, f"it fails: {kernel or failed}"
    if facts.torch.error or failed:
        return False, f"import torch: {facts.torch.error or failed}"
    return (False, "PyTorch finds no GPU") if facts.torch.imported and not facts.torch.kind else LATER


def toolchain(facts: Facts) -> State:
    numba = facts.numba
    if facts.system.os == "darwin" or maker(facts) not in ("nvidia", None):
        return None, "it has none; kernels run in the simulator"
    if not numba.version:
        return None, "Numba is not installed"
    if numba.error or (numba.failed and not numba.toolchain):
        return False, f"import numba: {numba.error or numba.failed}"
    if numba.simulator:
        return None, "the simulator is on"
    if not numba.toolchain:
        return LATER
    return numba.toolchain == "works", f"numba-cuda {numba.target or '(old)'}: {numba.toolchain}"


def ptx(facts: Facts) -> State:
    if not facts.numba.needs or not facts.cuda.version:
        return LATER
    words = f"its PTX {facts.numba.ptx} is for CUDA {cuda_number(facts.numba.needs)}"
    if facts.numba.needs <= facts.cuda.version:
        return True, words
    # A driver of the same CUDA generation is helped out by NVIDIA's linker; the kernel's run tells.
    words += f", the driver knows up to {cuda_number(facts.cuda.version)}"
    return (True, f"{words}; NVIDIA's linker helps") if facts.numba.kernel == "right" else (False, words)


def numba(facts: Facts) -> State:
    kernel = facts.numba.kernel
    return (kernel == "right", f"a kernel's result: {kernel}") if kernel else LATER


def health(facts: Facts) -> State:
    if errors := sum(device.ecc_errors for device in facts.nvml.devices):
        return False, f"{errors} error{'s' * (errors > 1)} in its memory that could not be corrected"
    return (True, "it counts no errors") if facts.nvml.devices and facts.torch.kernel == "right" else LATER


# The questions have the names of their functions.
ANSWERS: dict[str, Callable[[Facts], State]] = {name: globals()[name] for name in QUESTIONS}
OF_NVIDIA = ("library", "start", "context", "version", "ptx", "numba")
