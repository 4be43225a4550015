"""The questions, each answered from the facts alone: yes, no, or not known because it was not reached or not needed."""

# ruff: noqa: D103 -- each function answers the question of its name: see QUESTIONS

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firstlight.doctor.rules.ask import MAKERS, covers, cuda_number, maker
from firstlight.doctor.rules.rule import QUESTIONS
from firstlight.doctor.shapes import Facts

SLOW = 0.6  # of what the memory can do; a copy on a healthy card reaches more


@dataclass(frozen=True)
class Answer:
    """What became of one question."""

    question: str
    state: bool | None
    words: str


def climb(facts: Facts) -> list[Answer]:
    """Answer every question.

    Examples
    --------
    >>> [answer.words for answer in climb(Facts()) if answer.state is False]
    ['PyTorch is not installed', 'none was found']
    """
    found = [Answer(question, *ANSWERS[question](facts)) for question in QUESTIONS]
    if maker(facts):
        return found
    # Without a GPU there is nothing to ask of it.
    asked = ("wheel", "bus", "toolchain")
    return [answer if answer.question in asked else Answer(answer.question, None, "not reached") for answer in found]


State = tuple[bool | None, str]
LATER: State = (None, "not reached")
NEEDLESS: State = (None, "not needed for this GPU")
BUILT = {"cuda": "CUDA", "hip": "ROCm", "xpu": "XPU", "mps": "MPS"}


def wheel(facts: Facts) -> State:
    torch, vendor = facts.torch, maker(facts)
    if not torch.version:
        return False, "PyTorch is not installed"
    kinds = [f"{name} {version}" for kind, name in BUILT.items() if isinstance(version := getattr(torch, kind), str)]
    words = f"PyTorch {torch.version} for {kinds[0] if kinds else 'MPS' if torch.mps else 'the CPU'}"
    return (bool(getattr(torch, MAKERS[vendor])) if vendor else True), words


def bus(facts: Facts) -> State:
    vendor = maker(facts)
    if not vendor:
        return False, "none was found"
    devices = facts.cuda.devices or facts.nvml.devices
    names = [device.name for device in devices] or list(facts.torch.names)
    makers = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple"}
    return True, ", ".join(dict.fromkeys(name for name in names if name)) or f"one of {makers[vendor]}"


def driver(facts: Facts) -> State:
    vendor = maker(facts)
    if vendor == "apple":
        return True, f"Metal, of macOS {facts.system.macos or ''}".strip()
    if vendor == "nvidia":
        version = facts.kernel.version or facts.nvml.driver
        if version:
            kind = {True: ", open kernel module", False: ", closed kernel module", None: ""}[facts.kernel.open_module]
            return True, f"NVIDIA {version}{kind}"
        if facts.system.wsl or facts.system.os == "windows" or facts.system.tegra:
            return LATER
    bound = {gpu.driver for gpu in facts.gpus if gpu.vendor == vendor}
    good = bound & {"nvidia", "amdgpu", "i915", "xe"}
    if good:
        return True, ", ".join(sorted(map(str, good)))
    if facts.system.os != "linux" or not bound:
        return LATER
    return False, f"{', '.join(sorted(map(str, bound - {None}))) or 'no driver'} holds the card"


def nodes(facts: Facts) -> State:
    if facts.system.os != "linux":
        return NEEDLESS
    if not facts.nodes:
        return False, "there is none"
    closed = [node.path for node in facts.nodes if not node.open]
    return (False, f"not {', '.join(closed)}") if closed else (True, ", ".join(node.path for node in facts.nodes[:3]))


def library(facts: Facts) -> State:
    cuda = facts.cuda
    if maker(facts) != "nvidia":
        return NEEDLESS
    if cuda.error:
        return False, cuda.error
    return (True, cuda.path or "found") if cuda.path or cuda.init is not None else LATER


def start(facts: Facts) -> State:
    cuda = facts.cuda
    if maker(facts) != "nvidia":
        return NEEDLESS
    if cuda.init is None:
        return (False, f"asking it {cuda.failed}") if cuda.failed else LATER
    known = f", for CUDA up to {cuda_number(cuda.version)}" if cuda.version else ""
    return cuda.init in (0, 100), f"cuInit returned {cuda.init}{known}"


def visible(facts: Facts) -> State:
    if maker(facts) != "nvidia":
        return (True, facts.torch.kind) if facts.torch.kind else LATER
    if facts.cuda.init == 100 or (facts.cuda.init == 0 and not facts.cuda.devices and not facts.cuda.failed):
        return False, "the driver shows no device"
    count = len(facts.cuda.devices)
    return (True, f"{count} device{'s' * (count > 1)}") if count else LATER


def context(facts: Facts) -> State:
    if maker(facts) != "nvidia":
        return NEEDLESS
    codes = [device.context for device in facts.cuda.devices]
    bad = [f"device {number} returned {code}" for number, code in enumerate(codes) if code]
    return (False, "; ".join(bad)) if bad else (True, "one was made") if codes and None not in codes else LATER


def version(facts: Facts) -> State:
    if maker(facts) != "nvidia":
        return NEEDLESS
    if not facts.torch.cuda or not facts.cuda.version:
        return LATER
    words = f"PyTorch wants CUDA {facts.torch.cuda}, the driver knows up to {cuda_number(facts.cuda.version)}"
    return int(facts.torch.cuda.partition(".")[0]) <= facts.cuda.version // 1000, words


def code(facts: Facts) -> State:
    if maker(facts) != "nvidia":
        return NEEDLESS
    cards = [device.capability for device in facts.cuda.devices]
    if not facts.torch.archs or not cards:
        return LATER
    missing = [card for card in cards if not covers(facts.torch.archs, card)]
    named = ", ".join(".".join(map(str, card)) for card in missing or cards)
    return not missing, f"{'no code' if missing else 'code'} for compute capability {named}"


def torch(facts: Facts) -> State:
    if facts.torch.kernel:
        return facts.torch.kernel == "right", f"the result of a matrix product: {facts.torch.kernel}"
    if facts.torch.error or facts.torch.failed:
        return False, f"import torch: {facts.torch.error or facts.torch.failed}"
    return (False, "PyTorch finds no GPU") if facts.torch.imported and not facts.torch.kind else LATER


def toolchain(facts: Facts) -> State:
    numba = facts.numba
    if facts.system.os == "darwin" or maker(facts) not in ("nvidia", None):
        return None, "there is none for this GPU; kernels run in the simulator"
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
    words = f"PTX {facts.numba.ptx} needs CUDA {cuda_number(facts.numba.needs)}"
    # A driver of the same CUDA generation is helped out by NVIDIA's linker; the kernel's run tells.
    return facts.numba.needs <= facts.cuda.version or facts.numba.kernel == "right", words


def numba(facts: Facts) -> State:
    kernel = facts.numba.kernel
    return (kernel == "right", f"the result of a kernel: {kernel}") if kernel else LATER


def health(facts: Facts) -> State:
    torch = facts.torch
    errors = sum(device.ecc_errors for device in facts.nvml.devices)
    if errors:
        return False, f"{errors} errors in its memory that could not be corrected"
    if not torch.rate or not torch.ceiling:
        return LATER
    words = f"a copy moves {torch.rate / 1e9:,.0f} GB/s, {torch.rate / torch.ceiling:.0%} of what its memory can do"
    return torch.rate > SLOW * torch.ceiling, words


ANSWERS: dict[str, Callable[[Facts], State]] = {
    function.__name__: function
    for function in (
        wheel, bus, driver, nodes, library, start, visible, context, version, code, torch, toolchain, ptx, numba, health
    )
}  # fmt: skip
