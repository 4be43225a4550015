"""The checks, each answered from the facts alone: yes, no, or unknown where it was not reached or does not apply."""

# ruff: noqa: D400 -- the docstring of a check is its question

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional, Tuple

from firstlight_doctor.rules import machine
from firstlight_doctor.schema import Facts


@dataclass(frozen=True)
class Check:
    """What became of one question.

    Examples
    --------
    >>> from firstlight_doctor import Facts, Report
    >>> [check.question for check in Report(Facts.of({})).checks if check.state is False]
    ['bus']
    """

    question: str
    state: bool | None
    words: str


State = Tuple[Optional[bool], str]
LATER: State = (None, "not reached")
NEEDLESS: State = (None, "not needed for this GPU")
OF_CARD = (46, 214)  # codes with which not the driver refuses, but the card: it is taken, or broken
BUILT = {"cuda": "CUDA", "hip": "ROCm", "xpu": "XPU"}

Answer = Callable[[Facts], State]
CHECKS: dict[str, Answer] = {}
#: The questions in their order, first of the machine, then of PyTorch, then of Numba. Each makes sense only if those
#: before it were answered with yes.
#:
#: :meta hide-value:
QUESTIONS: dict[str, str] = {}


def run_checks(facts: Facts) -> list[Check]:
    """Answer every question.

    Examples
    --------
    >>> [check.words for check in run_checks(Facts()) if check.state is False]
    ['none was found']
    """
    return [Check(question, *check(facts)) for question, check in CHECKS.items()]


def check(gpu: bool = True, nvidia: bool = False) -> Callable[[Answer], Answer]:
    """Make a function a check of machines with a GPU, or with NVIDIA's alone; its docstring is the question."""

    def enter(answer: Answer) -> Answer:
        def answered(facts: Facts) -> State:
            vendor = machine.vendor_of(facts)
            if gpu and not vendor:  # there is nothing to ask of it
                return LATER
            return NEEDLESS if nvidia and vendor != "nvidia" else answer(facts)

        QUESTIONS[answer.__name__], CHECKS[answer.__name__] = answer.__doc__ or "", answered
        return answered

    return enter


@check(gpu=False)
def bus(facts: Facts) -> State:
    """Is there a GPU in this machine?"""
    vendor = machine.vendor_of(facts)
    if not vendor:
        seen = " and ".join(sorted({machine.VENDORS[gpu.vendor] for gpu in facts.gpus}))
        return False, f"one of {seen}, which PyTorch cannot use" if seen else "none was found"
    devices = (facts.cuda.devices or facts.nvml.devices) if vendor == "nvidia" else ()
    names = [device.name for device in devices] or list(facts.torch.names)
    return True, ", ".join(dict.fromkeys(name for name in names if name)) or (
        "an Apple chip" if vendor == "apple" else f"a card of {machine.VENDORS[vendor]}"
    )


@check()
def driver(facts: Facts) -> State:
    """Does the system run it with the right driver?"""
    vendor = machine.vendor_of(facts)
    if vendor == "apple":
        return True, f"Metal, of macOS {facts.system.macos or ''}".strip()
    if vendor == "nvidia" and machine.driver_version(facts):
        kind = {True: ", open kernel module", False: ", closed kernel module", None: ""}[facts.kernel.open_module]
        return True, f"NVIDIA {machine.driver_version(facts)}{kind}"
    if facts.system.wsl:
        return None, "Windows has it"
    bound = {gpu.driver for gpu in facts.gpus if gpu.vendor == vendor}
    if facts.system.os != "linux" or facts.system.tegra or not bound:
        return LATER
    if good := bound & machine.DRIVERS:
        return True, f"it is {', '.join(sorted(map(str, good)))}"
    others = ", ".join(sorted(driver for driver in bound if driver))
    return False, f"{others} has the card" if others else "no driver has taken the card"


@check()
def nodes(facts: Facts) -> State:
    """May you open its device files?"""
    if facts.system.os != "linux":
        return NEEDLESS
    if closed := [node.path for node in machine.closed_files(facts)]:
        return False, f"not {', '.join(closed)}"
    paths = [node.path for node in machine.device_files(facts)]
    if machine.vendor_of(facts) == "amd" and not facts.system.wsl and "/dev/kfd" not in paths:
        return False, "there is no /dev/kfd"
    if not paths:  # a Jetson has them in places of its own
        return (None, "not known on a Jetson") if facts.system.tegra else (False, "there is none")
    return True, ", ".join(paths[:3])


@check(nvidia=True)
def library(facts: Facts) -> State:
    """Is the driver's library found?"""
    cuda = facts.cuda
    if cuda.error:
        return False, cuda.error
    return (True, cuda.path or "found") if cuda.path or cuda.init is not None else LATER


@check(nvidia=True)
def start(facts: Facts) -> State:
    """Does the driver start?"""
    cuda = facts.cuda
    if cuda.init is None:
        return (False, f"asking it {cuda.failed}") if cuda.failed else LATER
    known = f", for CUDA up to {machine.as_version(cuda.version)}" if cuda.version else ""
    return cuda.init in (0, 100, *OF_CARD), f"cuInit returned {cuda.init}{known}"


