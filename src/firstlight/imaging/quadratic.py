"""chi² about a reference image as torch differentiates it: value and gradient from one response, no data needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from firstlight.imaging.nufft import exact_place

if TYPE_CHECKING:
    from firstlight.imaging.exact import ExactLikelihood


class ChiSquared(torch.autograd.Function):
    """chi² and its gradient from one response."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, likelihood: ExactLikelihood) -> Tensor:
        """Keep half of the gradient, Tδ − R, which the value needs as well."""
        delta = image - likelihood.reference
        slope = likelihood.respond(delta) - likelihood.dirty
        ctx.save_for_backward(image, slope)
        ctx.likelihood = likelihood
        return likelihood.c0 + dot(delta, slope - likelihood.dirty)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Scale the gradient that is there already."""
        image, slope = ctx.saved_tensors
        slope = Slope.apply(image, slope, ctx.likelihood)  # type: ignore[no-untyped-call]
        return (2 * grad).to(slope.dtype)[:, None, None] * slope, None


class Slope(torch.autograd.Function):
    """Tδ − R of an image, made before; its own derivative is T, for second derivatives of chi²."""

    @staticmethod
    def forward(ctx: Any, _image: Tensor, slope: Tensor, likelihood: ExactLikelihood) -> Tensor:
        """Hand on what is known."""
        ctx.likelihood = likelihood
        return slope.view_as(slope)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Apply T, which is its own transpose."""
        return ctx.likelihood.respond(grad), None, None


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Multiply and add up the pixels of each channel, in float64 where the device has it."""
    kind = sum_type(a.device)
    return (a.to(kind) * b.to(kind)).sum((-2, -1))


def sum_type(device: torch.device) -> torch.dtype:
    """Choose what to sum in: float64 where the device has it."""
    return torch.float64 if exact_place(device) == device else torch.float32
