"""The processes of one job, on one computer or on many: torchrun starts them, torch.distributed joins them.

Channels do not depend on each other, nor do folds, nor strengths of a regularizer. So each process makes fits of its
own, as if it were alone, and what they found is collected at the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from firstlight.devices import best_device

T = TypeVar("T")
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Group:
    """The processes that work together, as one of them sees it; by default this one alone.

    Attributes
    ----------
    rank, size
        The number of this process, from 0, and how many there are.
    device
        Where this one computes.

    Examples
    --------
    >>> Group(rank=1, size=3).share(["a", "b", "c", "d", "e"])
    ['b', 'e']
    """

    rank: int = 0
    size: int = 1
    device: torch.device = CPU

    def share(self, parts: Sequence[T]) -> Sequence[T]:
        """Return this process's parts of the work; none, if there are fewer than processes."""
        return parts[self.rank :: self.size]

    def collect(self, value: T) -> list[T]:
        """Return what each process has, to all, in the order of their ranks; whoever is early waits."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        try:
            dist.all_gather_object(values, value)
        except RuntimeError as error:
            raise RuntimeError(
                f"process {self.rank} of {self.size} has lost another one, which died or kept it waiting for too long: "
                f"see what the others say, and start the job again. ({str(error).splitlines()[0]})"
            ) from error
        return values


@contextmanager
def processes(*, timeout: float = 3600.0) -> Iterator[Group]:
    """Join the processes that torchrun has started, and part from them at the end.

    A program that torchrun has not started is a group of one, and needs no network. On one computer, start several by
    ``torchrun --standalone --nproc-per-node 4 program.py``, which finds a free port.

    Parameters
    ----------
    timeout
        For how many seconds to wait for the others: to come, and later to bring what they found.

    Examples
    --------
    >>> with processes() as group:
    ...     group.rank, group.size, group.collect("found")
    (0, 1, ['found'])
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Group(device=best_device())
        return
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))  # between hosts: no fit sends anything
    try:
        yield Group(dist.get_rank(), dist.get_world_size(), own_device(int(os.environ.get("LOCAL_RANK", "0"))))
    finally:
        dist.destroy_process_group()


def own_device(local_rank: int) -> torch.device:
    """Choose a GPU of its own for each process of this computer, or the CPU."""
    if best_device().type != "cuda":
        return CPU
    gpus = torch.cuda.device_count()
    if local_rank >= gpus:
        raise RuntimeError(
            f"this is process {local_rank + 1} on this computer, which has {gpus} GPUs: give torchrun "
            f"--nproc-per-node {gpus}, or set FIRSTLIGHT_DEVICE=cpu to leave them alone."
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)
