"""Where threads wait for others of their block or warp: barriers, shuffles and votes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from firstlight_kernels.arrays import poison
from firstlight_kernels.findings import LaunchError
from firstlight_kernels.grids import WARP
from firstlight_kernels.intrinsics import _ALL_LANES, SHUFFLES
from firstlight_kernels.lanes import Lanes, Mask, broadcast, split, spread
from firstlight_kernels.masked import Unsupported
from firstlight_kernels.promotion import truth


class Barriers:
    """The barriers of some blocks, and the threads that have not yet returned."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.alive: Mask | None = lanes.all

    def leave(self, mask: Mask | None) -> None:
        """Take threads out of the run: they have returned."""
        if mask and self.alive:
            self.alive = split(self.alive, mask.on)[1]

    def syncthreads(self, mask: Mask, *_: Any) -> None:
        """Refuse if a part of a block misses a barrier: one after the other, threads tell who has only returned."""
        alive = self.alive or mask
        if mask.count == alive.count:
            return
        here = np.bincount(self.lanes.block[mask.on], minlength=self.lanes.count)
        if np.any(alive.on & ~mask.on & (here > 0)[self.lanes.block]):
            raise Unsupported("a barrier that a part of a block misses")

    def sync_grid(self, mask: Mask) -> None:
        """Raise an error if a part of the grid misses a barrier of all blocks."""
        if self.lanes.count < prod(self.lanes.blocks):
            raise Unsupported("a barrier of the whole grid in a device function")
        if self.alive and mask.count < self.alive.count:
            who = mask.numbers[0], np.argmax(self.alive.on & ~mask.on)
            waits, lacks = (self.lanes.name_of(int(number)) for number in who)
            raise LaunchError(f"{waits} waits for {lacks}, which is elsewhere: all must reach the same barrier")

    def groups(self, mask: Mask, names: Any) -> np.ndarray:
        """Return the number of the group of each of those that take part: a warp, or those that give one mask in it.

        Refuse if a mask names a thread that does not take part, and raise an error if it lacks the one that gives it.
        """
        lanes, alive, numbers = self.lanes, self.alive or mask, mask.numbers
        warp, bit = lanes.warp[numbers], 1 << lanes.lane[numbers]
        names = broadcast(mask, names).astype(np.int64) & _ALL_LANES
        if np.any(names & bit == 0):
            who = int(numbers[np.argmax(names & bit == 0)])
            raise LaunchError(f"{lanes.name_of(who)} calls a warp function with a mask that lacks it")
        one = names.min() == names.max()
        group = warp if one else np.unique(warp * 2**WARP + names, return_inverse=True)[1]
        if mask.count < alive.count:
            there = np.bincount(lanes.warp[alive.on], 2.0 ** lanes.lane[alive.on]).astype(np.int64)
            here = np.bincount(group, bit).astype(np.int64)
            if np.any(names & there[warp] & ~here[group]):
                raise Unsupported("a warp function that a part of a mask misses")
        return group

    def syncwarp(self, mask: Mask, names: Any = np.int64(-1)) -> None:  # noqa: B008 -- a number
        """Refuse if a lane that a mask names misses the barrier."""
        self.groups(mask, names)

    def shuffle(self, name: str, mask: Mask, names: Any, value: Any, by: Any, *_: Any) -> Any:
        """Return the value of another lane; from outside the warp its own, and from one that is absent no number."""
        lanes = self.lanes
        group = np.full(lanes.size, -1)
        group[mask.numbers] = self.groups(mask, names)
        source = SHUFFLES[name](lanes.lane, by)
        inside = (source >= 0) & (source < WARP)
        other = lanes.number + np.where(inside, source - lanes.lane, 0)
        beyond = other >= (lanes.block + 1) * lanes.in_block
        other = np.where(beyond, lanes.number, other)
        values = np.broadcast_to(value, lanes.size)
        return np.where(beyond | (group[other] != group), poison(values.dtype), values[other]).astype(values.dtype)

    def warp_vote(self, name: str, mask: Mask, names: Any, value: Any) -> Any:
        """Return what the lanes that give one mask find together."""
        group, values = self.groups(mask, names), broadcast(mask, value)
        true = truth(values)
        if name == "eq_sync":
            first = np.empty(int(group.max()) + 1, values.dtype)
            first[group] = values
            found = np.bincount(group, first[group] != values) == 0
        elif name == "ballot_sync":
            found = np.bincount(group, true * 2.0 ** self.lanes.lane[mask.numbers]).astype(np.int64)
        else:
            counts = np.bincount(group, true)
            found = counts > 0 if name == "any_sync" else counts == np.bincount(group)
        return spread(mask, found[group])

    def block_vote(self, name: str, mask: Mask, value: Any) -> Any:
        """Return what the threads of a block find together."""
        self.syncthreads(mask)
        lanes = self.lanes
        block, true = lanes.block[mask.on], truth(broadcast(mask, value))
        counts = np.bincount(block, true, lanes.count).astype(np.int64)
        if name != "syncthreads_count":
            whole = np.bincount(block, minlength=lanes.count)
            counts = (counts > 0 if name == "syncthreads_or" else counts == whole).astype(np.int64)
        return counts[lanes.block]

    def activemask(self, mask: Mask) -> Any:
        """Return the lanes of each warp that take part, as a mask."""
        lanes = self.lanes
        names = np.bincount(lanes.warp[mask.on], 2.0 ** lanes.lane[mask.on], int(lanes.warp[-1]) + 1)
        return names.astype(np.uint32)[lanes.warp]

    def match(self, name: str, mask: Mask, names: Any, value: Any) -> Any:
        """Return the lanes with the same bits, among those that give one mask; of all also whether they are all."""
        group, values = self.groups(mask, names), broadcast(mask, value)
        lanes = 2.0 ** self.lanes.lane[mask.numbers]
        bits, kind = np.unique(values.copy().view(f"u{values.itemsize}"), return_inverse=True)
        alike = np.unique(group * bits.size + kind, return_inverse=True)[1]
        found, every = (np.bincount(each, lanes)[each].astype(np.uint32) for each in (alike, group))
        whole = found == every
        result = spread(mask, np.where(whole | (name == "match_any_sync"), found, 0).astype(np.uint32).view(np.int32))
        return result if name == "match_any_sync" else (result, spread(mask, whole))
