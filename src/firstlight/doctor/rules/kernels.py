"""Causes that keep Numba from being imported, or its kernels from being right."""

from __future__ import annotations

import re

from firstlight.doctor.rules.commands import pip
from firstlight.doctor.rules.compilers import NO_TOOLKIT, beside_cuda_13, inside_numba, met
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.rules.wheels import wheel_for
from firstlight.doctor.shapes import Facts

NUMPY = ("has no attribute 'row_stack'", "Numba needs NumPy", "was compiled using NumPy 1.x cannot be run in NumPy 2")


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
    return Seen(
        evidence=(line, *([f"NumPy {found} is installed"] if found else [])),
        fix=(f'$ {pip(facts)} "numpy<{below}"',),
        certainty="certain" if line not in facts.said else "likely",
    )


@rule("toolchain")
def numba_damaged(facts: Facts) -> Seen | None:
    """Numba is installed, but cannot be imported.

    Numba compiles with llvmlite, a package that has to be of exactly the version it was made for. One that another
    package replaced, or an installation that was broken off, shows at the import. The error names the part.
    """
    numba = facts.numba
    explained = any(piece in (numba.error or "") for piece in (*NUMPY, *NO_TOOLKIT)) or inside_numba(facts)
    if not numba.version or not numba.error or explained or beside_cuda_13(facts):
        return None
    again = "--reinstall" if "uv" in facts.system.commands else "--force-reinstall"
    return Seen(
        evidence=(f"import numba ends in {' '.join(numba.error.split())[:300]}",),
        fix=(
            "Install it again, with all it needs:",
            f'$ {pip(facts)} {again} "numba=={numba.version}" "numpy<2.5"',
        ),
        certainty="likely",
    )


@rule("toolchain")
def numba_stops(facts: Facts) -> Seen | None:
    """Numba hangs or crashes.

    It does so without an error of Python, because the fault is in compiled code: a compiler library of another version,
    which the search path brought in, or a driver that does not answer. Numba also keeps compiled functions in a cache,
    which waits for its lock on some network disks.
    """
    numba = facts.numba
    if not numba.failed:
        return None
    path = facts.env.get("LD_LIBRARY_PATH")
    first = ("First without the libraries that LD_LIBRARY_PATH brings in:", "$ unset LD_LIBRARY_PATH") if path else ()
    late = "faulthandler.dump_traceback_later(50, exit=True)"
    return Seen(
        evidence=(f"the check of Numba {numba.failed}", *([f"LD_LIBRARY_PATH={path}"] if path else [])),
        fix=(
            *first,
            "This prints where it stops:",
            f'$ python -X faulthandler -c "import faulthandler; {late}; from numba import cuda; cuda.detect()"',
        ),
        certainty="likely",
    )


@rule("numba")
def numba_wrong(facts: Facts) -> Seen | None:
    """A kernel of Numba runs, and its result is wrong.

    The doctor's kernel adds one to each number of an array, and some came out otherwise. If PyTorch computes right on
    the same card, the card is sound, and it is the compiler or the linker that Numba took: most often parts of two
    releases.
    """
    if facts.numba.kernel != "wrong":
        return None
    torch = f"the result of a matrix product of PyTorch is {facts.torch.kernel or 'not known'}"
    return Seen(
        evidence=("a kernel that adds one gave other numbers", torch, f"numba-cuda {facts.numba.target}"),
        fix=(
            "Make a new environment, and install both there:",
            *wheel_for(facts),
        ),
        certainty="likely",
    )
