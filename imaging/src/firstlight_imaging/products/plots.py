"""Pictures of images: east to the left, a scale that shows what is faint, the beam in the corner."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from astropy import visualization  # type: ignore[import-untyped]
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse
from matplotlib.ticker import FuncFormatter, MaxNLocator

from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.fourier.beams import Beam
from firstlight_imaging.units import angular_unit

_STRETCHES = ("linear", "sqrt", "asinh", "log")
_MIN_TICK_DISTANCE = 0.12  # of the scale of shades, at least, from mark to mark
_PREFIXES = (0, ""), (3, "m"), (6, "µ")  # of Jy
_MARGIN = 0.05  # of the image's width, between the beam and the corner


def plot_image(
    image: npt.ArrayLike | torch.Tensor,
    coords: GridCoords,
    *,
    ax: Axes | None = None,
    stretch: str = "asinh",
    vmin: float | None = None,
    vmax: float | None = None,
    unit: str | None = "Jy/arcsec²",
    beam: Beam | None = None,
    scale_bar: float | None = None,
    cmap: str = "inferno",
    view: tuple[float, float, float, float] | None = None,
) -> AxesImage:
    """Draw one channel of a cube in sky order, with axes in arcsec (mas or µas if it is small) from the phase centre.

    Parameters
    ----------
    image
        (npix, npix), or a cube of one channel.
    coords
        The grid.
    ax
        Where to draw; by default in a new figure.
    stretch
        How values become shades: ``"asinh"``, ``"linear"``, ``"sqrt"`` or ``"log"``, by astropy.
    vmin, vmax
        The values that are darkest and brightest; by default the extremes of the image.
    unit
        Of the image, written beside the scale of shades; None leaves the scale out.
    beam
        Is drawn in the lower left corner.
    scale_bar
        Arcseconds of a line in the lower right corner, beside which its length is written.
    cmap
        One of matplotlib's colour maps.
    view
        The part to show, as its outer edges (east, west, south, north) in arcsec; by default all.

    Returns
    -------
    matplotlib.image.AxesImage
        Its ``axes`` and its ``figure`` are there to be changed.

    Examples
    --------
    >>> coords = GridCoords(cell_size=0.1, npix=32)
    >>> east, north = coords.sky_coordinates()
    >>> drawn = plot_image(np.exp(-(east**2) - north**2), coords, beam=Beam(0.4, 0.3, 20), unit="Jy/beam")
    >>> drawn.axes.get_xlabel(), len(drawn.axes.patches)
    ('Δα cos δ [″]', 1)
    >>> plt.close(drawn.figure)
    """
    values = _one_channel(image, coords)
    if stretch not in _STRETCHES:
        raise ValueError(f"stretch must be one of {', '.join(_STRETCHES)}; got {stretch!r}")
    low = float(values.min()) if vmin is None else vmin
    high = float(values.max()) if vmax is None else vmax
    if not low <= high:
        raise ValueError(f"vmin must not be above vmax; got {low:g} and {high:g}")
    # An image of one value has no scale: give it one, so that it is drawn at all.
    high = high if high > low else low + 1
    shades = visualization.simple_norm(values, stretch, vmin=low, vmax=high, clip=True)
    ax = plt.subplots(layout="constrained")[1] if ax is None else ax
    drawn = ax.imshow(values, origin="lower", extent=coords.img_ext, norm=shades, cmap=cmap, interpolation="nearest")
    if np.ma.is_masked(values):  # a clipped scale would give the holes the colour of its upper end
        drawn.set_alpha(np.where(np.ma.getmaskarray(values), 0.0, 1.0))
    east, west, south, north = view or coords.img_ext
    ax.set(xlim=(east, west), ylim=(south, north))
    count, unit_name = angular_unit(east - west)
    symbol = "″" if count == 1 else unit_name
    ax.set(xlabel=f"Δα cos δ [{symbol}]", ylabel=f"Δδ [{symbol}]")
    if count > 1:  # the data stay in arcsec
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda at, _: f"{round(count * at, 9) + 0:g}".replace("-", "−")))
    if beam is not None:
        ax.add_patch(_beam_patch(beam, ax))
    if scale_bar is not None:
        _draw_scale_bar(ax, scale_bar)
    if unit is not None:
        power, prefix = (0, "") if not unit.startswith("Jy") else _PREFIXES[(high < 0.1) + (high < 1e-4)]
        bar = ax.figure.colorbar(drawn, ax=ax, label=prefix + unit, fraction=0.046, pad=0.03)  # as high as ax
        ticks = _colorbar_ticks(shades)
        bar.set_ticks(ticks, labels=[f"{tick * 10**power:.6g}".replace("-", "−") for tick in ticks])
    return drawn


def _colorbar_ticks(shades: visualization.ImageNormalize) -> list[float]:
    """Return numbers for the colour bar, the roundest first, that do not overlap at its crowded end."""
    numbers: list[float] = []
    for count in (4, 10, 20, 50, 100):
        for value in MaxNLocator(count).tick_values(shades.vmin, shades.vmax):
            inside = shades.vmin <= value <= shades.vmax
            if inside and all(abs(shades(value) - shades(other)) >= _MIN_TICK_DISTANCE for other in numbers):
                numbers.append(float(value))
    return numbers


def _one_channel(image: npt.ArrayLike | torch.Tensor, coords: GridCoords) -> npt.NDArray[Any]:
    """Return an image as (npix, npix); raise an error if it cannot be drawn."""
    values = image.detach().cpu().numpy() if isinstance(image, torch.Tensor) else np.asarray(image)
    expected = (coords.npix, coords.npix)
    if values.shape not in (expected, (1, *expected)):
        raise ValueError(f"the image must be {expected}, one channel: take cube[k] of a cube; got {values.shape}")
    values = values.reshape(expected)
    if not np.isfinite(values).any():
        raise ValueError("the image has no finite pixel")
    return np.ma.masked_invalid(values)


def _beam_patch(beam: Beam, ax: Axes) -> Ellipse:
    """Return an ellipse of the size of the beam, for the lower left corner: south-east."""
    (east, west), (south, _) = ax.get_xlim(), ax.get_ylim()
    away = beam.major / 2 + _MARGIN * (east - west)
    # An ellipse's angle is that of its first axis, from +x, which is east, towards +y, north; the beam's from north.
    return Ellipse(
        (east - away, south + away),
        beam.major,
        beam.minor,
        angle=90 - beam.position_angle,
        # Neither ink nor paper, which a dark page swaps: the shades below stay as they are, so the beam must, too.
        facecolor="whitesmoke",
        edgecolor="dimgrey",
    )


def _draw_scale_bar(ax: Axes, arcsec: float) -> None:
    """Draw a line of so many arcseconds, its length above it, in the lower right corner: south-west."""
    (east, west), (south, _) = ax.get_xlim(), ax.get_ylim()
    if not 0 < arcsec < (1 - 2 * _MARGIN) * (east - west):
        raise ValueError(f"scale_bar must be arcseconds that fit into the image of {east - west:g}; got {arcsec:g}")
    away = _MARGIN * (east - west)
    count, name = angular_unit(east - west)
    said = f"{arcsec:g}″" if count == 1 else f"{count * arcsec:g} {name}"
    ax.add_line(Line2D([west + away, west + away + arcsec], [south + away] * 2, color="whitesmoke", linewidth=2))
    ax.text(west + away + arcsec / 2, south + 1.3 * away, said, color="whitesmoke", ha="center", va="bottom")
