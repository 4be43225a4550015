"""One step of a fit in a few passes over the image, compiled by Numba for the CPU.

The passes work on blocks of rows, and compute the few rows around a block once more: blocks share nothing, and their
sums are added up in order, so that a result does not depend on the number of threads. Images are in ground order here;
parameters, gradients and Adam's averages are packed, as the model has them.

What makes them fast: ``error_model="numpy"``, without which a division may raise and no loop becomes vector code; one
row an inner loop; exp and log as polynomials, as Numba has none for vectors; numbers of the image's own type.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math
from typing import Any

import numpy as np

from firstlight.imaging.fused_compiler import kernel, part
from firstlight.imaging.fused_math import exp, log, log1p

ROWS = 32  # of a block


@part
def softplus_row(parameters, line, bend):
    """Make intensities of a packed row, in ground order, between two zeros; and their slopes, packed."""
    real, half = parameters.dtype.type, parameters.size // 2
    for side in range(2):
        source, target = side * half, (1 - side) * half + 1
        for j in range(half):
            x = parameters[source + j]
            small = exp(-abs(x))
            soft = (x + abs(x)) * real(0.5) + log1p(small)  # max(x, 0) would hide NaN
            line[target + j] = x if x > real(20) else soft  # as torch has it
            inside = (real(1) if x > real(0) else small) / (real(1) + small)
            bend[source + j] = real(1) if x > real(20) else inside


@part
def smooth_row(line, out):
    """Mix (1/4, 1/2, 1/4) along a row that stands between two zeros."""
    real = line.dtype.type
    for j in range(out.size):
        out[j] = line[j + 1] * real(0.5) + (line[j] + line[j + 2]) * real(0.25)


@part
def mix_rows(below, row, above, out):
    """Mix (1/4, 1/2, 1/4) of three rows."""
    real = row.dtype.type
    for j in range(out.size):
        out[j] = row[j] * real(0.5) + (below[j] + above[j]) * real(0.25)


@part
def variation_row(row, above, epsilon, across, up):
    """Add up the lengths of a row's gradient; leave its directions. Columns run west in ground order."""
    real = row.dtype.type
    total = real(0)
    for j in range(1, row.size):
        dx, dy = row[j - 1] - row[j], above[j] - row[j]
        length = math.sqrt(dx * dx + dy * dy + epsilon)
        total += length
        across[j] = dx / length
        up[j] = dy / length
    return total


@part
def slope_row(row, back, sparsity, variation, across, up, up_below, line):
    """Add up what the data, sparsity and total variation say of each intensity of a row."""
    real = row.dtype.type
    for j in range(row.size):
        sign = real(row[j] > 0) - real(row[j] < 0)
        line[j + 1] = back[j] + sparsity * sign + variation * (across[j + 1] - across[j] - up[j] + up_below[j])


@part
def entropy_row(row, prior, least, strength, line):
    """Add up I ln(I / prior), and add its slope to a line."""
    real = row.dtype.type
    total = real(0)
    for j in range(row.size):
        ratio = row[j] / prior
        logarithm = log(max(ratio, least))
        total += row[j] * logarithm
        line[j + 1] += strength * (logarithm + (real(1) if ratio >= least else real(0)))
    return total


@part
def parameter_row(below, row, above, bend, out):
    """Mix three rows of slopes, and carry them from the intensities to the parameters, packed."""
    real, half = row.dtype.type, row.size // 2
    for side in range(2):
        source, target = (1 - side) * half, side * half
        for j in range(half):
            mixed = row[source + j] * real(0.5) + (below[source + j] + above[source + j]) * real(0.25)
            out[target + j] = mixed * bend[target + j]


@part
def adam_row(slope, parameters, mean, square, adam):
    """Make Adam's step."""
    real = parameters.dtype.type
    rate, beta1, beta2, unbias, epsilon = adam[0], adam[1], adam[2], adam[3], adam[4]
    for j in range(slope.size):
        mean[j] += (real(1) - beta1) * (slope[j] - mean[j])
        square[j] = beta2 * square[j] + (real(1) - beta2) * slope[j] * slope[j]
        parameters[j] -= rate * mean[j] / (math.sqrt(square[j]) * unbias + epsilon)


