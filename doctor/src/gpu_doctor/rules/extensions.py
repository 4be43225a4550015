"""Causes in what compiles C on this machine: needed by torch.compile, Triton and extensions alone."""

from __future__ import annotations

from gpu_doctor.rules.ask import heard
from gpu_doctor.rules.commands import install
from gpu_doctor.rules.rule import Seen, rule
from gpu_doctor.shapes import Facts

NO_C = ("Failed to find C compiler", "Python.h: No such file", "'Python.h' not found", "No working C++ compiler found")


@rule("torch")
def no_c_compiler(facts: Facts) -> Seen | None:
    """torch.compile and Triton find no C compiler, or not the headers of Python.

    Both write programs while yours runs. The kernel itself they compile on their own, but the small program in C that
    starts it needs a compiler and Python.h, the headers of Python, which distributions put into packages of their own.
    PyTorch without torch.compile needs neither.
    """
    line, system = heard(facts, *NO_C), facts.system
    if not line:
        return None
    missing = () if "cc" in system.commands else ("no C compiler (cc) is on the path",)
    headers = ("the headers of this Python (Python.h) are missing",) if system.python_h is False else ()
    return Seen((line, *missing, *headers), c_tools(facts), "certain" if missing or headers else "likely")


def c_tools(facts: Facts) -> tuple[str, ...]:
    """Return how a C compiler and Python's headers are installed here."""
    system, python = facts.system, ".".join(facts.system.python.split(".")[:2])
    if system.os == "windows":
        return (
            "PyTorch's wheels for Windows have no Triton. The package triton-windows brings one, and a C compiler:",
            "$ python -m pip install triton-windows",
        )
    packages = install(
        facts,
        apt=f"build-essential python{python}-dev",
        dnf="gcc gcc-c++ python3-devel",
        pacman="base-devel python",
        zypper="gcc gcc-c++ python3-devel",
    )
    if packages and (system.root or "sbatch" not in system.commands):
        return packages
    return (
        "Without the administrator, conda has a compiler and a Python with its headers:",
        f"$ conda create --name firstlight --channel conda-forge python={python} c-compiler cxx-compiler",
        "On a cluster a module often has it: module avail gcc",
    )
