"""What Python runs and no compiler takes in a kernel is told by its line; and the compiler is asked for the rest."""

import random  # noqa: F401 -- a kernel's
from collections import namedtuple
from importlib import import_module

import numpy as np
import pytest
from compiler import PACKAGE, cuda, float32, in_compilers_only
from variants import compiled

from firstlight_kernels import LaunchError, ptx, trace
from firstlight_kernels.launch import launch
from firstlight_kernels.ptx import CompileError
from firstlight_kernels.tracing import TraceError

SIZE, SHAPE = 4, (4, 2)
OF_NUMBA = PACKAGE == "numba"
ALIGNED = "alignment" if OF_NUMBA else "alignas"


def plain(value):
    return value + 1


def kernel_of(body: str):
    """Return a kernel of a few lines, with an array and a number as arguments."""
    lines = "".join(f"    {line}\n" for line in body.split("; "))
    return cuda.jit(compiled(f"def kernel(x, n):\n    i = cuda.grid(1)\n{lines}", globals()))


NO_COMPILER_TAKES = {
    "a = cuda.local.array(n, float32)": "shape n",
    "a = cuda.local.array((2, n), float32)": "shape",
    "a = cuda.local.array(x.shape[0], float32)": "shape",
    "a = cuda.shared.array(shape=cuda.blockDim.x, dtype=float32)": "blockDim",
    "m = x.size; a = cuda.shared.array(m, float32)": "shape m",
    "a = cuda.local.array(SIZE + 1, float32)": "SIZE",
    "a = [1, n]; x[i] = a[0]": "a list",
    "a = {1: n}; x[i] = a[1]": "a dict",
    "a = {1, n}; x[i] = n in a": "a set",
    "x[i] = sum(j for j in range(n))": "a generator",
    "x[i] = max(sorted((n, 1)))": "sorted",
    "x[i] = any((n, 1))": "any",
    "import math; x[i] = math.pi": "an import",
    "x[i] = len(f'{n}')": "an f-string",
    "global SIZE; SIZE = n": "a global name",
    "try:;     x[i] = n; except ValueError:;     x[i] = 1": "try",
    "x[i] = np.zeros(3)[0]": "np.zeros",
    "x[i] = np.array((n, 1))[0]": "np.array",
    "x[i] = random.random()": "xoroshiro128p",
    "x[i] = np.random.rand()": "xoroshiro128p",
    "x[i] = plain(n)": "@cuda.jit(device=True)",
    "return n": "returns nothing",
    "inside = i in (0, 1); x[i] = ~inside": "`not`",
    "cuda.atomic.add(x.view(np.uint8), 0, 1)": "of uint8",
    "cuda.atomic.max(x.view(np.int8), 0, 1)": "of int8",
    "cuda.atomic.inc(x.view(np.int32), 0, 1)": "of int32",
    "a = cuda.shared.array(4, float32, aligned=8)": "aligned",
}


@pytest.mark.parametrize("body", NO_COMPILER_TAKES)
def test_what_no_compiler_takes_is_refused_with_its_line(body) -> None:
    if PACKAGE != "numba" and "shared" in body and "0" not in body:
        pytest.skip("numba-cuda-mlir makes it the launch's shared memory")
    with pytest.raises(TraceError, match=r"line [2-9]") as found:
        trace(kernel_of(body), 1, 1, np.zeros(8, np.float32), 3)
    assert NO_COMPILER_TAKES[body] in str(found.value)


COMPILERS_TAKE = (
    "a = cuda.local.array(4 * 2, float32); a[0] = n; x[i] = a[0]",
    "m = SIZE; a = cuda.local.array((m, 2), float32); a[0, 0] = n; x[i] = a[0, 0]",
    "m, k = SHAPE; a = cuda.local.array(m, float32); a[0] = n; x[i] = a[0]",
    f"a = cuda.shared.array(SHAPE[0], float32, {ALIGNED}=16); a[0] = n; x[i] = a[0]",
    "a = cuda.local.array(x.ndim, float32); a[0] = n; x[i] = a[0]",
    "x[i] = of_length(2)",
    "for j in [1, 2]:;     x[i] += j",
    "f = lambda v: v + 1; x[i] = f(n)",
    "inside = not n; x[i] = inside; x[i] += ~n",
    "x[i] = sum((n, 1))",
    "x[i] = TABLES[1][i]",
)
TABLES = (np.ones(2), np.arange(3.0))


@cuda.jit(device=True)
def of_length(length):
    a = cuda.local.array(length, float32)
    a[0] = 1
    return a[0]


@pytest.mark.parametrize("body", COMPILERS_TAKE)
def test_what_compilers_take_is_not_refused(body) -> None:
    kernel = kernel_of(body)
    assert trace(kernel, 1, 1, np.zeros(8, np.float32), 3).problems == []


@pytest.mark.slow
@pytest.mark.parametrize("body", [*NO_COMPILER_TAKES, *COMPILERS_TAKE])
def test_the_compiler_agrees(body) -> None:
    try:
        ptx.compile(kernel_of(body), "float32[:], int64")
    except CompileError:
        assert body in NO_COMPILER_TAKES or not OF_NUMBA  # whose successor breaks on some
    else:
        only_here = "~inside" in body or ("shared.array" in body and not OF_NUMBA)
        assert body in COMPILERS_TAKE or only_here


