"""Causes that belong to a Jetson, NVIDIA's small computer with an ARM processor."""

from __future__ import annotations

from firstlight_doctor.rules.machine import capabilities
from firstlight_doctor.rules.rule import Signs, rule, signs
from firstlight_doctor.schema import Facts


@rule("wheel", on="jetson nvidia")
def jetson_wheel(facts: Facts) -> Signs | None:
    """PyTorch's wheel is made for servers, not for a Jetson.

    A Jetson has the ARM processor of some servers but a GPU of its own kind, and its driver comes with JetPack,
    NVIDIA's system for it. pip takes the wheel for ARM servers, which has no code for that GPU, or none for any.

    To do:
    {jetson_wheel}
    """
    torch = facts.torch
    # Code for another card of the same generation does not run on a Jetson.
    missing = [name for name in ("sm_{}{}".format(*card) for card in capabilities(facts)) if name not in torch.archs]
    served = torch.cuda and not (torch.archs and missing)
    if not torch.version or torch.kernel == "right" or served:
        return None
    build = "this PyTorch is for the CPU alone"
    if torch.cuda:
        build = f"it has code for {', '.join(torch.archs)}, the GPU needs {missing[0]}"
    where = f"this is a Jetson, with the kernel {facts.system.kernel}"
    return signs(where, f"PyTorch {torch.version}", build)
