"""Puzzles in which each thread works for itself: it finds its element, and fetches no more than it needs."""

from __future__ import annotations

import numpy as np
from numpy import ndarray as Array

from firstlight.kernels.puzzles.puzzle import Puzzle
from firstlight.kernels.puzzles.rules import ANY, Launch, by_a_thread, in_all, sectors

START = -77.0  # what outputs hold before the launch: += shows, and so does an element that nobody writes


def noise(rng: np.random.Generator, *shape: int) -> Array:
    """Make inputs of both signs that are not symmetric about zero."""
    return rng.normal(0.5, 2, shape).astype(np.float32)


def fresh(*shape: int) -> Array:
    """Make an output."""
    return np.full(shape, START, np.float32)


def _square(x: Array, out: Array) -> None:
    out[:] = x**2


MAP = Puzzle(
    name="map",
    task="Square every element. There are exactly as many threads as elements.",
    spec=_square,
    inputs=lambda rng, n: (noise(rng, n), fresh(n)),
    launches=(Launch((8,), 1, 8), Launch((1,), 1, 1), Launch((64,), 2, 32), Launch((35,), 5, 7)),
    constraint="a thread reads global memory once: what it needs twice, it keeps in a variable",
    rules=(by_a_thread(1),),
    stub="""
@cuda.jit
def square(x, out):
    i = cuda.grid(1)
    ...
""",
)


def _calibrate(x: Array, gain: float, n: int, out: Array) -> None:
    out[:n] = gain * x[:n]


GUARD = Puzzle(
    name="guard",
    task="Multiply the first n elements by the gain. Both arrays are longer than n: what comes after it belongs to "
    "somebody else. There may be more threads than elements.",
    spec=_calibrate,
    inputs=lambda rng, n: (noise(rng, n + 40), 1.5, n, fresh(n + 40)),
    launches=(Launch((5,), 1, 8), Launch((0,), 1, 8), Launch((1,), 1, 32), Launch((37,), 2, 32), Launch((64,), 2, 32)),
    constraint="a thread with no element of its own touches no memory, not even to read",
    rules=(in_all(lambda launch: launch.sizes[0]), by_a_thread(1)),
    stub="""
@cuda.jit
def calibrate(x, gain, n, out):
    i = cuda.grid(1)
    ...
""",
)


def _rotate(re: Array, im: Array, c: float, s: float) -> None:
    re[:], im[:] = c * re - s * im, s * re + c * im


ZIP = Puzzle(
    name="zip",
    task="Turn the phase of complex numbers whose real and imaginary parts lie in two arrays. Leave the result in the "
    "same arrays.",
    spec=_rotate,
    inputs=lambda rng, n: (noise(rng, n), noise(rng, n), 0.6, 0.8),
    launches=(Launch((5,), 1, 8), Launch((1,), 1, 32), Launch((37,), 2, 32), Launch((70,), 5, 16)),
    constraint="a thread reads twice and writes twice: in place, the order matters",
    rules=(by_a_thread(2), by_a_thread(4, kinds=ANY)),
    stub="""
@cuda.jit
def rotate(re, im, c, s):
    i = cuda.grid(1)
    ...
""",
)


def _positive(image: Array, out: Array) -> None:
    out[:] = np.maximum(image, 0)


IMAGE = Puzzle(
    name="image",
    task="Replace the negative pixels of an image by zero. The threads have two axes, x and y; the image has rows and "
    "columns, need not be square, and is smaller than the grid.",
    spec=_positive,
    inputs=lambda rng, *shape: (noise(rng, *shape), fresh(*shape)),
    launches=(
        Launch((3, 7), (1, 2), (8, 4)),
        Launch((7, 3), (1, 2), (8, 4)),
        Launch((1, 1), (1, 1), (8, 4)),
        Launch((3, 35), (2, 9), (32, 4)),
        Launch((34, 5), (2, 9), (32, 4)),
    ),
    constraint="the threads of a warp lie along a row: at most 5 sectors an access (4, and 1 where a row begins askew)",
    rules=(sectors(5), by_a_thread(1)),
    stub="""
@cuda.jit
def positive(image, out):
    x, y = cuda.grid(2)
    ...
""",
)


def _baseline(u: Array, v: Array, out: Array) -> None:
    out[:] = u[None, :] ** 2 + v[:, None] ** 2


BROADCAST = Puzzle(
    name="broadcast",
    task="From the coordinates of columns, u, and of rows, v, calculate the squared distance from the centre at every "
    "cell of a grid.",
    spec=_baseline,
    inputs=lambda rng, rows, columns: (noise(rng, columns), noise(rng, rows), fresh(rows, columns)),
    launches=(
        Launch((3, 7), (1, 2), (8, 4)),
        Launch((7, 3), (1, 2), (8, 4)),
        Launch((1, 1), (1, 1), (8, 4)),
        Launch((5, 35), (2, 9), (32, 4)),
        Launch((34, 5), (2, 9), (32, 4)),
    ),
    constraint="a thread reads twice, and the threads of a warp lie along a row",
    rules=(by_a_thread(2), sectors(5)),
    stub="""
@cuda.jit
def distance(u, v, out):
    x, y = cuda.grid(2)
    ...
""",
)


def _attenuate(tau: Array, out: Array) -> None:
    out[:] = 1 - tau / 2


STRIDE = Puzzle(
    name="stride",
    task="Calculate 1 - tau / 2 for every element. The grid does not grow with the array: there may be far fewer "
    "threads than elements.",
    spec=_attenuate,
    inputs=lambda rng, n: (noise(rng, n), fresh(n)),
    launches=(Launch((21,), 2, 4), Launch((1,), 2, 32), Launch((64,), 2, 32), Launch((203,), 2, 32)),
    constraint="the work is shared evenly, and neighbouring threads take neighbouring elements (4 sectors a read)",
    rules=(by_a_thread(lambda launch: -(-launch.sizes[0] // launch.in_all)), sectors(4)),
    stub="""
@cuda.jit
def attenuate(tau, out):
    first = cuda.grid(1)
    all_threads = cuda.gridsize(1)
    ...
""",
)


def _smooth(x: Array, out: Array) -> None:
    padded = np.pad(x, 1, mode="edge")
    out[:] = (padded[:-2] + padded[1:-1] + padded[2:]) / 3


NEIGHBOURS = Puzzle(
    name="neighbours",
    task="Replace each element by the mean of itself and its two neighbours. At the ends, the element stands in for "
    "the neighbour that is missing. Beware of index -1: it is the last element.",
    spec=_smooth,
    inputs=lambda rng, n: (noise(rng, n), fresh(n)),
    launches=(Launch((6,), 1, 8), Launch((1,), 1, 32), Launch((2,), 1, 2), Launch((37,), 2, 32)),
    constraint="a thread reads at most 3 elements",
    rules=(by_a_thread(3),),
    stub="""
@cuda.jit
def smooth(x, out):
    i = cuda.grid(1)
    ...
""",
)

ALONE = (MAP, GUARD, ZIP, IMAGE, BROADCAST, STRIDE, NEIGHBOURS)
