"""Causes in what compiles: Numba, the compilers of CUDA that it calls, the NumPy that it knows, and a C compiler."""

from __future__ import annotations

import re

from firstlight_doctor.rules.commands import EXTRAS, numba_cuda
from firstlight_doctor.rules.machine import as_version, find_message, has_card, major_minor, manager_of
from firstlight_doctor.rules.rule import Signs, rule, signs
from firstlight_doctor.schema import Facts

NUMPY = ("has no attribute 'row_stack'", "Numba needs NumPy", "was compiled using NumPy 1.x cannot be run in NumPy 2")
NO_TOOLKIT = ("DynamicLibNotFoundError", "libNVVM cannot be", "nvvm not found", "libnvrtc", "libdevice", "nvvm.dll")
NEW_PTX = ("Unsupported .version", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "compiled with an unsupported toolchain")
NO_C = ("Failed to find C compiler", "Python.h: No such file", "'Python.h' not found", "No working C++ compiler found")


def message_here(facts: Facts, *pieces: str) -> str | None:
    """Return the line of an error, if it is the reader's own or there is a card of NVIDIA that it matters for."""
    line = find_message(facts, *pieces)
    return line if line and (has_card(facts, "nvidia") or line in facts.said) else None


def numba_trouble(facts: Facts) -> str | None:
    """Return the error that Numba ended in."""
    errors = (facts.numba.error, facts.numba.toolchain, facts.numba.kernel)
    wrong = (error for error in errors if error not in (None, "works", "right"))
    return None if facts.numba.kernel == "right" else next(wrong, None)


@rule("toolchain", unless="mac numba-cuda-missing numba-cuda-too-old")
def numba_without_toolkit(facts: Facts) -> Signs | None:
    """Numba does not find its CUDA compiler.

    Numba writes a kernel, and libraries of NVIDIA's toolkit, NVVM and NVRTC, turn it into code for the card. The
    package numba-cuda does not bring them unless you ask by [cu13] or [cu12]. The hint in some of the errors, to
    install cudatoolkit with conda, is out of date. The toolkit for the whole system is not needed. One that you have in
    a place of its own is found by the variable CUDA_HOME, such as CUDA_HOME=/opt/cuda-12.6.

    To do:
    {numba_cuda}
    """
    line, numba = message_here(facts, *NO_TOOLKIT), facts.numba
    if not line or numba.kernel == "right":
        return None
    return signs(
        line,
        f"numba-cuda {numba.target} is installed" if numba.target else f"Numba {numba.version}",
        certainty="certain" if line not in facts.said else "likely",
    )


@rule("toolchain", on="nvidia")
def numba_cuda_missing(facts: Facts) -> Signs | None:
    """Numba uses its old CUDA target, because numba-cuda is not installed.

    Numba's part for CUDA has moved to a package of its own, numba-cuda, by NVIDIA. Without it Numba takes the old part
    inside itself, which nobody develops further and which does not find the CUDA that pip installs.

    To do:
    {numba_cuda}
    """
    numba, wrong = facts.numba, numba_trouble(facts)
    missing = "numba.cuda" in (numba.error or "") and "No module named" in (numba.error or "")
    if not numba.version or numba.target or not (missing or (numba.built_in and (wrong or not numba.toolchain))):
        return None
    return signs(f"Numba {numba.version} is installed, numba-cuda is not", wrong)


@rule("toolchain", on="nvidia")
def numba_cuda_too_old(facts: Facts) -> Signs | None:
    """The package numba-cuda is older than the CUDA that PyTorch brought.

    PyTorch has CUDA 13 with it, and numba-cuda knows CUDA 13 only from 0.20 on. pip goes back to such an old release by
    itself when "numba-cuda[cu12]" is asked for beside a PyTorch for CUDA 13: the two do not fit, and the old release
    is the newest that does not say so.

    To do:
    {numba_cuda}
    """
    numba, torch, wrong = facts.numba, facts.torch, numba_trouble(facts)
    old = numba.target and major_minor(numba.target) < EXTRAS and (torch.cuda or "").startswith("13")
    if not old or not wrong:
        return None
    seen = f"numba-cuda is {numba.target}, PyTorch {torch.version} has CUDA {torch.cuda}"
    return signs(seen, wrong, certainty="likely")


