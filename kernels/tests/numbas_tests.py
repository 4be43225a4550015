# ruff: noqa: E402 -- numba.cuda looks at the environment when it is imported
"""Play every launch that numba-cuda's own tests make in the simulator through a trace, and compare the results.

Prints the kernels by their verdict, as JSON; what is not equal, with its reason, on stderr.
"""

import collections
import importlib
import io
import json
import os
import pkgutil
import sys
import unittest
import warnings
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import MagicMock

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # before numba.cuda is imported: its tests look at it
importlib.import_module("numba.cuda")
import numpy as np
from numba.core.sigutils import normalize_signature

from firstlight_kernels import trace
from firstlight_kernels.arithmetic import convert
from firstlight_kernels.compilers import dtype_of
from firstlight_kernels.findings import TraceError

_MOST_THREADS = 1024  # of a launch that is played
PARTS = ("doc_examples", "cudapy", "cudasim")


def copied(value):
    """Return an argument of a launch as a trace takes it: an array of its own, with the same layout."""
    if hasattr(value, "copy_to_host"):
        value = value.__array__()
    if isinstance(value, np.ndarray) and value.ndim and not value.flags.forc:
        whole = np.zeros(value.shape, value.dtype)
        whole[...] = value
        return whole
    return value.copy(order="A") if isinstance(value, np.ndarray) else value


def equal(ours, theirs) -> bool:
    if not isinstance(ours, np.ndarray):
        return True
    if ours.dtype.names:
        return all(equal(ours[name], theirs[name]) for name in ours.dtype.names)
    if ours.dtype.kind in "fc":
        return np.allclose(ours, theirs, rtol=1e-5, equal_nan=True)
    return np.array_equal(ours, theirs)


class Player:
    """Plays each launch through a trace beside the simulator, and keeps what came of each kernel."""

    def __init__(self) -> None:
        self.verdicts = collections.defaultdict(collections.Counter)
        self.reasons = {}

    def beside(self, simulator):
        def call(kernel, *arguments):
            from numba.cuda.simulator.kernel import _kernel_context, normalize_kernel_dimensions

            if kernel._device or _kernel_context:  # called by a kernel
                return simulator(kernel, *arguments)
            blocks, threads = normalize_kernel_dimensions(kernel.grid_dim, kernel.block_dim)
            if not 0 < np.prod(blocks) * np.prod(threads) <= _MOST_THREADS:
                return simulator(kernel, *arguments)
            key, ours = kernel.fn.__code__, [copied(each) for each in arguments]
            kinds = map(dtype_of, vars(kernel).get("types", [None] * len(ours)))
            ours = [value if kind is None else convert(value, kind) for value, kind in zip(ours, kinds, strict=True)]
            own = [each.__array__() if hasattr(each, "copy_to_host") else each for each in arguments]
            try:
                result = simulator(kernel, *arguments)
            except BaseException as error:
                self.note(key, "raised in the simulator", repr(error))
                raise
            try:
                trace(_Kernel(kernel), blocks, threads, *ours, limit=100_000, shared_bytes=kernel.dynshared_size)
            except TraceError as error:
                self.note(key, "refused", error)
            except Exception as error:
                self.note(key, "failed", error)
            else:
                pairs = list(zip(ours, own, strict=True))
                same = all(equal(mine, theirs) for mine, theirs in pairs)
                self.note(key, "equal" if same else "other", None if same else pairs)
            return result

        return call

    def note(self, key, verdict, reason=None) -> None:
        name = f"{key.co_filename.rpartition('numba_cuda/')[2]}:{key.co_firstlineno} {key.co_name}"
        self.verdicts[name][verdict] += 1
        self.reasons.setdefault((name, verdict), reason)

    def kernels(self) -> dict[str, list[str]]:
        """Return the kernels by their worst verdict."""
        order = ("failed", "other", "refused", "raised in the simulator", "equal")
        found = collections.defaultdict(list)
        for name, counts in self.verdicts.items():
            found[next(verdict for verdict in order if counts[verdict])].append(name)
        return found


class CUDADispatcher:
    """What a trace takes for a kernel."""

    def __init__(self, kernel) -> None:
        self.py_func, self.__name__ = kernel.fn, kernel.fn.__name__


_Kernel = CUDADispatcher


def keeping_signatures(jit):
    """Return what makes kernels that know the types of their signature, which the simulator forgets."""

    def with_types(given=None, *more, **options):
        made = jit(given, *more, **options)
        if not isinstance(given, str):
            return made

        def decorated(function):
            kernel = made(function)
            kernel.types = normalize_signature(given)[0]
            return kernel

        return decorated

    return with_types


def play(parts) -> Player:
    """Run numba-cuda's tests in the simulator, with a player beside it."""
    from numba.cuda.simulator import kernel as simulator

    warnings.simplefilter("ignore")
    for name in ("filecheck", *(f"filecheck.{part}" for part in ("matcher", "options", "parser", "finput"))):
        sys.modules.setdefault(name, MagicMock())  # numba-cuda's tests import it, for tests of the compiler
    sys.modules["numba.cuda"].jit = keeping_signatures(sys.modules["numba.cuda"].jit)
    player, original = Player(), simulator.FakeCUDAKernel.__call__
    simulator.FakeCUDAKernel.__call__ = lambda kernel, *arguments: player.beside(original)(kernel, *arguments)
    try:
        for part in parts:
            package = importlib.import_module(f"numba.cuda.tests.{part}")
            for module in pkgutil.iter_modules(package.__path__):
                print(module.name, sum(map(len, player.kernels().values())), file=sys.stderr, flush=True)
                with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
                    try:
                        tests = unittest.defaultTestLoader.loadTestsFromName(f"{package.__name__}.{module.name}")
                        unittest.TextTestRunner(stream=io.StringIO()).run(tests)
                    except BaseException as skipped:  # pytest's own is no Exception
                        if isinstance(skipped, KeyboardInterrupt):
                            raise
    finally:
        simulator.FakeCUDAKernel.__call__ = original
    return player


if __name__ == "__main__":
    played = play(sys.argv[1:] or PARTS)
    kernels = played.kernels()
    for verdict, names in kernels.items():
        for name in names if verdict != "equal" else ():
            print(f"{verdict}: {name}: {' '.join(str(played.reasons[name, verdict]).split())[:300]}", file=sys.stderr)
    print(json.dumps(kernels))
