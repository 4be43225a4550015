"""What a right answer may cost: numbers taken from the trace of a kernel, and how large each may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from firstlight.kernels.tracing import ARRAY, KIND, SITE, THREAD, Trace, split
from firstlight.kernels.watched import ATOMIC, KINDS, LOAD, STORE

ANY = (LOAD, STORE, ATOMIC)
VERBS = {(LOAD,): "reads of", (ATOMIC,): "atomic operations on", (LOAD, ATOMIC): "reads and atomic operations on"}


@dataclass(frozen=True)
class Launch:
    """One launch of a puzzle: the sizes from which its inputs are made, its blocks, and the threads of a block.

    Examples
    --------
    >>> launch = Launch(sizes=(100,), blocks=4, threads=(8, 4))
    >>> launch.in_block, launch.in_all, launch.in_grid
    (32, 128, 4)
    """

    sizes: tuple[int, ...]
    blocks: int | tuple[int, int]
    threads: int | tuple[int, int]

    @property
    def in_block(self) -> int:
        """How many threads a block has."""
        return self.threads if isinstance(self.threads, int) else prod(self.threads)

    @property
    def in_all(self) -> int:
        """How many threads there are."""
        return self.in_block * (self.blocks if isinstance(self.blocks, int) else prod(self.blocks))

    @property
    def in_grid(self) -> int:
        """How many blocks there are."""
        return self.in_all // self.in_block


@dataclass(frozen=True)
class Cost:
    """How much of something a kernel spends, and where it spends the most.

    Examples
    --------
    >>> Cost(8, "load of x, line 3").value
    8
    """

    value: float
    where: str = ""


@dataclass(frozen=True)
class Rule:
    """One part of a puzzle's constraint: what is counted, how, and the most that a launch needs.

    Examples
    --------
    >>> rule = by_a_thread(2)
    >>> rule.what, rule.most(Launch(sizes=(100,), blocks=4, threads=32))
    ('reads of global memory by a thread', 2)
    """

    what: str
    cost: Callable[[Trace], Cost]
    most: Callable[[Launch], float]


def constant(most: float | Callable[[Launch], float]) -> Callable[[Launch], float]:
    """Let a number stand for all launches."""
    return most if callable(most) else lambda _: most


def by_a_thread(most: float | Callable[[Launch], float], kinds: Sequence[int] = (LOAD,), space: str = "global") -> Rule:
    """Count what the busiest thread does."""
    return Rule(f"{_verb(kinds)} {space} memory by a thread", lambda t: _busiest(t, kinds, space, 1), constant(most))


def by_a_block(most: float | Callable[[Launch], float], kinds: Sequence[int] = (LOAD,), space: str = "global") -> Rule:
    """Count what all threads of the busiest block do."""
    return Rule(
        f"{_verb(kinds)} {space} memory by a block",
        lambda t: _busiest(t, kinds, space, prod(t.threads)),
        constant(most),
    )


def in_all(most: float | Callable[[Launch], float], kinds: Sequence[int] = (LOAD,), space: str = "global") -> Rule:
    """Count what all threads do."""
    everybody = 1 << 62
    return Rule(f"{_verb(kinds)} {space} memory in all", lambda t: _busiest(t, kinds, space, everybody), constant(most))


def sectors(most: float | Callable[[Launch], float]) -> Rule:
    """Look for the line in which a warp touches the most sectors at a time, reading or writing."""

    def cost(t: Trace) -> Cost:
        known = np.array([array.space == "global" for array in t.arrays] or [False])
        rows = t.notes[known[t.notes[:, ARRAY]] & (t.notes[:, KIND] != ATOMIC)]
        found = [Cost(0)]
        for one in split(rows, rows[:, [ARRAY, SITE, KIND]]):
            name = t.arrays[one[0, ARRAY]].name
            found.append(Cost(t.sectors_of(one), f"{KINDS[one[0, KIND]]} of {name}, {t.sites[one[0, SITE]]}"))
        return max(found, key=lambda cost: cost.value)

    return Rule("sectors of 32 bytes for one access of a warp", cost, constant(most))


def no_bank_conflicts() -> Rule:
    """Look for the access that keeps a bank of shared memory busy the longest."""

    def cost(t: Trace) -> Cost:
        worst = max(t.bank_conflicts, key=lambda conflict: conflict.ways, default=None)
        return Cost(worst.ways, str(worst)) if worst else Cost(1)

    return Rule("words of one bank of shared memory for one access of a warp", cost, constant(1))


def _verb(kinds: Sequence[int]) -> str:
    return VERBS.get(tuple(kinds), "uses of")


def _busiest(t: Trace, kinds: Sequence[int], space: str, together: int) -> Cost:
    """Count the accesses of groups of threads, and say where the busiest group makes the most of them."""
    known = np.array([array.space == space for array in t.arrays] or [False])
    rows = t.notes[known[t.notes[:, ARRAY]] & np.isin(t.notes[:, KIND], kinds)]
    if not len(rows):
        return Cost(0)
    groups = rows[:, THREAD] // together
    busiest = int(np.argmax(np.bincount(groups)))
    mine = rows[groups == busiest]
    thread, block = (_place(place) for place in t.place(int(mine[0, THREAD])))
    who = f"thread {thread} of block {block}" if together == 1 else f"block {block}"
    where = _line(t, mine)
    return Cost(len(mine), where if together > len(t.notes) else f"{who}, {where}")


def _place(place: tuple[int, int, int]) -> Any:
    """Leave out the axes that a puzzle does not have."""
    return place[:2] if place[1] else place[0]


def _line(t: Trace, rows: np.ndarray) -> str:
    """Name the place in the source with the most of some accesses."""
    return str(t.sites[int(np.argmax(np.bincount(rows[:, SITE])))])
