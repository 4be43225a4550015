"""A puzzle asks for a kernel and checks it by its trace, so it needs no GPU, and a lucky answer does not pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from firstlight_kernels.compilers import python_function
from firstlight_kernels.findings import element_name
from firstlight_kernels.puzzles.rules import Launch, Rule
from firstlight_kernels.tracing import Trace, trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_LINES = 100_000  # of one launch; the longest right answer needs a fifth of it
_TOLERANCE = 1e-4  # kernels calculate in float32, the specification in float64


class Judgement(str):
    """A sentence on a kernel, which knows whether the kernel is right.

    Examples
    --------
    >>> from firstlight_kernels.puzzles import PUZZLES
    >>> PUZZLES["map"].check(None).right
    False
    """

    right: bool

    def __new__(cls, text: str, right: bool = False) -> Self:
        """Make it of the sentence."""
        made = super().__new__(cls, text)
        made.right = right
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
        The first lines of the kernel.

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
    begin: str

    @property
    def stub(self) -> str:
        """The beginning of the kernel, to copy."""
        return f"\n@cuda.jit\n{self.begin}\n    ...\n"

    def check(self, kernel: object) -> Judgement:
        """Return a sentence: whether a kernel is right, or what is wrong with it first; it never raises."""
        try:
            hint = self._first_hint(kernel)
        except Exception as error:  # whatever a reader's kernel does, the answer is a sentence
            hint = _message(error)
        if hint:
            return Judgement(f"Not yet: {hint}")
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

    def _first_hint(self, kernel: object) -> str | None:
        """Return what is wrong first: the cause before the wrong number, and both before the cost."""
        self._expect_arguments(kernel)
        traces = []
        for launch in self.launches:
            try:
                t, hint = self._run(kernel, launch)
            except Exception as error:
                hint = _message(error)
            if hint:
                return f"{self._where(launch)}, {hint}"
            traces.append(t)
        for launch, t in zip(self.launches, traces, strict=True):
            for rule in self.rules:
                amount, most = rule.count(t), rule.limit_for(launch)
                if amount.value > most:
                    return (
                        f"the result is right, but {self._where(launch)}, there are {amount.value:.3g} {rule.what}, "
                        f"where {most:.3g} would do ({amount.where})"
                    )
        return None

    def _run(self, kernel: object, launch: Launch) -> tuple[Trace, str | None]:
        """Return the trace of one launch, and what is wrong with it."""
        rng = np.random.default_rng(sum(launch.sizes))
        given = self.inputs(rng, *launch.sizes)
        before = [np.copy(value) for value in given]
        wanted = [double_precision(value) for value in given]
        self.spec(*wanted)
        t = trace(kernel, launch.blocks, launch.threads, *given, limit=_MAX_LINES)
        # A race or an index that goes astray is why a number is wrong, so it is told first.
        causes = [
            *(f"out of bounds: {found}" for found in t.out_of_bounds),
            *(f"a barrier that not all threads reach: {found}" for found in t.divergent_barriers),
            *(f"a race: {found}" for found in t.races),
        ]
        names = list(inspect.signature(python_function(kernel)).parameters)
        return t, next(iter(causes), None) or next(_differences(names, before, given, wanted), None)

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


def _differences(names: list[str], before: list[Any], after: Any, wanted: list[Any]) -> Iterator[str]:
    """Return sentences about the elements that are not what they should be."""
    for name, old, got, want in zip(names, before, after, wanted, strict=False):
        if not isinstance(got, np.ndarray):
            continue
        scale = np.abs(want).max(initial=0)
        for index in map(tuple, np.argwhere(~np.isclose(got, want, rtol=_TOLERANCE, atol=_TOLERANCE / 10 * scale))):
            which = element_name(name, tuple(map(int, index)))
            if got[index] == old[index]:
                yield f"{which} should be {want[index]:.6g}, and no thread has changed it from {got[index]:.6g}"
            elif want[index] == old[index]:
                yield f"{which} should stay {want[index]:.6g}, and is now {got[index]:.6g}"
            else:
                yield f"{which} should be {want[index]:.6g}, and is {got[index]:.6g}"


def _message(error: Exception) -> str:
    return str(error) or type(error).__name__
