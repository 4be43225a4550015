"""The second half of a two-dimensional FFT and what is done with its result, a few columns at a time in the cache.

Some neighbouring columns are copied into a small array, transformed there, met with the data, transformed back and
copied to where they were. The array is of shape (2, rows, WIDTH), flat: real and imaginary parts are apart. A stage
leaves each number where it was, so that frequencies come in the order of `order`; what they meet is ordered alike.
The way back is a forward transform with real and imaginary parts exchanged and the stages in reverse.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math
from typing import Any

import numpy as np

from firstlight.imaging.fused_butterflies import BYTES, butterfly, join, split
from firstlight.imaging.fused_compiler import kernel, part

Array = np.ndarray[Any, np.dtype[Any]]

WIDTH = 16  # columns at once
GAP = 16 * WIDTH  # between and after the two parts, or rows of one push those of the other out of the cache
DEEP = 128  # rows of a block that stays in the nearest cache from here on
FACTORS = (4, 2, 3, 5)


def factors(length: int) -> list[int]:
    """Factorize a length into 4, 2, 3 and 5; none, if it has other factors.

    Examples
    --------
    >>> factors(360), factors(22)
    ([4, 2, 3, 3, 5], [])
    """
    found = []
    for factor in FACTORS:
        while length % factor == 0:
            found.append(factor)
            length //= factor
    return found if length == 1 else []


def stages(length: int) -> Array:
    """List the steps of a transform: how many rows it combines, how far apart they are, and of which rows.

    As soon as a part of the rows stays in the nearest cache, it is transformed to the end before the next.

    Examples
    --------
    >>> stages(6).tolist()
    [[2, 3, 0, 6], [3, 1, 0, 6]]
    """
    found = factors(length)
    apart = length // np.cumprod(found)
    whole = int(np.count_nonzero(np.append(length, apart[:-1]) > DEEP))  # stages of all rows
    size = length // math.prod(found[:whole])
    both = list(zip(found, apart, strict=True))
    first = [(*stage, 0, length) for stage in both[:whole]]
    return np.array(first + [(*stage, at, at + size) for at in range(0, length, size) for stage in both[whole:]])


def order(length: int) -> Array:
    """Tell which frequency each place holds after a transform.

    Examples
    --------
    >>> order(6).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    found = np.zeros(1, np.int64)
    for factor in reversed(factors(length)):
        found = (np.arange(factor)[:, None] + factor * found).reshape(-1)
    return found


def turns(length: int, real: Any) -> Array:
    """Tabulate exp(-2πi k / length): the real parts, and after them the imaginary parts."""
    angle = 2 * np.pi * np.arange(length) / length
    return np.concatenate([np.cos(angle), -np.sin(angle)]).astype(real)


FORTH_2, FORTH_3, FORTH_4, FORTH_5 = (butterfly(factor, after=True) for factor in (2, 3, 4, 5))
BACK_2, BACK_3, BACK_4, BACK_5 = (butterfly(factor, after=False) for factor in (2, 3, 4, 5))


