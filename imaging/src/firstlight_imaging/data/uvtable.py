"""Tables of text with u, v, Re, Im and weight, as uvplot exports them from CASA for galario and frank."""

from __future__ import annotations

import bz2
import gzip
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from firstlight_imaging.data.npz import Unit, from_arrays
from firstlight_imaging.data.visibilities import Visibilities, check_is_file, readable
from firstlight_imaging.units import LIGHT_SPEED

_NAME = re.compile(r"\.(txt|dat)(\.gz|\.bz2)?", re.IGNORECASE)
_UNITS: dict[str, Unit] = {
    **dict.fromkeys(("lambda", "λ"), "lambda"),
    **dict.fromkeys(("klambda", "kilolambda", "kλ"), "kilolambda"),
    "m": "metres",
}


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
    unpack: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".bz2": bz2.decompress}
    with readable(path):
        text = unpack.get(path.suffix.lower(), bytes)(path.read_bytes()).decode()
        lines = text.splitlines()
        head = " ".join(line for line in lines if line.startswith("#"))
        rows = [line.replace(",", " ").split() for line in lines if line.strip() and not line.startswith("#")]
        if not rows or {len(row) for row in rows} != {5}:
            raise ValueError("each line of its table must hold five numbers: u, v, Re, Im and weight")
        if not text.endswith(("\n", "\r")):  # 2.5e-0 may have been 2.5e-05
            raise ValueError("its last line has no end, as where a copy stopped: add a line break if it is complete")
        u, v, real, imaginary, weight = np.array(rows, float).T
        arrays = {"uu": u, "vv": v, "data": real + 1j * imaginary, "weight": weight, "flag": weight == 0}
        if wavelength := re.search(r"wavelength *\[m\] *= *([\d.eE+-]+)", head):
            arrays["frequencies"] = np.array([LIGHT_SPEED / float(wavelength[1])])
        said = re.search(r"\bu *\[ *([^]]*?) *\]", head)
        if said and not unit and said[1] not in _UNITS:
            raise ValueError(f"its head gives u in [{said[1]}], not in {', '.join(_UNITS)}: say unit= or --unit")
        return from_arrays(arrays, unit or (_UNITS[said[1]] if said else None), conjugate, list(arrays))


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
