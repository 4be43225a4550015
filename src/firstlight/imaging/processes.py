"""The processes of one job, on one computer or on many: torchrun starts them, torch.distributed joins them.

Where each has a GPU, NCCL adds up what is large; all the rest goes through gloo, which says who is missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from firstlight.devices import best_device

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

T = TypeVar("T")

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")  # that torchrun sets
CPU = torch.device("cpu")
MINUTES = 10  # to wait for the others


class LostProcessError(RuntimeError):
    """Another process of the job has died, or is too slow.

    Examples
    --------
    >>> from firstlight.imaging import processes
    >>> with processes() as group:
    ...     try:
    ...         total = group.sum(torch.ones(1))
    ...     except LostProcessError:
    ...         print("start the job again: a process is gone")
    """


@dataclass(frozen=True, eq=False)
class Group:
    """The processes that work together, as one of them sees it; by default this one alone.

    Attributes
    ----------
    rank, size
        The number of this process, from 0, and how many there are.
    device
        Where this one computes.
    timeout
        For how many seconds it waits for the others before it gives up.

    Examples
    --------
    >>> Group(rank=1, size=3).share(7)  # of seven channels: three, two and two
    slice(3, 5, None)
    """

    rank: int = 0
    size: int = 1
    device: torch.device = CPU
    timeout: float = 60.0 * MINUTES
    cubes: ProcessGroup | None = None
    messages: ProcessGroup | None = None

    @property
    def first(self) -> bool:
        """Whether this is the process that speaks and writes for all."""
        return self.rank == 0

    def share(self, n: int) -> slice:
        """Give this process's part of n channels, or of n visibilities; it is empty where there are too few."""
        each, more = divmod(n, self.size)
        start = self.rank * each + min(self.rank, more)
        return slice(start, start + each + (self.rank < more))

    def sum(self, tensor: Tensor) -> Tensor:
        """Add up a tensor of each process, perhaps in place."""
        if self.size == 1:
            return tensor
        total = tensor.to(self.device).contiguous()
        with self.meeting():
            dist.all_reduce(total, group=self.cubes)
        return total.to(tensor.device)

    def whole(self, own: Tensor) -> Tensor:
        """Put the channels of all processes into one cube, for each of them."""
        if self.size == 1:
            return own
        total = sum(self.collect(len(own)))
        cube = own.new_zeros(total, *own.shape[1:])
        cube[self.share(total)] = own
        return self.sum(cube)

    def collect(self, value: T) -> list[T]:
        """Give what each process has, to all, in their order."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with self.meeting():
            dist.all_gather_object(values, value, group=self.messages)
        return values

    def collect_first(self, value: T) -> list[T]:
        """Give what each process has to the first one, and nothing to the others."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size if self.first else []
        with self.meeting():
            dist.gather_object(value, values if self.first else None, dst=0, group=self.messages)
        return values

    def from_first(self, make: Callable[[], T]) -> T:
        """Let the first process make something for all; what it raises, all raise."""
        if self.size == 1:
            return make()
        box: list[Any] = [None, None]
        if self.first:
            try:
                box[0] = make()
            except Exception as error:
                box[1] = error
        with self.meeting():
            dist.broadcast_object_list(box, src=0, group=self.messages)
        result, raised = box
        if raised is not None:
            raise raised
        made: T = result
        return made

    def numbers(self, own: Tensor) -> Tensor:
        """Give the number that each process has, to all, in their order: whoever adds them up gets the same bits."""
        if self.size == 1:
            return own.reshape(1)
        mine = own.detach().reshape(1).cpu().double()
        each = [torch.empty_like(mine) for _ in range(self.size)]
        with self.patience():
            dist.all_gather(each, mine, group=self.messages)
        return torch.cat(each)

    @contextmanager
    def meeting(self) -> Iterator[None]:
        """Wait until all are here, or say who is not; then let them exchange something."""
        with self.patience():
            dist.monitored_barrier(self.messages, timedelta(seconds=self.timeout))
            yield

    @contextmanager
    def patience(self) -> Iterator[None]:
        """Say in plain words that others did not come, or went."""
        try:
            yield
        except RuntimeError as error:
            raise LostProcessError(
                f"process {self.rank} of {self.size} has lost another one, which died or kept it waiting for "
                f"{self.timeout:g} s: see what the others say. The last checkpoint is whole: start the job again with "
                f"resume=True, or with a longer timeout if one of the computers is slow. ({brief(error)})"
            ) from error


