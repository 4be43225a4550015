"""The kernels of a fused step, each written once, for the CPU and for a GPU.

A kernel is a plain function with two loops, over `rows` and over the `columns` of a row, which depend on nothing that
another row writes. On a CPU Numba shares the rows out among threads, and vectorizes the columns; on a GPU a row is a
block, and a column a thread. Images are in ground order, in flat arrays with a margin at both ends, so that a
neighbour can always be read, and is masked where it lies beyond the edge; parameters and their gradients are packed, as
the model has them.

Numba caches what it compiled until this file changes: all that a kernel calls is therefore in this file.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import importlib
import math
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

cuda: Any
try:
    from numba import cuda

    import firstlight_kernels  # without a GPU, it lets the kernels run all the same

    firstlight_kernels.simulate()
except ImportError:
    cuda = None
numba: Any = importlib.import_module("numba")  # its type stubs lack some of what it has

# Without this error model a division may raise, and no loop becomes vector code. With fast math, a kernel of the cache
# rounds in another way than one just compiled, and after hundreds of steps two images differ by a percent.
_STRICT_MATH: dict[str, Any] = {"error_model": "numpy"}
_SOFTPLUS_CUTOFF = 30  # softplus(−30) is 1e-13: below it a pixel is 0, and its gradient too


def _inlined(function: Any) -> Any:
    """Compile a function that kernels call."""
    return numba.njit(forceinline=True, **_STRICT_MATH)(function)


CPU_KERNELS: dict[str, Any] = {}


def _kernel(function: Any) -> Any:
    """Compile a kernel for the CPU, cache it, and list it in `CPU_KERNELS`."""
    CPU_KERNELS[function.__name__] = numba.njit(parallel=True, cache=True, nogil=True, **_STRICT_MATH)(function)
    return CPU_KERNELS[function.__name__]


# These, and `sum_of`, are replaced where a kernel is compiled for a GPU, in `cuda_kernels`.
rows, columns = numba.prange, range


@_inlined
def thread_index():
    """Return the number of the thread that takes a share of a row's columns."""
    return 0


def exp(x):
    """Return the exponential of a number that is not positive."""
    return math.exp(x)


def log(x):
    """Return the logarithm of a positive number."""
    return math.log(x)


def log1p(x):
    """Return ln(1 + x) of a number between 0 and 1."""
    return math.log1p(x)


