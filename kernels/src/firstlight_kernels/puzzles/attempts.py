"""What a reader solves puzzles with: ``@attempt`` judges a kernel and praises, and a worksheet has nothing but gaps."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, MutableMapping

from firstlight_kernels.puzzles.puzzle import Judgement
from firstlight_kernels.puzzles.tasks import PUZZLES

Answers = MutableMapping[str, tuple[object, Judgement]]

GAP = Judgement("not solved yet")
PRAISE = {
    "map": "That's a whole kernel. Every correction of a detector, pixel by pixel, is one of these.",
    "guard": "Well guarded. Whoever owns the memory behind your array will thank you.",
    "zip": "In place, and in the right order. You've just rotated a phase.",
    "neighbours": "Smooth, and your edges are right. Edges are where most kernels go wrong.",
    "stride": "Now your kernel is right for any array and any grid.",
    "image": "You can think in two dimensions now.",
    "broadcast": "You did by hand what NumPy does behind your back.",
    "warp sum": "32 numbers in five steps, and no memory was needed. Lovely, isn't it?",
    "block sum": "A tree, with all its barriers. That's the heart of every sum on a GPU.",
    "dot": "Many blocks, one number, and nobody got lost.",
    "histogram": "You counted without a race. That's harder than it looks.",
    "scan": "Six steps instead of 63! Many people never see how this can work.",
    "tile": "Each number was fetched once. That's what shared memory is for.",
    "transpose": "Rows in, rows out, and no bank conflict. That's a kernel to be proud of.",
    "matmul": "A product of matrices with tiles: the kernel that everybody talks about, and you wrote it.",
    "gridding": "This is the kernel that radio telescopes run. You could image the sky now.",
}
HINTS = {
    "map": "what do you ask memory for twice?",
    "guard": "which threads own nothing? They mustn't even read.",
    "zip": "when you write the first of the two, is its old value still needed?",
    "neighbours": "write down the three indices of the first element, and of the last.",
    "stride": "where does a thread go after its first element, and who goes there beside it?",
    "image": "which of x and y should run along a row?",
    "broadcast": "which axis of the image do the numbers in u belong to?",
    "warp sum": "after one round, 16 threads hold a sum of two. How far apart were the two?",
    "block sum": "in each round half as many threads add. Who has to wait, and when?",
    "dot": "add up within the block first. Who speaks for it in the end?",
    "histogram": "who clears the counts of the block, and who waits until they are clear?",
    "scan": "after one round each element holds a sum of two, after two rounds of four. When may you overwrite it?",
    "tile": "two of the 32 threads have a second element to fetch. Which two, and what if there is none?",
    "transpose": "the tile is written elsewhere than it was read. Along which axis do neighbours write there?",
    "matmul": "for each pair of tiles: fetch, wait, multiply, wait. What do threads beyond the edge put in?",
    "gridding": "two cells for each visibility, and each has a border of its own. What changes its sign?",
}
YOURS: dict[str, tuple[object, Judgement]] = {}


def attempt(name: str, answers: Answers | None = None) -> Callable[[object], object]:
    """Return a decorator that judges a kernel and prints the verdict, with praise or a hint, unless it is empty.

    Parameters
    ----------
    name
        The name of a puzzle.
    answers
        Where the kernel and its verdict are kept, if not with your own.

    Examples
    --------
    >>> from numba import cuda
    >>> @attempt("map", {})
    ... @cuda.jit
    ... def square(x, out):
    ...     i = cuda.grid(1)
    ...     value = x[i]
    ...     out[i] = value * value
    map: Right: it does what NumPy does in all 4 launches, and a thread reads global memory
    once: what it needs twice, it keeps in a variable. That's a whole kernel. Every
    correction of a detector, pixel by pixel, is one of these.
    """
    kept = YOURS if answers is None else answers  # a default of YOURS would print all kernels into the reference

    def judge(kernel: object) -> object:
        said = GAP if _is_empty(name, kernel) else PUZZLES[name].check(kernel)
        if said != GAP:
            hint = f"Hint: {said.hint or HINTS[name]}"
            parts = [f"{name}: {said} {PRAISE[name]}"] if said.right else [f"{name}: {said}", hint]
            print(*(textwrap.fill(part, 88) for part in parts), sep="\n")
        kept[name] = kernel, said
        return kernel

    return judge


def tally(answers: Answers | None = None) -> str:
    """Return how many puzzles are solved, and which one comes next.

    Examples
    --------
    >>> tally({"map": (None, Judgement("Right: …", right=True))})
    '1 of 16 solved. Next: guard.'
    """
    kept = YOURS if answers is None else answers
    solved = [name for name in PUZZLES if name in kept and kept[name][1].right]
    if len(solved) == len(PUZZLES):
        return f"{len(solved)} of {len(PUZZLES)} solved. All of them! Now go and write a kernel of your own."
    return f"{len(solved)} of {len(PUZZLES)} solved. Next: {next(name for name in PUZZLES if name not in solved)}."


def worksheet() -> str:
    """Return a script of all puzzles, in order, each with its task and a gap; it holds no solution."""
    parts = [_HEAD]
    for number, puzzle in enumerate(PUZZLES.values(), 1):
        in_numpy = inspect.getsource(puzzle.spec).split(":\n", 1)[1].rstrip()
        sentences = f"{number}. {puzzle.name}\n\n{puzzle.task}\n\nIt counts only if {puzzle.constraint}."
        words = [line for part in sentences.split("\n") for line in textwrap.wrap(part, 84) or [""]]
        if " _" not in in_numpy:  # a reader doesn't see our helpers
            words += ["", "In NumPy:", "", *in_numpy.split("\n")]
        comment = "\n".join(f"# {line}".rstrip() for line in words)
        parts.append(f'# %%\n{comment}\n\n\n@attempt("{puzzle.name}"){puzzle.stub}')
    return "\n\n".join([*parts, "# %%\nprint(tally())\n"])


_HEAD = '''"""
Sixteen kernels to write, without solutions.

Put your code where the dots are, and run this file: it judges what you have written.
"""

import math

from numba import cuda, float32, int32

import firstlight_kernels  # without a GPU, it plays the kernels
from firstlight_kernels.puzzles import attempt, tally
'''


def _is_empty(name: str, kernel: object) -> bool:
    puzzle = PUZZLES[name]
    try:
        return not len(puzzle._run(kernel, puzzle.launches[0])[0].accesses)
    except Exception:  # what is wrong, the judge says
        return False
