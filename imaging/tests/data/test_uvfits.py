import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from astropy.coordinates import SkyCoord
from astropy.io import fits

from firstlight_imaging.data.uvfits import read_uvfits
from firstlight_imaging.simulate.skies import Point, sky_visibilities
from firstlight_imaging.units import LIGHT_SPEED

SKY = [Point(0.5, 1.0, 0.3), Point(0.1, -0.4, 0.9)]  # off-centre, and of no symmetry
XX, YY, XY, YX = -5, -6, -7, -8


def handmade(
    path: Path,
    cube: np.ndarray,  # (row, IF, FREQ, STOKES, COMPLEX)
    *,
    stokes: tuple[float, float] = (XX, -1),
    uv: tuple[Any, Any] = (1e-6, -2e-6),
    pairs: Any = 258,
    dtype: str = ">f4",
    axes: str = "IF FREQ STOKES COMPLEX",
    parameters: dict[str, Any] | None = None,
    header: dict[str, Any] | None = None,
    tables: tuple[fits.BinTableHDU, ...] = (),
) -> Path:
    """Write a file byte by byte, so that reader and writer cannot agree on a mistake."""
    rows, names = len(cube), axes.split()
    known = ("IF", "FREQ", "STOKES", "COMPLEX")
    order = [known.index(name) + 1 for name in names if name in known]
    missing = tuple({1, 2, 3, 4} - set(order))
    body = cube.transpose(0, *missing, *order).reshape(rows, math.prod(cube.shape[1:]))
    columns: dict[str, Any] = {"UU": uv[0], "VV": uv[1], "BASELINE": pairs, "DATE": 2459000.5}
    columns |= parameters or {}
    columns = {name: values for name, values in columns.items() if values is not None}
    scaled = dict(header or {})
    card = fits.Header({"SIMPLE": True, "BITPIX": {"f4": -32, "f8": -64, "i2": 16}[dtype[1:]]})
    lengths = [cube.shape[known.index(name) + 1] if name in known else 1 for name in names]
    card["NAXIS"], card["NAXIS1"] = len(names) + 1, 0
    for axis, (name, length) in enumerate(zip(reversed(names), reversed(lengths), strict=True), 2):
        start, step = {"STOKES": stokes, "FREQ": (100e9, 1e9)}.get(name, (1.0, 1.0))
        card[f"NAXIS{axis}"] = length
        card.update({f"CTYPE{axis}": name, f"CRVAL{axis}": start, f"CDELT{axis}": step, f"CRPIX{axis}": 1.0})
    card.update({"EXTEND": True, "GROUPS": True, "PCOUNT": len(columns), "GCOUNT": rows})
    stored = []
    for i, (name, values) in enumerate(columns.items(), 1):
        card[f"PTYPE{i}"] = name.split("#")[0]
        scale, zero = scaled.pop(f"PSCAL {name}", 1.0), scaled.pop(f"PZERO {name}", 0.0)
        card[f"PSCAL{i}"], card[f"PZERO{i}"] = scale, zero
        stored.append((np.broadcast_to(np.asarray(values, float), rows) - zero) / scale)
    for key, value in scaled.items():
        card[key] = value
    numbers = np.concatenate([np.stack(stored, axis=1), body], axis=1)
    numbers = (np.rint(numbers) if "i" in dtype else numbers).astype(dtype).tobytes()
    content = card.tostring().encode() + numbers + b"\0" * (-len(numbers) % 2880)
    path.write_bytes(content)
    for table in tables:
        with path.open("ab") as file:
            extra = path.with_suffix(".table")
            table.writeto(extra, overwrite=True)
            with fits.open(extra) as hdus:
                file.write(extra.read_bytes()[hdus[1].fileinfo()["hdrLoc"] :])
            extra.unlink()
    return path


