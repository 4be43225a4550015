"""Causes in what is installed: no PyTorch, a damaged one, or two of them."""

from __future__ import annotations

import re

from firstlight.doctor.rules.amd import RADEON
from firstlight.doctor.rules.ask import absent, has, heard, maker, numbers_of
from firstlight.doctor.rules.commands import cuda_tag, fresh, pip, torch_for
from firstlight.doctor.rules.imports import FOREIGN
from firstlight.doctor.rules.jetson import jetson_steps
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.rules.wheels import wheel_for
from firstlight.doctor.shapes import Facts

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
    if not absent(facts) or not unserved(facts) or not (maker(facts) or line):
        return None
    build = ", the free-threaded build" if system.free_threaded else ""
    if "conda" in system.commands:
        fix: tuple[str, ...] = (
            "$ conda create --name firstlight --channel conda-forge python=3.13",
            "$ conda activate firstlight",
        )
    elif system.os == "windows":
        fix = (
            "$ winget install Python.Python.3.13",
            "$ py -3.13 -m venv ..\\firstlight-env",
            "$ ..\\firstlight-env\\Scripts\\activate",
        )
    else:
        uv = () if "uv" in system.commands else ("$ curl -LsSf https://astral.sh/uv/install.sh | sh",)
        fix = (
            "uv, a package manager, brings a Python of its own and leaves that of the system alone:",
            *uv,
            "$ uv venv --python 3.13 ../firstlight-env",
            "$ source ../firstlight-env/bin/activate",
        )
    evidence = [f"this is Python {system.python}{build}", "PyTorch is not installed in it", *([line] if line else [])]
    return Seen(
        tuple(evidence), (*fix, "In this environment, install everything again."), "certain" if line else "likely"
    )


@rule("wheel")
def torch_missing(facts: Facts) -> Seen | None:
    """PyTorch is not installed in this Python.

    Every environment has packages of its own. PyTorch may be on this machine and still be missing here: an environment
    that was not activated, a notebook that runs in another one, or a pip that belongs to another Python.
    """
    vendor = maker(facts)
    if not absent(facts) or not vendor or unserved(facts) or facts.system.rosetta:
        return None
    if facts.system.tegra:
        fix = jetson_steps(facts)
    elif vendor == "amd" and facts.system.os == "windows":
        fix = (f"For Windows AMD publishes PyTorch itself, for some cards: {RADEON}/windows/install-pytorch.html",)
    else:
        fix = wheel_for(facts) if vendor == "nvidia" else fresh(facts, INDEX[vendor]) if vendor in INDEX else ()
    return Seen(
        evidence=(f"Python {facts.system.python} has no package torch",),
        fix=(
            "If you did install it, activate the environment that has it. Otherwise:",
            *(fix or (f"$ {pip(facts)} torch",)),
        ),
    )


def fails(facts: Facts) -> bool:
    """Whether PyTorch is there and does not compute, or cannot even be imported."""
    torch = facts.torch
    return bool(torch.version and (torch.error or torch.failed or torch.kernel not in (None, "right")))


def two_torches(facts: Facts) -> str | None:
    """Return conda's own name of a PyTorch, where pip has put another over it."""
    name = next((name for name in facts.system.conda if re.match(r"pytorch-\d", name)), None)
    by_pip = name and not (facts.torch.version or "").startswith(name.split("-")[1])
    return name if by_pip else None


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
    name = two_torches(facts)
    if not name or not fails(facts):
        return None
    generation = "12" if has(facts, "nvidia") and cuda_tag(facts) == "cu126" else "13.0"
    build = f'pytorch-gpu "cuda-version={generation}"' if has(facts, "nvidia") else "pytorch"
    return Seen(
        evidence=(
            f"conda installed {name}",
            f"Python finds PyTorch {facts.torch.version}, which is not conda's",
            str(facts.torch.error or facts.torch.failed or facts.torch.kernel),
        ),
        fix=(
            "Make a new environment in which one of them installs PyTorch. With conda:",
            f'$ conda create --name firstlight --channel conda-forge python=3.13 {build} numba-cuda "numpy<2.5"',
            "$ conda activate firstlight",
            "What conda does not have, install with pip --no-deps, so that pip leaves PyTorch alone.",
        ),
        certainty="likely",
    )


