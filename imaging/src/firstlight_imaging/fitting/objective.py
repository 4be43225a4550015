"""The objective of a fit: reduced χ² plus regularizers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from firstlight_imaging._types import Real
from firstlight_imaging.data.datasets import GriddedDataset
from firstlight_imaging.fitting.exact import ExactLikelihood
from firstlight_imaging.model.losses import r_chi_squared_gridded

if TYPE_CHECKING:
    from firstlight_imaging.fitting.fused_step import FusedStep

Strength = float | Sequence[float] | Real | Tensor
Losses = Mapping[str, tuple[Strength, Callable[[Tensor], Tensor]]]
Data = GriddedDataset | ExactLikelihood


class Objective:
    """The loss of a model: reduced χ² plus λ times each regularizer, jointly of all channels, or of each channel.

    The gradient comes from autograd, or from ``fused_step`` where `fit` has put one.

    Examples
    --------
    >>> from firstlight_imaging import GridCoords, GriddedNet
    >>> from firstlight_imaging.model.losses import sparsity
    >>> coords, ones = GridCoords(cell_size=0.1, npix=8), torch.ones(1, 8, 8)
    >>> data = GriddedDataset(coords=coords, vis_gridded=ones + 0j, weight_gridded=ones, mask=ones.bool())
    >>> objective = Objective(GriddedNet(coords), data, {"sparsity": (1e-2, sparsity)}, "gridded")
    >>> sorted(objective.functions), objective.nchan
    (['sparsity'], 1)
    """

    def __init__(self, model: nn.Module, data: Data, losses: Losses, lambdas: str, separate: bool = False) -> None:
        self.model, self.data, self.separate = model, data, separate
        _check_losses(losses)
        self.functions = {name: function for name, (_, function) in losses.items()}
        self.notes: list[str] = []
        self.fused_step: FusedStep | None = None
        self.coords, self.nchan = data.coords, data.nchan
        if lambdas not in ("gridded", "exact"):
            raise ValueError(f"lambdas must be 'gridded' or 'exact'; got {lambdas!r}")
        if lambdas == "exact" and not isinstance(data, ExactLikelihood):
            raise ValueError("lambdas='exact' is for an ExactLikelihood: with cells, give the λ of the gridded loss")
        self.icube: Any = getattr(model, "icube", None)
        if self.icube is None:
            raise TypeError(f"a {type(model).__name__} has no icube to hold its image: see GriddedNet")
        if self.icube.coords != self.coords:
            raise ValueError(f"the model has {self.icube.coords}, and the data {self.coords}: they must agree")
        scale: Real | float = 1.0
        if isinstance(data, ExactLikelihood):
            nvis, ncell = data.counts if separate else (np.asarray(count.sum()) for count in data.counts)
            if not nvis.all():
                where = f"channel {int(np.argmin(nvis))}" if separate else "any channel"
                raise ValueError(f"no visibility of {where} has a weight above zero: there is nothing to fit")
            self.nvis = torch.as_tensor(nvis).to(data.c0.device, data.c0.dtype)
            if lambdas == "gridded" and losses:
                scale = ncell / nvis
                self.notes.append(
                    f"λ of the gridded loss, converted for the exact one: times {_range_text(scale)}, as "
                    f"{_range_text(nvis)} visibilities lie in {_range_text(ncell)} cells."
                )
        else:
            self.ncell = len(data.index)
            if not self.ncell:
                raise ValueError("no cell has data: there is nothing to fit")
        first = next(iter(model.parameters()))
        self.strengths = {
            name: _converted_strength(name, strength, scale, self.nchan if separate else None, first)
            for name, (strength, _) in losses.items()
        }

    def terms(self) -> dict[str, Tensor]:
        """Return the loss, the reduced chi² and each regularizer before its λ."""
        vis = self.model()
        chi2 = self.chi_squared(vis)
        parts = {name: self.regularizer(function) for name, function in self.functions.items()}
        loss = chi2 + sum(self.strengths[name] * part for name, part in parts.items())
        return {"loss": loss, "chi2": chi2} | parts

    def chi_squared(self, vis: Tensor) -> Tensor:
        """Return the reduced chi²: one number, or one for each channel."""
        if isinstance(self.data, ExactLikelihood):
            each = self.data.chi_squared(self.sky)
            return (each if self.separate else each.sum()) / (2 * self.nvis)
        if self.separate:
            return r_chi_squared_per_channel(vis, self.data)
        return r_chi_squared_gridded(vis, self.data)

    def regularizer(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Return a regularizer of the whole cube, or of each channel by itself."""
        if not self.separate:
            return function(self.sky)
        value: Tensor = torch.vmap(lambda image: function(image[None]))(self.sky)
        return value

    def value_and_grad(self) -> Tensor:
        """Put the gradient into the parameters' ``grad``; return a row of the curves: losses, chi² and fluxes."""
        if self.fused_step:
            return self.fused_step.value_and_grad()
        for parameter in self.model.parameters():
            parameter.grad = None
        terms = self.terms()
        # The losses of separate fits are added up, so that none of their gradients knows of the others.
        terms["loss"].sum().backward()  # type: ignore[no-untyped-call]
        flux = self.sky.detach().sum((-2, -1)) * self.coords.cell_size**2
        row = [terms["loss"].detach().reshape(-1), terms["chi2"].detach().reshape(-1), flux]
        return torch.cat([part.to(row[0].dtype) for part in row])

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Return the terms as numbers, of an exact likelihood re-centred if its digits need that."""
        terms = self._numbers()
        data = self.data
        if isinstance(data, ExactLikelihood) and all_finite(terms) and data.needs_recentring(self.sky):
            data.recentre(self.sky)
            terms = self._numbers()
        return terms

    @torch.no_grad()
    def _numbers(self) -> dict[str, float]:
        """Return the terms as numbers; of separate fits, the means."""
        return {name: float(value.sum()) / self.nfits for name, value in self.terms().items()}

    @property
    def ndata(self) -> float:
        """The number of visibilities, or of cells, in all."""
        return float(self.nvis.sum()) if isinstance(self.data, ExactLikelihood) else self.ncell

    @property
    def nfits(self) -> int:
        """The number of losses, one or one for each channel."""
        return self.nchan if self.separate else 1

    @property
    def sky(self) -> Tensor:
        """The image of the model's last call."""
        cube: Tensor = self.icube.sky_cube
        return cube