def cube_of(*hands: tuple[complex, float], rows: int = 3, windows: int = 1, n: int = 1) -> np.ndarray:
    """Give every row the same visibility and weight in each hand."""
    each = [(complex(value).real, complex(value).imag, weight) for value, weight in hands]
    return np.broadcast_to(np.array(each), (rows, windows, n, len(hands), 3)).copy()


def frequencies(offset: list[float], width: list[float], sideband: list[int]) -> fits.BinTableHDU:
    n = len(offset)
    columns = [fits.Column("FRQSEL", "1J", array=[1]), fits.Column("IF FREQ", f"{n}D", array=[offset])]
    columns += [fits.Column("CH WIDTH", f"{n}E", array=[width]), fits.Column("SIDEBAND", f"{n}J", array=[sideband])]
    return fits.BinTableHDU.from_columns(columns, name="AIPS FQ")


def test_the_phase_centre_stands_in_the_header_or_in_the_table_of_sources(tmp_path):
    columns = {"ID. NO.": ("1J", [1, 7]), "RAEPO": ("1D", [5.0, -90.0]), "DECEPO": ("1D", [6.0, 30.0])}
    columns["SOURCE"] = "8A", ["3C 1", "M 87"]
    names = [fits.Column(name, code, array=values) for name, (code, values) in columns.items()]
    table = fits.BinTableHDU.from_columns(names, name="AIPS SU")
    axes = "DEC RA IF FREQ STOKES COMPLEX"
    many = handmade(tmp_path / "b", GOOD, axes=axes, parameters={"SOURCE": 7}, tables=(table,))
    assert (read_uvfits(many).phase_centre, read_uvfits(many).target) == ((270, 30), "M 87")
    assert read_uvfits(handmade(tmp_path / "c", GOOD)).phase_centre is None
    alone = read_uvfits(handmade(tmp_path / "d", GOOD, axes=axes, header={"OBJECT": "CI Tau"}))
    assert (alone.phase_centre, alone.target) == ((1, 1), "CI Tau")
    absent = handmade(tmp_path / "e", GOOD, axes=axes, parameters={"SOURCE": 3}, tables=(table,))
    assert read_uvfits(absent).phase_centre is None


def test_a_phase_centre_of_1950_becomes_icrs(tmp_path):
    """3C 161, as the VLA had it in 1984 and the calibrators' list has it today."""
    axes, hours = "DEC RA IF FREQ STOKES COMPLEX", (96.1799034476, -5.85322212428)
    modern = pytest.approx((96.7920833, -5.8847222), abs=1e-4)
    header = {"CRVAL6": hours[0], "CRVAL7": hours[1]}
    cards = [{}, {"EPOCH": 1950.0}, {"EPOCH": 2000.0}, {"EQUINOX": "J2000", "EPOCH": 1950.0}, {"EQUINOX": "B1950"}]
    found = [
        read_uvfits(handmade(tmp_path / "a", GOOD, axes=axes, header=header | card)).phase_centre for card in cards
    ]
    assert found == [hours, modern, hours, hours, modern]
    columns = {"ID. NO.": ("1J", [7]), "RAEPO": ("1D", hours[:1]), "DECEPO": ("1D", hours[1:]), "EPOCH": ("1D", [1950])}
    names = [fits.Column(name, code, array=values) for name, (code, values) in columns.items()]
    table = fits.BinTableHDU.from_columns(names, name="AIPS SU")
    path = handmade(tmp_path / "b", GOOD, axes=axes, parameters={"SOURCE": 7}, tables=(table,))
    assert read_uvfits(path).phase_centre == modern


@pytest.mark.parametrize("groups", [{}, {"GROUPS": True, "GCOUNT": 0, "PCOUNT": 0}], ids=["none", "of no rows"])
def test_fits_idi_is_called_so(tmp_path, groups):
    table = fits.BinTableHDU.from_columns([fits.Column("FLUX", "3E", array=np.ones((2, 3)))], name="UV_DATA")
    primary = fits.PrimaryHDU()
    primary.header.update(groups)
    fits.HDUList([primary, table]).writeto(tmp_path / "a.idifits", output_verify="silentfix")
    with pytest.raises(ValueError, match=r"FITS-IDI.*importfitsidi"):
        read_uvfits(tmp_path / "a.idifits")


