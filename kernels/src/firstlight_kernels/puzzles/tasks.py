"""The puzzles: first each thread works for itself, then threads work together, through shared memory and atomics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray as Array

from firstlight_kernels.arrays import ATOMIC, LOAD
from firstlight_kernels.puzzles.puzzle import Puzzle
from firstlight_kernels.puzzles.rules import ANY, Launch, Rule, accesses, no_bank_conflicts, sectors

_Mistake = Callable[..., Array]

_START = -77.0  # what outputs hold before the launch: += shows, and so does an element that nobody writes


def _noise(rng: np.random.Generator, *shape: int) -> Array:
    """Return inputs of both signs that are not symmetric about zero."""
    return rng.normal(0.5, 2, shape).astype(np.float32)


def _output(*shape: int) -> Array:
    """Return an output."""
    return np.full(shape, _START, np.float32)


def _square(x: Array, out: Array) -> None:
    out[:] = x**2


MAP = Puzzle(
    name="map",
    task="Square every element. There are exactly as many threads as elements.",
    spec=_square,
    inputs=lambda rng, n: (_noise(rng, n), _output(n)),
    launches=(Launch((8,), 1, 8), Launch((1,), 1, 1), Launch((64,), 2, 32), Launch((35,), 5, 7)),
    constraint="a thread reads global memory once: what it needs twice, it keeps in a variable",
    rules=(accesses("thread", 1),),
    mistakes={"a square isn't twice the number.": lambda x, _: 2 * x},
)


def _calibrate(x: Array, gain: float, n: int, out: Array) -> None:
    out[:n] = gain * x[:n]


GUARD = Puzzle(
    name="guard",
    task="Multiply the first n elements by the gain. Both arrays are longer than n: what comes after it belongs to "
    "somebody else. There may be more threads than elements.",
    spec=_calibrate,
    inputs=lambda rng, n: (_noise(rng, n + 40), 1.5, n, _output(n + 40)),
    launches=(Launch((5,), 1, 8), Launch((0,), 1, 8), Launch((1,), 1, 32), Launch((37,), 2, 32), Launch((64,), 2, 32)),
    constraint="a thread with no element of its own touches no memory, not even to read",
    rules=(accesses("grid", lambda launch: launch.sizes[0]), accesses("thread", 1)),
    mistakes={
        "the last of the n elements has no owner.": lambda _x, _gain, _n, out: out,
    },
)


def _rotate(re: Array, im: Array, c: float, s: float) -> None:
    re[:], im[:] = c * re - s * im, s * re + c * im


ZIP = Puzzle(
    name="zip",
    task="Turn the phase of complex numbers whose real and imaginary parts lie in two arrays. Leave the result in the "
    "same arrays.",
    spec=_rotate,
    inputs=lambda rng, n: (_noise(rng, n), _noise(rng, n), 0.6, 0.8),
    launches=(Launch((5,), 1, 8), Launch((1,), 1, 32), Launch((37,), 2, 32), Launch((70,), 5, 16)),
    constraint="a thread reads twice and writes twice: in place, the order matters",
    rules=(accesses("thread", 2), accesses("thread", 4, kinds=ANY)),
    mistakes={
        "when you write the second of the two, what does the first one hold by then?": lambda re, im, c, s: (
            s * (c * re - s * im) + c * im
        ),
        "you turn the other way. Which of the two parts has the minus sign?": lambda re, im, c, s: c * re + s * im,
    },
)


IMAGES = (
    Launch((3, 7), (1, 2), (8, 4)),
    Launch((7, 3), (1, 2), (8, 4)),
    Launch((1, 1), (1, 1), (8, 4)),
    Launch((3, 35), (2, 9), (32, 4)),
    Launch((34, 5), (2, 9), (32, 4)),
)


def _positive(image: Array, out: Array) -> None:
    out[:] = np.maximum(image, 0)


IMAGE = Puzzle(
    name="image",
    task="Replace the negative pixels of an image by zero. The threads have two axes, x and y; the image has rows and "
    "columns, need not be square, and is smaller than the grid.",
    spec=_positive,
    inputs=lambda rng, *shape: (_noise(rng, *shape), _output(*shape)),
    launches=IMAGES,
    constraint="the threads of a warp lie along a row: at most 5 sectors an access (4, and 1 where a row begins askew)",
    rules=(sectors(5), accesses("thread", 1)),
    begin="x, y = cuda.grid(2)",
    mistakes={
        "every pixel needs a value. Who writes the ones that aren't positive?": lambda image, out: (
            np.maximum(image, 0) + out * (image <= 0)
        ),
        "a negative pixel becomes zero. Its size doesn't count.": lambda image, _: np.abs(image),
    },
)


def _distance(u: Array, v: Array, out: Array) -> None:
    out[:] = u[None, :] ** 2 + v[:, None] ** 2


BROADCAST = Puzzle(
    name="broadcast",
    task="From the coordinates of columns, u, and of rows, v, calculate the squared distance from the centre at every "
    "cell of a grid.",
    spec=_distance,
    inputs=lambda rng, rows, columns: (_noise(rng, columns), _noise(rng, rows), _output(rows, columns)),
    launches=IMAGES,
    constraint="a thread reads twice, and the threads of a warp lie along a row",
    rules=(accesses("thread", 2), sectors(5)),
    begin="x, y = cuda.grid(2)",
    mistakes={
        "what you write is the distance. The task asks for its square.": lambda u, v, _: np.hypot(
            u[None, :], v[:, None]
        ),
        "square each of the two, and add then.": lambda u, v, _: (u[None, :] + v[:, None]) ** 2,
        "what you write has no squares in it.": lambda u, v, _: u[None, :] + v[:, None],
    },
)


def _attenuate(tau: Array, out: Array) -> None:
    out[:] = 1 - tau / 2


STRIDE = Puzzle(
    name="stride",
    task="Calculate 1 - tau / 2 for every element. The grid does not grow with the array: there may be far fewer "
    "threads than elements.",
    spec=_attenuate,
    inputs=lambda rng, n: (_noise(rng, n), _output(n)),
    launches=(Launch((21,), 2, 4), Launch((1,), 2, 32), Launch((64,), 2, 32), Launch((203,), 2, 32)),
    constraint="the work is shared evenly, and neighbouring threads take neighbouring elements (4 sectors a read)",
    rules=(accesses("thread", lambda launch: -(-launch.sizes[0] // launch.in_all)), sectors(4, hint="")),
    begin="first = cuda.grid(1)\nall_threads = cuda.gridsize(1)",
)


def _smooth(x: Array, out: Array) -> None:
    padded = np.pad(x, 1, mode="edge")
    out[:] = (padded[:-2] + padded[1:-1] + padded[2:]) / 3


def _with_ends(of: float = 3, **pad: Any) -> _Mistake:
    return lambda x, _: np.convolve(np.pad(x, 1, **pad), np.ones(3), "valid") / of


_AT_THE_ENDS: dict[str, _Mistake] = {
    "at the ends you take zero for the neighbour that's missing. The task says what stands in for it.": _with_ends(),
    "at the ends you take the mean of two. The task says what stands in for the third.": _with_ends(2),
    "at one end you take a number from the other end.": _with_ends(mode="wrap"),
    "the ends need a value, too. Who writes it?": lambda _, out: out,
    "you have the sum of the three, and not their mean.": _with_ends(1, mode="edge"),
}

NEIGHBOURS = Puzzle(
    name="neighbours",
    task="Replace each element by the mean of itself and its two neighbours. At the ends, the element stands in for "
    "the neighbour that is missing. Beware of index -1: it is the last element.",
    spec=_smooth,
    inputs=lambda rng, n: (_noise(rng, n), _output(n)),
    launches=(Launch((6,), 1, 8), Launch((1,), 1, 32), Launch((2,), 1, 2), Launch((37,), 2, 32)),
    constraint="a thread reads at most 3 elements",
    rules=(accesses("thread", 3),),
    mistakes=_AT_THE_ENDS,
)


def _transpose(x: Array, out: Array) -> None:
    out[:] = x.T


TRANSPOSE = Puzzle(
    name="transpose",
    task="Transpose an image. A block of 32 x 8 threads moves a tile of 32 x 32 pixels, through shared memory: it "
    "reads rows, and writes rows.",
    spec=_transpose,
    inputs=lambda rng, *shape: (_noise(rng, *shape), _output(*shape[::-1])),
    launches=(Launch((5, 3), (1, 1), (32, 8)), Launch((32, 32), (1, 1), (32, 8)), Launch((6, 35), (2, 1), (32, 8))),
    constraint="a warp touches at most 5 sectors per access, read or write, and there are no bank conflicts",
    rules=(
        sectors(lambda launch: 5 if any(size % 8 for size in launch.sizes) else 4),
        accesses("thread", 4),
        no_bank_conflicts(),
    ),
    begin="tile = cuda.shared.array((32, 32), float32)\ntx, ty = cuda.threadIdx.x, cuda.threadIdx.y",
    mistakes={
        "nothing has been turned. Which two indices have to change places, when the tile is read?": lambda x, out: (
            np.pad(x, [(0, len(out)), (0, len(x))])[: len(out), : len(x)]
        ),
    },
)

TILE = Puzzle(
    name="tile",
    task="Smooth as in the puzzle neighbours, with 32 threads in a block. Let the block fetch its elements into shared "
    "memory first, with one more at either end.",
    spec=_smooth,
    inputs=lambda rng, n: (_noise(rng, n), _output(n)),
    launches=(
        Launch((6,), 1, 32),
        Launch((1,), 1, 32),
        Launch((32,), 1, 32),
        Launch((33,), 2, 32),
        Launch((90,), 3, 32),
    ),
    constraint="a block reads each of its elements from global memory once: 32, and 2 at its ends",
    rules=(accesses("block", 34), accesses("thread", 3)),
    begin="tile = cuda.shared.array(34, float32)\ni, t = cuda.grid(1), cuda.threadIdx.x",
    mistakes=_AT_THE_ENDS,
)


def _in_rows(x: Array, rows: int, width: int) -> Array:
    return np.pad(x, (0, width * rows - len(x))).reshape(-1, width)


def _block_sum(x: Array, out: Array) -> None:
    padded = np.pad(x, (0, 64 * len(out) - len(x)))
    out[:] = padded.reshape(-1, 64).sum(axis=1)


_TREE = "one thread does all the adding. How many adders are at work in each round of a tree?"
_HALF = "half of the numbers are missing. How far apart are the two that are added in the first round?"
_LAST_ROUND = "the last round is missing. Two numbers are left: when are they added?"


def _in_a_tree(hint: str = _TREE) -> Rule:
    """Return a rule for shared memory: two numbers in each of six rounds, and the sum."""
    return accesses("thread", 13, (LOAD, ATOMIC), "shared", hint)


BLOCK_SUM = Puzzle(
    name="block sum",
    task="Let each block of 64 threads write the sum of its 64 elements into its own element of out. Elements after "
    "the end count as zero.",
    spec=_block_sum,
    inputs=lambda rng, n: (_noise(rng, n), _output(-(-n // 64))),
    launches=(Launch((64,), 1, 64), Launch((1,), 1, 64), Launch((150,), 3, 64)),
    constraint="it adds in a tree: a thread reads global memory once, and shared memory at most 13 times",
    rules=(accesses("thread", 1), _in_a_tree()),
    begin="part = cuda.shared.array(64, float32)\ni, t = cuda.grid(1), cuda.threadIdx.x",
    mistakes={
        _HALF: lambda x, out: _in_rows(x, len(out), 64)[:, :32].sum(axis=1),
        _LAST_ROUND: lambda x, out: _in_rows(x, len(out), 64)[:, ::2].sum(axis=1),
        "that's the sum of the first block. Which elements are this block's?": lambda x, out: np.full(
            len(out), x[:64].sum()
        ),
    },
)


def _dot(x: Array, y: Array, out: Array) -> None:
    out[0] += x @ y


DOT = Puzzle(
    name="dot",
    task="Add the dot product of x and y to out[0], where a value may already be. Blocks have 64 threads, and run in "
    "any order.",
    spec=_dot,
    inputs=lambda rng, n: (_noise(rng, n), _noise(rng, n), _output(1)),
    launches=(Launch((40,), 1, 64), Launch((1,), 1, 64), Launch((150,), 3, 64)),
    constraint="a block makes 1 atomic operation, and a thread reads global memory twice, and shared memory at most 13 "
    "times",
    rules=(accesses("block", 1, (ATOMIC,)), accesses("thread", 2), _in_a_tree()),
    begin="part = cuda.shared.array(64, float32)\ni, t = cuda.grid(1), cuda.threadIdx.x",
    mistakes={
        _HALF: lambda x, y, out: out + sum(x[i : i + 32] @ y[i : i + 32] for i in range(0, len(x), 64)),
        _LAST_ROUND: lambda x, y, out: out + sum(x[i : i + 64 : 2] @ y[i : i + 64 : 2] for i in range(0, len(x), 64)),
        "you add the sums of x and of y. A dot product multiplies first.": lambda x, y, out: out + x.sum() * y.sum(),
    },
)


def _histogram(x: Array, counts: Array) -> None:
    np.add.at(counts, x, 1)


HISTOGRAM = Puzzle(
    name="histogram",
    task="Add to counts how often each of the numbers 0 to 15 is in x. Let each of the blocks of 64 threads count in "
    "shared memory first. Nobody has cleared that for you.",
    spec=_histogram,
    inputs=lambda rng, n, spread: (
        rng.integers(16 - spread, 16, n).astype(np.int32),
        np.full(16, 1000, np.int32),
    ),
    launches=(Launch((20, 16), 1, 64), Launch((1, 16), 1, 64), Launch((150, 16), 3, 64), Launch((64, 1), 2, 64)),
    constraint="a block makes at most 16 atomic operations on global memory",
    rules=(
        accesses(
            "block", 16, (ATOMIC,), hint="count in shared memory, and add each of the 16 counts to the whole once."
        ),
        accesses("thread", 1),
    ),
    begin="mine = cuda.shared.array(16, int32)\ni, t = cuda.grid(1), cuda.threadIdx.x",
    mistakes={
        "a place that isn't the last one counts, too. How many threads copy 16 counts?": lambda x, counts: (
            counts + np.bincount(x[x < 15], minlength=16)
        ),
        "only the first block's elements are counted.": lambda x, counts: counts + np.bincount(x[:64], minlength=16),
    },
)


def _scan(x: Array, out: Array) -> None:
    for start in range(0, len(x), 64):
        out[start : start + 64] = np.cumsum(x[start : start + 64])


def _running(x: Array, most: int = 64) -> Array:
    """Return the running sums within blocks of 64, of at most so many elements each."""
    sums = [np.cumsum(x[start : start + 64]) for start in range(0, len(x), 64)]
    return np.concatenate([one - np.pad(one, (most, 0))[: len(one)] for one in sums])


SCAN = Puzzle(
    name="scan",
    task="Write the running sum of each block of 64: an element becomes the sum of itself and of all before it in its "
    "block.",
    spec=_scan,
    inputs=lambda rng, n: (_noise(rng, n), _output(n)),
    launches=(Launch((20,), 1, 64), Launch((1,), 1, 64), Launch((64,), 1, 64), Launch((101,), 2, 64)),
    constraint="six steps are enough: a thread reads global memory once, and shared memory at most 13 times",
    rules=(
        accesses("thread", 1),
        _in_a_tree(
            "a thread that adds all before it reads 63 numbers. After a round, which of its neighbours has done half?"
        ),
    ),
    begin="part = cuda.shared.array(64, float32)\ni, t = cuda.grid(1), cuda.threadIdx.x",
    mistakes={
        "each element belongs to its own sum, too. Yours are the sums of those before it.": lambda x, _: (
            _running(x) - x
        ),
        "the sums go on from block to block. Each block begins anew.": lambda x, _: np.cumsum(x),
        "each sum has at most half of its numbers. Is there a round for every doubling, up to 32?": lambda x, _: (
            _running(x, 32)
        ),
        "elements at a distance of one are never added. How far apart are they in the first round?": lambda x, _: (
            np.array([x[i % 2 : i + 1 : 2][-32:].sum() for i in range(len(x))])
        ),
    },
)


def _of_eight(x: Array) -> Array:
    """Return the first tile of a matrix, and zeros where it has none."""
    return np.pad(x, [(0, 8), (0, 8)])[:8, :8]


def _matmul(a: Array, b: Array, out: Array) -> None:
    out[:] = a @ b


MATMUL = Puzzle(
    name="matmul",
    task="Multiply two matrices, with one thread of a block of 8 x 8 for each element of the result. Let the block "
    "fetch 8 x 8 tiles of both into shared memory, and use each element 8 times.",
    spec=_matmul,
    inputs=lambda rng, m, k, n: (_noise(rng, m, k), _noise(rng, k, n), _output(m, n)),
    launches=(
        Launch((3, 5, 4), (1, 1), (8, 8)),
        Launch((1, 1, 1), (1, 1), (8, 8)),
        Launch((8, 16, 8), (1, 1), (8, 8)),
        Launch((5, 19, 9), (2, 1), (8, 8)),
        Launch((10, 3, 5), (1, 2), (8, 8)),
    ),
    constraint="a thread reads global memory twice a tile, not twice a product",
    rules=(
        accesses(
            "thread",
            lambda launch: 2 * -(-launch.sizes[1] // 8),
            hint="a thread fetches one number of a and one of b for a pair of tiles. Where do the other 14 come from?",
        ),
    ),
    begin="a_tile = cuda.shared.array((8, 8), float32)\n"
    "b_tile = cuda.shared.array((8, 8), float32)\ncolumn, row = cuda.grid(2)",
    mistakes={
        "only the first tiles are in your sum. How many pairs of tiles lie along a row of a?": lambda a, b, _: (
            a[:, :8] @ b[:8]
        ),
        "that's b times a. In which of the two tiles does a thread keep its row, and in which its column?": (
            lambda a, b, _: (_of_eight(b) @ _of_eight(a))[: len(a), : b.shape[1]]
        ),
        "the last tiles are missing. How many begin, if the last one isn't full?": lambda a, b, _: (
            a[:, : a.shape[1] // 8 * 8] @ b[: a.shape[1] // 8 * 8]
        ),
        "only the last tiles are in your sum. What must not begin anew with each pair?": lambda a, b, _: (
            a[:, (a.shape[1] - 1) // 8 * 8 :] @ b[(a.shape[1] - 1) // 8 * 8 :]
        ),
    },
)


def _warp_sum(x: Array, out: Array) -> None:
    padded = np.pad(x, (0, 32 * len(out) - len(x)))
    out[:] = padded.reshape(-1, 32).sum(axis=1)


WARP_SUM = Puzzle(
    name="warp sum",
    task="Let each warp of 32 threads write the sum of its 32 elements into its own element of out. Its lanes can hand "
    "numbers to each other: cuda.shfl_down_sync(0xFFFFFFFF, value, by).",
    spec=_warp_sum,
    inputs=lambda rng, n, warps: (_noise(rng, n), _output(warps)),
    launches=(Launch((32, 1), 1, 32), Launch((1, 1), 1, 32), Launch((100, 4), 2, 64)),
    constraint="it needs no shared memory, no atomic operation, and 1 read of global memory a thread",
    rules=(
        accesses("grid", 0, ANY, "shared", "lanes can hand each other numbers: what do you need a blackboard for?"),
        accesses("grid", 0, (ATOMIC,), hint="after five rounds one lane has the sum, and nobody else adds."),
        accesses("thread", 1),
    ),
    begin="i = cuda.grid(1)\nlane, warp = i % 32, i // 32",
    mistakes={
        "half of the numbers are missing. From how far away does the first one come?": lambda x, out: _in_rows(
            x, len(out), 32
        )[:, :16].sum(axis=1),
        _LAST_ROUND: lambda x, out: _in_rows(x, len(out), 32)[:, ::2].sum(axis=1),
        "only one of the 32 lanes ends with the whole sum. Which one?": lambda x, out: (
            _in_rows(x, len(out), 32)[:, -1] * 32
        ),
    },
)


def _grid(
    u: Array,
    v: Array,
    re: Array,
    im: Array,
    weight: Array,
    grid_re: Array,
    grid_im: Array,
    grid_weight: Array,
) -> None:
    for sign in 1, -1:
        _add_to_cells(sign * u, sign * v, re, sign * im, weight, grid_re, grid_im, grid_weight)


def _add_to_cells(u: Array, v: Array, re: Array, im: Array, weight: Array, *grids: Array) -> None:
    size = len(grids[0])
    row, column = (np.rint(part).astype(int) + size // 2 for part in (v, u))
    inside = (row >= 0) & (row < size) & (column >= 0) & (column < size)
    for grid, part in zip(grids, (weight * re, weight * im, weight), strict=True):
        np.add.at(grid, (row[inside], column[inside]), part[inside])


def _both_alike(u: Array, v: Array, *others: Array) -> None:
    for sign in 1, -1:
        _add_to_cells(sign * u, sign * v, *others)


def _gridded(which: int, changed: Callable[..., tuple[Array, ...]], into: Callable[..., None] = _grid) -> _Mistake:
    """Return what gives one of the grids, into which other arguments are gridded, or in another way."""

    def gridded(*given: Array) -> Array:
        into(*changed(*given))
        return given[5 + which]

    return gridded


def _visibilities(rng: np.random.Generator, n: int, size: int, spread: float) -> tuple[Array, ...]:
    # No coordinate ends in .5, where ways to round differ; some lie outside of the grid, and two share a cell.
    u, v = ((rng.integers(-9, 10, n) / 20 + np.rint(rng.normal(1, spread, n))).astype(np.float32) for _ in range(2))
    u[-1:], v[-1:] = u[:1], v[:1]
    weight = rng.uniform(0.5, 2, n).astype(np.float32)
    return u, v, _noise(rng, n), _noise(rng, n), weight, *(_output(size, size) for _ in range(3))


GRIDDING = Puzzle(
    name="gridding",
    task="Grid visibilities, as an interferometer's imager does. Add weight * re, weight * im and weight of each to "
    "the nearest cell of three grids of size x size cells. u counts columns and v counts rows, with zero at size // 2. "
    "The sky is real, so add each visibility again at (-u, -v), with the opposite imaginary part. Leave out what falls "
    "outside. No coordinate is halfway between two cells.",
    spec=_grid,
    inputs=_visibilities,
    launches=(
        Launch((4, 6, 1), 1, 8),
        Launch((1, 5, 0), 1, 32),
        Launch((37, 8, 2), 2, 32),
        Launch((20, 7, 5), 1, 32),
        Launch((33, 6, 0), 2, 32),
    ),
    constraint="a thread reads 5 numbers and makes at most 6 atomic operations",
    rules=(accesses("thread", 5), accesses("thread", 6, (ATOMIC,))),
    mistakes={
        "the nearest cell isn't the one below. What does int do to 2.9, and to -0.4?": _gridded(
            0, lambda u, v, *others: (np.trunc(u), np.trunc(v), *others)
        ),
        "each visibility counts twice. Where is its second cell?": _gridded(0, lambda *given: given, _add_to_cells),
        "in the second cell, one of the two parts changes its sign.": _gridded(1, lambda *given: given, _both_alike),
        "u counts columns, and v counts rows.": _gridded(0, lambda u, v, *others: (v, u, *others)),
        "the weight multiplies both parts.": _gridded(
            0, lambda *given: (*given[:4], np.ones(len(given[4])), *given[5:])
        ),
    },
)

ALONE = (MAP, GUARD, STRIDE, ZIP, NEIGHBOURS, IMAGE, BROADCAST)
TOGETHER = (WARP_SUM, BLOCK_SUM, DOT, HISTOGRAM, SCAN, TILE, TRANSPOSE, MATMUL, GRIDDING)

#: The puzzles by their names, in the order of the page.
#:
#: :meta hide-value:
PUZZLES: dict[str, Puzzle] = {puzzle.name: puzzle for puzzle in (*ALONE, *TOGETHER)}
