"""Read visibilities from UVFITS, with astropy alone; `firstlight.imaging.uvfits_writer` writes them."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from astropy.io import fits  # type: ignore[import-untyped]

from firstlight.imaging.observe import Observation
from firstlight.imaging.skies import Complex, Ints, Real
from firstlight.imaging.uvfits_layout import Layout, Raw, read_layout

__all__ = ["read_phase_centre", "read_uvfits"]

DAY = 86400.0  # seconds
FARTHEST = 10.0  # light-seconds: the orbit of no antenna is as wide
CODES = (1, 2, 3, 4, -1, -2, -3, -4, -5, -6, -7, -8)
STOKES = dict(zip(CODES, ["I", "Q", "U", "V", "RR", "LL", "RL", "LR", "XX", "YY", "XY", "YX"], strict=True))
INTENSITIES = ((1,), (-5, -6), (-1, -2))  # what Stokes I is made of, the best first


def read_uvfits(path: str | Path, *, conjugate: bool = True) -> Observation:
    """Read the total intensity of one source.

    Both hands (XX and YY, or RR and LL) estimate Stokes I of an unpolarized source: their mean is taken, each
    counting by its weight, and the weights add up. Where one hand is flagged, the other counts alone. A weight of
    zero or less is a flag. Autocorrelations are left out.

    Parameters
    ----------
    path
        Of the file, not compressed.
    conjugate
        Files are written with phases of the sign of exp(+2πi(ul + vm)), where u leads from the second antenna to the
        first. Ours is exp(-2πi(ul + vm)), from the first to the second. So by default u and v change sign, which says
        the same as conjugated data. With False they are kept, for a file of the other sign: if the image comes out
        turned by 180 degrees, this is why.

    Returns
    -------
    Observation
        ``time`` is in seconds since the first integration; ``execution`` counts the file's subarrays from 0.

    Examples
    --------
    >>> from firstlight.imaging.observe import observe, uv_track
    >>> from firstlight.imaging.skies import Point
    >>> seen = observe([Point(0.5, 1.0, 0.2)], uv_track(n_times=2))
    >>> import tempfile
    >>> from firstlight.imaging.uvfits_writer import write_uvfits
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_uvfits(f"{folder}/sky.uvfits", seen, phase_centre=(83.0, -24.0))
    ...     back = read_uvfits(f"{folder}/sky.uvfits")
    >>> bool(np.allclose(back.data, seen.data, atol=1e-6))
    True
    """
    layout = read_layout(Path(path))
    chosen, antennas, subarray = baselines(layout)
    sign = -1.0 if conjugate else 1.0
    uu, vv = (sign * layout.frequency[:, None] * seconds(layout, name)[chosen] for name in ("UU", "VV"))
    data, weight = np.empty(uu.shape, complex), np.empty(uu.shape)
    table = layout.table()
    for piece in layout.pieces(chosen):
        hands, weights = values(layout, table[chosen[piece]])
        data[:, piece], weight[:, piece] = total_intensity(hands, weights)
    if not weight.any():
        raise ValueError(f"{path} is flagged throughout: no weight is above zero")
    days = layout.needed("DATE")[chosen]
    return Observation(
        uu=uu,
        vv=vv,
        data=data,
        weight=weight,
        frequency=layout.frequency,
        window=layout.window,
        antennas=antennas[chosen],
        time=(days - days.min()) * DAY,
        execution=subarray[chosen],
    )


def read_phase_centre(path: str | Path) -> tuple[float, float]:
    """Read right ascension and declination, in degrees, of the phase centre of a file of one source.

    A file in AIPS's multi-source form has them in a table, any other in its first header.

    Examples
    --------
    >>> import tempfile
    >>> from firstlight.imaging.observe import observe, uv_track
    >>> from firstlight.imaging.skies import Point
    >>> from firstlight.imaging.uvfits_writer import write_uvfits
    >>> seen = observe([Point(0.5)], uv_track(n_times=2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_uvfits(f"{folder}/sky.uvfits", seen, phase_centre=(83.0, -24.0))
    ...     read_phase_centre(f"{folder}/sky.uvfits")
    (83.0, -24.0)
    """
    number = read_layout(Path(path)).parameter("SOURCE")  # refuses what is no UVFITS file
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tables that are not needed
        with fits.open(path) as hdus:
            header = hdus[0].header
            axes = range(2, header["NAXIS"] + 1)
            held = {str(header.get(f"CTYPE{i}")).split("-")[0].strip(): header.get(f"CRVAL{i}") for i in axes}
            ra, dec = held.get("RA"), held.get("DEC")
            if number is not None and "AIPS SU" in hdus:
                table = hdus["AIPS SU"].data
                ra, dec = (table[name][table["ID. NO."] == round(number[0])][0] for name in ("RAEPO", "DECEPO"))
    if ra is None or dec is None:
        raise ValueError(f"{path} does not say where its phase centre is: its axes are {', '.join(held)}")
    return float(ra) % 360, float(dec)


def baselines(layout: Layout) -> tuple[Ints, Ints, Ints]:
    """Give the numbers of the rows that are of one baseline each, and the antennas and subarray of every row."""
    for name, what in (("SOURCE", "sources"), ("FREQSEL", "frequency set-ups")):
        numbers = layout.parameter(name)
        if numbers is not None and len(found := np.unique(numbers)) > 1:
            raise ValueError(f"{layout.path} holds {len(found)} {what} ({name} {found}): write one to a file")
        if name == "FREQSEL" and numbers is not None and layout.setups > 1 and numbers[0] != 1:
            raise ValueError(f"{layout.path}: its rows are of FREQSEL {numbers[0]:g}, not of the first in AIPS FQ")
    code = layout.parameter("BASELINE")
    if code is None:
        first, second = (layout.needed(name) for name in ("ANTENNA1", "ANTENNA2"))
        subarray = layout.parameter("SUBARRAY")
        subarray = np.ones(layout.rows) if subarray is None else subarray
    else:
        code = layout.needed("BASELINE")
        whole = np.floor(code + 1e-3)
        large = whole > 65536  # more than 255 antennas
        first, second = np.divmod(np.where(large, whole - 65536, whole), np.where(large, 2048, 256))
        subarray = 1 + np.round(100 * (code - whole))
    antennas = np.stack([first, second], axis=1).round().astype(int) - 1
    if antennas.min() < 0:
        raise ValueError(f"{layout.path}: antennas count from 1, but a row is of antenna {antennas.min() + 1}")
    chosen = np.flatnonzero(antennas[:, 0] != antennas[:, 1])
    if not chosen.size:
        raise ValueError(f"{layout.path} holds autocorrelations only")
    return chosen, antennas, np.maximum(subarray.round().astype(int) - 1, 0)


def seconds(layout: Layout, axis: str) -> Real:
    """Give u or v in light-seconds."""
    names = (axis, *(f"{axis}{'-' * dashes}{plane}" for dashes in range(1, 4) for plane in ("", "SIN", "NCP")))
    lengths = layout.needed(*names)
    if np.abs(lengths).max() > FARTHEST:
        raise ValueError(
            f"{layout.path}: {axis} reaches {np.abs(lengths).max():.4g}, which is no number of light-seconds for an "
            "array on earth; convert it from wavelengths or metres first"
        )
    return lengths


def intensities(layout: Layout) -> list[int]:
    """Tell where on the Stokes axis that stands which total intensity is made of."""
    for wanted in INTENSITIES:
        if found := [i for i, code in enumerate(layout.stokes) if code in wanted]:
            return found
    held = ", ".join(STOKES.get(code, str(code)) for code in layout.stokes)
    raise ValueError(f"{layout.path} holds {held}; total intensity needs I, XX or YY, or RR or LL")


def values(layout: Layout, rows: Raw) -> tuple[Complex, Real]:
    """Give the hands of total intensity and their weights, (hand, channel, row); those flagged are 0."""
    stored = layout.cube(rows)[:, :, :, intensities(layout)]
    cube = stored * np.float64(layout.scale) + layout.zero
    if layout.blank is not None:
        cube[(stored == layout.blank).any(axis=-1)] = 0
    weight = cube[..., 2]
    counts = weight > 0
    unknown = np.isnan(weight) | (counts & ~np.isfinite(cube).all(axis=-1))
    if unknown.any():
        raise ValueError(
            f"{layout.path}: {unknown.sum()} visibilities or weights are NaN or infinite and not flagged. Give them "
            "the weight 0"
        )
    cube[~counts] = 0
    in_order = (-1, len(rows))
    hands = [np.moveaxis(array, (3, 0), (0, 3)) for array in (cube[..., 0] + 1j * cube[..., 1], cube[..., 2])]
    return tuple(array.reshape(len(array), *in_order) for array in hands)  # type: ignore[return-value]


def total_intensity(hands: Complex, weights: Real) -> tuple[Complex, Real]:
    """Average the hands by their weights."""
    weight = weights.sum(axis=0)
    mean = np.divide((weights * hands).sum(axis=0), weight, out=np.zeros(weight.shape, complex), where=weight > 0)
    return mean, weight
