"""A puzzle asks for a kernel and checks it by its trace, so it needs no GPU, and a lucky answer does not pass."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from firstlight_kernels.arrays import KINDS
from firstlight_kernels.compilers import python_function
from firstlight_kernels.findings import DivergentBarrier, OutOfBounds, Race, element_name
from firstlight_kernels.puzzles.rules import Launch, Rule
from firstlight_kernels.tracing import Trace, trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_LINES = 100_000  # of one launch; the longest right answer needs a fifth of it
_TOLERANCE = 1e-4  # kernels calculate in float32, the specification in float64


class Judgement(str):
    """A sentence on a kernel, which knows whether the kernel is right, and of a wrong one perhaps what to think about.

    Examples
    --------
    >>> from firstlight_kernels.puzzles import PUZZLES
    >>> PUZZLES["map"].check(None).right
    False
    """

    right: bool
    hint: str

    def __new__(cls, text: str, right: bool = False, hint: str = "") -> Self:
        """Make it of the sentence."""
        made = super().__new__(cls, text)
        made.right, made.hint = right, hint
        return made


@dataclass(frozen=True)
class Puzzle:
    """A kernel to write: what it shall do, in words and in NumPy, and what it may cost.

    Attributes
    ----------
    name : str
        Its key in ``PUZZLES``.
    task : str
        What to do, in a few sentences.
    spec : callable
        The same in NumPy. It takes the arguments of the kernel and changes the same arrays.
    inputs : callable
        Makes the arguments out of a random generator and the sizes of a launch.
    launches : tuple of Launch
        Where a kernel is tried. The first one is small: it is the one that ``plot`` draws.
    constraint : str
        What the answer may cost, in words: the lesson of the puzzle.
    rules : tuple of Rule
        The same in numbers.
    begin : str
        The first lines of the kernel, which has the name and the arguments of the specification.
    mistakes : dict
        Plausible mistakes: a hint for each, and a function that gives what an array holds after it, in NumPy.

    Examples
    --------
    >>> from numba import cuda
    >>> from firstlight_kernels.puzzles import PUZZLES
    >>> @cuda.jit
    ... def square(x, out):
    ...     i = cuda.grid(1)
    ...     out[i] = x[i] * x[i]
    >>> print(PUZZLES["map"].score(square))
    reads of global memory by a thread: 2 (1 would do)
    """

    name: str
    task: str
    spec: Callable[..., None]
    inputs: Callable[..., tuple[Any, ...]]
    launches: tuple[Launch, ...]
    constraint: str
    rules: tuple[Rule, ...]
    begin: str = "i = cuda.grid(1)"
    mistakes: dict[str, Callable[..., np.ndarray]] = field(default_factory=dict)

    @property
    def stub(self) -> str:
        """The beginning of the kernel, to copy."""
        head = f"def {self.spec.__name__.lstrip('_')}({', '.join(inspect.signature(self.spec).parameters)}):"
        return f"\n@cuda.jit\n{head}\n{textwrap.indent(self.begin, '    ')}\n    ...\n"

    def check(self, kernel: object) -> Judgement:
        """Return a sentence: whether a kernel is right, or what is wrong with it first; it never raises."""
        try:
            problem = self._first_problem(kernel)
        except Exception as error:  # whatever a reader's kernel does, the answer is a sentence
            problem = Judgement(_message(error))
        if problem:
            return Judgement(f"Not yet: {problem}", hint=problem.hint)
        words = f"Right: it does what NumPy does in all {len(self.launches)} launches, and {self.constraint}."
        return Judgement(words, right=True)

    def score(self, kernel: object) -> str:
        """Return what a kernel costs, and what would be enough: a line for each rule, at its worst launch.

        Only the cost is looked at: whether the result is right, ``check`` says.
        """
        try:
            traces = [self._run(kernel, launch)[0] for launch in self.launches]
        except Exception as error:
            return f"No score: {_message(error)}"
        lines = []
        for rule in self.rules:
            costs = [
                (rule.count(t).value, rule.limit_for(launch)) for t, launch in zip(traces, self.launches, strict=True)
            ]
            value, most = max(costs, key=lambda cost: cost[0] / max(cost[1], 0.5))
            lines.append(f"{rule.what}: {value:.3g} ({most:.3g} would do)")
        return "\n".join(lines)

    def plot(self, kernel: object, array: str | None = None) -> Figure:
        """Draw which thread of a kernel touches which element, in the smallest launch.

        Parameters
        ----------
        kernel : object
            Yours; it may be wrong.
        array : str, optional
            The name of one array in your kernel; all of them if it is not given.

        Returns
        -------
        matplotlib.figure.Figure
        """
        return self._run(kernel, self.launches[0])[0].plot(array)

    # -- Checks -------------------------------------------------------------------------------------------------------

    def _first_problem(self, kernel: object) -> Judgement | None:
        """Return what is wrong first: the cause before the wrong number, and both before the cost."""
        self._expect_arguments(kernel)
        traces = []
        for launch in self.launches:
            try:
                t, problem = self._run(kernel, launch)
            except Exception as error:
                problem = Judgement(_message(error))
            if problem:
                return Judgement(f"{self._where(launch)}, {problem}", hint=problem.hint)
            traces.append(t)
        for launch, t in zip(self.launches, traces, strict=True):
            for rule in self.rules:
                amount, most = rule.count(t), rule.limit_for(launch)
                if amount.value > most:
                    return Judgement(
                        f"the result is right, but {self._where(launch)}, there are {amount.value:.3g} {rule.what}, "
                        f"where {most:.3g} would do ({amount.where})",
                        hint=rule.hint,
                    )
        return None

    def _run(self, kernel: object, launch: Launch) -> tuple[Trace, Judgement | None]:
        """Return the trace of one launch, and what is wrong with it."""
        rng = np.random.default_rng(sum(launch.sizes))
        given = self.inputs(rng, *launch.sizes)
        before = [np.copy(value) for value in given]
        wanted = [double_precision(value) for value in given]
        self.spec(*wanted)
        t = trace(kernel, launch.blocks, launch.threads, *given, limit=_MAX_LINES)
        # A race or an index that goes astray is why a number is wrong, so it is told first.
        causes = [
            *(Judgement(f"out of bounds: {found}", hint=_of_index(found)) for found in t.out_of_bounds),
            *(
                Judgement(f"a barrier that not all threads reach: {found}", hint=_of_barrier(found))
                for found in t.divergent_barriers
            ),
            *(Judgement(f"a race: {found}", hint=_of_race(t, found)) for found in t.races),
        ]
        names = list(inspect.signature(python_function(kernel)).parameters)
        if causes:
            return t, causes[0]
        mistakes = [(of(*map(double_precision, before)), hint) for hint, of in self.mistakes.items()]
        return t, next(_differences(names, before, given, wanted, mistakes), None)

    def _expect_arguments(self, kernel: object) -> None:
        signature = inspect.signature(python_function(kernel))
        names = list(inspect.signature(self.spec).parameters)
        try:
            signature.bind(*names)
        except TypeError:
            raise TypeError(
                f"{python_function(kernel).__name__}{signature} does not take the arguments of this puzzle, which are "
                f"({', '.join(names)})"
            ) from None

    def _where(self, launch: Launch) -> str:
        sizes = " x ".join(map(str, launch.sizes))
        return f"with size {sizes} launched as [{launch.blocks}, {launch.threads}]"


def double_precision(value: Any) -> Any:
    """Return a copy of an argument, with twice the digits."""
    if isinstance(value, np.ndarray):
        return value.astype(np.float64 if value.dtype.kind == "f" else value.dtype)
    return value


def _of_index(found: OutOfBounds) -> str:
    if min(found.index) < 0:
        return "an index below zero counts from the end of the array. Which thread has no such neighbour?"
    if len(found.shape) > 1 or found.thread.y:
        return "which of x and y counts along this axis, and with which size is it compared before?"
    return "is this the index that belongs here, and what is it compared with, before the thread reads or writes?"


def _of_barrier(found: DivergentBarrier) -> str:
    if "sync(" in found.source.text:  # of a warp
        return "a shuffle needs all 32 threads of a warp. What can a thread without an element hand in, and not leave?"
    return "all threads of a block have to come to this barrier, also those with nothing to do. What may the if guard?"


def _of_race(t: Trace, race: Race) -> str:
    """Return a hint by who writes to the element, and who of them reads it before."""
    rows = t.accesses[t.in_space("global", "shared", array=race.array)]
    blocks = {race.first.block, race.second.block}
    rows = [row for row in rows if t.arrays[row["array"]].index(int(row["offset"])) == race.index]
    rows = [row for row in rows if t.index_of(row["thread"])[1] in blocks]
    writers, readers = (
        {int(row["thread"]) for row in rows if KINDS[row["kind"]] == kind} for kind in ("store", "load")
    )
    if len(writers) < 2:
        return "one of these two threads is too early. Between which two lines do all have to wait for each other?"
    if len(writers & readers) > 1:
        return (
            "to read, to add and to write are three steps, and between them comes another thread. What makes them one?"
        )
    if race.first.block != race.second.block and race.first.thread == race.second.thread:
        return "threads of two blocks take the same element. Does your index, or a loop's step, count the other blocks?"
    return "several threads write to the same element. Which of them should?"


def _differences(
    names: list[str], before: list[Any], after: Any, wanted: list[Any], mistakes: list[tuple[np.ndarray, str]]
) -> Iterator[Judgement]:
    """Return what is wrong of elements, each with the hint of a mistake that gives just what it holds."""
    for name, old, got, want in zip(names, before, after, wanted, strict=False):
        if not isinstance(got, np.ndarray):
            continue
        mistaken = [(would, hint) for would, hint in mistakes if would.shape == got.shape]
        scale = np.abs(want).max(initial=0)
        close: Callable[..., Any] = partial(np.isclose, rtol=_TOLERANCE, atol=_TOLERANCE / 10 * scale)
        for index in map(tuple, np.argwhere(~close(got, want))):
            same = [close(got, would) for would, _ in mistaken]
            led = [hint for found, (_, hint) in zip(same, mistaken, strict=True) if found.all()]
            led += [hint for found, (_, hint) in zip(same, mistaken, strict=True) if found[index]]
            hint = led[0] if led else _hint_at_start(close, old[index], got[index], want[index])
            which = element_name(name, tuple(map(int, index)))
            if got[index] == old[index]:
                said = f"{which} should be {want[index]:.6g}, and no thread has changed it from {got[index]:.6g}"
            elif want[index] == old[index]:
                said = f"{which} should stay {want[index]:.6g}, and is now {got[index]:.6g}"
                hint = hint if (want != old).any() else f"{name} is to be read. Where does the result belong?"
            else:
                said = f"{which} should be {want[index]:.6g}, and is {got[index]:.6g}"
            yield Judgement(said, hint=hint)


def _hint_at_start(close: Callable[[Any, Any], Any], old: Any, got: Any, want: Any) -> str:
    """Return a hint at what memory held before: an array, or shared memory."""
    if np.isnan(got):
        return "shared memory isn't cleared. Who reads a place of it that nobody has filled?"
    if close(got, want + old):
        return "what the array held before is still in your result. Does the task ask you to add to it?"
    if close(got, want - old):
        return "the array held something before, and the task says to add to that."
    return ""


def _message(error: Exception) -> str:
    return str(error) or type(error).__name__