@rule("ptx", on="nvidia")
def ptx_newer_than_driver(facts: Facts) -> Signs | None:
    """Numba compiles for a newer CUDA than the driver knows.

    Numba hands the driver PTX, a text that the driver turns into code for the card. PTX has versions, and a driver
    reads those up to its own. pip takes the newest CUDA packages for Numba, unless PyTorch, installed in the same call,
    holds them back. "Unsupported .version" then names the version written and the newest one that can be read.

    To do:
    Give Numba the CUDA that fits the driver:
    {install}
    [wsl] The driver is that of Windows, so a newer one is installed there, and none in here.
    Or install a driver{for_cuda} or newer: nvidia-smi prints the CUDA that it is for at the top right.
    """
    numba, line = facts.numba, message_here(facts, *NEW_PTX)
    needs, knows = numba.needs or 0, facts.cuda.version or 0
    major, minor = major_minor(facts.torch.cuda)
    newer, old_driver = needs > knows > 0, 0 < knows // 1000 < major
    if numba.kernel == "right" or old_driver or not (line or newer):
        return None
    # PyTorch's own CUDA, if the driver can compile for it; else the newest for which it can.
    ours = knows < 12000 or 12000 <= major * 1000 + minor * 10 <= knows
    sure = newer and (line or needs // 1000 > knows // 1000)
    both = needs and knows
    return signs(
        line,
        f"Numba writes PTX {numba.ptx}, which needs a driver for CUDA {as_version(needs)}" if both else None,
        f"the driver knows CUDA up to {as_version(knows)}" if both else None,
        certainty="certain" if sure else "likely" if line else "possible",
        install=numba_cuda(facts, "" if ours else f"cu{as_version(knows).replace('.', '')}"),
        for_cuda=f" for CUDA {as_version(needs)}" if needs else "",
    )


@rule("toolchain")
def numpy_too_new(facts: Facts) -> Signs | None:
    """NumPy is newer than Numba, or an old PyTorch, knows.

    Numba rebuilds much of NumPy, so each release knows NumPy up to some version, and refuses what is newer. Its CUDA
    target is further behind: numba-cuda 0.30 cannot compile a kernel with NumPy 2.5, from which a function was removed.
    A PyTorch before 2.3 knows no NumPy 2. Some other package has brought the newer NumPy.

    To do:
    $ {pip} "numpy<{limit}"
    """
    refused = any(piece in (facts.numba.error or "") for piece in NUMPY)
    line = facts.numba.error if refused else message_here(facts, *NUMPY)
    if not line:
        return None
    newest = re.search(r"needs NumPy ([0-9]+)\.([0-9]{1,3}) or less", line)
    found = facts.packages.get("numpy")
    return signs(
        line,
        f"NumPy {found} is installed" if found else None,
        certainty="certain" if line not in facts.said else "likely",
        limit=f"{newest[1]}.{int(newest[2]) + 1}" if newest else "2" if "NumPy 1.x" in line else "2.5",
    )


@rule("toolchain", unless="numpy-too-new numba-cuda-missing numba-cuda-too-old")
def numba_damaged(facts: Facts) -> Signs | None:
    """Numba is installed, but cannot be imported.

    Numba compiles with llvmlite, a package that has to be of exactly the version it was made for. One that another
    package replaced, or an installation that was broken off, shows at the import. The error names the part.

    To do:
    Install it again, with all it needs:
    $ {reinstall} "numba=={version}" "numpy<2.5"
    """
    numba = facts.numba
    if not numba.version or not numba.error or any(piece in numba.error for piece in (*NO_TOOLKIT, "numba.cuda")):
        return None
    said = f"import numba ends in {' '.join(numba.error.split())[:300]}"
    return signs(said, certainty="likely", version=numba.version)


@rule("toolchain")
def numba_stops(facts: Facts) -> Signs | None:
    """Numba hangs or crashes.

    It does so without an error of Python, because the fault is in compiled code: a compiler library of another version,
    which the search path brought in, or a driver that does not answer. Numba also keeps compiled functions in a cache,
    which waits for its lock on some network disks.

    To do:
    {without_library_path}
    This prints where it stops:
    $ python -X faulthandler -c "import faulthandler; faulthandler.dump_traceback_later(50, exit=True);
      from numba import cuda; cuda.detect()"
    """
    path = facts.env.get("LD_LIBRARY_PATH")
    if not facts.numba.failed:
        return None
    found = f"LD_LIBRARY_PATH={path}" if path else None
    return signs(f"the check of Numba {facts.numba.failed}", found, certainty="likely")


@rule("numba", unless="numpy-too-new numba-without-toolkit numba-cuda-missing numba-cuda-too-old ptx-newer-than-driver")
def numba_wrong(facts: Facts) -> Signs | None:
    """Even a kernel that only adds one fails in Numba, although PyTorch computes.

    The doctor's kernel has no race and no bound to miss. If it goes wrong, and PyTorch computes right on the same card,
    it is the compiler or the linker that Numba took: most often parts of two releases, such as packages for CUDA 12
    that were left beside those for CUDA 13. If only a kernel of yours is wrong, look for the mistake there.

    To do:
    Make a new environment, and install both there:
    {wheel}
    """
    kernel = facts.numba.kernel
    if kernel in (None, "right") or facts.torch.kernel != "right":
        return None
    return signs(
        "a kernel that adds one gave other numbers" if kernel == "wrong" else f"a kernel that adds one: {kernel}",
        "the result of a matrix product of PyTorch is right",
        f"numba-cuda {facts.numba.target}",
        certainty="likely",
    )


@rule("torch")
def no_c_compiler(facts: Facts) -> Signs | None:
    """torch.compile and Triton find no C compiler, or not the headers of Python.

    Both write programs while yours runs. The kernel itself they compile on their own, but the small program in C that
    starts it needs a compiler and Python.h, the headers of Python, which distributions put into packages of their own.
    PyTorch without torch.compile needs neither.

    To do (windows):
    PyTorch's wheels for Windows have no Triton. The package triton-windows brings one, and a C compiler:
    $ python -m pip install triton-windows

    To do (may_install):
    [apt] $ {sudo}apt install build-essential python{python}-dev
    [dnf] $ {sudo}dnf install gcc gcc-c++ python3-devel
    [pacman] $ {sudo}pacman -S base-devel python
    [zypper] $ {sudo}zypper install gcc gcc-c++ python3-devel

    To do:
    Without the administrator, conda has a compiler and a Python with its headers:
    $ conda create --name gpu-env --channel conda-forge python={python} c-compiler cxx-compiler
    On a cluster a module often has it: module avail gcc
    """
    line, system = find_message(facts, *NO_C), facts.system
    if not line:
        return None
    missing = "cc" not in system.commands
    return signs(
        line,
        "no C compiler (cc) is on the path" if missing else None,
        "the headers of this Python (Python.h) are missing" if system.python_h is False else None,
        certainty="certain" if missing or system.python_h is False else "likely",
        may_install=manager_of(facts) and (system.root or "sbatch" not in system.commands),
        python=".".join(system.python.split(".")[:2]),
    )
