"""Causes in what is installed: no PyTorch, a damaged one, or two of them."""

from __future__ import annotations

import re

from gpu_doctor.rules.amd import on_windows
from gpu_doctor.rules.ask import absent, cluster, has, heard, maker, numbers_of
from gpu_doctor.rules.commands import cuda_tag, fresh, pip, torch_for, uninstall
from gpu_doctor.rules.imports import FOREIGN
from gpu_doctor.rules.jetson import jetson_steps
from gpu_doctor.rules.rule import Seen, rule
from gpu_doctor.rules.wheels import wheel_for
from gpu_doctor.shapes import Facts

OLDEST, NEWEST = (3, 11), (3, 14)  # Pythons that the site's pages run on
MKL = "undefined symbol: iJIT_NotifyEvent"
INDEX = {"amd": "rocm7.2", "intel": "xpu"}


def unserved(facts: Facts) -> bool:
    """Whether this Python is one that wheels are not built for."""
    return facts.system.free_threaded or not OLDEST <= numbers_of(facts.system.python) <= NEWEST


@rule("wheel")
def python_without_wheels(facts: Facts) -> Seen | None:
    """The wheels are not made for this version of Python.

    A wheel, pip's ready-built package, is made for one version of Python. A new Python comes out before the wheels for
    it, and an old one gets no new wheels. The free-threaded build of Python (its name ends in "t") needs wheels of its
    own: PyTorch has some, Numba's package for CUDA has none. pip then acts as if the package did not exist.
    """
    system = facts.system
    line = heard(facts, "No matching distribution found for torch", "satisfies the requirement torch")
    if not absent(facts) or not unserved(facts) or not (maker(facts) or cluster(facts) or line):
        return None
    build = ", the free-threaded build" if system.free_threaded else ""
    uv = () if "uv" in system.commands else ("$ curl -LsSf https://astral.sh/uv/install.sh | sh",)
    fix: tuple[str, ...] = (
        "uv, a package manager, brings a Python of its own and leaves that of the system alone:",
        *uv,
        "$ uv venv --python 3.13 ../firstlight-env",
        "$ source ../firstlight-env/bin/activate",
    )
    if "conda" in system.commands:
        create = "$ conda create --name firstlight --channel conda-forge python=3.13"
        fix = (create, "$ conda activate firstlight")
    elif system.os == "windows":
        venv = "$ py -3.13 -m venv ..\\firstlight-env"
        fix = ("$ winget install Python.Python.3.13", venv, "$ ..\\firstlight-env\\Scripts\\activate")
    evidence = (f"this is Python {system.python}{build}", "PyTorch is not installed in it", *([line] if line else []))
    last = "In this environment, install everything again."
    return Seen(evidence, (*fix, last), "certain" if line else "likely")


@rule("wheel", on="gpu", unless="python-without-wheels python-for-intel-macs")
def torch_missing(facts: Facts) -> Seen | None:
    """PyTorch is not installed in this Python.

    Every environment has packages of its own. PyTorch may be on this machine and still be missing here: an environment
    that was not activated, a notebook that runs in another one, or a pip that belongs to another Python.
    """
    vendor = maker(facts)
    fix: tuple[str, ...] = (f"$ {pip(facts)} torch",)
    if not absent(facts):
        return None
    if facts.system.tegra:
        fix = jetson_steps(facts)
    elif vendor == "nvidia":
        fix = wheel_for(facts)
    elif vendor in INDEX:
        fix = on_windows(facts) or fresh(facts, INDEX[vendor])
    active = "If you did install it, activate the environment that has it. Otherwise:"
    return Seen((f"Python {facts.system.python} has no package torch",), (active, *fix))


def trouble(facts: Facts) -> str | None:
    """Return how PyTorch fails, where it is there and does not compute, or cannot even be imported."""
    torch = facts.torch
    wrong = torch.kernel if torch.kernel != "right" else None
    return (torch.error or torch.failed or wrong) if torch.version else None


def two_cudas(facts: Facts) -> tuple[str, ...]:
    """Return NVIDIA's packages for CUDA 12, where those for CUDA 13 write into the same folders."""
    twelve = tuple(name for name in facts.packages if re.fullmatch("nvidia-.*-cu12", name))
    return twelve if any(re.fullmatch("nvidia-.*-cu13", name) for name in facts.packages) else ()


