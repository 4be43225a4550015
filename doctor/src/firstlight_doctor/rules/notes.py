"""Notes: what is often misread on a machine that may be well."""

from __future__ import annotations

from firstlight_doctor.rules.commands import cuda_tag
from firstlight_doctor.rules.machine import as_version, find_message, major
from firstlight_doctor.rules.rule import Signs, rule, signs
from firstlight_doctor.schema import Facts

NO_NVCC = ("nvcc: command not found", "'nvcc' is not recognized", "CUDA_HOME environment variable", "nvcc not found")


@rule("version", kind="note")
def cuda_version_of_nvidia_smi(facts: Facts) -> Signs | None:
    """The "CUDA Version" of nvidia-smi is not the CUDA that PyTorch uses.

    nvidia-smi prints the newest CUDA that the driver can run. Nothing of that version needs to be installed. PyTorch
    brings its own CUDA, which may be older and must not be much newer. nvcc, of NVIDIA's toolkit, has yet another.

    To do:
    Nothing has to be done, and no toolkit installed, for PyTorch or Numba. This prints what PyTorch uses:
    $ python -c "import torch; print(torch.version.cuda)"
    """
    driver, wheel = facts.nvml.cuda, facts.torch.cuda
    if not driver or not wheel:
        return None
    older = 0 < major(wheel) < driver // 1000
    if not older and not find_message(facts, "CUDA Version:"):
        return None
    return signs(f'nvidia-smi says "CUDA Version: {as_version(driver)}"', f"PyTorch has CUDA {wheel} with it")


@rule("wheel", kind="note")
def no_nvcc(facts: Facts) -> Signs | None:
    """A missing nvcc does not mean that CUDA is missing.

    nvcc is the compiler for CUDA C++, part of NVIDIA's toolkit. PyTorch and Numba bring the parts of CUDA that they use
    and never call it. You need it only to build a package that has CUDA C++ in it, an extension: that is where
    CUDA_HOME, the folder of the toolkit, is asked for.

    To do:
    To run PyTorch and Numba, install nothing. To build an extension, look first whether it has a wheel for your
      PyTorch. If not, take the toolkit of the CUDA that PyTorch has, {version}, in a conda environment:
    $ conda install --channel conda-forge cuda-nvcc cuda-cudart-dev "cuda-version={version}"
    [windows] $ $env:CUDA_HOME = $env:CONDA_PREFIX
    [not windows] $ export CUDA_HOME=$CONDA_PREFIX
    or from NVIDIA, for the whole system: https://developer.nvidia.com/cuda-toolkit-archive
    """
    line, tag = find_message(facts, *NO_NVCC), cuda_tag(facts)
    if not line or "nvcc" in facts.system.commands:
        return None
    has = f"PyTorch {facts.torch.version} has CUDA {facts.torch.cuda or 'not'} with it"
    return signs(line, has, version=facts.torch.cuda or f"{tag[2:4]}.{tag[4:]}")
