"""A kernel that no GPU can run, and a call that cannot be meant, are refused with the line or the argument."""

import sys

import numpy as np
import pytest
from compiler import PACKAGE, cuda, float32, int32, numba, types
from new_python import environment, printed_by

from firstlight_kernels import ptx
from firstlight_kernels.compilers import NUMBA_CUDA, compiler_of, python_function
from firstlight_kernels.ptx import CompileError, NoCompilerError

ONE = "void(float32[:])"
TWO = "void(float32[:], float32[:])"
AXPY = "void(float32, float32[:], float32[:])"
BIG = np.zeros(100_000, dtype=np.float32)
NOTES = ["a", "list"]


@cuda.jit
def axpy(a, x, y):
    y[0] += a * x[0]


@cuda.jit(device=True)
def adds_text(x):
    return x + "x"


def plain_function(x):
    return x + 1


def refusal(kernel, signature=TWO):
    with pytest.raises(CompileError) as caught:
        ptx.compile(kernel, signature)
    return str(caught.value)


def test_an_error_in_a_device_function_names_that_function():
    @cuda.jit
    def outer(out, a):
        out[0] = adds_text(a[0])

    line = python_function(adds_text).__code__.co_firstlineno + 2
    assert refusal(outer).startswith(f'adds_text, line {line} `return x + "x"`: ')


def _adds_text(out, a):
    out[0] = a[0] + "x"


def _indexes_twice(out, a):
    out[0, 0] = a[0]


def _makes_a_list(out, a):
    out[0] = [1, 2][int32(a[0])]


@pytest.mark.parametrize(
    ("function", "source", "named"),
    [
        (_adds_text, 'out[0] = a[0] + "x"', "add(float32"),
        (_indexes_twice, "out[0, 0] = a[0]", "array(float32, 1d, A)"),
        (_makes_a_list, "out[0] = [1, 2][int32(a[0])]", "list"),
    ],
)
def test_the_reason_is_one_sentence_with_the_line_before_it(function, source, named):
    message = refusal(cuda.jit(function))
    line = function.__code__.co_firstlineno + 1
    assert message.startswith(f"{function.__name__}, line {line} `{source}")
    assert named in message
    assert "\n" not in message


class Box:
    side = 1


HELD = Box()
on_cpu = numba.njit(lambda x: x) if numba else 7


def _reads_big(out, a):
    out[0] = a[0] + BIG[0]


def _reads_list(out, a):
    out[0] = a[0] + len(NOTES)


def _reads_object(out, a):
    out[0] = a[0] + HELD.side


def _calls_plain(out, a):
    out[0] = plain_function(a[0])


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (_reads_big, "BIG is an array of 400000 bytes"),
        (_reads_list, "NOTES is of type list"),
        (_reads_object, "HELD is of type Box"),
        (_calls_plain, "plain_function"),
    ],
)
def test_a_global_that_no_kernel_can_use_is_named_with_its_line(function, says):
    message = refusal(cuda.jit(function))
    assert message.startswith(f"{function.__name__}, line {function.__code__.co_firstlineno + 1} `out[0] = ")
    assert says in message


def _draws(out, a):
    out[0] = a[0] + np.random.rand()  # noqa: NPY002


def _allocates(out, a):
    out[0] = a[0] + np.zeros(3)[0]


def _tries(out, a):
    try:
        out[0] = a[0]
    except Exception:
        out[0] = 2


@pytest.mark.parametrize("function", [_draws, _allocates, _tries])
def test_a_line_that_is_named_is_one_of_the_kernel(function):
    line = int(refusal(cuda.jit(function)).split("line ")[1].split()[0])
    assert 0 < line - function.__code__.co_firstlineno < 5


@pytest.mark.skipif(not numba or PACKAGE == "numba", reason="with both compilers, in kernels of numba-cuda-mlir")
def test_a_function_of_another_compiler_is_named():
    for name, of_another in (("numba-cuda", NUMBA_CUDA.cuda.jit(device=True)(plain_function)), ("Numba", on_cpu)):
        assert f"of_another is compiled by {name}" in refusal(cuda.jit(_calling(of_another)))


def _calling(of_another):
    def kernel(out, a):
        out[0] = of_another(a[0])

    return kernel


# -- Mistakes in the call ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (plain_function, "@cuda.jit above plain_function"),
        (on_cpu, "not a kernel"),
        (None, "None"),
        (adds_text, "adds_text is a device function"),
    ],
)
def test_what_is_no_kernel_is_refused(kernel, says):
    with pytest.raises(TypeError, match=says):
        ptx.compile(kernel, ONE)


@pytest.mark.parametrize(
    ("signature", "says"),
    [
        ("void(float31[:])", "float31"),
        ("void(float32[:]", "SyntaxError"),
        ("", "signature"),
        ("float32(float32[:])", "signature"),
        ("void(7)", "signature"),
        ("float32[:], float32[:]", "axpy.* 3 .* 2"),
        ("void()", "axpy.* 3 .* 0"),
    ],
)
def test_a_signature_that_does_not_fit_is_refused(signature, says):
    with pytest.raises(ValueError, match=says):
        ptx.compile(axpy, signature)


@pytest.mark.parametrize("cc", [(6, 1), (9, 9), (99, 0)])
def test_a_capability_that_cuda_does_not_know_is_refused_with_those_it_knows(cc):
    with pytest.raises(ValueError, match=r"\(7, 5\), .*\(9, 0\)"):
        ptx.compile(axpy, AXPY, cc)


@pytest.mark.parametrize(("signature", "cc"), [(types.void(float32[:]), (9, 0)), (ONE, 9.0), (ONE, "90")])
def test_what_is_written_in_another_way_is_a_type_error(signature, cc):
    with pytest.raises(TypeError):
        ptx.compile(axpy, signature, cc)


# -- Where there is no compiler ----------------------------------------------------------


@pytest.mark.parametrize(("platform", "named"), [("linux", "numba-cuda"), ("darwin", "macOS")])
def test_without_cudas_packages_it_says_what_to_install(monkeypatch, platform, named):
    monkeypatch.setitem(sys.modules, f"{compiler_of(axpy).part('cudadrv').__name__}.nvvm", None)
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(NoCompilerError, match=named):
        ptx.compile(axpy, AXPY)


def test_a_compiler_that_goes_round_in_a_circle_still_names_the_line():
    code = """
import numba
import numpy as np
from numba import cuda
from firstlight_kernels import ptx
numba.njit(lambda: np.random.random())()
exec("@cuda.jit\\ndef noise(out):\\n    out[0] = np.random.random()\\n")
try:
    ptx.compile(noise, "float32[:]")
except ptx.CompileError as error:
    print(error)
"""
    pytest.importorskip("numba_cuda")
    said = printed_by(code, environment())
    assert "noise, line 3" in said
    assert "recursion" not in said
