from __future__ import annotations

import runpy
import sys
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firstlight.imaging.coordinates import GridCoords
from firstlight.imaging.limits import check_image_grid
from firstlight.imaging.npz import read_npz
from firstlight.imaging.simulation import channels
from firstlight.imaging.skies import Point, sky_visibilities
from firstlight.imaging.visibilities import Visibilities
from firstlight.imaging.weights import check_weights

SKY = [Point(0.5, 1.0, 0.3), Point(0.1, -0.4, 0.9)]  # off-centre, and of no symmetry
SNIPPET = Path(__file__).parents[2] / "docs/_snippets/casa_export.py"


def arrays(nchan: int = 2, n: int = 9) -> dict[str, Any]:
    rng = np.random.default_rng(nchan + n)
    u, v = rng.normal(scale=2e5, size=(2, nchan, n))
    weight = rng.uniform(1, 2, (nchan, n))
    return {"uu": u, "vv": v, "weight": weight, "data": sky_visibilities(SKY, u, v)}


def saved(path: Path, changed: dict[str, Any] | None = None, save: Any = np.savez) -> Path:
    content = {key: value for key, value in (arrays() | (changed or {})).items() if value is not None}
    save(path, **content)
    return path


def old(content: dict[str, Any]) -> dict[str, Any]:
    """The same in the keys and units of MPoL's first files."""
    parts = {"data": None, "data_re": content["data"].real, "data_im": content["data"].imag}
    return content | parts | {"uu": content["uu"] / 1000, "vv": content["vv"] / 1000}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("keys", [dict, old])
def test_both_key_sets_say_the_same(tmp_path, keys: Any, save: Any):
    vis = read_npz(saved(tmp_path / "a.npz", keys(arrays()), save))
    assert vis.uu == pytest.approx(arrays()["uu"], rel=1e-14)
    assert vis.data == pytest.approx(sky_visibilities(SKY, vis.uu, vis.vv), abs=1e-9)
    assert (vis.weight == arrays()["weight"]).all()
    assert (vis.data.dtype, vis.uu.dtype) == (complex, float)
    assert np.isnan(vis.frequency).all()
    assert np.isnan(check_weights(vis).worst)  # no time is known
    with pytest.raises(ValueError, match="frequencies"):
        check_image_grid(vis, GridCoords(0.05, 64))


def test_conjugated_files_have_the_source_on_the_other_side(tmp_path):
    path = saved(tmp_path / "a.npz", {"data": arrays()["data"].conj()})
    right, turned = read_npz(path, conjugate=True), read_npz(path)
    assert right.data == pytest.approx(sky_visibilities(SKY, right.uu, right.vv))
    opposite = [Point(p.flux, -p.east, -p.north) for p in SKY]
    assert turned.data == pytest.approx(sky_visibilities(opposite, turned.uu, turned.vv))
    assert np.abs(turned.data - right.data).max() > 0.3


def test_one_channel_may_stand_without_an_axis_and_baselines_be_shared(tmp_path):
    one = read_npz(saved(tmp_path / "a.npz", {key: value[0] for key, value in arrays().items()}))
    assert one.data.shape == (1, 9)
    shared = {key: arrays()[key][0] for key in ("uu", "vv", "weight")}
    both = read_npz(saved(tmp_path / "b.npz", shared))
    assert both.uu.shape == both.weight.shape == (2, 9)
    assert (both.uu[1] == arrays()["uu"][0]).all()
    assert both.uu.flags.writeable


@pytest.mark.parametrize("frequency", [[230.0, 231.5], [230e9, 231.5e9]])
def test_frequencies_are_in_hertz_whether_written_so_or_in_gigahertz(tmp_path, frequency: list[float]):
    vis = read_npz(saved(tmp_path / "a.npz", {"frequencies": frequency}))
    assert vis.frequency == pytest.approx([230e9, 231.5e9])


