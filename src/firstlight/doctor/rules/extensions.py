"""Causes in what compiles C and CUDA C++ on this machine: needed by torch.compile, Triton and extensions alone."""

from __future__ import annotations

from firstlight.doctor.rules.ask import heard, maker
from firstlight.doctor.rules.commands import cuda_tag, install
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts

NO_C = ("Failed to find C compiler", "Python.h: No such file", "'Python.h' not found", "No working C++ compiler found")
NO_NVCC = (
    "nvcc: command not found",
    "'nvcc' is not recognized",
    "CUDA_HOME environment variable is not set",
    "nvcc not found",
)
SAYS = (
    "RuntimeError: Failed to find C compiler. Please specify via CC environment variable",
    "fatal error: Python.h: No such file or directory",
    "InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'g++')",
)
LINKS = (
    "https://github.com/pytorch/pytorch/issues/129351",
    "https://github.com/MIC-DKFZ/nnUNet/issues/2268",
    "https://github.com/pytorch/pytorch/issues/97146",
)


def missing_for_c(facts: Facts) -> tuple[str, ...]:
    """Return what is missing to compile C against this Python."""
    compiler = () if "cc" in facts.system.commands else ("no C compiler (cc) is on the path",)
    headers = ("the headers of this Python (Python.h) are missing",) if facts.system.python_h is False else ()
    return (*compiler, *headers)


def c_tools(facts: Facts) -> tuple[str, ...]:
    """Return how a C compiler and Python's headers are installed here."""
    system, python = facts.system, ".".join(facts.system.python.split(".")[:2])
    if system.os == "windows":
        return (
            "PyTorch's wheels for Windows have no Triton. The package triton-windows brings one, and a C compiler:",
            "$ python -m pip install triton-windows",
        )
    headers = system.python_h is False
    compiler = "cc" not in system.commands or not headers
    names = {
        "apt": ("build-essential", f"python{python}-dev"),
        "dnf": ("gcc gcc-c++", "python3-devel"),
        "pacman": ("base-devel", "python"),
        "zypper": ("gcc gcc-c++", "python3-devel"),
    }
    packages = install(
        facts, **{name: " ".join((c,) * compiler + (python_h,) * headers) for name, (c, python_h) in names.items()}
    )
    if packages and (system.root or "sbatch" not in system.commands):
        return packages
    return (
        "Without the administrator, conda has a compiler and a Python with its headers:",
        f"$ conda create --name firstlight --channel conda-forge python={python} c-compiler cxx-compiler",
        "On a cluster a module often has it: module avail gcc",
    )


@rule("torch")
def no_c_compiler(facts: Facts) -> Seen | None:
    """torch.compile and Triton find no C compiler, or not the headers of Python.

    Both write programs while yours runs. The kernel itself they compile on their own, but the small program in C that
    starts it needs a compiler and Python.h, the headers of Python, which distributions put into packages of their own.
    PyTorch without torch.compile needs neither.
    """
    line = heard(facts, *NO_C)
    if not line:
        return None
    return Seen((line, *missing_for_c(facts)), c_tools(facts), "certain" if missing_for_c(facts) else "likely")


@rule("torch", kind="note")
def c_cannot_be_compiled(facts: Facts) -> Seen | None:
    """torch.compile and Triton would not work here: they need a C compiler and Python's headers.

    All else of PyTorch works without. These two write programs while yours runs, and start their kernels through a
    small program in C, which they compile on this machine.
    """
    missing = missing_for_c(facts)
    if facts.system.os != "linux" or not missing or not facts.torch.version or not maker(facts) or heard(facts, *NO_C):
        return None
    return Seen(missing, c_tools(facts))


@rule("wheel", kind="note")
def no_nvcc(facts: Facts) -> Seen | None:
    """A missing nvcc does not mean that CUDA is missing.

    nvcc is the compiler for CUDA C++, part of NVIDIA's toolkit. PyTorch and Numba bring the parts of CUDA that they use
    and never call it. You need it only to build a package that has CUDA C++ in it, an extension: that is where
    CUDA_HOME, the folder of the toolkit, is asked for.
    """
    line = heard(facts, *NO_NVCC)
    if not line or "nvcc" in facts.system.commands:
        return None
    tag = cuda_tag(facts)
    version = facts.torch.cuda or f"{tag[2:4]}.{tag[4:]}"
    return Seen(
        evidence=(line, f"PyTorch {facts.torch.version} has CUDA {facts.torch.cuda or 'not'} with it"),
        fix=(
            "To run PyTorch and Numba, install nothing. To build an extension, look first whether it has a wheel for "
            f"your PyTorch. If not, take the toolkit of the CUDA that PyTorch has, {version}, in a conda environment:",
            f'$ conda install --channel conda-forge cuda-nvcc cuda-cudart-dev "cuda-version={version}"',
            "$ export CUDA_HOME=$CONDA_PREFIX",
            "or from NVIDIA, for the whole system: https://developer.nvidia.com/cuda-toolkit-archive",
        ),
    )
