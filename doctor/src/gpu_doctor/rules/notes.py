"""Notes: what is often misread on a machine that may be well."""

from __future__ import annotations

from gpu_doctor.rules.ask import cuda_number, heard, release_of
from gpu_doctor.rules.commands import cuda_tag
from gpu_doctor.rules.rule import Seen, rule
from gpu_doctor.shapes import Facts

NO_NVCC = ("nvcc: command not found", "'nvcc' is not recognized", "CUDA_HOME environment variable", "nvcc not found")


@rule("version", kind="note")
def cuda_version_of_nvidia_smi(facts: Facts) -> Seen | None:
    """The "CUDA Version" of nvidia-smi is not the CUDA that PyTorch uses.

    nvidia-smi prints the newest CUDA that the driver can run. Nothing of that version needs to be installed. PyTorch
    brings its own CUDA, which may be older and must not be much newer. nvcc, of NVIDIA's toolkit, has yet another.
    """
    driver, wheel = facts.nvml.cuda, facts.torch.cuda
    if not driver or not wheel:
        return None
    older = 0 < release_of(wheel) < driver // 1000
    if not older and not heard(facts, "CUDA Version:"):
        return None
    return Seen(
        (f'nvidia-smi says "CUDA Version: {cuda_number(driver)}"', f"PyTorch has CUDA {wheel} with it"),
        (
            "Nothing has to be done, and no toolkit installed, for PyTorch or Numba. This prints what PyTorch uses:",
            '$ python -c "import torch; print(torch.version.cuda)"',
        ),
    )


@rule("wheel", kind="note")
def no_nvcc(facts: Facts) -> Seen | None:
    """A missing nvcc does not mean that CUDA is missing.

    nvcc is the compiler for CUDA C++, part of NVIDIA's toolkit. PyTorch and Numba bring the parts of CUDA that they use
    and never call it. You need it only to build a package that has CUDA C++ in it, an extension: that is where
    CUDA_HOME, the folder of the toolkit, is asked for.
    """
    line, tag = heard(facts, *NO_NVCC), cuda_tag(facts)
    if not line or "nvcc" in facts.system.commands:
        return None
    version = facts.torch.cuda or f"{tag[2:4]}.{tag[4:]}"
    home = "$env:CUDA_HOME = $env:CONDA_PREFIX" if facts.system.os == "windows" else "export CUDA_HOME=$CONDA_PREFIX"
    return Seen(
        (line, f"PyTorch {facts.torch.version} has CUDA {facts.torch.cuda or 'not'} with it"),
        (
            "To run PyTorch and Numba, install nothing. To build an extension, look first whether it has a wheel for "
            f"your PyTorch. If not, take the toolkit of the CUDA that PyTorch has, {version}, in a conda environment:",
            f'$ conda install --channel conda-forge cuda-nvcc cuda-cudart-dev "cuda-version={version}"',
            f"$ {home}",
            "or from NVIDIA, for the whole system: https://developer.nvidia.com/cuda-toolkit-archive",
        ),
    )