@part
def transform(x, turn, plan):
    """Transform a small array."""
    imaginary = x.size // 2
    for i in range(len(plan)):
        factor, apart, first, last = plan[i]
        step, leap = turn.size // (2 * factor * apart), apart * WIDTH
        for k in range(apart):
            for row in range(first + k, last, factor * apart):
                for at in range(row * WIDTH, (row + 1) * WIDTH, BYTES // x.itemsize):
                    if factor == 4:
                        FORTH_4(x, turn, 0, imaginary, at, leap, k * step)
                    elif factor == 2:
                        FORTH_2(x, turn, 0, imaginary, at, leap, k * step)
                    elif factor == 3:
                        FORTH_3(x, turn, 0, imaginary, at, leap, k * step)
                    else:
                        FORTH_5(x, turn, 0, imaginary, at, leap, k * step)


@part
def restore(x, turn, plan):
    """Undo it, but for the scale."""
    imaginary = x.size // 2
    for i in range(len(plan)):
        factor, apart, first, last = plan[len(plan) - 1 - i]
        step, leap = turn.size // (2 * factor * apart), apart * WIDTH
        for k in range(apart):
            for row in range(first + k, last, factor * apart):
                for at in range(row * WIDTH, (row + 1) * WIDTH, BYTES // x.itemsize):
                    if factor == 4:
                        BACK_4(x, turn, imaginary, 0, at, leap, k * step)
                    elif factor == 2:
                        BACK_2(x, turn, imaginary, 0, at, leap, k * step)
                    elif factor == 3:
                        BACK_3(x, turn, imaginary, 0, at, leap, k * step)
                    else:
                        BACK_5(x, turn, imaginary, 0, at, leap, k * step)


@part
def copy_in(pairs, rows, columns, first, x):
    """Copy some columns of a flat array of pairs into a small array, and zeros into the rows that it has beyond."""
    imaginary, lanes = x.size // 2, BYTES // x.itemsize
    for row in range(rows):
        to, at = row * WIDTH, 2 * (row * columns + first)
        if first + WIDTH <= columns:
            for column in range(0, WIDTH, lanes):
                split(pairs, at + 2 * column, x, to + column, imaginary + to + column)
        else:
            for column in range(WIDTH):
                inside = first + column < columns
                x[to + column] = pairs[at + 2 * column] if inside else 0
                x[imaginary + to + column] = pairs[at + 2 * column + 1] if inside else 0
    x[rows * WIDTH : imaginary] = 0
    x[imaginary + rows * WIDTH :] = 0


@part
def copy_out(x, pairs, rows, columns, first):
    """Copy them back."""
    imaginary, lanes = x.size // 2, BYTES // x.itemsize
    for row in range(rows):
        at, to = row * WIDTH, 2 * (row * columns + first)
        if first + WIDTH <= columns:
            for column in range(0, WIDTH, lanes):
                join(x, at + column, imaginary + at + column, pairs, to + 2 * column)
        else:
            for column in range(columns - first):
                pairs[to + 2 * column] = x[at + column]
                pairs[to + 2 * column + 1] = x[imaginary + at + column]


@kernel
def compare(task, vis, columns, turn, plan, starts, place, data, weight, gain, sums):
    """Put in place of half-transformed visibilities the slope of chi², transformed halfway back; add up chi²."""
    rows, blocks = turn.size // 2, sums.size // len(vis)
    pairs, first = vis[task // blocks], task % blocks * WIDTH
    total, low, high = 0.0, starts[task], starts[task + 1]
    if low == high:
        for row in range(rows):
            at = 2 * (row * columns + first)
            pairs[at : at + 2 * min(WIDTH, columns - first)] = 0
    else:
        x, apart = np.empty(turn.size * WIDTH + GAP, turn.dtype), np.empty((2, high - low), turn.dtype)
        imaginary = x.size // 2
        copy_in(pairs, rows, columns, first, x)
        transform(x, turn, plan)
        for i in range(high - low):
            k = low + i
            re, im = x[place[k]] - data[0, k], x[place[k] + imaginary] - data[1, k]
            total += weight[k] * (re * re + im * im)
            apart[0, i], apart[1, i] = gain[k] * re, gain[k] * im
        x[:] = 0
        for i in range(high - low):
            x[place[low + i]] = apart[0, i]
            x[place[low + i] + imaginary] = apart[1, i]
        restore(x, turn, plan)
        copy_out(x, pairs, rows, columns, first)
    sums[task] = total


@kernel
def convolve(task, vis, rows, columns, turn, plan, response):
    """Multiply what is half transformed by a response, ordered as the frequencies come."""
    blocks = response.shape[1]
    pairs, block = vis[task // blocks], task % blocks
    x = np.empty(turn.size * WIDTH + GAP, turn.dtype)
    imaginary = x.size // 2
    copy_in(pairs, rows, columns, block * WIDTH, x)
    transform(x, turn, plan)
    factor = response[min(task // blocks, len(response) - 1), block]
    for i in range(factor.size):
        x[i] *= factor[i]
        x[imaginary + i] *= factor[i]
    restore(x, turn, plan)
    copy_out(x, pairs, rows, columns, block * WIDTH)
