"""Self-calibration: an image, the gains that make it fit, an image of what these gains calibrate, and so on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch

from firstlight_imaging._types import MaskFunction
from firstlight_imaging.automatic.auto_image import image
from firstlight_imaging.automatic.grid import leave_out_intra_site
from firstlight_imaging.automatic.problem import model_visibilities
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.data.weights import trusted
from firstlight_imaging.fitting.quality import SOURCE_FLOOR
from firstlight_imaging.gains import Gains, Mode, apply_gains, check_mode, describe_gains, solve_gains
from firstlight_imaging.selfcal.closures import closure_image

_ROUNDS: dict[Mode, int] = {"phase": 4, "amplitude": 3}
_MAX_CLOSURE_ANTENNAS = 16  # of a VLBI array: more antennas than that make more closure quantities than can be fitted
_WORSE = 1.02  # times as large is chi² with amplitudes that make an image worse
_SETTLED = 0.02  # radians, or relative: gains that change no more have settled


@dataclass(frozen=True, eq=False)
class SelfCalibration:
    """Visibilities calibrated by their own image, and the gains that did it.

    Attributes
    ----------
    vis
        The calibrated visibilities, whose image `image` makes, with ``parameters=`` for the right chi².
    phases, amplitudes
        The gains that were divided out, of phases and then of amplitudes; None where amplitudes were not asked for.
    rounds
        How many images were made.
    flux_scale
        By how much the amplitudes scale the data, the root of the change of their power; 1 without them.
    chi2
        The reduced chi² of each image that the last gains were solved with: that of the first one is without them.
    notes
        What was done to the weights before (`trusted`).

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> clean = observe([Point(1.0)], uv_track(n_times=2))
    >>> print(SelfCalibration(clean, solve_gains(clean, clean.data), amplitudes=None, rounds=1))
    self-calibration: phases of 43 of 43 antennas, ... agree with this image
    """

    vis: Visibilities
    phases: Gains
    amplitudes: Gains | None
    rounds: int
    flux_scale: float = 1.0
    chi2: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def parameters(self) -> float:
        """How many numbers the gains are, for `image` to know of."""
        return self.phases.parameters + (self.amplitudes.parameters if self.amplitudes else 0.0)

    def __str__(self) -> str:
        """Return a sentence or two."""
        lines = [*self.notes, f"self-calibration: {describe_gains(self.phases)}"]
        if self.amplitudes:
            amplitudes = describe_gains(self.amplitudes, "amplitude")
            lines.append(f"self-calibration: {amplitudes}; they change the flux scale by {self.flux_scale - 1:+.1%}")
            if self.chi2 and self.chi2[-1] > _WORSE * self.chi2[0]:
                rise = f"from {self.chi2[0]:.3g} to {self.chi2[-1]:.3g}"
                lines.append(
                    f"WARNING: chi² rises {rise} with these amplitudes: do not use them, calibrate phases alone"
                )
        return "\n".join(lines)


def self_calibrate(
    vis: Visibilities,
    *,
    mode: Mode = "phase",
    every: float | None = None,
    field: float | None = None,
    cell_size: float | None = None,
    mask: MaskFunction | None = None,
    device: torch.device | str = "cpu",
) -> SelfCalibration:
    """Return visibilities calibrated by their own image: the antennas' phases, and then amplitudes if asked for.

    Where phases are so wrong that there is no image, the first one is made of closure quantities.

    Parameters
    ----------
    vis
        What was observed, with its antennas and times. Weights that weren't checked before are now, as by `image`.
    mode
        ``"phase"``, or ``"amplitude"`` for amplitudes, too. Their mean over antennas is kept, but the flux scale may
        move a little.
    every
        The least interval of solutions in seconds; by default as short as the signal allows.
    field, cell_size, mask, device
        As of `image`.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Ring
    >>> clean = observe([Ring(0.5, 0, 0.5)], uv_track(alma_antennas()[:20], n_times=4))
    >>> turn = np.exp(0.5j * (clean.antennas[:, 0] == 3) - 0.5j * (clean.antennas[:, 1] == 3))
    >>> seen = with_noise(replace(clean, data=clean.data * turn), 0.03, seed=1)
    >>> found = self_calibrate(seen)
    >>> bool(found.phases.phase_scatter[3] > 20)  # degrees
    True
    """
    check_mode(mode)
    known = np.isin(vis.execution, vis.execution[vis.antennas.any(axis=1)])
    if known.any() and not known.all():
        unknown = ", ".join(map(str, np.unique(vis.execution[~known])))
        raise ValueError(f"execution {unknown} does not say which antennas saw what, so it has no gains: leave it out")
    vis, notes = trusted(vis)
    imaged, _ = leave_out_intra_site(vis)
    few = len(np.unique(imaged.antennas)) <= _MAX_CLOSURE_ANTENNAS
    solved: dict[Mode, Gains] = {}
    rounds, chi2, phased = 0, list[float](), vis
    steps: tuple[Mode, ...] = ("phase", "amplitude") if mode == "amplitude" else ("phase",)
    for step in steps:
        before, chi2, phased, kept = None, [], _apply_all(vis, solved), _apply_all(imaged, solved)
        for _ in range(_ROUNDS[step]):
            seen = _apply_all(imaged, solved)
            found = image(seen, field=field, cell_size=cell_size, mask=mask, draws=0, device=device)
            chi2.append(found.quality.chi2)
            sky, coords = found.model, found.coords
            if found.quality.has_excess:  # what stands out of the artefacts is the source
                sky = np.where(sky > SOURCE_FLOOR * sky.max(), sky, 0)
            if not solved and few and found.quality.verdict == "not calibrated":
                start = closure_image(imaged, field=field, device=device)
                sky, coords = start.sky, start.coords
            gains = solve_gains(kept, model_visibilities(sky, kept, coords), mode=step, every=every)
            solved[step], rounds = gains, rounds + 1
            if before and _change(before, gains) < _SETTLED:
                break
            before = gains
    calibrated, amplitudes = _apply_all(vis, solved), solved.get("amplitude")
    scale = _flux_scale(phased, calibrated) if amplitudes else 1.0
    return SelfCalibration(calibrated, solved["phase"], amplitudes, rounds, scale, tuple(chi2), notes)


def _apply_all(vis: Visibilities, solved: Mapping[Mode, Gains]) -> Visibilities:
    """Return visibilities calibrated by one table of gains after the other."""
    return reduce(apply_gains, solved.values(), vis)


def _flux_scale(before: Visibilities, after: Visibilities) -> float:
    """Return the factor between visibilities, the root of that of their power: so it favours neither."""
    counts = ~before.flagged & ~after.flagged
    powers = (np.average(np.abs(vis.data[counts]) ** 2, weights=before.weight[counts]) for vis in (after, before))
    return math.sqrt(next(powers) / next(powers))


def _change(before: Gains, after: Gains) -> float:
    """Return how much gains have changed, the median of those solved; infinite if they are of other intervals."""
    if before.values.shape != after.values.shape:
        return math.inf
    solved = np.isfinite(before.error) & np.isfinite(after.error)
    return float(np.median(np.abs(before.values - after.values)[solved])) if solved.any() else 0.0
