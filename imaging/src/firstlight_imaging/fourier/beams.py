"""The main lobe of a dirty beam as a Gaussian: what one beam in Jy/beam stands for, and images as it shows them."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from scipy.ndimage import binary_propagation

from firstlight_imaging._types import Ints, Mask, Real
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.fourier.padding import fast_fft_size, fft_convolve, transfer_function
from firstlight_imaging.units import angle_text

# Of the peak: below it the lobe of an interferometer is no longer like a Gaussian; CASA's default too. Others are for
# sidelobes that are as high, and join the main lobe with the edge, as those of few antennas.
_LOBE_CUTS = (0.35, 0.5, 0.7)
_NEWTON_STEPS = 20
FWHM = 4 * math.log(2)  # exp(-FWHM r²) is 1/2 at r = 1/2
_MAX_MISFIT = 0.2  # of the peak: what an array of one size misses by, in any weighting, is at most 0.13
_MIN_WIDTH = 1.5  # pixels of full width: there, samples of a Gaussian add up to its integral within a thousandth


@dataclass(frozen=True)
class Beam:
    """An elliptical Gaussian.

    Parameters
    ----------
    major, minor
        Full widths at half maximum in arcsec.
    position_angle
        Of the major axis, in degrees from north through east.
    misfit
        The largest difference from the dirty beam that it was fitted to, within a full width of the centre: a
        fraction of the peak.

    Examples
    --------
    >>> round(Beam(major=0.2, minor=0.1, position_angle=30).area, 6)
    0.022662
    """

    major: float
    minor: float
    position_angle: float
    misfit: float = field(default=0.0, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.major) and self.major >= self.minor > 0):
            raise ValueError(f"major must be at least minor, and both positive; got {self.major!r} and {self.minor!r}")
        if not math.isfinite(self.position_angle):
            raise ValueError(f"position_angle must be a number of degrees; got {self.position_angle!r}")

    @property
    def area(self) -> float:
        """The integral of the Gaussian of peak 1, in arcsec², by which Jy/beam become Jy/arcsec²."""
        return math.pi / FWHM * self.major * self.minor

    def at(self, east: npt.ArrayLike, north: npt.ArrayLike) -> Real:
        """Return the Gaussian's value, 1 at its centre, so many arcsec to the east and to the north of it."""
        x, y = np.asarray(east, dtype=float), np.asarray(north, dtype=float)
        sin, cos = math.sin(math.radians(self.position_angle)), math.cos(math.radians(self.position_angle))
        along, across = x * sin + y * cos, x * cos - y * sin
        return np.asarray(np.exp(-FWHM * ((along / self.major) ** 2 + (across / self.minor) ** 2)))


def fit_beam(image: npt.ArrayLike, cell_size: float) -> Beam:
    """Return the Gaussian that fits the main lobe of a dirty beam, down to 0.35 of its peak, which is 1 and stays so.

    Where sidelobes that are as high join it with the edge, as those of few antennas do, it is fitted less far down.
    A beam that is a core on a pedestal, as natural weights make of short and long baselines, is like no Gaussian: what
    is fitted then hangs on the cut, and its area with it. A warning tells by how much it misses.

    Parameters
    ----------
    image
        One channel of a dirty beam in sky order, (npix, npix).
    cell_size
        The width of a pixel in arcsec.

    Examples
    --------
    >>> from firstlight_imaging.coordinates import GridCoords
    >>> east, north = GridCoords(cell_size=0.1, npix=32).sky_coordinates()
    >>> fit_beam(np.exp(-4 * np.log(2) * (east**2 / 0.6**2 + north**2 / 0.4**2)), cell_size=0.1)  # doctest: +ELLIPSIS
    Beam(major=0.6..., minor=0.4..., position_angle=90.0)
    """
    beam = np.asarray(image, dtype=float)
    if beam.ndim != 2 or beam.shape[0] != beam.shape[1] or beam.shape[0] % 2:
        raise ValueError(f"a dirty beam must be one channel, (npix, npix) with npix even; got {beam.shape}")
    half = len(beam) // 2
    rows, columns = np.nonzero(_main_lobe(beam))
    if min(np.ptp(rows), np.ptp(columns)) < 2:
        raise ValueError(f"the main lobe is less than three pixels wide: take --cell-size {angle_text(cell_size / 2)}")
    # In units of pixels: numbers near 1 keep the fit well behaved.
    x, y = half - 1 - columns, rows - half
    found = _as_beam(_fit_gaussian(x, y, beam[rows, columns]), cell_size)
    model = found.at(*GridCoords(cell_size, len(beam)).sky_coordinates())
    misfit = float(np.abs(beam - model)[model >= 1 / 16].max())
    if misfit > _MAX_MISFIT:
        warnings.warn(
            f"the dirty beam is not like a Gaussian: the best fit is off by {misfit:.1f} of the peak within a "
            "full width of the centre. Its area is as doubtful, and so is a map in its units. Take robust=0 or less.",
            stacklevel=2,
        )
    return replace(found, misfit=misfit)


