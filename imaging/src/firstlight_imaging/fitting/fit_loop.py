"""The fit loop: iterate, check every few iterations, stop by a rule, and keep the best image.

A GPU is left to run on by itself. The host reads its numbers at a check only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from firstlight_imaging._types import Real
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.datasets import GriddedDataset
from firstlight_imaging.fitting.exact import ExactLikelihood
from firstlight_imaging.fitting.fused_step import FusedStep, has_fused_step
from firstlight_imaging.fitting.objective import Data, Losses, Objective, all_finite, describe_non_finite
from firstlight_imaging.fitting.optimizers import LBFGS, Adam, check_options
from firstlight_imaging.fitting.quality import Quality, assess_image
from firstlight_imaging.model.gridded_net import GriddedNet

_ONE_THREAD = 256**2  # pixels: on fewer, threads wait for each other longer than they work, above all on a busy machine
_PATIENCE = 2  # checks in a row without progress: Adam climbs for a while before it goes on down


@dataclass(frozen=True, eq=False)
class Fit:
    """The result of a fit: the best image, its terms, the curves, and why it stopped.

    Attributes
    ----------
    image
        The best one of those checked, (nchan, npix, npix) in Jy/arcsec² and sky order.
    terms
        Of that image: the loss, the reduced chi² and each regularizer before its λ; of separate fits, the means.
    loss, chi2, flux
        The loss, the reduced chi², and the flux of each channel in Jy, a row for each evaluation of the loss: one an
        iteration of Adam, a few more of L-BFGS. Of separate fits all three have a column for each.
    iterations
        How many were made.
    status
        ``converged``, if the loss has stopped falling and nothing is wrong with the image; else what `Quality` says is
        wrong, or why the fit stopped before: ``max_iter`` or ``not finite``.
    message
        The same in a sentence.
    quality
        Whether its residuals are noise, and whether its flux is that of the shortest baselines.
    notes
        What else to know, such as a λ that was converted.

    Examples
    --------
    >>> import numpy as np
    >>> from firstlight_imaging import GridCoords, GriddedNet
    >>> u = np.array([0.0, 3e5, 6e5])
    >>> data = ExactLikelihood(u, u[::-1], np.ones(3, complex), np.full(3, 1e4), cell_size=0.1, npix=16)
    >>> found = fit(GriddedNet(GridCoords(cell_size=0.1, npix=16)), data, max_iter=5, progress=False)
    >>> found.status, found.image.shape, found.loss.shape
    ('max_iter', torch.Size([1, 16, 16]), (5,))
    """

    image: Tensor
    terms: dict[str, float]
    loss: Real
    chi2: Real
    flux: Real
    iterations: int
    status: str
    message: str
    quality: Quality
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """Return a summary of a few lines."""
        best = ", ".join(f"{name} {value:.6g}" for name, value in self.terms.items())
        return "\n".join([self.message, f"Best: {best}.", str(self.quality), *self.notes])


def fit(
    model: nn.Module,
    data: Data,
    *,
    losses: Losses | None = None,
    optimizer: Literal["adam", "lbfgs"] = "adam",
    lr: float | None = None,
    max_iter: int = 1000,
    tolerance: float | None = 1e-4,
    check_every: int = 25,
    lambdas: Literal["gridded", "exact"] = "gridded",
    separate: bool = False,
    progress: bool | str | None = None,
) -> Fit:
    """Minimize the reduced chi² of a model plus its regularizers, and return the best image.

    The model is left with the best image in it. Loss and gradient come from the fused step for a `GriddedNet` with the
    usual regularizers on a CPU or an NVIDIA GPU, and from autograd for all else: `has_fused_step` lists what decides.
    Both give the same image. The kernels of the fused step are compiled once on a computer.

    Parameters
    ----------
    model
        Such as a `GriddedNet`: a module whose call gives packed visibilities and leaves an image in its ``icube``, an
        `ImageCube` or like one.
    data
        Averages in cells, or an exact likelihood.
    losses
        Of each regularizer the name, its λ, and a function of the image in sky order.
    optimizer, lr
        Adam (by default with a learning rate of 0.5) or L-BFGS with a line search (1).
    max_iter
        When to stop at the latest.
    tolerance
        Stop when two checks in a row lower the loss by less than this part of it; None never stops so.
    check_every
        Iterations between two checks.
    lambdas
        Which loss the λ are meant for. Reduced chi² divides by the number of cells, or of visibilities: a λ for the
        gridded loss is multiplied by cells/visibilities for an exact one, which leaves the balance of data and
        regularizer.
    separate
        Whether each channel is a fit of its own: its own reduced chi², its own λ where there are as many as channels.
        A sweep over λ, or over folds (`stack_folds`), then runs as one.
    progress
        Whether to draw a bar and print the notes, on stderr; by default, or with a text to stand before it, a bar is
        drawn in a terminal only.

    Examples
    --------
    >>> import numpy as np
    >>> from firstlight_imaging import GridCoords, GriddedNet
    >>> from firstlight_imaging.model.losses import sparsity
    >>> u = np.array([0.0, 3e5, 6e5])
    >>> likelihood = ExactLikelihood(u, u[::-1], np.ones(3, complex), np.full(3, 1e4), cell_size=0.1, npix=16)
    >>> model = GriddedNet(GridCoords(cell_size=0.1, npix=16))
    >>> found = fit(model, likelihood, losses={"sparsity": (1e-4, sparsity)}, tolerance=0.1, progress=False)
    >>> found.status, bool(found.chi2[0] > 100), found.terms["chi2"] < 0.1
    ('converged', True, True)
    """
    check_options(optimizer, lr, max_iter, tolerance, check_every)
    objective = Objective(model, data, losses or {}, lambdas, separate)
    if progress is not False:
        for note in objective.notes:
            print(note, file=sys.stderr)
    state = FitState(objective, Adam(model, lr) if optimizer == "adam" else LBFGS(model, lr))
    state.run(max_iter, tolerance, check_every, progress)
    with _few_threads(objective):
        return state.result()


@contextmanager
def _few_threads(objective: Objective) -> Iterator[None]:
    """Fit small images on one thread of the CPU, and give the others back."""
    threads = torch.get_num_threads()
    if objective.nchan * objective.coords.npix**2 <= _ONE_THREAD:
        torch.set_num_threads(1)  # the kernels of the fused step follow
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _has_converged(losses: list[float], tolerance: float) -> bool:
    """Return whether the last checks lowered the loss by next to nothing.

    Examples
    --------
    >>> losses = [4.0, 2.0, 1.0, 1.5]
    >>> _has_converged([*losses, 0.99], 0.1), _has_converged([*losses, 0.5], 0.1), _has_converged([4.0, 4.0], 0.1)
    (True, False, False)
    """
    if len(losses) <= _PATIENCE:
        return False
    return min(losses[:-_PATIENCE]) - min(losses) <= tolerance * abs(min(losses))


class FitState:
    """A running fit: its curves, its best image so far, and why it has stopped.

    Examples
    --------
    >>> from firstlight_imaging import GridCoords, GriddedDataset, GriddedNet
    >>> coords, ones = GridCoords(cell_size=0.1, npix=8), torch.ones(1, 8, 8)
    >>> data = GriddedDataset(coords=coords, vis_gridded=ones + 0j, weight_gridded=ones, mask=ones.bool())
    >>> model = GriddedNet(coords)
    >>> state = FitState(Objective(model, data, {}, "gridded"), LBFGS(model, None))
    >>> state.run(max_iter=5, tolerance=None, check_every=5, progress=False)
    >>> state.status
    'max_iter'
    """

    def __init__(self, objective: Objective, optimizer: Adam | LBFGS) -> None:
        self.objective, self.optimizer, self.iteration = objective, optimizer, 0
        self.losses: list[float] = []  # at the checks
        self.curves: list[Tensor] = []  # a row for each evaluation of the loss
        self.status = self.message = ""
        with _few_threads(objective):
            objective.fused_step = FusedStep(objective) if has_fused_step(objective) else None
            terms = objective.evaluate()
        if not all_finite(terms):
            problem = describe_non_finite(terms)
            raise ValueError(f"the fit cannot start: {problem}. Look at the model's parameters and the data.")
        self._accept(terms)

    def run(self, max_iter: int, tolerance: float | None, check_every: int, progress: bool | str | None) -> None:
        """Iterate until a rule stops the fit, and leave the best image in the model."""
        what = progress if isinstance(progress, str) else "fit"
        disable = not progress if isinstance(progress, bool) else None
        with _few_threads(self.objective), tqdm(total=max_iter, desc=what, leave=False, disable=disable) as bar:
            while not self.status:
                if tolerance is not None and _has_converged(self.losses, tolerance):
                    self.status = "converged"
                    self.message = f"{_PATIENCE} checks lowered the loss by less than {tolerance:g} of it."
                elif self.iteration >= max_iter:
                    self.status = "max_iter"
                    self.message = f"Stopped after {self.iteration} iterations, before it converged."
                else:
                    before = self.iteration
                    self.advance(min(max_iter, before + check_every))
                    bar.update(self.iteration - before)
                    shown = {name: f"{self.latest[name]:.5g}" for name in ("loss", "chi2")}
                    bar.set_postfix(shown, refresh=False)
        self.objective.model.load_state_dict(self.best)

    def advance(self, to: int) -> None:
        """Iterate up to the next check, and make it."""
        curves = torch.stack(self.optimizer.steps(self.objective, to - self.iteration)).cpu()  # the host waits here
        terms = self.objective.evaluate()
        nfinite = int(curves.isfinite().all(1).long().cumprod(0).sum())
        self.curves.append(curves[:nfinite])
        if nfinite == len(curves) and all_finite(terms):
            self.iteration = to
            self._accept(terms)
        else:
            problem = describe_non_finite(terms) if nfinite == len(curves) else "the loss is not finite"
            self.status = "not finite"
            self.message = (
                f"Stopped: {problem} after iteration {self.iteration}. The best image before that is kept; a smaller "
                "lr may help."
            )

    def _accept(self, terms: dict[str, float]) -> None:
        """Remember a check, and its parameters if it is the best."""
        self.latest = terms
        self.losses.append(terms["loss"])
        if terms["loss"] <= min(self.losses):
            self.best = {name: value.detach().clone() for name, value in self.objective.model.state_dict().items()}

    def result(self) -> Fit:
        """Assess the best image, which is in the model."""
        objective = self.objective
        terms = objective.evaluate()
        n = objective.nchan if objective.separate else 1
        curves = torch.cat([torch.empty(0, 2 * n + objective.nchan), *self.curves]).double().numpy()
        shape = (-1, n) if objective.separate else (-1,)
        sky = objective.sky.detach().clone()
        quality = assess_image(sky, objective.data, terms["chi2"], objective.ndata)
        if self.status == "converged":
            self.status = quality.verdict
            self.message = f"{self.status.capitalize()}: {self.message}"
        return Fit(
            image=sky,
            terms=terms,
            loss=curves[:, :n].reshape(shape),
            chi2=curves[:, n : 2 * n].reshape(shape),
            flux=curves[:, 2 * n :],
            iterations=self.iteration,
            status=self.status,
            message=self.message,
            quality=quality,
            notes=tuple(objective.notes),
        )


def compile_kernels() -> None:
    """Compile the kernels of the fused step for this processor, so that no fit has to wait for it."""
    u, coords, ones = np.array([0.0, 3e5, 6e5]), GridCoords(cell_size=0.1, npix=8), torch.ones(1, 8, 8)
    cells = GriddedDataset(coords=coords, vis_gridded=ones + 0j, weight_gridded=ones, mask=ones.bool())
    for dtype in (torch.float32, torch.float64):
        exact = ExactLikelihood(u, u, np.ones(3, complex), np.ones(3), cell_size=0.1, npix=8, dtype=dtype)
        for data in (cells, exact):
            fit(GriddedNet(coords, base_cube=ones.to(dtype)), data, max_iter=2, progress=False)


if __name__ == "__main__":
    compile_kernels()
