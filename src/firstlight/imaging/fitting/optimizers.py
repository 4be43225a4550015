"""Steps of an optimizer between two checks, each with a row for the curves."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor, nn

from firstlight.imaging.fitting.objective import Objective

LEARNING_RATE = {"adam": 0.5, "lbfgs": 1.0}
MEMORY = 20  # steps that L-BFGS remembers to guess the curvature from


def check_options(
    optimizer: str,
    lr: float | None,
    max_iter: int,
    tolerance: float | None,
    check_every: int,
    checkpoint: str | Path | None,
    resume: bool,
) -> None:
    """Refuse what makes no fit, before anything runs."""
    if optimizer not in LEARNING_RATE:
        raise ValueError(f"optimizer must be one of {', '.join(map(repr, LEARNING_RATE))}; got {optimizer!r}")
    if lr is not None and not (math.isfinite(lr) and lr > 0):
        raise ValueError(f"lr must be a positive number, or None for the usual one; got {lr!r}")
    for name, value in (("max_iter", max_iter), ("check_every", check_every)):
        if value < 1:
            raise ValueError(f"{name} must be 1 or more; got {value!r}")
    if tolerance is not None and not tolerance >= 0:
        raise ValueError(f"tolerance must be zero or more, or None to go on until max_iter; got {tolerance!r}")
    if resume and checkpoint is None:
        raise ValueError("resume=True needs the checkpoint to resume from: give its path")


class Adam:
    """Steps of Adam, without a word to the host: its fused form keeps even the number of steps on the device.

    On a GPU the first step is made as any, and captured in a graph; from then on, one launch makes a step.

    Examples
    --------
    >>> from firstlight.imaging import GridCoords, GriddedDataset, GriddedNet
    >>> coords, ones = GridCoords(cell_size=0.1, npix=8), torch.ones(1, 8, 8)
    >>> data = GriddedDataset(coords=coords, vis_gridded=ones + 0j, weight_gridded=ones, mask=ones.bool())
    >>> model = GriddedNet(coords)
    >>> rows = Adam(model, lr=0.1).steps(Objective(model, data, {}, "gridded"), 2)
    >>> [len(row) for row in rows]  # the loss, chi² and the flux
    [3, 3]
    """

    def __init__(self, model: nn.Module, lr: float | None) -> None:
        self.lr = LEARNING_RATE["adam"] if lr is None else lr
        self.to_capture = any(parameter.is_cuda for parameter in model.parameters())
        self.optimizer = torch.optim.Adam(model.parameters(), lr=self.lr, fused=True, capturable=self.to_capture)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.row = torch.empty(0)
        self.update: Callable[[], object] = self.optimizer.step

    def steps(self, objective: Objective, n: int) -> list[Tensor]:
        """Make n steps; give a row of the curves for each."""
        rows = []
        if self.graph and objective.step:
            objective.step.data.refresh()  # a graph sees what is in its arrays, not what takes their place
        for _ in range(n):
            if self.graph:
                self.graph.replay()
            else:
                self.step(objective)
            rows.append(self.row.clone())
            if self.to_capture and objective.step:
                self.capture(objective)
        return rows

    def step(self, objective: Objective) -> None:
        """Make one."""
        self.row = objective.differentiate()
        self.bind(objective)
        self.update()
        self.bind(objective)

    def bind(self, objective: Objective) -> None:
        """Have further steps made by a pass, in the state that the first has made, or one before it was resumed."""
        if objective.step and self.optimizer.state and self.update == self.optimizer.step:
            self.update = objective.step.updates(self.optimizer)

    def capture(self, objective: Objective) -> None:
        """Have further steps made by one launch, where that can be done."""
        self.to_capture, graph = False, torch.cuda.CUDAGraph()
        try:
            with torch.cuda.device(self.row.device), torch.cuda.graph(graph):
                self.step(objective)
        except Exception as error:  # whatever a driver has against it, the fit itself can go on
            objective.notes.append(f"The step was not captured, and goes launch by launch: {error}")
        else:
            self.graph = graph


class LBFGS:
    """Steps of L-BFGS. Its line search reads every loss; our checks alone decide when it is done.

    PyTorch's takes slopes for zero that are small as numbers, whatever their unit, and a first step as short: of dark
    pixels float32 tells no such step from none, and is lost. So the loss is divided by its largest slope at the start,
    and the first step moves that parameter by ``lr``.
    """

    def __init__(self, model: nn.Module, lr: float | None) -> None:
        self.lr = LEARNING_RATE["lbfgs"] if lr is None else lr
        self.optimizer: torch.optim.Optimizer = torch.optim.LBFGS(
            model.parameters(),
            lr=self.lr,
            history_size=MEMORY,
            tolerance_grad=0,
            tolerance_change=0,
            line_search_fn="strong_wolfe",
        )

    def steps(self, objective: Objective, n: int) -> list[Tensor]:
        """Make up to n steps; give a row of the curves for each loss taken."""
        rows: list[Tensor] = []
        group = self.optimizer.param_groups[0]

        def closure() -> Tensor:
            row = objective.differentiate()
            rows.append(row)
            loss = row[: objective.fits].sum()
            if not loss.isfinite():  # of which the line search would make steps of 1e39
                raise FloatingPointError
            slopes = [parameter.grad for parameter in group["params"] if parameter.grad is not None]
            if "unit" not in group:
                group["unit"] = float(max(slope.abs().max() for slope in slopes)) or 1.0
                group["lr"] = self.lr * float(sum(slope.abs().sum() for slope in slopes)) / group["unit"]
            for whole in (loss, *slopes):
                whole /= group["unit"]
            return loss

        with suppress(FloatingPointError):
            if "unit" not in group:
                closure()
                self.step(closure, 1)
                n -= 1
            group["lr"] = self.lr
            if n:
                self.step(closure, n)
        return rows

    def step(self, closure: Callable[[], Tensor], n: int) -> None:
        """Make up to n steps, with at most four looks each: a line search that is lost in float32 would take 25."""
        self.optimizer.param_groups[0].update(max_iter=n, max_eval=4 * n)
        self.optimizer.step(closure)  # type: ignore[arg-type]
