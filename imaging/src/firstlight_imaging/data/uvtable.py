"""Tables of text with u, v, Re, Im and weight, as uvplot exports them from CASA for galario and frank."""

from __future__ import annotations

import bz2
import codecs
import gzip
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firstlight_imaging._types import Real
from firstlight_imaging.data.npz import Unit, from_arrays
from firstlight_imaging.data.visibilities import Visibilities, check_is_file, readable
from firstlight_imaging.units import LIGHT_SPEED

_NAME = re.compile(r"\.(txt|dat)(\.gz|\.bz2)?", re.IGNORECASE)
_UNITS: dict[str, Unit] = {
    **dict.fromkeys(("lambda", "λ"), "lambda"),
    **dict.fromkeys(("klambda", "kilolambda", "kλ"), "kilolambda"),
    "m": "metres",
}
_MOST_PACKED = 2**31  # bytes of text: 1e7 visibilities have half of that
_MARKS = ("#", "%", "//")  # of lines of the head
_COLUMNS = ("u", "v", "re", "im", "weight")  # of a table whose head names none
_NAMES = {
    "u": r"uu?",
    "v": r"vv?",
    "re": r"(v(is)?_?)?re(al)?(\(v\w*\))?",
    "im": r"(v(is)?_?)?im(ag(inary)?)?(\(v\w*\))?",
    "amp": r"(v(is)?_?)?amp(litude)?(\(v\w*\))?",
    "phase": r"(v(is)?_?)?ph(ase)?(\(v\w*\))?",
    "weight": r"w(eights?|g?ts?)?",
    "sigma": r"sigma|σ|err(or)?",
}
_OTHER_UNIT = re.compile(r"\b[mµμuk]Jy\b")  # a head may say so anywhere
_PARTS = ("re", "im"), ("amp", "phase")
_DIMENSIONS = {"re": "Jy", "im": "Jy", "amp": "Jy", "phase": "rad", "sigma": "Jy", "weight": "Jy^-2"}


def is_uvtable(path: Path) -> bool:
    """Return whether the name of a file is that of such a table."""
    return bool(_NAME.fullmatch("".join(path.suffixes[-2:])) or _NAME.fullmatch(path.suffix))


def read_uvtable(path: str | Path, *, unit: Unit | None = None, conjugate: bool = True) -> Visibilities:
    r"""Return the visibilities of a table of text: u, v, Re, Im and weight; antennas and times it does not know.

    Parameters
    ----------
    path
        Of the file, which gzip or bzip2 may have packed.
    unit
        Of u and v: ``"lambda"``, ``"kilolambda"`` or ``"metres"``. Without it, the unit that the head of the table has
        in brackets, else lambda. Metres need a line such as ``# wavelength[m] = 0.0013`` there.
    conjugate
        Such tables come from measurement sets, whose sign is exp(+2πi(ul + vm)). With False the data are kept: if the
        image comes out turned by 180 degrees, this is why.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = "# u [lambda]  v [lambda]  Re(V) [Jy]  Im(V) [Jy]  weight\n1e5 3e5 1 0.5 20\n2e5 1e5 1 0.2 20\n"
    ...     _ = Path(f"{folder}/disk.txt").write_text(text)
    ...     read_uvtable(f"{folder}/disk.txt").data
    array([[1.-0.5j, 1.-0.2j]])
    """
    path = Path(path)
    check_is_file(path)
    with readable(path):
        text = re.sub(r"[Dd](?<=[\d.].)(?=[+-]?\d)", "e", _text(path))  # Fortran writes 1.5D+05
        lines = [line.strip() for line in text.splitlines()]
        if _columns(lines[0]) if lines else {}:  # of a spreadsheet
            lines[0] = f"# {lines[0]}"
        head = [line.lstrip("#%/ ") for line in lines if line.startswith(_MARKS)]
        rows = [line.replace(",", " ").split() for line in lines if line and not line.startswith(_MARKS)]
        if not rows:
            raise ValueError("it has no line of five numbers: u, v, Re, Im and weight")
        if not text.endswith(("\n", "\r")):  # 2.5e-0 may have been 2.5e-05
            raise ValueError("its last line has no end, as where a copy stopped: add a line break if it is complete")
        columns = next(filter(None, map(_columns, head)), dict.fromkeys(_COLUMNS, ""))
        if (other := _OTHER_UNIT.search(" ".join(head))) and not any(columns.values()):
            raise ValueError(f"its head speaks of {other[0]}, but not behind a column: write Re [{other[0]}]")
        held = dict(zip(columns, _table(rows, lines).T, strict=True))
        arrays, units = _arrays(held, columns), [columns["u"], columns["v"]]
        if wavelength := re.search(r"wavelength *\[m\] *= *([\d.eE+-]+)", " ".join(head)):
            arrays["frequencies"] = np.array([LIGHT_SPEED / float(wavelength[1])])
        if not any(units):
            units = re.findall(r"\bu *\[ *([^]]*?) *\]", " ".join(head))[:1]
        if not unit and (len(set(units)) > 1 or set(units) - _UNITS.keys() - {""}):
            known = ", ".join(_UNITS)
            raise ValueError(
                f"its head gives u, v in [{', '.join(units)}], not both in one of {known}: say unit= or --unit"
            )
        return from_arrays(arrays, unit or (_UNITS.get(units[0]) if units else None), conjugate, list(arrays))


