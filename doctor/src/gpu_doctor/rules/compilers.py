"""Causes in what compiles kernels: Numba, the compilers of CUDA that it calls, and the NumPy that it knows."""

from __future__ import annotations

import re

from gpu_doctor.rules.ask import cuda_number, has, heard, numbers_of
from gpu_doctor.rules.commands import EXTRAS, cuda_tag, numba_for, pip
from gpu_doctor.rules.driver import known
from gpu_doctor.rules.rule import Seen, rule
from gpu_doctor.rules.wheels import wheel_for
from gpu_doctor.shapes import Facts

NUMPY = ("has no attribute 'row_stack'", "Numba needs NumPy", "was compiled using NumPy 1.x cannot be run in NumPy 2")
NO_TOOLKIT = ("DynamicLibNotFoundError", "libNVVM cannot be", "nvvm not found", "libnvrtc", "libdevice", "nvvm.dll")
NEW_PTX = ("Unsupported .version", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "compiled with an unsupported toolchain")


def met(facts: Facts, *pieces: str) -> str | None:
    """Return the line of an error, if it is the reader's own or there is a card of NVIDIA that it matters for."""
    line = heard(facts, *pieces)
    return line if line and (has(facts, "nvidia") or line in facts.said) else None


def trouble(facts: Facts) -> str | None:
    """Return the error that Numba ended in."""
    errors = (facts.numba.error, facts.numba.toolchain, facts.numba.kernel)
    wrong = (error for error in errors if error not in (None, "works", "right"))
    return None if facts.numba.kernel == "right" else next(wrong, None)


