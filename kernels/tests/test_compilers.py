"""What is the same for kernels of each compiler that is installed."""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from new_python import environment, printed_by

from firstlight_kernels import ptx, trace
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
    if {NUMBA, NUMBA_CUDA}.isdisjoint(imported()):
        pytest.skip("without Numba")
    monkeypatch.delitem(sys.modules, "numba_cuda", raising=False)
    assert NUMBA in imported()


def test_what_a_kernel_imports_by_name_has_the_name_that_it_has_in_cuda(cuda):
    names = ("grid", "syncthreads", "shared.array", "local.array", "const.array_like", "atomic.add", "atomic.cas")
    for name in names:
        owner, _, part = f"cuda.{name}".rpartition(".")
        value = getattr(cuda if owner == "cuda" else getattr(cuda, owner[5:]), part)
        assert intrinsic_name(value) == name
    for value in (32, None, "numba", (), np, sys, getattr(cuda, "int32", None), np.float32):
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
from firstlight_kernels import blocks_for, ptx, trace
try:
    trace(print, 1, 1)
except TypeError:
    print(blocks_for(3, 2))
"""
    assert printed_by(code, environment()) == "2"


@pytest.mark.skipif(not find_spec("numba_cuda_mlir"), reason="without numba-cuda-mlir")
def test_what_we_work_around_in_numba_cuda_mlir_is_not_mended_yet():
    """If this fails, take `_cached_cc`, or the zero byte, out of ptx.py."""
    code = """
from numba_cuda_mlir import cuda, tools, types

def fill(out):
    out[cuda.grid(1)] = 1

def end_of_text():
    return cuda.compile_ptx(fill, (types.float32[:],), cc=(10, 0))[0][-1]

try:
    print(repr(end_of_text()))
except ImportError as error:  # CudaSupportError
    print("asks for a GPU")
tools._cached_cc = (9, 0)
try:
    print(repr(end_of_text()))
except Exception as error:
    print("no compiler" if "nvrtc" in str(error).lower() else error)
"""
    asks, end = printed_by(code, environment(CUDA_VISIBLE_DEVICES="")).splitlines()
    if end == "no compiler":
        pytest.skip("without NVIDIA's libraries")
    assert (asks, end) == ("asks for a GPU", repr("\0"))


@pytest.mark.slow
@pytest.mark.skipif(len(INSTALLED) < 2, reason="only one compiler is installed")
def test_all_that_is_tested_here_holds_for_the_other_compiler():
    env = environment(KERNELS_COMPILER="numba_cuda_mlir")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_kernel_is_compiled_by_its_own_compiler_with_all_its_options(cuda):
    @cuda.jit(max_registers=24)
    def many(x, out):
        i = cuda.threadIdx.x
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        cuda.syncthreads()
        out[i] = a * b + c * d

    for cc in ((7, 5), (9, 0), (10, 0), (12, 0)):
        compiled = ptx.compile(many, "float64[:], float64[:]", cc)
        assert f".target sm_{cc[0]}{cc[1]}" in compiled.text
        assert compiled.text == ptx.compile(many, "float64[:], float64[:]", cc).text
        assert compiled.registers is None or compiled.registers <= 24