@pytest.mark.parametrize("key", ["CDELT4", "CRPIX4", "CRVAL4", "PSCAL1", "BSCALE"])
@pytest.mark.parametrize("value", ["a", True, None])
def test_a_card_that_counts_and_holds_no_number_is_named(tmp_path, key: str, value: Any):
    path = handmade(tmp_path / "a", cube_of((1, 1), (1, 1), n=2), header={key: value})
    with pytest.raises(ValueError, match=key):
        read_uvfits(path)


def test_telescope_and_start_are_known_where_the_file_says_so(tmp_path):
    vis = read_uvfits(handmade(tmp_path / "a", GOOD, dtype=">f8", header={"TELESCOP": "VLA"}))
    assert (vis.telescope, vis.start) == ("VLA", (2459000 - 2400000) * 86400)
    relative = read_uvfits(handmade(tmp_path / "b", GOOD, parameters={"DATE": 0.5}))
    assert (relative.telescope, relative.start) == ("", None)


def test_weights_that_casa_may_have_divided_by_the_channels_are_told(tmp_path):
    cube = cube_of((1, 3.0), (1, 5.0), windows=2, n=4)
    cube[1, 0, 2, 0, 2] = -3  # a flag
    cube[2, ..., 2] = 7
    table, casa = frequencies([0, 5e9], [1e9, 1e9], [1, 1]), {"ORIGIN": "casacore"}
    with pytest.warns(UserWarning, match="channels, 4"):
        read_uvfits(handmade(tmp_path / "a", cube, tables=(table,), header=casa))
    read_uvfits(handmade(tmp_path / "b", cube, tables=(table,), header={"ORIGIN": "AIPS"}))
    read_uvfits(handmade(tmp_path / "c", cube_of((1, 3.0), (1, 3.0)), header=casa))
    cube[0, 1, 3, 1, 2] = 5.1
    read_uvfits(handmade(tmp_path / "d", cube, tables=(table,), header=casa))


def test_a_source_off_the_centre_is_where_it_was(tmp_path):
    """The file's phases have the sign of exp(+2 pi i (ul + vm)): written as such by hand, read as ours."""
    rng = np.random.default_rng(3)
    u, v = rng.normal(scale=1e-6, size=(2, 50))
    theirs = sky_visibilities(SKY, u * 100e9, v * 100e9).conj()
    cube = np.stack([theirs.real, theirs.imag, np.ones(50)], axis=-1).reshape(50, 1, 1, 1, 3)
    path = handmade(tmp_path / "a", cube, stokes=(1, 1), uv=(u, v), dtype=">f8")
    vis, turned = read_uvfits(path), read_uvfits(path, conjugate=False)
    assert vis.data == pytest.approx(sky_visibilities(SKY, vis.uu, vis.vv), abs=1e-12)
    opposite = [Point(p.flux, -p.east, -p.north) for p in SKY]
    assert turned.data == pytest.approx(sky_visibilities(opposite, turned.uu, turned.vv), abs=1e-12)
    assert np.abs(turned.data - sky_visibilities(SKY, turned.uu, turned.vv)).max() > 0.3


def test_hands_count_by_their_weights_and_a_flagged_one_not_at_all(tmp_path):
    cube = cube_of((1 + 2j, 3.0), (5 - 2j, 1.0), (99, 1.0), (99, 1.0), rows=5)
    cube[1, ..., 0, 2] = -3
    cube[2, ..., 1, 2] = 0
    cube[3, ..., :2, 2] = [-1, -1]
    cube[4, ..., 0, :] = [np.nan, np.inf, -1]
    vis = read_uvfits(handmade(tmp_path / "a", cube))
    assert vis.data[0].tolist() == [2 + 1j, 5 - 2j, 1 + 2j, 0, 5 - 2j]
    assert vis.weight[0].tolist() == [4, 1, 3, 0, 1]
    assert vis.flagged[0].tolist() == [False, False, False, True, False]


