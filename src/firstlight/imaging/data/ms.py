"""Read a measurement set, CASA's folder of tables, with python-casacore, and write a model into its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import erfa
import numpy as np

from firstlight.imaging._types import Complex, Ints, Mask, Real
from firstlight.imaging.data.uvfits import total_intensity
from firstlight.imaging.data.visibilities import SAME_CENTRE, Visibilities
from firstlight.imaging.units import LIGHT_SPEED

Field: TypeAlias = int | str | None
Windows: TypeAlias = Sequence[int] | None

HANDS = (1, 5, 8, 9, 12)  # what total intensity is made of: I; RR and LL; XX and YY
J2000 = 2451545.0  # a Julian date
TICKS = 1000  # a second: by times in these, rows of several windows are matched


@dataclass(frozen=True, eq=False)
class Setup:
    """The rows of one field that one spectral window saw: a table, and time in ticks and antennas of each row.

    Its channels are a part of those of all windows that were chosen.
    """

    part: slice
    frequency: Real
    hands: Mask
    rows: Any
    keys: Ints


def read_ms(
    path: str | Path, *, field: Field = None, column: str | None = None, windows: Windows = None
) -> Visibilities:
    """Read the total intensity of one field, all of its spectral windows beside each other.

    It needs python-casacore (``pip install python-casacore``). Both hands are averaged as by `read_uvfits`; what is NaN
    or has no positive weight, is flagged. Where a window lacks a row that another has, its channels are flagged there.

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
    number, selected = setups(path, field, windows)
    column = column_of(path, selected[0], column)
    keys, places = np.unique(np.concatenate([one.keys for one in selected]), axis=0, return_inverse=True)
    ends = np.cumsum([len(one.keys) for one in selected])[:-1]
    frequency = np.concatenate([one.frequency for one in selected])
    shape = len(frequency), len(keys)
    uv, observation = np.zeros((len(keys), 2)), np.zeros(len(keys), int)
    data, weight = np.zeros(shape, complex), np.zeros(shape)
    for one, at in zip(selected, np.split(places.ravel(), ends), strict=True):
        if len(np.unique(at)) < len(at):
            raise ValueError(f"{path} has several rows of one baseline, time and window: split off those that count")
        # A set has u, v from the second antenna to the first, and phases of the sign of exp(+2πi(ul + vm)).
        uv[at], observation[at] = -one.rows.getcol("UVW")[:, :2], one.rows.getcol("OBSERVATION_ID")
        data[one.part, at], weight[one.part, at] = intensity(one, column)
    if not weight.any():
        raise ValueError(f"{path} is flagged throughout: no weight of field {number} in {column} is above zero")
    return Visibilities(
        uu=np.outer(frequency / LIGHT_SPEED, uv[:, 0]),
        vv=np.outer(frequency / LIGHT_SPEED, uv[:, 1]),
        data=data,
        weight=weight,
        frequency=frequency,
        window=np.repeat(np.arange(len(selected)), [len(one.frequency) for one in selected]),
        antennas=keys[:, 1:],
        time=(keys[:, 0] - keys[0, 0]) / TICKS,
        execution=np.unique(observation, return_inverse=True)[1].ravel(),
        phase_centre=phase_centre(path, number),
        telescope=str(opened(path / "OBSERVATION").getcell("TELESCOPE_NAME", int(observation[0]))),
        start=float(keys[0, 0] / TICKS),
    )