@check()
def visible(facts: Facts) -> State:
    """Is the GPU visible to programs?"""
    if machine.vendor_of(facts) != "nvidia":
        return (True, f'PyTorch calls it "{facts.torch.kind}"') if facts.torch.kind else LATER
    if facts.cuda.init == 100 or (facts.cuda.init == 0 and not facts.cuda.devices and not facts.cuda.failed):
        return False, "the driver shows no device"
    count = len(facts.cuda.devices)
    return (True, f"{count} device{'s' * (count > 1)}") if count else LATER


@check(nvidia=True)
def context(facts: Facts) -> State:
    """Can a program start on it?"""
    if facts.cuda.init in OF_CARD:
        return False, f"cuInit returned {facts.cuda.init}"
    codes = [device.context for device in facts.cuda.devices]
    bad = [f"device {number} returned {code}" for number, code in enumerate(codes) if code]
    return (False, "; ".join(bad)) if bad else (True, "one was made") if codes and None not in codes else LATER


@check(gpu=False)
def wheel(facts: Facts) -> State:
    """Is PyTorch built for this GPU?"""
    torch, vendor = facts.torch, machine.vendor_of(facts)
    if not torch.version:  # without a GPU, that breaks nothing
        return (False if vendor and machine.torch_absent(facts) else None), "PyTorch is not installed"
    if vendor == "apple" and not torch.imported:  # only the import tells
        return None, f"PyTorch {torch.version}"
    versions = [(name, str(getattr(torch, kind))) for kind, name in BUILT.items() if getattr(torch, kind)]
    kinds = [f"{name} {'.'.join(version.split('.')[:2])}" for name, version in versions]
    words = f"PyTorch {torch.version} for {kinds[0] if kinds else 'MPS' if torch.mps else 'the CPU'}"
    return (bool(getattr(torch, machine.TORCH_BUILDS[vendor])) if vendor else None), words


@check(nvidia=True)
def version(facts: Facts) -> State:
    """Is the driver new enough for PyTorch?"""
    if not facts.torch.cuda or not facts.cuda.version:
        return LATER
    words = f"it knows CUDA up to {machine.as_version(facts.cuda.version)}, PyTorch wants {facts.torch.cuda}"
    return machine.major(facts.torch.cuda) <= facts.cuda.version // 1000, words


@check()
def code(facts: Facts) -> State:
    """Does PyTorch have code for this card?"""
    torch, vendor = facts.torch, machine.vendor_of(facts)
    if vendor == "amd":
        known = [card for card in facts.kernel.gfx if card in torch.archs]
        if not facts.kernel.gfx or not torch.hip or not torch.archs:
            return LATER
        served = bool(known or torch.kernel == "right")  # a sister's code may run
        return served, f"{'code' if served else 'no code'} for {', '.join(known or facts.kernel.gfx)}"
    if vendor != "nvidia":
        return NEEDLESS
    cards = machine.capabilities(facts)
    if not torch.archs or not cards:
        return LATER
    covered = [card for card in cards if machine.has_code(torch.archs, card)]
    missing = [card for card in cards if card not in covered]
    if torch.kernel == "right" and covered:  # beside a card that only draws the screen
        missing = []
    named = " and ".join(".".join(map(str, card)) for card in dict.fromkeys(missing or covered))
    return not missing, f"{'no code' if missing else 'code'} for compute capability {named}"


@check()
def torch(facts: Facts) -> State:
    """Does PyTorch compute the right result?"""
    kernel, failed = facts.torch.kernel, facts.torch.failed
    if kernel in ("right", "wrong"):
        return kernel == "right", f"the product of two matrices was {kernel}"
    if kernel or (failed and facts.torch.imported):
        return False, f"it fails: {kernel or failed}"
    if facts.torch.error or failed:
        return False, f"import torch: {facts.torch.error or failed}"
    return (False, "PyTorch finds no GPU") if facts.torch.imported and not facts.torch.kind else LATER


@check(gpu=False)
def toolchain(facts: Facts) -> State:
    """Does Numba find its CUDA compiler?"""
    numba = facts.numba
    if facts.system.os == "darwin" or machine.vendor_of(facts) not in ("nvidia", None):
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


@check(nvidia=True)
def ptx(facts: Facts) -> State:
    """Can the driver load what Numba compiles?"""
    numba, knows = facts.numba, facts.cuda.version
    if not numba.needs or not knows:
        return LATER
    words = f"its PTX {numba.ptx} is for CUDA {machine.as_version(numba.needs)}"
    if numba.needs <= knows:
        return True, words
    # A driver of the same CUDA generation is helped out by NVIDIA's linker; the kernel's run tells.
    words += f", the driver knows up to {machine.as_version(knows)}"
    return (True, f"{words}; NVIDIA's linker helps") if numba.kernel == "right" else (False, words)


@check(nvidia=True)
def numba(facts: Facts) -> State:
    """Does Numba compute the right result?"""
    kernel = facts.numba.kernel
    return (kernel == "right", f"a kernel's result: {kernel}") if kernel else LATER


@check()
def health(facts: Facts) -> State:
    """Is it free of errors, and at full speed?"""
    if errors := sum(device.ecc_errors for device in facts.nvml.devices):
        return False, f"{errors} error{'s' * (errors > 1)} in its memory that could not be corrected"
    return (True, "it counts no errors") if facts.nvml.devices and facts.torch.kernel == "right" else LATER