def with_cuda(facts: Facts, tag: str = "") -> tuple[str, ...]:
    """Return the command that gives Numba the CUDA of a kind of wheel, by the manager that Numba is from.

    That is PyTorch's, if the driver can run that.
    """
    major, minor = numbers_of(facts.torch.cuda)
    runs = major in (12, 13) and (facts.cuda.version is None or major <= facts.cuda.version // 1000)
    tag = tag or (f"cu{major}{minor}" if runs else cuda_tag(facts))
    if any(name.startswith("numba-") for name in facts.system.conda):
        return (f'$ conda install --channel conda-forge numba-cuda "cuda-version={tag[2:4]}.{tag[4:]}"',)
    return (numba_for(facts, tag),)


@rule("toolchain", unless="mac numba-cuda-missing numba-cuda-too-old")
def numba_without_toolkit(facts: Facts) -> Seen | None:
    """Numba does not find its CUDA compiler.

    Numba writes a kernel, and libraries of NVIDIA's toolkit, NVVM and NVRTC, turn it into code for the card. The
    package numba-cuda does not bring them unless you ask by [cu13] or [cu12]. The hint in some of the errors, to
    install cudatoolkit with conda, is out of date. The toolkit for the whole system is not needed.
    """
    line, numba = met(facts, *NO_TOOLKIT), facts.numba
    if not line or numba.kernel == "right":
        return None
    there = f"numba-cuda {numba.target} is installed" if numba.target else f"Numba {numba.version}"
    return Seen((line, there), with_cuda(facts), "certain" if line not in facts.said else "likely")


@rule("toolchain", on="nvidia")
def numba_cuda_missing(facts: Facts) -> Seen | None:
    """Numba uses its old CUDA target, because numba-cuda is not installed.

    Numba's part for CUDA has moved to a package of its own, numba-cuda, by NVIDIA. Without it Numba takes the old part
    inside itself, which nobody develops further and which does not find the CUDA that pip installs.
    """
    numba, wrong = facts.numba, trouble(facts)
    missing = "numba.cuda" in (numba.error or "") and "No module named" in (numba.error or "")
    if not numba.version or numba.target or not (missing or (numba.built_in and (wrong or not numba.toolchain))):
        return None
    return Seen(known(f"Numba {numba.version} is installed, numba-cuda is not", wrong), with_cuda(facts))


@rule("toolchain", on="nvidia")
def numba_cuda_too_old(facts: Facts) -> Seen | None:
    """The package numba-cuda is older than the CUDA that PyTorch brought.

    PyTorch has CUDA 13 with it, and numba-cuda knows CUDA 13 only from 0.20 on. pip goes back to such an old release by
    itself when "numba-cuda[cu12]" is asked for beside a PyTorch for CUDA 13: the two do not fit, and the old release
    is the newest that does not say so.
    """
    numba, torch, wrong = facts.numba, facts.torch, trouble(facts)
    old = numba.target and numbers_of(numba.target) < EXTRAS and (torch.cuda or "").startswith("13")
    if not old or not wrong:
        return None
    seen = f"numba-cuda is {numba.target}, PyTorch {torch.version} has CUDA {torch.cuda}"
    return Seen((seen, wrong), with_cuda(facts), "likely")


@rule("ptx", on="nvidia")
def ptx_newer_than_driver(facts: Facts) -> Seen | None:
    """Numba compiles for a newer CUDA than the driver knows.

    Numba hands the driver PTX, a text that the driver turns into code for the card. PTX has versions, and a driver
    reads those up to its own. pip takes the newest CUDA packages for Numba, unless PyTorch, installed in the same call,
    holds them back. "Unsupported .version" then names the version written and the newest one that can be read.
    """
    numba, line, needs, knows = facts.numba, met(facts, *NEW_PTX), facts.numba.needs or 0, facts.cuda.version or 0
    major, minor = numbers_of(facts.torch.cuda)
    newer, old_driver = needs > knows > 0, 0 < knows // 1000 < major
    if numba.kernel == "right" or old_driver or not (line or newer):
        return None
    writes = f"Numba writes PTX {numba.ptx}, which needs a driver for CUDA {cuda_number(needs)}"
    reads = f"the driver knows CUDA up to {cuda_number(knows)}"
    # PyTorch's own CUDA, if the driver can compile for it; else the newest for which it can.
    ours = knows < 12000 or 12000 <= major * 1000 + minor * 10 <= knows
    newest = "" if ours else f"cu{cuda_number(knows).replace('.', '')}"
    driver = f" for CUDA {cuda_number(needs)}" if needs else ""
    fix = (
        "Give Numba the CUDA that fits the driver:",
        *with_cuda(facts, newest),
        f"Or install a driver{driver} or newer: nvidia-smi prints the CUDA that it is for at the top right.",
    )
    sure = newer and (line or needs // 1000 > knows // 1000)
    seen = known(line, *((writes, reads) if needs and knows else ()))
    return Seen(seen, fix, "certain" if sure else "likely" if line else "possible")


@rule("toolchain")
def numpy_too_new(facts: Facts) -> Seen | None:
    """NumPy is newer than Numba, or an old PyTorch, knows.

    Numba rebuilds much of NumPy, so each release knows NumPy up to some version, and refuses what is newer. Its CUDA
    target is further behind: numba-cuda 0.30 cannot compile a kernel with NumPy 2.5, from which a function was removed.
    A PyTorch before 2.3 knows no NumPy 2. Some other package has brought the newer NumPy.
    """
    line = facts.numba.error if any(piece in (facts.numba.error or "") for piece in NUMPY) else met(facts, *NUMPY)
    if not line:
        return None
    limit = re.search(r"needs NumPy ([0-9]+)\.([0-9]{1,3}) or less", line)
    below = f"{limit[1]}.{int(limit[2]) + 1}" if limit else "2" if "NumPy 1.x" in line else "2.5"
    found = facts.packages.get("numpy")
    seen = known(line, f"NumPy {found} is installed" if found else None)
    return Seen(seen, (f'$ {pip(facts)} "numpy<{below}"',), "certain" if line not in facts.said else "likely")


@rule("toolchain", unless="numpy-too-new numba-cuda-missing numba-cuda-too-old")
def numba_damaged(facts: Facts) -> Seen | None:
    """Numba is installed, but cannot be imported.

    Numba compiles with llvmlite, a package that has to be of exactly the version it was made for. One that another
    package replaced, or an installation that was broken off, shows at the import. The error names the part.
    """
    numba = facts.numba
    if not numba.version or not numba.error or any(piece in numba.error for piece in (*NO_TOOLKIT, "numba.cuda")):
        return None
    again = "--reinstall" if "uv" in facts.system.commands else "--force-reinstall"
    fix = ("Install it again, with all it needs:", f'$ {pip(facts)} {again} "numba=={numba.version}" "numpy<2.5"')
    return Seen((f"import numba ends in {' '.join(numba.error.split())[:300]}",), fix, "likely")


@rule("toolchain")
def numba_stops(facts: Facts) -> Seen | None:
    """Numba hangs or crashes.

    It does so without an error of Python, because the fault is in compiled code: a compiler library of another version,
    which the search path brought in, or a driver that does not answer. Numba also keeps compiled functions in a cache,
    which waits for its lock on some network disks.
    """
    path = facts.env.get("LD_LIBRARY_PATH")
    if not facts.numba.failed:
        return None
    first = ("First without the libraries that LD_LIBRARY_PATH brings in:", "$ unset LD_LIBRARY_PATH") if path else ()
    late = "faulthandler.dump_traceback_later(50, exit=True)"
    fix = (
        *first,
        "This prints where it stops:",
        f'$ python -X faulthandler -c "import faulthandler; {late}; from numba import cuda; cuda.detect()"',
    )
    seen = known(f"the check of Numba {facts.numba.failed}", f"LD_LIBRARY_PATH={path}" if path else None)
    return Seen(seen, fix, "likely")


@rule("numba", unless="numpy-too-new numba-without-toolkit numba-cuda-missing numba-cuda-too-old ptx-newer-than-driver")
def numba_wrong(facts: Facts) -> Seen | None:
    """A kernel of Numba fails, or its result is wrong, although PyTorch computes.

    The doctor's kernel adds one to each number of an array. If PyTorch computes right on the same card, the card is
    sound, and it is the compiler or the linker that Numba took: most often parts of two releases, such as packages for
    CUDA 12 that were left beside those for CUDA 13.
    """
    kernel = facts.numba.kernel
    if kernel in (None, "right") or facts.torch.kernel != "right":
        return None
    gave = "a kernel that adds one gave other numbers" if kernel == "wrong" else f"a kernel that adds one: {kernel}"
    seen = (gave, "the result of a matrix product of PyTorch is right", f"numba-cuda {facts.numba.target}")
    return Seen(seen, ("Make a new environment, and install both there:", *wheel_for(facts)), "likely")