def convolve(image: npt.ArrayLike | torch.Tensor, coords: GridCoords, beam: Beam) -> Real:
    """Return a model convolved with a beam: what CLEAN calls restoring.

    A model shows structure that no data spoke of; at the resolution of the beam it can be held against a dirty image
    or another's map. To have the residuals in it too, add their dirty image.

    Parameters
    ----------
    image
        In sky order and Jy/arcsec²: (npix, npix), or (nchan, npix, npix). Beyond its edges the sky is dark.
    coords
        The grid.
    beam
        One for all channels, at least one and a half pixels wide.

    Returns
    -------
    Array
        The same in Jy/beam, in float64.

    Examples
    --------
    A source of 3 Jy has a peak of 3 Jy/beam:

    >>> coords = GridCoords(cell_size=0.1, npix=16)
    >>> sky = np.zeros((1, 16, 16))
    >>> sky[0, 4, 9] = 3 / 0.1**2
    >>> convolve(sky, coords, Beam(0.4, 0.2, 90))[0, 4, 6:10].round(3)  # half of it two pixels away
    array([0.631, 1.5  , 2.523, 3.   ])
    """
    values = image.detach().cpu() if isinstance(image, torch.Tensor) else torch.from_numpy(np.array(image))
    npix = coords.npix
    if values.shape[-2:] != (npix, npix) or values.ndim not in (2, 3):
        raise ValueError(f"the image must be {(npix, npix)}, or a cube of such; got {tuple(values.shape)}")
    if beam.minor < _MIN_WIDTH * coords.cell_size:
        cure = angle_text(beam.minor / 2)
        raise ValueError(
            f"the beam, {angle_text(beam.minor)}, is less than {_MIN_WIDTH} pixels: take --cell-size {cure}"
        )
    # Distances of -npix to npix - 1 pixels; columns run west.
    west, north = GridCoords(coords.cell_size, 2 * npix).ground_coordinates()
    transfer = transfer_function(torch.from_numpy(beam.at(-west, north))[None], fast_fft_size(2 * npix - 1))
    planes = [fft_convolve(plane.double(), transfer[0])[:npix, :npix] for plane in values.reshape(-1, npix, npix)]
    return np.asarray(torch.stack(planes).reshape(values.shape).numpy()) * coords.cell_size**2


def _main_lobe(beam: Real) -> Mask:
    """Return a mask of the pixels that are connected with the centre, above a cut that keeps it off the edge."""
    half = len(beam) // 2
    if not abs(beam[half, half - 1] - 1) < 1e-6:
        raise ValueError(f"a dirty beam is 1 in row {half} and column {half - 1}; got {beam[half, half - 1]:g}")
    centre = np.zeros(beam.shape, bool)
    centre[half, half - 1] = True
    for cut in _LOBE_CUTS:
        lobe = np.asarray(binary_propagation(centre, mask=beam > cut))
        if not (lobe[[0, -1]].any() or lobe[:, [0, -1]].any()):
            return lobe
    raise ValueError("the main lobe reaches the edge of the image: take a wider field, or join other hour angles")


def _fit_gaussian(x: Ints, y: Ints, values: Real) -> Real:
    """Return a, b, c of exp(-(a x² + b xy + c y²)), fitted by Gauss-Newton steps from a linear fit to the logarithm."""
    terms = np.stack([x * x, x * y, y * y], axis=1).astype(float)
    curvature = np.linalg.lstsq(terms, -np.log(values), rcond=None)[0]
    for _ in range(_NEWTON_STEPS):
        model = np.exp(-terms @ curvature)
        curvature = curvature + np.linalg.lstsq(-model[:, None] * terms, values - model, rcond=None)[0]
    return np.asarray(curvature)


def _as_beam(curvature: Real, cell_size: float) -> Beam:
    """Return the beam with a, b, c, where x is to the east and y to the north."""
    a, b, c = curvature
    sizes, axes = np.linalg.eigh([[a, b / 2], [b / 2, c]])
    if not sizes[0] > 0:
        raise ValueError("the main lobe does not fall off in every direction: baselines of other directions are needed")
    minor, major = (cell_size * math.sqrt(FWHM / size) for size in sizes[::-1])
    angle = math.degrees(math.atan2(axes[0, 0], axes[1, 0]))
    return Beam(major, minor, angle % 180)