def write_ms_column(
    path: str | Path, vis: Visibilities, column: str = "MODEL_DATA", *, field: Field = None, windows: Windows = None
) -> None:
    """Write visibilities, such as a model's, into a column of the set that they were read from.

    The data of ``vis`` go into both parallel hands of the rows that it has; their cross hands become 0, and other rows
    stay as they are. A column that is not there is made, with 0 elsewhere. So residuals may have a column of their own.

    Parameters
    ----------
    path
        Of the set, a folder.
    vis
        What `read_ms` read, some rows of it or all, with other ``data``: ``replace(vis, data=model)``.
    column
        Where to; what it held in these rows is gone. ``DATA`` itself is refused.
    field, windows
        As they were given to `read_ms`.

    Examples
    --------
    >>> from firstlight.imaging.simulate.observation import observe, uv_track
    >>> from firstlight.imaging.simulate.skies import Point
    >>> write_ms_column("no_such.ms", observe([Point(1.0)], uv_track(n_times=1)))
    Traceback (most recent call last):
    ValueError: no_such.ms is no measurement set, a folder that holds tables such as FIELD: is its name right?
    """
    path = Path(path)
    number, selected = setups(path, field, windows)
    centre, here = phase_centre(path, number), vis.phase_centre
    matched = [match(one.keys, vis) for one in selected]
    right = {
        "channels": np.array_equal(vis.frequency, np.concatenate([one.frequency for one in selected])),
        "phase centre": not (centre and here) or np.allclose(centre, here, rtol=0, atol=SAME_CENTRE),
        "times and antennas": np.isin(np.arange(len(vis.time)), np.concatenate(matched)).all(),
    }
    if wrong := [name for name, same in right.items() if not same]:
        raise ValueError(
            f"{' and '.join(wrong)} are not those of field {number} in {path}: give what read_ms read of it, with the "
            "same field and windows, not shifted and not joined"
        )
    if column == "DATA":
        raise ValueError("DATA is what was measured, and is never written: choose a column such as MODEL_DATA")
    if not np.isfinite(vis.data).all():
        raise ValueError("some of the data are NaN or infinite, which CASA could not use: give finite numbers")
    with opened(path, readonly=False) as whole:
        if column not in whole.colnames():
            add_column(whole, column, column_of(path, selected[0], None))
        for one, at in zip(selected, matched, strict=True):
            known = at >= 0
            cells = np.zeros((int(known.sum()), len(one.frequency), len(one.hands)), np.complex64)
            cells[..., one.hands] = vis.data[one.part, at[known]].T[..., None]
            whole.selectrows(np.asarray(one.rows.rownumbers())[known].tolist()).putcol(column, cells)


def opened(path: Path, *, readonly: bool = True) -> Any:
    """Open a table, or say what is missing."""
    try:
        from casacore.tables import table
    except ImportError as error:
        raise ImportError(
            "a measurement set needs python-casacore, which is not installed: pip install python-casacore. Without it, "
            "CASA's exportuvfits or our casa_export.py write what read_uvfits and read_npz read"
        ) from error
    return table(str(path), readonly=readonly, ack=False)


def setups(path: Path, field: Field, windows: Windows) -> tuple[int, list[Setup]]:
    """Return the number of the field, and its rows with total intensity, by window."""
    if not (path / "FIELD" / "table.dat").is_file():
        raise ValueError(f"{path} is no measurement set, a folder that holds tables such as FIELD: is its name right?")
    whole, description = opened(path), opened(path / "DATA_DESCRIPTION")
    number = field_number(path, np.unique(whole.getcol("FIELD_ID")), field)
    spectral, polarization = opened(path / "SPECTRAL_WINDOW"), opened(path / "POLARIZATION")
    if strange := sorted(set(windows or ()) - set(range(spectral.nrows()))):
        raise ValueError(f"{path} has no spectral windows {strange}: it has 0 to {spectral.nrows() - 1}")
    found: list[Setup] = []
    numbers = (description.getcol(f"{name}_ID") for name in ("SPECTRAL_WINDOW", "POLARIZATION"))
    for ddid, (window, kind) in enumerate(zip(*numbers, strict=True)):
        hands = np.isin(polarization.getcell("CORR_TYPE", kind), HANDS)
        rows = whole.query(f"FIELD_ID=={number} && DATA_DESC_ID=={ddid} && ANTENNA1!=ANTENNA2")
        if rows.nrows() and hands.any() and (windows is None or window in windows):
            frequency = np.asarray(spectral.getcell("CHAN_FREQ", window), float)
            first = found[-1].part.stop if found else 0
            part = slice(first, first + len(frequency))
            ticks = np.rint(rows.getcol("TIME") * TICKS)
            keys = np.stack([ticks, rows.getcol("ANTENNA1"), rows.getcol("ANTENNA2")], axis=1).astype(int)
            found.append(Setup(part, frequency, hands, rows, keys))
    if not found:
        chosen = "" if windows is None else f" in the spectral windows {list(windows)}"
        raise ValueError(f"{path} has no baselines of field {number}{chosen} with I, XX or YY, or RR or LL")
    return number, found


