"""Steps of an optimizer between two checks, each with a row for the curves."""

from __future__ import annotations

import sys
from contextlib import suppress

import torch
from torch import Tensor

from firstlight.imaging.objective import Model, Objective

LEARNING_RATE = {"adam": 0.5, "lbfgs": 1.0}
MEMORY = 20  # steps that L-BFGS remembers to guess the curvature from


class Adam:
    """Steps of Adam, without a word to the host: its fused form keeps even the number of steps on the device."""

    def __init__(self, model: Model, lr: float | None) -> None:
        self.lr = LEARNING_RATE["adam"] if lr is None else lr
        self.optimizer = torch.optim.Adam(model.parameters(), lr=self.lr, fused=True)

    def steps(self, objective: Objective, n: int) -> list[Tensor]:
        """Make n steps; give a row of the curves for each."""
        if objective.fused:
            return [objective.fused.step(self.optimizer) for _ in range(n)]
        rows = []
        for _ in range(n):
            self.optimizer.zero_grad()
            loss, row = objective.loss_and_row()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            rows.append(row)
        return rows


class LBFGS:
    """Steps of L-BFGS. Its line search reads every loss; our checks alone decide when it is done."""

    def __init__(self, model: Model, lr: float | None) -> None:
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
        rows = []

        def closure() -> Tensor:
            self.optimizer.zero_grad()
            loss, row = objective.loss_and_row()
            loss.backward()  # type: ignore[no-untyped-call]
            rows.append(row)
            if not loss.isfinite():  # of which the line search would make steps of 1e39
                raise FloatingPointError
            return loss

        self.optimizer.param_groups[0].update(max_iter=n, max_eval=sys.maxsize)
        with suppress(FloatingPointError):
            self.optimizer.step(closure)  # type: ignore[arg-type]
        return rows
