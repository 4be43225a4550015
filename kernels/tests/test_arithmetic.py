"""A kernel computes what Numba's compiled code computes, on numbers at the edges of their types."""

import math
import re

import numpy as np
import pytest
from compiler import PACKAGE, cuda
from variants import compiled

from firstlight_kernels import blocks_for, lockstep, trace
from firstlight_kernels.findings import TraceError
from firstlight_kernels.launch import bound

numba = pytest.importorskip("numba")

KINDS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64,
         np.bool_)  # fmt: skip


def edges(kind: type) -> np.ndarray:
    """Return numbers at the edges of a type."""
    if kind is np.bool_:
        return np.array([False, True])
    if issubclass(kind, np.floating):
        return np.array([0, -0.0, 1, -2.5, 1 / 3, 7e30, np.inf, np.nan], kind)
    limits = np.iinfo(kind)
    return np.array([0, 1, 2, 5, 77, limits.max // 3, limits.max, max(limits.min, 1 - 2**63)], kind)


ANY_NUMBERS = ("a + b", "a - b", "a * b", "a / b", "a * 3 + 1", "0.1 * b", "-b", "abs(a)", "max(a, b)", "float(a) * b",
               "a**2", "b > a")  # fmt: skip
WHOLE_NUMBERS = ("a // b", "a % b", "a & b", "a ^ b", "(a | 1) << 3", "(a * b) >> 5", "~a", "int(a) - int(b)",
                 "np.uint16(a) * np.int8(b)", "(a * 6364136223846793005 - 7) >> 33")  # fmt: skip
OF_BOOLEANS = ("~a", "a & b", "a | b", "a ^ b", "~a & (b > 0)", "1 if ~(a > 0) else 2", "a / b", "a // b", "a % b",
               "(a > 1) / (b > 1)", "(a > 0) + (b > 0)", "-a", "bool(b)", "max(a, b > 0)")  # fmt: skip
OF_MATH = ("math.sqrt(a)", "np.sqrt(b)", "math.exp(a)", "math.log(b)", "math.atan2(a, b)", "math.erf(a)",
           "math.isnan(a)", "math.fabs(a) + math.pi")  # fmt: skip


def as_numba_has_it(expression: str, first: np.dtype, second: np.dtype) -> str:
    """Return an expression that Numba types as the tests' compiler types this one of a and b."""
    whole = {first.kind, second.kind} <= {*"iu"}
    if PACKAGE == "numba":
        return expression
    if expression == "-b" and second.kind == "u" and second.itemsize < 8:
        return f"np.int64(np.int{8 * second.itemsize}(-b))"  # negated as it is, and widened with a sign
    if expression in ("a & b", "a ^ b") and whole:
        kind = f"{'uint' if first.kind == second.kind == 'u' else 'int'}{8 * max(first.itemsize, second.itemsize)}"
        return f"np.{kind}(a) {expression[2]} np.{kind}(b)"
    if expression.startswith("math.") and whole and first.itemsize < 8:
        return re.sub(r"\b[ab]\b", lambda name: f"np.float32({name[0]})", expression)
    return expression


def expected_and_ours(expressions, x, y, kind):
    """Work out expressions of each two numbers by Numba's compiled code, in a trace, and in lockstep, which agree."""

    def kernel_of(texts, head):
        lines = ["def kernel(x, y, out):", f"    {head}:", "        a, b = x[i // y.size], y[i % y.size]"]
        lines += [f"        out[i, {column}] = {one}" for column, one in enumerate(texts)]
        return compiled("\n".join(lines), globals())

    expected, traced, out = (np.zeros((x.size * y.size, len(expressions)), kind) for _ in range(3))
    of_numba = kernel_of((as_numba_has_it(one, x.dtype, y.dtype) for one in expressions), "for i in range(len(out))")
    numba.njit(error_model="numpy")(of_numba)(x, y, expected)
    kernel, blocks = cuda.jit(kernel_of(expressions, "if (i := cuda.grid(1)) < len(out)")), blocks_for(len(out), 64)
    trace(kernel, blocks, 64, x, y, traced)
    lockstep.run(bound(kernel, blocks, 64, (x, y, out)))
    np.testing.assert_array_equal(out, traced)
    return expected, out


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", [np.int32, np.float32])
def test_operations_are_typed_and_rounded_as_numba_does(first, second) -> None:
    expected, out = expected_and_ours(ANY_NUMBERS, edges(first), edges(second), np.float64)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("second", [np.int8, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("first", [np.uint8, np.uint64])
def test_integers_wrap_and_divide_as_numba_does(first, second) -> None:
    expected, out = expected_and_ours(WHOLE_NUMBERS, edges(first), edges(second), np.int64)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("second", [np.bool_, np.int8, np.uint64])
def test_booleans_are_negated_combined_and_counted_as_numba_does(second) -> None:
    expected, out = expected_and_ours(OF_BOOLEANS, edges(np.bool_), edges(second), np.float64)
    np.testing.assert_array_equal(out, expected)


def test_a_boolean_from_memory_takes_the_branch_that_it_says() -> None:
    @cuda.jit
    def kernel(mask, alone, out):
        i = cuda.grid(1)
        inside = out[i] > 1
        if ~mask[i] and ~inside and alone is True:
            out[i] = 1

    out = np.zeros(4)
    trace(kernel, 1, 4, np.array([1, 0, 1, 0], np.bool_), True, out)
    assert out.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("first", "second"), [(np.float32, np.float32), (np.float32, np.float64), (np.float64, np.float32)]
)
def test_float32_is_rounded_once_and_meets_float64_as_one(first, second) -> None:
    """Also at subnormals, ties, overflow and infinity, bit by bit."""
    singles = np.random.default_rng(1).integers(0, 2**32, 99, np.uint32).view(np.float32)
    singles = singles[~np.isnan(singles)]
    x = np.concatenate([edges(first), singles.astype(first), first([1e-45, -1e-38, 3.4e38, 1 + 2**-23])])
    y = np.concatenate([edges(second), singles[::9].astype(second), second([1e-45, 1e-8, 3.4e38, 2**-24])])
    expected, out = expected_and_ours(("a + b", "a - b", "a * b"), x, y, np.result_type(first, second))
    known = ~np.isnan(expected)
    assert np.array_equal(np.isnan(out), ~known)
    assert out[known].tobytes() == expected[known].tobytes()


@pytest.mark.parametrize("kind", [np.int32, np.float32, np.float64])
def test_functions_keep_float32_and_give_nan_and_infinity(kind) -> None:
    expected, out = expected_and_ours(OF_MATH, edges(kind), edges(kind), np.float64)
    np.testing.assert_allclose(
        out, expected, rtol=1e-14 if kind is np.float64 or (PACKAGE == "numba" and kind is np.int32) else 1e-6
    )


def test_a_number_is_stored_as_the_type_of_the_array() -> None:
    @cuda.jit
    def kernel(x, out):
        out[cuda.grid(1)] = x[cuda.grid(1)]

    out = np.zeros(7, np.int16)
    trace(kernel, 1, 7, np.array([3.99, -3.99, 300, -1, 1e10, -np.inf, np.nan], np.float32), out)
    assert out.tolist() == [3, -3, 300, -1, 32767, -32768, 0]
    for kind in (np.uint8, np.uint32):
        out = np.zeros(3, kind)
        trace(kernel, 1, 3, np.array([300, -1, 2**40 + 1]), out)
        assert out.tolist() == np.array([300, -1, 2**40 + 1]).astype(kind).tolist()


def test_what_a_gpu_lives_through_does_not_stop_the_trace() -> None:
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        out[0] = 1.0 / i
        out[1] = 1 // i
        out[2] = math.sqrt(i - 1)
        out[3] = math.exp(1000)
        out[4] = math.lgamma(i)
        out[5] = i / 0.0
        out[6] = 2 ** (i - 2)
        out[7] = 7 % i
        out[8] = math.gamma(i)

    out = np.zeros(9)
    trace(kernel, 1, 1, out)
    np.testing.assert_array_equal(out, [np.inf, 0, np.nan, np.inf, np.inf, np.nan, 0, 0, np.inf])


def test_a_range_has_a_length_and_what_numba_lacks_is_refused_in_words() -> None:
    @cuda.jit
    def counts(out):
        out[0] = len(range(2, 11, 3))
        for i in range(3):
            out[1] += i / 2

    @cuda.jit
    def backwards(out):
        for i in reversed(range(3)):
            out[0] = i

    out = np.zeros(2)
    trace(counts, 1, 1, out)
    assert out.tolist() == [3, 1.5]
    with pytest.raises(TraceError, match=r"range\(n - 1, -1, -1\)"):
        trace(backwards, 1, 1, out)


def test_complex_and_half_numbers_compare_and_keep_their_precision() -> None:
    @cuda.jit
    def kernel(z, h, out):
        out[0] = z[0] == 1 + 2j
        out[1] = z[0] == z[0].real
        out[2] = (z[0] * z[1].imag).imag
        out[3] = abs(z[1]) / 3
        out[4] = h[0] > 1
        out[5] = h[0] * h[0]
        out[6] = z[0] / 0

    z, h, out = np.array([1 + 2j, 0.1j], np.complex64), np.array([1.1], np.float16), np.zeros(7, np.complex128)
    trace(kernel, 1, 1, z, h, out)
    expected = [1, 0, np.float32(2) * z[1].imag, np.float64(abs(z[1])) / 3, 1, h[0] * h[0]]
    np.testing.assert_array_equal(out[:6], expected)
    assert not np.isfinite(out[6])
