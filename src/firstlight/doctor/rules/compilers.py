"""Causes in what compiles kernels: Numba's CUDA target, and the C compiler that PyTorch and Triton call."""

from __future__ import annotations

from firstlight.doctor.rules.ask import cuda_number, has, heard, numbers_of
from firstlight.doctor.rules.commands import EXTRAS, cuda_tag, numba_for
from firstlight.doctor.rules.installs import two_cudas, two_cudas_seen
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts

NO_TOOLKIT = (
    "DynamicLibNotFoundError",
    "libNVVM cannot be found",
    "library nvvm not found",
    "libnvrtc",
    "libdevice",
    "nvvm.dll",
)
NEW_PTX = ("Unsupported .version", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "compiled with an unsupported toolchain")
GUIDE = "https://nvidia.github.io/numba-cuda/user/installation.html"


def met(facts: Facts, *pieces: str) -> str | None:
    """Return the line of an error, if it is the reader's own or there is a card of NVIDIA that it matters for."""
    line = heard(facts, *pieces)
    return line if line and (has(facts, "nvidia") or line in facts.said) else None


def tag_for_numba(facts: Facts) -> str:
    """Return the kind of wheel whose CUDA Numba should have: PyTorch's, if the driver can run that."""
    major, minor = numbers_of(facts.torch.cuda)
    runs = facts.cuda.version is None or major <= facts.cuda.version // 1000
    return f"cu{major}{minor}" if major in (12, 13) and runs else cuda_tag(facts)


def works(facts: Facts) -> bool:
    """Whether a kernel of Numba ran and was right, or, where none can run, was compiled."""
    return facts.numba.kernel == "right" or (facts.numba.kernel is None and facts.numba.toolchain == "works")


def old_target(facts: Facts) -> bool:
    """Whether numba-cuda comes from before CUDA 13."""
    return bool(facts.numba.target) and numbers_of(facts.numba.target) < EXTRAS


@rule("toolchain")
def numba_without_toolkit(facts: Facts) -> Seen | None:
    """Numba does not find its CUDA compiler.

    Numba writes a kernel, and libraries of NVIDIA's toolkit, NVVM and NVRTC, turn it into code for the card. The
    package numba-cuda does not bring them unless you ask by [cu13] or [cu12]. The hint in some of the errors, to
    install cudatoolkit with conda, is out of date. The toolkit for the whole system is not needed.
    """
    line, numba = met(facts, *NO_TOOLKIT), facts.numba
    if (
        not line
        or facts.system.os == "darwin"
        or numba.kernel == "right"
        or inside_numba(facts)
        or beside_cuda_13(facts)
    ):
        return None
    return Seen(
        evidence=(line, f"numba-cuda {numba.target} is installed" if numba.target else f"Numba {numba.version}"),
        fix=(with_cuda(facts, tag_for_numba(facts)),),
        certainty="certain" if line not in facts.said else "likely",
    )


def with_cuda(facts: Facts, tag: str) -> str:
    """Return the command that gives Numba the CUDA of a kind of wheel, by the manager that Numba is from."""
    if any(name.startswith("numba-") for name in facts.system.conda):
        return f'$ conda install --channel conda-forge numba-cuda "cuda-version={tag[2:4]}.{tag[4:]}"'
    return numba_for(facts, tag)


def inside_numba(facts: Facts) -> bool:
    """Whether Numba goes without numba-cuda and does not get along."""
    numba = facts.numba
    missing = "numba.cuda" in (numba.error or "") and "No module named" in (numba.error or "")
    return bool(numba.version and not numba.target and (missing or (numba.built_in and not works(facts))))


def beside_cuda_13(facts: Facts) -> bool:
    """Whether a numba-cuda from before CUDA 13 stands beside a PyTorch with CUDA 13, and does not work."""
    return old_target(facts) and (facts.torch.cuda or "").startswith("13") and not works(facts)