def test_the_unit_may_be_said(tmp_path):
    short = {key: arrays()[key] / 1000 for key in ("uu", "vv")}
    path = saved(tmp_path / "a.npz", short)
    with pytest.raises(ValueError, match="lambda"):
        read_npz(path)
    assert read_npz(path, unit="kilolambda").uu == pytest.approx(arrays()["uu"])
    assert read_npz(path, unit="lambda").uu == pytest.approx(short["uu"])
    long = old(arrays()) | {key: 1e5 * arrays()[key] for key in ("uu", "vv")}
    with pytest.raises(ValueError, match="kilo-lambda"):
        read_npz(saved(tmp_path / "b.npz", long))


def test_flags_are_applied_and_say_that_zeros_are_meant(tmp_path):
    weight, data, flags = arrays()["weight"], arrays()["data"], np.zeros((2, 9), bool)
    flags[0, 3] = flags[1, 5] = True
    data[0, 3], weight[1, 5] = np.nan, 0
    path = saved(tmp_path / "a.npz", {"weight": weight, "data": data, "flag": flags})
    vis = read_npz(path)
    assert (vis.flagged == flags).all()
    assert np.isfinite(vis.data).all()


def put(key: str, value: complex, channel: int = 1) -> dict[str, Any]:
    changed = arrays()[key]
    changed[channel, 4] = value
    return {key: changed}


TWICE = {key: np.hstack([part, (-part if key in ("uu", "vv") else part.conj())]) for key, part in arrays().items()}
BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"uu": None, "data": None}, "uu, data_re, data_im"),
    ({"data": arrays()["data"].real}, "data .*float64"),
    ({"uu": arrays()["uu"][:, :-1]}, r"uu \(2, 8\)"),
    ({key: value[:, :0] for key, value in arrays().items()}, r"\(2, 0\)"),
    (put("vv", -np.inf), "vv"),
    (put("data", 1j * np.inf), "1 visibilities"),
    (put("weight", -2), "weight"),
    (put("weight", 0), "1 weights are 0"),
    ({"flag": np.ones((2, 9), bool), "weight": np.zeros((2, 9))}, "flagged"),
    ({"frequencies": [1.0, -1.0]}, "frequencies"),
    (TWICE, "Hermitian"),
]


@pytest.mark.parametrize(("changed", "message"), BROKEN)
def test_a_file_that_cannot_be_used_says_why(tmp_path, changed: dict[str, Any], message: str):
    path = saved(tmp_path / "a.npz", changed)
    with pytest.raises(ValueError, match=message) as caught:
        read_npz(path)
    assert str(caught.value).startswith(str(path))


def test_what_is_no_whole_npz_file_is_refused(tmp_path):
    path = saved(tmp_path / "a.npz")
    content = path.read_bytes()
    with zipfile.ZipFile(tmp_path / "no arrays", "w") as archive:
        for name in ("uu.npy", "vv.npy", "weight.npy", "data.npy"):
            archive.writestr(name, b"no array")
    for broken in (b"", b"<html>404</html>", content[:-30], (tmp_path / "no arrays").read_bytes()):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"a\.npz"):
            read_npz(path)


# -- The script for CASA --------------------------------------------------------------------------------------


def casatools(columns: dict[str, np.ndarray], codes: list[int], frequency: np.ndarray) -> types.ModuleType:
    """The part of CASA's table tool that the script uses; the main table is a dictionary of columns, rows last."""
    cells = {
        "/DATA_DESCRIPTION": {"SPECTRAL_WINDOW_ID": [7, 1, 0], "POLARIZATION_ID": [5, 5, 2]},
        "/SPECTRAL_WINDOW": {"CHAN_FREQ": [frequency, 2 * frequency]},
        "/POLARIZATION": {"CORR_TYPE": [np.array([9]), np.array([1]), np.array(codes)]},
    }

    class Table:
        left_open = 0

        def open(self, name: str):
            Table.left_open += 1
            part = name.removeprefix("some.ms")
            self.content: dict[str, Any] = cells[part] if part else columns

        def close(self):
            Table.left_open -= 1

        def getcell(self, column: str, row: int) -> Any:
            return self.content[column][row]

        def getcol(self, column: str) -> np.ndarray:
            return self.content[column]

        def colnames(self) -> list[str]:
            return list(self.content)

        def iscelldefined(self, column: str, _: int) -> bool:
            return column in self.content

        def query(self, conditions: str) -> Table:
            chosen = np.all([eval(part, {}, self.content) for part in conditions.split("&&")], axis=0)
            rows = Table()
            Table.left_open += 1
            rows.content = {name: column[..., chosen] for name, column in self.content.items()}
            return rows

    module = types.ModuleType("casatools")
    module.table = Table  # type: ignore[attr-defined]
    return module


