"""The grid of an image and of its Fourier plane, and the three orders in which the pixels of a cube can lie.

*sky*
    As a map is read: row 0 is south, column 0 is east (``imshow`` with ``origin="lower"``).
*ground*
    The sky flipped along its columns, so that l grows with the column and m with the row.
*packed*
    The ground with its centre moved to [0, 0], where a fast Fourier transform has it.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from firstlight_imaging._types import Real
from firstlight_imaging.streaming import chunks
from firstlight_imaging.units import ARCSEC

MIN_GRID_FRACTION = 0.01  # data that reach less of the grid are in another unit, most likely

_BLOCK = 1 << 15  # visibilities at once, so that what is computed of them stays in the cache

Cube = TypeVar("Cube", torch.Tensor, npt.NDArray[Any])


class GridCoords:
    """A square image of ``npix`` x ``npix`` cells and the grid of spatial frequencies that belongs to it.

    Cell (N/2, N/2) of the ground order is the phase centre.

    Parameters
    ----------
    cell_size
        Width of a pixel, in arcseconds.
    npix
        Pixels along a side: an even number.

    Examples
    --------
    >>> coords = GridCoords(cell_size=0.03, npix=180)
    >>> round(coords.du), round(coords.uv_limit)
    (38197, 3418648)
    >>> coords == GridCoords(0.03, 180)
    True
    """

    def __init__(self, cell_size: float, npix: int) -> None:
        if not (math.isfinite(cell_size) and cell_size > 0):
            raise ValueError(f"cell_size must be a positive number of arcseconds; got {cell_size!r}")
        if npix != int(npix) or npix < 2 or npix % 2:
            raise ValueError(f"npix must be an even number of pixels, 2 or more; got {npix!r}")
        self.cell_size = float(cell_size)
        self.npix = int(npix)

    @property
    def du(self) -> float:
        """The spacing of the grid along u, and along v, in wavelengths."""
        return 1 / (self.npix * self.cell_size * ARCSEC)

    @property
    def uv_limit(self) -> float:
        """The largest abs(u) or abs(v) for which a visibility and its mirror image both have a cell."""
        return (self.npix - 1) / 2 * self.du

    @property
    def uv_centers(self) -> Real:
        """The frequencies along u, and along v, at which the cells are centred, from low to high."""
        return np.asarray((np.arange(self.npix) - self.npix // 2) * self.du)

    @property
    def img_ext(self) -> tuple[float, float, float, float]:
        """The outer edges of a sky image (east, west, south, north) in arcseconds, as ``imshow`` takes them."""
        near, far = (self.npix - 1) / 2 * self.cell_size, (self.npix + 1) / 2 * self.cell_size
        return near, -far, -far, near

    @property
    def vis_ext(self) -> tuple[float, float, float, float]:
        """The outer edges of a ground cube of visibilities (left, right, bottom, top) in wavelengths."""
        low = -(self.npix + 1) / 2 * self.du
        return low, self.uv_limit, low, self.uv_limit

    def ground_coordinates(self) -> tuple[Real, Real]:
        """Return l and m of every pixel in ground order, in arcseconds."""
        along = (np.arange(self.npix) - self.npix // 2) * self.cell_size
        north, east = np.meshgrid(along, along, indexing="ij")
        return east, north

    def sky_coordinates(self) -> tuple[Real, Real]:
        """Return l (to the east) and m (to the north) of every pixel in sky order, in arcseconds.

        Examples
        --------
        >>> east, north = GridCoords(cell_size=0.5, npix=4).sky_coordinates()
        >>> east[0].tolist(), north[:, 0].tolist()
        ([0.5, 0.0, -0.5, -1.0], [-1.0, -0.5, 0.0, 0.5])
        """
        east, north = self.ground_coordinates()
        return ground_to_sky(east), ground_to_sky(north)

    def packed_coordinates(self) -> tuple[Real, Real]:
        """Return l and m of every pixel in packed order, in arcseconds."""
        east, north = self.ground_coordinates()
        return ground_to_packed(east), ground_to_packed(north)

    def packed_uv(self) -> tuple[Real, Real]:
        """Return u and v of every cell in packed order, in wavelengths."""
        v, u = np.meshgrid(self.uv_centers, self.uv_centers, indexing="ij")
        return ground_to_packed(u), ground_to_packed(v)

    def packed_cells(self, uu: npt.ArrayLike, vv: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the cell that each baseline falls into: its index in a flattened packed plane.

        Examples
        --------
        >>> coords = GridCoords(cell_size=0.1, npix=8)
        >>> coords.packed_cells([0, 1.4 * coords.du, -coords.du], [0, 0, coords.du]).tolist()
        [0, 1, 15]
        """
        both = np.broadcast_arrays(uu, vv)
        u, v = (np.ravel(along) for along in both)
        cells = np.empty(u.size, np.int64)
        for some in chunks(u.size, _BLOCK):
            column, row = (np.floor(along[some] / self.du + 0.5) for along in (u, v))
            for cell in (column, row):  # integers have a remainder, but a slow one
                cell -= self.npix * np.floor(cell / self.npix)
            cells[some] = row * self.npix + column
        return cells.reshape(both[0].shape)

    def check_data_fit(self, uu: npt.ArrayLike, vv: npt.ArrayLike) -> None:
        """Raise an error for data that lie beyond the grid, or all near its centre.

        Parameters
        ----------
        uu, vv
            Baselines in wavelengths.

        Raises
        ------
        ValueError
            With the numbers, and a cell size that would do.

        Examples
        --------
        >>> coords = GridCoords(cell_size=0.03, npix=180)
        >>> coords.check_data_fit([2e5, -1.5e6], [1e6, 0])
        >>> coords.check_data_fit([200, -1500], [1000, 0])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: the longest baseline is 1500 wavelengths, 0.044 % of ... If u and v are in kilo-lambda...
        """
        u, v = np.asarray(uu), np.asarray(vv)  # as they are: maps of files may be large
        if not u.size or not v.size:
            raise ValueError("there are no visibilities: uu and vv are empty")
        extremes = np.abs([u.min(), u.max(), v.min(), v.max()])
        if not np.isfinite(extremes).all():
            raise ValueError("uu and vv must be finite numbers of wavelengths; some are NaN or infinite")
        farthest = float(extremes.max())
        if farthest > self.uv_limit:
            fitting = round_down(self.cell_size * self.uv_limit / farthest)
            raise ValueError(
                f"u or v reaches {farthest:.4g} wavelengths, but cells of {self.cell_size:g} arcsec hold only "
                f"{self.uv_limit:.4g}. Take a cell_size of {fitting:g} arcsec or less."
            )
        longest = float(np.hypot(u, v).max()) if farthest < MIN_GRID_FRACTION * self.uv_limit else farthest
        if longest < MIN_GRID_FRACTION * self.uv_limit:
            raise ValueError(
                f"the longest baseline is {longest:.4g} wavelengths, {100 * longest / self.uv_limit:.2g} % of the "
                f"{self.uv_limit:.4g} that cells of {self.cell_size:g} arcsec can hold. If u and v are in "
                "kilo-lambda, multiply them by 1000; if in wavelengths, take larger cells."
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GridCoords):
            return NotImplemented
        return (self.cell_size, self.npix) == (other.cell_size, other.npix)

    def __hash__(self) -> int:
        return hash((self.cell_size, self.npix))

    def __repr__(self) -> str:
        return f"GridCoords(cell_size={self.cell_size:g}, npix={self.npix})"


