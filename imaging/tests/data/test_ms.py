"""The set and the exports in data/casa.tar.xz are CASA's own: benchmarks/casa/make_set.py made them."""

import runpy
import shutil
import sys
import tarfile
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firstlight_imaging.data.ms import read_ms
from firstlight_imaging.data.reading import read_visibilities
from firstlight_imaging.data.uvfits import read_uvfits
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.data.weights import check_weights
from firstlight_imaging.simulate.skies import Point, sky_visibilities

pytest.importorskip("arcae", reason="needs arcae")
tables = pytest.importorskip("casacore.tables", reason="needs python-casacore, which changes the sets")
SKY = [Point(0.5, 1.0, 0.3), Point(0.1, -0.4, 0.9)]
SNIPPET = Path(__file__).parents[3] / "docs/_snippets/casa_export.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("casa")
    with tarfile.open(Path(__file__).parents[1] / "casa.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def small(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "small.ms", tmp_path / "small.ms"))


def change(path: Path, column: str, values: Any, where: str = "ROWID()>=0") -> None:
    with tables.table(str(path), readonly=False, ack=False) as whole:
        for row in whole.query(where).rownumbers():
            whole.putcell(column, row, np.full_like(whole.getcell(column, row), values)[()])


def distance(vis: Visibilities) -> float:
    """Return how far reduced chi² of the known sky is from 1, in standard deviations."""
    seen = ~vis.flagged
    off = np.abs(vis.data - sky_visibilities(SKY, vis.uu, vis.vv))[seen] ** 2 * vis.weight[seen]
    return float(off.mean() / 2 - 1) * seen.sum() ** 0.5


def same(one: Visibilities, other: Visibilities) -> None:
    for name in ("uu", "vv", "data", "weight", "frequency", "window", "antennas", "time", "execution"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-12, abs=1e-9), name
    assert one.phase_centre == pytest.approx(other.phase_centre, abs=1e-10)
    assert (one.telescope, one.start) == (other.telescope, pytest.approx(other.start, abs=1e-3))


@pytest.mark.parametrize("field", ["disk", "quasar", 0, 1])
def test_a_set_of_casa_is_read(made: Path, field: Any):
    vis = read_ms(made / "small.ms", field=field)
    assert vis.data.shape == (6, 270)
    assert vis.frequency / 1e9 == pytest.approx([230, 230.05, 230.1, 230.15, 245, 244])
    assert vis.window.tolist() == [0, 0, 0, 0, 1, 1]
    assert [(vis.execution == k).sum() for k in (0, 1)] == [135, 135]
    assert vis.target == {0: "disk", 1: "quasar"}.get(field, field)
    assert 0.01 < vis.flagged[0].mean() < 0.2
    assert abs(distance(vis)) < 3
    without = (vis.antennas == 2).any(axis=1) & vis.flagged[4:].all(axis=0)  # the quasar's second window lacks rows
    assert without.sum() > 40 if field in ("quasar", 1) else without.sum() < 10


def test_casacore_reads_the_same(made: Path):
    vis = read_ms(made / "small.ms", field=0, windows=[0])
    selected = "FIELD_ID==0 && DATA_DESC_ID==0 && ANTENNA1!=ANTENNA2"
    with tables.table(str(made / "small.ms"), ack=False) as whole, whole.query(selected) as rows:
        columns = ("TIME", "ANTENNA1", "ANTENNA2", "DATA", "FLAG", "FLAG_ROW", "WEIGHT", "UVW")
        read = {name: rows.getcol(name) for name in columns}
    order = np.lexsort((read["ANTENNA2"], read["ANTENNA1"], read["TIME"]))
    data, flag, row, weight, uvw = (read[name][order] for name in columns[3:])
    good = ~flag.any(axis=2) & ~row[:, None]
    mean = (data * weight[:, None]).sum(axis=2) / weight.sum(axis=1, keepdims=True)
    assert (vis.antennas == np.stack([read["ANTENNA1"][order], read["ANTENNA2"][order]], axis=1)).all()
    assert vis.data.T[good] == pytest.approx(mean[good], rel=1e-6)
    assert not vis.flagged.T[good].any()
    assert vis.flagged.T[flag.all(axis=2) | row[:, None]].all()
    assert vis.uu[0] == pytest.approx(-uvw[:, 0] * vis.frequency[0] / 299_792_458)


def test_j2000_is_not_icrs_and_uvfits_cannot_tell(made: Path):
    disk, quasar = (read_ms(made / "small.ms", field=field).phase_centre for field in (0, 1))
    assert disk == pytest.approx((246.5, -24.5), abs=1e-10)
    with pytest.warns(UserWarning, match="channels"):
        written = read_uvfits(made / "quasar.0.uvfits").phase_centre
    off = 3.6e6 * np.subtract(quasar, written) * [np.cos(np.radians(12.25)), 1]
    assert off == pytest.approx([-17.952, -4.592], abs=0.002)  # as CASA's measures have it


def test_casas_exports_say_the_same(made: Path):
    vis = read_ms(made / "small.ms", field="disk")
    same(read_visibilities([made / "disk.0.npz", made / "disk.1.npz"]), vis)
    for window, channels in ((0, 4), (1, 2)):
        with pytest.warns(UserWarning, match=f"channels, {channels}"):
            written = read_uvfits(made / f"disk.{window}.uvfits")
        of_window = read_ms(made / "small.ms", field="disk", windows=[window])
        assert written.uu == pytest.approx(of_window.uu, abs=0.05)
        assert written.data == pytest.approx(of_window.data, abs=1e-6)
        assert channels * written.weight == pytest.approx(of_window.weight, rel=1e-6)
        assert written.phase_centre == pytest.approx(vis.phase_centre)
        assert (written.antennas == vis.antennas).all()
        assert written.antenna_names == vis.antenna_names == {k: f"A{k:02}" for k in range(10)}
        assert written.time + written.start == pytest.approx(vis.time + vis.start, abs=0.01)
        assert written.telescope == vis.telescope == "ALMA"
    with pytest.warns(UserWarning, match="channels"):  # which nothing in the file can tell
        whole = read_uvfits(made / "spectrum.0.uvfits")
    assert whole.weight == pytest.approx(vis.weight[:4], rel=1e-6)


def casatools() -> types.ModuleType:
    """The part of CASA's tools that the script uses, on python-casacore: rows last."""

    class Table:
        left_open = 0

        def open(self, name: Any, rows: Any = None):
            Table.left_open += 1
            self.content = rows or tables.table(name, ack=False)

        def close(self):
            Table.left_open -= "content" in vars(self)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.content, name)

        def getcol(self, name: str) -> np.ndarray:
            values = self.content.getcol(name).T
            return values.astype({"f": float, "c": complex}.get(values.dtype.kind, values.dtype))

        def query(self, conditions: str, sortlist: str) -> "Table":
            rows = Table()
            rows.open("", self.content.query(conditions, sortlist=sortlist))
            return rows

    class Metadata(Table):
        def part(self, name: str, column: str) -> Any:
            assert self.content.getkeyword(name)
            return tables.table(f"{self.content.name()}/{name}", ack=False).getcol(column)

        def fieldnames(self) -> list[str]:
            return list(self.part("FIELD", "NAME"))

        def antennanames(self) -> list[str]:
            return list(self.part("ANTENNA", "NAME"))

        def observatorynames(self) -> list[str]:
            return list(self.part("OBSERVATION", "TELESCOPE_NAME"))

        def chanfreqs(self, window: int) -> np.ndarray:
            return tables.table(f"{self.content.name()}/SPECTRAL_WINDOW", ack=False).getcell("CHAN_FREQ", window)

        def timesforfield(self, field: int) -> np.ndarray:
            return self.content.query(f"FIELD_ID=={field}").getcol("TIME")

        def phasecenter(self, field: int) -> dict[str, Any]:
            ra, dec = self.part("FIELD", "PHASE_DIR")[field, 0]
            return {"m0": {"value": ra}, "m1": {"value": dec}}

    module: Any = types.ModuleType("casatools")
    module.table, module.msmetadata = Table, Metadata
    module.measures = lambda: types.SimpleNamespace(measure=lambda place, frame: place)
    return module


