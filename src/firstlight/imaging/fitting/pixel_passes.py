"""The passes of a step over the pixels, each written once, for the CPU and for a GPU.

A pass is a plain function with two loops, over `rows` and over the `columns` of a row, which depend on nothing that
another row writes. On a CPU Numba shares the rows out among threads, and makes vector instructions of the columns; on a
GPU a row is a block, and a column a thread. Images are in ground order, in flat arrays with a margin at both ends, so
that a neighbour is always there to be read, and is left out where it lies beyond the edge; parameters and gradients are
packed, as the model has them.

Numba keeps what it compiled until this file changes: all that a pass calls is therefore in this file.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import importlib
import math
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

cuda: Any
try:
    from firstlight.kernels import cuda  # before Numba, which decides once whether its CUDA is a simulator
except RuntimeError:  # as it has decided, on a computer without a GPU
    cuda = None
library: Any = importlib.import_module("numba")  # whose types do not tell all that it has

# Without this error model a division may raise, and no loop becomes vector code.
FAST: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz", "arcp"}}


def part(function: Any) -> Any:
    """Compile what passes are made of."""
    return library.njit(forceinline=True, **FAST)(function)


def over_pixels(function: Any) -> Any:
    """Compile a pass, and keep it."""
    return library.njit(parallel=True, cache=True, nogil=True, **FAST)(function)


DARKEST = 30  # below the negative of this, a parameter's softplus is 0, and stays so

# What a pass is made of: on a processor as it is here, on a GPU as `gpu_passes` has it.
rows, columns = library.prange, range


@part
def lane():
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


@part
def start(row, n):
    """Return where a row begins in a flat array; its margin keeps FFTs aligned."""
    return (n // 16 + 1) * 16 + row * n


@part
def around(flat, row, n):
    """Return a row with its neighbours to the south and to the north, each a pixel longer at both ends."""
    at = start(row, n) - 1
    return flat[at - n : at + 2], flat[at : at + n + 2], flat[at + n : at + 2 * n + 2]


@part
def smoothed(south, here, north, j, first, last, lowest, highest):
    """Mix (1/4, 1/2, 1/4) along both axes; the sky is empty beyond the first and the last column, and the edge rows."""
    real = here.dtype.type
    none = real(0)
    west = (none if lowest else south[j]) + here[j] + here[j] + (none if highest else north[j])
    middle = (none if lowest else south[j + 1]) + here[j + 1] + here[j + 1] + (none if highest else north[j + 1])
    east = (none if lowest else south[j + 2]) + here[j + 2] + here[j + 2] + (none if highest else north[j + 2])
    return ((west if j > first else none) + middle + middle + (east if j < last else none)) * real(1 / 16)


@part
def direction(here, west, north, epsilon):
    """Return the gradient at a pixel over its length, and the length."""
    across, up = west - here, north - here
    length = math.sqrt(across * across + up * up + epsilon)
    return across / length, up / length, length


@over_pixels
def brighten(parameters, bend, soft):
    """Make intensities of parameters by softplus, and their slopes."""
    n, half, real = parameters.shape[1], parameters.shape[1] // 2, parameters.dtype.type
    for row in rows(len(parameters)):
        at = start(row // n * n + (row + half) % n, n)
        for side in range(2):
            here, there = side * half, at + (1 - side) * half
            for j in columns(0, half):
                x = parameters[row, here + j]
                # Numbers below 1e-38 would slow all that is computed with them tens of times.
                small = exp(-abs(x)) if abs(x) < real(DARKEST) else real(0)
                soft[there + j] = x if x > real(20) else (x + abs(x)) * real(0.5) + log1p(small)  # as torch has it
                inside = (real(1) if x > real(0) else small) / (real(1) + small)
                bend[row, here + j] = real(1) if x > real(20) else inside


@over_pixels
def smooth(soft, bend, image):
    """Smooth the image."""
    n = bend.shape[1]
    for row in rows(len(bend)):
        south, here, north = around(soft, row, n)
        out, lowest, highest = image[start(row, n) : start(row, n) + n], row % n == 0, row % n == n - 1
        for j in columns(0, n):
            out[j] = smoothed(south, here, north, j, 0, n - 1, lowest, highest)


@over_pixels
def compare(starts, cell, data, weight, gain, vis, pull, sums):
    """Take chi² in cells, and what it pulls the visibilities with."""
    for row in rows(len(sums)):
        total = 0.0
        for k in columns(starts[row], starts[row + 1]):
            residual = vis[cell[k]] - data[k]
            total += weight[k] * (residual.real * residual.real + residual.imag * residual.imag)
            pull[cell[k]] = gain[k] * residual
        sums[row, lane(), 0] = total


@over_pixels
def depart(image, reference, delta):
    """Take δ, an image less a reference, in the sky order that an exact likelihood has."""
    n = delta.shape[1]
    for row in rows(len(reference)):
        east = start(row, n) + n - 1
        for j in columns(0, n):
            delta[row // n, row % n, j] = image[np.uintp(east - j)] - reference[row, j]


@over_pixels
def compare_exactly(delta, dirty, scale, back, sums, spread):
    """Take δ·(Tδ − 2R) of an exact likelihood, and the slope 2(Tδ − R), times a scale of the channel."""
    n = delta.shape[1]
    for row in rows(len(back)):
        channel, i, total, twice = row // n, row % n, 0.0, back.dtype.type(2 * scale[row // n])
        for j in columns(0, n):
            half = spread[channel, i, j] - dirty[row, j]
            total += np.float64(delta[channel, i, j]) * np.float64(half - dirty[row, j])
            back[row, np.uintp(n - 1 - j)] = twice * half
        sums[row, lane(), 0] = total * scale[channel]


@over_pixels
def regularize(image, back, terms, strengths, rules, slope, sums):
    """Add the slopes of sparsity, variation and entropy to those of the data; sum up the flux and the three.

    ``terms`` says which of them there are, ``strengths`` how much of each in each channel; ``rules`` are the softening
    of the variation, the prior of the entropy, and its least ratio.
    """
    n, real = back.shape[1], image.dtype.type
    for row in rows(len(back)):
        south, here, north = around(image, row, n)
        out, lowest, highest = slope[start(row, n) : start(row, n) + n], row % n == 0, row % n == n - 1
        sparse, varied, ordered = strengths[row // n, 0], strengths[row // n, 1], strengths[row // n, 2]
        none, flux, sizes, variation, order = real(0), real(0), real(0), real(0), real(0)
        for j in columns(0, n):
            x = here[j + 1]
            flux += x
            sizes += abs(x)
            out[j] = back[row, j] + sparse * (real(x > 0) - real(x < 0))
        if terms[1]:
            # A pixel has a length if there are one to its west, where columns come from, and one to its north.
            first, last, above = n if highest else 1, 0 if highest else n - 1, n if lowest else 1
            epsilon = rules[0]
            for j in columns(0, n):
                x = here[j + 1]
                across, up, length = direction(x, here[j], north[j + 1], epsilon)
                from_east = direction(here[j + 2], x, north[j + 2], epsilon)[0]
                from_south = direction(south[j + 1], south[j], x, epsilon)[1]
                variation += length if j >= first else none
                # One expression: what is chosen in a statement of its own keeps this loop from becoming vector code.
                out[j] += varied * (
                    (from_east if j < last else none)
                    - (across + up if j >= first else none)
                    + (from_south if j >= above else none)
                )
        if terms[2]:
            prior, least = rules[1], rules[2]
            for j in columns(0, n):
                x = here[j + 1]
                ratio = x / prior
                logarithm = log(max(ratio, least))
                order += x * logarithm
                out[j] += ordered * (logarithm + (real(1) if ratio >= least else none))
        sums[row, lane(), 1], sums[row, lane(), 2] = flux, sizes
        sums[row, lane(), 3], sums[row, lane(), 4] = variation, order


@over_pixels
def descend(slope, bend, gradient):
    """Smooth the slopes, and carry them from the intensities to the parameters."""
    n, half = bend.shape[1], bend.shape[1] // 2
    for row in rows(len(bend)):
        south, here, north = around(slope, row // n * n + (row + half) % n, n)
        lowest, highest = (row + half) % n == 0, (row + half) % n == n - 1
        for side in range(2):
            there, at = side * half, (1 - side) * half
            low, mid, high = south[at : at + half + 2], here[at : at + half + 2], north[at : at + half + 2]
            out, first, last = gradient[row, there : there + half], side - 1, half - 1 if side == 0 else half
            for j in columns(0, half):
                out[j] = smoothed(low, mid, high, j, first, last, lowest, highest) * bend[row, there + j]


@over_pixels
def update(gradient, mean, square, taken, rates, parameters):
    """Take a step of Adam's: ``rates`` are its two decays, the learning rate and ε; ``taken`` counts those before."""
    n, real, one = gradient.shape[1], gradient.dtype.type, gradient.dtype.type(1)
    for row in rows(len(gradient)):
        slow, slower = real(rates[0]), real(rates[1])
        least, rate = real(rates[3]), real(rates[2] / (1 - rates[0] ** (taken[0] + 1)))
        whole = real(1 / math.sqrt(1 - rates[1] ** (taken[0] + 1)))
        for j in columns(0, n):
            g = gradient[row, j]
            m = slow * mean[row, j] + (one - slow) * g
            v = slower * square[row, j] + (one - slower) * g * g
            mean[row, j] = m
            square[row, j] = v
            parameters[row, j] -= rate * m / (math.sqrt(v) * whole + least)