@pytest.mark.parametrize(
    ("stokes", "expected"), [((1, 1), 1), ((-1, -1), 2), ((-5, -1), 2), ((-6, -1), 1), ((-2, -1), 1)]
)
def test_intensity_is_found_among_the_polarizations(tmp_path, stokes: tuple[int, int], expected: float):
    """I, Q; RR, LL; XX, YY; YY, XY; LL, RL: of two with the values 1 and 3."""
    vis = read_uvfits(handmade(tmp_path / "a", cube_of((1, 1), (3, 1)), stokes=stokes))
    assert (vis.data == expected).all()


def test_numbers_are_scaled(tmp_path):
    cube = np.round(np.random.default_rng(4).uniform(1, 100, (6, 1, 2, 1, 3)))
    header = {"BSCALE": 0.5, "BZERO": -10.0, "PSCAL UU": 1e-9, "PSCAL VV": -1e-9, "PZERO VV": 2e-6}
    header |= {"PZERO DATE": 2459000.5, "PSCAL DATE": 0.25, "BLANK": -7}
    stored = cube.copy()
    stored[2, 0, 1, 0, 0] = -7
    days = 2459000.5 + 0.25 * np.arange(6)
    path = handmade(
        tmp_path / "a", stored, stokes=(1, 1), dtype=">i2", header=header, uv=(3e-6, 1e-6), parameters={"DATE": days}
    )
    vis = read_uvfits(path)
    assert vis.uu[1] == pytest.approx(np.full(6, -3e-6 * 101e9))
    assert vis.vv[0] == pytest.approx(np.full(6, -1e-6 * 100e9))
    assert vis.time == pytest.approx(21600 * np.arange(6))
    value = cube * 0.5 - 10
    good = value[:, 0, :, 0, 2].T > 0
    good[1, 2] = False
    assert (vis.flagged == ~good).all()
    assert (vis.data[good] == (value[:, 0, :, 0, 0] + 1j * value[:, 0, :, 0, 1]).T[good]).all()


def test_parameters_in_two_parts_are_summed(tmp_path):
    parts = {"DATE": 2459000.5, "DATE#2": [0.5, 0.25, 0.5 + 1e-3 / 86400], "UU#2": 1e-12}
    vis = read_uvfits(handmade(tmp_path / "a", cube_of((1, 1)), stokes=(1, 1), parameters=parts, dtype=">f8"))
    assert vis.time == pytest.approx([21600, 0, 21600.001], abs=1e-4)
    assert vis.uu[0] == pytest.approx(np.full(3, -(1e-6 + 1e-12) * 100e9), rel=1e-12)


@pytest.mark.parametrize(
    "axes", ["COMPLEX STOKES FREQ IF", "DEC RA IF FREQ STOKES COMPLEX", "STOKES IF RA COMPLEX FREQ"]
)
def test_axes_may_stand_in_any_order(tmp_path, axes: str):
    cube = np.random.default_rng(5).uniform(1, 2, (4, 2, 3, 2, 3))
    table = frequencies([0, 5e9], [1e9, 1e9], [1, 1])
    plain = read_uvfits(handmade(tmp_path / "a", cube, dtype=">f8", tables=(table,)))
    other = read_uvfits(handmade(tmp_path / "b", cube, axes=axes, dtype=">f8", tables=(table,)))
    assert (plain.data == other.data).all()
    expected = (cube[..., 2] * (cube[..., 0] + 1j * cube[..., 1])).sum(-1) / cube[..., 2].sum(-1)
    assert plain.data == pytest.approx(expected.reshape(4, 6).T)