@pytest.fixture
def export(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(*arguments: Any, **how: Any) -> Any:
        module = casatools()
        monkeypatch.setitem(sys.modules, "casatools", module)
        try:
            return runpy.run_path(str(SNIPPET))["export_npz"](*map(str, arguments), **how)
        finally:
            assert module.table.left_open == 0

    return run


def test_the_script_for_casa_writes_what_the_set_holds(export: Any, small: Path, tmp_path: Path):
    change(small, "WEIGHT", -1, "DATA_DESC_ID==0 && ANTENNA1==3")
    change(small, "WEIGHT", np.nan, "DATA_DESC_ID==1 && ANTENNA1==4")
    vis = read_ms(small, field=0)
    written = export(small, tmp_path / "my.npz")
    assert [Path(name).name for name in written] == ["my.0.npz", "my.1.npz"]
    same(read_visibilities(written), vis)
    assert (vis.flagged[:4, vis.antennas[:, 0] == 3]).all()
    assert not vis.flagged[4:, vis.antennas[:, 0] == 3].all()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"field": 7}, r"7; .*0 \(disk\), 1 \(quasar\)"),
        ({"field": -1}, "-1"),
        ({"column": "NONE"}, "NONE; it has DATA"),
    ],
)
def test_the_script_for_casa_names_what_is_wrong(export: Any, small: Path, tmp_path: Path, how: Any, message: str):
    with pytest.raises(ValueError, match=message):
        export(small, tmp_path / "my.npz", **how)
    assert not list(tmp_path.glob("*.npz"))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, r"2 fields.* 0 \(disk\), 1 \(quasar\)"),
        ({"field": 7}, "no field 7.*disk"),
        ({"field": "sky"}, "'sky'.*disk"),
        ({"field": 0, "column": "MODEL_DATA"}, "MODEL_DATA; it has DATA"),
        ({"field": 0, "windows": [1, 5]}, r"\[5\].* 0 to 1"),
    ],
)
def test_what_a_set_lacks_is_named(made: Path, how: Any, message: str):
    with pytest.raises(ValueError, match=message):
        read_ms(made / "small.ms", **how)