def check_cube(cube: torch.Tensor, coords: GridCoords, nchan: int, name: str = "the cube") -> None:
    """Raise an error if a cube is not (nchan, npix, npix)."""
    expected = (nchan, coords.npix, coords.npix)
    if tuple(cube.shape) != expected:
        raise ValueError(f"{name} must be (nchan, npix, npix) = {expected}; got {tuple(cube.shape)}")


def sky_to_ground(cube: Cube) -> Cube:
    """Return a cube with its columns flipped: l then grows with the column.

    Examples
    --------
    >>> sky_to_ground(np.array([[1, 2], [3, 4]])).tolist()
    [[2, 1], [4, 3]]
    """
    return cube.flip(-1) if isinstance(cube, torch.Tensor) else cube[..., ::-1]


def ground_to_sky(cube: Cube) -> Cube:
    """Return a cube with its columns flipped: east is then to the left.

    Examples
    --------
    >>> ground_to_sky(np.array([[1, 2, 3, 4]]))
    array([[4, 3, 2, 1]])
    """
    return sky_to_ground(cube)


def ground_to_packed(cube: Cube) -> Cube:
    """Return a cube with the centre at [0, 0].

    Examples
    --------
    >>> ground_to_packed(np.arange(16).reshape(4, 4))[0]
    array([10, 11,  8,  9])
    """
    if isinstance(cube, torch.Tensor):
        return cast("Cube", torch.fft.ifftshift(cube, dim=(-2, -1)))
    return np.fft.ifftshift(cube, axes=(-2, -1))


def packed_to_ground(cube: Cube) -> Cube:
    """Return a cube with [0, 0] at the centre.

    Examples
    --------
    >>> image = np.arange(16).reshape(4, 4)
    >>> bool((packed_to_ground(ground_to_packed(image)) == image).all())
    True
    """
    if isinstance(cube, torch.Tensor):
        return cast("Cube", torch.fft.fftshift(cube, dim=(-2, -1)))
    return np.fft.fftshift(cube, axes=(-2, -1))


def sky_to_packed(cube: Cube) -> Cube:
    """Return a map in the order that a Fourier transform takes.

    Examples
    --------
    >>> sky = np.zeros((4, 4))
    >>> sky[2, 1] = 1  # the phase centre: row N/2, column N/2 - 1
    >>> int(np.argmax(sky_to_packed(sky)))
    0
    """
    return ground_to_packed(sky_to_ground(cube))


def packed_to_sky(cube: Cube) -> Cube:
    """Return a map from the order that a Fourier transform takes.

    Examples
    --------
    >>> packed = np.zeros((4, 4))
    >>> packed[0, 0] = 1
    >>> np.argwhere(packed_to_sky(packed)).tolist()  # the centre of the sky
    [[2, 1]]
    """
    return ground_to_sky(packed_to_ground(cube))


def round_down(value: float) -> float:
    """Return a number of two digits that is less than the value, if by a rounding error only."""
    value *= 1 - 1e-9
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.floor(value / step) * step:.6g}")