@rule("toolchain")
def numba_cuda_missing(facts: Facts) -> Seen | None:
    """Numba uses its old CUDA target, because numba-cuda is not installed.

    Numba's part for CUDA has moved to a package of its own, numba-cuda, by NVIDIA. Without it Numba takes the old part
    inside itself, which nobody develops further and which does not find the CUDA that pip installs.
    """
    numba = facts.numba
    if not has(facts, "nvidia") or not inside_numba(facts):
        return None
    trouble = numba.error or (numba.toolchain if numba.toolchain != "works" else numba.kernel)
    return Seen(
        evidence=(f"Numba {numba.version} is installed, numba-cuda is not", *([trouble] if trouble else [])),
        fix=(with_cuda(facts, tag_for_numba(facts)),),
    )


@rule("toolchain")
def numba_cuda_too_old(facts: Facts) -> Seen | None:
    """The package numba-cuda is older than the CUDA that PyTorch brought.

    PyTorch has CUDA 13 with it, and numba-cuda knows CUDA 13 only from 0.20 on. pip goes back to such an old release by
    itself when "numba-cuda[cu12]" is asked for beside a PyTorch for CUDA 13: the two do not fit, and the old release
    is the newest that does not say so.
    """
    if not has(facts, "nvidia") or not beside_cuda_13(facts):
        return None
    numba = facts.numba
    return Seen(
        evidence=(
            f"numba-cuda is {numba.target}, PyTorch {facts.torch.version} has CUDA {facts.torch.cuda}",
            str(numba.error or (numba.toolchain if numba.toolchain != "works" else numba.kernel)),
        ),
        fix=(with_cuda(facts, tag_for_numba(facts)),),
        certainty="likely",
    )


@rule("ptx")
def ptx_newer_than_driver(facts: Facts) -> Seen | None:
    """Numba compiles for a newer CUDA than the driver knows.

    Numba hands the driver PTX, a text that the driver turns into code for the card. PTX has versions, and a driver
    reads those up to its own. pip takes the newest CUDA packages for Numba, unless PyTorch, installed in the same call,
    holds them back. "Unsupported .version" then names the version written and the newest one that can be read.
    """
    numba, cuda = facts.numba, facts.cuda
    line = met(facts, *NEW_PTX)
    newer = bool(numba.needs and cuda.version and numba.needs > cuda.version)
    old_driver = cuda.version is not None and numbers_of(facts.torch.cuda)[0] > cuda.version // 1000
    if numba.kernel == "right" or old_driver or not has(facts, "nvidia") or not (line or newer):
        return None
    evidence = [line] if line else []
    if numba.needs and cuda.version:
        evidence += [
            f"Numba writes PTX {numba.ptx}, which needs a driver for CUDA {cuda_number(numba.needs)}",
            f"the driver knows CUDA up to {cuda_number(cuda.version)}",
        ]
    other_generation = newer and numba.needs and cuda.version and numba.needs // 1000 > cuda.version // 1000
    driver = f" for CUDA {cuda_number(numba.needs)}" if numba.needs else ""
    return Seen(
        evidence=tuple(evidence),
        fix=(
            "Give Numba the CUDA that fits the driver:",
            with_cuda(facts, tag_below(facts)),
            f"Or install a driver{driver} or newer: nvidia-smi prints the CUDA that it is for at the top right.",
        ),
        certainty="certain" if newer and (line or other_generation) else "likely" if line else "possible",
    )


def tag_below(facts: Facts) -> str:
    """Return the kind of wheel with the newest CUDA that the driver can compile for, PyTorch's own before others."""
    version, ours = facts.cuda.version or 0, numbers_of(facts.torch.cuda)
    if version and 12000 <= ours[0] * 1000 + ours[1] * 10 <= version:
        return tag_for_numba(facts)
    return f"cu{cuda_number(version).replace('.', '')}" if version >= 12000 else cuda_tag(facts)


@rule("numba")
def numba_between_two_cudas(facts: Facts) -> Seen | None:
    """Numba finds parts of CUDA 12 and of CUDA 13 in one environment.

    Numba takes its compiler and its linker from NVIDIA's packages, and looks for each by itself. Where those for CUDA
    12, whose names end in -cu12, lie beside those for CUDA 13, it can take one of each, and they do not fit.
    """
    trouble = facts.numba.kernel
    if not trouble or trouble == "right" or not two_cudas(facts) or facts.torch.kernel not in (None, "right"):
        return None
    return two_cudas_seen(facts, trouble)
