"""Loss, gradient and step of a fit on the CPU in a few passes, for the usual model and the usual losses.

The modules of this package say what is computed, and autograd what follows from it; here the same is done by hand, an
order of magnitude faster: softplus and smoothing in one pass, the data with one pair of real FFTs, and regularizers,
gradient and Adam in one more pass. The tests compare the two forms.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TextIO

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from firstlight.imaging import fused_kernels as kernels
from firstlight.imaging.coordinates import GridCoords
from firstlight.imaging.datasets import GriddedDataset
from firstlight.imaging.exact import ExactLikelihood
from firstlight.imaging.fused_columns import factors
from firstlight.imaging.fused_compiler import run, telling
from firstlight.imaging.fused_data import Cells, Pixels
from firstlight.imaging.losses import TV_image, entropy, sparsity
from firstlight.imaging.objective import Objective
from firstlight.imaging.precomposed import GriddedNet

SETTINGS: dict[Callable[..., Tensor], set[str]] = {
    sparsity: set(),
    TV_image: {"epsilon"},
    entropy: {"prior", "tot_flux"},
}


class Terms(NamedTuple):
    """What sparsity, total variation and entropy are called in a loss, None where it has not got them; and numbers."""

    names: tuple[str | None, ...]
    epsilon: float = 1e-10
    prior: float = 1.0
    tot_flux: float = 10.0


def usual_terms(functions: Mapping[str, Callable[[Tensor], Tensor]]) -> Terms | None:
    """Read the usual regularizers, each given alone or as a ``partial`` with numbers; None if there are others.

    Examples
    --------
    >>> usual_terms({"tv": TV_image, "order": partial(entropy, prior=0.1)})
    Terms(names=(None, 'tv', 'order'), epsilon=1e-10, prior=0.1, tot_flux=10.0)
    >>> usual_terms({"mine": lambda sky: sky.sum()})
    """
    names: dict[Any, str] = {}
    settings: dict[str, float] = {}
    for name, function in functions.items():
        keywords = function.keywords if isinstance(function, partial) and not function.args else {}
        core = getattr(function, "func", function)
        numbers = all(isinstance(value, int | float) for value in keywords.values())
        if core not in SETTINGS or core in names or not numbers or not keywords.keys() <= SETTINGS[core]:
            return None
        if core is entropy and not keywords.get("prior", 0) > 0:
            return None
        names[core] = name
        settings |= keywords
    return Terms(tuple(names.get(core) for core in SETTINGS), **settings)


def suits(objective: Objective) -> bool:
    """Tell whether an objective has a fused form."""
    model, data = objective.model, objective.data
    if type(model) is not GriddedNet or model.bcube.pixel_mapping is not functional.softplus:
        return False
    if isinstance(data, ExactLikelihood):
        usual, length = data.beam is None and data.reference.dtype == model.bcube.base_cube.dtype, data.width
    else:
        usual, length = True, data.coords.npix
    return (
        usual
        and bool(factors(length))
        and all(tensor.device.type == "cpu" for tensor in (*model.parameters(), *data.buffers()))
        and model.bcube.base_cube.dtype in (torch.float32, torch.float64)
        and usual_terms(objective.functions) is not None
    )


class Fused:
    """The loss of an objective that `suits`, its gradient, and Adam's step; ``tell`` hears of compilations.

    Examples
    --------
    >>> from firstlight.imaging import GridCoords
    >>> coords, ones = GridCoords(cell_size=0.1, npix=8), torch.ones(1, 8, 8)
    >>> data = GriddedDataset(coords=coords, vis_gridded=ones, weight_gridded=ones, mask=ones.bool())
    >>> objective = Objective(GriddedNet(coords), data, {"sparsity": (1e-2, sparsity)}, "gridded")
    >>> fused = Fused(objective)
    >>> loss, _ = fused.loss_and_row()  # for any of torch's optimizers
    >>> loss.backward()
    >>> optimizer = torch.optim.Adam(objective.model.parameters(), lr=0.1)
    >>> rows = [fused.step(optimizer) for _ in range(3)]  # or Adam's step at once
    >>> bool(rows[0][0] == loss), bool(rows[2][0] < loss)
    (True, True)
    """

    def __init__(self, objective: Objective, tell: TextIO | None = None) -> None:
        terms = usual_terms(objective.functions)
        if terms is None or not suits(objective):
            raise ValueError(
                "this fit has no fused form: that takes a GriddedNet of float32 or float64 on the CPU, of a width "
                "without prime factors above 5; data without a primary beam; and no other losses than sparsity, "
                "TV_image and entropy with a number as its prior, each once"
            )
        self.parameter: Tensor = objective.model.bcube.base_cube  # type: ignore[attr-defined]
        self.image = torch.empty_like(self.parameter.detach())
        self.pixels, self.bend = self.image.numpy(), np.empty_like(self.image.numpy())
        self.separate = objective.separate or len(self.image) == 1
        self.area = objective.coords.cell_size**2
        data = objective.data
        self.data = (
            Cells(data, self.image, None if objective.separate else objective.ncell)
            if isinstance(data, GriddedDataset)
            else Pixels(data, self.image, objective.nvis)
        )
        self.has = np.array([name is not None for name in terms.names])
        self.strengths = np.zeros((len(self.image), 3))
        for column, name in enumerate(terms.names):
            if name is not None:
                self.strengths[:, column] = objective.strengths[name]
        self.strengths[:, 2] /= terms.tot_flux
        real = self.pixels.dtype.type
        rules = (terms.epsilon, terms.prior, torch.finfo(self.image.dtype).eps)
        self.rules = self.strengths.astype(real), np.array(rules, real)
        self.sums = np.zeros((kernels.blocks(self.image), 4))
        with telling(tell):
            self.evaluate(self.image, self.image, self.image, (0.0,) * 5)

    def loss_and_row(self) -> tuple[Tensor, Tensor]:
        """Take the loss, with its gradient at hand, and what the curves need: loss, chi² and flux."""
        loss, row = FusedLoss.apply(self.parameter, self)  # type: ignore[no-untyped-call]
        return loss, row

    def step(self, optimizer: torch.optim.Adam) -> Tensor:
        """Make the optimizer's next step, on its own averages; give the row of `loss_and_row`."""
        group, state = optimizer.param_groups[0], optimizer.state[self.parameter]
        if not state:
            zeros = (torch.zeros_like(self.parameter, memory_format=torch.preserve_format) for _ in range(2))
            state.update(step=torch.zeros(()), **dict(zip(("exp_avg", "exp_avg_sq"), zeros, strict=True)))
        state["step"] += 1
        time, (beta1, beta2) = state["step"].item(), group["betas"]
        adam = group["lr"] / (1 - beta1**time), beta1, beta2, 1 / math.sqrt(1 - beta2**time), group["eps"]
        return self.evaluate(self.image, state["exp_avg"], state["exp_avg_sq"], adam)

    def evaluate(self, gradient: Tensor, mean: Tensor, square: Tensor, adam: tuple[float, ...]) -> Tensor:
        """Run the passes: fill the gradient, or step where Adam's numbers are not zero."""
        parameters = self.parameter.detach().numpy()
        run(kernels.image, len(self.sums), parameters, self.pixels, self.bend)
        chi2 = self.data()
        arrays = (tensor.numpy() for tensor in (gradient, mean, square))
        numbers = np.array(adam, self.pixels.dtype)
        run(
            kernels.update,
            len(self.sums),
            self.pixels,
            self.data.slope,
            self.bend,
            parameters,
            self.has,
            *self.rules,
            *arrays,
            numbers,
            self.sums,
        )
        sums = self.sums.reshape(len(self.pixels), -1, 4).sum(1)
        loss = chi2 + (self.strengths * sums[:, 1:]).sum(1)
        if not self.separate:
            loss, chi2 = loss.sum(keepdims=True), chi2.sum(keepdims=True)
        return torch.from_numpy(np.concatenate([loss, chi2, self.area * sums[:, 0]]))


