"""What is the same for kernels of each compiler that is installed."""

import sys
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from new_python import environment, printed_by

from firstlight_kernels import compilers, trace
from firstlight_kernels.compilers import MLIR, NUMBA, NUMBA_CUDA, compiler_of, dtype_of, imported, intrinsic_name

INSTALLED = [each for each in (NUMBA_CUDA, MLIR) if find_spec(each.package)]


@pytest.fixture(params=INSTALLED, ids=lambda each: each.package)
def cuda(request):
    return request.param.cuda


@pytest.fixture
def types(cuda):
    return import_module("numba.types" if cuda.__name__ == "numba.cuda" else "numba_cuda_mlir.types")


def test_a_kernel_knows_its_compiler_and_nothing_else_has_one(cuda):
    kernel, device = cuda.jit(lambda out: None), cuda.jit(device=True)(lambda x: x)
    found = compiler_of(kernel)
    assert found.cuda is cuda
    assert found is compiler_of(device)
    assert found in imported()
    assert (found is MLIR) == (found.typing == "mlir")
    with pytest.raises(TypeError, match="not a kernel"):
        compiler_of(cuda)


def test_the_compiler_that_numba_brings_is_not_numba_cuda(monkeypatch):
    if not compilers._module("numba.cuda"):
        pytest.skip("without Numba")
    monkeypatch.delitem(sys.modules, "numba_cuda", raising=False)
    assert NUMBA in imported()


def test_what_a_kernel_imports_by_name_has_the_name_that_it_has_in_cuda(cuda):
    names = ("grid", "syncthreads", "shared.array", "local.array", "const.array_like", "atomic.add", "atomic.cas")
    for name in names:
        owner, _, part = f"cuda.{name}".rpartition(".")
        value = getattr(cuda if owner == "cuda" else getattr(cuda, owner[5:]), part)
        assert intrinsic_name(value) == name
    for value in (32, None, "numba", (), np, sys, cuda.int32, np.float32):
        assert intrinsic_name(value) is None


def test_types_are_read_in_either_compilers_words(types):
    numbers = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    for name in (*numbers, "float32", "float64", "complex64", "complex128"):
        assert dtype_of(getattr(types, name)) == dtype_of(getattr(np, name)) == np.dtype(name)
    assert dtype_of(types.boolean) == np.bool_
    for none in (types.float32[:], types.void, 7, float, np.zeros(3)):
        assert dtype_of(none) is None


def test_the_type_of_a_record_is_read_too(types):
    record = np.dtype([("a", np.int32), ("b", np.float64)])
    part = "numba.np" if types.__name__ == "numba.types" else "numba_cuda_mlir.numba_cuda.np"
    assert dtype_of(import_module(f"{part}.numpy_support").from_dtype(record)) == record


def test_a_kernel_that_takes_its_names_apart_is_traced(cuda, types):
    shared_array, grid, add, barrier = cuda.shared.array, cuda.grid, cuda.atomic.add, cuda.syncthreads
    float32 = types.float32

    @cuda.jit
    def total(x, out):
        part = shared_array(32, float32)
        thread = cuda.threadIdx.x
        part[thread] = x[grid(1)]
        barrier()
        add(out, 0, part[31 - thread])

    x, out = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    assert not trace(total, 2, 32, x, out).problems
    assert out[0] == x.sum()


@pytest.mark.skipif(not find_spec("numba_cuda_mlir"), reason="without numba-cuda-mlir")
def test_with_the_new_compiler_alone_nothing_else_is_imported():
    code = """
import sys, numpy as np
for name in ("numba", "llvmlite"):
    sys.modules[name] = None
from firstlight_kernels import blocks_for, trace
from numba_cuda_mlir import cuda

@cuda.jit
def fill(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = i

out = np.zeros(40)
print(trace(fill, blocks_for(40, 32), 32, out).problems, out.sum())
"""
    assert printed_by(code, environment()) == "[] 780.0"


def test_our_names_need_no_compiler():
    code = """
import sys
for name in ("numba", "numba_cuda", "numba_cuda_mlir"):
    sys.modules[name] = None
from firstlight_kernels import blocks_for, trace
try:
    trace(print, 1, 1)
except TypeError:
    print(blocks_for(3, 2))
"""
    assert printed_by(code, environment()) == "2"
