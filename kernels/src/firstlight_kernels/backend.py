"""``numba.cuda``, whose kernels run in Numba's simulator where there is no CUDA device."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, cast

from firstlight_kernels.driver import cuda_device_count

__all__ = ["cuda", "simulated"]

# The grids of a tutorial are small on purpose.
os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")


class Cuda(Protocol):
    """``numba.cuda``, which has no types; a strict checker wants to know that of the decorator."""

    jit: Callable[..., Any]

    def __getattr__(self, name: str) -> Any: ...


config: Any = import_module("numba.core.config")
config.reload_config()  # here: a later one, in Numba's next compilation, would undo what is set below
_simulate = config.ENABLE_CUDASIM if os.environ.get("NUMBA_ENABLE_CUDASIM") else not cuda_device_count()
config.ENABLE_CUDASIM = 0  # if it were on while numba.cuda is imported, `ptx` would have no compiler
cuda = cast("Cuda", import_module("numba.cuda"))

# What a program calls besides `cuda.jit`, which looks at the switch itself. What a kernel calls stays Numba's own: the
# compiler needs it, and the simulator puts its own there while a kernel runs.
_HOST_API = {
    *("to_device", "device_array", "device_array_like", "pinned", "pinned_array", "pinned_array_like", "mapped_array"),
    *("stream", "default_stream", "external_stream", "event", "synchronize", "reduce", "Reduce", "In", "Out", "InOut"),
    *("gpus", "list_devices", "get_current_device", "current_context", "select_device", "close", "detect"),
    "declare_device",
}
if _simulate:
    config.ENABLE_CUDASIM = 1
    _simulator = import_module("numba.cuda.simulator")
    vars(cuda).update({name: value for name, value in vars(_simulator).items() if name in _HOST_API})
    # Without numba-cuda, as on a Mac, Numba's own simulator hands arrays over by what is in the driver's module.
    vars(import_module("numba.cuda.cudadrv.devicearray"))["auto_device"] = _simulator.auto_device


def simulated() -> bool:
    """Return whether kernels run in Numba's simulator (``cuda.is_available()`` is false then).

    Returns
    -------
    bool
        True where a kernel is run by Python: its results can be trusted, its times mean nothing.

    Examples
    --------
    >>> from firstlight_kernels import simulated
    >>> n = 1_000 if simulated() else 10_000_000
    """
    return bool(config.ENABLE_CUDASIM)