def _text(path: Path) -> str:
    """Return what is in a file, unpacked; of Windows' editors, too."""
    opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix.lower(), open)
    with opener(path, "rb") as file:
        raw: bytes = file.read(_MOST_PACKED + 1)
    if len(raw) > _MOST_PACKED:
        raise ValueError(f"it holds more than {_MOST_PACKED} bytes of text: write an npz file")
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")  # a name in the head: numbers are the same


def _table(rows: list[list[str]], lines: list[str]) -> Real:
    """Return the numbers of rows, or raise an error that names the first line that has other words."""
    with suppress(ValueError):
        if (table := np.array(rows, float)).shape[1] == 5:
            return table
    told = ((number, line) for number, line in enumerate(lines, 1) if line and not line.startswith(_MARKS))
    number, line = next((number, line) for number, line in told if not _is_row(line))
    raise ValueError(f"line {number} must hold five numbers: u, v, Re, Im and weight; got {line}")


def _is_row(line: str) -> bool:
    """Return whether a line holds five numbers."""
    with suppress(ValueError):
        return len([*map(float, line.replace(",", " ").split())]) == 5
    return False


def _columns(line: str) -> dict[str, str]:
    """Return the columns that a line of the head names, each with its unit; none if it is another line.

    Examples
    --------
    >>> _columns("Columns: v[m], u[m], Amp(V) [mJy] Phase [deg] sigma"), _columns("u and v in lambda")
    ({'v': 'm', 'u': 'm', 'amp': 'mJy', 'phase': 'deg', 'sigma': ''}, {})
    """
    line = re.sub(r"^columns?:?\s*", "", line, flags=re.IGNORECASE)
    named = re.findall(r"([^\W\d_]\w*(?:\([Vv]\w*\))?)\s*(?:[\[(]\s*([^\])]*?)\s*[\])])?[\s,;]*", line)
    keys = [next((k for k, p in _NAMES.items() if re.fullmatch(p, name, re.IGNORECASE)), "") for name, _ in named]
    if len(named) != 5 or len(set(keys) - {""}) < 3 or not {"u", "v"} <= set(keys):
        return {}
    if set(keys) not in ({"u", "v", *parts, size} for parts in _PARTS for size in ("weight", "sigma")):
        raise ValueError(f"its head names {', '.join(name for name, _ in named)}; u, v, Re, Im and weight are needed")
    return dict(zip(keys, (unit for _, unit in named), strict=True))


def _arrays(held: dict[str, Real], units: dict[str, str]) -> dict[str, NDArray[Any]]:
    """Return the columns of a table, whatever their units, as an npz file has them."""
    from astropy.units import Unit as AstropyUnit  # type: ignore[import-untyped]

    if "phase" in held and not units["phase"] and np.abs(held["phase"]).max() <= 2 * np.pi:
        raise ValueError("its phases may be degrees or radians: write phase [deg] or phase [rad] in its head")
    of_data = next(units[name] for name in ("re", "amp") if name in units)
    for name, wanted in _DIMENSIONS.items():
        if name in held:
            default = {"phase": "deg", "sigma": of_data, "weight": of_data and f"{of_data}^-2"}.get(name, "")
            try:
                held[name] = held[name] * AstropyUnit(units[name] or default or wanted).to(wanted)
            except ValueError as error:
                raise ValueError(
                    f"its head gives {name} in [{units[name]}], which is no {wanted}: correct it"
                ) from error
    data = held["re"] + 1j * held["im"] if "re" in held else held["amp"] * np.exp(1j * held["phase"])
    weight = held["weight"] if "weight" in held else held["sigma"] ** -2.0
    return {"uu": held["u"], "vv": held["v"], "data": data, "weight": weight, "flag": weight == 0}


def write_uvtable(path: str | Path, vis: Visibilities) -> None:
    """Write what counts of the visibilities as a table that frank, galario and `read_uvtable` read.

    Examples
    --------
    >>> import tempfile
    >>> from firstlight_imaging.simulate import Point, observe, uv_track
    >>> vis = observe([Point(0.5)], uv_track(n_times=2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_uvtable(f"{folder}/point.txt", vis)
    ...     read_uvtable(f"{folder}/point.txt").data.shape
    (1, 1806)
    """
    counts = vis.weight > 0
    data = vis.data[counts].conj()  # the sign of measurement sets
    columns = (vis.uu[counts], vis.vv[counts], data.real, data.imag, vis.weight[counts])
    head = "u [lambda]\tv [lambda]\tRe(V) [Jy]\tIm(V) [Jy]\tWeight [Jy^-2]"
    np.savetxt(path, np.column_stack(columns), header=head)