@pytest.mark.filterwarnings("ignore")  # Numba finds fault with this module of its own
def test_random_numbers_are_those_of_the_compiler_that_has_some() -> None:
    module = import_module(f"{PACKAGE}.cuda.random")

    @cuda.jit
    def draws(states, out):
        i = cuda.grid(1)
        out[i] = cuda.random.xoroshiro128p_uniform_float64(states, i)

    states = np.zeros(4, [("s0", np.uint64), ("s1", np.uint64)])
    states["s0"], states["s1"] = [[1], [2]]
    if not OF_NUMBA:
        with pytest.raises(TraceError, match="random"):
            trace(draws, 1, 4, states, np.zeros(4))
        return
    expected = [module.xoroshiro128p_uniform_float64(states.copy(), i) for i in range(4)]
    for run in (trace, lambda *given: launch(*given[:3], given[3:])):
        out = np.zeros(4)
        run(draws, 1, 4, states.copy(), out)
        assert out.tolist() == expected


def declared(x):
    """Only a compiler knows it."""


def done_otherwise(x):
    return x


@in_compilers_only
def test_what_has_no_body_is_refused_before_it_gives_none() -> None:
    extern = cuda.declare_device("of_a_library", "float32(float32)")
    libdevice = import_module(f"{PACKAGE}.cuda.libdevice" if OF_NUMBA else f"{PACKAGE}.numba_cuda.libdevice")
    extending = import_module(f"{PACKAGE}.cuda.extending" if OF_NUMBA else f"{PACKAGE}.extending")
    more = {} if OF_NUMBA else {"typing_registry": extending.typing_registry}
    for function in (declared, done_otherwise):
        extending.overload(function, **more)(lambda x: lambda x: x + 1)

    @cuda.jit
    def of_a_library(x):
        x[0] = extern(x[1])

    @cuda.jit
    def overloaded(x):
        x[0] = declared(x[1])

    @cuda.jit
    def with_a_body(x):
        x[0] = done_otherwise(x[1])

    @cuda.jit
    def of_the_compiler(x):
        x[0] = libdevice.sinf(x[1])

    for kernel, name in (
        (of_a_library, "of_a_library"),
        (overloaded, "declared"),
        (with_a_body, "done_otherwise"),
        (of_the_compiler, "sinf"),
    ):
        x = np.ones(3, np.float32)
        with pytest.raises(TraceError, match=rf"{name} .*only a GPU"):
            trace(kernel, 1, 1, x)
        with pytest.raises(LaunchError, match=rf"{name} .*only a GPU"):
            launch(kernel, 1, 1, [x])
        assert x[0] == 1


def test_what_numba_cuda_mlir_takes_is_only_not_simulated() -> None:
    for body in ("a = [1, n]; x[i] = a[0]", "x[i] = sum(j for j in range(n))", "x[i] = np.zeros(3)[0]"):
        with pytest.raises(TraceError, match="not simulated"):
            trace(kernel_of(body), 1, 1, np.zeros(8, np.float32), 3)
    if not OF_NUMBA:
        consteval = import_module(f"{PACKAGE}.cuda.experimental").consteval

        @cuda.jit(experimental_ast_transforms=True)
        def loop(x):
            for i in consteval(range(2)):
                x[i] = i

        @cuda.jit(experimental_ast_transforms=True)
        def block(x):
            with consteval():
                i = 2
            x[0] = i

        for kernel in (loop, block):
            with pytest.raises(TraceError, match=r"not simulated.*line \d"):
                trace(kernel, 1, 1, np.zeros(8))


def test_a_global_tuple_of_arrays_is_traced() -> None:
    t = trace(kernel_of("x[i] = TABLES[1][i + 3]"), 1, 1, np.zeros(8), 3)
    assert [(found.array, found.index) for found in t.out_of_bounds] == [("TABLES[1]", (3,))]


def test_a_clean_trace_says_that_nobody_asked_the_compiler() -> None:
    assert ".compile()" in str(trace(kernel_of("x[i] = n"), 1, 1, np.zeros(8), 3))
    assert ".compile()" not in str(trace(kernel_of("x[i] = n"), 1, 9, np.zeros(8), 3))


def test_the_compiler_is_asked_with_the_types_that_were_traced() -> None:
    @cuda.jit
    def kernel(xs, f, flag, n):
        if flag:
            f[n, 0] = xs[0][n] + xs[1][1, n]

    arrays = (np.ones(4, np.float32), np.ones((4, 8), np.int16)[:, ::2])
    made = trace(kernel, 1, 1, arrays, np.zeros((4, 4), order="F"), np.True_, np.int32(1)).compile(cc=(8, 0))
    assert "sm_80" in made.text
    with pytest.raises(CompileError, match="line 3"):
        trace(kernel_of("x[i] = float(n > 2)"), 1, 1, np.zeros(8), 3).compile()


def test_types_that_no_string_says_are_compiled_too() -> None:
    pair = namedtuple("Pair", "a b")(1, (2, cuda.to_device(np.zeros(2))))
    for argument in (pair, np.zeros(2, [("a", np.int32)])):
        assert trace(kernel_of("i = 0"), 1, 1, argument, 3).compile().text
