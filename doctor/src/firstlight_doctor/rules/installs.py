"""Causes in what is installed: no PyTorch, a damaged one, or two of them."""

from __future__ import annotations

import re

from firstlight_doctor.rules.commands import cuda_tag
from firstlight_doctor.rules.imports import FOREIGN
from firstlight_doctor.rules.machine import cluster, find_message, has_card, major_minor, torch_absent, vendor_of
from firstlight_doctor.rules.rule import Signs, rule, signs
from firstlight_doctor.schema import Facts

OLDEST, NEWEST = (3, 11), (3, 14)  # Pythons that the site's pages run on


@rule("wheel")
def python_without_wheels(facts: Facts) -> Signs | None:
    r"""The wheels are not made for this version of Python.

    A wheel, pip's ready-built package, is made for one version of Python. A new Python comes out before the wheels for
    it, and an old one gets no new wheels. The free-threaded build of Python (its name ends in "t") needs wheels of its
    own: PyTorch has some, Numba's package for CUDA has none. pip then acts as if the package did not exist.

    To do (conda):
    $ conda create --name gpu-env --channel conda-forge python=3.13
    $ conda activate gpu-env
    In this environment, install everything again.

    To do (windows):
    $ winget install Python.Python.3.13
    $ py -3.13 -m venv ..\gpu-env
    $ ..\gpu-env\Scripts\activate
    In this environment, install everything again.

    To do:
    uv, a package manager, brings a Python of its own and leaves that of the system alone:
    [not uv] $ curl -LsSf https://astral.sh/uv/install.sh | sh
    $ uv venv --python 3.13 ../gpu-env
    $ source ../gpu-env/bin/activate
    In this environment, install everything again.
    """
    system = facts.system
    line = find_message(facts, "No matching distribution found for torch", "satisfies the requirement torch")
    unserved = system.free_threaded or not OLDEST <= major_minor(system.python) <= NEWEST
    if not torch_absent(facts) or not unserved or not (vendor_of(facts) or cluster(facts) or line):
        return None
    return signs(
        f"this is Python {system.python}{', the free-threaded build' if system.free_threaded else ''}",
        "PyTorch is not installed in it",
        line,
        certainty="certain" if line else "likely",
        conda="conda" in system.commands,
        uv="uv" in system.commands,
    )


@rule("wheel", on="gpu", unless="python-without-wheels python-for-intel-macs")
def torch_missing(facts: Facts) -> Signs | None:
    """PyTorch is not installed in this Python.

    Every environment has packages of its own. PyTorch may be on this machine and still be missing here: an environment
    that was not activated, a notebook that runs in another one, or a pip that belongs to another Python.

    To do:
    If you did install it, activate the environment that has it. Otherwise:
    [jetson] {jetson_wheel}
    [for_nvidia not jetson] {wheel}
    [for_amd not jetson] {torch_rocm}
    [for_intel not jetson] {torch_xpu}
    [for_apple] $ {pip} torch
    """
    return signs(f"Python {facts.system.python} has no package torch") if torch_absent(facts) else None


def torch_trouble(facts: Facts) -> str | None:
    """Return how PyTorch fails, where it is there and does not compute, or cannot even be imported."""
    torch = facts.torch
    wrong = torch.kernel if torch.kernel != "right" else None
    return (torch.error or torch.failed or wrong) if torch.version else None


def packages_for(facts: Facts, generation: str) -> list[str]:
    """Return NVIDIA's packages for a generation of CUDA: "12", "13"."""
    return [name for name in facts.packages if re.fullmatch(f"nvidia-.*-cu{generation}", name)]


@rule("torch")
def conda_and_pip(facts: Facts) -> Signs | None:
    """Both conda and pip have installed PyTorch here.

    Neither knows what the other did. pip puts its PyTorch over conda's, or beside it, and a later "conda install" puts
    parts of conda's back. What is left are files of two versions, which do not fit. Often nobody asked for it: pip
    installed a package that needs another PyTorch.

    To do:
    Make a new environment in which one of them installs PyTorch. With conda:
    $ conda create --name gpu-env --channel conda-forge python=3.13 {build} numba-cuda "numpy<2.5"
    $ conda activate gpu-env
    What conda does not have, install with pip --no-deps, so that pip leaves PyTorch alone.
    """
    version, fails = facts.torch.version or "", torch_trouble(facts)
    name = next((name for name in facts.system.conda if re.match(r"pytorch-\d", name)), "")
    if not name or not fails or version.startswith(name.split("-")[1]):
        return None
    nvidia = has_card(facts, "nvidia")
    generation = "12" if nvidia and cuda_tag(facts) == "cu126" else "13.0"
    return signs(
        f"conda installed {name}",
        f"Python finds PyTorch {version}, which is not conda's",
        fails,
        certainty="likely",
        build=f'pytorch-gpu "cuda-version={generation}"' if nvidia else "pytorch",
    )


@rule("torch")
def two_generations_of_cuda(facts: Facts) -> Signs | None:
    """Packages of CUDA 12 and of CUDA 13 lie in one environment.

    PyTorch's wheel takes NVIDIA's libraries from packages, nvidia-…-cu12 or nvidia-…-cu13. Some of both, such as cuDNN,
    write to the same folder: the one installed last wins, and removing either takes files from the other.

    To do:
    Remove those that PyTorch does not want, and let pip write the others again:
    $ {uninstall} {unwanted}
    {same_torch}
    """
    torch, fails = facts.torch, torch_trouble(facts)
    twelve, thirteen = packages_for(facts, "12"), packages_for(facts, "13")
    if not fails or not twelve or not thirteen:
        return None
    return signs(
        f"for CUDA 12 there is {twelve[0]}, for CUDA 13 {thirteen[0]}",
        f"PyTorch {torch.version} is built for CUDA {torch.cuda}",
        fails,
        certainty="likely",
        unwanted=" ".join(thirteen if (torch.cuda or "").startswith("12") else twelve),
    )


@rule("torch")
def mkl_too_new(facts: Facts) -> Signs | None:
    """The MKL in this environment of conda is newer than its PyTorch.

    MKL, Intel's library of mathematics, is a package of its own in conda, and an older PyTorch uses a function that MKL
    left out from 2024.1 on. PyTorch from pip has its own MKL inside and does not mind.

    To do:
    $ conda install "mkl<2024.1"
    """
    line = find_message(facts, "undefined symbol: iJIT_NotifyEvent")
    mkl = [name for name in facts.system.conda if name.startswith("mkl-2")]
    if not line or facts.torch.imported:
        return None
    return signs(line, *(f"conda installed {name}" for name in mkl), certainty="certain" if mkl else "likely")


@rule("torch", unless="conda-and-pip two-generations-of-cuda mkl-too-new")
def torch_damaged(facts: Facts) -> Signs | None:
    """PyTorch is installed, but cannot be imported.

    Something that it needs is missing or does not fit: an installation that was broken off (a full disk, a lost
    connection), a package that another one replaced, or, on Windows, Microsoft's runtime for C++. The last line of the
    error names the file or package.

    To do:
    [windows] First the runtime for C++:
    [windows] $ winget install Microsoft.VCRedist.2015+.x64
    [windows] If that is not it:
    Install it again, with all it needs, from fresh files. If the disk is full, make room first.
    {same_torch}
    """
    torch = facts.torch
    foreign = find_message(facts, *FOREIGN) and facts.env.get("LD_LIBRARY_PATH")
    if not torch.version or not torch.error or foreign:
        return None
    said = f"import torch ends in {' '.join(torch.error.split())[-300:]}"
    return signs(said, certainty="likely")