@contextmanager
def processes(*, timeout: float = 60.0 * MINUTES, backend: str | None = None) -> Iterator[Group]:
    """Join the processes that torchrun has started, and part from them at the end.

    A program that torchrun has not started is a group of one, and needs no network. On one computer, start several by
    ``torchrun --standalone --nproc-per-node 4 program.py``, which finds a free port; a ``--master-port`` that another
    job has ends torchrun itself, with ``EADDRINUSE``.

    Parameters
    ----------
    timeout
        For how many seconds to wait for the others: to come, and later to get as far. Of one that takes longer, all
        despair, and the job ends.
    backend
        ``"nccl"`` or ``"gloo"``; by default NCCL where each process has a GPU of its own, and gloo elsewhere.

    Examples
    --------
    >>> with processes() as group:
    ...     group.rank, group.size, group.share(5)
    (0, 1, slice(0, 5, None))
    """
    if not timeout > 0:
        raise ValueError(f"timeout must be a positive number of seconds; got {timeout!r}")
    rank, size, local_rank = started()
    if size == 1:
        yield Group(device=best_device())
        return
    device = own_device(local_rank)
    name = backend or ("nccl" if device.type == "cuda" else "gloo")
    check_backend(name, device)
    span = timedelta(seconds=timeout)
    try:
        try:
            dist.init_process_group(name, rank=rank, world_size=size, timeout=span)
            cubes = dist.group.WORLD
            messages = cubes if name == "gloo" else dist.new_group(backend="gloo", timeout=span)
            group = Group(rank, size, device, timeout, cubes, messages)
        except (RuntimeError, ValueError) as error:
            raise RuntimeError(why_not_joined(error, rank, size, timeout)) from error
        yield group
        with group.meeting():
            pass  # nobody hangs up on those who still talk
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def started() -> tuple[int, int, int]:
    """Read the rank, the number of processes and the rank on this computer from torchrun's variables."""
    missing = [name for name in VARIABLES if name not in os.environ]
    if len(missing) == len(VARIABLES):
        return 0, 1, 0
    if missing:
        raise RuntimeError(
            f"of torchrun's variables, {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set, but others "
            "are: start the program with torchrun, or set all five, or none to run as one process."
        )
    values = [os.environ[name] for name in VARIABLES[:3]]
    if not all(value.isdecimal() for value in values):
        raise RuntimeError(f"{', '.join(VARIABLES[:3])} should be whole numbers; they are {', '.join(values)}.")
    rank, size, local_rank = map(int, values)
    if rank >= size:
        raise RuntimeError(f"RANK is {rank}, and should be from 0 to {size - 1}, as WORLD_SIZE is {size}.")
    return rank, size, local_rank


def own_device(local_rank: int) -> torch.device:
    """Choose a GPU of its own for each process of this computer, or the CPU."""
    if best_device().type != "cuda":
        return torch.device("cpu")
    gpus = torch.cuda.device_count()
    if local_rank >= gpus:
        raise RuntimeError(
            f"this is process {local_rank + 1} on this computer, which has {gpus} GPUs: give torchrun "
            f"--nproc-per-node {gpus}, or set FIRSTLIGHT_DEVICE=cpu to leave them alone."
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def check_backend(name: str, device: torch.device) -> None:
    """Refuse what this PyTorch does not have, or this device cannot use."""
    have = [known for known in ("gloo", "nccl") if dist.is_available() and dist.is_backend_available(known)]
    needed = {name, "gloo"}
    if not needed <= set(have):
        raise RuntimeError(
            f"this PyTorch has no {' and no '.join(sorted(needed - set(have)))} to join processes by; it has "
            f"{' and '.join(have) or 'nothing'}. Install one for your system (for NCCL, one for CUDA on Linux), give "
            "another backend, or start the program without torchrun."
        )
    if name == "nccl" and device.type != "cuda":
        raise RuntimeError("NCCL joins GPUs, and this process has none: leave the backend out, or give 'gloo'.")


def why_not_joined(error: Exception, rank: int, size: int, timeout: float) -> str:
    """Say what kept the processes from meeting."""
    address, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    if "EADDRINUSE" in str(error):
        return (
            f"port {port} of {address} is in use, by another job or by one that has not ended: give another one "
            f"(MASTER_PORT, or torchrun --master-port), or let torchrun --standalone find one. ({brief(error)})"
        )
    return (
        f"process {rank} of {size} has waited for {timeout:g} s, and not all have met at {address}, port {port}: start "
        "as many as WORLD_SIZE says, look for what the others say, and see that they reach that address (gloo takes "
        f"the network that GLOO_SOCKET_IFNAME names). ({brief(error)})"
    )


def brief(error: Exception) -> str:
    """Give the first line of a message."""
    return str(error).strip().partition("\n")[0]
