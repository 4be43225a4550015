"""The dirty image: what the visibilities show of a sky before anything is assumed of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from firstlight_imaging._types import Complex, Ints, Real
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.gridding import MAX_SCATTER, checked_arrays, means_and_scatter, warn_of_scatter
from firstlight_imaging.fourier.nufft import adjoint
from firstlight_imaging.streaming import chunks

_CHUNK = 1 << 19  # visibilities at once: what is made of them takes about 40 MB
_WEIGHTINGS = ("natural", "uniform", "briggs")
_OVERSAMPLING = 2  # of the grid along u and along v


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
        eps: float = 1e-10,
    ) -> None:
        if not 1e-15 <= eps <= 0.1:
            raise ValueError(f"eps must be from 1e-15 to 0.1; got {eps!r}")
        self.coords, self.eps = coords, eps
        arrays = (np.asarray(values) for values in (data_re, data_im, uu, vv, weight))
        self.data_re, self.data_im, self.uu, self.vv, self.weight = checked_arrays(coords, *arrays)
        self.nchan, self.nvis = self.data_re.shape

    def get_dirty_image(
        self,
        weighting: str = "uniform",
        robust: float | None = None,
        check_visibility_scatter: bool = True,
        max_scatter: float = MAX_SCATTER,
    ) -> tuple[Real, Real]:
        """Return the dirty image, in Jy/beam, and the dirty beam.

        Parameters
        ----------
        weighting
            ``"natural"``: by the noise alone, the lowest noise. ``"uniform"``: every filled cell of the grid counts
            the same, the narrowest beam. ``"briggs"``: between the two.
        robust
            Of Briggs' weights: from -2, close to uniform, to 2, close to natural.
        check_visibility_scatter
            Warn of visibilities that scatter more within the cells of the grid than their weights allow. The image
            itself is made without cells.
        max_scatter
            How much more, as a factor on sigma.

        Returns
        -------
        image : Array
            In sky order, (nchan, npix, npix); over the area of what `fit_beam` finds, it is in Jy/arcsec².
        beam : Array
            What a point source of 1 Jy at the centre would look like, in the same order: 1 at its centre.
        """
        if check_visibility_scatter:
            warn_of_scatter(self.scatter, max_scatter)
        beam, image = self._mean_waves(weighting, robust, with_data=True)
        return image, beam

    def get_dirty_beam(self, weighting: str = "uniform", robust: float | None = None) -> Real:
        """Return the dirty beam alone, in sky order: (nchan, npix, npix), 1 at its centre; see `get_dirty_image`.

        Examples
        --------
        >>> coords = GridCoords(cell_size=0.1, npix=8)
        >>> imager = DirtyImager(coords, [coords.du], [0], weight=[1], data_re=[5], data_im=[0])
        >>> imager.get_dirty_beam()[0, 0, :4].round(3)  # one baseline sees a wave
        array([-0.707,  0.   ,  0.707,  1.   ])
        """
        (beam,) = self._mean_waves(weighting, robust, with_data=False)
        return beam

    def _mean_waves(self, weighting: str, robust: float | None, with_data: bool) -> list[Real]:
        """Return the mean waves of each channel, (nchan, npix, npix), by weights: the beam, and with data the image."""
        npix, half = self.coords.npix, self.coords.npix // 2
        means = np.zeros((1 + with_data, self.nchan, npix, npix))
        for channel in range(self.nchan):
            total = 0.0
            for at, u, v, w in self.imaging_weights(channel, weighting, robust):
                vis = [w.astype(complex)]
                if with_data:
                    vis.append(w * (self.data_re[channel, at] + 1j * self.data_im[channel, at].astype(float)))
                means[:, channel] += image_by_nufft(np.stack(vis), u, v, self.coords, self.eps)
                total += float(w.sum())
            means[:, channel] /= total
            means[0, channel] /= means[0, channel, half, half - 1]  # which is then exactly 1
        return list(means)

    def imaging_weights(
        self, channel: int, weighting: str, robust: float | None
    ) -> Iterator[tuple[slice, Real, Real, Real]]:
        """Yield the baselines of each piece, and the weights that they image with."""
        _check_weighting(weighting, robust)
        density = None if weighting == "natural" else self._density(channel)
        scale = None if density is None or robust is None else _briggs_f2(density, robust)
        for at in self._parts():
            u, v, w = self._read(channel, at)
            if density is not None:
                of_cell = density.reshape(-1)[_folded_cells(self.coords, u, v)]
                # Where there is no weight there may be no density either.
                w /= np.where(w > 0, of_cell, 1) if scale is None else 1 + of_cell * scale
            yield at, u, v, w

    @cached_property
    def scatter(self) -> list[float]:
        """The scatter of each channel's visibilities within the cells of the grid, in units of their own sigma."""
        return [means_and_scatter(self._in_cells(channel), self.coords.npix**2)[2] for channel in range(self.nchan)]

    def _in_cells(self, channel: int) -> Iterator[tuple[Ints, Real, Real, Real]]:
        """Yield the cells of each piece, its weights, and its data."""
        for at in self._parts():
            u, v, w = self._read(channel, at)
            yield self.coords.packed_cells(u, v), w, self.data_re[channel, at], self.data_im[channel, at]

    def _density(self, channel: int) -> Real:
        """Return the sum of weights in each cell of half the plane, mirror images counted: (npix/2 + 1, npix)."""
        npix = self.coords.npix
        total = np.zeros((npix // 2 + 1, npix))
        for at in self._parts():
            u, v, w = self._read(channel, at)
            total += np.bincount(_folded_cells(self.coords, u, v), w, total.size).reshape(-1, npix)
        # The cells of row 0 have their mirror images in row 0, too.
        total[0] += total[0, -np.arange(npix)]
        return total

    def _read(self, channel: int, at: slice) -> tuple[Real, Real, Real]:
        """Return baselines and weights of a piece, in float64."""
        u, v, w = (values[channel, at].astype(float) for values in (self.uu, self.vv, self.weight))
        return u, v, w

    def _parts(self) -> Iterator[slice]:
        """Yield the pieces of the visibilities; large images take larger ones, since each piece costs an FFT."""
        return chunks(self.nvis, max(_CHUNK, self.coords.npix**2 // 4))


def _folded_cells(coords: GridCoords, u: Real, v: Real) -> Ints:
    """Return the cell of each baseline, or of its mirror image, in a flattened half plane: v = 0 and above.

    Examples
    --------
    >>> coords = GridCoords(cell_size=0.1, npix=8)
    >>> _folded_cells(coords, coords.du * np.array([1, -1.0, -1]), coords.du * np.array([2, -2.0, 0])).tolist()
    [17, 17, 7]
    """
    column = np.floor(np.where(v < 0, -u, u) / coords.du + 0.5).astype(np.int64) % coords.npix
    column += np.floor(np.abs(v) / coords.du + 0.5).astype(np.int64) * coords.npix
    return np.asarray(column)


def _briggs_f2(density: Real, robust: float) -> float:
    """Return Briggs' f²: how strongly the density of a cell counts, measured by the mean density of the weights."""
    squares = 2 * float((density[1:] ** 2).sum()) + float((density[0] ** 2).sum())
    weights = 2 * float(density[1:].sum()) + float(density[0].sum())
    return (5 * 10**-robust) ** 2 * weights / squares


def _check_weighting(weighting: str, robust: float | None) -> None:
    """Raise an error for unknown weights, or a robust value with the wrong ones."""
    if weighting not in _WEIGHTINGS:
        raise ValueError(f"weighting must be one of {', '.join(_WEIGHTINGS)}; got {weighting!r}")
    if weighting == "briggs" and (robust is None or not -2 <= robust <= 2):
        raise ValueError(f"Briggs weights need robust, from -2 (close to uniform) to 2 (natural); got {robust!r}")
    if weighting != "briggs" and robust is not None:
        raise ValueError(f'robust belongs to weighting="briggs"; got robust={robust!r} with {weighting!r}')


def image_by_nufft(vis: Complex, u: Real, v: Real, coords: GridCoords, eps: float = 1e-10) -> Real:
    """Return the sum of waves by a non-uniform fast Fourier transform, within ``eps`` of the sum of the amplitudes.

    Examples
    --------
    >>> coords = GridCoords(cell_size=0.1, npix=4)
    >>> u, v = np.array([coords.du]), np.array([0.0])
    >>> vis = np.ones((1, 1), complex)
    >>> image_by_nufft(vis, u, v, coords)[0, 0].round(9) + 0.0  # column 0 is a quarter of the field east of the centre
    array([ 0.,  1.,  0., -1.])
    """
    modes = adjoint(torch.from_numpy(vis), u, v, coords.cell_size, coords.npix, eps=eps)
    return np.asarray(modes.numpy()) / coords.cell_size**2


def image_by_gridding(vis: Complex, u: Real, v: Real, coords: GridCoords) -> Real:
    """Return the sum of waves by sharing each visibility among the four nearest cells, and an FFT.

    The sharing spreads a visibility over a triangle two cells wide, which darkens the image towards its edges by sinc²
    along both axes. Dividing by it mends that. What stays is light of the same waves from beyond the edges of the
    field of the cells, folded in: cells twice as fine as those of the grid move those edges out.

    Of 3e5 visibilities of a sky that fills the field, the worst pixel was off by 3e-3 of the peak, most of all near
    the edges, and by 3e-4 in the inner quarter. It is at its worst for baselines that repeat on a grid of their own,
    whose image repeats beyond the edges: a visibility in the middle of a cell is corrected for a sharing that it did
    not need.

    Examples
    --------
    >>> coords = GridCoords(cell_size=0.1, npix=8)
    >>> vis, zero = np.ones((1, 1), complex), np.zeros(1)
    >>> float(image_by_gridding(vis, zero, zero, coords)[0, 4, 3].round(9))  # one wave without a direction
    1.0
    """
    width, step = _OVERSAMPLING * coords.npix, coords.du / _OVERSAMPLING
    grid = np.zeros((len(vis), width**2), complex)
    for cell, share in _bilinear_shares(u / step, v / step, width):
        for plane, values in zip(grid, vis, strict=True):
            plane.real += np.bincount(cell, share * values.real, width**2)
            plane.imag += np.bincount(cell, share * values.imag, width**2)
    wide = np.fft.fftshift(np.fft.ifft2(grid.reshape(-1, width, width), norm="forward").real, axes=(-2, -1))
    edge = (width - coords.npix) // 2
    inner = wide[:, edge : width - edge, edge : width - edge]
    darkening = np.sinc((np.arange(coords.npix) - coords.npix // 2) / width) ** 2
    return np.ascontiguousarray((inner / np.outer(darkening, darkening))[..., ::-1])


def _bilinear_shares(x: Real, y: Real, width: int) -> Iterator[tuple[Ints, Real]]:
    """Yield each of the four cells around the points, packed, and its share: the nearer the larger.

    Examples
    --------
    >>> for cell, share in _bilinear_shares(np.array([1.25]), np.array([-0.5]), width=4):
    ...     print(cell[0], share[0])
    13 0.375
    14 0.125
    1 0.375
    2 0.125
    """
    left, below = np.floor(x), np.floor(y)
    for up in (0, 1):
        for right in (0, 1):
            share = (1 - np.abs(x - left - right)) * (1 - np.abs(y - below - up))
            cell = (below + up).astype(np.int64) % width * width + (left + right).astype(np.int64) % width
            yield cell, share
