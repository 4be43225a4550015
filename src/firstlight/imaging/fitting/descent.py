"""Fit an image to data: stopped by a rule, watched by curves, and none the worse for an interrupt.

A GPU is left to run on by itself. Only at a check, every few iterations, does the host read how far it has come.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from firstlight.imaging.coordinates import GridCoords
from firstlight.imaging.data.datasets import GriddedDataset
from firstlight.imaging.fitting.checkpoints import check_settings, load, save
from firstlight.imaging.fitting.exact import ExactLikelihood
from firstlight.imaging.fitting.fused_step import Step, written_down
from firstlight.imaging.fitting.objective import Data, Losses, Objective, Real, finite, not_finite
from firstlight.imaging.fitting.optimizers import LBFGS, Adam, check_options
from firstlight.imaging.fitting.quality import Quality, quality_of
from firstlight.imaging.model.gridded_net import GriddedNet

PATIENCE = 2  # checks in a row without progress: Adam climbs for a while before it goes on down


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit found, and how it went.

    Attributes
    ----------
    image
        The best one of those checked, (nchan, npix, npix) in Jy/arcsec² and sky order.
    terms
        Of that image: the loss, the reduced chi² and each regularizer before its λ; of separate fits, the means.
    loss, chi2, flux
        The loss, the reduced chi², and the flux of each channel in Jy, one row for every time that the loss was taken.
        Adam does so once an iteration, L-BFGS a few times more. Of separate fits all three have a column for each.
    iterations
        How many were made.
    why
        ``settled``, if the loss stands still and the image is as good as the data; else what `Quality` says of it, or
        why the fit stopped before: ``max_iter`` or ``not finite``.
    message
        The same in a sentence.
    quality
        Whether its residuals are noise, and its flux what is seen.
    notes
        What else to know, such as a λ that was converted.

    Examples
    --------
    >>> import numpy as np
    >>> from firstlight.imaging import GridCoords, GriddedNet
    >>> u = np.array([0.0, 3e5, 6e5])
    >>> data = ExactLikelihood(u, u[::-1], np.ones(3, complex), np.full(3, 1e4), cell_size=0.1, npix=16)
    >>> found = fit(GriddedNet(GridCoords(cell_size=0.1, npix=16)), data, max_iter=5, progress=False)
    >>> found.why, found.image.shape, found.loss.shape
    ('max_iter', torch.Size([1, 16, 16]), (5,))
    """

    image: Tensor
    terms: dict[str, float]
    loss: Real
    chi2: Real
    flux: Real
    iterations: int
    why: str
    message: str
    quality: Quality
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """Say it in a few lines."""
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
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
) -> Fit:
    """Vary a model until reduced chi² and regularizers together are as small as they get.

    The model is left with the best image in it. A `GriddedNet` on a CPU or an NVIDIA GPU, with the usual losses, goes
    by `firstlight.imaging.fitting.fused_step`, which is compiled once on a computer; all else by autograd.

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
        What the λ are meant for. Reduced chi² divides by the number of cells, or of visibilities: a λ for the gridded
        loss is multiplied by cells/visibilities for an exact one, which leaves the balance of data and regularizer.
    separate
        Whether each channel is a fit of its own: its own reduced chi², its own λ where there are as many as channels.
        A sweep over λ, or over folds (`stack_folds`), then runs as one.
    progress
        Whether to draw a bar and print the notes, on stderr; by default a bar is drawn in a terminal only.
    checkpoint
        A file to write at each check. It is always a whole one, wherever the program is stopped; the one before it is
        kept as well, its name ending in ``.previous``.
    resume
        Go on from that file if it is there; from the one before it, with a note, if it is damaged. ``max_iter`` and
        ``tolerance`` may be others than before.

    Examples
    --------
    >>> import numpy as np
    >>> from firstlight.imaging import GridCoords, GriddedNet
    >>> from firstlight.imaging.model.losses import sparsity
    >>> u = np.array([0.0, 3e5, 6e5])
    >>> likelihood = ExactLikelihood(u, u[::-1], np.ones(3, complex), np.full(3, 1e4), cell_size=0.1, npix=16)
    >>> model = GriddedNet(GridCoords(cell_size=0.1, npix=16))
    >>> found = fit(model, likelihood, losses={"sparsity": (1e-4, sparsity)}, tolerance=0.1, progress=False)
    >>> found.why, bool(found.chi2[0] > 100), found.terms["chi2"] < 0.1
    ('settled', True, True)
    """
    check_options(optimizer, lr, max_iter, tolerance, check_every, checkpoint, resume)
    objective = Objective(model, data, losses or {}, lambdas, separate)
    objective.step = Step(objective) if written_down(objective) else None
    method = Adam(model, lr) if optimizer == "adam" else LBFGS(model, lr)
    settings = objective.settings() | {"optimizer": optimizer, "lr": method.lr, "check_every": check_every}
    descent = Descent(objective, method, settings, None if checkpoint is None else Path(checkpoint))
    if not (resume and descent.resume()):
        descent.start()
    if progress is not False:
        for note in objective.notes:
            print(note, file=sys.stderr)
    disable = None if progress is None else not progress
    with tqdm(total=max_iter, initial=descent.iteration, desc="fit", leave=False, disable=disable) as bar:
        while not descent.why:
            if tolerance is not None and settled(descent.losses, tolerance):
                descent.why = "settled"
                descent.message = f"{PATIENCE} checks lowered the loss by less than {tolerance:g} of it."
            elif descent.iteration >= max_iter:
                descent.why, descent.message = (
                    "max_iter",
                    f"Stopped after {descent.iteration} iterations, before it settled.",
                )
            else:
                before = descent.iteration
                descent.advance(min(max_iter, (before // check_every + 1) * check_every))
                bar.update(descent.iteration - before)
                bar.set_postfix({name: f"{descent.latest[name]:.5g}" for name in ("loss", "chi2")}, refresh=False)
    return descent.finish()


def settled(losses: list[float], tolerance: float) -> bool:
    """Tell whether the last checks brought next to nothing.

    Examples
    --------
    >>> settled([4.0, 2.0, 1.0, 1.5, 0.99], 0.1), settled([4.0, 2.0, 1.0, 1.5, 0.5], 0.1), settled([4.0, 4.0], 0.1)
    (True, False, False)
    """
    if len(losses) <= PATIENCE:
        return False
    return min(losses[:-PATIENCE]) - min(losses) <= tolerance * abs(min(losses))


@dataclass
class Descent:
    """A fit under way, from check to check."""

    objective: Objective
    method: Adam | LBFGS
    settings: dict[str, Any]
    path: Path | None
    iteration: int = 0
    losses: list[float] = field(default_factory=list)  # at the checks
    curve: Tensor = field(default_factory=lambda: torch.empty(0))  # a row for every loss taken
    latest: dict[str, float] = field(default_factory=dict)
    best: dict[str, Any] = field(default_factory=dict)
    best_terms: dict[str, float] = field(default_factory=dict)
    why: str = ""
    message: str = ""

    def start(self) -> None:
        """Check where the model starts from."""
        terms = self.objective.check()
        if not finite(terms):
            raise ValueError(f"the fit cannot start: {not_finite(terms)}. Look at the model's parameters and the data.")
        self.accept(terms)

    def advance(self, to: int) -> None:
        """Iterate up to the next check, and make it."""
        curve = torch.stack(self.method.steps(self.objective, to - self.iteration)).cpu()  # the host waits here
        terms = self.objective.check()
        good = int(curve.isfinite().all(1).long().cumprod(0).sum())
        self.curve = torch.cat([self.curve, curve[:good]])
        if good == len(curve) and finite(terms):
            self.iteration = to
            self.accept(terms)
        else:
            self.why = "not finite"
            self.message = (
                f"Stopped: {not_finite(terms) if good == len(curve) else 'the loss is not finite'} after iteration "
                f"{self.iteration}. The best image before that is kept; a smaller lr may help."
            )

    def accept(self, terms: dict[str, float]) -> None:
        """Remember a check; keep its state if it is the best, and on disk."""
        self.latest = terms
        self.losses.append(terms["loss"])
        if terms["loss"] <= min(self.losses):
            self.best_terms = terms
            self.best = {name: value.detach().clone() for name, value in self.objective.model.state_dict().items()}
        if self.path:
            save(self.path, self.state())

    def state(self) -> dict[str, Any]:
        """Give all that the next iteration depends on, and all that has been found so far."""
        kept = ("settings", "iteration", "losses", "curve", "latest", "best", "best_terms")
        state = {name: getattr(self, name) for name in kept}
        data = self.objective.data
        if isinstance(data, ExactLikelihood):
            state["reference"] = data.reference
            # A NUFFT in threads adds in another order each time: to the last bit, its results must go along.
            state["likelihood"] = {name: getattr(data, name) for name in ("kernel", "dirty", "c0")}
        return state | {"model": self.objective.model.state_dict(), "method": self.method.optimizer.state_dict()}

    def resume(self) -> bool:
        """Go on from the file, if there is one, and if it belongs to this fit."""
        assert self.path
        found = load(self.path)
        if not found:
            return False
        state, note = found
        check_settings(self.path, state["settings"], self.settings)
        if note:
            self.objective.notes.append(note)
        reference, likelihood = state.pop("reference", None), state.pop("likelihood", {})
        self.objective.model.load_state_dict(state.pop("model"))
        self.method.optimizer.load_state_dict(state.pop("method"))
        for name, value in state.items():
            setattr(self, name, value)
        data = self.objective.data
        if isinstance(data, ExactLikelihood):
            data.recentre(reference.to(data.reference))
        terms = self.objective.numbers()
        if not math.isclose(terms["chi2"], self.latest["chi2"], rel_tol=1e-4):
            raise ValueError(
                f"the checkpoint {self.path} is of other data: its image had a reduced chi² of "
                f"{self.latest['chi2']:.6g}, and has {terms['chi2']:.6g} with these. Give the data it was made with, "
                "or resume=False to start anew."
            )
        for name, value in likelihood.items():
            setattr(data, name, value.to(getattr(data, name)))
        return True

    def finish(self) -> Fit:
        """Put the best image into the model."""
        self.objective.model.load_state_dict(self.best)
        terms = self.objective.check()
        n = self.objective.nchan if self.objective.separate else 1
        curve = self.curve.double().reshape(-1, 2 * n + self.objective.nchan).numpy()
        shape = (-1, n) if self.objective.separate else (-1,)
        sky = self.objective.sky.detach().clone()
        quality = quality_of(sky, self.objective.data, terms["chi2"], self.objective.count)
        if self.why == "settled":
            self.why = quality.verdict
            self.message = f"{self.why.capitalize()}: {self.message}"
        return Fit(
            image=sky,
            terms=terms,
            loss=curve[:, :n].reshape(shape),
            chi2=curve[:, n : 2 * n].reshape(shape),
            flux=curve[:, 2 * n :],
            iterations=self.iteration,
            why=self.why,
            message=self.message,
            quality=quality,
            notes=tuple(self.objective.notes),
        )


def main() -> None:
    """Compile the passes of a step for this processor, so that no fit has to."""
    u, coords, ones = np.array([0.0, 3e5, 6e5]), GridCoords(cell_size=0.1, npix=8), torch.ones(1, 8, 8)
    cells = GriddedDataset(coords=coords, vis_gridded=ones + 0j, weight_gridded=ones, mask=ones.bool())
    for dtype in (torch.float32, torch.float64):
        exact = ExactLikelihood(u, u, np.ones(3, complex), np.ones(3), cell_size=0.1, npix=8, dtype=dtype)
        for data in (cells, exact):
            fit(GriddedNet(coords, base_cube=ones.to(dtype)), data, max_iter=2, progress=False)


if __name__ == "__main__":
    main()
