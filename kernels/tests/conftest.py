import os
from collections.abc import Generator
from importlib.metadata import distributions

import pytest
from hypothesis import settings

from firstlight_kernels.ptx import NoCompilerError

os.environ["MPLBACKEND"] = "Agg"
# The same examples at every run, and no clock: a test does not fail because its machine is busy.
settings.register_profile("quick", derandomize=True, deadline=None, max_examples=15)
settings.register_profile("all", derandomize=True, deadline=None, max_examples=100)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("quick" if config.option.markexpr == "not slow" else "all")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Skip a test that cannot compile for a GPU here, because its compiler is not installed."""
    try:
        return (yield)
    except NoCompilerError as missing:
        installed = {str(one.name).replace("-", "_") for one in distributions()}
        if "nvidia_nvvm" in installed and installed & {"numba_cuda", "numba_cuda_mlir"}:
            raise  # it is there, and does not work
        pytest.skip(str(missing))
