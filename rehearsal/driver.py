"""Numba's own CUDA target on a driver without a device.

Numba types, compiles, links and launches as ever; `libcuda.c` checks the launch and does nothing. Then Python plays the
kernel on the same memory (`playing.py`).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any, Protocol

from cards import CARDS, Card, build


class Queue(Protocol):
    """Who decides when a launch runs."""

    def submit(self, run: Callable[[], None]) -> None:
        """Run it now, or keep it for later, as the capture of a graph does."""


class AtOnce:
    """A queue that is always empty."""

    def submit(self, run: Callable[[], None]) -> None:
        """Run it now."""
        run()


def install(card: Card, queue: Queue) -> None:
    """Let there be cards on which Numba's kernels run; to be called before anything imports Numba."""
    sizes = ctypes.c_size_t(card.memory), ctypes.c_size_t(card.shared)
    library = build("libcuda.so.1", "libcuda.c")  # whoever asks for this name later finds it loaded
    library.stand_in(card.name.encode(), card.count, *card.capability, card.multiprocessors, *sizes)
    from numba import cuda

    from firstlight_kernels import simulated

    if simulated():
        raise RuntimeError("launches are simulated already: the rehearsal's driver came too late")
    from numba.cuda import dispatcher
    from playing import player

    checked = dispatcher._LaunchConfiguration.__call__

    def launch(self: Any, *arguments: Any) -> None:
        checked(self, *arguments)
        here = cuda.current_context().device.id
        for each in arguments:
            if isinstance(each, cuda.cudadrv.devicearray.DeviceNDArray) and each.gpu_data.context.device.id != here:
                raise RuntimeError(f"CUDA_ERROR_ILLEGAL_ADDRESS: a kernel on card {here} got an array of another one")
        queue.submit(player(self.dispatcher.py_func, self.griddim, self.blockdim, arguments))

    dispatcher._LaunchConfiguration.__call__ = launch


def pytest_load_initial_conftests() -> None:
    """Let the kernels of all tests run on a stand-in: REHEARSAL_CARD=two python -m pytest -p driver."""
    install(CARDS[os.environ.get("REHEARSAL_CARD", "h100")], AtOnce())
