"""Draw which thread accessed which element: a colour and a number for each thread, a hatching where none did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firstlight_kernels.arrays import LOAD, ArrayInfo

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Each stands out on white and on near-black.
_COLOURS = ("#2f7ed8", "#d9762b", "#2f9e77", "#b45fc0", "#c0392b", "#7f8c3a")
_MAX_CELLS = 64  # columns and rows that are drawn
_MAX_NUMBERED = 34  # columns that are wide enough for the numbers of threads


def draw(kernel: str, threads: int, arrays: list[ArrayInfo], accesses: np.ndarray, name: str | None) -> Figure:
    """Return a figure of arrays, one above the other; loads and stores apart where there are both.

    ``threads`` is how many a block has, and ``name`` that of the only array to draw, if not all are wanted.
    """
    import matplotlib.pyplot as plt

    shown = {number: array for number, array in enumerate(arrays) if array.space in ("global", "shared")}
    names = [array.name for array in shown.values()]
    if name is not None and name not in names:
        raise ValueError(f"no array of this kernel is called {name!r}: there are {', '.join(names) or 'none'}")
    panels = [
        (array, rows, threads, load)
        for number, array in shown.items()
        for load in (True, False)
        if len(rows := accesses[(accesses["array"] == number) & ((accesses["kind"] == LOAD) == load)])
        and name in (None, array.name)
    ]
    heights = [0.5 + 0.28 * _rows_and_columns(array)[0] for array, *_ in panels] or [1.0]
    size = (5.6, 0.3 + sum(heights))
    fig, axes = plt.subplots(len(heights), figsize=size, height_ratios=heights, squeeze=False, layout="constrained")
    words = [_draw_array(ax, *panel) for ax, panel in zip(axes[:, 0], panels, strict=False)]
    fig.set_label(". ".join(words or [f"{kernel} touches nothing"]) + ".")
    return fig


def _rows_and_columns(array: ArrayInfo) -> tuple[int, int]:
    columns = array.shape[-1] if len(array.shape) > 1 else min(array.shape[0], 16)
    rows = -(-int(np.prod(array.shape)) // max(columns, 1))
    return min(rows, _MAX_CELLS), min(columns, _MAX_CELLS)


def _draw_array(ax: Axes, array: ArrayInfo, accesses: np.ndarray, threads_of_block: int, load: bool) -> str:
    """Draw the elements of an array: which thread came first, and whether others came. Return it in words."""
    from matplotlib.patches import Rectangle

    rows, columns = _rows_and_columns(array)
    size, width = int(np.prod(array.shape)), array.shape[-1] if len(array.shape) > 1 else columns
    first, visits = np.full((rows, columns), -1), np.zeros((rows, columns), int)
    if array.space == "shared":  # each block has its own
        block = accesses["thread"] // threads_of_block
        accesses = accesses[block == block[0]]
    for access in accesses:
        row, column = divmod(int(np.ravel_multi_index(array.index(int(access["offset"])), array.shape)), width)
        if row < rows and column < columns:
            first[row, column] = access["thread"] if first[row, column] < 0 else first[row, column]
            visits[row, column] += 1
    for (row, column), thread in np.ndenumerate(first):
        if row * width + column < size:
            cell = Rectangle((column - 0.5, row - 0.5), 1, 1, ec="black", lw=0.6, fill=bool(thread >= 0))
            cell.set(**({"fc": _COLOURS[thread % len(_COLOURS)]} if thread >= 0 else {"hatch": "////"}))
            ax.add_patch(cell)
            if thread >= 0 and columns <= _MAX_NUMBERED:
                more = "+" if visits[row, column] > 1 else ""
                ax.text(column, row, f"{thread}{more}", ha="center", va="center", size=7, color="#fefefe")
    verb = "reads" if load else "writes"
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), xticks=[], yticks=[])
    cut = "" if rows * columns >= size else ", its beginning"
    others = "; +: and others" if columns <= _MAX_NUMBERED and np.any(visits > 1) else ""
    ax.set_title(f"{array.name} ({array.space}{cut}): the thread that {verb} it{others}", size=10, loc="left")
    elements, threads = int((first >= 0).sum()), len(np.unique(accesses["thread"]))
    return f"{array.name}: {elements} elements shown that some thread {verb}, by {threads} threads"
