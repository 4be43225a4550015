"""What a right answer may cost: numbers taken from the trace of a kernel, and how large each may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from firstlight.kernels.executor import ATOMIC, KINDS, LOAD, STORE
from firstlight.kernels.findings import place_name
from firstlight.kernels.tracing import ARRAY, KIND, SITE, THREAD, Trace, split

ANY = (LOAD, STORE, ATOMIC)
VERBS = {(LOAD,): "reads of", (ATOMIC,): "atomic operations on", (LOAD, ATOMIC): "reads and atomic operations on"}


@dataclass(frozen=True)
class Launch:
    """One launch of a puzzle: the sizes from which its inputs are made, its blocks, and the threads of a block.

    Examples
    --------
    >>> launch = Launch(sizes=(100,), blocks=4, threads=(8, 4))
    >>> launch.in_block, launch.in_all
    (32, 128)
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


Most = float | Callable[[Launch], float]  # one for all launches, or for each


class Amount(NamedTuple):
    """How much of something a kernel needs, and where it needs the most."""

    value: float
    where: str = ""


@dataclass(frozen=True)
class Rule:
    """One part of a puzzle's constraint: what is counted, how, and the most that a launch needs.

    Examples
    --------
    >>> rule = accesses("thread", 2)
    >>> rule.what, rule.most(Launch(sizes=(100,), blocks=4, threads=32))
    ('reads of global memory by a thread', 2)
    """

    what: str
    count: Callable[[Trace], Amount]
    limit: Most

    def most(self, launch: Launch) -> float:
        """Return how much a launch needs."""
        return self.limit(launch) if callable(self.limit) else self.limit


def accesses(of: str, most: Most, kinds: Sequence[int] = (LOAD,), space: str = "global") -> Rule:
    """Count what the busiest ``"thread"`` does, all threads of the busiest ``"block"``, or of the ``"grid"``."""

    def count(t: Trace) -> Amount:
        known = np.array([array.space == space for array in t.arrays] or [False])
        rows = t.notes[known[t.notes[:, ARRAY]] & np.isin(t.notes[:, KIND], kinds)]
        if not len(rows):
            return Amount(0)
        groups = rows[:, THREAD] // {"thread": 1, "block": prod(t.threads), "grid": 1 << 62}[of]
        busiest = rows[groups == np.argmax(np.bincount(groups))]
        thread, block = map(place_name, t.place(int(busiest[0, THREAD])))
        who = {"thread": f"thread {thread} of block {block}, ", "block": f"block {block}, ", "grid": ""}[of]
        # The place in the source with the most of them.
        return Amount(len(busiest), f"{who}{t.sites[int(np.argmax(np.bincount(busiest[:, SITE])))]}")

    verb, who = VERBS.get(tuple(kinds), "uses of"), "in all" if of == "grid" else f"by a {of}"
    return Rule(f"{verb} {space} memory {who}", count, most)


def sectors(most: Most) -> Rule:
    """Look for the line in which a warp touches the most sectors at a time, reading or writing."""

    def count(t: Trace) -> Amount:
        known = np.array([array.space == "global" for array in t.arrays] or [False])
        rows = t.notes[known[t.notes[:, ARRAY]] & (t.notes[:, KIND] != ATOMIC)]
        found = [Amount(0)]
        for one in split(rows, rows[:, [ARRAY, SITE, KIND]]):
            name = t.arrays[one[0, ARRAY]].name
            found.append(Amount(t.sectors_of(one), f"{KINDS[one[0, KIND]]} of {name}, {t.sites[one[0, SITE]]}"))
        return max(found, key=lambda amount: amount.value)

    return Rule("sectors of 32 bytes for one access of a warp", count, most)


def no_bank_conflicts() -> Rule:
    """Look for the access that keeps a bank of shared memory busy the longest."""

    def count(t: Trace) -> Amount:
        worst = max(t.bank_conflicts, key=lambda conflict: conflict.ways, default=None)
        return Amount(worst.ways, str(worst)) if worst else Amount(1)

    return Rule("words of one bank of shared memory for one access of a warp", count, 1)
