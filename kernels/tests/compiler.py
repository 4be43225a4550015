"""The compiler of the tests' kernels: numba-cuda if it is there, or the package that KERNELS_COMPILER names."""

import os
from importlib import import_module
from importlib.util import find_spec

import pytest

PACKAGE = os.environ.get("KERNELS_COMPILER") or ("numba" if find_spec("numba") else "numba_cuda_mlir")
in_compilers_only = pytest.mark.skipif(
    PACKAGE == "numba" and not find_spec("numba_cuda"), reason="Numba's own cuda has no such thing"
)
numba = import_module("numba") if find_spec("numba") else None
cuda = import_module(f"{PACKAGE}.cuda")
types = import_module(f"{PACKAGE}.types")
float32, float64, int32, int64 = (getattr(types, name) for name in ("float32", "float64", "int32", "int64"))