def test_several_rows_of_one_baseline_and_time_count_each_unless_they_are_flagged(small: Path):
    """As in a set from UVFITS whose times are rounded: rows of one integration have the time of the one before."""
    before = read_ms(small, field=0)
    with tables.table(str(small), readonly=False, ack=False) as whole:
        times = whole.getcol("TIME")
        order = np.unique(times)
        whole.putcol("TIME", order[np.searchsorted(order, times) // 2 * 2])
    change(small, "FLAG", True, "FIELD_ID==0 && ANTENNA1==3")
    vis = read_ms(small, field=0)
    kept = ~before.flagged & (before.antennas[:, 0] != 3)
    assert sorted(vis.weight[~vis.flagged]) == pytest.approx(sorted(before.weight[kept]))
    assert sorted(vis.data[~vis.flagged], key=abs) == pytest.approx(sorted(before.data[kept], key=abs))
    assert abs(distance(vis)) < 3
    assert not check_weights(vis).wrong


def test_rows_that_are_there_twice_are_refused(small: Path):
    with tables.table(str(small), readonly=False, ack=False) as whole:
        whole.copyrows(whole)
    with pytest.raises(ValueError, match=r"\d+ rows twice"):
        read_ms(small, field=0)


def test_a_set_that_cannot_be_used_says_why(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueError, match="no measurement set"):
        read_ms(tmp_path)
    change(small, "FLAG", True, "FIELD_ID==0")
    with pytest.raises(ValueError, match="flagged throughout"):
        read_ms(small, field=0)
    change(small / "FIELD", "PhaseDir_Ref", 6)  # a code that the table does not know
    assert read_ms(small, field=1).phase_centre is None
    change(small / "POLARIZATION", "CORR_TYPE", [10, 11])
    with pytest.raises(ValueError, match="RR or LL"):
        read_ms(small, field=1)
    shutil.rmtree(small / "SPECTRAL_WINDOW")  # as where a copy was cut off
    with pytest.raises(ValueError, match="SPECTRAL_WINDOW"):
        read_ms(small, field=1)
    monkeypatch.setitem(sys.modules, "arcae", None)
    with pytest.raises(ImportError, match=r"pip install .arcae"):
        read_ms(small, field=1)
