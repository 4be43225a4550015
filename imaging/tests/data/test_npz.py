import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.npz import read_npz
from firstlight_imaging.data.weights import check_weights
from firstlight_imaging.fourier.limits import check_image_grid
from firstlight_imaging.simulate.skies import Point, sky_visibilities
from firstlight_imaging.units import LIGHT_SPEED

SKY = [Point(0.5, 1.0, 0.3), Point(0.1, -0.4, 0.9)]  # off-centre, and of no symmetry


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
    with pytest.raises(ValueError, match="lambda"):
        read_npz(saved(tmp_path / "b.npz", long))


@pytest.mark.parametrize(
    ("shortest", "longest", "factor"),
    [(12, 12_000, 1000), (200, 5_000, 1000), (2e5, 8e9, 1), (5e3, 7.5e5, None), (2e4, 7e4, None)],
)
def test_baselines_of_data_in_parts_are_in_the_one_unit_that_is_possible(tmp_path, shortest, longest, factor):
    uv = {"uu": np.geomspace(shortest, longest, 18).reshape(2, 9), "vv": np.zeros((2, 9))}
    path = saved(tmp_path / "a.npz", old(arrays()) | uv)
    if factor:
        assert read_npz(path).uu == pytest.approx(factor * uv["uu"])
    else:
        with pytest.raises(ValueError, match="--unit"):
            read_npz(path)


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
AGAIN = {key: np.hstack([part, part]) for key, part in arrays().items()}
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
    ({key: np.delete(part, [2, 7, 11], axis=1) for key, part in TWICE.items()}, "Hermitian"),  # some were flagged
    (AGAIN, "twice"),
    (AGAIN | {"data": AGAIN["data"] * np.repeat([1, 1 + 1e-7], 9)}, "twice"),
    ({"unit": np.array("mJy")}, "unit"),
    ({"frequencies": [1400.0, 1401.0]}, "MHz"),
    ({"frequencies": [0.0013, 0.0014]}, "wavelength"),
    ({"frequencies": [230e12, 231e12]}, "frequencies"),
    ({"antennas": np.full((9, 2), -5)}, "antennas"),
    ({"antennas": np.arange(18).reshape(9, 2) / 2}, "antennas must be whole"),
    ({"time": 2457000.5 + np.arange(9) / 86400}, "Julian"),
    ({"start": [1.0, 2.0]}, "start must be 1 number"),
    ({"start": 1e30}, "start must be in seconds"),
    ({"time": np.full(9, -1e30)}, "time must be in seconds"),
    ({"phase_centre": [1.0, 2.0, 3.0]}, "phase_centre must be 2 numbers"),
    ({"phase_centre": [1e300, -24.0]}, "must be in degrees"),
]


@pytest.mark.parametrize(("changed", "message"), BROKEN)
def test_a_file_that_cannot_be_used_says_why(tmp_path, changed: dict[str, Any], message: str):
    path = saved(tmp_path / "a.npz", changed)
    with pytest.raises(ValueError, match=message) as caught:
        read_npz(path)
    assert str(caught.value).startswith(str(path))


def test_a_name_may_be_bytes_and_frequencies_may_be_in_ghz(tmp_path):
    vis = read_npz(saved(tmp_path / "a.npz", {"target": np.array(b"M8\x1b7"), "frequencies": [230.0, 231.0]}))
    assert vis.target == "M87"
    assert vis.frequency == pytest.approx([230e9, 231e9])


def test_what_is_far_larger_than_its_file_is_not_loaded(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("uu.npy", "w") as member:
        for _ in range(1100):
            member.write(bytes(2**20))
    with pytest.raises(ValueError, match="unpack to"):
        read_npz(path)


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


def test_antennas_times_and_where_it_was_taken_are_kept(tmp_path):
    known = {"antennas": np.arange(18).reshape(9, 2), "time": np.arange(9.0), "execution": np.ones(9, int)}
    known |= {"start": 5.2e9, "phase_centre": [-113.5, -24.5], "telescope": "ALMA"}
    known |= {"antenna_names": ["DA41", "", "DV02"]}
    vis = read_npz(saved(tmp_path / "a.npz", known))
    assert [vis.name_of(k) for k in range(4)] == ["DA41", "1", "DV02", "3"]
    assert (vis.phase_centre, vis.telescope, vis.start) == ((246.5, -24.5), "ALMA", 5.2e9)
    assert all((getattr(vis, key) == known[key]).all() for key in ("antennas", "time", "execution"))
    unknown = read_npz(saved(tmp_path / "b.npz"))
    assert (unknown.phase_centre, unknown.telescope, unknown.start) == (None, "", None)
    assert not unknown.antennas.any()
    wrong = {"time": np.arange(8.0), "antennas": np.arange(9), "phase_centre": [np.nan, 0], "start": "now"}
    for key, value in wrong.items():
        with pytest.raises(ValueError, match=key):
            read_npz(saved(tmp_path / "c.npz", {key: value}))


def test_baselines_in_metres_need_frequencies(tmp_path):
    frequency = np.array([230e9, 245e9])
    metres = {key: arrays()[key] / 1000 for key in ("uu", "vv")}
    with pytest.raises(ValueError, match="metres"):
        read_npz(saved(tmp_path / "a.npz", metres))
    with pytest.raises(ValueError, match="frequencies"):
        read_npz(tmp_path / "a.npz", unit="metres")
    vis = read_npz(saved(tmp_path / "b.npz", metres | {"frequencies": frequency}), unit="metres")
    assert vis.uu == pytest.approx(metres["uu"] * frequency[:, None] / LIGHT_SPEED)
