"""Causes that belong to AMD's cards."""

from __future__ import annotations

from firstlight.doctor.rules.ask import ROCM, heard, maker, runs
from firstlight.doctor.rules.commands import fresh, sudo
from firstlight.doctor.rules.driver import given_to_a_virtual_machine
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts

RADEON = "https://rocm.docs.amd.com/projects/radeon-ryzen/en/latest/docs/install/installrad"
MORE_CARDS = "AMD has wheels of its own, for more cards: https://rocm.docs.amd.com/"


def architectures(facts: Facts) -> tuple[str, ...]:
    """Say what amdgpu calls the architectures of the cards."""
    return (f"amdgpu calls its architecture {' and '.join(facts.kernel.gfx)}",) if facts.kernel.gfx else ()


@rule("wheel")
def not_built_for_amd(facts: Facts) -> Seen | None:
    """PyTorch is built for NVIDIA or for the CPU, but the card is AMD's.

    What pip takes from PyPI, its usual index, is a PyTorch for NVIDIA's cards or for none. It looks for NVIDIA's driver
    and never for yours. The one for AMD, built with ROCm, has an index of its own. It calls the card "cuda" too.
    """
    torch = facts.torch
    if maker(facts) != "amd" or torch.hip or not torch.version:
        return None
    other = f"CUDA {torch.cuda}, so for NVIDIA" if torch.cuda else "Intel" if torch.xpu else "the CPU alone"
    if facts.system.os == "windows":
        fix: tuple[str, ...] = (
            f"For Windows AMD publishes PyTorch itself, for some cards: {RADEON}/windows/install-pytorch.html",
        )
    else:
        fix = fresh(facts, "rocm7.2")
    evidence = (f"PyTorch {torch.version} is built for {other}", "the card is AMD's", *architectures(facts))
    return Seen(evidence=evidence, fix=fix, certainty="certain" if facts.kernel.gfx else "likely")


@rule("driver")
def amdgpu_missing(facts: Facts) -> Seen | None:
    """Linux does not run the AMD card with amdgpu.

    PyTorch reaches an AMD card through amdgpu, a driver that is part of Linux. It makes the file /dev/kfd, the door for
    programs that compute. It stays away if it was forbidden, if the kernel is older than the card, or if the card's
    firmware is missing.
    """
    system, ours = facts.system, [gpu.driver for gpu in facts.gpus if gpu.vendor == "amd"]
    kfd = any(node.path == "/dev/kfd" for node in facts.nodes)
    if maker(facts) != "amd" or system.os != "linux" or system.wsl or kfd or (system.container and "amdgpu" in ours):
        return None
    if given_to_a_virtual_machine(facts):
        return None
    root = sudo(facts)
    if "amdgpu" in ours:
        fix: tuple[str, ...] = (
            "Ask amdgpu why it offers no computing; in an old board the slot may lack PCIe atomics:",
            f"$ {root}dmesg | grep -i kfd",
        )
    else:
        fix = (
            f"$ {root}modprobe amdgpu",
            "Then look why it did not start by itself: a line that forbids it, or firmware that is missing.",
            "$ grep -r -e amdgpu -e nomodeset /etc/modprobe.d /proc/cmdline",
            f"$ {root}dmesg | grep -i amdgpu",
            "If the card is younger than your Linux, install a newer release of your distribution.",
        )
    driver = next((driver for driver in ours if driver), None)
    return Seen(
        evidence=(f"the driver of the AMD card is {driver or 'none'}", "there is no /dev/kfd"),
        fix=fix,
    )


@rule("driver")
def amd_in_wsl(facts: Facts) -> Seen | None:
    """An AMD card in Windows' Linux (WSL) needs AMD's packages for WSL.

    WSL has neither amdgpu nor /dev/kfd: Windows lends the card through /dev/dxg. The ROCm inside PyTorch's wheel looks
    only for the former. AMD's ROCm for WSL, with a library called librocdxg, knows the latter, for some cards.
    """
    torch = facts.torch
    if maker(facts) != "amd" or not facts.system.wsl or not torch.imported or not torch.hip or torch.kind:
        return None
    return Seen(
        evidence=(
            "this Linux runs inside Windows (WSL), which has no /dev/kfd",
            f"PyTorch {torch.version}, built for ROCm, finds no GPU",
        ),
        fix=(
            "On Windows, install AMD's newest Adrenalin driver, and update WSL:",
            "$ wsl --update",
            f"Inside WSL, install ROCm, librocdxg and AMD's PyTorch as described there: {RADEON}/wsl/howto_wsl.html",
        ),
        certainty="likely",
    )


@rule("code")
def no_code_for_amd(facts: Facts) -> Seen | None:
    """PyTorch has no code for the architecture of your AMD card.

    A program for AMD is compiled for each architecture, such as gfx1100, and runs on no other. PyTorch finds the card
    all the same, and fails at the first computation. HSA_OVERRIDE_GFX_VERSION lets a card pass for a sister of its own
    generation; between generations that ends in crashes or wrong numbers.
    """
    torch, cards = facts.torch, facts.kernel.gfx
    lacking = [card for card in cards if card not in torch.archs] if torch.hip and torch.archs else []
    good = [index for index, card in enumerate(cards) if card in torch.archs]
    if not lacking or torch.kernel == "right" or (good and not torch.kernel):
        return None
    sister = runs(lacking[0], torch.archs)
    if good:
        fix: tuple[str, ...] = (
            "Hide the card that has no code, often the one inside the processor:",
            f"$ export HIP_VISIBLE_DEVICES={','.join(map(str, good))}",
        )
    elif lacking[0] in ROCM:
        fix = ("PyTorch for ROCm 7.2 has code for it:", *fresh(facts, "rocm7.2"))
    elif sister:
        fix = (
            f"There is code for its sister {sister}. Let it pass for that one, and compare a result with the CPU's:",
            f"$ export HSA_OVERRIDE_GFX_VERSION={sister[3:-2]}.{sister[-2]}.{sister[-1]}",
        )
    else:
        fix = ("Let the pages compute on the CPU:", "$ export FIRSTLIGHT_DEVICE=cpu", MORE_CARDS)
    told = heard(facts, "invalid device function", "NoBinaryForGpu", "rocBLAS error")
    return Seen(
        evidence=(
            f"the card's architecture is {lacking[0]}; PyTorch {torch.version} has code for {', '.join(torch.archs)}",
            *((told,) if told else ()),
        ),
        fix=fix,
        certainty="likely" if good else "certain",
    )


@rule("code")
def wrong_override(facts: Facts) -> Seen | None:
    """HSA_OVERRIDE_GFX_VERSION makes your AMD card pass for one that it is not.

    The variable, from many guides, helps a card for which PyTorch has no code. Your card needs no help: PyTorch has
    code for it, and with the variable it runs the code of another, which fails.
    """
    override, cards, torch = facts.env.get("HSA_OVERRIDE_GFX_VERSION"), facts.kernel.gfx, facts.torch
    suits = bool(cards) and all(card in torch.archs for card in cards)
    if not override or not suits or torch.kernel == "right" or not (torch.kernel or torch.failed):
        return None
    return Seen(
        evidence=(
            f"HSA_OVERRIDE_GFX_VERSION is {override}, but the card is {', '.join(cards)}, for which there is code",
            f"the first computation: {torch.kernel or torch.failed}",
        ),
        fix=(
            "$ unset HSA_OVERRIDE_GFX_VERSION",
            "Take the line out of your shell's profile, such as ~/.bashrc, as well.",
        ),
        certainty="likely",
    )
