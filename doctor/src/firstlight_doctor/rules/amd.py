"""Causes that belong to AMD's cards."""

from __future__ import annotations

from firstlight_doctor.rules.commands import fresh, unset
from firstlight_doctor.rules.machine import ROCM, built_for, compatible_arch, find_message
from firstlight_doctor.rules.rule import Signs, rule, signs
from firstlight_doctor.schema import Facts


@rule("wheel", on="for_amd")
def not_built_for_amd(facts: Facts) -> Signs | None:
    """PyTorch is built for NVIDIA or for the CPU, but the card is AMD's.

    What pip takes from PyPI, its usual index, is a PyTorch for NVIDIA's cards or for none. It looks for NVIDIA's driver
    and never for yours. The one for AMD, built with ROCm, has an index of its own. It calls the card "cuda" too.

    To do:
    {torch_rocm}
    """
    torch, gfx = facts.torch, " and ".join(facts.kernel.gfx)
    if torch.hip or not torch.version:
        return None
    return signs(
        f"PyTorch {torch.version} is built for {built_for(torch)}",
        "the card is AMD's",
        gfx and f"amdgpu calls its architecture {gfx}",
        certainty="certain" if gfx else "likely",
    )


@rule("driver", on="wsl for_amd")
def amd_in_wsl(facts: Facts) -> Signs | None:
    """An AMD card in Windows' Linux (WSL) needs AMD's packages for WSL.

    WSL has neither amdgpu nor /dev/kfd: Windows lends the card through /dev/dxg. The ROCm inside PyTorch's wheel looks
    only for the former. AMD's ROCm for WSL, with a library called librocdxg, knows the latter, for some cards.

    To do:
    On Windows, install AMD's newest Adrenalin driver, and update WSL:
    $ wsl --update
    Inside WSL, install ROCm, librocdxg and AMD's PyTorch as described there:
      https://rocm.docs.amd.com/projects/radeon-ryzen/en/latest/docs/install/installrad/wsl/howto_wsl.html
    """
    torch = facts.torch
    if not torch.imported or not torch.hip or torch.kind:
        return None
    where = "this Linux runs inside Windows (WSL), which has no /dev/kfd"
    return signs(where, f"PyTorch {torch.version}, built for ROCm, finds no GPU", certainty="likely")


@rule("code")
def no_code_for_amd(facts: Facts) -> Signs | None:
    """PyTorch has no code for the architecture of your AMD card.

    A program for AMD is compiled for each architecture, such as gfx1100, and runs on no other. PyTorch finds the card
    all the same, and fails at the first computation. HSA_OVERRIDE_GFX_VERSION lets a card pass for a sister of its own
    generation; between generations that ends in crashes or wrong numbers.

    To do (others):
    Hide the card that has no code, often the one inside the processor:
    $ export HIP_VISIBLE_DEVICES={others}

    To do (in_newest):
    PyTorch for ROCm 7.2 has code for it:
    {newest}

    To do (sister):
    There is code for its sister {sister}. Let it pass for that one, and compare a result with the CPU's:
    $ export HSA_OVERRIDE_GFX_VERSION={override}

    To do:
    Compute on the CPU. The pages of First Light do so with this setting:
    $ export FIRSTLIGHT_DEVICE=cpu
    AMD has wheels of its own, for more cards: https://rocm.docs.amd.com/
    """
    torch, cards = facts.torch, facts.kernel.gfx
    lacking = [card for card in cards if card not in torch.archs] if torch.hip and torch.archs else []
    others = ",".join(str(index) for index, card in enumerate(cards) if card in torch.archs)
    if not lacking or torch.kernel == "right" or (others and not torch.kernel):
        return None
    sister = compatible_arch(lacking[0], torch.archs) or ""
    return signs(
        f"the card's architecture is {lacking[0]}; PyTorch {torch.version} has code for {', '.join(torch.archs)}",
        find_message(facts, "invalid device function", "NoBinaryForGpu", "rocBLAS error"),
        certainty="likely" if others else "certain",
        others=others,
        in_newest=lacking[0] in ROCM,
        newest=fresh(facts, "rocm7.2"),
        sister=sister,
        override=f"{sister[3:-2]}.{sister[-2:-1]}.{sister[-1:]}",
    )


@rule("code")
def wrong_override(facts: Facts) -> Signs | None:
    """HSA_OVERRIDE_GFX_VERSION makes your AMD card pass for one that it is not.

    The variable, from many guides, helps a card for which PyTorch has no code. Your card needs no help: PyTorch has
    code for it, and with the variable it runs the code of another, which fails.

    To do:
    {unset}
    """
    override, cards, torch = facts.env.get("HSA_OVERRIDE_GFX_VERSION"), facts.kernel.gfx, facts.torch
    fails = torch.failed if torch.kernel is None else torch.kernel if torch.kernel != "right" else None
    if not override or not fails or not cards or not all(card in torch.archs for card in cards):
        return None
    seen = f"HSA_OVERRIDE_GFX_VERSION is {override}, but the card is {', '.join(cards)}, for which there is code"
    return signs(
        seen,
        f"the first computation: {fails}",
        certainty="likely",
        unset=unset(facts, "HSA_OVERRIDE_GFX_VERSION"),
    )