@part
def sum_row(row):
    """Add up a row, and its absolute values."""
    real = row.dtype.type
    total, sizes = real(0), real(0)
    for j in range(row.size):
        total += row[j]
        sizes += abs(row[j])
    return total, sizes


@kernel
def image(task, parameters, out, bend):
    """Make the smoothed image; and the slope of each intensity by its parameter, for the way back."""
    npix = out.shape[1]
    blocks = (npix + ROWS - 1) // ROWS
    channel, first = task // blocks, task % blocks * ROWS
    last = min(first + ROWS, npix)
    line, rows, spare = np.zeros(npix + 2, out.dtype), np.zeros((3, npix), out.dtype), np.empty(npix, out.dtype)
    for i in range(first - 1, last + 1):
        if 0 <= i < npix:
            at = (i + npix // 2) % npix
            softplus_row(parameters[channel, at], line, bend[channel, at] if first <= i < last else spare)
            smooth_row(line, rows[i % 3])
        else:
            rows[i % 3] = 0
        if i > first:
            mix_rows(rows[(i - 2) % 3], rows[(i - 1) % 3], rows[i % 3], out[channel, i - 1])


@kernel
def slope(task, sky, reference, dirty, spread, out, scale, sums):
    """Of an exact likelihood, δ·(Tδ − 2R) of each row, and the slope: 2(Tδ − R) times a scale of the channel."""
    npix = sky.shape[1]
    channel, i = task // npix, task % npix
    twice, total = sky.dtype.type(2 * scale[channel]), 0.0
    for j in range(npix):
        dirt = dirty[channel, i, j]
        half = spread[channel, i, j] - dirt
        total += np.float64(sky[channel, i, j] - reference[channel, i, j]) * np.float64(half - dirt)
        out[channel, i, j] = twice * half
    sums[channel, i] = total


@kernel
def update(task, sky, back, bend, parameters, terms, strengths, rules, gradient, mean, square, adam, sums):
    """Add the regularizers' slopes to the data's, and carry them to the parameters; step, if Adam's numbers are given.

    ``terms`` says which of sparsity, variation and entropy there are, ``strengths`` how much of each in each
    channel; ``rules`` are the softening of the variation, the prior of the entropy, and its least ratio; ``sums`` takes
    the flux and the three.
    """
    npix = sky.shape[1]
    blocks = (npix + ROWS - 1) // ROWS
    channel, first = task // blocks, task % blocks * ROWS
    last = min(first + ROWS, npix)
    real, sparse, varied, ordered = sky.dtype, strengths[channel, 0], strengths[channel, 1], strengths[channel, 2]
    across, up = np.zeros(npix + 1, real), np.zeros((2, npix), real)
    line, rows = np.zeros(npix + 2, real), np.zeros((3, npix), real)
    mine, scratch = sums[task], np.empty(npix, real)
    mine[:] = 0
    for i in range(max(first - 2, 0), last + 1):
        inside, counted = i < npix, first <= i < last
        if terms[1] and i < npix - 1:
            total = variation_row(sky[channel, i], sky[channel, i + 1], rules[0], across, up[i % 2])
            if counted:
                mine[2] += total
        else:
            across[:] = 0
            up[i % 2] = 0
        if inside and i >= first - 1:
            row = sky[channel, i]
            slope_row(row, back[channel, i], sparse, varied, across, up[i % 2], up[(i + 1) % 2], line)
            if terms[2]:
                total = entropy_row(row, rules[1], rules[2], ordered, line)
                if counted:
                    mine[3] += total
            smooth_row(line, rows[i % 3])
            if counted:
                total, sizes = sum_row(row)
                mine[0] += total
                mine[1] += sizes
        elif not inside:
            rows[i % 3] = 0
        if i > first:
            at = (i - 1 + npix // 2) % npix
            values = parameters[channel, at]
            slope = scratch if adam[0] != 0 else gradient[channel, at]
            parameter_row(rows[(i - 2) % 3], rows[(i - 1) % 3], rows[i % 3], bend[channel, at], slope)
            if adam[0] != 0:
                adam_row(slope, values, mean[channel, at], square[channel, at], adam)


def blocks(cube: Any) -> int:
    """Count the blocks of rows of a cube."""
    return int(len(cube) * -(-cube.shape[1] // ROWS))