def test_windows_lie_where_the_table_says(tmp_path):
    table = frequencies([0, 20e9, 30e9], [1e8, 2e8, -3e8], [1, -1, -1])
    path = handmade(tmp_path / "a", cube_of((1, 1), windows=3, n=2), tables=(table,), header={"CRPIX4": 2.0})
    vis = read_uvfits(path)
    expected = [[100e9 - 1e8, 100e9], [120e9 + 2e8, 120e9], [130e9 + 3e8, 130e9]]
    assert vis.frequency == pytest.approx(np.ravel(expected))
    assert vis.window.tolist() == [0, 0, 1, 1, 2, 2]
    assert vis.uu[:, 0] == pytest.approx(-1e-6 * vis.frequency)


def test_antennas_have_the_names_on_which_the_tables_of_subarrays_agree(tmp_path):
    """CASA leaves letters behind a zero byte, names need not be ASCII, and astropy refuses both."""

    def table(*names: bytes) -> fits.BinTableHDU:
        columns = [fits.Column("ANNAME", "8A", array=np.array(names, "S8")), fits.Column("NOSTA", "J", array=[1, 2, 4])]
        return fits.BinTableHDU.from_columns(columns, name="AIPS AN")

    tables = table(b"ALMA  ", b"A01\0007V", b"Y\xe9b"), table(b"ALMA", b"A02", b"Y\xe9b")
    vis = read_uvfits(handmade(tmp_path / "a", GOOD, tables=tables))
    assert vis.antenna_names == {0: "ALMA", 3: "Y\ufffdb"}
    assert read_uvfits(handmade(tmp_path / "b", GOOD, tables=tables[:1])).antenna_names[1] == "A01"
    assert not read_uvfits(handmade(tmp_path / "c", GOOD)).antenna_names


def test_autocorrelations_are_left_out_and_antennas_count_from_0(tmp_path):
    codes = [256 * 1 + 1, 256 * 2 + 5, 256 * 255 + 255, 256 * 7 + 3, 256 * 1 + 2 + 0.01, 65536 + 2048 * 3 + 300]
    cube = cube_of((1, 1), rows=6)
    cube[:, 0, 0, 0, 0] = np.arange(6)
    vis = read_uvfits(handmade(tmp_path / "a", cube, stokes=(1, 1), pairs=codes))
    assert vis.antennas.tolist() == [[1, 4], [6, 2], [0, 1], [2, 299]]
    assert vis.data[0].tolist() == [1, 3, 4, 5]
    assert vis.execution.tolist() == [0, 0, 1, 0]


GOOD = cube_of((1, 1), (1, 1))
TWO = {"SOURCE": [1, 2, 1]}