class FusedLoss(torch.autograd.Function):
    """The loss as autograd sees it: its gradient was made with it."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, fused: Fused) -> tuple[Tensor, Tensor]:
        """Keep the gradient."""
        ctx.gradient = torch.empty_like(parameter)
        row = fused.evaluate(ctx.gradient, ctx.gradient, ctx.gradient, (0.0,) * 5)
        ctx.mark_non_differentiable(row)
        return row[: len(fused.image) if fused.separate else 1].sum(), row

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None]:
        """Scale the gradient that is there already."""
        return grad.to(ctx.gradient.dtype) * ctx.gradient, None


def main() -> None:
    """Compile all kernels for float32 and float64, so that no fit has to."""
    u = np.array([0.0, 3e5, 6e5])
    coords, ones = GridCoords(cell_size=0.1, npix=8), torch.ones(1, 8, 8)
    for dtype in (torch.float32, torch.float64):
        model = GriddedNet(coords, base_cube=ones.to(dtype))
        exact = ExactLikelihood(u, u, np.ones(3, complex), np.ones(3), cell_size=0.1, npix=8, dtype=dtype)
        for data in (
            GriddedDataset(coords=coords, vis_gridded=ones + 0j, weight_gridded=ones, mask=ones.bool()),
            exact,
        ):
            Fused(Objective(model, data, {}, "gridded"), sys.stderr)


if __name__ == "__main__":
    main()
