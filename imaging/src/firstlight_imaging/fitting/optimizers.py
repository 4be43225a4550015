"""Adam and L-BFGS: iterations between two checks of a fit, each with a row of its curves."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor, nn

from firstlight_imaging.fitting.objective import Objective

LEARNING_RATE = {"adam": 0.5, "lbfgs": 1.0}
_HISTORY = 20  # iterations from which L-BFGS estimates the curvature


def check_options(optimizer: str, lr: float | None, max_iter: int, tolerance: float | None, check_every: int) -> None:
    """Raise an error for options that make no fit, before anything runs."""
    if optimizer not in LEARNING_RATE:
        raise ValueError(f"optimizer must be one of {', '.join(map(repr, LEARNING_RATE))}; got {optimizer!r}")
    if lr is not None and not (math.isfinite(lr) and lr > 0):
        raise ValueError(f"lr must be a positive number, or None for the usual one; got {lr!r}")
    for name, value in (("max_iter", max_iter), ("check_every", check_every)):
        if value < 1:
            raise ValueError(f"{name} must be 1 or more; got {value!r}")
    if tolerance is not None and not tolerance >= 0:
        raise ValueError(f"tolerance must be zero or more, or None to go on until max_iter; got {tolerance!r}")


class Adam:
    """Iterations of Adam during which the host waits for nothing: its fused form counts even the steps on the device.

    On a GPU the first iteration is captured in a CUDA graph; from then on, one launch makes an iteration.

    Examples
    --------
    >>> from firstlight_imaging import GridCoords, GriddedDataset, GriddedNet
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
        """Make n iterations; return a row of the curves for each."""
        rows = []
        if self.graph and objective.fused_step:
            objective.fused_step.data.refresh()  # a graph reads the arrays it was captured with
        for _ in range(n):
            if self.graph:
                self.graph.replay()
            else:
                self._step(objective)
            rows.append(self.row.clone())
            if self.to_capture and objective.fused_step:
                self._capture(objective)
        return rows

    def _step(self, objective: Objective) -> None:
        """Make one iteration."""
        self.row = objective.value_and_grad()
        self.update()
        if objective.fused_step and self.update == self.optimizer.step:  # whose first step has made its state
            self.update = objective.fused_step.adam_update(self.optimizer)

    def _capture(self, objective: Objective) -> None:
        """Capture an iteration in a CUDA graph, where that can be done."""
        self.to_capture, graph = False, torch.cuda.CUDAGraph()
        try:
            with torch.cuda.device(self.row.device), torch.cuda.graph(graph):
                self._step(objective)
        except Exception as error:  # whatever a driver has against it, the fit itself can go on
            objective.notes.append(
                f"The step was not captured in a CUDA graph, and is launched anew each time: {error}"
            )
        else:
            self.graph = graph


class LBFGS:
    """Iterations of L-BFGS with a strong Wolfe line search. It reads every loss; our checks alone decide when to stop.

    PyTorch's takes gradients for zero that are small as numbers, whatever their unit, and its first step is short too:
    of dark pixels, float32 cannot tell the two losses apart, and the line search fails. So the loss is divided by the
    largest component of its gradient at the start, and the first step moves that parameter by ``lr``.

    Examples
    --------
    >>> from firstlight_imaging import GridCoords, GriddedDataset, GriddedNet
    >>> coords, ones = GridCoords(cell_size=0.1, npix=8), torch.ones(1, 8, 8)
    >>> data = GriddedDataset(coords=coords, vis_gridded=ones + 0j, weight_gridded=ones, mask=ones.bool())
    >>> model = GriddedNet(coords)
    >>> rows = LBFGS(model, lr=None).steps(Objective(model, data, {}, "gridded"), 5)
    >>> bool(rows[-1][0] < rows[0][0])  # the loss
    True
    """

    def __init__(self, model: nn.Module, lr: float | None) -> None:
        self.lr = LEARNING_RATE["lbfgs"] if lr is None else lr
        self.optimizer: torch.optim.Optimizer = torch.optim.LBFGS(
            model.parameters(),
            lr=self.lr,
            history_size=_HISTORY,
            tolerance_grad=0,
            tolerance_change=0,
            line_search_fn="strong_wolfe",
        )

    def steps(self, objective: Objective, n: int) -> list[Tensor]:
        """Make up to n iterations; return a row of the curves for each evaluation of the loss."""
        rows: list[Tensor] = []
        group = self.optimizer.param_groups[0]

        def closure() -> Tensor:
            row = objective.value_and_grad()
            rows.append(row)
            loss = row[: objective.nfits].sum()
            if not loss.isfinite():  # of which the line search would make steps of 1e39
                raise FloatingPointError
            gradients = [parameter.grad for parameter in group["params"] if parameter.grad is not None]
            if "scale" not in group:
                group["scale"] = float(max(gradient.abs().max() for gradient in gradients)) or 1.0
                group["lr"] = self.lr * float(sum(gradient.abs().sum() for gradient in gradients)) / group["scale"]
            for tensor in (loss, *gradients):
                tensor /= group["scale"]
            return loss

        with suppress(FloatingPointError):
            if "scale" not in group:
                closure()
                self._step(closure, 1)
                n -= 1
            group["lr"] = self.lr
            if n:
                self._step(closure, n)
        return rows

    def _step(self, closure: Callable[[], Tensor], n: int) -> None:
        """Make up to n iterations, of at most four evaluations each: a line search that fails in float32 takes 25."""
        self.optimizer.param_groups[0].update(max_iter=n, max_eval=4 * n)
        self.optimizer.step(closure)  # type: ignore[arg-type]