@rule("torch")
def two_generations_of_cuda(facts: Facts) -> Seen | None:
    """Packages of CUDA 12 and of CUDA 13 lie in one environment.

    PyTorch's wheel takes NVIDIA's libraries from packages, nvidia-…-cu12 or nvidia-…-cu13. Some of both, such as cuDNN,
    write to the same folder: the one installed last wins, and removing either takes files from the other.
    """
    torch = facts.torch
    trouble = torch.error or torch.failed or torch.kernel
    return two_cudas_seen(facts, str(trouble)) if two_cudas(facts) and fails(facts) else None


def two_cudas_seen(facts: Facts, trouble: str) -> Seen:
    """Tell of the packages for two generations of CUDA, and which to remove."""
    twelve = two_cudas(facts)
    torch, away = facts.torch, "uv pip uninstall" if "uv" in facts.system.commands else "python -m pip uninstall --yes"
    twelve_is_ours = (torch.cuda or "").startswith("12")
    thirteen = tuple(name for name in facts.packages if re.fullmatch("nvidia-.*-cu13", name))
    return Seen(
        evidence=(
            f"for CUDA 12 there is {twelve[0]}, for CUDA 13 {thirteen[0]}",
            f"PyTorch {torch.version} is built for CUDA {torch.cuda}",
            trouble,
        ),
        fix=(
            "Remove those that PyTorch does not want, and let pip write the others again:",
            f"$ {away} {' '.join(thirteen if twelve_is_ours else twelve)}",
            again(facts),
        ),
        certainty="likely",
    )


@rule("torch")
def mkl_too_new(facts: Facts) -> Seen | None:
    """The MKL in this environment of conda is newer than its PyTorch.

    MKL, Intel's library of mathematics, is a package of its own in conda, and an older PyTorch uses a function that MKL
    left out from 2024.1 on. PyTorch from pip has its own MKL inside and does not mind.
    """
    line = heard(facts, MKL)
    if not line or facts.torch.imported:
        return None
    mkl = next((name for name in facts.system.conda if name.startswith("mkl-2")), None)
    return Seen(
        evidence=(line, *([f"conda installed {mkl}"] if mkl else [])),
        fix=('$ conda install "mkl<2024.1"',),
        certainty="certain" if mkl else "likely",
    )


@rule("torch")
def torch_damaged(facts: Facts) -> Seen | None:
    """PyTorch is installed, but cannot be imported.

    Something that it needs is missing or does not fit: an installation that was broken off (a full disk, a lost
    connection), a package that another one replaced, or, on Windows, Microsoft's runtime for C++. The last line of the
    error names the file or package.
    """
    torch = facts.torch
    explained = (heard(facts, *FOREIGN) and facts.env.get("LD_LIBRARY_PATH")) or MKL in (torch.error or "")
    if not torch.version or not torch.error or explained or two_torches(facts) or two_cudas(facts):
        return None
    runtime = ("First the runtime for C++:", "$ winget install Microsoft.VCRedist.2015+.x64", "If that is not it:")
    return Seen(
        evidence=(f"import torch ends in {' '.join(torch.error.split())[-300:]}",),
        fix=(
            *(runtime if facts.system.os == "windows" else ()),
            "Install it again, with all it needs, from fresh files. If the disk is full, make room first.",
            again(facts),
        ),
        certainty="likely",
    )


def again(facts: Facts) -> str:
    """Return the command that installs the same PyTorch once more, from the index it came from."""
    if any(name.startswith("pytorch-") for name in facts.system.conda):
        return "$ conda install --force-reinstall pytorch"
    torch = facts.torch
    if facts.system.os == "darwin":
        tag = ""
    elif torch.cuda:
        tag = f"cu{torch.cuda.replace('.', '')}"
    else:
        tag = "xpu" if torch.xpu else f"rocm{'.'.join(torch.hip.split('.')[:2])}" if torch.hip else "cpu"
    command = torch_for(facts, tag)
    return command if tag else command.partition(" --index-url")[0]