def measurement_set(n: int = 40) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """XX, XY, YX and YY of three channels, with the phases of CASA's sign."""
    rng = np.random.default_rng(8)
    frequency = channels(230e9, 1e9, 3)
    uvw = rng.normal(scale=200, size=(3, n))
    u, v = (np.outer(frequency, metres) / 299792458.0 for metres in uvw[:2])
    data = rng.normal(size=(4, 3, n)) + 0j
    data[0] = data[3] = sky_visibilities(SKY, u, v).conj()
    antennas = np.array([[0, 1]] * n).T
    antennas[:, 5] = antennas[:, 6] = 3  # autocorrelations
    columns = {"UVW": uvw, "DATA": data, "WEIGHT": np.tile([[1.0], [9], [9], [3]], n), "ANTENNA1": antennas[0]}
    columns |= {"FLAG": np.zeros(data.shape, bool), "FLAG_ROW": np.zeros(n, bool), "ANTENNA2": antennas[1]}
    columns |= {"DATA_DESC_ID": np.full(n, 2), "FIELD_ID": np.zeros(n, int), "CORRECTED_DATA": 2 * data}
    columns["DATA_DESC_ID"][7] = columns["FIELD_ID"][8] = 1
    return columns, frequency


@pytest.fixture
def export(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Visibilities]:
    def run(columns: dict[str, np.ndarray], frequency: np.ndarray, codes: Any = (9, 10, 11, 12), **how: Any) -> Any:
        module = casatools(columns, list(codes), frequency)
        monkeypatch.setitem(sys.modules, "casatools", module)
        runpy.run_path(str(SNIPPET))["export_npz"]("some.ms", str(tmp_path / "a.npz"), ddid=2, **how)
        assert module.table.left_open == 0
        return read_npz(tmp_path / "a.npz")

    return run


def test_what_casa_exports_has_the_source_where_it_is(export: Callable[..., Visibilities]):
    columns, frequency = measurement_set()
    vis = export(columns, frequency)
    assert vis.data.shape == (3, 36)
    assert vis.data == pytest.approx(sky_visibilities(SKY, vis.uu, vis.vv))
    assert vis.uu[:, 0] == pytest.approx(columns["UVW"][0, 0] * frequency / 299792458.0)
    assert vis.frequency == pytest.approx(frequency)
    assert (vis.weight == 4).all()
    assert export(columns, frequency, column="CORRECTED_DATA").data == pytest.approx(2 * vis.data)
    columns["WEIGHT_SPECTRUM"] = np.arange(1.0, 4)[None, :, None] * np.ones((4, 3, 40))
    assert export(columns, frequency).weight[:, 0].tolist() == [2, 4, 6]


def test_casas_flags_are_of_each_hand(export: Callable[..., Visibilities]):
    columns, frequency = measurement_set()
    columns["DATA"][3] *= 5
    columns["FLAG"][0, 1, 10] = columns["FLAG"][3, 2, 11] = columns["FLAG"][1, 0, 12] = True
    columns["FLAG"][:, 0, 13] = columns["FLAG_ROW"][14] = True
    columns["DATA"][0, 1, 10] = np.nan
    vis = export(columns, frequency)
    source = sky_visibilities(SKY, vis.uu, vis.vv)
    ratio, kept = vis.data / source, np.delete(np.arange(40), [5, 6, 7, 8]).tolist()
    at = [kept.index(row) for row in (10, 11, 12, 13, 14)]
    assert ratio[1:, at[0]] == pytest.approx([5, 4])  # YY alone; both, by their weights
    assert ratio[1:, at[1]] == pytest.approx([4, 1])
    assert ratio[0, at[2]] == pytest.approx(4)  # XY does not matter
    assert vis.weight[:, at].T.tolist() == [[4, 3, 4], [4, 4, 1], [4, 4, 4], [0, 4, 4], [0, 0, 0]]
    assert (vis.flagged == (vis.weight == 0)).all()
