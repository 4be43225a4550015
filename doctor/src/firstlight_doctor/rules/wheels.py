"""Causes in the choice of PyTorch's wheel: one for something else than this card or this driver."""

from __future__ import annotations

from firstlight_doctor.rules import machine
from firstlight_doctor.rules.commands import cuda_tag, wheel_needs_driver
from firstlight_doctor.rules.rule import Signs, rule, signs
from firstlight_doctor.schema import Facts

NO_CODE = ("no kernel image is", "does not include kernels for this", "not compatible with the current PyTorch install")


@rule("wheel", on="for_nvidia", unless="jetson conda-cpu-build")
def cpu_wheel(facts: Facts) -> Signs | None:
    """PyTorch is built without CUDA, most often for the CPU alone.

    PyTorch comes in several builds of the same version, and pip does not look at your card. From PyPI, its usual index,
    Windows gets a build for the CPU, and so did ARM servers for long. conda takes one if it finds no driver. A lock
    file, or a setting that names PyTorch's index for Linux only, has the same effect. No driver and no CUDA toolkit can
    make such a build use a GPU.

    To do:
    {wheel}
    If a lock file or a pyproject.toml chose the build, name PyTorch's index there, for your system too: otherwise the
      next sync undoes it. In uv, torch-backend is for uv pip alone; uv sync and uv run go by [tool.uv.sources]:
      https://docs.astral.sh/uv/guides/integration/pytorch/
    """
    torch = facts.torch
    if not torch.version or torch.cuda:
        return None
    return signs(f"PyTorch {torch.version} is built for {machine.built_for(torch)}", "the card is NVIDIA's")


@rule("wheel")
def conda_cpu_build(facts: Facts) -> Signs | None:
    """The PyTorch that conda chose is for the CPU.

    conda looks for NVIDIA's driver at the moment it installs, and takes a build with CUDA only if it finds one. On a
    cluster you install on a login node, which has no GPU, so it finds none; the node with the GPU then runs a PyTorch
    for the CPU.

    To do (windows):
    $ conda install --channel conda-forge pytorch-gpu "cuda-version={generation}"

    To do:
    $ CONDA_OVERRIDE_CUDA={knows} conda install --channel conda-forge pytorch-gpu "cuda-version={generation}"
    CONDA_OVERRIDE_CUDA={knows} names the CUDA of the node where it will run: to install, no GPU is needed.
    """
    torches = (name for name in facts.system.conda if name.startswith(("pytorch-", "libtorch-")))
    name, nvidia = next((name for name in torches if "cpu" in name), None), machine.vendor_of(facts) == "nvidia"
    on_cluster = not machine.vendor_of(facts) and machine.cluster(facts)
    if not (nvidia or on_cluster) or not name or facts.torch.cuda:
        return None
    generation, least = ("13.0", "13.0") if cuda_tag(facts) == "cu130" else ("12", "12.6")
    return signs(
        f"conda installed {name}",
        f"PyTorch {facts.torch.version} has no CUDA",
        "the card is NVIDIA's" if nvidia else "this node of a cluster has no GPU, others may have",
        certainty="certain" if nvidia or facts.system.os == "windows" else "possible",
        generation=generation,
        knows=machine.as_version(facts.cuda.version) if facts.cuda.version else least,
    )


@rule("version", on="nvidia")
def driver_too_old_for_wheel(facts: Facts) -> Signs | None:
    """PyTorch's wheel is newer than NVIDIA's driver.

    The wheel brings CUDA along, and the driver has to know that generation of CUDA: CUDA 13 needs driver 580 or newer,
    CUDA 12 needs 525. In "found version 12040" the number is not the driver's own: it is the newest CUDA that the
    driver knows, here 12.4. Either part can be changed: the driver, or the wheel.

    To do (either):
    Either install a newer driver, which is the better way:
    {newer_driver}
    or keep the driver and change the wheel:
    {wheel}

    To do:
    {wheel}
    """
    wants, knows = machine.major(facts.torch.cuda), facts.cuda.version
    line = machine.find_message(facts, "driver on your system is too old", "driver version is insufficient")
    too_old = knows // 1000 < wants if knows else line
    if not wants or not too_old or facts.cuda.error:
        return None
    return signs(
        f"PyTorch {facts.torch.version} wants CUDA {facts.torch.cuda}",
        f"the driver knows CUDA up to {machine.as_version(knows)}" if knows else None,
        f"the driver is {machine.driver_version(facts)}" if machine.driver_version(facts) else None,
        line,
        certainty="certain" if knows else "likely",
        either=not wheel_needs_driver(facts) and not machine.is_old_card(facts),
    )


@rule("code", on="nvidia", unless="jetson")
def no_code_for_card(facts: Facts) -> Signs | None:
    """PyTorch's wheel has no code for this card.

    A wheel holds programs for some generations of cards, which NVIDIA numbers by compute capability. Wheels for CUDA 13
    begin with 7.5 (Turing); those of CUDA 12.6 end with 9.0, before the RTX 50 and the B200; and those of CUDA 10 end
    with 7.5, before the RTX 30 and 40, the A100 and the H100. What counts is the CUDA that PyTorch was built with
    (torch.version.cuda), not the one of nvidia-smi or nvcc. is_available() is True all the same,
    because it asks the driver alone; the first computation fails.

    To do (served):
    Your other card is served. Show programs only that one:
    [windows] $ $env:CUDA_VISIBLE_DEVICES = "{served}"
    [not windows] $ export CUDA_VISIBLE_DEVICES={served}

    To do:
    {wheel}
    [blackwell] CUDA 13 needs driver 580 or newer. If nvidia-smi prints an older one, the driver comes first.
    [not ancient] If a requirements.txt or an environment.yml names the old release, change it there too.
    """
    torch, cards = facts.torch, [device for device in facts.cuda.devices if device.capability]
    missing = [card for card in cards if torch.archs and not machine.has_code(torch.archs, card.capability)]
    line = machine.find_message(facts, *NO_CODE)
    if not torch.cuda or not (missing or (line and not (torch.archs and cards))):
        return None
    if torch.kernel == "right" and (not line or line not in facts.said):  # another card computes
        return None
    return signs(
        *(
            f"{card.name or 'the card'} has compute capability {'.'.join(map(str, card.capability))}"
            for card in missing
        ),
        f"PyTorch {torch.version} has code for {', '.join(torch.archs)}" if torch.archs else None,
        line,
        certainty="certain" if missing else "likely",
        served=",".join(
            str(index) for index, card in enumerate(cards) if machine.has_code(torch.archs, card.capability)
        ),
        ancient=machine.is_ancient(facts),
        blackwell=machine.is_blackwell(facts),
    )


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
    names = ("sm_{}{}".format(*card) for card in machine.capabilities(facts))
    missing = [name for name in names if name not in torch.archs]
    served = torch.cuda and not (torch.archs and missing)
    if not torch.version or torch.kernel == "right" or served:
        return None
    build = "this PyTorch is for the CPU alone"
    if torch.cuda:
        build = f"it has code for {', '.join(torch.archs)}, the GPU needs {missing[0]}"
    where = f"this is a Jetson, with the kernel {facts.system.kernel}"
    return signs(where, f"PyTorch {torch.version}", build)