def r_chi_squared_per_channel(model_vis: Tensor, dataset: GriddedDataset) -> Tensor:
    """Return the reduced chi² of each channel, over the cells that it has data in; NaN for one without data.

    Examples
    --------
    >>> from firstlight_imaging import GridCoords
    >>> coords, vis = GridCoords(0.1, 2), torch.ones(2, 2, 2) + 0j
    >>> mask = torch.tensor([[[True, True], [True, True]], [[True, False], [False, False]]])
    >>> dataset = GriddedDataset(coords=coords, vis_gridded=vis, weight_gridded=2 * vis.real, mask=mask, nchan=2)
    >>> r_chi_squared_per_channel(vis * torch.tensor([0, -1])[:, None, None], dataset).tolist()
    [1.0, 4.0]
    """
    residual = dataset.vis_indexed - dataset(model_vis)
    squares = dataset.weight_indexed * (residual.real.square() + residual.imag.square())
    channel = dataset.index // dataset.coords.npix**2
    nothing = squares.new_zeros(dataset.nchan)
    cells = nothing.index_add(0, channel, torch.ones_like(squares))
    each: Tensor = nothing.index_add(0, channel, squares) / (2 * cells)
    return each


def _converted_strength(
    name: str, strength: Strength, scale: Real | float, nchan: int | None, like: Tensor
) -> float | Tensor:
    """Return a λ times a scale: a number, or for a λ of each channel a tensor on the model's device."""
    given = np.asarray(strength, float)
    if not np.isfinite(given).all():
        raise ValueError(f"the λ of {name!r} must be a finite number; got {strength!r}")
    if given.shape not in ((), (nchan,)):
        many = f"{nchan}, one for each channel" if nchan else "with separate=True one for each channel"
        raise ValueError(f"the λ of {name!r} must be one number, or {many}; got {given.shape}")
    product = given * scale
    return torch.as_tensor(product, dtype=like.dtype, device=like.device) if product.ndim else float(product)


def _range_text(values: Real | float) -> str:
    """Return a number as text, or the least and the greatest of an array.

    Examples
    --------
    >>> _range_text(0.25), _range_text(np.array([3000.0, 2000.0, 2500.0]))
    ('0.25', '2000 to 3000')
    """
    ends = np.unique([np.min(values), np.max(values)])
    return " to ".join(f"{value:.10g}" if value == int(value) else f"{value:.4g}" for value in ends)


def all_finite(terms: Mapping[str, float]) -> bool:
    """Return whether all terms are finite."""
    return all(math.isfinite(value) for value in terms.values())


def describe_non_finite(terms: Mapping[str, float]) -> str:
    """Return which terms are not finite; the loss only if it stands alone, as it is the sum of the others."""
    bad = [name for name, value in terms.items() if not math.isfinite(value)]
    return f"{' and '.join(bad[1:] or bad)} {'are' if len(bad) > 2 else 'is'} not finite"


def _check_losses(losses: Losses) -> None:
    """Raise an error for regularizers that could not be told apart, or called."""
    for name, given in losses.items():
        if name in ("loss", "chi2"):
            raise ValueError(f"a regularizer cannot be called {name!r}: the fit itself has one of that name")
        if not (isinstance(given, tuple) and len(given) == 2 and callable(given[1])):
            raise TypeError(f"losses[{name!r}] must be (λ, function of the image), as in (1e-4, TV_image); got {given}")
