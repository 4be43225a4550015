"""The page of tclean's words names options and files that exist, and its snippets run."""

import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from astropy import units
from astropy.io import fits

from firstlight.cli import main
from firstlight_imaging import read_visibilities
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.fourier.beams import Beam
from firstlight_imaging.products.fits_images import read_mask, write_image
from firstlight_imaging.products.whole_set import SUFFIXES

PAGE = (Path(__file__).parents[1] / "docs" / "tclean.md").read_text(encoding="utf-8")
CASA = Path(__file__).parents[1] / "imaging" / "tests" / "casa.tar.xz"


def snippet(beginning: str) -> str:
    """The only one that has some words."""
    [found] = [code for code in re.findall(r"^```python\n(.+?)^```$", PAGE, re.M | re.S) if beginning in code]
    return found


MASK, NPZ = snippet("my.mask.fits"), snippet("np.savez")


def test_its_options_are_those_of_the_command(capsys):
    with pytest.raises(SystemExit):
        main(["image", "--help"])
    assert set(re.findall(r"`(--[a-z-]+)", PAGE)) <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))


def test_its_files_are_those_that_are_written():
    first = " ".join(re.findall(r"^\| (`my\..*?) \|", PAGE, re.MULTILINE))
    assert set(re.findall(r"`my\.(.+?)`", first)) == set(SUFFIXES)


def test_its_mask_is_a_circle_of_the_image(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    coords = GridCoords(0.1, 128)
    Path("images").mkdir()
    where = {"unit": "Jy/pixel", "frequencies": [1e9], "ra": 10.0, "dec": 20.0}
    write_image("images/my.image.fits", np.ones((1, 128, 128)), coords, **where)
    exec(MASK, {"np": np, "fits": fits})
    mask = read_mask("my.mask.fits", (10.0, 20.0))(*coords.sky_coordinates())
    assert mask.sum() == pytest.approx(np.pi * 25**2, rel=0.02)


def test_its_npz_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    u, ones = np.array([2e5, 3e5]), np.ones(2)
    pairs = np.array([[0, 1], [0, 2]])
    exec(NPZ, {"np": np, "u": u, "v": u, "real": ones, "imag": ones, "sigma": ones, "pairs": pairs, "seconds": ones})
    vis = read_visibilities("my.npz")
    assert vis.data.tolist() == [[1 - 1j, 1 - 1j]]
    assert (vis.antennas == pairs).all()


def test_its_units_are_those_of_a_star_and_of_astropy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    coords, beam = GridCoords(0.1, 128), Beam(1.3, 0.9, 20)
    x, y = coords.sky_coordinates()
    angle = np.radians(20)
    along, across = x * np.sin(angle) + y * np.cos(angle), x * np.cos(angle) - y * np.sin(angle)
    star = 0.5 * np.exp(-4 * np.log(2) * ((along / 1.3) ** 2 + (across / 0.9) ** 2))  # 0.5 Jy
    Path("images").mkdir()
    where = {"unit": "Jy/beam", "frequencies": [230e9], "ra": 10.0, "dec": 20.0, "beam": beam}
    write_image("images/my.restored.fits", star[None], coords, **where)
    names = {"region": np.hypot(x, y) < 4, "empty": np.hypot(x, y) > 5}
    exec(snippet("BMAJ"), names)
    assert names["flux"] == pytest.approx(0.5, rel=1e-3)
    assert names["per_arcsec2"].sum() * 0.1**2 == pytest.approx(0.5, rel=1e-3)
    area = np.pi / (4 * np.log(2)) * 1.3 * 0.9 * units.arcsec**2
    as_kelvin = units.brightness_temperature(230 * units.GHz, beam_area=area)
    kelvin = (star.max() * units.Jy / units.beam).to(units.K, as_kelvin)
    assert names["kelvin"].max() == pytest.approx(kelvin.value, rel=1e-3)
    names["image"] = np.random.default_rng(1).normal(scale=0.01, size=star.shape)
    exec(snippet("beams ="), names)
    expected = 0.01 * (np.pi * 4**2 / (1.1331 * 1.3 * 0.9)) ** 0.5
    assert names["error"] == pytest.approx(np.hypot(expected, 0.05), rel=0.02)


def test_it_reads_a_measurement_set_in_both_ways(tmp_path, monkeypatch):
    pytest.importorskip("arcae")
    with tarfile.open(CASA) as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "small.ms").rename(tmp_path / "my.ms")
    monkeypatch.chdir(tmp_path)
    whole: dict = {}
    exec(snippet("read_ms"), whole)
    columns: dict = {}
    exec(snippet("import arcae"), columns)
    assert columns["data"].shape[:2] == columns["flag"].shape[:2] == columns["u_in_waves"].shape[::-1]
    assert len(columns["frequency"]) == columns["data"].shape[1]
    ours = whole["vis"].uu[whole["vis"].window == 0]
    assert {*np.round(ours.ravel(), 3)} <= {*np.round(columns["u_in_waves"].ravel(), 3)}