EACH = brighten, smooth, compare, depart, compare_exactly, regularize, descend, update
PASSES = {each.__name__: each for each in EACH}


# Numba makes no vector code of these three. Of each type: its integers, the bits of its mantissa, its bias, the digits
# of ln 2 that a multiple of it leaves room for, and the terms of the series.
KINDS: dict[Any, Any] = {
    library.float32: (np.float32, np.uint32, np.int32, 23, 127, 9, 8, 8),
    library.float64: (np.float64, np.uint64, np.int64, 52, 1023, 32, 14, 17),
}
STRICT: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}, "forceinline": True}


@library.extending.overload(exp, jit_options=STRICT)
def exp_in_vectors(x):
    """2^n e^r, with n an integer and r at most ln 2 / 2: a Taylor series, and n put where an exponent belongs."""
    real, whole, signed, mantissa, bias, digits, terms, _ = KINDS[x]
    coefficients = tuple(real(1 / math.factorial(k)) for k in reversed(range(terms)))
    least, octaves, half, none = real(-0.69 * bias), real(1 / math.log(2)), real(0.5), real(0)
    high = real(round(math.log(2) * 2**digits) / 2**digits)
    low, bias, mantissa = real(math.log(2) - high), signed(bias), signed(mantissa)

    def implementation(x):
        x = max(x, least)
        n = np.floor(x * octaves + half)
        rest, total = x - n * high - n * low, none
        for coefficient in coefficients:
            total = total * rest + coefficient
        return total * whole((signed(n) + bias) << mantissa).view(real)

    return implementation