def field_number(path: Path, seen: Ints, field: Field) -> int:
    """Return the number of the one field that is meant, of those that were seen."""
    names = opened(path / "FIELD").getcol("NAME")
    meant = [int(number) for number in seen if field is None or field in (number, names[number])]
    if len(meant) != 1:
        held = ", ".join(f"{number} ({names[number]})" for number in seen)
        what = f"{len(seen)} fields" if field is None else f"{len(meant) or 'no'} field {field!r}"
        raise ValueError(f"{path} has {what}: give one, field=, by its number. It has {held}")
    return meant[0]


def column_of(path: Path, setup: Setup, column: str | None) -> str:
    """Return the column that is meant, and refuse one that the set lacks."""
    names = setup.rows.colnames()
    column = column or ("CORRECTED_DATA" if "CORRECTED_DATA" in names else "DATA")
    if column not in names:
        held = ", ".join(name for name in names if name.endswith("DATA"))
        raise ValueError(f"{path} has no column {column}; it has {held or 'none with data'}")
    return column


def intensity(setup: Setup, column: str) -> tuple[Complex, Real]:
    """Return the mean of the hands and its weight, (channel, row)."""
    rows, hands = setup.rows, setup.hands
    each = "WEIGHT_SPECTRUM" in rows.colnames() and rows.iscelldefined("WEIGHT_SPECTRUM", 0)
    weight = rows.getcol("WEIGHT_SPECTRUM")[..., hands] if each else rows.getcol("WEIGHT")[:, None, hands]
    data = rows.getcol(column)[..., hands]
    good = ~rows.getcol("FLAG")[..., hands] & ~rows.getcol("FLAG_ROW")[:, None, None]
    good &= np.isfinite(data) & (weight > 0) & np.isfinite(weight)
    return total_intensity(np.where(good, data, 0).astype(complex).T, np.where(good, weight, 0).astype(float).T)


def phase_centre(path: Path, field: int) -> tuple[float, float] | None:
    """Return it in ICRS; casacore's J2000 is the mean equator and equinox of that date, and not FK5."""
    fields = opened(path / "FIELD")
    place = np.reshape(fields.getcell("PHASE_DIR", field), (-1, 2))[0]
    info = fields.getcolkeywords("PHASE_DIR")["MEASINFO"]
    frame = fields.getcell(info["VarRefCol"], field) if "VarRefCol" in info else info["Ref"]
    if isinstance(frame, int):  # a code, of each field
        frame = dict(zip(info["TabRefCodes"], info["TabRefTypes"], strict=True)).get(frame)
    if frame == "J2000":
        place = erfa.c2s(erfa.bp06(J2000, 0.0)[0].T @ erfa.s2c(*place))
    return (float(np.degrees(place[0]) % 360), float(np.degrees(place[1]))) if frame in ("ICRS", "J2000") else None


def match(keys: Ints, vis: Visibilities) -> Ints:
    """Return for each row of a set which of the visibilities is of its time and antennas; -1 where none is."""
    ticks = np.rint(((vis.start or 0.0) + vis.time) * TICKS).astype(int)
    known = np.column_stack([ticks, vis.antennas])
    _, label = np.unique(np.concatenate([known, keys]), axis=0, return_inverse=True)
    label = label.ravel()
    place = np.full(label.max() + 1, -1)
    place[label[: len(known)]] = np.arange(len(known))
    return np.asarray(place[label[len(known) :]])


def add_column(whole: Any, column: str, like: str) -> None:
    """Add a column of zeros like another, stored as that is."""
    from casacore.tables import makecoldesc, maketabdesc, taql

    description = whole.getcoldesc(like) | {"comment": "written by firstlight", "keywords": {}}
    stored = whole.getdminfo(like) | {"NAME": f"Tiled{column}"}
    whole.addcols(maketabdesc(makecoldesc(column, description)), stored)
    taql(f"update $whole set {column} = array(complex(0, 0), shape({like}))")