@rule("torch")
def conda_and_pip(facts: Facts) -> Seen | None:
    """Both conda and pip have installed PyTorch here.

    Neither knows what the other did. pip puts its PyTorch over conda's, or beside it, and a later "conda install" puts
    parts of conda's back. What is left are files of two versions, which do not fit. Often nobody asked for it: pip
    installed a package that needs another PyTorch.
    """
    version, fails = facts.torch.version or "", trouble(facts)
    name = next((name for name in facts.system.conda if re.match(r"pytorch-\d", name)), "")
    if not name or not fails or version.startswith(name.split("-")[1]):
        return None
    generation = "12" if has(facts, "nvidia") and cuda_tag(facts) == "cu126" else "13.0"
    build = f'pytorch-gpu "cuda-version={generation}"' if has(facts, "nvidia") else "pytorch"
    return Seen(
        (f"conda installed {name}", f"Python finds PyTorch {version}, which is not conda's", fails),
        (
            "Make a new environment in which one of them installs PyTorch. With conda:",
            f'$ conda create --name firstlight --channel conda-forge python=3.13 {build} numba-cuda "numpy<2.5"',
            "$ conda activate firstlight",
            "What conda does not have, install with pip --no-deps, so that pip leaves PyTorch alone.",
        ),
        "likely",
    )


@rule("torch")
def two_generations_of_cuda(facts: Facts) -> Seen | None:
    """Packages of CUDA 12 and of CUDA 13 lie in one environment.

    PyTorch's wheel takes NVIDIA's libraries from packages, nvidia-…-cu12 or nvidia-…-cu13. Some of both, such as cuDNN,
    write to the same folder: the one installed last wins, and removing either takes files from the other.
    """
    fails = trouble(facts)
    return two_cudas_seen(facts, fails) if two_cudas(facts) and fails else None


def two_cudas_seen(facts: Facts, fails: str) -> Seen:
    """Tell of the packages for two generations of CUDA, and which to remove."""
    torch, twelve = facts.torch, two_cudas(facts)
    thirteen = tuple(name for name in facts.packages if re.fullmatch("nvidia-.*-cu13", name))
    unwanted = thirteen if (torch.cuda or "").startswith("12") else twelve
    packages = f"for CUDA 12 there is {twelve[0]}, for CUDA 13 {thirteen[0]}"
    remove = "Remove those that PyTorch does not want, and let pip write the others again:"
    return Seen(
        (packages, f"PyTorch {torch.version} is built for CUDA {torch.cuda}", fails),
        (remove, f"$ {uninstall(facts)} {' '.join(unwanted)}", again(facts)),
        "likely",
    )


@rule("torch")
def mkl_too_new(facts: Facts) -> Seen | None:
    """The MKL in this environment of conda is newer than its PyTorch.

    MKL, Intel's library of mathematics, is a package of its own in conda, and an older PyTorch uses a function that MKL
    left out from 2024.1 on. PyTorch from pip has its own MKL inside and does not mind.
    """
    line, mkl = heard(facts, MKL), [name for name in facts.system.conda if name.startswith("mkl-2")]
    if not line or facts.torch.imported:
        return None
    evidence = (line, *(f"conda installed {name}" for name in mkl))
    return Seen(evidence, ('$ conda install "mkl<2024.1"',), "certain" if mkl else "likely")


@rule("torch", unless="conda-and-pip two-generations-of-cuda mkl-too-new")
def torch_damaged(facts: Facts) -> Seen | None:
    """PyTorch is installed, but cannot be imported.

    Something that it needs is missing or does not fit: an installation that was broken off (a full disk, a lost
    connection), a package that another one replaced, or, on Windows, Microsoft's runtime for C++. The last line of the
    error names the file or package.
    """
    torch = facts.torch
    runtime: tuple[str, ...] = ()
    if not torch.version or not torch.error or (heard(facts, *FOREIGN) and facts.env.get("LD_LIBRARY_PATH")):
        return None
    if facts.system.os == "windows":
        runtime = ("First the runtime for C++:", "$ winget install Microsoft.VCRedist.2015+.x64", "If that is not it:")
    clean = "Install it again, with all it needs, from fresh files. If the disk is full, make room first."
    evidence = (f"import torch ends in {' '.join(torch.error.split())[-300:]}",)
    return Seen(evidence, (*runtime, clean, again(facts)), "likely")


def again(facts: Facts) -> str:
    """Return the command that installs the same PyTorch once more, from the index it came from."""
    if any(name.startswith("pytorch-") for name in facts.system.conda):
        return "$ conda install --force-reinstall pytorch"
    torch = facts.torch
    tag = f"rocm{'.'.join(torch.hip.split('.')[:2])}" if torch.hip else "xpu" if torch.xpu else "cpu"
    tag = f"cu{torch.cuda.replace('.', '')}" if torch.cuda else tag
    command = torch_for(facts, tag)
    return command.partition(" --index-url")[0] if facts.system.os == "darwin" else command
