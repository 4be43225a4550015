"""Compile the loops of the fused step with Numba, keep what was compiled, and run it in threads.

Compiled code is kept in a folder named after these modules' text, so that none outlives a change in any of them.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TextIO

import numba
import numpy as np
import torch
from numba.core import event

Kernel = tuple[Callable[..., Any], Callable[..., Any]]

library: Any = numba  # whose types do not tell all that it has
# Without this error model a division may raise, and no loop becomes vector code.
FAST = {"error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz", "arcp"}}


def part(function: Any) -> Any:
    """Compile a function that kernels call."""
    return library.njit(**FAST)(function)


def kernel(function: Any) -> Kernel:
    """Compile a pass, whose first argument is the number of one of its tasks, for one thread and for several.

    They are kept under names of their own: all else of the two is the same, but for what they call.
    """
    found = []
    before, library.config.CACHE_DIR = library.config.CACHE_DIR, str(folder())
    for many in (False, True):
        names = {"task": part(function), "prange": library.prange, "int64": np.int64}
        tasks = FunctionType(each.__code__, names, function.__name__)
        tasks.__module__, tasks.__qualname__ = function.__module__, f"{function.__name__}_{many}"
        found.append(library.njit(cache=True, nogil=True, parallel=many, **FAST)(tasks))
    library.config.CACHE_DIR = before
    return found[0], found[1]


def each(tasks: int, *arguments: Any) -> None:
    """Do the tasks of a pass."""
    for number in prange(tasks):  # type: ignore[name-defined] # noqa: F821
        task(int64(number), *arguments)  # type: ignore[name-defined] # noqa: F821


@contextmanager
def telling(stream: TextIO | None) -> Iterator[None]:
    """Say meanwhile which kernels are compiled, as that takes seconds; nothing where they are at hand."""
    if stream is None:
        yield
        return
    listener = Teller(stream)
    with event.install_listener("numba:compile", listener):
        yield
    if listener.began:
        print(f" done in {time.perf_counter() - listener.began:.0f} s.", file=stream, flush=True)


class Teller(event.Listener):
    """Prints the names of kernels as their compilation begins, but not of what they are made of."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.depth, self.began = stream, 0, 0.0

    def on_start(self, event: Any) -> None:
        """Print a name."""
        if not self.began:
            self.began = time.perf_counter()
            print("Compiling for this processor, once:", end="", file=self.stream)
        if self.depth == 0:
            print(f" {event.data['dispatcher'].__name__}", end="", file=self.stream, flush=True)
        self.depth += 1

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        """Count."""
        self.depth -= 1


@cache
def folder() -> Path:
    """Choose where compiled code is kept: beside these modules, or in the user's folder where they cannot be written.

    NUMBA_CACHE_DIR overrules it.
    """
    home = Path(__file__).parent
    sources = b"".join(path.read_bytes() for path in sorted(home.glob("fused*.py")))
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "firstlight"
    kept = library.config.CACHE_DIR or (home / "__pycache__" if os.access(home, os.W_OK) else user)
    return Path(kept) / f"fused-{hashlib.sha256(sources).hexdigest()[:12]}"


def concurrent() -> bool:
    """Tell whether several threads are worth it: there are, and not of Numba's own work queue, which is slow to start.

    Which kind there is Numba knows after the first pass in threads.
    """
    if torch.get_num_threads() == 1:
        return False
    try:
        return str(library.threading_layer()) != "workqueue"
    except ValueError:
        return True


def run(kernel: Kernel, *arguments: Any) -> None:
    """Run a pass, given the number of its tasks and its arguments, in as many threads as torch does."""
    if concurrent():
        numba.set_num_threads(min(torch.get_num_threads(), library.config.NUMBA_NUM_THREADS))
        kernel[1](*arguments)
    else:
        kernel[0](*arguments)
