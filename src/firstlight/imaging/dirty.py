"""The dirty image: what the visibilities show of a sky before anything is assumed of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from firstlight.imaging.beams import fit_beam
from firstlight.imaging.coordinates import Array, GridCoords
from firstlight.imaging.gridding import refuse_mirrored, refuse_unusable, same_shape
from firstlight.imaging.waves import METHODS, by_direct_sum, by_gridding, by_nufft

CHUNK = 1 << 19  # visibilities at once: what is made of them takes about 40 MB
WEIGHTINGS = ("natural", "uniform", "briggs")
UNITS = ("Jy/beam", "Jy/arcsec^2")

Taper = Callable[[Array, Array], npt.ArrayLike]


class DirtyImager:
    """Dirty images and dirty beams of visibilities, as exact as asked for, in little memory.

    The arrays are read where they lie, a piece at a time: they may be float32, or maps of files. Each baseline is to
    be given once, in either direction, not a second time as its mirror image.

    Parameters
    ----------
    coords
        The grid.
    uu, vv
        Baselines in wavelengths: (nchan, nvis), or (nvis) for a single channel or the same in every channel.
    weight
        1 / sigma², where sigma is the noise of the real and of the imaginary part. Zero leaves a visibility out.
    data_re, data_im
        The visibilities in Jy: (nchan, nvis), or (nvis) for a single channel.
    method
        ``"nufft"``: a non-uniform fast Fourier transform. ``"direct"``: every wave at every pixel, exact and slow.
        ``"gridding"``: cells, a fast Fourier transform and a correction, off by up to about 1 % of the peak (see
        `firstlight.imaging.waves`).
    eps
        The error that the NUFFT may make, relative to the sum of the weighted amplitudes.

    Examples
    --------
    A source of 3 Jy, one pixel north of the centre:

    >>> coords = GridCoords(cell_size=0.1, npix=8)
    >>> u, v = coords.du * np.array([0, 1, 2, -3]), coords.du * np.array([1, 2, 0, 1])
    >>> data = 3 * np.exp(-2j * np.pi * v / coords.du / coords.npix)
    >>> imager = DirtyImager(coords, u, v, weight=np.ones(4), data_re=data.real, data_im=data.imag)
    >>> image, beam = imager.get_dirty_image(weighting="natural")
    >>> image.round(6).max(), float(image[0, 5, 3].round(6)), float(beam[0, 4, 3])
    (np.float64(3.0), 3.0, 1.0)
    """

    def __init__(
        self,
        coords: GridCoords,
        uu: npt.ArrayLike,
        vv: npt.ArrayLike,
        weight: npt.ArrayLike,
        data_re: npt.ArrayLike,
        data_im: npt.ArrayLike,
        *,
        method: str = "nufft",
        eps: float = 1e-10,
    ) -> None:
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
        if not 1e-15 <= eps <= 0.1:
            raise ValueError(f"eps must be from 1e-15 to 0.1; got {eps!r}")
        self.coords, self.method, self.eps = coords, method, eps
        named = {"data_re": data_re, "data_im": data_im, "uu": uu, "vv": vv, "weight": weight}
        re, im, u, v, w = same_shape_in_place({name: np.asarray(values) for name, values in named.items()})
        self.nchan, self.nvis = re.shape
        self.uu, self.vv, self.weight, self.data_re, self.data_im = u, v, w, re, im
        coords.check_data_fit(*self.outermost())
        refuse_unusable(re, im, w)
        refuse_mirrored(u, v, re, im)

    def get_dirty_image(
        self,
        weighting: str = "uniform",
        robust: float | None = None,
        taper_function: Taper | None = None,
        unit: str = "Jy/beam",
    ) -> tuple[Array, Array]:
        """Image the visibilities.

        Parameters
        ----------
        weighting
            ``"natural"``: by the noise alone, the lowest noise. ``"uniform"``: every filled cell of the grid counts
            the same, the narrowest beam. ``"briggs"``: between the two.
        robust
            Of Briggs' weights: from -2, close to uniform, to 2, close to natural.
        taper_function
            Takes arrays of u and v in wavelengths and gives a factor for each weight.
        unit
            ``"Jy/beam"``, or ``"Jy/arcsec^2"``: divided by the area of the Gaussian that fits the main lobe.

        Returns
        -------
        image : Array
            In sky order, (nchan, npix, npix).
        beam : Array
            What a point source of 1 Jy at the centre would look like, in the same order: 1 at its centre.
        """
        if unit not in UNITS:
            raise ValueError(f"unit must be one of {', '.join(UNITS)}; got {unit!r}")
        image, beam = self.empty(), self.empty()
        for channel in range(self.nchan):
            total = 0.0
            for at, u, v, w in self.weighted(channel, weighting, robust, taper_function):
                data = self.data_re[channel, at] + 1j * self.data_im[channel, at].astype(float)
                seen = self.on_sky(np.stack([w * data, w.astype(complex)]), u, v)
                image[channel] += seen[0]
                beam[channel] += seen[1]
                total += float(w.sum())
            image[channel] /= something(total, channel)
            self.to_peak(beam[channel])
            if unit == "Jy/arcsec^2":
                image[channel] /= fit_beam(beam[channel], self.coords.cell_size).area
        return image, beam

    def get_dirty_beam(
        self, weighting: str = "uniform", robust: float | None = None, taper_function: Taper | None = None
    ) -> Array:
        """Give the dirty beam alone, in sky order: (nchan, npix, npix), 1 at its centre; see `get_dirty_image`.

        Examples
        --------
        >>> coords = GridCoords(cell_size=0.1, npix=8)
        >>> imager = DirtyImager(coords, [coords.du], [0], weight=[1], data_re=[5], data_im=[0])
        >>> imager.get_dirty_beam()[0, 0, :4].round(3)  # one baseline sees a wave
        array([-0.707,  0.   ,  0.707,  1.   ])
        """
        beam = self.empty()
        for channel in range(self.nchan):
            total = 0.0
            for _, u, v, w in self.weighted(channel, weighting, robust, taper_function):
                beam[channel] += self.on_sky(w.astype(complex)[None], u, v)[0]
                total += float(w.sum())
            something(total, channel)
            self.to_peak(beam[channel])
        return beam

    # Below: a channel at a time, and of it a piece at a time.

    def weighted(
        self, channel: int, weighting: str, robust: float | None, taper: Taper | None
    ) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Give the baselines of each piece, and the weights that they image with."""
        check_weighting(weighting, robust)
        density = None if weighting == "natural" else self.density(channel)
        scale = None if density is None or robust is None else briggs(density, robust)
        for at in self.parts():
            u, v, w = self.read(channel, at)
            if density is not None:
                crowd = density.reshape(-1)[folded_cells(self.coords, u, v)]
                # Where there is no weight there may be no density either.
                w /= np.where(w > 0, crowd, 1) if scale is None else 1 + crowd * scale
            if taper is not None:
                w = w * checked_taper(taper(u, v), w.shape)
            yield at, u, v, w

    def density(self, channel: int) -> Array:
        """Add up the weights in each cell of half the Fourier plane, mirror images counted: (npix/2 + 1, npix)."""
        npix = self.coords.npix
        total = np.zeros((npix // 2 + 1, npix))
        for at in self.parts():
            u, v, w = self.read(channel, at)
            total += np.bincount(folded_cells(self.coords, u, v), w, total.size).reshape(-1, npix)
        # The cells of row 0 have their mirror images in row 0, too.
        total[0] += total[0, -np.arange(npix)]
        return total

    def on_sky(self, vis: npt.NDArray[np.complex128], u: Array, v: Array) -> Array:
        """Add up waves on the pixels, in sky order."""
        if self.method == "nufft":
            return by_nufft(vis, u, v, self.coords, self.eps)
        return (by_gridding if self.method == "gridding" else by_direct_sum)(vis, u, v, self.coords)

    def to_peak(self, beam: Array) -> None:
        """Divide by the centre, which is then exactly 1."""
        half = self.coords.npix // 2
        beam /= beam[half, half - 1]

    def empty(self) -> Array:
        """Start with dark images."""
        return np.zeros((self.nchan, self.coords.npix, self.coords.npix))

    def read(self, channel: int, at: slice) -> tuple[Array, Array, Array]:
        """Read baselines and weights of a piece, in float64."""
        u, v, w = (values[channel, at].astype(float) for values in (self.uu, self.vv, self.weight))
        return u, v, w

    def parts(self) -> Iterator[slice]:
        """Cut the visibilities in pieces; large images take larger ones, since each piece costs an FFT."""
        size = max(CHUNK, self.coords.npix**2 // 4)
        return (slice(start, start + size) for start in range(0, max(self.nvis, 1), size))

    def outermost(self) -> tuple[list[float], list[float]]:
        """Find the largest u, the largest v and the longest baseline of every piece, or what is NaN."""
        us, vs = [], []
        for channel in range(self.nchan):
            for at in self.parts():
                u, v, _ = self.read(channel, at)
                if len(u):
                    far = [int(np.argmax(size)) for size in (np.abs(u), np.abs(v), np.hypot(u, v))]
                    us += u[far].tolist()
                    vs += v[far].tolist()
        return us, vs


def folded_cells(coords: GridCoords, u: Array, v: Array) -> npt.NDArray[np.int64]:
    """Return the cell of each baseline, or of its mirror image, in a flattened half plane: v = 0 and above.

    Examples
    --------
    >>> coords = GridCoords(cell_size=0.1, npix=8)
    >>> folded_cells(coords, coords.du * np.array([1, -1.0, -1]), coords.du * np.array([2, -2.0, 0])).tolist()
    [17, 17, 7]
    """
    column = np.floor(np.where(v < 0, -u, u) / coords.du + 0.5).astype(np.int64) % coords.npix
    column += np.floor(np.abs(v) / coords.du + 0.5).astype(np.int64) * coords.npix
    return np.asarray(column)


def briggs(density: Array, robust: float) -> float:
    """Return Briggs' f²: how strongly the density of a cell counts, measured by the mean density of the weights."""
    squares = 2 * float((density[1:] ** 2).sum()) + float((density[0] ** 2).sum())
    weights = 2 * float(density[1:].sum()) + float(density[0].sum())
    return (5 * 10**-robust) ** 2 * weights / squares


def same_shape_in_place(arrays: dict[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Bring all arrays to the shape of the data, and refuse complex numbers; nothing is copied."""
    for name, values in arrays.items():
        if values.dtype.kind not in "fiu":
            raise TypeError(f"{name} must be real numbers; got {values.dtype}")
    return same_shape(arrays)


def check_weighting(weighting: str, robust: float | None) -> None:
    """Refuse unknown weights, and a robust value with the wrong ones."""
    if weighting not in WEIGHTINGS:
        raise ValueError(f"weighting must be one of {', '.join(WEIGHTINGS)}; got {weighting!r}")
    if weighting == "briggs" and (robust is None or not -2 <= robust <= 2):
        raise ValueError(f"Briggs weights need robust, from -2 (close to uniform) to 2 (natural); got {robust!r}")
    if weighting != "briggs" and robust is not None:
        raise ValueError(f'robust belongs to weighting="briggs"; got robust={robust!r} with {weighting!r}')


def checked_taper(factor: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    """Refuse a taper that is no factor for each weight."""
    factor = np.asarray(factor, dtype=float)
    if factor.shape not in ((), shape) or not (np.isfinite(factor).all() and (factor >= 0).all()):
        raise ValueError(
            f"taper_function must give a finite factor, zero or more, for each of {shape[0]} baselines; "
            f"got the shape {factor.shape}, from {np.nanmin(factor):g} to {np.nanmax(factor):g}"
        )
    return factor


def something(total: float, channel: int) -> float:
    """Refuse to divide by nothing."""
    if not total > 0:
        raise ValueError(f"the taper leaves no weight in channel {channel}: its scale is in wavelengths")
    return total
