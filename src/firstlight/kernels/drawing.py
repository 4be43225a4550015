"""Draw which thread touched which element: a colour and a number a thread, a hatching where nobody was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from firstlight.display import COLOURS
from firstlight.kernels.executor import LOAD, ArrayOf

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 64  # columns and rows that are drawn


class Traced(Protocol):
    """What a trace has that is drawn."""

    name: str
    threads: tuple[int, int, int]
    arrays: list[ArrayOf]
    notes: np.ndarray[Any, Any]


def draw(trace: Traced, name: str | None) -> Figure:
    """Draw the arrays of a trace, one above the other; loads and stores apart where an array has both."""
    shown = {n: array for n, array in enumerate(trace.arrays) if array.space != "local"}
    known = [array.name for array in shown.values()]
    if name is not None and name not in known:
        raise ValueError(f"no array of this kernel is called {name!r}: there are {', '.join(known) or 'none'}")
    touched = {(int(note[0]), bool(note[2] == LOAD)) for note in trace.notes}
    panels = [
        (n, load)
        for n, array in shown.items()
        for load in (True, False)
        if (n, load) in touched and name in (None, array.name)
    ]
    heights = [0.5 + 0.28 * grid(shown[n])[0] for n, _ in panels] or [1.0]
    fig, axes = stacked(heights, 0.3 + sum(heights))
    said = [f"{trace.name} touches nothing"] if not panels else []
    for ax, (number, load) in zip(axes, panels, strict=False):
        said.append(panel(ax, trace, number, load))
    fig.set_label(". ".join(said) + ".")
    return fig


def stacked(heights: list[float], height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure of panels, one above the other."""
    import matplotlib.pyplot as plt

    size = (5.6, height)
    fig, axes = plt.subplots(len(heights), figsize=size, height_ratios=heights, squeeze=False, layout="constrained")
    return fig, list(axes[:, 0])


def grid(array: ArrayOf) -> tuple[int, int]:
    """Return how many rows and columns show an array."""
    columns = array.shape[-1] if len(array.shape) > 1 else min(array.shape[0], 16)
    rows = -(-int(np.prod(array.shape)) // max(columns, 1))
    return min(rows, MOST), min(columns, MOST)


def panel(ax: Axes, trace: Traced, number: int, load: bool) -> str:
    """Draw the elements of one array: who was there first, and how many came. Return it in words."""
    from matplotlib.patches import Rectangle

    array, (rows, columns) = trace.arrays[number], grid(trace.arrays[number])
    wide = array.shape[-1] if len(array.shape) > 1 else columns
    first, visits = np.full((rows, columns), -1), np.zeros((rows, columns), int)
    here = trace.notes[(trace.notes[:, 0] == number) & ((trace.notes[:, 2] == LOAD) == load)]
    if array.space == "shared":  # each block has its own
        block = here[:, 3] // int(np.prod(trace.threads))
        here = here[block == block[0]]
    for note in here:
        row, column = divmod(int(np.ravel_multi_index(array.index(int(note[1])), array.shape)), wide)
        if row < rows and column < columns:
            first[row, column] = note[3] if first[row, column] < 0 else first[row, column]
            visits[row, column] += 1
    for (row, column), thread in np.ndenumerate(first):
        if row * wide + column < int(np.prod(array.shape)):
            cell = Rectangle((column - 0.5, row - 0.5), 1, 1, ec="black", lw=0.6, fill=bool(thread >= 0))
            cell.set(**({"fc": COLOURS[thread % len(COLOURS)]} if thread >= 0 else {"hatch": "////"}))
            ax.add_patch(cell)
            if thread >= 0 and columns <= 34:
                more = "+" if visits[row, column] > 1 else ""
                ax.text(column, row, f"{thread}{more}", ha="center", va="center", size=7, color="#fefefe")
    verb = "reads" if load else "writes"
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), xticks=[], yticks=[])
    cut = "" if rows * columns >= int(np.prod(array.shape)) else ", its beginning"
    others = "; +: and others" if columns <= 34 and np.any(visits > 1) else ""
    ax.set_title(f"{array.name} ({array.space}{cut}): the thread that {verb} it{others}", size=10, loc="left")
    touched = int((first >= 0).sum())
    return f"{array.name}: {touched} elements shown that some thread {verb}, by {len(np.unique(here[:, 3]))} threads"
