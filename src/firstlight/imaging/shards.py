"""A fit in shards: what it takes to have one, and how states and curves are put together and taken apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from firstlight.imaging.losses import TSV, TV_image, edge_clamp, entropy, sparsity
from firstlight.imaging.processes import Group

SUMS = (sparsity, TV_image, TSV, entropy, edge_clamp)  # regularizers that are sums over channels
SHARDED = ("model", "method", "best", "reference")  # what each process has its own channels of


def check_model(state: Mapping[str, Tensor], nchan: int) -> None:
    """Refuse a model that does more than one process's channels, or in which channels share something."""
    for name, tensor in state.items():
        if not tensor.ndim or len(tensor) != nchan:
            raise ValueError(
                f"the model's {name} has shape {tuple(tensor.shape)}, and should have {nchan} rows, one for each "
                "channel of this process: build the model with nchan=data.nchan, of nothing that channels share"
            )


def check_sums(functions: Mapping[str, Callable[[Tensor], Tensor]], npix: int, like: Tensor) -> None:
    """Refuse regularizers that a process cannot take of its own channels alone."""
    cube = torch.rand(2, npix, npix, generator=torch.Generator().manual_seed(1)).to(like)
    for name, function in functions.items():
        if not is_sum(function, cube):
            raise ValueError(
                f"the regularizer {name!r} is not a sum over channels, and no process has all of them: leave it out, "
                "or fit in one process"
            )


def is_sum(function: Callable[[Tensor], Tensor], cube: Tensor) -> bool:
    """Tell whether a function of a cube of two channels is the sum of what it is of each.

    Of those that this package has, it is known; they may be given with a prior or a mask for each channel.

    Examples
    --------
    >>> from firstlight.imaging.losses import TV_channel
    >>> cube = torch.arange(8.0).reshape(2, 2, 2)
    >>> is_sum(lambda sky: sky.square().sum(), cube), is_sum(TV_channel, cube), is_sum(torch.mean, cube)
    (True, False, False)
    """
    if getattr(function, "func", function) in SUMS:
        return True
    whole, *parts = (float(function(part)) for part in (cube, cube[:1], cube[1:]))
    return math.isclose(whole, sum(parts), rel_tol=1e-5)


def spare(processes: int, channels: int) -> list[str]:
    """Say how many processes have nothing to fit.

    Examples
    --------
    >>> spare(4, 3), spare(4, 4)
    (['1 of 4 processes have no channel, as there are 3: they help to read the visibilities, and wait.'], [])
    """
    if processes <= channels:
        return []
    return [
        f"{processes - channels} of {processes} processes have no channel, as there are {channels}: they help to read "
        "the visibilities, and wait."
    ]


def rows_of_all(parts: Sequence[Tensor], separate: bool) -> Tensor:
    """Put what the curves need together: losses and chi² added up, or side by side if fits are separate; and fluxes.

    Examples
    --------
    >>> rows_of_all([torch.tensor([[3.0, 1.0, 0.5, 0.25]]), torch.tensor([[2.0, 1.0, 0.75]])], separate=False).tolist()
    [[5.0, 2.0, 0.5, 0.25, 0.75]]
    >>> rows_of_all([torch.tensor([[3.0, 1.0, 0.5]]), torch.tensor([[2.0, 1.0, 0.75]])], separate=True).tolist()
    [[3.0, 2.0, 1.0, 1.0, 0.5, 0.75]]
    """
    widths = [part.shape[1] // 3 if separate else 1 for part in parts]
    loss = [part[:, :n] for part, n in zip(parts, widths, strict=True)]
    chi2 = [part[:, n : 2 * n] for part, n in zip(parts, widths, strict=True)]
    flux = [part[:, 2 * n :] for part, n in zip(parts, widths, strict=True)]
    if not separate:
        loss, chi2 = [torch.stack(loss).sum(0)], [torch.stack(chi2).sum(0)]
    return torch.cat(loss + chi2 + flux, dim=1)


def state_of_all(group: Group, state: dict[str, Any]) -> dict[str, Any]:
    """Give the first process the state of the fit with the channels of all."""
    if group.size == 1:
        return state
    parts = group.collect_first(on_host({name: state[name] for name in SHARDED if name in state}))
    return state | joined(parts) if group.first else state


def own_state(group: Group, state: dict[str, Any], nchan: int) -> dict[str, Any]:
    """Take the channels of one process out of such a state, whoever wrote it; it makes its likelihood anew."""
    if group.size == 1:
        return state
    state.pop("likelihood", None)
    return state | {name: taken(state[name], group.share(nchan), nchan) for name in SHARDED if name in state}


def joined(parts: Sequence[Any]) -> Any:
    """Make one state, of all channels, of the states of all processes.

    Examples
    --------
    >>> joined([{"step": 3, "mean": torch.ones(2)}, {"step": 3, "mean": torch.zeros(1)}])
    {'step': 3, 'mean': tensor([1., 1., 0.])}
    """
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(list(parts)) if first.ndim else first
    if isinstance(first, dict):
        return {name: joined([part[name] for part in parts]) for name in first}
    if isinstance(first, list):
        return [joined(items) for items in zip(*parts, strict=True)]
    return first


def taken(state: Any, mine: slice, nchan: int) -> Any:
    """Take one process's channels out of the state of all.

    Examples
    --------
    >>> taken({"step": 3, "mean": torch.tensor([1.0, 1.0, 0.0])}, slice(1, 3), 3)
    {'step': 3, 'mean': tensor([1., 0.])}
    """
    if isinstance(state, Tensor) and state.ndim:
        each = len(state) // nchan  # what is flat has many numbers a channel
        return state[mine.start * each : mine.stop * each].clone()
    if isinstance(state, dict):
        return {name: taken(value, mine, nchan) for name, value in state.items()}
    return [taken(value, mine, nchan) for value in state] if isinstance(state, list) else state


def on_host(state: Any) -> Any:
    """Copy tensors to the CPU, as plain ones that another process can read."""
    if isinstance(state, Tensor):
        return state.detach().cpu().as_subclass(Tensor)
    if isinstance(state, dict):
        return {name: on_host(value) for name, value in state.items()}
    return [on_host(value) for value in state] if isinstance(state, list) else state
