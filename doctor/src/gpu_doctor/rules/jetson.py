"""Causes that belong to a Jetson, NVIDIA's small computer with an ARM processor."""

from __future__ import annotations

from gpu_doctor.rules.commands import torch_for
from gpu_doctor.rules.machine import capabilities
from gpu_doctor.rules.rule import Signs, rule, signs
from gpu_doctor.schema import Facts

JETSON_GUIDE = "https://docs.nvidia.com/deeplearning/frameworks/install-pytorch-jetson-platform/"


@rule("wheel", on="jetson nvidia")
def jetson_wheel(facts: Facts) -> Signs | None:
    """PyTorch's wheel is made for servers, not for a Jetson.

    A Jetson has the ARM processor of some servers but a GPU of its own kind, and its driver comes with JetPack,
    NVIDIA's system for it. pip takes the wheel for ARM servers, which has no code for that GPU, or none for any.

    To do:
    {wheel}
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
    return signs(where, f"PyTorch {torch.version}", build, wheel=wheel_for_jetson(facts))


def wheel_for_jetson(facts: Facts) -> tuple[str, ...]:
    """Return where the wheel for this Jetson comes from, which its JetPack decides; the kernel tells which that is."""
    if (11, 0) in capabilities(facts):
        return ("For a Jetson Thor, PyTorch's own wheel for CUDA 13 has the code:", torch_for(facts, "cu130"))
    container = (
        "A container made for your JetPack has a PyTorch that fits: https://github.com/dusty-nv/jetson-containers",
        "$ jetson-containers run $(autotag l4t-pytorch)",
    )
    if not (facts.system.kernel or "").startswith("5.15."):
        return (f"NVIDIA lists which PyTorch belongs to which JetPack: {JETSON_GUIDE}", *container)
    return (
        "This is JetPack 6. Its wheels are for Python 3.10, in an environment of its own:",
        "$ python3.10 -m venv ~/jetson-env",
        "$ ~/jetson-env/bin/pip install torch --index-url https://pypi.jetson-ai-lab.io/jp6/cu126",
        "The pages of First Light need Python 3.11 or newer, which JetPack 7.2 has; it is there for the Orin too.",
        *container,
    )