@_inlined
def row_start(row, n):
    """Return where a row begins in a flat array; its margin keeps FFTs aligned."""
    return (n // 16 + 1) * 16 + row * n


@_inlined
def three_rows(flat, row, n):
    """Return a row and its neighbours to the south and to the north, each a pixel longer at both ends."""
    at = row_start(row, n) - 1
    return flat[at - n : at + 2], flat[at : at + n + 2], flat[at + n : at + 2 * n + 2]


@_inlined
def hann_average(south, here, north, j, first, last, is_lowest, is_highest):
    """Average with (1/4, 1/2, 1/4) along both axes; beyond the first and last column, and the edge rows, is nothing."""
    real = here.dtype.type
    zero = real(0)
    west = (zero if is_lowest else south[j]) + here[j] + here[j] + (zero if is_highest else north[j])
    middle = (zero if is_lowest else south[j + 1]) + here[j + 1] + here[j + 1] + (zero if is_highest else north[j + 1])
    east = (zero if is_lowest else south[j + 2]) + here[j + 2] + here[j + 2] + (zero if is_highest else north[j + 2])
    return ((west if j > first else zero) + middle + middle + (east if j < last else zero)) * real(1 / 16)


@_inlined
def unit_gradient(here, west, north, epsilon):
    """Return the two components of the image's gradient at a pixel divided by its length, and the length."""
    across, up = west - here, north - here
    length = math.sqrt(across * across + up * up + epsilon)
    return across / length, up / length, length


@_inlined
def sum_of(terms, n):
    """Return the sum of a row in float64, as eight sums that need not wait for each other."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(0, n - 7, 8):
        a, b, c, d = a + terms[j], b + terms[j + 1], c + terms[j + 2], d + terms[j + 3]
        e, f, g, h = e + terms[j + 4], f + terms[j + 5], g + terms[j + 6], h + terms[j + 7]
    for j in range(n // 8 * 8, n):
        a += terms[j]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@_kernel
def softplus(parameters, softplus_grad, pixels):
    """Compute softplus of the parameters, and its derivative."""
    n, half, real = parameters.shape[1], parameters.shape[1] // 2, parameters.dtype.type
    for row in rows(len(parameters)):
        at = row_start(row // n * n + (row + half) % n, n)
        for side in range(2):
            packed, ground = side * half, at + (1 - side) * half
            for j in columns(0, half):
                x = parameters[row, packed + j]
                # Numbers below 1e-38 would slow all that is computed with them tens of times.
                decay = exp(-abs(x)) if abs(x) < real(_SOFTPLUS_CUTOFF) else real(0)
                pixels[ground + j] = x if x > real(20) else (x + abs(x)) * real(0.5) + log1p(decay)  # as torch has it
                sigmoid = (real(1) if x > real(0) else decay) / (real(1) + decay)
                softplus_grad[row, packed + j] = real(1) if x > real(20) else sigmoid


@_kernel
def hann_smooth(pixels, softplus_grad, image):
    """Smooth the pixels into the image."""
    n = softplus_grad.shape[1]
    for row in rows(len(softplus_grad)):
        south, here, north = three_rows(pixels, row, n)
        out, is_lowest, is_highest = image[row_start(row, n) : row_start(row, n) + n], row % n == 0, row % n == n - 1
        for j in columns(0, n):
            out[j] = hann_average(south, here, north, j, 0, n - 1, is_lowest, is_highest)


@_kernel
def gridded_chi_squared(starts, cell, data, weight, gain, vis, vis_grad, sums):
    """Compute the gridded χ² and its gradient with respect to the model visibilities."""
    for row in rows(len(sums)):
        total = 0.0
        for k in columns(starts[row], starts[row + 1]):
            residual = vis[cell[k]] - data[k]
            total += weight[k] * (residual.real * residual.real + residual.imag * residual.imag)
            vis_grad[cell[k]] = gain[k] * residual
        sums[row, thread_index(), 0] = total


@_kernel
def subtract_reference(image, reference, delta):
    """Compute δ, the image less the reference, in the sky order that an exact likelihood has."""
    n = delta.shape[1]
    for row in rows(len(reference)):
        east = row_start(row, n) + n - 1
        for j in columns(0, n):
            delta[row // n, row % n, j] = image[np.uintp(east - j)] - reference[row, j]


@_kernel
def exact_chi_squared(delta, dirty, scale, image_grad, sums, convolved):
    """Compute δ·(Tδ − 2R) of an exact likelihood and its gradient 2(Tδ − R), times a scale of the channel."""
    n = delta.shape[1]
    for row in rows(len(image_grad)):
        channel, i, total, twice = row // n, row % n, 0.0, image_grad.dtype.type(2 * scale[row // n])
        for j in columns(0, n):
            half_grad = convolved[channel, i, j] - dirty[row, j]
            total += np.float64(delta[channel, i, j]) * np.float64(half_grad - dirty[row, j])
            image_grad[row, np.uintp(n - 1 - j)] = twice * half_grad
        sums[row, thread_index(), 0] = total * scale[channel]


@_kernel
def regularizers(image, chi2_grad, used, strengths, constants, image_grad, sums):
    """Add the gradients of sparsity, total variation and entropy to that of χ²; sum up the flux, and the last two.

    As no pixel is negative, the flux is the sparsity, too. ``used`` says which of the three the loss has,
    ``strengths`` are their λ in each channel; ``constants`` are the epsilon of the total variation, the prior of the
    entropy, and its least ratio. What is to be summed up replaces ``chi2_grad``: a loop that adds up as it goes
    doesn't become vector code without fast math.
    """
    n, real = chi2_grad.shape[1], image.dtype.type
    for row in rows(len(chi2_grad)):
        south, here, north = three_rows(image, row, n)
        out, terms = image_grad[row_start(row, n) : row_start(row, n) + n], chi2_grad[row]
        is_lowest, is_highest = row % n == 0, row % n == n - 1
        lambda_sparsity, lambda_tv, lambda_entropy = (
            strengths[row // n, 0],
            strengths[row // n, 1],
            strengths[row // n, 2],
        )
        zero, variation, entropy = real(0), 0.0, 0.0
        for j in columns(0, n):
            x = here[j + 1]
            out[j] = terms[j] + lambda_sparsity * real(x > 0)
        flux = sum_of(here[1:], n)
        if used[1]:
            # A pixel has a gradient if there are pixels to its west, where columns come from, and to its north.
            first, last, above = n if is_highest else 1, 0 if is_highest else n - 1, n if is_lowest else 1
            epsilon = constants[0]
            for j in columns(0, n):
                x = here[j + 1]
                across, up, length = unit_gradient(x, here[j], north[j + 1], epsilon)
                from_east = unit_gradient(here[j + 2], x, north[j + 2], epsilon)[0]
                from_south = unit_gradient(south[j + 1], south[j], x, epsilon)[1]
                terms[j] = length if j >= first else zero
                # One expression: a choice in a statement of its own keeps this loop from becoming vector code.
                out[j] += lambda_tv * (
                    (from_east if j < last else zero)
                    - (across + up if j >= first else zero)
                    + (from_south if j >= above else zero)
                )
            variation = sum_of(terms, n)
        if used[2]:
            prior, least = constants[1], constants[2]
            for j in columns(0, n):
                x = here[j + 1]
                ratio = x / prior
                log_ratio = log(max(ratio, least))
                terms[j] = x * log_ratio
                out[j] += lambda_entropy * (log_ratio + (real(1) if ratio >= least else zero))
            entropy = sum_of(terms, n)
        sums[row, thread_index(), 1] = flux
        sums[row, thread_index(), 2], sums[row, thread_index(), 3] = variation, entropy


@_kernel
def chain_rule_to_parameters(image_grad, softplus_grad, gradient):
    """Carry the gradient from the image back to the parameters: smooth it, and multiply it by that of softplus."""
    n, half = softplus_grad.shape[1], softplus_grad.shape[1] // 2
    for row in rows(len(softplus_grad)):
        south, here, north = three_rows(image_grad, row // n * n + (row + half) % n, n)
        is_lowest, is_highest = (row + half) % n == 0, (row + half) % n == n - 1
        for side in range(2):
            packed, ground = side * half, (1 - side) * half
            low, mid, high = (
                south[ground : ground + half + 2],
                here[ground : ground + half + 2],
                north[ground : ground + half + 2],
            )
            out, first, last = gradient[row, packed : packed + half], side - 1, half - 1 if side == 0 else half
            for j in columns(0, half):
                smoothed = hann_average(low, mid, high, j, first, last, is_lowest, is_highest)
                out[j] = smoothed * softplus_grad[row, packed + j]


@_kernel
def adam_update(gradient, exp_avg, exp_avg_sq, step, hyperparameters, parameters):
    """Update the parameters as Adam does; the hyperparameters are β₁, β₂, the learning rate and ε."""
    n, real, one = gradient.shape[1], gradient.dtype.type, gradient.dtype.type(1)
    for row in rows(len(gradient)):
        beta1, beta2, epsilon = real(hyperparameters[0]), real(hyperparameters[1]), real(hyperparameters[3])
        rate = real(hyperparameters[2] / (1 - hyperparameters[0] ** (step[0] + 1)))
        correction = real(1 / math.sqrt(1 - hyperparameters[1] ** (step[0] + 1)))
        for j in columns(0, n):
            g = gradient[row, j]
            m = beta1 * exp_avg[row, j] + (one - beta1) * g
            v = beta2 * exp_avg_sq[row, j] + (one - beta2) * g * g
            exp_avg[row, j] = m
            exp_avg_sq[row, j] = v
            parameters[row, j] -= rate * m / (math.sqrt(v) * correction + epsilon)


# Numba does not vectorize exp, log and log1p. The three below are the functions above, as series that it does.


class _Float(NamedTuple):
    """A floating-point format, and how many terms of a series it needs."""

    real: Any
    unsigned: Any
    signed: Any
    mantissa_bits: int
    exponent_bias: int
    ln2_bits: int  # of a ln 2 that a multiple by an exponent does not round
    exp_terms: int
    artanh_terms: int


_FLOATS: dict[Any, _Float] = {
    numba.float32: _Float(np.float32, np.uint32, np.int32, 23, 127, 9, 8, 8),
    numba.float64: _Float(np.float64, np.uint64, np.int64, 52, 1023, 32, 14, 17),
}


@numba.extending.overload(exp, jit_options=_STRICT_MATH | {"forceinline": True})
def _vectorized_exp(x):
    """2^n e^r, with n an integer and r at most ln 2 / 2: a Taylor series, and n put into the exponent's bits."""
    real, unsigned, signed, mantissa_bits, bias, ln2_bits, terms, _ = _FLOATS[x]
    coefficients = tuple(real(1 / math.factorial(k)) for k in reversed(range(terms)))
    least, octaves, half, zero = real(-0.69 * bias), real(1 / math.log(2)), real(0.5), real(0)
    high = real(round(math.log(2) * 2**ln2_bits) / 2**ln2_bits)
    low, bias, mantissa_bits = real(math.log(2) - high), signed(bias), signed(mantissa_bits)

    def implementation(x):
        x = max(x, least)
        n = np.floor(x * octaves + half)
        r, total = x - n * high - n * low, zero
        for coefficient in coefficients:
            total = total * r + coefficient
        return total * unsigned((signed(n) + bias) << mantissa_bits).view(real)

    return implementation


@numba.extending.overload(log, jit_options=_STRICT_MATH | {"forceinline": True})
def _vectorized_log(x):
    """ln(2^n m) = n ln 2 + ln m, with m between 1/√2 and √2; in float64 as it is, for want of vector code."""
    if x == numba.float64:
        return lambda x: math.log(x)
    one, ln2, bias, mantissa_bits = np.float32(1), np.float32(math.log(2)), np.int32(127), np.int32(23)
    shift = one.view(np.int32) - np.float32(math.sqrt(0.5)).view(np.int32)

    def implementation(x):
        bits = np.float32(x).view(np.int32)
        n = np.int32(np.int32(bits + shift) >> mantissa_bits) - bias
        m = np.int32(bits - np.int32(np.int32(n) << mantissa_bits)).view(np.float32)
        return np.float32(n) * ln2 + _twice_artanh((m - one) / (m + one))

    return implementation


@numba.extending.overload(log1p, jit_options=_STRICT_MATH | {"forceinline": True})
def _vectorized_log1p(x):
    """2 artanh(x / (2 + x)), which does not round 1 + x."""
    two = _FLOATS[x].real(2)
    return lambda x: _twice_artanh(x / (two + x))


def _twice_artanh(s):
    """Return ln((1 + s) / (1 − s)) of a number up to 1/3."""


@numba.extending.overload(_twice_artanh, jit_options=_STRICT_MATH | {"forceinline": True})
def _artanh_series(s):
    """2 s + 2 s³/3 + 2 s⁵/5 and so on."""
    real, terms = _FLOATS[s].real, _FLOATS[s].artanh_terms
    coefficients, zero = tuple(real(2 / (2 * k + 1)) for k in reversed(range(terms))), real(0)

    def implementation(s):
        square, total = s * s, zero
        for coefficient in coefficients:
            total = total * square + coefficient
        return s * total

    return implementation


@cache
def cuda_kernels() -> dict[str, Any]:
    """Return the same kernels for a GPU: a block takes a row, its threads the columns.

    Each is the function above with other meanings for the names that it uses.
    """
    names: dict[str, Any] = globals() | {"exp": math.exp, "log": math.log, "log1p": math.log1p}
    device_functions = {"rows": _rows_of_block, "columns": _columns_of_thread, "thread_index": _thread_in_block}
    device_functions["sum_of"] = _sum_of_thread
    device_functions |= {each.__name__: each.py_func for each in (row_start, three_rows, hann_average, unit_gradient)}
    for name, function in device_functions.items():
        names[name] = cuda.jit(FunctionType(function.__code__, names), device=True)
    return {name: cuda.jit(FunctionType(each.py_func.__code__, names)) for name, each in CPU_KERNELS.items()}


def _rows_of_block(n):
    """Return the rows that are a block's."""
    return range(cuda.blockIdx.x, n, cuda.gridDim.x)


def _columns_of_thread(first, last):
    """Return the columns that are a thread's."""
    return range(first + cuda.threadIdx.x, last, cuda.blockDim.x)


def _sum_of_thread(terms, n):
    """Return the sum over the columns that are a thread's."""
    total = 0.0
    for j in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        total += terms[j]
    return total


def _thread_in_block():
    """Return the number of a thread in its block."""
    return cuda.threadIdx.x
