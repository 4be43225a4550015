"""Is an image of another program right? What its residuals and fluxes say, why, and what to do in its own words."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Literal

import numpy as np

from firstlight_imaging._types import Complex, Mask, Real
from firstlight_imaging.automatic.diagnosis import diagnose, where_largest, windows_that_disagree
from firstlight_imaging.automatic.grid import leave_out_intra_site
from firstlight_imaging.automatic.problem import FieldProblem
from firstlight_imaging.automatic.residuals import Cause, Residuals, judge, residuals_of
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.directions import phase_factor
from firstlight_imaging.fitting.quality import SOURCE_FLOOR, Fault, Quality, rms
from firstlight_imaging.fourier.beams import Beam, convolve
from firstlight_imaging.fourier.dirty import DirtyImager
from firstlight_imaging.units import ARCSEC, angular_unit

_LEFT_OVER = 1.25  # times what is beside the source: residuals of it that are larger are not only noise and artefacts
_IN_SOURCE, _CURED = 2.0, 0.7  # times the same, and of chi² above 1: if gains cure less, it is the image that is wrong
_DEEP = 0.8  # times the same: residuals of it that are quieter were fitted
_NEGATIVE = 0.02  # of the flux of a model: more of it below zero, once convolved with the beam, is a bowl or a hole
_MUCH_BETTER = 0.7  # times chi²: so much of it an image has elsewhere that lies in the wrong place
_BINS = 6  # of baseline length, with as many visibilities each
_CLEAN_TO = 3  # times the noise

Program = Literal["tclean", "difmap", "ehtim", "frank", ""]

_STEPS: dict[str, dict[str, str]] = tomllib.loads(
    files("firstlight_imaging.automatic").joinpath("next_steps.toml").read_text("utf-8")
)


@dataclass(frozen=True)
class Lengths:
    """Baselines of about a length: which, how many, the reduced χ² of their visibilities, and data over model.

    Examples
    --------
    >>> print(Lengths(1e4, 2e4, 300, 1.02, 1.05))
           10.0        20.0        300      1.02      1.050
    """

    shortest: float
    longest: float
    count: int
    chi2: float
    ratio: float

    def __str__(self) -> str:
        """Return a row of a table."""
        lengths = f"{self.shortest / 1e3:11,.1f} {self.longest / 1e3:11,.1f}"
        return f"{lengths} {self.count:10,d} {self.chi2:9.3g} {self.ratio:10.3f}"


@dataclass(frozen=True, eq=False)
class Assessment(Quality):
    """The quality of an image of another program, by which baselines it is told, and what to do next.

    Attributes
    ----------
    program
        Who made it, as far as the file says.
    model, coords, source, beam
        The image in Jy/arcsec², its grid, where the source is in it, and the main lobe of the natural dirty beam.
    left
        Its residuals.
    lengths
        How well it explains baselines, from short to long.
    negative
        The flux of its negative pixels, in Jy.
    where
        The largest residual.
    steps
        What to do next.

    Examples
    --------
    >>> dark, grid = np.zeros((4, 4)), GridCoords(0.1, 4)
    >>> left = Residuals(None, None, dark, grid, 1.0, 1.0, True)
    >>> known = {"model": dark, "coords": grid, "source": dark > 0, "beam": Beam(0.2, 0.1, 0.0), "left": left}
    >>> Assessment(1, 1e4, 1, 1, 4, 0.4, 0.4, 0.01, **known).verdict
    'converged'
    """

    program: Program = ""
    model: Real = field(kw_only=True)
    coords: GridCoords = field(kw_only=True)
    source: Mask = field(kw_only=True)
    beam: Beam = field(kw_only=True)
    left: Residuals = field(kw_only=True)
    lengths: tuple[Lengths, ...] = ()
    negative: float = 0.0
    where: str = ""
    steps: tuple[str, ...] = ()

    @property
    def results(self) -> dict[str, float | str]:
        """What the page says, for programs; fluxes in Jy."""
        names = ("verdict", "program", "chi2", "flux", "short_flux", "short_error", "negative", "inside", "outside")
        return {name: getattr(self, name) for name in names} | {"next": " ".join(self.steps)}

    def __str__(self) -> str:
        """Return one page."""
        lines = [super().__str__(), f"the largest residual: {self.where}"]
        if self.negative < 0:
            share = -self.negative / max(self.flux - self.negative, 1e-300)
            lines.append(f"negative pixels: {self.negative:.3g} Jy, {share:.1%} of what is positive")
        lines += ["", "   kilo-lambda,   up to    samples      chi²  data/model", *map(str, self.lengths), ""]
        return "\n".join(
            [*lines, f"next{f', in {self.program}' * bool(self.program)}:", *map("- {}".format, self.steps)]
        )


def assess_model(
    vis: Visibilities,
    sky: Real,
    coords: GridCoords,
    *,
    program: Program = "",
    source: Mask | None = None,
) -> Assessment:
    """Return whether an image that another program has made is right, by what it leaves of the data.

    Parameters
    ----------
    vis
        What was observed, with right weights (`trusted`).
    sky, coords
        (npix, npix) in sky order, in Jy/arcsec²: the model, not convolved with a beam; and its grid.
    program
        Who made it, for advice in its own words.
    source
        Where the source is, such as the mask of tclean's; by default where the model, convolved with the beam, is above
        a twentieth of its peak.

    Examples
    --------
    >>> from firstlight_imaging import image
    >>> from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Ring
    >>> seen = with_noise(observe([Ring(0.5, 0, 0.5)], uv_track(alma_antennas()[:20], n_times=4)), 0.03, seed=1)
    >>> found = image(seen, draws=0)
    >>> assess_model(seen, found.model, found.coords).verdict
    'converged'
    """
    vis, _ = leave_out_intra_site(vis)
    problem = FieldProblem(vis, coords, "cpu")
    model = np.asarray(sky, float) / problem.unit
    restored = convolve(model, coords, problem.beam)
    if source is None:
        source = restored > SOURCE_FLOOR * restored.max()
    left = residuals_of(problem, model, source, 0.0)
    cause = diagnose(left)
    quality = judge(problem, model, sky, source, left, cause)
    negative = float(np.minimum(sky, 0).sum()) * coords.cell_size**2
    seen = float(np.minimum(restored, 0).sum()) * problem.unit * coords.cell_size**2 / problem.beam.area
    times = rms(left.map[source]) / rms(left.map[~source])
    if times >= _LEFT_OVER:
        more = f"residuals are {times:.2g} times as large in the source as beside it, so some of it may be left over"
        cure = "clean deeper, or with a wider mask" + ", once the data are calibrated" * bool(cause and cause.limits)
        quality = replace(quality, faults=(*quality.faults, Fault("not converged", f"{more}: {cure}")))
    threshold = f"{1e3 * _CLEAN_TO * problem.vis.noise * problem.unit:.2g}mJy"
    moved = _moved(left)
    kinds = ["moved"] if moved else _kinds(quality, cause, times, seen, left)
    return Assessment(
        **vars(quality),
        program=program,
        model=sky,
        coords=coords,
        source=source,
        beam=problem.beam,
        left=left,
        lengths=_by_length(left.vis, left.model_vis),
        negative=negative,
        where=where_largest(left),
        steps=tuple(_step(kind, program).format(threshold=threshold, moved=moved) for kind in kinds),
    )


def _step(kind: str, program: Program) -> str:
    """Return what is to be done, in the words of a program."""
    if kind == "first":
        return f"First of all the image, then gains: residuals are largest in the source. {_step('deeper', program)}"
    return _STEPS[kind].get(program, _STEPS[kind]["other"])


def _kinds(quality: Quality, cause: Cause | None, times: float, negative: float, left: Residuals) -> list[str]:
    """Return what is to be done about an image, the most urgent first."""
    kind, also = (cause.kind, cause.also) if cause else ("", "")
    first = cause is not None and times >= _IN_SOURCE and not cause.cured > _CURED
    other_flux = quality.disagrees and kind != "uncalibrated"
    found = {
        "first": first,
        "gains": kind in ("gains", "uncalibrated") or also == "gains",
        "weights": "weights" in (kind, also),
        "outside": kind == "outside",
        "windows": cause is not None and windows_that_disagree(left.vis, left.model_vis) != "",
        "deeper": not first and (times >= _LEFT_OVER or (quality.verdict == "not converged" and not cause)),
        "shallower": times <= _DEEP or quality.verdict == "over-fitted",
        "negative": -negative > _NEGATIVE * abs(quality.flux),
        "narrower": other_flux and quality.flux > quality.short_flux,
        "missing": other_flux and not quality.flux > quality.short_flux,
    }
    return [kind for kind, holds in found.items() if holds] or ["deeper" if cause else "right"]


def _moved(left: Residuals) -> str:
    """Return how much better the image fits where data and model agree best, if that is another place; else nothing."""
    vis, coords = left.vis, left.coords
    there = ~vis.flagged
    u, v, weight, model = vis.uu[there], vis.vv[there], vis.weight[there], left.model_vis[there]
    cross = vis.data[there] * model.conj() / max(float(np.abs(model).max()), 1e-300)
    imager = DirtyImager(coords, u, v, weight, cross.real, cross.imag)
    agreement = imager.get_dirty_image("natural", check_visibility_scatter=False)[0][0]
    best = np.unravel_index(agreement.argmax(), agreement.shape)
    east, north = (float(axis[best]) for axis in coords.sky_coordinates())
    shifted = model * phase_factor(u * ARCSEC, v * ARCSEC, east, north)
    chi2 = float((weight * np.abs(vis.data[there] - shifted) ** 2).mean()) / 2
    if max(abs(east), abs(north)) < 1.5 * coords.cell_size or chi2 > _MUCH_BETTER * left.chi2:
        return ""
    count, unit = angular_unit(coords.npix * coords.cell_size)
    place = f"{count * east:+.3g} {unit} to the east and {count * north:+.3g} {unit} to the north"
    return f"Moved by {place}, its chi² would be {chi2:.3g}"


def _by_length(vis: Visibilities, model_vis: Complex) -> tuple[Lengths, ...]:
    """Return how well a model explains baselines, from short to long."""
    there = ~vis.flagged
    lengths, weight, data, model = vis.lengths[there], vis.weight[there], vis.data[there], model_vis[there]
    rows = []
    for part in np.array_split(np.argsort(lengths, kind="stable"), min(_BINS, max(1, len(lengths)))):
        power = float((weight[part] * np.abs(model[part]) ** 2).sum())
        seen = float((weight[part] * (data[part] * model[part].conj()).real).sum())
        chi2 = float((weight[part] * np.abs(data[part] - model[part]) ** 2).mean()) / 2
        ends = float(lengths[part[0]]), float(lengths[part[-1]])
        rows.append(Lengths(*ends, len(part), chi2, seen / power if power else math.nan))
    return tuple(rows)