@library.extending.overload(log, jit_options=STRICT)
def log_in_vectors(x):
    """ln(2^n m) = n ln 2 + ln m, with m between 1/√2 and √2; of float64 as it is, for want of vector code."""
    if x == library.float64:
        return lambda x: math.log(x)
    one, ln2, bias, mantissa = np.float32(1), np.float32(math.log(2)), np.int32(127), np.int32(23)
    shift = one.view(np.int32) - np.float32(math.sqrt(0.5)).view(np.int32)

    def implementation(x):
        bits = np.float32(x).view(np.int32)
        n = np.int32(np.int32(bits + shift) >> mantissa) - bias
        m = np.int32(bits - np.int32(np.int32(n) << mantissa)).view(np.float32)
        return np.float32(n) * ln2 + twice_artanh((m - one) / (m + one))

    return implementation


@library.extending.overload(log1p, jit_options=STRICT)
def log1p_in_vectors(x):
    """2 artanh(x / (2 + x)), which does not round 1 + x."""
    two = KINDS[x][0](2)
    return lambda x: twice_artanh(x / (two + x))


def twice_artanh(s):
    """Return ln((1 + s) / (1 − s)) of a number up to 1/3."""


@library.extending.overload(twice_artanh, jit_options=STRICT)
def twice_artanh_series(s):
    """Sum up 2 s + 2 s³/3 + 2 s⁵/5 and so on."""
    real, terms = KINDS[s][0], KINDS[s][-1]
    coefficients, none = tuple(real(2 / (2 * k + 1)) for k in reversed(range(terms))), real(0)

    def implementation(s):
        square, total = s * s, none
        for coefficient in coefficients:
            total = total * square + coefficient
        return s * total

    return implementation


@cache
def gpu_passes() -> dict[str, Any]:
    """Compile the same functions for a GPU, or for its simulator: a row for a block, columns for its threads."""
    names: dict[str, Any] = globals() | {"exp": math.exp, "log": math.log, "log1p": math.log1p}
    parts = {"rows": blocks_rows, "columns": threads_columns, "lane": thread}
    parts |= {each.__name__: each.py_func for each in (start, around, smoothed, direction)}
    for name, function in parts.items():
        names[name] = cuda.jit(FunctionType(function.__code__, names), device=True)
    return {name: cuda.jit(FunctionType(each.py_func.__code__, names)) for name, each in PASSES.items()}


def blocks_rows(n):
    """Return the rows that are a block's."""
    return range(cuda.blockIdx.x, n, cuda.gridDim.x)


def threads_columns(first, last):
    """Return the columns that are a thread's."""
    return range(first + cuda.threadIdx.x, last, cuda.blockDim.x)


def thread():
    """Return the number of a thread in its block."""
    return cuda.threadIdx.x