@pytest.mark.parametrize(
    ("cube", "how", "message"),
    [
        (GOOD, {"uv": (None, 1e-6)}, "UU"),
        (GOOD, {"header": {"BUNIT": "K"}}, "BUNIT"),
        (GOOD, {"header": {"CRVAL4": 227.0}}, "GHz"),
        (GOOD, {"header": {"CRVAL4": 1e13}}, "Hz"),
        (GOOD, {"header": {"PTYPE1": "UU---NCP"}}, "NCP"),
        (np.tile(GOOD, (4, 1, 1, 1, 1)) * [1, 1, 1], {}, "twice"),
        (GOOD, {"uv": ([np.nan, 0, 0], 1e-6)}, "UU .* 1 rows"),
        (GOOD, {"uv": (1e5, 0)}, "light-seconds"),
        (GOOD, {"axes": "STOKES COMPLEX"}, "FREQ"),
        (GOOD[..., :2], {}, "2 .*3"),
        (GOOD, {"stokes": (XY, -1)}, "XY, YX"),
        (GOOD * [1, np.nan, 1], {}, "flagged"),
        (GOOD * [1, 1, -1], {}, "flagged"),
        (GOOD[:0], {}, "no rows"),
        (GOOD, {"pairs": 257}, "autocorrelations"),
        (GOOD, {"parameters": TWO}, "2 sources"),
        (cube_of((1, 1), windows=2), {}, "AIPS FQ"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path, cube: np.ndarray, how: Any, message: str):
    path = handmade(tmp_path / "a", cube, **how)
    with pytest.raises(ValueError, match=message):
        read_uvfits(path)


def test_what_is_no_uvfits_file_or_not_all_of_one_is_refused(tmp_path):
    path = handmade(tmp_path / "a", GOOD)
    content = path.read_bytes()
    with fits.open(path) as hdus:
        start = hdus[0].fileinfo()["datLoc"]
    end = start + 3 * 4 * (4 + 6)
    broken = {"not a FITS": b"\x1f\x8b\x08gzipped", "1 bytes": content[: end - 1], "100 bytes": content[: end - 100]}
    fits.PrimaryHDU(np.zeros((4, 4))).writeto(tmp_path / "image")
    broken["without random groups"] = (tmp_path / "image").read_bytes()
    for message, content in broken.items():
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_uvfits(path)


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="pyuvdata 3.2.4 has no wheel for Python 3.14")
def test_what_pyuvdata_writes_is_where_it_put_it(tmp_path):
    field, source = SkyCoord(83.0, -24.0, unit="deg"), SkyCoord(83.0004, -23.9999, unit="deg")
    frequency = [230e9, 230.01e9, 230.02e9, 240e9, 239.98e9, 239.96e9]
    given = {"frequency": frequency, "width": [1e7] * 3 + [2e7] * 3, "window": [0, 0, 0, 1, 1, 1], "n_times": 4}
    given |= {"antennas": [[0, 0], [300, 10], [-50, 400], [200, -500], [-350, -80]], "start": "2020-01-01T03:00:00"}
    given |= {"field": [83.0, -24.0], "source": [83.0004, -23.9999], "flux": 0.5, "width_of_source": 0, "sigma": 0}
    write = Path(__file__).parents[1] / "pyuvdata_file.py"
    # A process of its own, without Numba's compiler, which takes longer than all else.
    command, plain = [sys.executable, "-W", "ignore", write, tmp_path], os.environ | {"NUMBA_DISABLE_JIT": "1"}
    subprocess.run(command, check=True, env=plain, input=json.dumps(given), text=True)
    kept, ours = np.load(tmp_path / "theirs.npz"), read_uvfits(tmp_path / "theirs.uvfits")
    assert ours.phase_centre == pytest.approx((83, -24))
    assert (np.stack([kept["ant_1_array"], kept["ant_2_array"]], axis=1) - 1 == ours.antennas).all()
    assert ours.frequency == pytest.approx(frequency)
    assert ours.time == pytest.approx(86400 * (kept["time_array"] - kept["time_array"].min()), abs=1e-3)
    uvw = np.multiply.outer(ours.frequency / LIGHT_SPEED, kept["uvw_array"])
    assert ours.uu == pytest.approx(uvw[..., 0], rel=1e-6)
    assert ours.vv == pytest.approx(uvw[..., 1], rel=1e-6)
    flags = kept["flag_array"][..., 0].T
    assert flags.any()
    assert (flags == ours.flagged).all()
    assert ours.weight[~flags] == pytest.approx(2e6)  # two hands
    turn = (source.ra - field.ra).rad
    east = np.cos(source.dec.rad) * np.sin(turn)
    north = np.sin((source.dec - field.dec).rad) + (1 - np.cos(turn)) * np.cos(source.dec.rad) * np.sin(field.dec.rad)
    sky = [Point(0.5, *np.degrees([east, north]) * 3600)]
    for name, antennas in (("theirs", ours.antennas), ("swapped", ours.antennas[:, ::-1])):
        vis = read_uvfits(tmp_path / f"{name}.uvfits")
        assert (vis.antennas == antennas).all()
        assert (vis.flagged == flags).all()
        expected = sky_visibilities(sky, vis.uu, vis.vv)
        assert vis.data[~flags] == pytest.approx(expected[~flags], abs=1e-3)  # aberration stretches the sky
