"""The cost that a right answer may have: counts from the trace of a kernel, and their limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from firstlight_kernels.arrays import ATOMIC, KINDS, LOAD, STORE
from firstlight_kernels.tracing import Trace, group_rows

ANY = (LOAD, STORE, ATOMIC)
_VERBS = {(LOAD,): "reads of", (ATOMIC,): "atomic operations on", (LOAD, ATOMIC): "reads and atomic operations on"}


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
        """The number of threads of a block."""
        return self.threads if isinstance(self.threads, int) else prod(self.threads)

    @property
    def in_all(self) -> int:
        """The number of threads of the grid."""
        return self.in_block * (self.blocks if isinstance(self.blocks, int) else prod(self.blocks))


Limit = float | Callable[[Launch], float]  # one for all launches, or for each


class Amount(NamedTuple):
    """A count of what a kernel needs, and the line of the source that needs the most."""

    value: float
    where: str = ""


@dataclass(frozen=True)
class Rule:
    """One part of a puzzle's constraint: what is counted, how, and how much a launch may need.

    The hint says what to do about it, if that is more than the puzzle's own hint.

    Examples
    --------
    >>> rule = accesses("thread", 2)
    >>> rule.what, rule.limit_for(Launch(sizes=(100,), blocks=4, threads=32))
    ('reads of global memory by a thread', 2)
    """

    what: str
    count: Callable[[Trace], Amount]
    limit: Limit
    hint: str = ""

    def limit_for(self, launch: Launch) -> float:
        """Return how much a launch may need."""
        return self.limit(launch) if callable(self.limit) else self.limit


def accesses(of: str, limit: Limit, kinds: Sequence[int] = (LOAD,), space: str = "global", hint: str = "") -> Rule:
    """Return a rule for the accesses of the busiest ``"thread"``, of the busiest ``"block"``, or of the ``"grid"``."""

    def count(t: Trace) -> Amount:
        rows = t.accesses[t.in_space(space) & np.isin(t.accesses["kind"], kinds)]
        if not len(rows):
            return Amount(0)
        groups = rows["thread"] // {"thread": 1, "block": prod(t.threads), "grid": 1 << 62}[of]
        busiest = rows[groups == np.argmax(np.bincount(groups))]
        thread, block = t.index_of(busiest["thread"][0])
        who = {"thread": f"thread {thread} of block {block}, ", "block": f"block {block}, ", "grid": ""}[of]
        most_used = t.instructions[int(np.argmax(np.bincount(busiest["instruction"])))]
        return Amount(len(busiest), f"{who}{most_used}")

    verb, who = _VERBS.get(tuple(kinds), "uses of"), "in all" if of == "grid" else f"by a {of}"
    return Rule(f"{verb} {space} memory {who}", count, limit, hint)


_BESIDE = "threads beside each other, in x, should touch elements beside each other. Which index has to change with x?"


def sectors(limit: Limit, hint: str = _BESIDE) -> Rule:
    """Return a rule for the sectors of one access of a warp, in the worst line."""

    def count(t: Trace) -> Amount:
        rows = t.accesses[t.in_space("global") & (t.accesses["kind"] != ATOMIC)]
        found = [Amount(0)]
        for group in group_rows(rows, rows["array"], rows["instruction"], rows["kind"]):
            first = group[0]
            where = f"{KINDS[first['kind']]} of {t.arrays[first['array']].name}, {t.instructions[first['instruction']]}"
            found.append(Amount(t.sectors_of(group), where))
        return max(found, key=lambda amount: amount.value)

    return Rule("sectors of 32 bytes for one access of a warp", count, limit, hint)


def no_bank_conflicts() -> Rule:
    """Return a rule against bank conflicts."""

    def count(t: Trace) -> Amount:
        worst = max(t.bank_conflicts, key=lambda conflict: conflict.ways, default=None)
        return Amount(worst.ways, str(worst)) if worst else Amount(1)

    hint = "a column of a tile that is 32 wide lies in a single bank. How wide must it be for its words to lie in 32?"
    return Rule("words of one bank of shared memory for one access of a warp", count, 1, hint)
