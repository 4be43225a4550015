"""Read a measurement set, CASA's folder of tables, with arcae."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from firstlight_imaging._types import Complex, Ints, Mask, Real
from firstlight_imaging.data.uvfits import printable, total_intensity
from firstlight_imaging.data.visibilities import Visibilities, check_nothing_counts_twice, check_visibilities, readable
from firstlight_imaging.directions import from_j2000
from firstlight_imaging.streaming import chunks
from firstlight_imaging.units import LIGHT_SPEED, check_hertz

Field: TypeAlias = int | str | None
Windows: TypeAlias = Sequence[int] | None

_PARALLEL_HANDS = (1, 5, 8, 9, 12)  # CASA's codes of I; RR and LL; XX and YY
_NUMBERS_AT_ONCE = 2**21
_TICKS = 1000  # a second: by times in these, rows of several windows are matched


@dataclass(frozen=True, eq=False)
class _Window:
    """The rows of one field in one spectral window, each with a key: time in ticks, antennas, and which of those alike.

    ``part`` says where its channels are among those of all windows.
    """

    part: slice
    frequency: Real
    keys: Ints
    uv: Real
    observation: Ints
    data: Complex
    weight: Real


def read_ms(
    path: str | Path, *, field: Field = None, column: str | None = None, windows: Windows = None
) -> Visibilities:
    """Return the total intensity of one field, all of its spectral windows beside each other.

    Needs arcae (``python -m pip install "arcae>=0.5.8"``), which there isn't for Windows. Both parallel hands are
    averaged as by `read_uvfits`; what is NaN or has no positive weight, is flagged. Where a window lacks a row that
    another has, its channels are flagged there.

    Parameters
    ----------
    path
        Of the set, a folder.
    field
        Its number or its name; it may be left out where there are visibilities of one field only.
    column
        Of the data; without it ``CORRECTED_DATA`` where the set has that, and ``DATA`` elsewhere.
    windows
        The numbers of the spectral windows to read; without them, all.

    Returns
    -------
    Visibilities
        ``window`` counts those that were read from 0, and ``execution`` the observations; ``phase_centre`` is None
        where its frame is neither ICRS nor J2000. The weights are those of ``WEIGHT_SPECTRUM``, or of ``WEIGHT``.

    Examples
    --------
    >>> read_ms("no_such.ms", field="HD 163296")
    Traceback (most recent call last):
    ValueError: no_such.ms is no measurement set, a folder that holds tables such as FIELD: is its name right?
    """
    path = Path(path)
    if not (path / "FIELD").is_dir():
        raise ValueError(f"{path} is no measurement set, a folder that holds tables such as FIELD: is its name right?")
    with readable(path):
        return _visibilities(path, field, column, windows)


def _visibilities(path: Path, field: Field, column: str | None, windows: Windows) -> Visibilities:
    """Return what a set holds of a field."""
    number, selected = _select_windows(path, field, column, windows)
    keys, indices = np.unique(np.concatenate([one.keys for one in selected]), axis=0, return_inverse=True)
    ends = np.cumsum([len(one.keys) for one in selected])[:-1]
    frequency = np.concatenate([one.frequency for one in selected])
    window = np.repeat(np.arange(len(selected)), [len(one.frequency) for one in selected])
    shape = len(frequency), len(keys)
    uv, observation = np.zeros((len(keys), 2)), np.zeros(len(keys), int)
    data, weight = np.zeros(shape, complex), np.zeros(shape)
    for at in np.split(indices.ravel(), ends):
        one = selected.pop(0)  # and no longer in memory after that
        uv[at], observation[at] = one.uv, one.observation
        data[one.part, at], weight[one.part, at] = one.data, one.weight
    del one
    weight[:, ~np.isfinite(uv).all(axis=1)] = 0
    if not np.isfinite(frequency).all():
        raise ValueError(
            "a frequency in its CHAN_FREQ is NaN or infinite: correct it, or leave out that window (--spw)"
        )
    check_hertz(frequency, name="the frequencies in its CHAN_FREQ")
    if not weight.any():
        raise ValueError(f"it is flagged throughout: no weight of field {number} is above zero")
    with _open_table(path / "OBSERVATION") as observations, _open_table(path / "FIELD") as fields:
        telescope = str(_cell(observations, "TELESCOPE_NAME", int(observation[0])))
        target = str(_cell(fields, "NAME", number))
    with _open_table(path / "ANTENNA") as antennas:
        diameters, names = antennas.getcol("DISH_DIAMETER"), map(printable, antennas.getcol("NAME"))
        dishes = {float(diameters[one]) for one in np.unique(keys[:, 1:3]) if one < len(diameters)}
    vis = Visibilities(
        uu=np.outer(frequency / LIGHT_SPEED, uv[:, 0]),
        vv=np.outer(frequency / LIGHT_SPEED, uv[:, 1]),
        data=data,
        weight=weight,
        frequency=frequency,
        window=window,
        antennas=keys[:, 1:3],
        time=(keys[:, 0] - keys[0, 0]) / _TICKS,
        execution=np.unique(observation, return_inverse=True)[1].ravel(),
        phase_centre=_phase_centre(path, number),
        telescope=telescope,
        target=target,
        dish=dishes.pop() if len(dishes) == 1 and min(dishes) > 0 else None,
        start=float(keys[0, 0] / _TICKS),
        antenna_names={number: name for number, name in enumerate(names) if name},
    )
    check_visibilities(vis)
    check_nothing_counts_twice(vis)
    return vis


def _open_table(path: Path) -> Any:
    """Return a table to be used in a ``with``, or raise an error that says what is missing."""
    try:
        import arcae
    except ImportError as error:
        raise ImportError(
            "a measurement set needs arcae, which is not installed: python -m pip install 'arcae>=0.5.8' (there is "
            "none for Windows). Without it, CASA's exportuvfits or our casa_export.py write files that can be read"
        ) from error
    return arcae.table(str(path))


def _cell(table: Any, column: str, row: int) -> Any:
    """Return what a column has in a row, which other rows may have in other shapes."""
    return table.getcol(column, (slice(row, row + 1),))[0]


def _rows(whole: Any, field: int, ddid: int) -> Any:
    """Return the rows of a field in one description of data, between two antennas."""
    where = f"FIELD_ID=={field} && DATA_DESC_ID=={ddid} && ANTENNA1!=ANTENNA2"
    return whole.from_taql(f"SELECT FROM $1 WHERE {where}", whole)


def _select_windows(path: Path, field: Field, column: str | None, windows: Windows) -> tuple[int, list[_Window]]:
    """Return the number of the field, and its rows with total intensity, by window."""
    found: list[_Window] = []
    with (
        _open_table(path) as whole,
        _open_table(path / "DATA_DESCRIPTION") as description,
        _open_table(path / "SPECTRAL_WINDOW") as spectral,
        _open_table(path / "POLARIZATION") as polarization,
    ):
        number, column = _field_number(path, np.unique(whole.getcol("FIELD_ID")), field), _data_column(whole, column)
        if strange := sorted(set(windows or ()) - set(range(spectral.nrow()))):
            raise ValueError(f"it has no spectral windows {strange}: it has 0 to {spectral.nrow() - 1}")
        numbers = (description.getcol(f"{name}_ID") for name in ("SPECTRAL_WINDOW", "POLARIZATION"))
        for ddid, (window, kind) in enumerate(zip(*numbers, strict=True)):
            hands = np.isin(_cell(polarization, "CORR_TYPE", kind), _PARALLEL_HANDS)
            with _rows(whole, number, ddid) as rows:
                if rows.nrow() and hands.any() and (windows is None or window in windows):
                    frequency = np.asarray(_cell(spectral, "CHAN_FREQ", window), float)
                    first = found[-1].part.stop if found else 0
                    part = slice(first, first + len(frequency))
                    intensity = _total_intensity(rows, column, hands, len(frequency))
                    found.append(_window(part, frequency, rows, *intensity))
    if not found:
        chosen = "" if windows is None else f" in the spectral windows {list(windows)}"
        raise ValueError(f"it has no baselines of field {number}{chosen} with I, XX or YY, or RR or LL")
    return number, found


def _field_number(path: Path, observed: Ints, field: Field) -> int:
    """Return the number of the field that is asked for, of those that were observed."""
    with _open_table(path / "FIELD") as fields:
        names = fields.getcol("NAME")
    matching = [int(number) for number in observed if field is None or field in (number, names[number])]
    if len(matching) != 1:
        held = ", ".join(f"{number} ({names[number]})" for number in observed)
        what = f"{len(observed)} fields" if field is None else f"{len(matching) or 'no'} field {field!r}"
        raise ValueError(f"it has {what}; give the number of one (field=, or --of): {held}")
    return matching[0]


def _window(part: slice, frequency: Real, rows: Any, data: Complex, weight: Real) -> _Window:
    """Return the rows of a window; of several that have a baseline and a time in common, those that are not flagged."""
    ticks = np.rint(rows.getcol("TIME") * _TICKS).astype(int)
    keys = np.stack([ticks, rows.getcol("ANTENNA1"), rows.getcol("ANTENNA2")], axis=1)
    flagged = np.asarray(~weight.any(axis=0))
    order = np.lexsort((flagged, *keys.T[::-1]))
    new = np.insert((np.diff(keys[order], axis=0) != 0).any(axis=1), 0, True)
    number = np.arange(len(order))
    nth = number - np.maximum.accumulate(np.where(new, number, 0))  # among those alike
    counts = (nth == 0) | ~flagged[order]
    order, nth = order[counts], nth[counts]
    data, weight = data[:, order], weight[:, order]
    twice = (nth[1:] > 0) & (data[:, 1:] == data[:, :-1]).all(axis=0)
    if twice.any():
        raise ValueError(f"it holds {twice.sum()} rows twice, which would count twice: split off one of each")
    # A set has u, v from the second antenna to the first, and phases of the sign of exp(+2πi(ul + vm)).
    uv, observation = -rows.getcol("UVW")[order, :2], rows.getcol("OBSERVATION_ID")[order]
    return _Window(part, frequency, np.column_stack([keys[order], nth]), uv, observation, data, weight)


def _data_column(whole: Any, column: str | None) -> str:
    """Return the name of the column to read; raise an error if the set lacks it."""
    names = whole.columns()
    column = column or ("CORRECTED_DATA" if "CORRECTED_DATA" in names else "DATA")
    if column not in names:
        held = ", ".join(name for name in names if name.endswith("DATA"))
        raise ValueError(f"it has no column {column}; it has {held or 'none with data'}")
    return column


def _total_intensity(rows: Any, column: str, hands: Mask, nchan: int) -> tuple[Complex, Real]:
    """Return the mean of the parallel hands and its weight, (channel, row), read some rows at a time."""
    each = "WEIGHT_SPECTRUM" in rows.columns() and rows.row_shapes("WEIGHT_SPECTRUM")[0].is_valid
    mean, total = np.empty((nchan, rows.nrow()), complex), np.empty((nchan, rows.nrow()))
    for at in chunks(rows.nrow(), max(1, _NUMBERS_AT_ONCE // (nchan * len(hands)))):
        part = partial(rows.getcol, index=(at,))
        weight = part("WEIGHT_SPECTRUM")[..., hands] if each else part("WEIGHT")[:, None, hands]
        data = part(column)[..., hands]
        good = (part("FLAG")[..., hands] == 0) & (part("FLAG_ROW") == 0)[:, None, None]
        good &= np.isfinite(data) & (weight > 0) & np.isfinite(weight)
        of_hands = np.where(good, data, 0).astype(complex).T, np.where(good, weight, 0).astype(float).T
        mean[:, at], total[:, at] = total_intensity(*of_hands)
    return mean, total


def _phase_centre(path: Path, field: int) -> tuple[float, float] | None:
    """Return right ascension and declination in ICRS; casacore's J2000 is that date's mean equator, and not FK5."""
    with _open_table(path / "FIELD") as fields:
        direction = np.reshape(_cell(fields, "PHASE_DIR", field), (-1, 2))[0]
        info = fields.getcolkeywords("PHASE_DIR")["MEASINFO"]
        frame = _cell(fields, info["VarRefCol"], field) if "VarRefCol" in info else info["Ref"]
    if not isinstance(frame, str):  # a code, of each field
        frame = dict(zip(info["TabRefCodes"], info["TabRefTypes"], strict=True)).get(frame)
    if frame not in ("ICRS", "J2000"):
        return None
    if not abs(direction[1]) <= np.pi / 2:
        raise ValueError(f"the declination in its PHASE_DIR is {direction[1]:g} radians, which no sky has: correct it")
    ra, dec = map(float, np.degrees(direction))
    return from_j2000(ra, dec) if frame == "J2000" else (ra % 360, dec)
