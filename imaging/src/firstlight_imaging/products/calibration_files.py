"""Write what calibration finds: the gains of the antennas, as a file and as a picture, and images of closures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from firstlight_imaging._types import Real
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.gains import Gains
from firstlight_imaging.products.fits_images import known_of, write_image
from firstlight_imaging.products.plots import plot_image
from firstlight_imaging.products.report import Products
from firstlight_imaging.selfcal.closures import ClosureImage
from firstlight_imaging.selfcal.self_calibration import SelfCalibration
from firstlight_imaging.units import angular_unit


def write_gains(found: SelfCalibration, folder: Path, name: str) -> list[Path]:
    """Write ``name.gains.npz``, with the arrays of each table of gains, and a picture of them, ``name.gains.png``.

    Examples
    --------
    >>> import tempfile
    >>> from firstlight_imaging.gains import solve_gains
    >>> from firstlight_imaging.simulate.observation import observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> clean = observe([Point(1.0)], uv_track(n_times=2))
    >>> done = SelfCalibration(clean, solve_gains(clean, clean.data), amplitudes=None, rounds=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_gains(done, Path(folder), "my")
    ...     np.load(written[0])["phases"].shape
    (2, 43)
    """
    tables = {"phases": found.phases} | ({"amplitudes": found.amplitudes} if found.amplitudes else {})
    arrays: dict[str, Any] = {name: getattr(found.phases, name) for name in ("antennas", "names", "reference")}
    for kind, gains in tables.items():
        parts = {"": gains.values, "_error": gains.error, "_start": gains.start, "_execution": gains.execution}
        arrays |= {kind + part: values for part, values in parts.items()}
    np.savez(folder / f"{name}.gains.npz", **arrays)
    _figure(tables).savefig(folder / f"{name}.gains.png", dpi=150)
    return [folder / f"{name}.gains.npz", folder / f"{name}.gains.png"]


def _figure(tables: Mapping[str, Gains]) -> Figure:
    """Return a figure with an antenna in each row and an interval in each column, blank where nothing was solved."""
    figure = Figure(figsize=(5.5 * len(tables), 5), layout="compressed")
    for ax, (kind, gains) in zip(figure.subplots(1, len(tables), squeeze=False)[0], tables.items(), strict=True):
        if kind == "phases":
            values, unit, cmap, most = np.degrees(np.angle(gains.values)), "°", "twilight_shifted", 180.0
        else:
            values, unit, cmap = 100 * (np.abs(gains.values) - 1), "%", "PuOr"
            most = max(1.0, float(np.abs(values).max()))
        solved: Real = np.where(np.isfinite(gains.error), values, np.nan)
        shown = ax.imshow(solved.T, aspect="auto", interpolation="nearest", cmap=cmap, vmin=-most, vmax=most)
        figure.colorbar(shown, ax=ax, label=unit)
        every = gains.spacing
        ax.set(title=kind, xlabel=f"interval, {every:.3g} s each" if every > 0 else "interval", ylabel="antenna")
        rows = np.unique(np.linspace(0, len(gains.antennas) - 1, 12).round().astype(int))
        ax.set_yticks(rows, [gains.names[row] for row in rows])
    return figure


def write_closure_image(found: ClosureImage, vis: Visibilities, folder: Path, name: str, head: str = "") -> Products:
    """Write an image of closure quantities and its scatter to FITS files, with a picture and a report.

    The image has no place on the sky.
    """
    written = [folder / f"{name}.{suffix}" for suffix in ("image.fits", "error.fits", "png", "txt")]
    for path, sky in zip(written, (found.sky, found.scatter), strict=False):
        write_image(path, sky[None], found.coords, unit="Jy/arcsec^2", **known_of(vis))
    figure = Figure(figsize=(10.5, 4.8), layout="compressed")
    count, unit = angular_unit(found.coords.npix * found.coords.cell_size)
    number = f"{len(found.images)} images"
    titles = f"mean of {number}; dashed: only some have this", f"scatter of {number}"
    for ax, sky, title in zip(figure.subplots(1, 2), (found.sky, found.scatter), titles, strict=True):
        plot_image(sky / count**2, found.coords, ax=ax, stretch="linear", unit=f"Jy/{unit}²")
        ax.set_title(title, fontsize="medium")
    line: dict[str, Any] = {"colors": "whitesmoke", "linewidths": 0.7, "linestyles": "dashed"}
    figure.axes[0].contour(found.is_disputed, [0.5], extent=found.coords.img_ext, **line)
    figure.suptitle(f"{vis.title}: {found.verdict}")
    figure.savefig(written[-2], dpi=150)
    written[-1].write_text(f"{head}{found}\n", encoding="utf-8")
    return Products(written, str(found))
